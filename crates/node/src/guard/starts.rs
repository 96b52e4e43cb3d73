//! The queue of starts that wait for the guard.
//!
//! A guard starts one program after the other, in the order of its requests. So it gets few requests at a time: the
//! starts that wait here have the same order as the runs that wait for slots, and the backlog of one job does not delay
//! other jobs.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use evenkeel_core::ids::{JobName, RunId};
use evenkeel_core::local::{FairQueue, Waiter};
use evenkeel_core::time::{Now, Wall};

use super::wire::{AttemptId, LaunchSpec};

/// How many unanswered starts a guard has at once: enough to keep it busy.
const AT_ONCE: usize = 32;

/// The decision about the next start.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum StartDecision {
    /// Send it to the guard.
    Start(Box<LaunchSpec>),
    /// It is too late: it is not sent to the guard.
    Late(AttemptId),
}

/// The waiting starts, and those that the guard has not answered.
#[derive(Debug, Default)]
pub(super) struct StartQueue {
    /// The starts of each job, the oldest first; also of jobs that had some while others waited.
    jobs: BTreeMap<u32, VecDeque<Box<LaunchSpec>>>,
    /// The number of each job in `jobs`.
    numbers: BTreeMap<JobName, u32>,
    order: FairQueue<u32>,
    unanswered: BTreeSet<AttemptId>,
}

impl StartQueue {
    /// Adds a start.
    pub(super) fn put(&mut self, launch: Box<LaunchSpec>) {
        let count = u32::try_from(self.numbers.len()).unwrap_or(u32::MAX);
        let number = *self.numbers.entry(launch.id.run.job.clone()).or_insert(count);
        self.jobs.entry(number).or_default().push_back(launch);
        self.enqueue(number);
    }

    /// The next start, if the guard may have one more at this moment.
    pub(super) fn next(&mut self, now: Now) -> Option<StartDecision> {
        let number = *self.order.next_ranked(now.wall, 1).first()?;
        let late = |launch: &LaunchSpec| now.mono.0 >= launch.not_after;
        let first = self.jobs.get_mut(&number)?;
        let is_late = late(first.front()?);
        if !is_late && self.unanswered.len() >= AT_ONCE {
            return None;
        }
        let launch = first.pop_front()?;
        self.order.remove(number);
        if !is_late {
            self.order.served(launch.priority, number);
            self.unanswered.insert(launch.id.clone());
        }
        self.enqueue(number);
        self.settle();
        Some(if is_late { StartDecision::Late(launch.id) } else { StartDecision::Start(launch) })
    }

    /// Notes that the guard has started it, or will not.
    pub(super) fn answered(&mut self, id: &AttemptId) {
        self.unanswered.remove(id);
    }

    /// Removes the waiting starts of a run, and returns them.
    pub(super) fn drop_run(&mut self, run: &RunId) -> Vec<AttemptId> {
        let Some(number) = self.numbers.get(&run.job).copied() else { return Vec::new() };
        let Some(starts) = self.jobs.get_mut(&number) else { return Vec::new() };
        let (dropped, kept): (VecDeque<_>, _) = starts.drain(..).partition(|launch| launch.id.run == *run);
        *starts = kept;
        self.order.remove(number);
        self.enqueue(number);
        self.settle();
        dropped.into_iter().map(|launch| launch.id).collect()
    }

    /// Removes all when the guard is gone, with what it had not answered. Returns the starts that waited.
    pub(super) fn clear(&mut self) -> Vec<AttemptId> {
        let Self { jobs, .. } = std::mem::take(self);
        jobs.into_values().flatten().map(|launch| launch.id).collect()
    }

    /// Whether no start waits.
    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Enqueues a job by the oldest of its starts.
    fn enqueue(&mut self, number: u32) {
        if let Some(first) = self.jobs.get(&number).and_then(VecDeque::front) {
            let (priority, again) = (Reverse(first.priority), first.again.unwrap_or(Wall::MAX));
            self.order.insert(Waiter { priority, due: first.due, again, id: number });
        }
    }

