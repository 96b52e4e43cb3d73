//! Overdue checks tell whether a fire has begun and has an outcome, from the registry data of its job alone.
//!
//! They need no memory of the fire itself: a watermark below it shows that no member claimed it, for whatever reason.
//! So a fire is found absent also where no node was there to start it.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;

use crate::ids::{Fire, Member};
use crate::record::{Plan, RunState, ShardRunState, Sharding};
use crate::schedule::Schedule;
use crate::shards::ShardSet;
use crate::time::{Millis, Wall};

/// The registry data on a job's fires, by its placement.
#[derive(Clone, Copy, Debug)]
pub enum FireRecords<'a> {
    /// A claimed job: its run state, if it ever fired, its owner, and how many of its runs may overlap.
    Claimed(Option<&'a RunState>, Option<&'a Member>, usize),
    /// A dispatched job: its plan, if anything of it was ever planned.
    Planned(Option<&'a Plan>),
    /// A sharded job: its shard map and run states, and the shards that are not expected to fire.
    Sharded(&'a Sharding, &'a BTreeMap<Member, ShardRunState>, &'a ShardSet),
}

/// The status of a fire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FireStatus {
    /// It has not begun, or not all of it; the text says what it waits for, as far as the registry data shows.
    Waiting(String),
    /// It has begun and has no outcome yet; the text says where.
    Running(String),
    /// It has its outcome, which history knows.
    Finished,
}

/// The latest fire that should have reached this status by now: due after `since`, and longer ago than `limit`.
#[must_use]
pub fn expected(schedule: &Schedule, since: Wall, now: Wall, limit: Millis) -> Option<Wall> {
    schedule.latest(since, now - limit)
}

/// When the first fire after this one has to be checked; `None` when there is none.
#[must_use]
pub fn next_check(schedule: &Schedule, after: Wall, limit: Millis) -> Option<Wall> {
    schedule.next(after).map(|due| due + limit + Millis(1))
}

/// The status of the fire due at this moment. `lives` says whether a member lives.
#[must_use]
pub fn fire_status(
    fire: Wall,
    now: Wall,
    books: FireRecords<'_>,
    lives: &dyn Fn(&Member) -> bool,
) -> FireStatus {
    match books {
        FireRecords::Claimed(run_state, holder, beside) => {
            claimed(fire, now, run_state, holder, beside, lives)
        }
        FireRecords::Planned(plan) => planned(fire, now, plan, lives),
        FireRecords::Sharded(sharding, run_states, off) => {
            sharded(fire, now, sharding, run_states, off, lives)
        }
    }
}

fn claimed(
    fire: Wall,
    now: Wall,
    run_state: Option<&RunState>,
    holder: Option<&Member>,
    beside: usize,
    lives: &dyn Fn(&Member) -> bool,
) -> FireStatus {
    if let Some(open) = run_state.and_then(|run_state| run_state.open_of(&Fire::Due(fire))) {
        return running(open.starts_at(), open.attempt, &open.by, now, lives);
    }
    if run_state.is_some_and(|run_state| {
        run_state.watermark >= fire || run_state.passed.iter().any(|passed| passed.contains(fire))
    }) {
        return FireStatus::Finished;
    }
    let open = run_state.map_or(&[][..], |run_state| &run_state.open);
    // While fewer runs execute than may, none of them is in its way.
    let full = open.first().filter(|_| open.len() >= beside);
    FireStatus::Waiting(match (full, holder) {
        (Some(first), _) if beside > 1 => {
            let (n, due, node) = (open.len(), first.due, &first.by.node);
            format!("{n} runs of it go on, as many as may; the first is that of {due} on {node}")
        }
        (Some(open), _) => format!("its run of {} is not over on {}", open.due, open.by.node),
        (None, None) => "no node holds it".into(),
        (None, Some(holder)) if !lives(holder) => {
            format!("its holder {holder} is gone, and no node has taken it over")
        }
        (None, Some(holder)) => {
            format!("{} holds it and has not claimed the fire: has it a free slot?", holder.node)
        }
    })
}

fn planned(fire: Wall, now: Wall, plan: Option<&Plan>, lives: &dyn Fn(&Member) -> bool) -> FireStatus {
    let run = plan.and_then(|plan| plan.runs.iter().find(|run| run.fire == Fire::Due(fire)));
    match run {
        Some(run) => match run.from {
            Some(from) => running(from, run.attempt, &run.by, now, lives),
            None if run.attempt > 1 => {
                FireStatus::Running(format!("attempt {} waits on {}", run.attempt, run.by.node))
            }
            None if !lives(&run.by) => {
                FireStatus::Waiting(format!("it is planned for {}, which is gone", run.by))
            }
            None => FireStatus::Waiting(format!(
                "it is planned for {}, which has not accepted it: has it a free slot?",
                run.by.node
            )),
        },
        None if plan.is_some_and(|plan| {
            plan.watermark >= fire || plan.passed.iter().any(|passed| passed.contains(fire))
        }) =>
        {
            FireStatus::Finished
        }
        None => {
            FireStatus::Waiting("no node has planned it: is there a planner, and a node with room?".into())
        }
    }
}

