//! What an operator sees: metrics and logs. Sits above service and store, and listens to what they report.

mod by_value;
pub mod catalog;
mod cells;
mod ledger;
pub mod logs;
pub mod metrics;
mod reloads;
mod stores;