    fn settle(&mut self) {
        self.order.settle();
        if self.order.is_empty() {
            self.jobs.clear();
            self.numbers.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_core::job::{LaunchSettings, Priority};
    use evenkeel_core::time::Mono;

    use super::*;
    use crate::secrets::SecretReader;

    fn launch(run: &str, due: i64, not_after: i64) -> Box<LaunchSpec> {
        Box::new(LaunchSpec {
            id: AttemptId { run: run.parse().unwrap(), attempt: 1 },
            argv: Vec::new(),
            environment: BTreeMap::new(),
            setting: LaunchSettings::default(),
            secrets: Vec::new(),
            reader: SecretReader::default(),
            umask: None,
            no_new_privileges: false,
            timeout: None,
            not_after,
            log: "log".into(),
            keep: 0,
            rate: None,
            due: Wall(due),
            priority: Priority::default(),
            again: None,
        })
    }

    fn now(ms: i64) -> Now {
        Now { mono: Mono(ms), wall: Wall(ms) }
    }

    /// The runs that the guard gets at this moment, each answered at once.
    fn start_order(starts: &mut StartQueue, ms: i64, most: usize) -> Vec<String> {
        let next = (0..most).map_while(|_| {
            let StartDecision::Start(launch) = starts.next(now(ms))? else { panic!("late") };
            starts.answered(&launch.id);
            Some(launch.id.run.to_string())
        });
        next.collect()
    }

    #[test]
    fn a_flood_of_one_job_keeps_no_other_job_waiting() {
        let mut starts = StartQueue::default();
        (0..100).for_each(|shard| starts.put(launch(&format!("flood:1000:{shard}"), 1_000, 9_000)));
        assert_eq!(start_order(&mut starts, 1_500, 2), ["flood:1000:0", "flood:1000:1"]);
        starts.put(launch("often:1000:0", 1_000, 9_000));
        let next = start_order(&mut starts, 1_500, 3);
        assert!(next[..2].contains(&"often:1000:0".to_owned()), "{next:?}");
    }

    #[test]
    fn a_job_that_fires_again_soon_waits_for_one_of_many_others() {
        let mut starts = StartQueue::default();
        (0..100).for_each(|job| starts.put(launch(&format!("j{job:02}:1000:0"), 1_000, 9_000)));
        assert_eq!(start_order(&mut starts, 1_500, 3).len(), 3);
        for second in [3_000, 4_000, 5_000] {
            let often = launch(&format!("often:{second}:0"), second, 9_000);
            starts.put(Box::new(LaunchSpec { again: Some(Wall(second + 1_000)), ..*often }));
            let next = start_order(&mut starts, second, 5);
            assert!(next[..2].contains(&format!("often:{second}:0")), "{next:?}");
        }
    }

    #[test]
    fn the_guard_has_few_at_once_and_none_that_is_late() {
        let mut starts = StartQueue::default();
        (0..100).for_each(|shard| starts.put(launch(&format!("a:1000:{shard}"), 1_000, 2_000)));
        let given: Vec<StartDecision> = (0..100).map_while(|_| starts.next(now(1_100))).collect();
        assert_eq!(given.len(), AT_ONCE);
        let StartDecision::Start(first) = &given[0] else { panic!("late") };
        starts.answered(&first.id);
        assert!(matches!(starts.next(now(1_200)), Some(StartDecision::Start(_))));
        assert_eq!(starts.next(now(1_300)), None);
        // A late start needs no answer of the guard.
        let late: Vec<StartDecision> = std::iter::from_fn(|| starts.next(now(2_000))).collect();
        assert_eq!(late.len(), 100 - AT_ONCE - 1);
        assert!(late.iter().all(|next| matches!(next, StartDecision::Late(_))) && starts.is_empty());
    }

    #[test]
    fn a_run_that_is_to_end_does_not_start() {
        let mut starts = StartQueue::default();
        (0..3).for_each(|shard| starts.put(launch(&format!("a:1000:{shard}"), 1_000, 9_000)));
        let dropped = starts.drop_run(&"a:1000:1".parse().unwrap());
        assert_eq!(dropped.iter().map(|id| id.run.to_string()).collect::<Vec<_>>(), ["a:1000:1"]);
        assert_eq!(start_order(&mut starts, 1_000, 9), ["a:1000:0", "a:1000:2"]);
        starts.put(launch("a:2000:0", 2_000, 9_000));
        assert_eq!(starts.clear().len(), 1);
        assert!(starts.is_empty() && starts.next(now(2_000)).is_none());
    }
}
