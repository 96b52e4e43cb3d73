//! Parses what users write: job files, settings files and request bodies. A mistake is reported with its line, its key,
//! the values that the key takes and the nearest valid key, without serde's words.

mod error;
mod input_error;
mod keys;
mod nulls;
pub(crate) mod schema;
mod syntax;
mod value_kind;

use serde::de::DeserializeOwned;
use serde_path_to_error::{Path, Segment};

use error::InputErrorKind;
pub(crate) use error::nearest;
pub(crate) use input_error::{InputError, TextFormat};
pub(crate) use keys::ReadTarget;

/// The maximum depth of lists and tables: a job needs 5.
const DEPTH_MAX: usize = 64;
/// The maximum number of values and keys in a YAML file, with those that its aliases repeat.
const YAML_EVENTS_MAX: usize = 20_000_000;
/// The maximum number of anchors, and of aliases, in a YAML file.
const ALIASES_MAX: usize = 10_000;
/// The maximum number of values and keys that the aliases of a YAML file repeat in total.
const REPEATED_EVENTS_MAX: usize = 200_000;

/// The maximum number of documents in a YAML file.
const DOCUMENTS_MAX: usize = 10_000;
/// The maximum number of bytes in the values of a YAML file, with those that its aliases repeat.
const YAML_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Parses a text in one of the formats.
///
/// # Errors
/// The first mistake in it.
pub(crate) fn read<T: DeserializeOwned>(
    language: TextFormat,
    text: &str,
    kind: ReadTarget,
) -> Result<T, InputError> {
    match language {
        TextFormat::Toml => toml(text, kind),
        TextFormat::Yaml => yaml(text, kind),
        TextFormat::Json => json(text.as_bytes(), kind),
    }
}

fn toml<T: DeserializeOwned>(text: &str, kind: ReadTarget) -> Result<T, InputError> {
    let at = |error: &toml::de::Error| error.span().map_or((1, 1), |span| position(text, span.start));
    let whole = |error: toml::de::Error| {
        InputError::syntax(
            at(&error),
            &syntax::explained(TextFormat::Toml, text, at(&error), error.message()),
        )
    };
    let input = toml::de::Deserializer::parse(text).map_err(whole)?;
    serde_path_to_error::deserialize(input).map_err(|error| {
        let path = error.path().clone();
        let error = error.into_inner();
        let mut mistake = InputError::new(at(&error), &path, error.message(), (TextFormat::Toml, kind));
        if let Some(begin) = error.span().and_then(|span| text.get(span))
            && begin.starts_with(|c: char| c.is_ascii_digit())
            && mistake.text.ends_with(", not a table")
        {
            mistake.text = mistake.text.replace(", not a table", ": put the date in quotes");
        }
        mistake
    })
}

/// Checks that a YAML text costs little to parse.
///
/// # Errors
/// The position at which it is nested too deeply, or repeats too much.
pub(crate) fn within_limits(text: &str) -> Result<(), InputError> {
    let read = serde_saphyr::from_multiple_with_options::<serde::de::IgnoredAny>(text, yaml_limits());
    let Err(error) = read else { return Ok(()) };
    let place = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    let at = error.location().map_or((1, 1), |at| (place(at.line()), place(at.column())));
    let what = error.to_string();
    let what = what.split_once(" at line ").map_or(what.as_str(), |(what, _)| what);
    let text = match what {
        what if what.starts_with("recursion limit") || what.contains("Depth {") => {
            format!("lists and tables lie in each other more than {DEPTH_MAX} deep: write them flatter")
        }
        what if what.starts_with("budget breached") || what.starts_with("alias replay") => format!(
            "it holds too much, or its aliases repeat too much ({what}): write it out, or split the file"
        ),
        // The parser will find any other mistake again, and report it better.
        _ => return Ok(()),
    };
    Err(InputError { line: at.0, column: at.1, value: String::new(), text })
}

/// The limits for parsing YAML. Everything that an alias repeats counts as if it were written out.
fn yaml_limits() -> serde_saphyr::Options {
    serde_saphyr::options! {
        with_snippet: false,
        budget: serde_saphyr::budget! {
            max_depth: DEPTH_MAX,
            flow_nesting_limit: DEPTH_MAX,
            max_documents: DOCUMENTS_MAX,
            max_events: YAML_EVENTS_MAX,
            max_nodes: YAML_EVENTS_MAX,
            max_aliases: ALIASES_MAX,
            max_anchors: ALIASES_MAX,
            max_total_scalar_bytes: YAML_BYTES_MAX,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: REPEATED_EVENTS_MAX,
        },
    }
}

fn yaml<T: DeserializeOwned>(text: &str, kind: ReadTarget) -> Result<T, InputError> {
    within_limits(text)?;
    let mut track = serde_path_to_error::Track::new();
    let input = serde_yaml_ng::Deserializer::from_str(text);
    let input = serde_path_to_error::Deserializer::new(input, &mut track);
    let read = serde_yaml_ng::with::singleton_map_recursive::deserialize(input);
    let read = read.map_err(|error| {
        let at = error.location().map_or((1, 1), |at| (at.line(), at.column()));
        let what = error.to_string();
        let what = what.rsplit_once(" at line ").map_or(what.as_str(), |(what, _)| what);
        let path = track.path();
        // The library prefixes the path, without its last key for some mistakes.
        let what = match what.split_once(": ") {
            Some((before, rest)) if !before.is_empty() && path.to_string().starts_with(before) => rest,
            _ => what,
        };
        match syntax::yaml(text, at, what) {
            Some(fix) => InputError::syntax(at, &fix),
            None if path.iter().len() == 0 && InputErrorKind::of(what).is_syntax() => {
                InputError::syntax(at, what)
            }
            None => InputError::new(at, &path, what, (TextFormat::Yaml, kind)),
        }
    })?;
    nulls::refuse(text, kind).map(|()| read)
}

