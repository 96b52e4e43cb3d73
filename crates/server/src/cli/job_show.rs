//! `evenkeel job show`: a declaration with its state for people, and the declaration alone for files.

use clap::Args;
use evenkeel_core::job::{Job, Placement};
use serde_json::json;

use super::job_args::JobArgs;
use super::switch_text;
use crate::escaping::visible;
use crate::exit::{CliError, ExitKind};
use crate::local_time;
use crate::output::{self, OutputFormat};
use evenkeel_client::types::JobDetail;

/// `job show`.
#[derive(Debug, Args)]
pub(crate) struct JobShowArgs {
    #[command(flatten)]
    job: JobArgs,
    /// With -o json, jsonl or yaml, all that the node knows of the job: its version, owner, next fire, switches and shards beside the declaration
    #[arg(long)]
    details: bool,
}

/// Shows a job.
///
/// # Errors
/// The request failed, or there is no such job.
pub(super) fn show(args: JobShowArgs) -> Result<(), CliError> {
    let job = args.job.resolve();
    let output = job.reach.output;
    if args.details && (output.is_text() || output == OutputFormat::Toml) {
        return Err(CliError::usage("--details goes with -o json, jsonl or yaml"));
    }
    let found = job.reach.client()?.show_job(&job.name)?;
    match output {
        OutputFormat::Table | OutputFormat::Wide => described(&found),
        OutputFormat::Name => output::line(&found.name),
        OutputFormat::Toml => toml_alone(&found.job),
        _ if args.details => output::value(output, &found),
        _ => output::value(output, &json!({ "job": [&found.job] })),
    }
}

/// A job file in TOML that declares this job.
///
/// # Errors
/// The declaration has a value that TOML cannot hold, which no job has.
pub(super) fn declaration(job: &Job) -> Result<String, CliError> {
    toml::to_string(&json!({ "job": [job] })).map_err(|e| CliError::new(ExitKind::Failed, e.to_string()))
}

/// Prints the declaration alone, and nothing that could be read back as another one.
fn toml_alone(job: &Job) -> Result<(), CliError> {
    let text = declaration(job)?;
    match visible(&text) == text {
        true => output::line(text.trim_end()),
        false => Err(CliError::new(
            ExitKind::Failed,
            "the declaration has characters that a terminal hides or obeys, which TOML does not escape: use -o json",
        )),
    }
}

