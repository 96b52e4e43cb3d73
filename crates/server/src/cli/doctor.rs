//! `evenkeel cluster doctor`: checks whether the registry is suitable, and prints how to correct each fault.

use std::path::PathBuf;

use clap::Args;
use evenkeel::diagnose::Finding;
use serde::Serialize;

use crate::exit::{CliError, ExitKind};
use crate::identity::ClusterIdentity;
use crate::output::{self, OutputFormat, TableRow};
use crate::settings::SettingsArgs;

/// `evenkeel cluster doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// The address of the registry, as for `serve`
    #[arg(long, value_name = "URL", env = "EVENKEEL_REGISTRY", hide_env_values = true)]
    registry: Option<String>,
    /// The TOML file that `serve` is started with
    #[arg(long, value_name = "FILE", env = "EVENKEEL_CONFIG")]
    config: Option<PathBuf>,
    /// The file with the cluster's identity, to see whether nodes of the cluster wrote what is in the registry; by default this host's
    #[arg(long, value_name = "FILE", env = "EVENKEEL_IDENTITY")]
    identity: Option<PathBuf>,
    /// The format of the answer
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    output: OutputFormat,
}

/// A finding, as printed.
#[derive(Debug, Serialize)]
struct FindingRow {
    check: String,
    ok: bool,
    /// Whether it is only a warning, if it is not ok.
    warning: bool,
    found: String,
    fix: Option<String>,
}

impl From<Finding> for FindingRow {
    fn from(finding: Finding) -> Self {
        let Finding { check, found, fix, mild } = finding;
        Self { check, ok: fix.is_none(), warning: mild, found, fix }
    }
}

impl TableRow for FindingRow {
    const HEADS: &'static [&'static str] = &["check", "", "found", "what to do"];
    fn cells(&self) -> Vec<String> {
        let verdict = match (self.ok, self.warning) {
            (true, _) => "ok",
            (false, true) => "warning",
            (false, false) => "WRONG",
        };
        let fix = self.fix.clone().unwrap_or_else(|| "-".to_owned());
        vec![self.check.clone(), verdict.to_owned(), self.found.clone(), fix]
    }
}

/// Checks the registry, prints the findings, and fails if there is a fault.
///
/// # Errors
/// There is a fault, or the registry cannot be opened.
pub(crate) fn run(args: &DoctorArgs) -> Result<(), CliError> {
    let below = args.config.as_deref().map(SettingsArgs::read).transpose()?.unwrap_or_default();
    let url = args.registry.clone().or(below.registry);
    let url = url.ok_or_else(|| CliError::usage("say --registry URL: the address of the registry"))?;
    let named = args.identity.clone().or(below.identity);
    let own = || ClusterIdentity::path(None).ok().filter(|path| path.exists());
    let identity = named.or_else(own).map(|path| ClusterIdentity::read(&path)).transpose()?;
    let identity = identity.map(|identity| identity.of_node());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|e| CliError::new(ExitKind::Failed, format!("no runtime: {e}")))?;
    let found = runtime.block_on(evenkeel::diagnose::examine(&url, identity.as_ref()));
    runtime.shutdown_background();
    let found = found.map_err(|error| CliError::new(ExitKind::Failed, error.to_string()))?;
    let found: Vec<_> = found.into_iter().map(FindingRow::from).collect();
    output::list(args.output, &found, "")?;
    let wrong: Vec<_> = found.iter().filter(|it| !it.ok && !it.warning).map(|it| it.check.as_str()).collect();
    if wrong.is_empty() {
        return Ok(());
    }
    let wrong = wrong.join(", ");
    Err(CliError::new(ExitKind::Failed, format!("the registry is not fit: {wrong}: do what the list says")))
}
