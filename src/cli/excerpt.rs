//! The line that a problem is about, and a mark below the part that is meant.

use std::fmt::Write;

use crate::policy::problem::Spot;

/// The most characters of a line that are shown.
const WIDEST: usize = 110;

/// How many characters stand in front of the part that is meant, where a line is cut.
const BEFORE: usize = 40;

/// Two lines: the one at `spot` of the file `bytes`, and `mark`s below what is meant. Nothing if there is no such line.
pub fn excerpt(bytes: &[u8], spot: Spot, mark: char) -> String {
    let Some(line) = bytes.split(|byte| *byte == b'\n').nth(spot.line as usize - 1) else {
        return String::new();
    };
    let line: Vec<char> = String::from_utf8_lossy(line)
        .trim_end()
        .chars()
        .map(harmless)
        .collect();
    let column = (spot.column as usize - 1).min(line.len());
    let from = if line.len() > WIDEST {
        column.saturating_sub(BEFORE)
    } else {
        0
    };
    let to = line.len().min(from + WIDEST);
    let width = (spot.width as usize).clamp(1, (to - column).max(1));
    let number = spot.line.to_string();
    let before = if from > 0 { "…" } else { "" };
    let behind = if to < line.len() { "…" } else { "" };
    let shown: String = line[from..to].iter().collect();
    let blank = " ".repeat(column - from + before.chars().count());
    let marks = mark.to_string().repeat(width);
    let mut excerpt = String::new();
    let _ = writeln!(excerpt, "  {number} | {before}{shown}{behind}");
    let _ = writeln!(excerpt, "  {} | {blank}{marks}", " ".repeat(number.len()));
    excerpt
}

/// Nothing in a file may move the cursor of a terminal.
fn harmless(character: char) -> char {
    match character {
        '\t' => ' ',
        '\u{feff}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '·',
        character if character.is_control() => '·',
        character => character,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_stands_below_what_is_meant() {
        let check = |text: &[u8], (line, column, width): (u32, u32, u32), expected: &str| {
            assert_eq!(excerpt(text, Spot { line, column, width }, '^'), expected);
        };
        check(
            b"a\nkey: value\r\n",
            (2, 6, 5),
            "  2 | key: value\n    |      ^^^^^\n",
        );
        check(b"a\tb\x1b[31m", (1, 3, 1), "  1 | a b·[31m\n    |   ^\n");
        check("ä: ö".as_bytes(), (1, 4, 9), "  1 | ä: ö\n    |    ^\n");
        check(b"a", (1, 2, 1), "  1 | a\n    |  ^\n");
        check(b"a", (7, 1, 1), "");
        let long = [b"x".repeat(100), b"here".to_vec(), b"y".repeat(200)].concat();
        let shown = format!(
            "  1 | …{}here{}…\n    | {}^^^^\n",
            "x".repeat(40),
            "y".repeat(66),
            " ".repeat(41)
        );
        check(&long, (1, 101, 4), &shown);
    }
}
