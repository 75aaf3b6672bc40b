//! Files that are mounted by themselves: a Kubernetes `subPath`, a container's bind mount of one file. Whatever takes
//! their place outside is not seen inside.

use std::fs;
use std::path::Path;

/// Whether something is mounted at `path` itself, as far as the system says.
pub fn is_mount_point(path: &Path) -> bool {
    let Ok(path) = fs::canonicalize(path) else {
        return false;
    };
    let mounts = fs::read("/proc/self/mountinfo").unwrap_or_default();
    points(&mounts).any(|point| point == path.as_os_str().as_encoded_bytes())
}

/// The mount points in a text as `/proc/self/mountinfo` has it.
fn points(mounts: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    mounts
        .split(|byte| *byte == b'\n')
        .filter_map(|line| line.split(|byte| *byte == b' ').nth(4))
        .map(unescape)
}

/// Blanks and backslashes are written there as `\` and three octal digits.
fn unescape(escaped: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(escaped.len());
    let mut rest = escaped;
    while let Some((first, after)) = rest.split_first() {
        let code = after
            .get(..3)
            .filter(|_| *first == b'\\')
            .and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        plain.push(code.unwrap_or(*first));
        rest = if code.is_some() { &after[3..] } else { after };
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_points_are_found_and_unescaped() {
        let mounts = br"22 1 0:21 / / rw - overlay overlay rw
31 22 8:1 /var/lib/kubelet/pods/1/volume-subpaths/policy/0 /etc/comporta/policy.yaml ro - ext4 /dev/sda1 ro
32 22 8:1 /x /mnt/a\040b\134c rw - ext4 /dev/sda1 rw
";
        let found: Vec<_> = points(mounts).collect();
        assert_eq!(found, [&b"/"[..], b"/etc/comporta/policy.yaml", br"/mnt/a b\c"]);
    }

    #[test]
    fn a_file_of_a_folder_is_none() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        assert!(!is_mount_point(file.path()));
        assert!(!is_mount_point(Path::new("no/such/file")));
    }
}
