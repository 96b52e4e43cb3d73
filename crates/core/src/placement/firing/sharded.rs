//! Firing of a sharded job: each member fires its own shards, out of its own run state.
//!
//! A fire is claimed for all shards of one watermark at once, and started shard by shard as there are slots. A shard
//! that still runs is left out and does not delay the others: the fires it missed are settled when it ends, by the
//! job's catch-up, for that shard alone (S2-27, I23). While a reshard is pending nothing is claimed.

use alloc::vec::Vec;

use crate::commit_kind::CommitKind;
use crate::due::{self, MisfirePolicy};
use crate::effect::Event;
use crate::ids::{Fire, Member, NodeName, Shard};
use crate::job::RunParameters;
use crate::keys;
use crate::lifecycle::{self, Ending, JobRuns, has_parameter_room, missed, no_more};
use crate::local::{Given, Local};
use crate::overlap::STILL_RUNNING;
use crate::placement::sharded_job::ShardedJob;
use crate::record::{Attempt, ShardRunState, TriggerRecord, TriggerRequest, encode};
use crate::registry::Write;
use crate::rule_context::{CommitNotice, RuleAction, RuleContext, RuleOutput};
use crate::shards::ShardSet;
use crate::time::{Millis, Wall};
use crate::view::{JobTerms, JobView, ShardTerms};

mod refused;
mod start;
mod withdraw;

/// How long ends of runs are gathered into one commit while others of the job go on.
const GATHER: Millis = Millis(50);

/// Handles one job.
pub(super) fn decide(ctx: &RuleContext<'_>, job: &JobView<'_>, out: &mut RuleOutput) {
    let Some(sharded) = ShardedJob::of(ctx, job.id) else { return };
    let Some(run_state) = sharded.run_state(ctx.member) else { return };
    lifecycle::hand_over(ctx, run_state.verdicts.iter(), out);
    let takes_part = sharded.may_take_part() && sharded.job.available().contains(&ctx.member);
    let mut writer = RunStateWriter {
        runs: JobRuns::new(ctx, *job),
        draft: run_state.clone(),
        current: run_state,
        sharded,
        takes_part,
        kind: None,
        triggers: None,
    };
    writer.draft.seq += 1;
    writer.clear_verdicts();
    writer.close(out);
    writer.withdraw();
    writer.claim(out);
    match writer.kind {
        Some(kind) => writer.commit(kind, out),
        None => writer.start(out),
    }
}

/// How long the end of this run may wait, because others of the job go on and their ends are gathered with it; `None`
/// when it is to be looked at now.
#[must_use]
pub fn gather_delay(local: &Local, job: &JobView<'_>, me: Option<&Member>, given: &Given) -> Option<Millis> {
    (local.runs.shard_counts(job.id).running > 0 && lifecycle::is_own(job, me?, given)).then_some(GATHER)
}

/// This node's run state of a job, and its next version.
struct RunStateWriter<'a> {
    runs: JobRuns<'a>,
    sharded: ShardedJob<'a>,
    current: ShardRunState,
    draft: ShardRunState,
    takes_part: bool,
    /// The kind of the commit, once the draft is worth one.
    kind: Option<CommitKind>,
    triggers: Option<TriggerRecord>,
}

impl<'a> RunStateWriter<'a> {
    fn context(&self) -> &'a RuleContext<'a> {
        self.sharded.ctx
    }

    fn terms(&self) -> Option<(&'a JobTerms, &'a ShardTerms)> {
        self.sharded.terms
    }

    /// Sets the kind of the commit, unless a weightier one is set already.
    fn set_kind(&mut self, kind: CommitKind) {
        self.kind.get_or_insert(kind);
    }

    fn clear_verdicts(&mut self) {
        let ctx = self.context();
        self.draft.verdicts.retain(|verdict| !lifecycle::is_recorded(ctx, verdict));
    }

