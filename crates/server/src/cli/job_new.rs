//! `evenkeel job new`: a job of a few flags, or of the answers to a few questions.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use evenkeel_core::job::{Job, JobFile};
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use super::job_edit::{planned, print_declared};
use super::job_show::declaration;
use super::namespace_args::NamespaceArgs;
use super::{plan, prompt, values};
use crate::client::{ApiClient, ConnectArgs};
use crate::exit::{CliError, ExitKind};
use crate::{output, zones};
use evenkeel_client::requests::PreviewQuery;
use evenkeel_client::types::PlanEffect;
use evenkeel_client::{ClientErrorKind, Precondition};

/// How many fires of a schedule are shown to the person who types it.
const SHOWN_FIRES: usize = 3;

/// `job new`.
#[derive(Debug, Args)]
pub(crate) struct JobNewArgs {
    /// The job's name; on a terminal what is left out is asked for
    name: Option<String>,
    /// When the job is due, such as '0 3 * * *' or '@every 15m'; several are the rules of one job
    #[arg(long, value_name = "TEXT")]
    schedule: Vec<String>,
    /// Without a schedule: the job has only manual runs
    #[arg(long, conflicts_with_all = ["schedule", "timezone"])]
    manual: bool,
    /// The time zone of the schedule, such as Europe/Berlin; UTC by default
    #[arg(long, value_name = "ZONE")]
    timezone: Option<String>,
    /// The program to run and its arguments; arguments that begin with - stand after --
    #[arg(long, value_name = "WORD", num_args = 1.., conflicts_with_all = ["sh", "http"])]
    command: Vec<String>,
    /// A text that /bin/sh runs
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["http", "words"])]
    sh: Option<String>,
    /// The address of an HTTP request, which takes the place of a command
    #[arg(long, value_name = "URL", conflicts_with = "words")]
    http: Option<String>,
    /// Further words of the command
    #[arg(last = true, value_name = "WORD")]
    words: Vec<String>,
    /// Write the declaration to this new file, and declare nothing
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    within: NamespaceArgs,
    #[command(flatten)]
    reach: ConnectArgs,
}

/// What a run of the new job does.
#[derive(Clone, Debug, PartialEq, Eq)]
enum NewWork {
    Command(Vec<String>),
    Shell(String),
    Http(String),
}

/// The schedule of the new job; no rules for manual runs alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct NewSchedule {
    rules: Vec<String>,
    timezone: String,
}

/// Declares a new job, or writes its declaration to a file.
///
/// # Errors
/// Something is missing and no person can be asked; the declaration is not valid; there is such a job, or such a file.
pub(super) fn create(args: JobNewArgs) -> Result<(), CliError> {
    let client = args.reach.client()?;
    let missing = missing(&args);
    if !missing.is_empty() && !prompt::is_person_there() {
        return Err(CliError::usage(format!(
            "{} missing, and no person can be asked here: say {}",
            if missing.len() == 1 { "a part is" } else { "parts are" },
            missing.join(", and ")
        )));
    }
    let (job, plan) = {
        let file = file_of(&client, &args)?;
        let job = Job::parse(file).map_err(|e| CliError::invalid(e.to_string()))?;
        let plan = planned(&client, &job.to_file())?;
        (job, plan)
    };
    if let Some(path) = &args.file {
        return write(path, &declaration(&job)?);
    }
    let is_new = |effect: PlanEffect| effect == PlanEffect::Created;
    if plan.jobs.iter().any(|row| row.name == job.name.as_str() && !is_new(row.becomes)) {
        let text =
            format!("there is a job {} already: `evenkeel job edit {}` changes it", job.name, job.name);
        return Err(CliError::new(ExitKind::Conflict, text));
    }
    if !missing.is_empty() {
        plan::blocks(&plan).iter().for_each(|line| output::print_message(line));
        if !prompt::confirm("declare it?")? {
            return Err(CliError::new(ExitKind::Failed, "nothing was declared"));
        }
    }
    // Another caller may have declared one of this name just now.
    let answer = client.only_if(Precondition::Absent).put_job(&job.name, &job.to_file())?;
    print_declared(&args.reach, &answer)
}

/// The flags that say what the command line leaves out.
fn missing(args: &JobNewArgs) -> Vec<&'static str> {
    let parts = [
        (args.name.is_none(), "NAME"),
        (args.schedule.is_empty() && !args.manual, "--schedule or --manual"),
        (work(args).is_none(), "--command, --sh or --http"),
    ];
    parts.into_iter().filter(|(is_missing, _)| *is_missing).map(|(_, flag)| flag).collect()
}

