//! Numbers that one core adds to and a scrape reads.

use std::sync::atomic::{AtomicU64, Ordering};

/// Cells per line: 128 bytes, for processors fetch cache lines in pairs.
const LINE: usize = 16;

/// Two cores never write to one line, so neither waits for the other.
#[repr(align(128))]
#[derive(Debug, Default)]
struct Line([AtomicU64; LINE]);

/// The cells of one core, named by number. Adding takes no lock and meets no other core.
#[derive(Debug)]
pub(super) struct Cells(Box<[Line]>);

impl Cells {
    /// `count` cells at zero.
    pub(super) fn new(count: usize) -> Self {
        Self((0..count.div_ceil(LINE)).map(|_| Line::default()).collect())
    }

    /// Adds `amount` to a cell; a number that names none is ignored.
    pub(super) fn add(&self, cell: usize, amount: u64) {
        if let Some(line) = self.0.get(cell / LINE) {
            line.0[cell % LINE].fetch_add(amount, Ordering::Relaxed);
        }
    }

    /// What was added to a cell so far.
    pub(super) fn get(&self, cell: usize) -> u64 {
        self.0
            .get(cell / LINE)
            .map_or(0, |line| line.0[cell % LINE].load(Ordering::Relaxed))
    }
}
