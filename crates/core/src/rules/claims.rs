//! Claims: nodes take free jobs up to their quota `N = 1 + K / max(S − n, 1)`, so that any n of them may be lost (S1-18).
//!
//! A job is free when nobody holds it, or when its holder is no member any more. With `spread = even` a node takes its
//! fair share at once, lets others go first for a second above it, and eases jobs off, one at a time, while others have
//! fewer. `first_come` is seed 001 to the letter.

use crate::keys;
use crate::local::Subject;
use crate::node::{Quota, Settings, Spread};
use crate::record::{Place, encode};
use crate::registry::{Guard, Txn, Write};
use crate::scene::{Decision, Decisions, Scene};
use crate::takeover;
use crate::time::{Millis, Mono};
use crate::view::{JobId, JobView, View};
use crate::words::Member;

/// How many claims are under way at most; more are sent when half of them are answered, so that what is under way is
/// passed over seldom.
const BATCH: usize = 2_000;
/// How long a node above its fair share lets others go first.
const PATIENCE: Millis = Millis::secs(1);

/// The quota: the most jobs a node may hold, given K jobs, S nodes and tolerance n (S1-18, S1-94).
#[must_use]
pub fn quota(jobs: usize, nodes: usize, tolerance: u32) -> usize {
    let spare = nodes.saturating_sub(tolerance.max(1) as usize);
    1 + jobs / spare.max(1)
}

/// The quota a node goes by: as it has heard, or the larger of that and what it last listed (S1-21).
#[must_use]
pub fn quota_in_use(view: &View, settings: &Settings) -> usize {
    let heard = quota(view.enabled(), view.nodes(), settings.tolerance);
    let (jobs, nodes) = view.balance_listed();
    match settings.quota {
        Quota::Now => heard,
        Quota::Larger => heard.max(quota(jobs, nodes, settings.tolerance)),
    }
}

/// Claims what is free, up to the quota.
pub fn decide(scene: &Scene<'_>, out: &mut Decisions) {
    decide_within(scene, quota_in_use(scene.view, &scene.local.settings), out);
}

/// Claims what is free, up to any quota; the rule itself gives its own.
pub fn decide_within(scene: &Scene<'_>, quota: usize, out: &mut Decisions) {
    if scene.born.is_none() || scene.gives_up() || scene.local.unable.is_some() {
        return;
    }
    let view = scene.view;
    let claiming = scene.local.under_way("claim") + scene.local.under_way("take over");
    if claiming + scene.local.reading.len() > BATCH / 2 {
        return;
    }
    let held = view.count(scene.member) + claiming;
    // The quota counts every node (seed 001), a fair share only those that may take one.
    let working = view.members().filter(|(m, _)| view.intent(&m.node).is_none()).count();
    let fair = view.enabled().div_ceil(working.max(1));
    if view.free_count() == 0 && view.dead().next().is_none() {
        ease(scene, held, fair, out);
        return;
    }
    let first_come = scene.local.settings.spread == Spread::FirstCome || scene.local.eager;
    let mut room = Room { held, quota, fair: if first_come { quota } else { fair }, left: BATCH - claiming };
    for id in view.free() {
        let job = scene.job(id);
        if !room.admits(scene, job.free_since(), out) {
            break;
        }
        if scene.is_idle(&Subject::Job(id)) && job.is_whole() {
            room.take();
            out.commit(Subject::Job(id), "claim", claim(scene, &job));
        }
    }
    for (dead, since) in view.dead() {
        inherit(scene, dead, since, &mut room, out);
    }
}

/// How many more jobs may be claimed in this step.
struct Room {
    held: usize,
    quota: usize,
    fair: usize,
    left: usize,
}

impl Room {
    /// Whether one more job, free since then, may be claimed; asks to be woken when only patience forbids it.
    fn admits(&self, scene: &Scene<'_>, since: Mono, out: &mut Decisions) -> bool {
        if self.held >= self.quota || self.left == 0 {
            return false;
        }
        let ripe = since + PATIENCE;
        if self.held >= self.fair && scene.now.mono < ripe {
            out.add(Decision::Wake(ripe, "others go first"));
            return false;
        }
        true
    }

    fn take(&mut self) {
        self.held += 1;
        self.left -= 1;
    }
}

