//! The words everything else is said in: no I/O, no async, no clock.

pub mod check;
pub mod descriptor;
pub mod limit;
pub mod promise;
pub mod quantity;
pub mod time;
pub mod verdict;
