//! The kinds of executor: what a run can be.

mod command;
mod counts;
mod dataflow;
mod function;
mod http;
mod report;

pub(crate) use command::CommandRuns;
pub(crate) use counts::Counts;
pub(crate) use dataflow::Ends;
pub use dataflow::FetchOutput;
pub(crate) use function::FunctionRuns;
pub use function::{FunctionOutput, Functions, RunContext};
pub(crate) use http::HttpRuns;
pub use http::Network;
