//! What a schedule in another program's words means here.

use super::cron;
use super::error::ScheduleError;
use super::field::CronDialect;
use super::name_hash::NameHash;
use super::named;
use super::zone::Zone;
use alloc::format;
use alloc::string::{String, ToString};

/// The names of the weekdays, in Quartz's numbers from 1 on.
pub(super) const DAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

/// What a text for another program means here.
pub(super) struct Translation {
    /// Which program's words it is in, as the beginning of a message.
    pub(super) says: String,
    /// The rule that means the same, if there is one.
    pub(super) schedule: Option<String>,
    /// The time zone that it names.
    pub(super) timezone: Option<String>,
    /// What else a reader must know, as the end of a message.
    pub(super) note: String,
}

impl Translation {
    /// One whose rule is valid; without a rule if it is not.
    pub(super) fn new(says: impl Into<String>, schedule: impl Into<String>) -> Self {
        let (schedule, mut note) = (schedule.into(), String::new());
        let wrong = schedule.split('\n').find_map(problem);
        if let Some(why) = &wrong {
            note = format!("; {why}");
        }
        Self { says: says.into(), schedule: wrong.is_none().then_some(schedule), timezone: None, note }
    }

    /// One that has no rule of the same meaning.
    pub(super) fn none(says: impl Into<String>, note: impl Into<String>) -> Self {
        Self { says: says.into(), schedule: None, timezone: None, note: note.into() }
    }

    pub(super) fn noting(mut self, note: &str) -> Self {
        self.note.push_str(note);
        self
    }

    pub(super) fn within(mut self, zone: &str) -> Self {
        if let Err(why) = Zone::named(zone) {
            self.note = format!("{}; {why}", self.note);
        }
        self.timezone = Some(zone.to_string());
        self
    }

    pub(super) fn message(&self) -> String {
        let Self { says, schedule, timezone, note } = self;
        let rule = schedule.as_ref().map(|rule| rule.replace('\n', "` and `"));
        match (rule, timezone) {
            (Some(rule), None) => format!("{says}: write `{rule}`{note}"),
            (Some(rule), Some(zone)) => {
                format!("{says}: write timezone = \"{zone}\" and schedule = \"{rule}\"{note}")
            }
            (None, Some(zone)) => format!("{says}: write timezone = \"{zone}\"{note}"),
            (None, None) => format!("{says}{note}"),
        }
    }
}

/// Why a text is no rule; `None` where it is one.
pub(super) fn problem(text: &str) -> Option<ScheduleError> {
    let spread = NameHash::of("");
    let read = match text.split_once(' ') {
        _ if text.starts_with('@') => named::at_sign(text, spread).map(drop),
        Some(("at", moment)) => Zone::named("").and_then(|zone| named::moment("at", moment, &zone)).map(drop),
        _ => cron::parse(text, None, spread).map(drop),
    };
    read.err()
}

/// Whether it is a line of cron's five fields.
pub(super) fn is_line(text: &str) -> bool {
    cron::parse(text, Some(CronDialect::Vixie), NameHash::of("")).is_ok()
}

/// The text between the brackets of `name(…)`.
pub(super) fn call<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (head, rest) = text.split_at_checked(name.len())?;
    let inner = rest.trim_ascii_start().strip_prefix('(')?.trim_ascii_end().strip_suffix(')')?;
    head.eq_ignore_ascii_case(name).then_some(inner.trim_ascii())
}
