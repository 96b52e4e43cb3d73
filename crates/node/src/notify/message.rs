//! The message about an event: as JSON, as text, and in a command's environment.

use std::collections::BTreeMap;

use evenkeel_core::effect::{EventLevel, EventReport};
use evenkeel_core::ids::is_unseen;
use evenkeel_core::job::Occasion;
use evenkeel_core::time::Wall;
use serde::Serialize;

use crate::history::Notice;

/// The most bytes of an event's text, so that a command that reads nothing never blocks its notifier.
const TEXT_MAX: usize = 16 * 1024;

/// How bad an event is, for receivers that sort by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AlertSeverity {
    /// A change that is expected, or the end of a fault.
    Info,
    /// Something that people should look at.
    Warning,
    /// Work was not done, or may not have been done.
    Error,
}

impl AlertSeverity {
    fn of_level(level: EventLevel) -> Self {
        match level {
            EventLevel::Debug | EventLevel::Info => Self::Info,
            EventLevel::Warn => Self::Warning,
        }
    }

    fn of_occasion(occasion: Occasion) -> Self {
        match occasion {
            Occasion::Failure | Occasion::Lost | Occasion::Absent => Self::Error,
            Occasion::Miss | Occasion::Late => Self::Warning,
            Occasion::Recovery => Self::Info,
        }
    }
}

/// The message about one event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Message {
    /// The kind of event.
    pub(super) kind: &'static str,
    /// The subject: events of one kind and subject are sent once within a window.
    pub(super) subject: String,
    /// The node that reports it.
    pub(super) node: String,
    /// When, as RFC 3339.
    pub(super) at: String,
    /// The text.
    pub(super) text: String,
    /// How many of the same were suppressed since the last one.
    pub(super) suppressed: u64,
    /// The event's numbers.
    pub(super) facts: BTreeMap<&'static str, u64>,
    /// The id of a notice about a job, which is the same in a repetition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<String>,
    /// The run that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) run: Option<String>,
    /// The due moment of the run, as RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) due: Option<String>,
    /// How bad it is; the plain JSON has the kind instead.
    #[serde(skip)]
    pub(super) severity: AlertSeverity,
}

impl Message {
    pub(super) fn of(at: Wall, node: &str, report: &EventReport) -> Self {
        Self {
            kind: report.kind,
            subject: report.subject.clone().unwrap_or_else(|| node.to_owned()),
            node: node.to_owned(),
            at: at.to_string(),
            text: bounded(&report.text),
            suppressed: 0,
            facts: report.facts.iter().copied().collect(),
            id: None,
            run: None,
            due: None,
            severity: AlertSeverity::of_level(report.level),
        }
    }

    pub(super) fn of_notice(node: &str, notice: &Notice) -> Self {
        let attempt = (notice.attempt > 0).then_some(("attempt", u64::from(notice.attempt)));
        Self {
            kind: notice.occasion.kind(),
            subject: notice.job.to_string(),
            node: node.to_owned(),
            at: notice.at.to_string(),
            text: bounded(&notice.text),
            suppressed: 0,
            facts: attempt.into_iter().collect(),
            id: Some(notice.id.clone()),
            run: Some(notice.run.to_string()),
            due: Some(notice.due.to_string()),
            severity: AlertSeverity::of_occasion(notice.occasion),
        }
    }

    /// What it is about, in one line.
    pub(super) fn title(&self) -> String {
        let title = format!("[evenkeel] {} {}", self.kind, self.subject);
        title.chars().map(|c| if is_unseen(c) { ' ' } else { c }).collect()
    }

    /// What stands below the text where people read it, with names.
    pub(super) fn fields(&self) -> Vec<(&'static str, String)> {
        let suppressed = (self.suppressed > 0).then(|| self.suppressed.to_string());
        [
            ("run", self.run.clone()),
            ("due", self.due.clone()),
            ("node", Some(self.node.clone())),
            ("at", Some(self.at.clone())),
            ("more since the last message", suppressed),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
    }

    /// The message as JSON, for webhooks and commands.
    pub(super) fn json(&self) -> Vec<u8> {
        // Texts and numbers under text keys, which JSON can always express.
        serde_json::to_vec(self).expect("a message is plain data")
    }

    /// The message as the text of a mail.
    pub(super) fn letter(&self) -> String {
        let mut letter = format!("{}\n\nkind: {}\nabout: {}\n", self.text, self.kind, self.subject);
        let more = [("run", &self.run), ("due", &self.due), ("id", &self.id)];
        for (name, value) in more.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?))) {
            letter.push_str(&format!("{name}: {value}\n"));
        }
        letter.push_str(&format!("node: {}\nat: {}\n", self.node, self.at));
        if self.suppressed > 0 {
            letter.push_str(&format!(
                "{} more of the same were not told since the last one\n",
                self.suppressed
            ));
        }
        letter
    }

    /// The message as environment variables of a command.
    pub(super) fn environment(&self) -> BTreeMap<String, String> {
        let named = |name: &str| format!("EVENKEEL_EVENT_{}", name.to_ascii_uppercase());
        let texts = [
            ("kind", self.kind),
            ("subject", self.subject.as_str()),
            ("node", self.node.as_str()),
            ("at", self.at.as_str()),
            ("text", self.text.as_str()),
        ];
        let more = [("id", &self.id), ("run", &self.run), ("due", &self.due)];
        let more = more.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?)));
        let texts =
            texts.into_iter().chain(more).map(|(name, value)| (named(name), value.replace('\0', " ")));
        let suppressed = [(named("suppressed"), self.suppressed.to_string())];
        let facts = self.facts.iter().map(|(name, value)| (named(name), value.to_string()));
        texts.chain(suppressed).chain(facts).collect()
    }
}

/// A text cut to the length that is sent.
fn bounded(text: &str) -> String {
    let end = (0..=TEXT_MAX.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    text.get(..end).unwrap_or_default().to_owned()
}