/// Parses a value that was put together of texts in one of the formats. Its mistakes have no position.
///
/// # Errors
/// The first mistake in it.
pub(crate) fn value<T: DeserializeOwned>(
    value: serde_json::Value,
    language: TextFormat,
    kind: ReadTarget,
) -> Result<T, InputError> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = error.path().clone();
        InputError::new((1, 1), &path, &error.into_inner().to_string(), (language, kind))
    })
}

/// Parses JSON.
///
/// # Errors
/// The first mistake in it.
pub(crate) fn json<T: DeserializeOwned>(text: &[u8], kind: ReadTarget) -> Result<T, InputError> {
    let mut input = serde_json::Deserializer::from_slice(text);
    let mistake = |error: &serde_json::Error, path: Option<&Path>| {
        let at = (error.line().max(1), error.column().max(1));
        let what = error.to_string();
        let what = what.rsplit_once(" at line ").map_or(what.as_str(), |(what, _)| what);
        match (path, error.classify()) {
            (Some(path), serde_json::error::Category::Data) => {
                InputError::new(at, path, what, (TextFormat::Json, kind))
            }
            // Where a word or a table is due, any other value is a mistake of syntax to the library.
            (Some(path), _) if syntax::is_json(text) => {
                let found = syntax::found(text, path);
                let what = format!("invalid type: {found}, expected a text or a table");
                InputError::new(at, path, &what, (TextFormat::Json, kind))
            }
            _ => InputError::syntax(at, &syntax::json(text, at, what)),
        }
    };
    if let (Some(b'['), false) = (text.trim_ascii_start().first(), kind == ReadTarget::Body) {
        let what = "invalid type: sequence, expected a table";
        let nowhere = serde_path_to_error::Track::new().path();
        return Err(InputError::new((1, 1), &nowhere, what, (TextFormat::Json, kind)));
    }
    let read = serde_path_to_error::deserialize(&mut input)
        .map_err(|error| mistake(error.inner(), Some(error.path())))?;
    input.end().map(|()| read).map_err(|error| mistake(&error, None))
}

/// Checks that a word of the command line or of a query is one of the allowed ones.
///
/// # Errors
/// It is not: the text lists the allowed words and the nearest one.
pub(crate) fn one_of<'a>(what: &str, word: &str, allowed: &[&'a str]) -> Result<&'a str, String> {
    if let Some(known) = allowed.iter().find(|known| **known == word) {
        return Ok(known);
    }
    let meant = error::nearest(word, allowed).map(|meant| format!("did you mean {meant:?}? "));
    let all = allowed.join(", ");
    Err(format!("no {what} is called {word:?}: {}use one of {all}", meant.unwrap_or_default()))
}

/// The message for a refused query string, in the same style as for a refused body.
pub(crate) fn query(text: &str) -> String {
    let (key, what) = text.split_once(": ").unwrap_or(("", text));
    match InputErrorKind::of(text) {
        InputErrorKind::Other(_) => match InputErrorKind::of(what) {
            InputErrorKind::Other(_) if !key.is_empty() && !what.contains(key) => format!("{key}: {what}"),
            InputErrorKind::Other(what) => what.to_owned(),
            fault => fault.message(key, "", "", ""),
        },
        fault => fault.message("", "", "", ""),
    }
}

impl InputError {
    fn syntax((line, column): (usize, usize), what: &str) -> Self {
        Self { line, column, value: String::new(), text: one_line(what) }
    }

    fn new(at: (usize, usize), path: &Path, what: &str, read: (TextFormat, ReadTarget)) -> Self {
        let (_, kind) = read;
        let what = one_line(what);
        let fault = InputErrorKind::of(&what);
        let mut names: Vec<&str> = path.iter().filter_map(name).collect();
        if let InputErrorKind::UnknownKey { key, .. }
        | InputErrorKind::Missing { key }
        | InputErrorKind::Twice { key }
        | InputErrorKind::UnknownWord { word: key, .. } = &fault
            && names.last() == Some(key)
        {
            // Some parsers include the key itself in the path, and some do not.
            names.pop();
        }
        let address = kind.address(&names);
        let takes = keys::takes(read, &address);
        let holder = keys::shown(&address);
        let text = match &fault {
            InputErrorKind::UnknownKey { key, allowed } => keys::unknown(read, &address, key, allowed),
            InputErrorKind::Missing { key } => {
                let own = keys::joined(&address, key);
                fault.message(&keys::shown(&own), keys::takes(read, &own), &holder, kind.whole())
            }
            _ => fault.message(&holder, takes, &holder, kind.whole()),
        };
        Self { line: at.0, column: at.1, value: path.to_string(), text }
    }
}

fn name(segment: &Segment) -> Option<&str> {
    match segment {
        Segment::Map { key } => Some(key),
        Segment::Seq { .. } | Segment::Enum { .. } | Segment::Unknown => None,
    }
}

fn one_line(text: &str) -> String {
    text.split_ascii_whitespace().collect::<Vec<_>>().join(" ")
}

/// The line and column, counted from 1, of an offset into a text.
pub(crate) fn position(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
    (line, column)
}

/// A text without the byte order mark that some editors prefix, and with plain line ends.
pub(crate) fn plain(text: String) -> String {
    let text = match text.strip_prefix('\u{feff}') {
        Some(rest) => rest.to_owned(),
        None => text,
    };
    if text.contains('\r') { text.replace("\r\n", "\n").replace('\r', "\n") } else { text }
}

#[cfg(test)]
mod tests;
