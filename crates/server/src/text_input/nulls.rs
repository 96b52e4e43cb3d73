//! Refuses `null`, `~` and nothing at all in YAML where a text is due: the parser makes the text "null" of them.

use serde_yaml_ng::Value;

use super::input_error::{InputError, TextFormat};
use super::keys;
use super::keys::ReadTarget;
use super::value_kind::ValueKind;

/// Checks that no text of a YAML file is null.
///
/// # Errors
/// The first text that is.
pub(super) fn refuse(text: &str, kind: ReadTarget) -> Result<(), InputError> {
    // A file that is read has been parsed once already, so what cannot be parsed here is another document.
    let Ok(value) = serde_yaml_ng::from_str::<Value>(text) else { return Ok(()) };
    let mut names = Vec::new();
    let Some(address) = first(&value, kind, &mut names) else { return Ok(()) };
    let last = names.last().cloned().unwrap_or_default();
    let (line, column) = place(text, &last);
    let takes = keys::takes((TextFormat::Yaml, kind), &address);
    let takes = if takes.is_empty() { "a text" } else { takes };
    let shown = keys::shown(&address);
    let text = format!("{shown} takes {takes}, not nothing: put the word in quotes if it is meant");
    Err(InputError { line, column, value: names.join("."), text })
}

/// The address of the first null where a text is due; `names` becomes its path.
fn first(value: &Value, kind: ReadTarget, names: &mut Vec<String>) -> Option<String> {
    match value {
        Value::Null => {
            let path: Vec<&str> = names.iter().map(String::as_str).collect();
            let address = kind.address(&path);
            takes_text(&address).then_some(address)
        }
        Value::Sequence(list) => list.iter().find_map(|item| first(item, kind, names)),
        Value::Mapping(table) => table.iter().find_map(|(key, value)| {
            names.push(key.as_str().unwrap_or_default().to_owned());
            let found = first(value, kind, names);
            if found.is_none() {
                names.pop();
            }
            found
        }),
        Value::Tagged(tagged) => first(&tagged.value, kind, names),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

/// Whether the value at this address, or each item of its list, is a text.
fn takes_text(address: &str) -> bool {
    use ValueKind::{Program, SomeOf, Text, TextOrTexts, TextTable, Texts};
    let holder = address.rsplit_once('.').map_or("", |(holder, _)| holder);
    match keys::kind(address) {
        // A namespace may be null in each format.
        Some(Text) => !address.ends_with(".namespace"),
        Some(Texts | TextOrTexts | Program | SomeOf(_)) => true,
        Some(_) => false,
        None => keys::kind(holder) == Some(TextTable),
    }
}

/// The line and column, counted from 1, of the first key of this name whose value is nothing; the beginning if it is
/// written in another way.
fn place(text: &str, key: &str) -> (usize, usize) {
    let is_null = |rest: &str| {
        ["", "~", "null", "Null", "NULL"].contains(&rest.split('#').next().unwrap_or_default().trim())
    };
    let found = text.lines().enumerate().find_map(|(index, line)| {
        let plain = line.trim_start_matches([' ', '-']);
        let rest = plain.strip_prefix(key)?.trim_start().strip_prefix(':')?;
        let column = line.len() - plain.len() + 1;
        is_null(rest).then_some((index + 1, column))
    });
    let inline = || {
        let (index, line) = text.lines().enumerate().find(|(_, line)| line.contains(key))?;
        Some((index + 1, line.find(key)? + 1))
    };
    found.or_else(inline).unwrap_or((1, 1))
}
