//! The window: the same kind about the same subject is told once within it, and how many more there were with the next.

use std::collections::BTreeMap;
use std::time::Duration;

use evenkeel_core::time::{Millis, Mono};

/// So many subjects are remembered; beyond them those whose window is over are forgotten, with what they counted.
const SUBJECTS_MAX: usize = 10_000;

/// What was told lately.
pub(super) struct Window {
    span: Millis,
    told: BTreeMap<(&'static str, String), Told>,
}

struct Told {
    at: Mono,
    suppressed: u64,
}

/// Whether something is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Telling {
    /// Yes, and so many of the same were not.
    Now { suppressed: u64 },
    /// No: it is counted.
    Counted,
}

impl Window {
    pub(super) fn new(span: Duration) -> Self {
        let span = Millis(i64::try_from(span.as_millis()).unwrap_or(i64::MAX / 2));
        Self { span, told: BTreeMap::new() }
    }

    pub(super) fn ask(&mut self, now: Mono, kind: &'static str, subject: &str) -> Telling {
        if self.told.len() >= SUBJECTS_MAX {
            let span = self.span;
            self.told.retain(|_, told| now < told.at + span);
        }
        let key = (kind, subject.to_owned());
        match self.told.get_mut(&key) {
            Some(told) if now < told.at + self.span => {
                told.suppressed += 1;
                Telling::Counted
            }
            Some(told) => {
                let suppressed = std::mem::take(&mut told.suppressed);
                told.at = now;
                Telling::Now { suppressed }
            }
            None => {
                if self.told.len() < SUBJECTS_MAX {
                    self.told.insert(key, Told { at: now, suppressed: 0 });
                }
                Telling::Now { suppressed: 0 }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_is_told_once_within_a_window_and_counted_with_the_next() {
        let mut window = Window::new(Duration::from_secs(10));
        let mut ask = |at, kind, subject| window.ask(Mono(at), kind, subject);
        assert_eq!(ask(0, "alarm", "a"), Telling::Now { suppressed: 0 });
        assert_eq!(ask(1, "alarm", "a"), Telling::Counted);
        assert_eq!(ask(2, "alarm", "b"), Telling::Now { suppressed: 0 }, "another subject");
        assert_eq!(ask(3, "joined", "a"), Telling::Now { suppressed: 0 }, "another kind");
        assert_eq!(ask(9_999, "alarm", "a"), Telling::Counted);
        assert_eq!(ask(10_000, "alarm", "a"), Telling::Now { suppressed: 2 });
        assert_eq!(ask(10_001, "alarm", "a"), Telling::Counted, "the window begins anew");
        assert_eq!(ask(20_000, "alarm", "a"), Telling::Now { suppressed: 1 });
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut window = Window::new(Duration::from_secs(10));
        for n in 0..SUBJECTS_MAX + 50 {
            window.ask(Mono(0), "alarm", &n.to_string());
        }
        assert_eq!(window.told.len(), SUBJECTS_MAX);
        window.ask(Mono(10_000), "alarm", "later");
        assert_eq!(window.told.len(), 1);
    }
}