/// What the command line says a run does.
fn work(args: &JobNewArgs) -> Option<NewWork> {
    let command: Vec<String> = args.command.iter().chain(&args.words).cloned().collect();
    match (&args.sh, &args.http) {
        (Some(text), _) => Some(NewWork::Shell(text.clone())),
        (None, Some(url)) => Some(NewWork::Http(url.clone())),
        (None, None) => {
            Some(NewWork::Command(command)).filter(|_| !(args.command.is_empty() && args.words.is_empty()))
        }
    }
}

/// The declaration, of the command line and the answers of the person.
fn file_of(client: &ApiClient, args: &JobNewArgs) -> Result<JobFile, CliError> {
    let name = match &args.name {
        Some(name) => name.clone(),
        None => asked("Name: ")?,
    };
    let name = args.within.job(&name);
    let schedule = match args.schedule.is_empty() && !args.manual {
        true => asked_schedule(client, &name, args.timezone.as_deref())?,
        false => {
            NewSchedule { rules: args.schedule.clone(), timezone: args.timezone.clone().unwrap_or_default() }
        }
    };
    let work = match work(args) {
        Some(work) => work,
        None => NewWork::Shell(asked("Command, which /bin/sh runs: ")?),
    };
    serde_json::from_value(declared(&name, &schedule, work)).map_err(|e| CliError::invalid(e.to_string()))
}

/// The declaration as a file has it.
fn declared(name: &str, schedule: &NewSchedule, work: NewWork) -> Value {
    let mut declared = json!({ "name": name });
    match work {
        NewWork::Command(words) => declared["command"] = json!(words),
        NewWork::Shell(text) => declared["command"] = json!(["/bin/sh", "-c", text]),
        NewWork::Http(url) => declared["http"] = json!({ "url": url }),
    }
    if !schedule.rules.is_empty() {
        declared["schedule"] = json!(schedule.rules);
    }
    if !schedule.timezone.is_empty() {
        declared["timezone"] = json!(schedule.timezone);
    }
    declared
}

/// Asks until there is an answer.
fn asked(question: &str) -> Result<String, CliError> {
    loop {
        let answer = prompt::line(question)?.ok_or_else(given_up)?;
        if !answer.is_empty() {
            return Ok(answer);
        }
    }
}

fn given_up() -> CliError {
    CliError::new(ExitKind::Failed, "nothing was declared")
}

/// Asks for a schedule until a node can read it, and shows when it is due next.
fn asked_schedule(client: &ApiClient, name: &str, timezone: Option<&str>) -> Result<NewSchedule, CliError> {
    loop {
        let question = "Schedule, as 0 3 * * * or @every 15m or @daily; empty for manual runs alone: ";
        let rule = prompt::line(question)?.ok_or_else(given_up)?;
        if rule.is_empty() {
            return Ok(NewSchedule::default());
        }
        let timezone = match timezone {
            Some(timezone) => timezone.to_owned(),
            None => prompt::line("Time zone, as Europe/Berlin; empty for UTC: ")?.ok_or_else(given_up)?,
        };
        let query = PreviewQuery {
            schedule: rule.clone(),
            timezone: timezone.clone(),
            name: Some(values::parsed("the job", name)?),
            n: Some(SHOWN_FIRES),
            ..PreviewQuery::default()
        };
        match client.preview_schedule(&query) {
            Ok(fires) => {
                let zone = TimeZone::system();
                let next: Vec<String> = fires.next.iter().map(|due| zones::for_people(due, &zone)).collect();
                output::print_message(&match next.is_empty() {
                    true => "it is never due".to_owned(),
                    false => format!("next: {}", next.join("; ")),
                });
                return Ok(NewSchedule { rules: vec![rule], timezone });
            }
            Err(e) if e.kind == ClientErrorKind::Invalid => output::print_message(&e.message),
            Err(e) => return Err(e.into()),
        }
    }
}

/// Writes the declaration to a file that does not exist yet.
fn write(path: &Path, text: &str) -> Result<(), CliError> {
    let written = OpenOptions::new().create_new(true).write(true).open(path);
    written
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|e| CliError::unwritable(path.display(), e))?;
    let path = path.display();
    output::line(&format!("{path} is written: declare it with `evenkeel job apply -f {path}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_declaration_has_what_was_given_and_no_other_key() {
        let schedule = NewSchedule { rules: vec!["@daily".to_owned()], timezone: "UTC".to_owned() };
        let shell = declared("b/j", &schedule, NewWork::Shell("a | b".to_owned()));
        assert_eq!(
            shell,
            json!({ "name": "b/j", "schedule": ["@daily"], "timezone": "UTC", "command": ["/bin/sh", "-c", "a | b"] })
        );
        let manual = declared("j", &NewSchedule::default(), NewWork::Http("https://x/".to_owned()));
        assert_eq!(manual, json!({ "name": "j", "http": { "url": "https://x/" } }));
        for declared in [shell, manual] {
            let file: JobFile = serde_json::from_value(declared).expect("a file");
            Job::parse(file).expect("a job");
        }
    }
}
