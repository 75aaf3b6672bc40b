//! Between the wire and the stores: reads what is asked, has it decided, shapes the answer; binds, serves, drains.

pub mod admin;
mod afresh;
pub mod answer;
pub mod asker;
pub mod baseline;
pub mod call;
pub mod client;
mod connection;
pub mod decode;
mod draft;
pub mod encode;
pub mod field;
pub mod headers;
pub mod health;
mod json;
pub mod limiter;
pub mod live;
pub mod observer;
pub mod options;
mod plan;
#[cfg(test)]
mod properties;
pub(crate) mod random;
mod refusal;
pub mod reload;
mod rls;
pub mod server;
pub mod source;
mod threads;
pub(crate) mod throttle;
mod unary;
mod worker;
