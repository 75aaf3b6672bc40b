//! Between the wire and the stores: reads what is asked, has it decided, shapes the answer.

pub mod answer;
pub mod convert;
pub mod headers;
pub mod limiter;
pub mod live;
pub mod observer;
mod plan;
mod refusal;
mod rls;
mod throttle;
