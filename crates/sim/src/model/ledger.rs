//! The ledger: the physical facts, kept beside the nodes and unknown to them, and the invariants that it checks.

use std::collections::BTreeSet;

use evenkeel_core::effect::VerdictState;
use evenkeel_core::ids::{Fire, Member, Token};
use evenkeel_core::job::Delivery;
use evenkeel_core::record::{Attempt, RunState};

use super::names::EPOCH;

pub(super) mod plans;

/// The physical facts of the job's fires. A fire is named by its due moment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct FireLedger {
    /// The fires.
    due: Vec<i64>,
    delivery: Delivery,
    /// Every (fire, attempt) that physically started.
    starts: BTreeSet<(i64, u32)>,
    /// Every (fire, attempt) that physically ended.
    ends: BTreeSet<(i64, u32)>,
    /// Fires that ran to their own end.
    done: BTreeSet<i64>,
    /// Fires given up.
    lost: BTreeSet<i64>,
    /// Fires claimed when the claimant's trust did not reach the due moment.
    hopeless: BTreeSet<i64>,
    /// The highest token that ever started.
    top: Token,
}

/// Whether the job was switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SwitchOff {
    /// It was not.
    On,
    /// It is paused.
    ForAWhile,
    /// It is disabled or deleted.
    ForGood,
}

/// The name of an invariant and the facts of its violation.
pub(super) type LedgerViolation = String;

/// A fire by its due moment, as in traces.
fn named(due: i64) -> String {
    format!("the fire of {}ms", due - EPOCH)
}

pub(super) fn require(
    holds: bool,
    invariant: &str,
    what: impl FnOnce() -> String,
) -> Result<(), LedgerViolation> {
    if holds { Ok(()) } else { Err(format!("{invariant}: {}", what())) }
}

impl FireLedger {
    pub(super) fn new(due: Vec<i64>, delivery: Delivery) -> Self {
        Self {
            due,
            delivery,
            starts: BTreeSet::new(),
            ends: BTreeSet::new(),
            done: BTreeSet::new(),
            lost: BTreeSet::new(),
            hopeless: BTreeSet::new(),
            top: Token(0),
        }
    }

    /// Records that a child process begins. `covered` says whether the registry, at this instant, has this attempt open
    /// for a present member; `running` how many other runs of the job are alive anywhere.
    pub(super) fn start(
        &mut self,
        due: i64,
        attempt: u32,
        token: Token,
        covered: bool,
        running: usize,
    ) -> Result<(), LedgerViolation> {
        let of = || format!("{} attempt {attempt}", named(due));
        require(running == 0, "no overlap (I15)", || format!("{} starts beside another run", of()))?;
        require(self.starts.insert((due, attempt)), "one start an attempt (I14)", || {
            format!("{} starts twice", of())
        })?;
        let again = self.starts.iter().filter(|(fire, _)| *fire == due).count() > 1;
        let once = self.delivery == Delivery::AtMostOnce;
        require(!(again && once), "at most once (I19)", || format!("{} is a second start", of()))?;
        require(token > self.top, "tokens rise (I1)", || {
            format!("{} has token {token}, {} was seen", of(), self.top)
        })?;
        require(covered, "no start without a lease (I3)", || {
            format!("{} is not the registry's open run any more", of())
        })?;
        self.top = token;
        Ok(())
    }

    /// Records the end of a child process: by itself, or from outside.
    pub(super) fn end(&mut self, due: i64, attempt: u32, itself: bool) {
        self.ends.insert((due, attempt));
        if itself {
            self.done.insert(due);
        }
    }

