//! Templates: texts in which `{{run}}` and the like stand for facts of a run, `{{parameter:NAME}}` for a parameter
//! of it, and `{{secret:NAME}}` for a secret.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::super::{RunParameters, secrets};

/// The largest text that a template may produce, in bytes: a parameter may be long and occur in it often.
pub const BODY_MAX: usize = 1024 * 1024;

const OPEN: &str = "{{";
const CLOSE: &str = "}}";
/// The suffix of a name whose value is written as JSON.
const JSON: &str = "json";
/// The prefix of a secret's name.
const SECRET: &str = "secret:";
/// The prefix of a parameter's name.
const PARAMETER: &str = "parameter:";

/// The names that a template may contain, with the environment variable of each.
const NAMES: [(&str, &str); 12] = [
    ("job", "EVENKEEL_JOB"),
    ("namespace", "EVENKEEL_NAMESPACE"),
    ("run", "EVENKEEL_RUN"),
    ("due", "EVENKEEL_DUE"),
    ("shard", "EVENKEEL_SHARD"),
    ("shards", "EVENKEEL_SHARDS"),
    ("parameter", "EVENKEEL_PARAMETER"),
    ("job_parameter", "EVENKEEL_JOB_PARAMETER"),
    ("attempt", "EVENKEEL_ATTEMPT"),
    ("fence", "EVENKEEL_FENCE"),
    ("idempotency_key", "EVENKEEL_IDEMPOTENCY_KEY"),
    ("node", "EVENKEEL_NODE"),
];

/// A part of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TemplatePart<'a> {
    /// Stands for itself.
    Text(&'a str),
    /// Stands for a fact of the run.
    Fact {
        /// Its name in every run's environment.
        variable: &'static str,
        /// Whether it is written as JSON, with its quotes.
        json: bool,
    },
    /// Stands for a parameter of the run.
    Parameter {
        /// Its name.
        name: &'a str,
        /// Whether it is written as JSON, with its quotes.
        json: bool,
    },
    /// Stands for what a file of the node holds.
    Secret {
        /// The file's name in the node's folder of secrets.
        name: &'a str,
        /// Whether it is written as JSON, with its quotes.
        json: bool,
    },
}

/// Parses a template.
///
/// # Errors
/// The error names the line, the column, both from 1, and what is allowed there.
pub fn read(text: &str) -> Result<Vec<TemplatePart<'_>>, String> {
    let (mut pieces, mut at) = (Vec::new(), 0);
    while let Some(open) = text[at..].find(OPEN).map(|open| at + open) {
        pieces.push(TemplatePart::Text(&text[at..open]));
        let inner = open + OPEN.len();
        if text[inner..].starts_with(OPEN) {
            // Twice as many braces are the braces themselves.
            pieces.push(TemplatePart::Text(OPEN));
            at = inner + OPEN.len();
            continue;
        }
        let Some(close) = text[inner..].find(CLOSE).map(|close| inner + close) else {
            return Err(format!(
                "{}: {{{{ has no }}}}: close it, or write {{{{{{{{ for the braces themselves",
                position(text, open)
            ));
        };
        pieces.push(fact(&text[inner..close]).map_err(|wrong| format!("{}: {wrong}", position(text, open)))?);
        at = close + CLOSE.len();
    }
    pieces.push(TemplatePart::Text(&text[at..]));
    pieces.retain(|piece| *piece != TemplatePart::Text(""));
    Ok(pieces)
}

fn fact(inside: &str) -> Result<TemplatePart<'_>, String> {
    let (name, way) = inside.split_once('|').map_or((inside, None), |(name, way)| (name, Some(way.trim())));
    if let Some(named) = name.trim().strip_prefix(SECRET) {
        return Ok(TemplatePart::Secret { name: secrets::validate_name(named.trim())?, json: as_json(way)? });
    }
    if let Some(named) = name.trim().strip_prefix(PARAMETER) {
        return Ok(TemplatePart::Parameter { name: named.trim(), json: as_json(way)? });
    }
    let known = NAMES.iter().find(|(known, _)| *known == name.trim());
    let Some((_, variable)) = known else {
        let names: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
        // The text is not shown: it may contain a secret by mistake, and refusals are written down.
        return Err(format!(
            "there is no such fact of a run: use one of {}, {PARAMETER}NAME or {SECRET}NAME",
            names.join(", ")
        ));
    };
    Ok(TemplatePart::Fact { variable, json: as_json(way)? })
}

/// Whether the value is written as JSON.
fn as_json(way: Option<&str>) -> Result<bool, String> {
    match way {
        None => Ok(false),
        Some(JSON) => Ok(true),
        Some(_) => {
            Err(format!("there is only one way to write it: leave out what follows the |, or write | {JSON}"))
        }
    }
}

fn position(text: &str, at: usize) -> String {
    let before = &text[..at];
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    format!("line {line}, column {column}")
}

/// Checks a header's template: text, and secrets of the node.
///
/// # Errors
/// The error names the place and what is allowed there.
pub(super) fn read_header(value: &str) -> Result<(), String> {
    let is_of_run = |piece: &TemplatePart<'_>| {
        matches!(piece, TemplatePart::Fact { .. } | TemplatePart::Parameter { .. })
    };
    match read(value)?.iter().any(is_of_run) {
        true => Err(format!("only secrets are filled in here, as {{{{{SECRET}NAME}}}}")),
        false => Ok(()),
    }
}

/// Fills the template with the facts of a run, which come from [`Run::environment`](crate::effect::Run::environment),
/// with its parameters, and with secrets, which `secrets` reads by their names.
///
/// # Errors
/// The template is invalid, the run has no such parameter, a secret cannot be read, or the text becomes longer than [`BODY_MAX`].
pub fn fill(
    template: &str,
    (facts, parameters): (&BTreeMap<&'static str, String>, &RunParameters),
    secrets: impl Fn(&str) -> Result<String, String>,
) -> Result<String, String> {
    let json = |value: &str| serde_json::to_string(value).map_err(|_| String::from("it is no JSON"));
    let mut filled = String::new();
    for piece in read(template)? {
        match piece {
            TemplatePart::Text(text) => filled.push_str(text),
            TemplatePart::Fact { variable, json: as_json } => {
                let value = facts.get(variable).ok_or_else(|| format!("no run has {variable}"))?;
                filled.push_str(&if as_json { json(value)? } else { value.clone() });
            }
            TemplatePart::Parameter { name, json: as_json } => {
                let value = parameters.get(name).ok_or_else(|| format!("the run has no parameter {name}"))?;
                filled.push_str(&if as_json { json(value)? } else { value.into() });
            }
            TemplatePart::Secret { name, json: as_json } => {
                let value = secrets(name)?;
                filled.push_str(&if as_json { json(&value)? } else { value });
            }
        }
        if filled.len() > BODY_MAX {
            return Err(format!("filled in, it is longer than {BODY_MAX} bytes"));
        }
    }
    Ok(filled)
}
