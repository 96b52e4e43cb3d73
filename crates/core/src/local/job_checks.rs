//! The jobs that this node has to look at: now, at a moment, or when its trust or the clocks have changed.

use alloc::collections::{BTreeMap, BTreeSet};

use crate::time::{Millis, Mono, Now, Wall};
use crate::view::JobId;

/// From how far on a wall clock that moved against our own counts as stepped.
const CLOCK_STEP: Millis = Millis(250);

/// Which jobs are to be looked at, and when.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct JobChecks {
    /// Jobs to look at now.
    to_check: BTreeSet<JobId>,
    /// Jobs to look at when the wall clock gets there.
    wall_timers: BTreeSet<(Wall, JobId)>,
    /// Jobs to look at when a fire may be claimed that begins at this moment.
    fires: BTreeSet<(Wall, JobId)>,
    /// Jobs to look at when our own clock gets there.
    timers: BTreeSet<(Mono, JobId)>,
    /// Jobs whose fire the remaining trust does not cover, or that wait for the clocks to agree.
    awaiting_trust: BTreeSet<JobId>,
    /// The end of the trust, and whether the clocks agreed, when those jobs were last looked at.
    trust: Option<(Mono, bool)>,
    /// The wall clock at the start of our own, when the waits for it were made.
    clock_start: Option<Wall>,
    /// Jobs for which an executor or the registry failed: not to be read or started before then.
    put_off: BTreeMap<JobId, Mono>,
}

impl JobChecks {
    /// Looks at a job now.
    pub(crate) fn check(&mut self, job: JobId) {
        self.to_check.insert(job);
    }

    /// Looks at these jobs now.
    pub(crate) fn check_all(&mut self, jobs: impl IntoIterator<Item = JobId>) {
        self.to_check.extend(jobs);
    }

    /// Looks at a job when the wall clock gets there.
    pub(crate) fn check_at(&mut self, job: JobId, at: Wall) {
        self.wall_timers.insert((at, job));
    }

    /// Looks at a job when a fire that begins at this moment may be claimed: as long before it as the lead is then.
    pub(crate) fn check_before_fire(&mut self, job: JobId, from: Wall) {
        self.fires.insert((from, job));
    }

    /// Looks at a job when our own clock gets there.
    pub(crate) fn check_after(&mut self, job: JobId, at: Mono) {
        self.timers.insert((at, job));
    }

    /// Looks at a job when the trust or the clocks have changed.
    pub(crate) fn await_trust(&mut self, job: JobId) {
        self.awaiting_trust.insert(job);
    }

    /// Whether a job waits for another trust or for the clocks.
    pub(crate) fn awaits_trust(&self, job: JobId) -> bool {
        self.awaiting_trust.contains(&job)
    }

    /// Neither reads nor starts a job before this moment, and looks at it then.
    pub(crate) fn put_off(&mut self, job: JobId, until: Mono) {
        self.put_off.insert(job, until);
    }

    /// The same for several jobs.
    pub(crate) fn put_off_all(&mut self, jobs: impl IntoIterator<Item = JobId>, until: Mono) {
        self.put_off.extend(jobs.into_iter().map(|job| (job, until)));
    }

    /// Whether a job is not to be read or started now.
    pub(crate) fn is_put_off(&self, job: JobId) -> bool {
        self.put_off.contains_key(&job)
    }

    /// Looks at the jobs whose pause is over. Returns when the next one is.
    pub(crate) fn resume_put_off(&mut self, now: Mono) -> Option<Mono> {
        let over = self.put_off.extract_if(.., |_, at| *at <= now).map(|(job, _)| job);
        self.to_check.extend(over);
        self.put_off.values().min().copied()
    }

    /// Looks at jobs whose moment has come, until so many are to be looked at. Fires may be claimed `lead` ahead.
    pub(crate) fn take_due(&mut self, now: Now, lead: Millis, most: usize) {
        while self.to_check.len() < most
            && let Some(job) = take_first(&mut self.wall_timers, now.wall)
                .or_else(|| take_first(&mut self.fires, now.wall + lead))
                .or_else(|| take_first(&mut self.timers, now.mono))
        {
            self.to_check.insert(job);
        }
    }

    /// Takes the next job to look at.
    pub(crate) fn pop_first(&mut self) -> Option<JobId> {
        self.to_check.pop_first()
    }

    /// Does not look at a job now: it is being looked at.
    pub(crate) fn remove(&mut self, job: JobId) {
        self.to_check.remove(&job);
    }

    /// Whether no job is to be looked at now.
    pub(crate) fn is_empty(&self) -> bool {
        self.to_check.is_empty()
    }

    /// When the wall clock is to be looked at next, if fires may be claimed `lead` ahead.
    pub(crate) fn next_wall_timer(&self, lead: Millis) -> Option<Wall> {
        let timer = self.wall_timers.first().map(|(at, _)| *at);
        let fire = self.fires.first().map(|(from, _)| *from - lead);
        timer.into_iter().chain(fire).min()
    }