fn sharded(
    fire: Wall,
    now: Wall,
    sharding: &Sharding,
    run_states: &BTreeMap<Member, ShardRunState>,
    off: &ShardSet,
    lives: &dyn Fn(&Member) -> bool,
) -> FireStatus {
    if sharding.shard_map.number == 0 {
        return FireStatus::Waiting(
            "its shards were never assigned: is there a node that takes part?".into(),
        );
    }
    let (mut waits, mut goes) = (ShardSet::empty(), None);
    for (member, run_state) in run_states {
        let late = run_state.groups.iter().filter(|group| group.watermark < fire);
        waits = late.fold(waits, |all, group| all.or(&group.shards));
        for open in run_state.open.iter().filter(|open| open.fire == Fire::Due(fire)) {
            match running(open.starts_at(), open.attempt, member, now, lives) {
                FireStatus::Waiting(_) => waits = waits.or(&open.shards),
                _ => goes = goes.or(Some((member, &open.shards))),
            }
        }
    }
    let waits = waits.minus(off);
    match goes {
        _ if !waits.is_empty() && sharding.reshard_pending.is_some() => {
            FireStatus::Waiting(format!("shards {waits} wait for the shards to be resharded"))
        }
        _ if !waits.is_empty() => FireStatus::Waiting(format!("shards {waits} have not begun")),
        Some((member, shards)) => {
            FireStatus::Running(format!("shards {shards} are not over on {}", member.node))
        }
        None => FireStatus::Finished,
    }
}

