//! The trace of a world: always as a hash, so that two runs can be compared, and as text on request.

use std::hash::{Hash, Hasher};

use evenkeel_core::input::{Input, LeaseEvent, RunEvent};
use evenkeel_core::registry::{Change, TxnOutcome};

/// A hash of all events, and their text if it is kept.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    hash: Fnv,
    text: Option<Vec<String>>,
}

impl Trace {
    /// A trace that keeps its text on request.
    #[must_use]
    pub fn new(keeps_text: bool) -> Self {
        Self { hash: Fnv::default(), text: keeps_text.then(Vec::new) }
    }

    /// The hash so far.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.hash.finish()
    }

    /// The text so far; nothing unless it is kept.
    #[must_use]
    pub fn text(&self) -> &[String] {
        self.text.as_deref().unwrap_or_default()
    }

    /// Records an event. The text is made only if it is kept.
    pub fn note(&mut self, at: i64, who: &str, what: &impl Hash, text: impl FnOnce() -> String) {
        (at, who).hash(&mut self.hash);
        what.hash(&mut self.hash);
        if let Some(lines) = &mut self.text {
            lines.push(format!("{:>9} {who:<8} {}", seconds(at), text()));
        }
    }
}

/// Milliseconds as seconds with three decimals.
#[must_use]
pub fn seconds(at: i64) -> String {
    format!("{}.{:03}s", at / 1000, at % 1000)
}

/// FNV-1a, eight bytes at a time where there are that many.
#[derive(Clone, Copy, Debug)]
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    fn mix(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(0x0100_0000_01b3).rotate_left(23);
    }
}

impl Hasher for Fnv {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| self.mix(u64::from_le_bytes(*word)));
        rest.iter().for_each(|byte| self.mix(u64::from(*byte)));
    }
}

/// An input in a few words.
pub(crate) fn describe(input: &Input) -> String {
    match input {
        Input::Tick => "tick".to_owned(),
        Input::Lease(LeaseEvent::Opened { granted, .. }) => format!("lease {} opened", granted.lease),
        Input::Lease(LeaseEvent::Renewed { granted, .. }) => format!("lease {} renewed", granted.lease),
        Input::Lease(LeaseEvent::Gone(lease)) => format!("lease {lease} is gone"),
        Input::Lease(LeaseEvent::Failed) => "lease request failed".to_owned(),
        Input::Listed(None) => "listing failed".to_owned(),
        Input::Listed(Some(batch)) => {
            format!("listed {} entries at {}", batch.changes.len(), batch.revision)
        }
        Input::Changed(batch) => format!("news{}", changes(&batch.changes)),
        Input::Gap => "the feed ended".to_owned(),
        Input::Read(None) => "reading failed".to_owned(),
        Input::Read(Some(found)) => format!("read{}", changes(found)),
        Input::Committed { ticket, outcome } => match outcome {
            TxnOutcome::Applied(revision) => format!("#{} applied at {revision}", ticket.0),
            TxnOutcome::Refused(found) => format!("#{} refused, found{}", ticket.0, changes(found)),
            TxnOutcome::Unknown => format!("#{} unknown", ticket.0),
        },
        Input::Run { id, attempt, event: RunEvent::NotStarted } => {
            format!("{id} attempt {attempt} not started")
        }
        Input::Run { id, attempt, event: RunEvent::Ended(ended) } => {
            format!("{id} attempt {attempt} ended: {ended:?}")
        }
        Input::Recorded { run, attempt } => format!("{run} attempt {attempt} recorded"),
        Input::Probed { member, answer, .. } => format!("probed {member}: {answer:?}"),
        Input::Offered { to, runs, answer } => format!("offered {} runs to {to}: {answer:?}", runs.len()),
        Input::Sampled(sample) => format!("sampled: {sample:?}"),
        Input::Rest(rest) => format!("rest: {rest}"),
        Input::Able(able) => format!("able: {able}"),
        Input::Asked(ask, command) | Input::AskedBy(ask, _, command) => {
            format!("asked {}: {command:?}", ask.0)
        }
    }
}

fn changes(changes: &[Change]) -> String {
    let each = changes.iter().map(|change| match &change.entry {
        Some(entry) => {
            format!(" {}@{}={}", change.key, entry.revision, String::from_utf8_lossy(&entry.value))
        }
        None => format!(" {}@{} gone", change.key, change.revision),
    });
    each.collect()
}
