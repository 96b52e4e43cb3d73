//! The binary `evenkeel`: a node with its HTTP interface and console, and the command line that talks to one.

mod cli;
mod client;
mod crontab;
mod exit;
mod files;
mod host;
mod output;
mod request;
mod rows;
mod zones;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run()
}
