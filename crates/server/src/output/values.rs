//! Answers for programs: JSON, JSON Lines, YAML, and names alone.

use evenkeel_core::ids::is_unseen;
use serde::Serialize;
use serde_json::Value;

use super::format::OutputFormat;
use super::sink::line;
use crate::escaping;
use crate::exit::{CliError, ExitKind};

/// The fields that name an object, the first that it has.
const NAME_FIELDS: [&str; 6] = ["name", "run", "node", "job", "subject", "who"];

/// Prints a value in a format for programs.
///
/// # Errors
/// The format is `name` and the value has none, or standard output is closed.
pub(crate) fn value<T: Serialize>(output: OutputFormat, value: &T) -> Result<(), CliError> {
    match output {
        OutputFormat::Jsonl => json_lines(value),
        OutputFormat::Yaml => yaml(value),
        OutputFormat::Name => {
            let names = names(&encoded(value)?);
            let names = names.ok_or_else(|| CliError::usage("this answer has no name: choose another -o"))?;
            names.iter().try_for_each(|name| line(name))
        }
        OutputFormat::Toml => Err(CliError::usage("this answer is no declaration: choose another -o")),
        OutputFormat::Json | OutputFormat::Table | OutputFormat::Wide => json(value),
    }
}

/// Prints the answer to a change in a format for programs. One without a name prints nothing in the format `name`: the
/// change was made all the same.
///
/// # Errors
/// Standard output is closed.
pub(crate) fn changed<T: Serialize>(output: OutputFormat, answer: &T) -> Result<(), CliError> {
    if output != OutputFormat::Name {
        return value(output, answer);
    }
    names(&encoded(answer)?).into_iter().flatten().try_for_each(|name| line(&name))
}

fn json<T: Serialize>(value: &T) -> Result<(), CliError> {
    line(&pretty(value)?)
}

fn pretty<T: Serialize>(value: &T) -> Result<String, CliError> {
    Ok(escaping::json(&serde_json::to_string_pretty(value).map_err(broken)?))
}

fn encoded<T: Serialize>(value: &T) -> Result<Value, CliError> {
    serde_json::to_value(value).map_err(broken)
}

fn broken(error: impl ToString) -> CliError {
    CliError::new(ExitKind::Failed, error.to_string())
}

/// Each row in a line; what is no list is one line.
fn json_lines<T: Serialize>(value: &T) -> Result<(), CliError> {
    let value = encoded(value)?;
    let rows = value.as_array().map_or(std::slice::from_ref(&value), Vec::as_slice);
    rows.iter().try_for_each(|row| line(&escaping::json(&row.to_string())))
}

fn yaml<T: Serialize>(value: &T) -> Result<(), CliError> {
    let text = serde_yaml_ng::to_string(&encoded(value)?).map_err(broken)?;
    // YAML cannot escape everything that a terminal obeys or hides. JSON can, and is YAML.
    match text.chars().any(|c| c != '\n' && is_unseen(c)) {
        true => json(value),
        false => line(text.trim_end()),
    }
}

/// The names of a list's objects, or that of one object; `None` if one has none.
fn names(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::Array(rows) => rows.iter().map(name).collect(),
        one => name(one).map(|name| vec![name]),
    }
}

fn name(value: &Value) -> Option<String> {
    if let Some(text) = value.as_str() {
        return Some(text.to_owned());
    }
    NAME_FIELDS.iter().find_map(|field| value.get(field)?.as_str()).map(ToOwned::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::output::sink::capture;

    fn printed(output: OutputFormat, answer: &Value) -> String {
        let (done, captured) = capture(|| value(output, answer));
        done.expect("it is printed");
        String::from_utf8(captured.answer).expect("text")
    }

    #[test]
    fn an_answer_means_the_same_in_each_format_whatever_is_in_it() {
        let rows = json!([{ "name": "a", "next": null, "text": "x: \u{1b}[31m \u{202e}" }, { "name": "b" }]);
        assert_eq!(
            serde_json::from_str::<Value>(&printed(OutputFormat::Json, &rows)).ok(),
            Some(rows.clone())
        );
        let lines = printed(OutputFormat::Jsonl, &rows);
        let parsed: Vec<Value> = lines.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        assert_eq!(Value::Array(parsed), rows);
        let yaml = printed(OutputFormat::Yaml, &rows);
        assert!(!yaml.contains(['\u{1b}', '\u{202e}']), "{yaml:?}");
        assert_eq!(serde_yaml_ng::from_str::<Value>(&yaml).ok(), Some(rows.clone()));
        let plain = json!({ "name": "yes", "next": "2026-01-01T00:00:00.000Z", "lines": "a\nb: c" });
        let yaml = printed(OutputFormat::Yaml, &plain);
        assert!(yaml.starts_with("lines: |"), "{yaml}");
        assert_eq!(serde_yaml_ng::from_str::<Value>(&yaml).ok(), Some(plain));
        assert_eq!(printed(OutputFormat::Name, &rows), "a\nb\n");
        let (refused, _) = capture(|| value(OutputFormat::Name, &json!({ "done": true })));
        assert!(refused.is_err());
        let (done, captured) = capture(|| changed(OutputFormat::Name, &json!({ "done": true })));
        assert!(done.is_ok() && captured.answer.is_empty());
    }
}