fn claim(scene: &Scene<'_>, job: &JobView<'_>) -> Txn {
    let place = Place { owner: Some(scene.member.clone()), waits: false, ..job.place().next() };
    Txn {
        guards: scene.born().into_iter().chain([job.place_guard()]).collect(),
        writes: [Write::Put { key: keys::place(job.name()), value: encode(&place), owner: None }].into(),
    }
}

/// Takes jobs over from a holder that is gone. Their lanes are read first, for open runs are settled in the same commit.
fn inherit(scene: &Scene<'_>, dead: &Member, since: Mono, room: &mut Room, out: &mut Decisions) {
    let jobs = || scene.view.owned(dead);
    // Survivors begin at different places, so that they seldom want the same job at the same time.
    let start = scene.member.node.as_str().bytes().fold(0_usize, |sum, b| sum * 31 % 65_521 + usize::from(b));
    let start = start % scene.view.count(dead).max(1);
    for id in jobs().skip(start).chain(jobs().take(start)) {
        let job = scene.job(id);
        if room.left == 0 {
            return;
        }
        // A job that may not be held has only its open run to settle, which takes no room.
        if job.is_enabled() && !room.admits(scene, since, out) {
            continue;
        }
        if !scene.is_idle(&Subject::Job(id)) || !job.is_whole() || scene.local.reading.contains(&id) {
            continue;
        }
        room.left -= 1;
        match job.held().and_then(|h| h.lane.as_ref()) {
            None => out.add(Decision::Read(id, [keys::lane(job.name())].into())),
            Some(lane) => {
                room.held += usize::from(job.is_enabled());
                let gone = Guard::Absent(keys::node(dead));
                out.commit(Subject::Job(id), "take over", takeover::txn(scene, &job, lane, gone));
            }
        }
    }
}

/// Releases one job when this node holds more than its fair share and somebody holds at least two fewer.
fn ease(scene: &Scene<'_>, held: usize, fair: usize, out: &mut Decisions) {
    let even = scene.local.settings.spread == Spread::Even;
    if !even || held <= fair || scene.local.under_way("ease") > 0 || held > scene.view.count(scene.member) {
        return;
    }
    let others = scene.view.members().map(|(m, _)| m).filter(|m| scene.view.intent(&m.node).is_none());
    if !others.map(|m| scene.view.count(m)).any(|count| count + 2 <= held) {
        return;
    }
    let restful = |id: &JobId| {
        scene.is_idle(&Subject::Job(*id)) && crate::rules::drain::release(scene, &scene.job(*id)).is_some()
    };
    if let Some(id) = scene.view.owned(scene.member).rev().take(BATCH).find(restful)
        && let Some(txn) = crate::rules::drain::release(scene, &scene.job(id))
    {
        out.commit(Subject::Job(id), "ease", txn);
    }
}

#[cfg(test)]
mod tests {
    use super::quota;

    /// proves: S1-17, S1-18, S1-55, S1-56, S1-57, S1-94, I35
    #[test]
    fn the_quota_table_of_seed_001() {
        let row = |k| [1, 1, 2, 3, 4].map(|n| quota(k, 5, n));
        assert_eq!(row(10), [3, 3, 4, 6, 11]);
        assert_eq!(row(12), [4, 4, 5, 7, 13]);
        assert_eq!(row(15), [4, 4, 6, 8, 16]);
        assert_eq!(quota(10, 5, 0), quota(10, 5, 1));
    }

    /// proves: S1-22, S1-24, S1-52, S1-54, I35
    #[test]
    fn survivors_of_any_n_losses_have_room_for_all_jobs() {
        for nodes in 1..=12 {
            for n in 1..=12_u32 {
                for jobs in 0..=200 {
                    let lost = (n as usize).min(nodes - 1);
                    let room = (nodes - lost) * quota(jobs, nodes, n);
                    assert!(room >= jobs, "{jobs} jobs, {nodes} nodes, n = {n}");
                }
            }
        }
    }

    /// proves: S1-23, S1-24
    #[test]
    fn the_level_is_exact_and_the_simple_formula_is_too_small() {
        let simple = 19 / 3 + 1;
        assert!(2 * simple < 19, "one loss of three leaves jobs without a holder");
        assert!(quota(3, 3, 1) < 3, "two losses are more than n = 1 makes up for");
    }

    /// proves: S1-91
    #[test]
    fn a_larger_tolerance_never_lowers_the_quota() {
        for jobs in 0..=100 {
            for nodes in 0..=12 {
                assert!((1..12).all(|n| quota(jobs, nodes, n) <= quota(jobs, nodes, n + 1)));
            }
        }
    }
}
