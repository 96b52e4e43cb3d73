//! The binary `evenkeel`: a node with its HTTP API and console, and the command line that calls it.

mod api;
mod bench;
mod bounded;
mod cli;
mod client;
mod compat;
mod console;
mod contexts;
mod crontab;
mod escaping;
#[cfg(test)]
mod examples;
mod exit;
mod file_version;
mod files;
mod group_roles;
mod heartbeat;
mod host;
mod identity;
mod import;
mod join;
mod key;
mod listen;
mod local_time;
mod log_dedup;
mod logging;
mod oidc;
mod otlp;
mod output;
mod peer;
mod proxies;
mod queries;
mod record_rows;
mod request;
mod rival;
mod serve;
mod settings;
mod state_folder;
mod text_input;
mod tls;
mod upgrade;
mod zones;

use std::process::ExitCode;

use mimalloc::MiMalloc;

/// Threads of a node free each other's memory thousands of times a second; with the system's allocator they would wait
/// for each other.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    // The guard process of a node is this program too; it never returns from here.
    evenkeel::guard::run_if_asked();
    cli::run()
}