/// The status of a claimed fire. A claim may name a moment to come: then nothing has begun.
fn running(from: Wall, attempt: u32, by: &Member, now: Wall, lives: &dyn Fn(&Member) -> bool) -> FireStatus {
    if from > now && attempt == 1 {
        return FireStatus::Waiting(format!("{} has claimed it and starts it at {from}", by.node));
    }
    let gone = if lives(by) { "" } else { ", which is gone" };
    FireStatus::Running(format!("attempt {attempt} of it is not over on {}{gone}", by.node))
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::overlap::SkippedSpan;
    use crate::record::{Attempt, ReshardPending, ShardGroup, ShardMap};

    fn at(secs: i64) -> Wall {
        Wall(secs * 1000)
    }

    fn member(text: &str) -> Member {
        text.parse().unwrap()
    }

    fn lives(member: &Member) -> bool {
        member.node.as_str() != "gone"
    }

    fn waits(stand: &FireStatus, says: &str) {
        assert!(matches!(stand, FireStatus::Waiting(text) if text.contains(says)), "{stand:?}");
    }

    fn goes(stand: &FireStatus, says: &str) {
        assert!(matches!(stand, FireStatus::Running(text) if text.contains(says)), "{stand:?}");
    }

    fn open(due: i64, from: i64, by: &str, attempt: u32) -> Attempt {
        let first = Attempt::first(Fire::Due(at(due)), at(due), member(by));
        Attempt { from: Some(at(from)), attempt, seq: 1, back: at(0), ..first }
    }

    fn run_state_with(watermark: i64, open: Option<Attempt>) -> RunState {
        RunState { watermark: at(watermark), seq: 1, open: open.into_iter().collect(), ..RunState::default() }
    }

    #[test]
    fn the_latest_fire_is_expected_and_the_next_is_looked_at_when_its_limit_is_over() {
        let schedule = Schedule::parse("@every 10s", "").unwrap();
        let limit = Millis::secs(5);
        assert_eq!(expected(&schedule, at(0), at(14), limit), None, "the first is not that old");
        assert_eq!(expected(&schedule, at(0), at(15), limit), Some(at(10)));
        assert_eq!(expected(&schedule, at(0), at(99), limit), Some(at(90)));
        assert_eq!(expected(&schedule, at(90), at(99), limit), None, "nothing before it counts");
        assert_eq!(next_check(&schedule, at(10), limit), Some(at(25) + Millis(1)));
    }

    #[test]
    fn a_claimed_fire_waits_until_it_is_claimed_and_goes_until_its_lane_is_closed() {
        let (a, gone) = (member("a@1"), member("gone@1"));
        let stand = |run_state: Option<&RunState>, holder| {
            fire_status(at(100), at(160), FireRecords::Claimed(run_state, holder, 1), &lives)
        };
        waits(&stand(None, None), "no node holds it");
        waits(&stand(Some(&run_state_with(40, None)), Some(&gone)), "gone@1 is gone");
        waits(&stand(Some(&run_state_with(40, None)), Some(&a)), "has it a free slot?");
        waits(
            &stand(Some(&run_state_with(40, Some(open(40, 40, "a@1", 1)))), Some(&a)),
            "its run of 1970-01-01T00:00:40",
        );
        waits(&stand(Some(&run_state_with(100, Some(open(100, 200, "a@1", 1)))), Some(&a)), "starts it at");
        goes(&stand(Some(&run_state_with(100, Some(open(100, 100, "a@1", 1)))), Some(&a)), "not over on a");
        goes(&stand(Some(&run_state_with(100, Some(open(100, 200, "a@1", 2)))), Some(&a)), "attempt 2");
        goes(
            &stand(Some(&run_state_with(100, Some(open(100, 100, "gone@1", 1)))), Some(&gone)),
            "which is gone",
        );
        assert_eq!(stand(Some(&run_state_with(100, None)), None), FireStatus::Finished);
        let passed = [SkippedSpan { after: at(90), until: at(110) }].into();
        let behind = RunState { passed, ..run_state_with(40, None) };
        assert_eq!(
            stand(Some(&behind), Some(&a)),
            FireStatus::Finished,
            "a run was in its way, and history knows"
        );
        assert_eq!(
            stand(Some(&run_state_with(130, Some(open(130, 130, "a@1", 1)))), Some(&a)),
            FireStatus::Finished
        );
    }

    #[test]
    fn runs_that_may_go_on_beside_it_are_not_in_its_way() {
        let a = member("a@1");
        let two = [open(40, 40, "a@1", 1), open(70, 70, "a@1", 1)].into();
        let run_state = RunState { open: two, ..run_state_with(70, None) };
        let stand = |beside| {
            fire_status(at(100), at(160), FireRecords::Claimed(Some(&run_state), Some(&a), beside), &lives)
        };
        waits(&stand(3), "a holds it and has not claimed the fire: has it a free slot?");
        waits(&stand(2), "2 runs of it go on, as many as may; the first is that of 1970-01-01T00:00:40");
    }

    #[test]
    fn a_dispatched_fire_waits_until_its_node_accepted_it() {
        let run = |by: &str, attempt, from: Option<i64>| Plan {
            watermark: at(100),
            runs: [Attempt {
                attempt,
                seq: 1,
                from: from.map(at),
                ..Attempt::first(Fire::Due(at(100)), at(100), member(by))
            }]
            .into(),
            ..Plan::default()
        };
        let stand = |plan: Option<&Plan>| fire_status(at(100), at(160), FireRecords::Planned(plan), &lives);
        waits(&stand(None), "no node has planned it");
        waits(&stand(Some(&run("a@1", 1, None))), "which has not accepted it");
        waits(&stand(Some(&run("gone@1", 1, None))), "which is gone");
        goes(&stand(Some(&run("a@1", 1, Some(100)))), "not over on a");
        goes(&stand(Some(&run("a@1", 2, None))), "attempt 2 waits");
        assert_eq!(stand(Some(&Plan { watermark: at(100), ..Plan::default() })), FireStatus::Finished);
    }

    #[test]
    fn a_sharded_fire_has_begun_when_every_shard_that_is_on_has() {
        let sharding = |number, mark| Sharding {
            shard_map: ShardMap { number, ..ShardMap::default() },
            reshard_pending: mark,
            ..Sharding::default()
        };
        let group = |watermark, shards| ShardGroup { watermark: at(watermark), shards };
        let claim = |shards, from: i64| Attempt {
            from: Some(at(from)),
            back: at(0),
            seq: 1,
            total: 4,
            shards,
            ..Attempt::first(Fire::Due(at(100)), at(100), member("a@1"))
        };
        let run_states = |of_b: ShardGroup, open: Vec<Attempt>| {
            let of_a = [group(100, ShardSet::range(0, 2))].into();
            BTreeMap::from([
                (member("a@1"), ShardRunState { groups: of_a, open, ..ShardRunState::default() }),
                (member("b@1"), ShardRunState { groups: [of_b].into(), ..ShardRunState::default() }),
            ])
        };
        let stand = |sharding: &Sharding, run_states: &BTreeMap<_, _>, off: &ShardSet| {
            fire_status(at(100), at(160), FireRecords::Sharded(sharding, run_states, off), &lives)
        };
        let (none, cut) = (ShardSet::empty(), sharding(3, None));
        waits(&stand(&sharding(0, None), &BTreeMap::new(), &none), "never assigned");
        let behind = run_states(group(40, ShardSet::range(2, 4)), Vec::new());
        waits(&stand(&cut, &behind, &none), "shards 2-3 have not begun");
        assert_eq!(stand(&cut, &behind, &ShardSet::range(2, 4)), FireStatus::Finished, "nobody expects them");
        let mark = ReshardPending { since: at(0), why: crate::record::ReshardCause::Nodes };
        waits(&stand(&sharding(3, Some(mark)), &behind, &none), "resharded");
        let even = |open| run_states(group(100, ShardSet::range(2, 4)), open);
        goes(
            &stand(&cut, &even([claim(ShardSet::one(crate::ids::Shard(1)), 100)].into()), &none),
            "shards 1 are",
        );
        waits(&stand(&cut, &even([claim(ShardSet::range(0, 2), 200)].into()), &none), "shards 0-1");
        assert_eq!(stand(&cut, &even(Vec::new()), &none), FireStatus::Finished);
    }
}