    /// Closes all ended runs in one commit, and settles the fires that they missed meanwhile.
    fn close(&mut self, out: &mut RuleOutput) {
        let ctx = self.context();
        let monitor = self.terms().is_none_or(|(_, shards)| shards.monitor);
        let ours = || {
            ctx.local
                .runs
                .of_job(self.sharded.job.id)
                .filter(|(_, given)| lifecycle::is_own(&self.sharded.job, ctx.member, given))
        };
        let ended: Vec<(Shard, &Given)> =
            ours().filter(|(_, given)| given.ended.is_some() || !monitor).collect();
        let Some(since) = ended
            .iter()
            .filter_map(|(_, g)| g.ended.map(|(_, at)| at))
            .min()
            .or_else(|| (!ended.is_empty()).then_some(ctx.now.mono))
        else {
            return;
        };
        if monitor && ours().count() > ended.len() && ctx.now.mono < since + GATHER {
            return out.add(RuleAction::JobAfter(self.sharded.job.id, since + GATHER));
        }
        let shards: ShardSet = ended.iter().map(|(shard, _)| *shard).collect();
        self.draft.close(&shards);
        let mut lost = ShardSet::empty();
        for (shard, given) in ended {
            let Some(open) = self.current.open_of(shard) else { continue };
            let attempt = Attempt { shards: ShardSet::one(shard), ..open.clone() };
            match self.runs.ending(&attempt, given, self.draft.outcomes()) {
                Some(Ending::InDoubt) => lost.insert(shard),
                Some(Ending::Retry(next)) => self.draft.add_open(next),
                Some(Ending::Over) | None => {}
            }
        }
        self.settle(&lost);
        self.draft.ended = Some(ctx.now.wall);
        self.settle_missed(&shards);
        self.set_kind(CommitKind::Finish);
    }

    /// Settles runs that were ended when trust ran out: they are in doubt, as if the node had died.
    fn settle(&mut self, lost: &ShardSet) {
        for open in self.current.open.clone().iter().filter(|open| open.shards.meets(lost)) {
            let attempt = Attempt { shards: open.shards.and(lost), ..open.clone() };
            let again = self.runs.settle(&attempt, "ended when trust ran out", self.draft.outcomes());
            if let Some(again) = again {
                self.draft.add_open(self.runs.taken_over(again, self.draft.seq));
            }
        }
    }

    /// Skips the fires that shards missed because they were running, except those that the catch-up keeps.
    fn settle_missed(&mut self, closed: &ShardSet) {
        let Some((terms, shards)) = self.terms().filter(|(t, _)| t.enabled && !t.paused) else { return };
        let Some(schedule) = &terms.schedule else { return };
        let ctx = self.context();
        // With a wrong clock it is unknown which fires came due meanwhile.
        let other = ctx.local.lease.registry_time(ctx.now).filter(|_| !self.runs.knows_time());
        let now = other.unwrap_or(ctx.now.wall);
        let policy = MisfirePolicy { grace: Millis::ZERO, ..ctx.policy(terms) };
        let closed = closed.minus(&self.draft.unfinished());
        let (groups, runs) = (self.draft.groups.clone(), self.current.open.clone());
        for (group, open) in groups.iter().flat_map(|group| runs.iter().map(move |open| (group, open))) {
            let free = group.shards.and(&closed).and(&open.shards);
            let floor = group.watermark.max(terms.since);
            // A fire that was due before the run began was late already, and still runs within its grace.
            let late = schedule.next(floor).is_some_and(|due| due <= open.starts_at());
            if free.is_empty() || late {
                continue;
            }
            if let Some((from, last)) = due::next(schedule, floor, now, &policy).skipped {
                self.skip(&free, (from, last), STILL_RUNNING, shards);
            }
        }
    }

    fn skip(&mut self, free: &ShardSet, (from, last): (Wall, Wall), why: &str, shards: &ShardTerms) {
        self.draft.set_watermark(free, last);
        let reason = missed(from, last, why);
        self.draft.verdicts.extend(self.runs.skipped((from, last), &free.minus(&shards.off), reason));
    }

    /// Claims triggered and due fires.
    fn claim(&mut self, out: &mut RuleOutput) {
        let sharding = self.sharded.sharding;
        let Some((terms, shards)) = self.terms().filter(|(terms, _)| terms.enabled) else { return };
        // A reshard to another number of shards is about to be requested, and no fire has both numbers.
        let shard_map = &sharding.shard_map;
        if !self.takes_part || sharding.reshard_pending.is_some() || shard_map.number == 0 {
            return;
        }
        if shards.total.map_or_else(|| !shard_map.is_one_each(), |total| total != shard_map.total) {
            return;
        }
        let assignment = sharding.assignment_of(self.context().member);
        let mine = assignment.iter().fold(ShardSet::empty(), |all, group| all.or(&group.shards));
        // A draining shard goes where it belongs first.
        let mine = mine.minus(&sharding.shard_map.draining);
        if !self.runs.may_claim(&self.draft.verdicts) || self.drop_trigger() || mine.is_empty() {
            return;
        }
        self.claim_triggered(&mine, shards, out);
        if self.runs.may_claim_due(self.draft.failures) {
            self.claim_due(&mine, terms, shards, out);
        }
    }

