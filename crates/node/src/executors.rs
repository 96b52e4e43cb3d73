//! The kinds of executor: what a run can be.

mod command;
mod function;

pub(crate) use command::CommandRuns;
pub(crate) use function::FunctionRuns;
pub use function::{FunctionOutput, Functions, RunContext};
