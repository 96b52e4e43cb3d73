//! Overdue: whether a fire has begun, and whether it has an outcome, as a pure function of what the registry has of its job.
//!
//! It needs no memory of the fire itself: a watermark below it says that nobody claimed it, whoever should have and whatever
//! kept them. So a fire is found absent also where nobody was there to start it.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;

use crate::record::{Lane, Plan, ShardLane, Sharding};
use crate::schedule::Schedule;
use crate::shards::ShardSet;
use crate::time::{Millis, Wall};
use crate::words::{Fire, Member};

/// What the registry has of a job's fires, by its placement.
#[derive(Clone, Copy, Debug)]
pub enum Books<'a> {
    /// Of a claimed job its lane, if it ever fired, who holds it, and how many of its runs may go on beside each other.
    Claimed(Option<&'a Lane>, Option<&'a Member>, usize),
    /// Of a dispatched job its plan, if anything of it was ever planned.
    Planned(Option<&'a Plan>),
    /// Of a sharded job its shares and lanes, and the shards that nobody expects to fire.
    Sharded(&'a Sharding, &'a BTreeMap<Member, ShardLane>, &'a ShardSet),
}

/// How a fire stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stand {
    /// It has not begun, or not all of it; the text says what is in its way, as far as the books know.
    Waits(String),
    /// It has begun and has no outcome yet; the text says where.
    Goes(String),
    /// It has its outcome, which history knows.
    Over,
}

/// The latest fire that should have come to something by now: due after `since`, and longer ago than `limit`.
#[must_use]
pub fn expected(schedule: &Schedule, since: Wall, now: Wall, limit: Millis) -> Option<Wall> {
    schedule.latest(since, now - limit)
}

/// When the first fire after this one is due to be looked at; `None` when there is none.
#[must_use]
pub fn next_look(schedule: &Schedule, after: Wall, limit: Millis) -> Option<Wall> {
    schedule.next(after).map(|due| due + limit + Millis(1))
}

/// How the fire due at this moment stands. `lives` says who is a member.
#[must_use]
pub fn stand(fire: Wall, now: Wall, books: Books<'_>, lives: &dyn Fn(&Member) -> bool) -> Stand {
    match books {
        Books::Claimed(lane, holder, beside) => claimed(fire, now, (lane, holder, beside), lives),
        Books::Planned(plan) => planned(fire, now, plan, lives),
        Books::Sharded(sharding, lanes, off) => sharded(fire, now, (sharding, lanes, off), lives),
    }
}

fn claimed(
    fire: Wall,
    now: Wall,
    (lane, holder, beside): (Option<&Lane>, Option<&Member>, usize),
    lives: &dyn Fn(&Member) -> bool,
) -> Stand {
    if let Some(open) = lane.and_then(|lane| lane.open_of(&Fire::Due(fire))) {
        return going(open.from, open.attempt, &open.by, now, lives);
    }
    if lane.is_some_and(|lane| lane.watermark >= fire || lane.passed.iter().any(|passed| passed.holds(fire)))
    {
        return Stand::Over;
    }
    let open = lane.map_or(&[][..], |lane| &lane.open);
    // While fewer go on than may, none of them is in its way.
    let full = open.first().filter(|_| open.len() >= beside);
    Stand::Waits(match (full, holder) {
        (Some(first), _) if beside > 1 => {
            let (n, due, node) = (open.len(), first.due, &first.by.node);
            format!("{n} runs of it go on, as many as may; the first is that of {due} on {node}")
        }
        (Some(open), _) => format!("its run of {} is not over on {}", open.due, open.by.node),
        (None, None) => "no node holds it".into(),
        (None, Some(holder)) if !lives(holder) => {
            format!("its holder {holder} is gone, and nobody has taken it over")
        }
        (None, Some(holder)) => {
            format!("{} holds it and has not claimed the fire: has it a free slot?", holder.node)
        }
    })
}

fn planned(fire: Wall, now: Wall, plan: Option<&Plan>, lives: &dyn Fn(&Member) -> bool) -> Stand {
    let run = plan.and_then(|plan| plan.runs.iter().find(|run| run.fire == Fire::Due(fire)));
    match run {
        Some(run) => match run.from {
            Some(from) => going(from, run.attempt, &run.by, now, lives),
            None if run.attempt > 1 => {
                Stand::Goes(format!("attempt {} waits on {}", run.attempt, run.by.node))
            }
            None if !lives(&run.by) => Stand::Waits(format!("it is planned for {}, which is gone", run.by)),
            None => Stand::Waits(format!(
                "it is planned for {}, which has not accepted it: has it a free slot?",
                run.by.node
            )),
        },
        None if plan.is_some_and(|plan| {
            plan.watermark >= fire || plan.passed.iter().any(|passed| passed.holds(fire))
        }) =>
        {
            Stand::Over
        }
        None => Stand::Waits("nobody has planned it: is there a planner, and a node with room?".into()),
    }
}