    /// Checks a write of the run state. `trust` is how far the writer could trust its lease when it decided.
    pub(super) fn check_run_state(
        &mut self,
        old: Option<&RunState>,
        new: &RunState,
        by: &Member,
        trust: i64,
    ) -> Result<(), LedgerViolation> {
        let seq = old.map_or(0, |l| l.seq);
        require(new.seq > seq, "seq rises (I1)", || format!("seq goes from {seq} to {}", new.seq))?;
        self.watermark(old, new)?;
        let was = old.and_then(|l| l.open.first());
        let is = new.open.first();
        let told = |o: &Attempt| new.verdicts.iter().any(|v| v.due == o.due && v.attempt == o.attempt);
        if let Some(open) = is {
            require(open.by == *by, "only the holder writes (I14)", || {
                format!("{by} opens a run for {}", open.by)
            })?;
        }
        if let Some(open) = was.filter(|o| is.is_none_or(|new| (new.due, new.attempt) != (o.due, o.attempt)))
        {
            self.closed(open, old, new, told(open))?;
        }
        if let Some(open) = is.filter(|o| was.is_none_or(|old| old.due != o.due)) {
            self.opened(open, old, trust)?;
        }
        if let (Some(new), Some(old)) = (is, was)
            && new.due == old.due
            && new.attempt != old.attempt
        {
            let next = new.attempt == old.attempt + 1 && self.delivery == Delivery::AtLeastOnce && told(old);
            require(next, "attempts count up (I20)", || {
                format!("{} attempt {}", named(new.due.0), new.attempt)
            })?;
        }
        for verdict in new.verdicts.iter().filter(|v| v.state == VerdictState::Lost) {
            let due = verdict.due.0;
            let doubt = self.starts.contains(&(due, verdict.attempt)) || !self.hopeless.contains(&due);
            require(doubt, "lost only in doubt", || {
                format!("{} is given up though its claimant could never have started it", named(due))
            })?;
            self.lost.insert(due);
        }
        Ok(())
    }

    /// The watermark passes a fire only by opening it or with a verdict, and goes back only over an unstarted one.
    fn watermark(&self, old: Option<&RunState>, new: &RunState) -> Result<(), LedgerViolation> {
        let from = old.map_or(i64::MIN, |l| l.watermark.0);
        let to = new.watermark.0;
        let told = |due: i64| {
            let span = new.verdicts.iter().any(|v| v.from.0 <= due && due <= v.due.0);
            span || new.open.iter().any(|open| open.due.0 == due)
        };
        let silent = self.due.iter().find(|due| from < **due && **due <= to && !told(**due));
        require(silent.is_none(), "no fire passed in silence (I16)", || {
            format!("the watermark passes {}", silent.map(|due| named(*due)).unwrap_or_default())
        })?;
        let back = self.due.iter().find(|due| to < **due && **due <= from && self.started(**due));
        require(back.is_none(), "watermark grows (I14)", || {
            format!("it falls behind {}, which started", back.map(|due| named(*due)).unwrap_or_default())
        })
    }

    /// Whether any attempt of it physically started.
    pub(super) fn started(&self, due: i64) -> bool {
        self.starts.iter().any(|(fire, _)| *fire == due)
    }

    /// Checks an open run that leaves the run state: it ended, or was given up, or was withdrawn unstarted.
    fn closed(
        &self,
        open: &Attempt,
        old: Option<&RunState>,
        new: &RunState,
        told: bool,
    ) -> Result<(), LedgerViolation> {
        let due = open.due.0;
        let ended = self.ends.contains(&(due, open.attempt));
        let back =
            new.watermark < open.due && old.is_some_and(|l| l.watermark >= open.due) && !self.started(due);
        require(ended || told || back, "a run is closed by its end (I22)", || {
            format!(
                "{} attempt {} leaves the run state and its end is not recorded",
                named(due),
                open.attempt
            )
        })
    }

    fn opened(&mut self, open: &Attempt, old: Option<&RunState>, trust: i64) -> Result<(), LedgerViolation> {
        let due = open.due.0;
        let fresh = old.is_none_or(|l| l.watermark < open.due) && matches!(open.fire, Fire::Due(_));
        require(fresh && open.attempt == 1, "a fire is claimed once (I14)", || {
            format!("{} is opened as attempt {} behind the watermark", named(due), open.attempt)
        })?;
        require(self.due.contains(&due), "no phantom fires (I18)", || {
            format!("{} is on no schedule", named(due))
        })?;
        if due >= trust {
            self.hopeless.insert(due);
        } else {
            self.hopeless.remove(&due);
        }
        Ok(())
    }

    /// Whether no fire has a further event.
    pub(super) fn is_settled(&self) -> bool {
        self.due.iter().all(|due| self.done.contains(due) || self.lost.contains(due))
    }

    /// The final check: every fire has the outcome that its delivery guarantee promises. Of a job that was switched
    /// off, only started fires need one; and of one that was disabled or deleted nothing is retried.
    pub(super) fn judge(&self, faults: bool, off: SwitchOff) -> Result<(), LedgerViolation> {
        let once = self.delivery == Delivery::AtMostOnce || off == SwitchOff::ForGood;
        for due in self.due.iter().filter(|due| off == SwitchOff::On || self.started(**due)) {
            let done = self.done.contains(due);
            let lost = self.lost.contains(due) && once && faults;
            require(done || lost, "every fire has an outcome (I16)", || {
                format!("{} neither ran to its end nor was it given up for a reason", named(*due))
            })?;
        }
        Ok(())
    }
}
