//! The kinds of executor: what a run can be.

mod command;
mod function;
mod http;
mod report;

pub(crate) use command::CommandRuns;
pub(crate) use function::FunctionRuns;
pub use function::{FunctionOutput, Functions, RunContext};
pub use http::Network;
pub(crate) use http::{Egress, HttpRuns};
