//! A folder for what the bench starts, gone with it.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use super::error::BenchError;

/// A folder of our own.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new() -> Result<Self, BenchError> {
        let path = std::env::temp_dir().join(format!("comporta-bench-{}", std::process::id()));
        DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .map_err(BenchError::io(format!("make {}", path.display())))?;
        Ok(Self(path))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file in it.
    pub(super) fn write(&self, name: &str, text: &str) -> Result<PathBuf, BenchError> {
        let path = self.0.join(name);
        fs::write(&path, text).map_err(BenchError::io(format!("write {}", path.display())))?;
        Ok(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Whatever cleans up there will find it.
        let _ = fs::remove_dir_all(&self.0);
    }
}
