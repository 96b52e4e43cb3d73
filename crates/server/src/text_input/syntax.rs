//! Explains mistakes of a format's syntax: the parsers' words say what they met, not what to write.

use evenkeel_core::characters;
use serde_path_to_error::{Path, Segment};

use super::input_error::TextFormat;

/// The words of the JSON parser, and what they mean.
const JSON: &[(&str, &str)] = &[
    ("EOF while parsing", "the text ends too early: a bracket or a quotation mark is not closed"),
    ("trailing comma", "there is a comma before a closing bracket: remove it"),
    ("key must be a string", "a key stands in double quotes, and JSON has no comments"),
    ("trailing characters", "more text follows where the document ends"),
    ("control character", "a text holds a line end or a tab: write \\n or \\t"),
    (
        "expected ident",
        "a value is a text in double quotes, a number, true, false, null, a list or an object",
    ),
    (
        "expected value",
        "a value is a text in double quotes, a number, true, false, null, a list or an object",
    ),
    ("expected `,` or `}`", "a comma or a closing } is missing"),
    ("expected `,` or `]`", "a comma or a closing ] is missing"),
];

/// The words of the YAML parser, and what they mean.
const YAML: &[(&str, &str)] = &[
    (
        "more than one document",
        "the file holds several documents: remove the lines with ---, and write all jobs in one list",
    ),
    ("found a tab character", "a line is indented with a tab: YAML takes spaces alone"),
    ("found character that cannot start any token", "a text that begins with @, ` or % stands in quotes"),
    ("scanning an alias", "a text that begins with * stands in quotes, as \"* * * * *\""),
    ("scanning an anchor", "a text that begins with & stands in quotes"),
];

/// What a parser says about the syntax at a place, with the character to blame if it is one that people do not see.
pub(super) fn explained(language: TextFormat, text: &str, at: (usize, usize), what: &str) -> String {
    if let Some(odd) = odd(text, at.0) {
        return odd;
    }
    match (language, what) {
        (TextFormat::Toml, what) if what.contains("string values must be quoted") => {
            "a text stands in double quotes, as name = \"a\"".to_owned()
        }
        (TextFormat::Toml, what) if what.starts_with("invalid unquoted key") => {
            "a key consists of letters, digits, _ and -".to_owned()
        }
        _ => what.to_owned(),
    }
}

/// The message for a mistake of YAML's syntax; `None` if it is another mistake.
pub(super) fn yaml(text: &str, at: (usize, usize), what: &str) -> Option<String> {
    let meaning =
        YAML.iter().find(|(words, _)| what.contains(words)).map(|(_, meaning)| (*meaning).to_owned());
    let is_syntax =
        || ["did not find", "found ", "could not find", "mapping values"].iter().any(|w| what.contains(w));
    meaning.or_else(|| odd(text, at.0).filter(|_| is_syntax()))
}

/// The message for a mistake of JSON's syntax.
pub(super) fn json(text: &[u8], at: (usize, usize), what: &str) -> String {
    let odd = std::str::from_utf8(text).ok().and_then(|text| odd(text, at.0));
    let meaning = JSON.iter().find(|(words, _)| what.contains(words)).map(|(_, meaning)| *meaning);
    odd.unwrap_or_else(|| meaning.unwrap_or(what).to_owned())
}

/// The message about a character on this line, counted from 1, that is not seen or is taken for another one.
fn odd(text: &str, line: usize) -> Option<String> {
    let line = text.split('\n').nth(line.checked_sub(1)?)?;
    let is_quote = |c: char| ('\u{2018}'..='\u{201f}').contains(&c);
    let found = characters::hidden(line).or_else(|| line.chars().find(|c| is_quote(*c)))?;
    Some(format!("the line holds {}: {}", characters::describe(found), characters::instead(found)))
}

/// Whether a text is JSON, whatever it says.
pub(super) fn is_json(text: &[u8]) -> bool {
    serde_json::from_slice::<serde::de::IgnoredAny>(text).is_ok()
}

/// serde's words for the value at a path of a JSON text.
pub(super) fn found(text: &[u8], path: &Path) -> String {
    let Ok(whole) = serde_json::from_slice::<serde_json::Value>(text) else { return String::new() };
    let value = path.iter().try_fold(&whole, |value, segment| match segment {
        Segment::Map { key } => value.get(key),
        Segment::Seq { index } => value.get(index),
        Segment::Enum { .. } | Segment::Unknown => Some(value),
    });
    match value {
        Some(serde_json::Value::Bool(flag)) => format!("boolean `{flag}`"),
        Some(serde_json::Value::Number(number)) => format!("integer `{number}`"),
        Some(serde_json::Value::String(text)) => format!("string {text:?}"),
        Some(serde_json::Value::Array(_)) => "sequence".to_owned(),
        Some(serde_json::Value::Object(_)) => "map".to_owned(),
        Some(serde_json::Value::Null) | None => "null".to_owned(),
    }
}