    /// When our own clock is to be looked at next.
    pub(crate) fn next_timer(&self) -> Option<Mono> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// Notes until when the node may act and whether the clocks agree: jobs that waited for a change are looked at.
    /// Returns whether the clocks agreed before and do not now, or the other way round.
    pub(crate) fn note_trust(&mut self, until: Mono, clocks_agree: bool) -> bool {
        let before = self.trust.replace((until, clocks_agree));
        if before != self.trust {
            self.to_check.append(&mut self.awaiting_trust);
        }
        before.is_some_and(|(_, agreed)| agreed != clocks_agree)
    }

    /// Notes both clocks. Returns whether the wall clock was stepped against our own since the waits for it were made.
    pub(crate) fn note_clocks(&mut self, now: Now) -> bool {
        let start = now.wall - Millis(now.mono.0);
        let stepped = self.clock_start.is_some_and(|then| (start - then).0.abs() > CLOCK_STEP.0);
        if stepped || self.clock_start.is_none() {
            self.clock_start = Some(start);
        }
        stepped
    }

    /// Forgets what jobs waited for in a life that is over.
    pub(crate) fn forget_waits(&mut self) {
        self.wall_timers.clear();
        self.fires.clear();
        self.timers.clear();
        self.awaiting_trust.clear();
        self.put_off.clear();
    }
}

/// Takes the first of a list of waits if its moment has come.
fn take_first<T: Copy + Ord>(waits: &mut BTreeSet<(T, JobId)>, now: T) -> Option<JobId> {
    let first = waits.first().copied().filter(|(at, _)| *at <= now)?;
    waits.remove(&first);
    Some(first.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(wall: i64, mono: i64) -> Now {
        Now { wall: Wall(wall), mono: Mono(mono) }
    }

    #[test]
    fn jobs_that_wait_for_trust_are_looked_at_when_it_or_the_clocks_change() {
        let mut checks = JobChecks::default();
        assert!(!checks.note_trust(Mono(10), true), "nothing was known before");
        checks.await_trust(JobId(1));
        assert!(!checks.note_trust(Mono(10), true) && checks.is_empty());
        assert!(!checks.note_trust(Mono(20), true), "only the trust is another one");
        assert_eq!((checks.pop_first(), checks.awaits_trust(JobId(1))), (Some(JobId(1)), false));
        assert!(checks.note_trust(Mono(20), false), "the clocks do not agree any more");
    }

    const LEAD: Millis = Millis(0);

    #[test]
    fn a_fire_is_looked_at_by_the_lead_of_that_moment() {
        let mut checks = JobChecks::default();
        checks.check_before_fire(JobId(1), Wall(100));
        checks.check_at(JobId(2), Wall(90));
        checks.take_due(at(79, 79), Millis(20), 10);
        assert!(checks.is_empty());
        assert_eq!(checks.next_wall_timer(Millis(20)), Some(Wall(80)));
        assert_eq!(checks.next_wall_timer(Millis(5)), Some(Wall(90)), "another look is nearer");
        checks.take_due(at(79, 79), Millis(21), 10);
        assert_eq!((checks.pop_first(), checks.pop_first()), (Some(JobId(1)), None));
    }

    #[test]
    fn no_more_jobs_become_due_than_one_step_looks_at() {
        let mut checks = JobChecks::default();
        (0..3).for_each(|id| checks.check_at(JobId(id), Wall(5)));
        checks.check_after(JobId(7), Mono(5));
        checks.take_due(at(4, 4), LEAD, 10);
        assert!(checks.is_empty());
        checks.take_due(at(5, 5), LEAD, 2);
        assert_eq!((checks.next_wall_timer(LEAD), checks.next_timer()), (Some(Wall(5)), Some(Mono(5))));
        checks.take_due(at(5, 5), LEAD, 10);
        assert_eq!((checks.next_wall_timer(LEAD), checks.next_timer()), (None, None));
        assert_eq!(
            core::iter::from_fn(|| checks.pop_first()).map(|id| id.0).collect::<alloc::vec::Vec<_>>(),
            [0, 1, 2, 7]
        );
    }

    #[test]
    fn a_job_that_is_put_off_is_looked_at_when_its_pause_is_over() {
        let mut checks = JobChecks::default();
        checks.put_off(JobId(1), Mono(10));
        checks.put_off_all([JobId(2)], Mono(20));
        assert_eq!((checks.resume_put_off(Mono(9)), checks.is_empty()), (Some(Mono(10)), true));
        assert_eq!(checks.resume_put_off(Mono(10)), Some(Mono(20)));
        assert_eq!((checks.pop_first(), checks.pop_first()), (Some(JobId(1)), None));
        assert!(!checks.is_put_off(JobId(1)) && checks.is_put_off(JobId(2)));
    }

    #[test]
    fn a_wall_clock_that_moves_against_our_own_is_stepped_once() {
        let mut checks = JobChecks::default();
        assert!(!checks.note_clocks(at(1_000, 0)) && !checks.note_clocks(at(2_250, 1_000)));
        assert!(checks.note_clocks(at(2_251, 1_000)) && !checks.note_clocks(at(2_251, 1_000)));
    }
}
