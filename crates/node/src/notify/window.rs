//! The deduplication window: one event per kind and subject is sent in it, and the next one carries the count.

use std::collections::BTreeMap;
use std::time::Duration;

use evenkeel_core::time::{Millis, Mono};

use super::incident;

/// The most remembered subjects; beyond, those whose window is over are forgotten, with their counts.
const SUBJECTS_MAX: usize = 10_000;

/// What was sent lately.
pub(super) struct DedupWindow {
    span: Millis,
    /// Whether an event of one kind ends the window of those that it closes or opens again.
    incidents: bool,
    sent: BTreeMap<(&'static str, String), DedupEntry>,
}

struct DedupEntry {
    at: Mono,
    suppressed: u64,
}

/// Whether an event is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DedupDecision {
    /// It is sent; so many of the same were suppressed.
    Send { suppressed: u64 },
    /// It is suppressed and counted.
    Suppress,
}

impl DedupWindow {
    /// A window of this span; with `incidents` its receiver keeps incidents that open and close, so no change between the
    /// two is suppressed: else an incident could stay open, or closed, for ever.
    pub(super) fn new(span: Duration, incidents: bool) -> Self {
        let span = Millis(i64::try_from(span.as_millis()).unwrap_or(i64::MAX / 2));
        Self { span, incidents, sent: BTreeMap::new() }
    }

    pub(super) fn ask(&mut self, now: Mono, kind: &'static str, subject: &str) -> DedupDecision {
        if self.sent.len() >= SUBJECTS_MAX {
            let span = self.span;
            self.sent.retain(|_, told| now < told.at + span);
        }
        if self.incidents {
            for other in incident::opposites(kind) {
                self.sent.remove(&(*other, subject.to_owned()));
            }
        }
        let key = (kind, subject.to_owned());
        match self.sent.get_mut(&key) {
            Some(told) if now < told.at + self.span => {
                told.suppressed += 1;
                DedupDecision::Suppress
            }
            Some(told) => {
                let suppressed = std::mem::take(&mut told.suppressed);
                told.at = now;
                DedupDecision::Send { suppressed }
            }
            None => {
                if self.sent.len() < SUBJECTS_MAX {
                    self.sent.insert(key, DedupEntry { at: now, suppressed: 0 });
                }
                DedupDecision::Send { suppressed: 0 }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_is_told_once_within_a_window_and_counted_with_the_next() {
        let mut window = DedupWindow::new(Duration::from_secs(10), false);
        let mut ask = |at, kind, subject| window.ask(Mono(at), kind, subject);
        assert_eq!(ask(0, "alarm", "a"), DedupDecision::Send { suppressed: 0 });
        assert_eq!(ask(1, "alarm", "a"), DedupDecision::Suppress);
        assert_eq!(ask(2, "alarm", "b"), DedupDecision::Send { suppressed: 0 }, "another subject");
        assert_eq!(ask(3, "joined", "a"), DedupDecision::Send { suppressed: 0 }, "another kind");
        assert_eq!(ask(9_999, "alarm", "a"), DedupDecision::Suppress);
        assert_eq!(ask(10_000, "alarm", "a"), DedupDecision::Send { suppressed: 2 });
        assert_eq!(ask(10_001, "alarm", "a"), DedupDecision::Suppress, "the window begins anew");
        assert_eq!(ask(20_000, "alarm", "a"), DedupDecision::Send { suppressed: 1 });
    }

    #[test]
    fn an_incident_is_opened_and_closed_each_time_and_only_repetitions_are_suppressed() {
        let asked = [
            (0, "job.failure"),
            (1, "job.failure"),
            (2, "job.recovery"),
            (3, "job.recovery"),
            (4, "job.failure"),
            (5, "job.lost"),
            (6, "job.recovery"),
        ];
        let sent = |incidents| {
            let mut window = DedupWindow::new(Duration::from_secs(10), incidents);
            let sent = asked
                .into_iter()
                .filter(|(at, kind)| matches!(window.ask(Mono(*at), kind, "a"), DedupDecision::Send { .. }));
            sent.map(|(at, _)| at).collect::<Vec<_>>()
        };
        assert_eq!(sent(true), [0, 2, 4, 5, 6]);
        assert_eq!(sent(false), [0, 2, 5], "a chat gets each kind once");
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut window = DedupWindow::new(Duration::from_secs(10), false);
        for n in 0..SUBJECTS_MAX + 50 {
            window.ask(Mono(0), "alarm", &n.to_string());
        }
        assert_eq!(window.sent.len(), SUBJECTS_MAX);
        window.ask(Mono(10_000), "alarm", "later");
        assert_eq!(window.sent.len(), 1);
    }
}