    /// All shards of the job.
    fn all(&self) -> ShardSet {
        ShardSet::all(self.sharded.sharding.shard_map.total)
    }

    /// The shards that answer a trigger: of a broadcast job, the draining ones belong to no node's part.
    fn answering(&self) -> ShardSet {
        let broadcast = self.sharded.is_broadcast();
        if broadcast { self.all().minus(&self.sharded.sharding.shard_map.draining) } else { self.all() }
    }

    /// The shards that run, monitored or not.
    fn busy(&self) -> ShardSet {
        let running =
            self.context().local.runs.of_job(self.sharded.job.id).filter(|(_, given)| given.ended.is_none());
        let busy = running.map(|(shard, _)| shard).collect::<ShardSet>().or(&self.draft.unfinished());
        // In a broadcast job the run may go on under the number that the node had before.
        let broadcast = self.sharded.is_broadcast();
        if broadcast && !busy.is_empty() { self.all() } else { busy }
    }

    /// Completes, as the leader, triggers that no other member would: those for one node that takes no part or has no
    /// shards, and those that all remaining shards have answered. Returns whether there was one.
    fn drop_trigger(&mut self) -> bool {
        let (sharding, me) = (self.sharded.sharding, self.context().member);
        let record = self.sharded.job.triggers().and_then(|known| known.value.as_ref());
        let Some(record) = record.filter(|_| sharding.leader.as_ref() == Some(me)) else { return false };
        let has_shards = |node: &NodeName| {
            let takes_part = self.sharded.job.available().iter().any(|member| member.node == *node);
            takes_part
                && sharding.shard_map.assignments.iter().any(|assignment| assignment.holder.node == *node)
        };
        let answered = |r: &TriggerRequest| r.node.is_none() && self.answering().minus(&r.shards).is_empty();
        let orphan = |r: &TriggerRequest| r.node.as_ref().is_some_and(|node| !has_shards(node));
        let done = |r: &TriggerRequest| !r.taken && (answered(r) || orphan(r));
        let Some(index) = record.requests.iter().position(done) else { return false };
        let mut record = record.clone();
        let request = &mut record.requests[index];
        request.take();
        if request.node.is_none() {
            self.triggers = Some(record);
            self.set_kind(CommitKind::ClaimShards);
            return true;
        }
        self.draft.verdicts.extend(self.refused_without_shards(request));
        self.triggers = Some(record);
        self.set_kind(CommitKind::ClaimShards);
        true
    }

    /// The oldest trigger that this node's shards have not answered. Running shards are left out, and that is reported
    /// (I2-08).
    fn claim_triggered(&mut self, mine: &ShardSet, shards: &ShardTerms, out: &mut RuleOutput) {
        let Some(record) = self.sharded.job.triggers().and_then(|known| known.value.as_ref()) else { return };
        let me = self.context().member;
        let wanted = |r: &TriggerRequest| {
            !r.taken && r.node.as_ref().is_none_or(|n| *n == me.node) && !mine.minus(&r.shards).is_empty()
        };
        let Some(index) = record.requests.iter().position(wanted) else { return };
        if !has_parameter_room(&self.draft.open) || !self.runs.has_slot(record.requests[index].at, out) {
            return;
        }
        let mut record = record.clone();
        let request = &mut record.requests[index];
        let asked = mine.minus(&request.shards);
        request.shards = request.shards.or(mine);
        let parameters = request.parameters.clone();
        if request.node.is_some() || self.answering().minus(&request.shards).is_empty() {
            request.take();
        }
        let (busy, fire) = (self.busy(), Fire::Asked(request.id.clone()));
        let at = request.at;
        let forgot = self.terms().and_then(|(terms, _)| self.context().forgot(terms.delivery, at));
        if let Some(why) = forgot {
            let refused_shards = asked.minus(&shards.off);
            self.draft.verdicts.extend(self.runs.refused(fire, (at, at), &refused_shards, why.into()));
            self.triggers = Some(record);
            return self.set_kind(CommitKind::ClaimShards);
        }
        let refused = asked.and(&busy).minus(&shards.off);
        if !refused.is_empty() {
            let event = Event::Rejected(self.sharded.job.name().clone(), request.id.clone(), refused.clone());
            out.notices.push(CommitNotice { scope: self.sharded.scope(), sent: false, event });
            let verdict = self.runs.refused(fire.clone(), (at, at), &refused, self.obstacle(&refused));
            self.draft.verdicts.extend(verdict);
        }
        self.open(
            fire,
            (at, at.min(self.context().now.wall)),
            Wall::MIN,
            (asked.minus(&busy).minus(&shards.off), parameters),
        );
        self.triggers = Some(record);
        self.set_kind(CommitKind::ClaimShards);
    }

