//! Records denied callers in the audit log, limited so that they cannot fill the disk.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::http::Method;
use evenkeel::Handle;
use evenkeel::audit::{AuditAction, AuditOutcome, Requester};
use evenkeel_core::ids::counted;
use evenkeel_core::time::{Millis, Mono};

/// This many denials are recorded one by one in one interval; further ones are counted and recorded together.
const MOST: u32 = 10;
const SPAN: Millis = Millis::secs(60);

/// The denials of the current interval.
#[derive(Default)]
pub(crate) struct DenialLog(Mutex<DenialCount>);

#[derive(Default)]
struct DenialCount {
    /// When the current interval began.
    begun: Option<Mono>,
    noted: u32,
    /// The number of denials that were not recorded.
    more: u64,
}

/// What to do about a denial.
#[derive(Debug, PartialEq, Eq)]
enum DenialAction {
    Note,
    /// Only count it; it is the first that is not recorded in its interval.
    First(Duration),
    Count,
}

impl DenialLog {
    /// Records a denial, or counts it.
    pub(crate) async fn note(
        self: &Arc<Self>,
        handle: &Handle,
        asker: Requester,
        method: &Method,
        path: &str,
        why: String,
    ) {
        let turn = self.turn(evenkeel::clock::now().mono);
        match turn {
            DenialAction::Note => {
                let action = AuditAction::new(&method.as_str().to_lowercase(), path);
                handle.log_decision(asker, action, AuditOutcome::Denied, why).await;
            }
            DenialAction::First(rest) => {
                let (all, handle) = (self.clone(), handle.clone());
                tokio::spawn(async move {
                    let left = tokio::time::timeout(rest, handle.stopped()).await;
                    // A stopped node cannot write an entry.
                    if left.is_err() {
                        all.sum_up(&handle, asker).await;
                    }
                });
            }
            DenialAction::Count => {}
        }
    }

    async fn sum_up(&self, handle: &Handle, asker: Requester) {
        let more = std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner).more);
        let callers = counted(usize::try_from(more).unwrap_or(usize::MAX), "more caller");
        let why = format!("not let in within a minute: {callers}, the first of them from here");
        handle.log_decision(asker, AuditAction::new("ask", "several"), AuditOutcome::Denied, why).await;
    }

    fn turn(&self, now: Mono) -> DenialAction {
        let mut count = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let begun = match count.begun {
            Some(begun) if now - begun < SPAN => begun,
            _ => {
                *count = DenialCount { begun: Some(now), noted: 0, more: count.more };
                now
            }
        };
        if count.noted < MOST {
            count.noted += 1;
            return DenialAction::Note;
        }
        count.more += 1;
        match count.more {
            1 => DenialAction::First(Duration::from_millis((begun + SPAN - now).0.max(0).cast_unsigned())),
            _ => DenialAction::Count,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// proves: I47
    #[test]
    fn few_are_noted_however_many_there_are() {
        let denials = DenialLog::default();
        let turns: Vec<DenialAction> = (0..1_000).map(|n| denials.turn(Mono(n))).collect();
        assert_eq!(turns.iter().filter(|turn| **turn == DenialAction::Note).count(), MOST as usize);
        assert_eq!(turns.iter().filter(|turn| matches!(turn, DenialAction::First(_))).count(), 1);
        assert_eq!(denials.0.lock().unwrap().more, 990);
        assert_eq!(denials.turn(Mono(SPAN.0)), DenialAction::Note, "a new span");
    }
}
