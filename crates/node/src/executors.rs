//! The kinds of executor: commands, functions and HTTP requests.

mod command;
mod counts;
mod dataflow;
mod function;
mod http;
mod report;

pub(crate) use command::CommandExecutor;
pub(crate) use counts::ItemCounts;
pub use dataflow::FetchOutput;
pub(crate) use dataflow::StreamEndCheck;
pub(crate) use function::FunctionExecutor;
pub use function::{FunctionOutput, Functions, RunContext};
pub(crate) use http::HttpExecutor;
pub use http::Network;
