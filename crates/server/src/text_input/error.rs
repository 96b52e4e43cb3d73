//! Parses serde's fixed error sentences into kinds of mistakes.

use evenkeel_core::characters;

/// A kind of mistake.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum InputErrorKind<'a> {
    UnknownKey {
        key: &'a str,
        allowed: Vec<&'a str>,
    },
    Missing {
        key: &'a str,
    },
    Twice {
        key: &'a str,
    },
    /// A value of another type than the key takes, or out of its range.
    WrongValue {
        found: &'a str,
        expected: &'a str,
    },
    /// A word that the key does not take.
    UnknownWord {
        word: &'a str,
        allowed: Vec<&'a str>,
    },
    /// A sentence of Evenkeel's own, or about a format's syntax.
    Other(&'a str),
}

impl<'a> InputErrorKind<'a> {
    /// Parses one of serde's sentences.
    pub(super) fn of(text: &'a str) -> Self {
        let quoted = |rest: &'a str| rest.split_once('`');
        let words = |rest: &'a str| rest.split('`').skip(1).step_by(2).collect();
        if let Some((key, rest)) = text.strip_prefix("unknown field `").and_then(quoted) {
            return Self::UnknownKey { key, allowed: words(rest) };
        }
        if let Some((key, _)) = text.strip_prefix("missing field `").and_then(quoted) {
            return Self::Missing { key };
        }
        if let Some((key, _)) = text.strip_prefix("duplicate field `").and_then(quoted) {
            return Self::Twice { key };
        }
        if let Some((word, rest)) = text.strip_prefix("unknown variant `").and_then(quoted) {
            return Self::UnknownWord { word, allowed: words(rest) };
        }
        for kind in ["invalid type: ", "invalid value: ", "invalid length "] {
            if let Some((found, expected)) =
                text.strip_prefix(kind).and_then(|rest| rest.rsplit_once(", expected "))
            {
                return Self::WrongValue { found, expected };
            }
        }
        // The TOML parser's message about a choice that is neither a text nor a table.
        if text.starts_with("wanted string or table") {
            return Self::WrongValue { found: "", expected: "a text or a table" };
        }
        // And the one about such a table with no key, or with several.
        if text.starts_with("wanted exactly 1 element") {
            return Self::WrongValue {
                found: "a table without a key or with several",
                expected: "a table with one key",
            };
        }
        Self::Other(text)
    }

    /// Whether it is about the syntax of the format rather than about a value.
    pub(super) fn is_syntax(&self) -> bool {
        matches!(self, Self::Other(_))
    }

    /// The message for this key, with the values that it takes if known; `holder` is the key that contains it, `whole`
    /// a name of the whole text.
    pub(super) fn message(&self, key: &str, takes: &str, holder: &str, whole: &str) -> String {
        let subject = if key.is_empty() { whole } else { key };
        let known = |expected: &str| if takes.is_empty() { plain(expected) } else { takes.to_owned() };
        match self {
            Self::UnknownKey { key, allowed } => match nearest(key, allowed) {
                Some(meant) => format!("unknown key {key:?}: did you mean {meant:?}?"),
                None => format!("unknown key {key:?}: the keys are {}", allowed.join(", ")),
            },
            Self::Missing { key: missing } => {
                let of = match holder {
                    "" => String::new(),
                    holder => format!(" of {holder}"),
                };
                let takes = if takes.is_empty() { String::new() } else { format!(": it takes {takes}") };
                format!("the key {missing:?}{of} is missing{takes}")
            }
            Self::Twice { key } => format!("the key {key:?} is given twice: leave one out"),
            Self::WrongValue { found, expected } => {
                let found = value(found);
                let found = if found.is_empty() { String::new() } else { format!(", not {found}") };
                let subject = if subject.is_empty() { "the value" } else { subject };
                format!("{subject} takes {}{found}", known(expected))
            }
            Self::UnknownWord { word, allowed } => {
                let list = allowed.iter().map(|word| format!("{word:?}")).collect::<Vec<_>>().join(", ");
                let meant = nearest(word, allowed)
                    .map_or_else(String::new, |meant| format!("; did you mean {meant:?}?"));
                let subject = if subject.is_empty() { "the value" } else { subject };
                let takes = known(&format!("one of {list}"));
                format!("{subject} is {word:?}: it takes {takes}{meant}{}", unseen(word))
            }
            Self::Other(text) => {
                let last = subject.rsplit('.').next().unwrap_or_default();
                let said = last.is_empty() || text.contains(last);
                let verb = text.starts_with("is ");
                match (said, verb) {
                    (_, true) => format!("{subject} {text}"),
                    (false, false) => format!("{subject}: {text}"),
                    (true, false) => (*text).to_owned(),
                }
            }
        }
    }
}

