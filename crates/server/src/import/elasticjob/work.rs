//! What a job of ElasticJob does: a script, a request, or code of a program.

use std::collections::BTreeMap;

use evenkeel_core::job::{Http, JobFile, Program};

use super::super::foreign_keys::ForeignKeys;
use super::super::{ImportNotes, ImportRefusal, ImportSource, helpers, script};

/// ElasticJob's own limits for a request, in milliseconds.
const CONNECT_MILLIS: u64 = 3_000;
const READ_MILLIS: u64 = 5_000;

/// Takes the work of a job.
pub(super) fn take(
    job: &mut JobFile,
    keys: &mut ForeignKeys,
    source: &ImportSource,
    notes: &mut ImportNotes,
) -> Result<(), ImportRefusal> {
    let mut names = ["elasticJobType", "jobType", "elasticJobClass", "jobClass"]
        .into_iter()
        .map(|key| keys.text(key).map(Option::unwrap_or_default))
        .collect::<Result<Vec<_>, _>>()?
        .into_iter();
    let mut next = || names.next().unwrap_or_default();
    let (types, classes) = ([next(), next()], [next(), next()]);
    let kind = types.into_iter().find(|kind| !kind.is_empty()).unwrap_or_default().to_ascii_uppercase();
    let class = classes.into_iter().find(|class| !class.is_empty()).unwrap_or_default();
    let mut props = keys.table("props")?;
    let line = match props.text("script.command.line")? {
        Some(line) => Some(line),
        None => keys.text("scriptCommandLine")?,
    };
    let uri = match props.text("http.uri")? {
        Some(uri) => Some(uri),
        None => props.text("http.url")?,
    };
    match (kind.as_str(), line, uri) {
        ("SCRIPT" | "", Some(line), _) => command(job, &line, notes)?,
        ("HTTP" | "", None, Some(uri)) => request(job, &uri, &mut props, notes)?,
        ("SCRIPT", None, _) => {
            return Err(ImportRefusal::new("props.script.command.line", "a SCRIPT job has a command line"));
        }
        ("HTTP", ..) => return Err(ImportRefusal::new("props.http.uri", "an HTTP job has an address")),
        (_, _, _) => {
            if class.is_empty() {
                let said = "it names no class and no type: the text of a config node does not; the node above it has the class, \
                            so write it as jobClass";
                return Err(ImportRefusal::new("elasticJobClass", said));
            }
            let parameter = job.parameter.clone();
            let name = job.name.name().as_str().to_owned();
            let values = BTreeMap::from([
                ("job", name.as_str()),
                ("class", class.as_str()),
                ("parameter", parameter.as_str()),
            ]);
            job.command = Program::Argv(helpers::templated(source, "elasticJobClass", &values, notes)?);
            let streaming = props.text("streaming.process")?.or(keys.text("streamingProcess")?);
            if streaming.as_deref() == Some("true") {
                notes.lost(
                    "props.streaming.process",
                    "a command is called once for each run, and says itself when all is done",
                );
            }
        }
    }
    keys.ignore(&["streamingProcess", "scriptCommandLine"]);
    props.lost(notes, &[]);
    Ok(())
}

fn command(job: &mut JobFile, line: &str, notes: &mut ImportNotes) -> Result<(), ImportRefusal> {
    let field = "props.script.command.line";
    let words = script::words(line).map_err(|why| ImportRefusal::new(field, why))?;
    job.command = Program::Argv(words);
    notes.changed(
        field,
        "command, without a shell as in ElasticJob; the shard is in EVENKEEL_SHARD and others, not in a last argument as JSON",
    );
    Ok(())
}

fn request(
    job: &mut JobFile,
    uri: &str,
    props: &mut ForeignKeys,
    notes: &mut ImportNotes,
) -> Result<(), ImportRefusal> {
    let mut http = Http::new(uri);
    http.method = props.text("http.method")?.unwrap_or_default().to_ascii_uppercase();
    if let Some(body) = props.text("http.data")? {
        // Two braces would begin a placeholder.
        http.body = body.replace("{{", "{{{{");
    }
    if let Some(kind) = props.text("http.content.type")? {
        http.headers.insert("Content-Type".to_owned(), kind);
    }
    let millis = |key: &str, usual: u64, props: &mut ForeignKeys| -> Result<u64, ImportRefusal> {
        let names = [format!("http.{key}.timeout.milliseconds"), format!("http.{key}.timeout")];
        for name in names {
            if let Some(millis) = props.count(&name)? {
                return Ok(millis);
            }
        }
        Ok(usual)
    };
    let both = millis("connect", CONNECT_MILLIS, props)?.saturating_add(millis("read", READ_MILLIS, props)?);
    let seconds = both.div_ceil(1_000).max(1);
    job.timeout = Some(seconds);
    job.http = Some(Box::new(http));
    notes.changed(
        "props.http.uri",
        "http: an answer other than 2xx is a failure; the shard is in Evenkeel-Shard and others, not in the header shardingContext",
    );
    notes.changed(
        "props.http.read.timeout",
        format!("timeout = \"{}\" for the whole request", helpers::span(seconds)),
    );
    Ok(())
}
