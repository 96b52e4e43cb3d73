//! Checks fires that come due during a run: whether a run prevented them, whether the waiting limit holds, and whether
//! a replaced run was replaced by a fire.

use evenkeel_core::effect::{StopReason, Verdict};
use evenkeel_core::ids::{Fire, RunId};
use evenkeel_core::input::RunOutcome;
use evenkeel_core::job::Overlap;
use evenkeel_core::schedule::Schedule;
use evenkeel_core::time::{Millis, Wall};

use super::runs::UNNOTICED;
use super::tracks::FireTrack;
use super::{Invariant, InvariantResults, JobTrack};
use crate::world::clock::START;

/// The reason of fires that were not to wait.
const STILL_RUNNING: &str = "came due while the run before was going on";
/// The reason of fires that a later one replaced.
const SUPERSEDED: &str = "a later fire took its place";

/// Whether a verdict gives fires up because of their job's other fires, and not for their age.
pub(super) fn is_by_overlap(verdict: &Verdict) -> bool {
    [STILL_RUNNING, SUPERSEDED].iter().any(|reason| verdict.reason.contains(reason))
}

impl FireTrack {
    /// Whether a run of it went on, or waited for its next attempt, at this time of the world, within some
    /// milliseconds. An open run may have ended while its node was paused and did not notice.
    fn ran_at(&self, at: i64, within: i64) -> bool {
        let began = self.attempts.values().find_map(|attempt| attempt.started);
        let last = self.attempts.values().next_back();
        let over = last.and_then(|attempt| attempt.over).filter(|_| self.closed.is_some());
        began.is_some_and(|began| began <= at + within) && over.is_none_or(|over| at - within <= over)
    }
}

impl JobTrack {
    /// The overlap policy of the job.
    pub(super) fn overlap(&self) -> Overlap {
        self.spec.as_ref().map_or(Overlap::Forbid, |spec| spec.job.overlap)
    }

    /// Whether an attempt physically runs.
    pub(super) fn is_running(&self, fire: &Fire, attempt: u32) -> bool {
        self.running.get(fire).is_some_and(|(of, _)| *of == attempt)
    }

    /// How long waiting runs may delay the next fire, if each of them takes this long.
    pub(crate) fn queue(&self, longest: i64) -> i64 {
        i64::try_from(self.overlap().queue_limit().unwrap_or(0)).unwrap_or(i64::MAX) * longest
    }

    /// Whether history has a verdict that a fire will not run.
    pub(super) fn is_given_up(&self, due: Wall) -> bool {
        self.given_up.iter().any(|(from, last)| *from <= due && due <= *last)
    }

    /// Checks a verdict that gives up a fire because of its job's other fires.
    fn overlaps(&self, at: i64, due: Wall, verdict: &Verdict, findings: &mut InvariantResults) {
        let now = Wall(START.0 + at + UNNOTICED);
        if verdict.reason.contains(STILL_RUNNING) {
            let moment = due.0 - START.0;
            let in_its_way = self.overlap().queue_limit().is_some()
                && self.fires.values().any(|fire| fire.ran_at(moment, UNNOTICED));
            findings.test(at, Invariant::I23, in_its_way && due <= now, || {
                format!(
                    "the fire of {} due at {due} was given up, and no run was in its way",
                    verdict.run.job
                )
            });
        }
        if verdict.reason.contains(SUPERSEDED) {
            let newer = self.schedule.as_ref().and_then(|schedule| schedule.next(due));
            let gives_way = self.overlap() == Overlap::Replace && newer.is_some_and(|newer| newer <= now);
            findings.test(at, Invariant::I23, gives_way, || {
                format!("the fire of {} due at {due} gave way to nothing", verdict.run.job)
            });
        }
    }

    /// Checks at the close of a run that no more fires wait than may, of those that came due during its last attempt.
    pub(super) fn check_waiting_limit(
        &self,
        at: i64,
        run: &RunId,
        attempt: u32,
        findings: &mut InvariantResults,
    ) {
        let Some(last) = self.fires.get(&run.fire).and_then(|fire| fire.attempts.get(&attempt)) else {
            return;
        };
        let (Some(began), Some(over)) = (last.started, last.over) else { return };
        if last.ended == Some(RunOutcome::Stopped(StopReason::Replaced)) {
            let due = if let Fire::Due(due) = run.fire { due } else { Wall(START.0 + began - UNNOTICED) };
            let newer = self.schedule.as_ref().and_then(|schedule| schedule.next(due));
            let newer = newer.filter(|_| self.overlap() == Overlap::Replace);
            let gives_way = newer.is_some_and(|newer| newer <= Wall(START.0 + over + UNNOTICED));
            // It was ended by the declaration of that time.
            let stands = self.fires_by_schedule() && self.changed < began;
            findings.test(at, Invariant::I18, gives_way || !stands, || {
                format!("{run} was ended for a later fire, and there is none")
            });
        }
        let (Some(keep), Some(spec), Some(schedule)) =
            (self.overlap().queue_limit(), &self.spec, &self.schedule)
        else {
            return;
        };
        if !self.fires_by_schedule() || self.changed > began {
            return;
        }
        let mut waiting = 0;
        let mut fire = Wall(START.0 + began + UNNOTICED).max(spec.since);
        while let Some(due) =
            schedule.next(fire).filter(|due| *due <= Wall(START.0 + over) - Millis(UNNOTICED))
        {
            fire = due;
            let claimed = self.fires.get(&Fire::Due(due)).is_some_and(|fire| fire.claimed);
            waiting += usize::from(!claimed && !self.is_given_up(due));
        }
        findings.test(at, Invariant::I23, waiting <= keep, || {
            format!("{waiting} fires wait for the end of {run}, allowed are {keep}")
        });
    }

    /// Records the given-up fires that history receives now, also those behind the watermark.
    pub(super) fn note_given_up<'a>(
        &mut self,
        at: i64,
        told: impl Iterator<Item = &'a Verdict>,
        findings: &mut InvariantResults,
    ) {
        for verdict in told.filter(|v| v.attempt == 0) {
            let fires = |schedule: &Schedule| {
                let after = |due: &Wall| schedule.next(*due).filter(|due| *due <= verdict.due);
                std::iter::successors(after(&(verdict.from - Millis(1))), after).collect::<Vec<_>>()
            };
            for due in self.schedule.as_ref().map(fires).unwrap_or_default() {
                self.overlaps(at, due, verdict, findings);
            }
            self.given_up.push((verdict.from, verdict.due));
        }
    }
}