    /// Every group of shards whose next fire is near, without the shards that run.
    fn claim_due(&mut self, mine: &ShardSet, terms: &JobTerms, shards: &ShardTerms, out: &mut RuleOutput) {
        let Some(schedule) = &terms.schedule else { return };
        let now = self.context().now;
        let policy = self.context().policy(terms);
        // A node that is paused for the job lets its fires pass; so nothing is caught up when it resumes (S2-38).
        let paused = self.sharded.job.switches(&self.context().member.node).paused;
        let free = mine.minus(&self.busy());
        for group in self.draft.groups.clone() {
            let ready = group.shards.and(&free);
            if ready.is_empty() {
                continue;
            }
            let floor = group.watermark.max(terms.since);
            let next = due::next(schedule, floor, now.wall, &policy);
            let near = next.due.zip(next.from).filter(|(_, from)| self.context().may_claim_before(*from));
            if next.skipped.is_none() && near.is_none() {
                if let Some(from) = next.from {
                    self.context().looks_before_fire(self.sharded.job.id, from, next.until, out);
                }
                continue;
            }
            if !self.runs.clock_agrees(out) {
                return;
            }
            if let Some(span) = next.skipped {
                self.skip(&ready, span, &no_more(span.0, &policy), shards);
                self.set_kind(CommitKind::Skip);
            }
            let Some((due, from)) = near else { continue };
            if !self.runs.trusts_until(from, out) {
                continue;
            }
            let back = next.skipped.map_or(group.watermark, |(_, last)| last);
            let run = if paused { ShardSet::empty() } else { ready.minus(&shards.off) };
            if !run.is_empty() && !self.runs.has_slot(due, out) {
                continue;
            }
            self.draft.set_watermark(&ready, due);
            self.open(Fire::Due(due), (due, from), back, (run, RunParameters::default()));
            self.set_kind(CommitKind::ClaimShards);
        }
    }

    fn open(
        &mut self,
        fire: Fire,
        (due, from): (Wall, Wall),
        back: Wall,
        (shards, parameters): (ShardSet, RunParameters),
    ) {
        if shards.is_empty() {
            return;
        }
        let (from, seq) = (from.max(self.context().now.wall), self.draft.seq);
        let total = self.sharded.sharding.shard_map.total;
        let first = Attempt::first(fire, due, self.context().member.clone());
        self.draft.add_open(Attempt { from: Some(from), back, seq, total, shards, parameters, ..first });
        self.draft.began = Some(from);
    }

    fn commit(&mut self, kind: CommitKind, out: &mut RuleOutput) {
        let sharded = &self.sharded;
        let mut guards = Vec::from_iter(sharded.run_state_guard(self.context().member));
        guards.extend(sharded.job.calendar_guards());
        let mut writes = Vec::from([sharded.put_run_state(self.context().member, &self.draft)]);
        // The leader reshards before the next fire and reads no run state: the assignment shows it the withdrawal.
        let takes_back = sharded.sharding.reshard_pending.is_some() && self.draft.takes_back(&self.current);
        let mut sharding = sharded.sharding.clone();
        // Every member with a run state is listed, so that it is looked for should that member die.
        let listed = sharding.run_states.contains(self.context().member);
        if !listed {
            sharding.run_states.push(self.context().member.clone());
        }
        writes.extend((takes_back || !listed).then(|| sharded.put(sharding)));
        if let (Some(record), Some(known)) = (self.triggers.take(), sharded.job.triggers()) {
            let key = keys::triggers(sharded.job.name());
            guards.push(known.guard(key.clone()));
            writes.push(Write::Put { key, value: encode(&record), owner: None });
        }
        out.commit(sharded.scope(), kind, sharded.txn(guards, writes));
    }
}
