//! `evenkeel export`: the declarations of calendars and jobs, as files of which `apply` has nothing to do.

use std::fs;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use clap::Args;
use evenkeel_core::calendar::Calendar;
use evenkeel_core::ids::counted;
use evenkeel_core::job::Job;
use serde_json::{Map, Value, json};

use super::all_jobs::all_jobs;
use super::namespace_args::ListedNamespaceArgs;
use crate::client::{ApiClient, ConnectArgs};
use crate::exit::{CliError, ExitKind};
use crate::output::{self, OutputFormat};
use evenkeel_client::ClientErrorKind;
use evenkeel_client::requests::CalendarListQuery;

/// `export`.
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// Only jobs whose labels meet all these conditions, as team=billing|sales,!legacy, and the calendars that they name
    #[arg(short, long, value_name = "CONDITIONS", default_value = "", hide_default_value = true)]
    label: String,
    /// Write a file for each calendar and job into this folder; with -A into a folder below it for each namespace
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    #[command(flatten)]
    within: ListedNamespaceArgs,
    #[command(flatten)]
    reach: ConnectArgs,
}

/// What is exported.
#[derive(Debug)]
struct ExportedDeclarations {
    calendars: Vec<Calendar>,
    jobs: Vec<Job>,
}

/// The format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileFormat {
    Toml,
    Yaml,
    Json,
}

/// Runs the command.
///
/// # Errors
/// No node answers, or a file cannot be written.
pub(crate) fn run(args: &ExportArgs) -> Result<(), CliError> {
    let found = read(args)?;
    let format = match args.reach.output {
        OutputFormat::Yaml => FileFormat::Yaml,
        OutputFormat::Json | OutputFormat::Jsonl => FileFormat::Json,
        OutputFormat::Toml | OutputFormat::Table => FileFormat::Toml,
        OutputFormat::Wide | OutputFormat::Name => {
            return Err(CliError::usage("`export` writes job files: choose -o toml, yaml or json"));
        }
    };
    let Some(folder) = &args.dir else { return print(&format.text(&found.calendars, &found.jobs)?) };
    let below = |namespace: &str| match args.within.all_namespaces {
        true => folder.join(namespace),
        false => folder.clone(),
    };
    for calendar in &found.calendars {
        let text = format.text(std::slice::from_ref(calendar), &[])?;
        write(&below(calendar.name.namespace()), &format.file("calendar", calendar.name.local()), &text)?;
    }
    for job in &found.jobs {
        let text = format.text(&[], std::slice::from_ref(job))?;
        write(&below(job.name.namespace()), &format.file("job", job.name.local()), &text)?;
    }
    output::print_message(&format!(
        "{} and {} are in {}",
        counted(found.calendars.len(), "calendar"),
        counted(found.jobs.len(), "job"),
        folder.display()
    ));
    Ok(())
}

/// The declarations of the cluster.
fn read(args: &ExportArgs) -> Result<ExportedDeclarations, CliError> {
    let client = args.reach.client()?;
    let (rows, _) = all_jobs(&client, ("", &args.label), &args.within)?;
    let (mut jobs, mut progress) = (Vec::new(), output::Progress::new("reading jobs", rows.len()));
    for (done, row) in rows.iter().enumerate() {
        progress.at(done);
        match client.show_job(&row.name) {
            // It was deleted since it was listed.
            Err(failure) if failure.kind == ClientErrorKind::NotFound => {}
            found => jobs.push(found?.job),
        }
    }
    drop(progress);
    let mut calendars = calendars(&client, args)?;
    if !args.label.is_empty() {
        let named = |calendar: &Calendar| {
            let names = |job: &Job| {
                let mut names = job.exclude_calendars().iter().chain(job.require_calendars());
                names.any(|name| *name == calendar.name)
            };
            jobs.iter().any(names)
        };
        calendars.retain(named);
    }
    Ok(ExportedDeclarations { calendars, jobs })
}

fn calendars(client: &ApiClient, args: &ExportArgs) -> Result<Vec<Calendar>, CliError> {
    let page = client.list_calendars(&CalendarListQuery { namespace: args.within.filter() })?;
    let mut calendars = Vec::new();
    for row in page.calendars {
        match client.show_calendar(&row.name) {
            Err(failure) if failure.kind == ClientErrorKind::NotFound => {}
            found => calendars.push(found?.calendar),
        }
    }
    Ok(calendars)
}

impl FileFormat {
    /// The text of a file with these declarations.
    fn text(self, calendars: &[Calendar], jobs: &[Job]) -> Result<String, CliError> {
        let mut tables = Map::new();
        if !calendars.is_empty() {
            tables.insert("calendar".to_owned(), json!(calendars));
        }
        if !jobs.is_empty() {
            tables.insert("job".to_owned(), json!(jobs));
        }
        let tables = Value::Object(tables);
        let broken = |why: String| CliError::new(ExitKind::Failed, why);
        match self {
            Self::Toml => toml::to_string(&tables).map_err(|e| broken(e.to_string())),
            Self::Yaml => serde_yaml_ng::to_string(&tables).map_err(|e| broken(e.to_string())),
            Self::Json => serde_json::to_string_pretty(&tables)
                .map(|text| text + "\n")
                .map_err(|e| broken(e.to_string())),
        }
    }

    /// The name of the file of one object. It begins with the kind, so that no name is one that means something else, as
    /// `defaults`.
    fn file(self, kind: &str, name: &str) -> String {
        let ending = match self {
            Self::Toml => "toml",
            Self::Yaml => "yaml",
            Self::Json => "json",
        };
        format!("{kind}.{name}.{ending}")
    }
}

/// Prints a file: on a terminal with escaped characters, elsewhere exactly.
fn print(text: &str) -> Result<(), CliError> {
    match io::stdout().is_terminal() {
        true => output::line(text.trim_end()),
        false => output::bytes(text.as_bytes()),
    }
}

fn write(folder: &Path, name: &str, text: &str) -> Result<(), CliError> {
    let path = folder.join(name);
    let written = fs::create_dir_all(folder).and_then(|()| fs::write(&path, text));
    written.map_err(|e| CliError::unwritable(path.display(), e))
}