fn sharded(
    fire: Wall,
    now: Wall,
    (sharding, lanes, off): (&Sharding, &BTreeMap<Member, ShardLane>, &ShardSet),
    lives: &dyn Fn(&Member) -> bool,
) -> Stand {
    if sharding.cut.number == 0 {
        return Stand::Waits("its shards were never cut: is there a node that takes part?".into());
    }
    let (mut waits, mut goes) = (ShardSet::empty(), None);
    for (member, lane) in lanes {
        let late = lane.groups.iter().filter(|group| group.watermark < fire);
        waits = late.fold(waits, |all, group| all.or(&group.shards));
        for open in lane.open.iter().filter(|open| open.fire == Fire::Due(fire)) {
            match going(open.from, open.attempt, member, now, lives) {
                Stand::Waits(_) => waits = waits.or(&open.shards),
                _ => goes = goes.or(Some((member, &open.shards))),
            }
        }
    }
    let waits = waits.minus(off);
    match goes {
        _ if !waits.is_empty() && sharding.mark.is_some() => {
            Stand::Waits(format!("shards {waits} wait for the shares to be cut again"))
        }
        _ if !waits.is_empty() => Stand::Waits(format!("shards {waits} have not begun")),
        Some((member, shards)) => Stand::Goes(format!("shards {shards} are not over on {}", member.node)),
        None => Stand::Over,
    }
}

