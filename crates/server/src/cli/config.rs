//! `evenkeel config check`: the settings that `serve` would use, and where each is from.

use std::path::{Path, PathBuf};

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command, Subcommand};
use serde::Serialize;
use toml::{Table, Value};

use crate::exit::CliError;
use crate::output::{self, OutputFormat, TableRow, or_dash};
use crate::settings::SettingsArgs;

/// The settings that are addresses, which may have passwords in them.
const ADDRESSES: [&str; 3] = ["registry", "history", "otlp_endpoint"];
/// The settings that are secret.
const SECRETS: [&str; 1] = ["join"];
/// The settings that only the file has.
const FILE_ONLY: [&str; 2] = ["notify", "heartbeat"];
/// What is shown instead of a secret.
const HIDDEN: &str = "(not shown)";

/// What can be done with settings.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Show the settings that `serve` would use, with the source of each, but no secret; fails if one is not valid
    Check(Box<ConfigCheckArgs>),
}

/// `config check`.
#[derive(Debug, Args)]
pub(crate) struct ConfigCheckArgs {
    /// The TOML file that `serve` is started with
    #[arg(long, value_name = "FILE", env = "EVENKEEL_CONFIG")]
    config: Option<PathBuf>,
    /// Also show the settings that have their defaults
    #[arg(long)]
    all: bool,
    /// The format of the answer
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    output: OutputFormat,
    #[command(flatten)]
    written: SettingsArgs,
}

/// A setting with its source.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct SettingRow {
    name: String,
    /// What is written; none if nothing is.
    value: Option<String>,
    /// The flag, the variable or the file that it is from, or `default`.
    source: String,
}

impl TableRow for SettingRow {
    const HEADS: &'static [&'static str] = &["name", "value", "source"];
    fn cells(&self) -> Vec<String> {
        vec![self.name.clone(), or_dash(self.value.as_deref()), self.source.clone()]
    }
}

/// Runs the command.
///
/// # Errors
/// A setting is invalid or missing, or the file cannot be read.
pub(crate) fn run(verb: ConfigCommand) -> Result<(), CliError> {
    let ConfigCommand::Check(args) = verb;
    let below = args.config.as_deref().map(SettingsArgs::read).transpose()?.unwrap_or_default();
    let file = args.config.as_deref().map(table).transpose()?.unwrap_or_default();
    let matches = super::command().try_get_matches_from(super::arguments());
    let matches = matches.map_err(|e| CliError::usage(e.to_string()))?;
    let mut rows = rows(super::leaf(&matches).1, &file, args.config.as_deref());
    rows.retain(|row| args.all || row.value.is_some());
    output::list(args.output, &rows, "no setting is given")?;
    let written = args.written.merged_over(below);
    written.log_format()?;
    written.resolve()?;
    output::print_message("these settings are valid");
    Ok(())
}

/// The keys of a file that was read as settings before.
fn table(path: &Path) -> Result<Table, CliError> {
    let text = std::fs::read_to_string(path).map_err(|e| CliError::unreadable(path.display(), e))?;
    crate::text_input::plain(text).parse().map_err(|e| CliError::usage(format!("{}: {e}", path.display())))
}

/// Every setting in the order of the reference.
fn rows(given: &ArgMatches, file: &Table, path: Option<&Path>) -> Vec<SettingRow> {
    let settings = SettingsArgs::augment_args(Command::new("serve"));
    let mut rows: Vec<SettingRow> =
        settings.get_arguments().map(|setting| row(setting, given, file, path)).collect();
    rows.extend(FILE_ONLY.map(|name| of_file(name, file, path)));
    rows
}

fn row(setting: &Arg, given: &ArgMatches, file: &Table, path: Option<&Path>) -> SettingRow {
    let name = setting.get_id().as_str();
    let source = match given.value_source(name) {
        Some(ValueSource::CommandLine) => format!("--{}", name.replace('_', "-")),
        Some(ValueSource::EnvVariable) => {
            setting.get_env().map(|env| env.to_string_lossy().into_owned()).unwrap_or_default()
        }
        _ => return of_file(name, file, path),
    };
    let values = given.get_raw(name).into_iter().flatten();
    let values: Vec<String> = values.map(|value| shown(name, &value.to_string_lossy())).collect();
    // Kubernetes sets this variable to an address, which is no setting.
    if name == "port" && values.iter().any(|value| value.contains("://")) {
        return of_file(name, file, path);
    }
    SettingRow { name: name.to_owned(), value: Some(values.join(",")), source }
}

/// A setting that the file has, or that has its default.
fn of_file(name: &str, file: &Table, path: Option<&Path>) -> SettingRow {
    let value = file.get(name).map(|value| match value {
        Value::Array(rows) if rows.iter().any(Value::is_table) => format!("{} in the file", rows.len()),
        // A notifier or a monitor may have secrets in its address.
        Value::Table(_) => "in the file".to_owned(),
        Value::Array(values) => {
            values.iter().map(|value| shown_value(name, value)).collect::<Vec<_>>().join(",")
        }
        value => shown_value(name, value),
    });
    let file = path.map(|path| path.display().to_string()).unwrap_or_default();
    let source = if value.is_some() { file } else { "default".to_owned() };
    SettingRow { name: name.to_owned(), value, source }
}

fn shown_value(name: &str, value: &Value) -> String {
    shown(name, value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned).as_str())
}

/// A value without what is secret in it.
fn shown(name: &str, value: &str) -> String {
    match name {
        name if SECRETS.contains(&name) => HIDDEN.to_owned(),
        name if ADDRESSES.contains(&name) => evenkeel::backup::shown(value),
        _ => value.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str, file: &str) -> Vec<SettingRow> {
        let command = SettingsArgs::augment_args(Command::new("serve"));
        let matches = command.try_get_matches_from(line.split(' ')).expect("it can be read");
        let mut rows = rows(&matches, &file.parse().expect("TOML"), Some(Path::new("node.toml")));
        rows.retain(|row| row.value.is_some());
        rows
    }

    #[test]
    fn each_setting_has_its_source_and_no_secret_is_shown() {
        let file = "name = \"low\"\nslots = 4\nlabel = [\"a\", \"b\"]\nregistry = \"etcd://u:pass@h\"\n[[notify]]\nurl = \"http://secret\"\n";
        let rows = of("serve --name n1 --join secret --history postgres://u:pass@h/d", file);
        let row = |name: &str, value: &str, source: &str| SettingRow {
            name: name.to_owned(),
            value: Some(value.to_owned()),
            source: source.to_owned(),
        };
        for expected in [
            row("name", "n1", "--name"),
            row("join", HIDDEN, "--join"),
            row("slots", "4", "node.toml"),
            row("label", "a,b", "node.toml"),
            row("notify", "1 in the file", "node.toml"),
        ] {
            assert!(rows.contains(&expected), "{expected:?} is not in {rows:?}");
        }
        assert_eq!(rows.len(), 7, "{rows:?}");
        let all = format!("{rows:?}");
        assert!(!all.contains("pass") && !all.contains("secret"), "{all}");
    }

    #[test]
    fn every_secret_setting_is_known_here() {
        let settings = SettingsArgs::augment_args(Command::new("serve"));
        for setting in settings.get_arguments().filter(|setting| setting.is_hide_env_values_set()) {
            let name = setting.get_id().as_str();
            assert!(ADDRESSES.contains(&name) || SECRETS.contains(&name), "{name}");
        }
    }
}
