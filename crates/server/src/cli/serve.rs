//! `evenkeel serve` and `evenkeel dev`: a node in this process.

use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use clap::Args;
use evenkeel::Handle;
use evenkeel_core::ids::counted;
use evenkeel_core::input::{Answer, Command};
use evenkeel_core::job::{CatchUp, JobFile, Work};
use evenkeel_core::time::Millis;

use crate::api::link_path;
use crate::exit::{CliError, ExitKind};
use crate::serve::StartedNode;
use crate::settings::SettingsArgs;
use crate::{logging, output, queries, serve};

/// How long the link that `dev` prints lasts, until it is used.
const DEV_LINK_LASTS: Millis = Millis::secs(24 * 3_600);

/// `evenkeel serve`.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// A TOML file with the same settings, named without the leading dashes; the environment and flags override it
    #[arg(long, value_name = "FILE", env = "EVENKEEL_CONFIG")]
    config: Option<PathBuf>,
    #[command(flatten)]
    written: SettingsArgs,
}

/// `evenkeel dev`.
#[derive(Debug, Args)]
pub(crate) struct DevArgs {
    /// The folder for all data
    #[arg(long, value_name = "DIR", default_value = "evenkeel-data")]
    data: PathBuf,
    /// The port of the HTTP interface; 0 for any free port
    #[arg(long, default_value_t = crate::settings::PORT)]
    port: u16,
    /// Non-public networks that http jobs may reach, such as 127.0.0.1; give several with commas or by repeating the flag
    #[arg(long, value_name = "CIDR", value_delimiter = ',')]
    http_allow: Vec<String>,
    /// The format of the log: text or json; text by default
    #[arg(long, value_name = "FORMAT", env = "EVENKEEL_LOG_FORMAT")]
    log_format: Option<String>,
    /// The address of an OpenTelemetry collector that takes OTLP over HTTP, to which traces of runs and the log are sent, such as http://localhost:4318; none by default
    #[arg(long, value_name = "URL", env = "EVENKEEL_OTLP_ENDPOINT", hide_env_values = true)]
    otlp_endpoint: Option<String>,
}

/// Runs a node of a cluster.
///
/// # Errors
/// The node cannot start, or it stops by itself.
pub(crate) fn serve(args: ServeArgs) -> Result<(), CliError> {
    // The file may have the format of the log. Where it cannot be read, flags and the environment have it.
    let (below, unread) = match args.config.as_deref().map(SettingsArgs::read).transpose() {
        Ok(below) => (below.unwrap_or_default(), Ok(())),
        Err(why) => (SettingsArgs::default(), Err(why)),
    };
    let written = args.written.merged_over(below);
    let repeats = logging::start("info", written.log_format()?)?;
    unread?;
    let meant = written.resolve()?;
    let tls = meant.tls.mode;
    serve::run_node(meant, repeats, async move |node: StartedNode| {
        let (name, address) = (node.handle.name(), node.address);
        print_banner(&format!(
            "evenkeel {name} answers at {}://{address}/",
            tls.scheme(&address.to_string())
        ));
        Ok(())
    })
}

/// Runs a single node for trials, with two harmless jobs.
///
/// # Errors
/// The node cannot start, or it stops by itself.
pub(crate) fn dev(args: &DevArgs) -> Result<(), CliError> {
    let telemetry = SettingsArgs {
        log_format: args.log_format.clone(),
        otlp_endpoint: args.otlp_endpoint.clone(),
        ..SettingsArgs::default()
    };
    let repeats = logging::start("warn", telemetry.log_format()?)?;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&args.data).map_err(|e| {
        let data = args.data.display();
        CliError::new(
            ExitKind::Failed,
            format!("the data folder {data} cannot be made ({e}): choose another --data"),
        )
    })?;
    let written = SettingsArgs {
        registry: Some(format!("sqlite:{}", args.data.join("registry.db").display())),
        name: Some("dev".to_owned()),
        port: Some(args.port.into()),
        data: Some(args.data.join("node")),
        http_allow: args.http_allow.clone(),
        // It has no other node to take over, and may be stopped with Ctrl-Z.
        watchdog: Some("off".to_owned()),
        // A trial runs as the user that starts it.
        command_users: vec!["own".to_owned()],
        ..telemetry
    };
    let data = args.data.clone();
    serve::run_node(written.resolve()?, repeats, async move |node: StartedNode| {
        let what = demo(&node.handle).await?;
        let code = node.access.login_codes.give(
            node.access.key_subject(),
            evenkeel::clock::now().mono,
            DEV_LINK_LASTS,
        )?;
        print_banner(&banner(&what, node.address, &link_path(&code), &data));
        Ok(())
    })
}

/// Prints that the node is up. A failed print is no failure of the node.
fn print_banner(text: &str) {
    if output::line(text).is_err() {
        tracing::warn!("nobody reads standard output");
    }
}

/// Declares the demo jobs, unless there are jobs already; returns a message about it.
async fn demo(handle: &Handle) -> Result<String, CliError> {
    let mut changes = handle.changes();
    while !queries::is_member(handle) {
        if changes.changed().await.is_err() {
            return Ok("it ends already".to_owned());
        }
    }
    if queries::has_jobs(handle) {
        return Ok(format!("with {} that may fire", counted(queries::enabled(handle), "job")));
    }
    let hello = ["/bin/sh", "-c", "echo \"hello from $EVENKEEL_NODE, due at $EVENKEEL_DUE\""];
    let jobs = [("demo-hello", "@every 2s", &hello[..]), ("demo-date", "@every 5s", &["/bin/date"][..])];
    let mut declared = Vec::new();
    for (name, schedule, command) in jobs {
        let name = name.parse().map_err(|e| CliError::new(ExitKind::Failed, format!("{e}")))?;
        let command = command.iter().map(ToString::to_string).collect();
        let mut job = JobFile::new(name, schedule, Work::Command(command));
        job.catch_up = CatchUp::Skip;
        job.description = "a demo; delete it whenever you like".to_owned();
        declared.push(job);
    }
    match handle.ask(Command::Apply(declared)).await {
        Answer::Refused(_, why) => {
            Err(CliError::new(ExitKind::Failed, format!("the demo jobs are refused: {why}")))
        }
        _ => Ok("and two demo jobs are ticking".to_owned()),
    }
}

fn banner(what: &str, address: SocketAddr, link: &str, data: &Path) -> String {
    let server = if address.port() == crate::settings::PORT {
        String::new()
    } else {
        format!(" --server http://{address}")
    };
    // As it was typed, so that the lines work from the same folder.
    let program = std::env::args().next().unwrap_or_else(|| "evenkeel".to_owned());
    format!(
        "\n  Evenkeel is up, {what}.\n\n    \
         console   http://{address}{link}\n    \
         data      {}\n\n  \
         In another terminal:\n\n    \
         {program} job list{server}\n    \
         {program} run list{server}\n    \
         crontab -l | {program} import crontab - --dry-run\n\n  \
         Ctrl-C hands over and ends.\n",
        data.display()
    )
}