/// The end of a message about a word, where it holds a character that people do not see.
pub(super) fn unseen(word: &str) -> String {
    characters::hidden(word).map_or_else(String::new, |c| {
        format!("; it holds {}: {}", characters::describe(c), characters::instead(c))
    })
}

/// serde's description of what it expected, in plain words.
fn plain(expected: &str) -> String {
    match expected {
        "a string" | "string" => "a text".to_owned(),
        "a sequence" | "sequence" => "a list".to_owned(),
        "a map" | "map" => "a table".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "i8" | "i16" | "i32" | "i64" | "isize" | "u8" | "u16" | "u32" | "u64" | "usize" => {
            "a whole number".to_owned()
        }
        "f32" | "f64" => "a number".to_owned(),
        other if other.starts_with("struct ") => "a table".to_owned(),
        other => other.to_owned(),
    }
}

/// serde's description of a value, in plain words.
fn value(found: &str) -> String {
    // A number that fits no type has the name of one behind it.
    let inner =
        |kind: &str| found.strip_prefix(kind).and_then(|rest| rest.trim_start_matches('`').split('`').next());
    if let Some(number) = inner("integer ").or_else(|| inner("floating point ")) {
        return format!("the number {number}");
    }
    if let Some(text) = found.strip_prefix("string ") {
        return format!("the text {text}");
    }
    if let Some(bool) = inner("boolean ") {
        return bool.to_owned();
    }
    match found {
        "map" => "a table".to_owned(),
        "sequence" => "a list".to_owned(),
        "null" | "unit value" | "Option value" => "nothing".to_owned(),
        "unit variant" => "a word alone".to_owned(),
        "newtype variant" | "struct variant" | "tuple variant" => "a table".to_owned(),
        other => other.to_owned(),
    }
}

/// Other schedulers' names for a key or a word, and Evenkeel's.
const ELSEWHERE: &[(&str, &str)] = &[
    ("args", "command"),
    ("argv", "command"),
    ("limit", "limit"),
    ("catch_up_age", "catch_up_window"),
    ("catchup", "catch_up"),
    ("cmd", "command"),
    ("coalesce", "latest"),
    ("codes", "exit_codes"),
    ("concurrency", "overlap"),
    ("concurrency_policy", "overlap"),
    ("concurrent", "allow"),
    ("cron", "schedule"),
    ("cwd", "directory"),
    ("dir", "directory"),
    ("env", "environment"),
    ("every_node", "placement"),
    ("except", "exclude_calendars"),
    ("exclusive_per_host", "one_per_host"),
    ("exec", "command"),
    ("from", "start_at"),
    ("grace", "misfire_grace"),
    ("guarantee", "min_durability"),
    ("interval", "schedule"),
    ("labels", "node_selector"),
    ("kill", "replace"),
    ("max_attempts", "max_retries"),
    ("max_difference", "max_clock_skew"),
    ("monitor", "monitor_execution"),
    ("never", "skip"),
    ("nodes", "node_selector"),
    ("none", "skip"),
    ("on_error", "notify"),
    ("once", "latest"),
    ("only", "require_calendars"),
    ("parallel", "allow"),
    ("queued", "queue"),
    ("program", "command"),
    ("recut_wait", "reshard_timeout"),
    ("retries", "retry"),
    ("run", "command"),
    ("script", "command"),
    ("static_shards", "sticky_shards"),
    ("time_zone", "timezone"),
    ("times", "max_retries"),
    ("tz", "timezone"),
    ("until", "end_at"),
    ("up_to", "max_delay"),
    ("wait", "delay"),
    ("when", "schedule"),
    ("workdir", "directory"),
    ("working_directory", "directory"),
    ("zone", "timezone"),
];

/// The allowed word that was probably meant.
pub(crate) fn nearest<'a>(word: &str, allowed: &[&'a str]) -> Option<&'a str> {
    let plain = word.to_ascii_lowercase().replace('-', "_");
    let plain: String = plain.chars().filter(|c| !characters::is_hidden(*c)).collect();
    if let Some(same) = allowed.iter().find(|known| known.eq_ignore_ascii_case(&plain)) {
        return Some(same);
    }
    let mut elsewhere = ELSEWHERE.iter().filter(|(theirs, _)| *theirs == plain).map(|(_, ours)| *ours);
    if let Some(ours) = elsewhere.find_map(|ours| allowed.iter().find(|known| **known == ours)) {
        return Some(ours);
    }
    if plain.chars().count() < 2 {
        return None;
    }
    let distance = |known: &str| strsim::damerau_levenshtein(&plain, known);
    let near = allowed.iter().map(|known| (distance(known), *known)).min()?;
    // A third of the word may be wrong, and a letter of a short one. A word may also be truncated.
    let cut = || allowed.iter().find(|known| plain.len() >= 4 && known.starts_with(&plain)).copied();
    (near.0 <= (plain.chars().count() / 3).max(1)).then_some(near.1).or_else(cut)
}