/// How a fire stands that somebody claimed. A claim names a moment that may be to come: then nothing has begun.
fn going(from: Wall, attempt: u32, by: &Member, now: Wall, lives: &dyn Fn(&Member) -> bool) -> Stand {
    if from > now && attempt == 1 {
        return Stand::Waits(format!("{} has claimed it and starts it at {from}", by.node));
    }
    let gone = if lives(by) { "" } else { ", which is gone" };
    Stand::Goes(format!("attempt {attempt} of it is not over on {}{gone}", by.node))
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::overlap::Passed;
    use crate::record::{Cut, Group, Mark, Open, OpenShards, Planned};

    fn at(secs: i64) -> Wall {
        Wall(secs * 1000)
    }

    fn member(text: &str) -> Member {
        text.parse().unwrap()
    }

    fn lives(member: &Member) -> bool {
        member.node.as_str() != "gone"
    }

    fn waits(stand: &Stand, says: &str) {
        assert!(matches!(stand, Stand::Waits(text) if text.contains(says)), "{stand:?}");
    }

    fn goes(stand: &Stand, says: &str) {
        assert!(matches!(stand, Stand::Goes(text) if text.contains(says)), "{stand:?}");
    }

    fn open(due: i64, from: i64, by: &str, attempt: u32) -> Open {
        let (fire, due, from, back) = (Fire::Due(at(due)), at(due), at(from), at(0));
        Open { fire, due, from, by: member(by), attempt, seq: 1, back, wait: None, began: None }
    }

    fn lane(watermark: i64, open: Option<Open>) -> Lane {
        Lane { watermark: at(watermark), seq: 1, open: open.into_iter().collect(), ..Lane::default() }
    }

    #[test]
    fn the_latest_fire_is_expected_and_the_next_is_looked_at_when_its_limit_is_over() {
        let schedule = Schedule::parse("@every 10s", "").unwrap();
        let limit = Millis::secs(5);
        assert_eq!(expected(&schedule, at(0), at(14), limit), None, "the first is not that old");
        assert_eq!(expected(&schedule, at(0), at(15), limit), Some(at(10)));
        assert_eq!(expected(&schedule, at(0), at(99), limit), Some(at(90)));
        assert_eq!(expected(&schedule, at(90), at(99), limit), None, "nothing before it counts");
        assert_eq!(next_look(&schedule, at(10), limit), Some(at(25) + Millis(1)));
    }

    #[test]
    fn a_claimed_fire_waits_until_it_is_claimed_and_goes_until_its_lane_is_closed() {
        let (a, gone) = (member("a@1"), member("gone@1"));
        let stand =
            |lane: Option<&Lane>, holder| stand(at(100), at(160), Books::Claimed(lane, holder, 1), &lives);
        waits(&stand(None, None), "no node holds it");
        waits(&stand(Some(&lane(40, None)), Some(&gone)), "gone@1 is gone");
        waits(&stand(Some(&lane(40, None)), Some(&a)), "has it a free slot?");
        waits(
            &stand(Some(&lane(40, Some(open(40, 40, "a@1", 1)))), Some(&a)),
            "its run of 1970-01-01T00:00:40",
        );
        waits(&stand(Some(&lane(100, Some(open(100, 200, "a@1", 1)))), Some(&a)), "starts it at");
        goes(&stand(Some(&lane(100, Some(open(100, 100, "a@1", 1)))), Some(&a)), "not over on a");
        goes(&stand(Some(&lane(100, Some(open(100, 200, "a@1", 2)))), Some(&a)), "attempt 2");
        goes(&stand(Some(&lane(100, Some(open(100, 100, "gone@1", 1)))), Some(&gone)), "which is gone");
        assert_eq!(stand(Some(&lane(100, None)), None), Stand::Over);
        let passed = [Passed { after: at(90), until: at(110) }].into();
        let behind = Lane { passed, ..lane(40, None) };
        assert_eq!(stand(Some(&behind), Some(&a)), Stand::Over, "a run was in its way, and history knows");
        assert_eq!(stand(Some(&lane(130, Some(open(130, 130, "a@1", 1)))), Some(&a)), Stand::Over);
    }

    #[test]
    fn runs_that_may_go_on_beside_it_are_not_in_its_way() {
        let a = member("a@1");
        let two = [open(40, 40, "a@1", 1), open(70, 70, "a@1", 1)].into();
        let lane = Lane { open: two, ..lane(70, None) };
        let stand = |beside| stand(at(100), at(160), Books::Claimed(Some(&lane), Some(&a), beside), &lives);
        waits(&stand(3), "a holds it and has not claimed the fire: has it a free slot?");
        waits(&stand(2), "2 runs of it go on, as many as may; the first is that of 1970-01-01T00:00:40");
    }

    #[test]
    fn a_dispatched_fire_waits_until_its_node_accepted_it() {
        let run = |by: &str, attempt, from: Option<i64>| Plan {
            watermark: at(100),
            runs: [Planned {
                fire: Fire::Due(at(100)),
                due: at(100),
                by: member(by),
                free: 1,
                planned_for: None,
                attempt,
                seq: 1,
                from: from.map(at),
                wait: None,
                began: None,
            }]
            .into(),
            ..Plan::default()
        };
        let stand = |plan: Option<&Plan>| stand(at(100), at(160), Books::Planned(plan), &lives);
        waits(&stand(None), "nobody has planned it");
        waits(&stand(Some(&run("a@1", 1, None))), "which has not accepted it");
        waits(&stand(Some(&run("gone@1", 1, None))), "which is gone");
        goes(&stand(Some(&run("a@1", 1, Some(100)))), "not over on a");
        goes(&stand(Some(&run("a@1", 2, None))), "attempt 2 waits");
        assert_eq!(stand(Some(&Plan { watermark: at(100), ..Plan::default() })), Stand::Over);
    }

    #[test]
    fn a_sharded_fire_has_begun_when_every_shard_that_is_on_has() {
        let sharding =
            |number, mark| Sharding { cut: Cut { number, ..Cut::default() }, mark, ..Sharding::default() };
        let group = |watermark, shards| Group { watermark: at(watermark), shards };
        let claim = |shards, from: i64| OpenShards {
            fire: Fire::Due(at(100)),
            due: at(100),
            from: at(from),
            back: at(0),
            attempt: 1,
            seq: 1,
            total: 4,
            shards,
            wait: None,
            began: None,
        };
        let lanes = |of_b: Group, open: Vec<OpenShards>| {
            let of_a = [group(100, ShardSet::range(0, 2))].into();
            BTreeMap::from([
                (member("a@1"), ShardLane { groups: of_a, open, ..ShardLane::default() }),
                (member("b@1"), ShardLane { groups: [of_b].into(), ..ShardLane::default() }),
            ])
        };
        let stand = |sharding: &Sharding, lanes: &BTreeMap<_, _>, off: &ShardSet| {
            stand(at(100), at(160), Books::Sharded(sharding, lanes, off), &lives)
        };
        let (none, cut) = (ShardSet::empty(), sharding(3, None));
        waits(&stand(&sharding(0, None), &BTreeMap::new(), &none), "never cut");
        let behind = lanes(group(40, ShardSet::range(2, 4)), Vec::new());
        waits(&stand(&cut, &behind, &none), "shards 2-3 have not begun");
        assert_eq!(stand(&cut, &behind, &ShardSet::range(2, 4)), Stand::Over, "nobody expects them");
        let mark = Mark { since: at(0), why: crate::record::Cause::Nodes };
        waits(&stand(&sharding(3, Some(mark)), &behind, &none), "cut again");
        let even = |open| lanes(group(100, ShardSet::range(2, 4)), open);
        goes(
            &stand(&cut, &even([claim(ShardSet::one(crate::words::Shard(1)), 100)].into()), &none),
            "shards 1 are",
        );
        waits(&stand(&cut, &even([claim(ShardSet::range(0, 2), 200)].into()), &none), "shards 0-1");
        assert_eq!(stand(&cut, &even(Vec::new()), &none), Stand::Over);
    }
}
