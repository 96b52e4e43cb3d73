//! Checks the cluster at rest, after faults have ended and time has passed.

use std::collections::BTreeSet;
use std::iter::successors;

use evenkeel_core::effect::StopReason;
use evenkeel_core::ids::{Fire, JobName, Member, NodeName, RequestId, RunId, Shard};
use evenkeel_core::input::RunOutcome;
use evenkeel_core::job::{Delivery, Overlap};
use evenkeel_core::keys::{self, ParsedKey, parse};
use evenkeel_core::record::{Attempt, LockRecord, RunState, TriggerRecord, decode};
use evenkeel_core::time::{Millis, Wall};

use super::pools::PoolWaits;
use super::quiet_facts::{CLOSING, PROMPT, QuietCluster};
use super::tracks::FireClosure;
use super::{Invariant, InvariantResults, JobTrack, dispatched, sharding};
use crate::workload::Workload;
use crate::world::SimWorld;
use crate::world::clock::START;

/// Checks a world that had time to heal.
pub(crate) fn check_quiet_cluster(world: &mut SimWorld, swarm: &Workload) {
    let mut findings = std::mem::take(world.checker_mut().findings());
    let all = || world.store().entries().filter_map(|(key, _)| parse(key));
    let rest = QuietCluster {
        at: world.now(),
        ttl: swarm.nodes.first().map_or(Millis(0), |(s, _)| s.ttl),
        workload: swarm,
        members: all().filter_map(|k| if let ParsedKey::Node(m) = k { Some(m) } else { None }).collect(),
        drained: world.names().filter(|name| world.is_drained(name)).cloned().collect(),
        verdicts: world.verdicts(),
        pools: PoolWaits::of(world),
    };
    rest.nodes(world, &mut findings);
    rest.locks(world, &mut findings);
    rest.layout(world.store(), &mut findings);
    let dispatches = |book: &JobTrack| book.is_dispatched() && book.spec.is_some();
    if world.checker().jobs().values().any(dispatches) {
        dispatched::planner(&rest, world, &mut findings);
    }
    for (name, book) in world.checker().jobs() {
        if book.is_sharded() {
            sharding::check_quiet_job(&rest, world, name, book, &mut findings);
            continue;
        }
        if book.is_dispatched() {
            dispatched::look(&rest, name, book, &mut findings);
            rest.fires(name, book, &mut findings);
            rest.requests(world, name, book, &mut findings);
            continue;
        }
        rest.holder(name, book, &mut findings);
        rest.check_run_state(name, book, &mut findings);
        rest.fires(name, book, &mut findings);
        rest.requests(world, name, book, &mut findings);
    }
    *world.checker_mut().findings() = findings;
}