/// Prints the declaration with the state of the job as comments.
fn described(found: &JobDetail) -> Result<(), CliError> {
    let declared = declaration(&found.job)?;
    let held = found.owner.as_deref().unwrap_or("no node");
    let verb = match found.job.placement.kind() {
        Placement::Claimed => "held",
        Placement::Sharded | Placement::Broadcast => "led",
        Placement::Dispatched => "planned",
    };
    let state = match (found.disabled, found.paused) {
        (true, _) => "disabled",
        (false, true) => "paused",
        (false, false) => "enabled",
    };
    output::line(&format!(
        "{declared}\n# {state}, {verb} by {held}, next fire {}, version {}",
        local_time::local(found.next.as_deref()),
        found.version
    ))?;
    for switch in &found.switches {
        output::line(&format!(
            "# switched apart from this declaration: {}; {}",
            switch_text::description(switch),
            switch_text::undo_hint(switch)
        ))?;
    }
    if found.unschedulable {
        output::line(
            "# nothing of it runs: no living node has the labels that it asks for, see `evenkeel node list`",
        )?;
    }
    if let Some(missing) = found.missing.first() {
        output::line(&format!(
            "# it never fires: there is no calendar {missing}, declare it with `evenkeel calendar apply`"
        ))?;
    }
    let Some(sharing) = &found.sharing else { return Ok(()) };
    // The switches above show disabled shards already.
    let is_told = found.switches.iter().any(|switch| switch.switch == "shards_disabled");
    for line in super::shards::notes(sharing, !is_told) {
        output::line(&format!("# {line}"))?;
    }
    let table = output::table(&sharing.nodes);
    output::line(&table.lines().map(|line| format!("# {line}")).collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use evenkeel_core::job::JobFile;
    use serde_json::Value;

    use super::*;
    use crate::files::{self, ReadRequest};

    /// Jobs that have every key together: no job has all of them.
    const JOBS: [&str; 5] = [
        r#"{"name": "b/sharded", "schedule": ["0 3 * * *", "@every 90m"], "timezone": "Europe/Berlin", "dst": "once",
            "start_at": "2026-01-01T00:00:00", "end_at": "2027-01-01T00:00:00", "jitter": "30s",
            "exclude_calendars": ["holidays"], "require_calendars": ["office"], "placement": "sharded",
            "node_selector": ["gpu", "zone=eu|us"], "priority": 3, "pool": {"name": "p", "limit": 3}, "shards": 4,
            "shard_parameters": ["a", "b"], "parameter": "p", "parameters": {"DAY": {"type": "date", "default": "2026-01-01"}},
            "strategy": "odd_even", "order": "descending", "sticky_shards": true, "one_per_host": true,
            "max_clock_skew": "2s", "reshard_timeout": "7s", "delivery": "at_least_once", "min_durability": "B",
            "command": ["/bin/echo", "a b", "\"q\" \\ 'x'", "two\nlines\ttab"], "directory": "/tmp", "environment": {"A": "1"},
            "inherit": ["PATH"], "secrets": {"B": "s"}, "secret_files": {"C": "s"}, "stdin": "in\n'''\n", "user": "nobody",
            "limits": {"cpu": "1s", "memory": "1M", "files": 9, "processes": 5,
                       "together": {"memory": "512M", "cores": 1.5, "processes": 50}},
            "timeout": "30s", "run_timeout": "5m", "pause_after_failures": 3,
            "retry": {"max_retries": 3, "delay": "5s", "max_delay": "1m", "exit_codes": [7]}, "misfire_grace": "1m",
            "catch_up": {"all": 3}, "catch_up_window": "1h", "catch_up_spread": "10m",
            "notify": {"on": ["late", "absent"], "to": ["ops"], "late_after": "5m", "absent_after": "1h"},
            "enabled": false, "labels": {"team": "billing"}, "description": "it says \"ü\", # and = too"}"#,
        r#"{"name": "each", "schedule": "@daily", "command": ["/bin/true"], "placement": "broadcast", "monitor_execution": false}"#,
        r#"{"name": "sent", "schedule": "@hourly", "placement": "dispatched", "overlap": {"limit": 3},
            "http": {"url": "https://x/", "method": "PUT", "headers": {"h": "v"}, "body": "b", "success": ["200-299", 404], "redirects": 2},
            "notify": {"heartbeat": "https://h/beat"}}"#,
        r#"{"name": "flow", "function": "f", "dataflow": {"interval": "1m", "threads": 2, "fetch": 10, "streaming": true}, "shadow": true}"#,
        r#"{"name": "piped", "schedule": "@daily", "command": "a | b", "shell": true}"#,
    ];

    /// The keys of a declaration, as the refusal of an unknown one lists them.
    fn all_keys() -> BTreeSet<String> {
        let refused =
            serde_json::from_str::<JobFile>(r#"{"name": "j", "?": 1}"#).expect_err("no key").to_string();
        let (_, list) = refused.split_once("expected one of ").expect("a list");
        let list = list.split(" at line").next().unwrap_or_default();
        list.split(", ").map(|key| key.trim_matches('`').to_owned()).collect()
    }

    #[test]
    fn a_declaration_in_any_format_declares_the_same_job_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut keys: BTreeSet<String> = ["namespace".to_owned()].into();
        for text in JOBS {
            let file: JobFile = serde_json::from_str(text).expect(text);
            let job = Job::parse(file).expect(text);
            let value = serde_json::to_value(&job).expect("plain data");
            let Value::Object(fields) = &value else { panic!("{value}") };
            keys.extend(fields.keys().cloned());
            let shown = |output: OutputFormat| {
                let printed = || output::value(output, &json!({ "job": [&job] }));
                let (done, captured) = output::capture(printed);
                done.expect("it is printed");
                String::from_utf8(captured.answer).expect("text")
            };
            let (done, toml) = output::capture(|| toml_alone(&job));
            done.expect("it is printed");
            let toml = String::from_utf8(toml.answer).expect("text");
            for (name, text) in [
                ("job.toml", toml),
                ("job.yaml", shown(OutputFormat::Yaml)),
                ("job.json", shown(OutputFormat::Json)),
            ] {
                let path = folder.path().join(name);
                std::fs::write(&path, &text).expect("written");
                let request = ReadRequest { paths: std::slice::from_ref(&path), ..ReadRequest::default() };
                let read = files::read_all(&request).unwrap_or_else(|e| panic!("{e}\n{text}"));
                assert_eq!(read.jobs, std::slice::from_ref(&job), "{text}");
            }
        }
        assert_eq!(keys, all_keys(), "each key is in one of these jobs");
    }

    #[test]
    fn a_declaration_that_toml_cannot_show_safely_is_refused() {
        let file: JobFile =
            serde_json::from_str(r#"{"name": "j", "function": "f", "description": "a\u202eb"}"#)
                .expect("read");
        let Ok(job) = Job::parse(file) else { return };
        assert!(toml_alone(&job).is_err());
    }
}
