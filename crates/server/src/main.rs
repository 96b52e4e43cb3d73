//! The binary `evenkeel`: a node with its HTTP interface and console, and the command line that talks to one.

mod api;
mod api_types;
mod bounded;
mod cli;
mod client;
mod compat;
mod console;
mod crontab;
mod escaping;
#[cfg(test)]
mod examples;
mod exit;
mod files;
mod host;
mod key;
mod kubernetes;
mod listen;
mod log_dedup;
mod output;
mod peer;
mod queries;
mod request;
mod serve;
mod settings;
mod text_input;
mod upgrade;
mod zones;

use std::process::ExitCode;

use mimalloc::MiMalloc;

/// What one thread of a node makes another one lets go, thousands of times a second: the system's allocator has them wait for
/// each other.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    // The guard of a node is this program too; it never comes back from here.
    evenkeel::guard::run_if_asked();
    cli::run()
}