impl QuietCluster<'_> {
    fn nodes(&self, world: &SimWorld, findings: &mut InvariantResults) {
        for name in world.names() {
            let node = world.node(name);
            let member = node.and_then(evenkeel_core::node::Node::member);
            let joined = member.as_ref().is_some_and(|m| self.members.contains(m));
            findings.test(self.at, Invariant::I53, joined, || format!("{name} is no member"));
            let unknown = node.is_some_and(|n| n.local().commits().has_unknown());
            findings
                .test(self.at, Invariant::I53, !unknown, || format!("{name} has commits of unknown outcome"));
        }
        let living = world.names().count();
        findings.test(self.at, Invariant::I53, self.members.len() == living, || {
            format!("there are {living} nodes and the members {:?}", self.members)
        });
        // A leaving node first releases its claims, even if the pool has no permit for them yet.
        let waits = world.unanswered().find(|(name, _)| !self.has_to_wait(world, name));
        findings.test(self.at, Invariant::I46, waits.is_none(), || format!("{waits:?} was never answered"));
    }

    /// Whether a node has an open run that waits for a permit.
    fn has_to_wait(&self, world: &SimWorld, on: &NodeName) -> bool {
        world.checker().jobs().iter().any(|(name, book)| {
            let run_state = book
                .run_state
                .iter()
                .flat_map(|run_state| &run_state.open)
                .filter(|open| open.by.node == *on);
            let plan = book.plan.iter().flat_map(|plan| &plan.runs);
            let plan = plan.filter(|run| run.is_claimed() && run.by.node == *on).map(|run| &run.fire);
            let whole = run_state.map(|open| &open.fire).chain(plan).map(|fire| (fire, Shard(0)));
            let shards = book.sharding.standing.open.iter().filter(|(_, (by, _))| by.node == *on);
            let mut open = whole.chain(shards.map(|(shard, (_, open))| (&open.fire, *shard)));
            open.any(|(fire, shard)| self.waits_for_permit((name, book), (fire, shard), on))
        })
    }

    /// A lock is free, or held by a member that is gone, or by one that knows it.
    fn locks(&self, world: &SimWorld, findings: &mut InvariantResults) {
        for (key, entry) in world.store().entries() {
            let Some(ParsedKey::Lock(lock)) = parse(key) else { continue };
            let Some(holder) = decode::<LockRecord>(&entry.value).and_then(|record| record.holder) else {
                continue;
            };
            if !self.members.contains(&holder) {
                continue;
            }
            let knows = world.node(&holder.node).is_some_and(|n| n.local().commands().holds_lock(&lock));
            findings
                .test(self.at, Invariant::I53, knows, || format!("{holder} holds {lock} and does not know"));
        }
    }

    /// Every job that may be owned is owned by an online node that is not drained; no other job is.
    fn holder(&self, name: &JobName, book: &JobTrack, findings: &mut InvariantResults) {
        let at = self.at;
        let owner = book.assignment.owner.as_ref();
        if !book.spec.as_ref().is_some_and(|s| s.job.enabled) {
            return findings.test(at, Invariant::I41, owner.is_none(), || {
                format!("{name} is not enabled and {owner:?} holds it")
            });
        }
        if !self.fits_somebody(book) {
            // An owner that is gone is only a name: what matters is whether some node was to release the job.
            let stands = |owner: &Member| match self.members.contains(owner) {
                true => self.fits(book, owner),
                false => self.is_left(book),
            };
            let fit = owner.is_none_or(stands);
            return findings
                .test(at, Invariant::I54, fit, || format!("{owner:?} holds {name}, which it may not run"));
        }
        let held = owner.is_some_and(|o| self.members.contains(o));
        let fit = owner.is_none_or(|owner| self.fits(book, owner));
        findings.test(at, Invariant::I54, fit, || format!("{owner:?} holds {name}, which it may not run"));
        let short = if self.drained.is_empty() { Invariant::I37 } else { Invariant::I35 };
        findings.test(at, short, held, || format!("{name} is held by {owner:?} though there is room"));
        if let Some(owner) = owner
            && !self.drained.is_empty()
        {
            findings.test(at, Invariant::I38, !self.drained.contains(&owner.node), || {
                format!("{owner} is drained and holds {name}")
            });
        }
    }

    pub(super) fn takes(book: &JobTrack) -> i64 {
        book.spec
            .as_ref()
            .and_then(|s| s.job.work.command()?.program.argv().get(1)?.parse().ok())
            .unwrap_or(0)
    }

    /// Whether a job's runs are so short, compared with its period, and there is so much room, that none is late.
    pub(super) fn is_light(&self, book: &JobTrack, now: Wall) -> bool {
        let Some(schedule) = book.schedule.as_ref().filter(|_| self.workload.roomy && book.retry.is_none())
        else {
            return false;
        };
        let Some(next) = schedule.next(now) else { return false };
        let after = schedule.next(next).map(|after| (after - next).0);
        // With a calendar they may have been closer to each other just before.
        let last = schedule.latest(START, now);
        let before = last.and_then(|last| Some((last - schedule.latest(START, last - Millis(1))?).0));
        let period = after.into_iter().chain(before).min().unwrap_or(i64::MAX);
        Self::takes(book) * 5 / 4 + 200 < period / 2
    }

    /// Nothing is open for long, no verdict waits, and the watermark keeps up with time.
    fn check_run_state(&self, name: &JobName, book: &JobTrack, findings: &mut InvariantResults) {
        let Some(RunState { open, verdicts, watermark, .. }) = &book.run_state else { return };
        let at = self.at;
        let now = Wall(START.0 + at);
        let longest = self.longest();
        let somebody = self.fits_somebody(book);
        let waits =
            |open: &Attempt| self.waits_for_permit((name, book), (&open.fire, Shard(0)), &open.by.node);
        let is_old = |open: &Attempt| open.starts_at() + Millis(longest + CLOSING) < now;
        // If slots are short, jobs take turns. A job with a new declaration may have more open runs than may run at
        // once. In both cases one of its runs has started recently.
        let most = book.spec.as_ref().map_or(1, |spec| spec.job.overlap.max_concurrent_runs());
        let takes_turns = (!self.workload.roomy || open.len() > most) && !open.iter().all(is_old);
        for open in open.iter().filter(|open| somebody && !waits(open)) {
            let old = is_old(open) && !takes_turns && (open.wait.is_none() || self.workload.roomy);
            findings.test(at, Invariant::I53, !old, || format!("{name} is open since long: {open:?}"));
        }
        // What waits for a drained node is reported when the node is back.
        let waits_for_drained = !somebody && self.is_left(book);
        for verdict in verdicts.iter().filter(|v| v.state == evenkeel_core::effect::VerdictState::Lost) {
            let known = self.verdicts.contains_key(&(verdict.run.clone(), verdict.attempt));
            findings.test(at, Invariant::I53, known || waits_for_drained, || {
                format!("history never got {verdict:?}")
            });
        }
        let (Some(spec), Some(schedule)) = (&book.spec, &book.schedule) else { return };
        if !book.fires_by_schedule() || !somebody {
            return;
        }
        let light = self.is_light(book, now);
        // If slots are short, jobs wait for each other.
        let queue =
            if self.workload.roomy { 1 } else { i64::try_from(self.workload.jobs.len()).unwrap_or(1) };
        let busy = book.grace(self.ttl).0 + 2 * queue * (longest + CLOSING);
        let slack = book.spread()
            + book.retrying(longest + CLOSING)
            + book.queue(longest + CLOSING)
            + if light { PROMPT } else { busy };
        let floor = spec.since.max(Wall(START.0 + book.changed));
        if let Some(delay) = book.delay() {
            let far = floor.max(*watermark) + delay + Millis(slack + longest) > now;
            return findings.test(at, Invariant::I16, far, || {
                format!("nothing of {name} was claimed for long: the watermark is {watermark}")
            });
        }
        // A fire given up for others needs no watermark behind it, even if it is the last one for long.
        let before = |due: &Wall| schedule.latest(floor, *due - Millis(1));
        let mut late = successors(schedule.latest(floor, now - Millis(slack)), before);
        if let Some(due) = late.find(|due| !book.is_given_up(*due)) {
            findings.test(at, Invariant::I16, *watermark >= due, || {
                format!("the fire of {name} due at {due} was never claimed: the watermark is {watermark}")
            });
        }
    }

    /// Whether a run is open only until it gets a permit, in a pool that others go through, or a slot for both.
    pub(super) fn waits_for_permit(
        &self,
        (name, book): (&JobName, &JobTrack),
        (fire, shard): (&Fire, Shard),
        on: &NodeName,
    ) -> bool {
        let run = RunId { job: name.clone(), fire: fire.clone(), shard };
        self.pools.keep_waiting((&run, book), on, self.at - self.longest() - CLOSING)
    }

    pub(super) fn longest(&self) -> i64 {
        self.ttl.0 * crate::workload::LONG_RUN * 5 / 4
    }

    /// Every claimed fire has an outcome in history.
    fn fires(&self, name: &JobName, book: &JobTrack, findings: &mut InvariantResults) {
        let at = self.at;
        let calm = self.workload.calm_jobs.contains(name);
        let planned = book.plan.iter().flat_map(|plan| &plan.runs).map(|run| &run.fire);
        let open: BTreeSet<&Fire> = book
            .run_state
            .iter()
            .flat_map(|run_state| &run_state.open)
            .map(|open| &open.fire)
            .chain(planned)
            .collect();
        let waiting = |run: &RunId, attempt: u32| {
            let verdicts = book.plan.iter().flat_map(|plan| &plan.verdicts);
            let mut all = book.run_state.iter().flat_map(|l| &l.verdicts).chain(verdicts);
            all.any(|v| v.run == *run && v.attempt == attempt)
        };
        for (fire, record) in book.fires.iter().filter(|(fire, r)| r.claimed && !open.contains(fire)) {
            let run = RunId { job: name.clone(), fire: fire.clone(), shard: Shard(0) };
            findings
                .test(at, Invariant::I22, record.closed.is_some(), || format!("{run} has no final state"));
            let Some((attempt, last)) = record.attempts.last_key_value() else { continue };
            if record.closed == Some(FireClosure::Lost) {
                let told = self.verdicts.contains_key(&(run.clone(), *attempt)) || waiting(&run, *attempt);
                findings
                    .test(at, Invariant::I16, told, || format!("{run} is lost and history does not say so"));
            }
            if calm && book.stands(fire) && book.delivery == Delivery::AtLeastOnce {
                let fenced = last.ended == Some(RunOutcome::Stopped(StopReason::Fenced));
                let ran = record.closed == Some(FireClosure::Finished) && last.ended.is_some() && !fenced;
                // Another attempt may have been replaced by a later fire.
                let gave_way = book.overlap() == Overlap::Replace && last.started.is_none();
                findings.test(at, Invariant::I19, ran || gave_way, || {
                    format!("{run} is at_least_once and never ran to its end")
                });
            }
        }
    }

    /// Every accepted request ran. If nodes have too few slots, the oldest goes first, and shards that take longer than
    /// their period get older with every minute: no time to heal is enough then, but a waiting request still stands.
    fn requests(&self, world: &SimWorld, name: &JobName, book: &JobTrack, findings: &mut InvariantResults) {
        if !self.workload.calm_jobs.contains(name) || !self.fits_somebody(book) {
            return;
        }
        let record: Option<TriggerRecord> =
            world.entry(&keys::triggers(name)).and_then(|value| decode(&value));
        let requests = record.into_iter().flat_map(|record| record.requests).filter(|request| !request.taken);
        let untaken: BTreeSet<RequestId> = requests.map(|request| request.id).collect();
        let planned = |fire: &Fire| book.plan.iter().flat_map(|plan| &plan.runs).any(|run| run.fire == *fire);
        for id in book.requested.keys() {
            let fire = Fire::Asked(id.clone());
            let claimed = book.fires.get(&fire).is_some_and(|f| f.claimed);
            let waits = !self.workload.roomy && (untaken.contains(id) || planned(&fire));
            let taken = claimed || waits || book.may_forget(id);
            findings.test(self.at, Invariant::I24, taken, || format!("the request {id} of {name} never ran"));
        }
    }
}
