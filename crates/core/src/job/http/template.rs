//! A text in which `{{run}}` and the like stand for facts of the run.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// The largest text that comes of a template, in bytes: a parameter may be long and stand in it often.
pub const BODY_MAX: usize = 1024 * 1024;

const OPEN: &str = "{{";
const CLOSE: &str = "}}";
/// What a name ends with whose value is written as JSON.
const JSON: &str = "json";

/// What may stand in a template, and under which name every run's environment has it.
const NAMES: [(&str, &str); 11] = [
    ("job", "EVENKEEL_JOB"),
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
pub enum Piece<'a> {
    /// Stands for itself.
    Text(&'a str),
    /// Stands for a fact of the run.
    Fact {
        /// Its name in every run's environment.
        variable: &'static str,
        /// Whether it is written as JSON, with its quotes.
        json: bool,
    },
}

/// Takes a template apart.
///
/// # Errors
/// Says the line, the column, both from 1, and what is allowed there.
pub fn read(text: &str) -> Result<Vec<Piece<'_>>, String> {
    let (mut pieces, mut at) = (Vec::new(), 0);
    while let Some(open) = text[at..].find(OPEN).map(|open| at + open) {
        pieces.push(Piece::Text(&text[at..open]));
        let inner = open + OPEN.len();
        if text[inner..].starts_with(OPEN) {
            // Twice as many braces are the braces themselves.
            pieces.push(Piece::Text(OPEN));
            at = inner + OPEN.len();
            continue;
        }
        let Some(close) = text[inner..].find(CLOSE).map(|close| inner + close) else {
            return Err(format!(
                "{}: {{{{ has no }}}}: close it, or write {{{{{{{{ for the braces themselves",
                place(text, open)
            ));
        };
        pieces.push(fact(&text[inner..close]).map_err(|wrong| format!("{}: {wrong}", place(text, open)))?);
        at = close + CLOSE.len();
    }
    pieces.push(Piece::Text(&text[at..]));
    pieces.retain(|piece| *piece != Piece::Text(""));
    Ok(pieces)
}

fn fact(inside: &str) -> Result<Piece<'static>, String> {
    let (name, way) = inside.split_once('|').map_or((inside, None), |(name, way)| (name, Some(way.trim())));
    let known = NAMES.iter().find(|(known, _)| *known == name.trim());
    let Some((_, variable)) = known else {
        let names: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
        return Err(format!("there is no {{{{{}}}}}: use one of {}", name.trim(), names.join(", ")));
    };
    match way {
        None => Ok(Piece::Fact { variable, json: false }),
        Some(JSON) => Ok(Piece::Fact { variable, json: true }),
        Some(way) => {
            Err(format!("{} cannot be written as {way:?}: leave it out, or write | {JSON}", name.trim()))
        }
    }
}

fn place(text: &str, at: usize) -> String {
    let before = &text[..at];
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    format!("line {line}, column {column}")
}

/// The template with the facts of a run, which come from [`Run::environment`](crate::effect::Run::environment).
///
/// # Errors
/// It makes no sense, or becomes longer than [`BODY_MAX`].
pub fn fill(template: &str, facts: &BTreeMap<&'static str, String>) -> Result<String, String> {
    let mut filled = String::new();
    for piece in read(template)? {
        match piece {
            Piece::Text(text) => filled.push_str(text),
            Piece::Fact { variable, json } => {
                let value = facts.get(variable).ok_or_else(|| format!("no run has {variable}"))?;
                match json {
                    true => filled.push_str(&serde_json::to_string(value).map_err(|e| e.to_string())?),
                    false => filled.push_str(value),
                }
            }
        }
        if filled.len() > BODY_MAX {
            return Err(format!("filled in, it is longer than {BODY_MAX} bytes"));
        }
    }
    Ok(filled)
}
