//! Firing of a sharded job: each member fires its own shards, out of its own run state.
//!
//! A fire is claimed for all shards of one watermark at once, and started shard by shard as there are slots. A shard
//! that still runs is left out and does not delay the others: the fires it missed are settled when it ends, by the
//! job's catch-up, for that shard alone (S2-27, I23). While a reshard is pending nothing is claimed.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::{VERDICTS_MAX, free_slots, is_within_pace};
use crate::commit_kind::CommitKind;
use crate::due::{self, MisfirePolicy};
use crate::effect::{Event, StopReason, Verdict, VerdictState};
use crate::ids::{Fire, Member, NodeName, RunId, Shard};
use crate::input::RunOutcome;
use crate::job::Delivery;
use crate::keys;
use crate::local::{Given, Local};
use crate::overlap::STILL_RUNNING;
use crate::record::{OpenShards, ShardRunState, TriggerRecord, TriggerRequest, encode};
use crate::registry::Write;
use crate::rule_context::{CommitNotice, RuleAction, RuleContext, RuleOutput};
use crate::rules::dispatch::{missed, no_more};
use crate::sharded_job::ShardedJob;
use crate::shards::ShardSet;
use crate::time::{Millis, Wall};
use crate::view::{JobTerms, JobView, ShardTerms};

mod clocks;
mod refused;
mod retry;
mod start;
mod withdraw;

/// How long ends of runs are gathered into one commit while others of the job go on.
const GATHER: Millis = Millis(50);

/// Handles one job.
pub(super) fn decide(ctx: &RuleContext<'_>, job: &JobView<'_>, out: &mut RuleOutput) {
    stop_orphans(ctx, job, out);
    let Some(table) = ShardedJob::of(ctx, job.id) else { return };
    let Some(run_state) = table.run_state(ctx.member) else { return };
    for verdict in &run_state.verdicts {
        if !ctx.local.recording.contains_key(&(verdict.run.clone(), verdict.attempt)) {
            out.add(RuleAction::Record(verdict.clone()));
        }
    }
    let takes_part = table.may_take_part() && table.job.available().contains(&ctx.member);
    let mut writer = RunStateWriter {
        draft: run_state.clone(),
        current: run_state,
        sharded: table,
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

/// Runs that have ended and whose run state shows them closed.
#[must_use]
pub fn closed(local: &Local, job: &JobView<'_>, me: Option<&Member>) -> Vec<RunId> {
    let run_state = me.and_then(|me| job.run_state_of(me)).and_then(|known| known.run_state.value.as_ref());
    let ended = local.given_of(job.id).filter(|(_, given)| given.ended.is_some());
    ended.filter(|(_, given)| !is_open(run_state, given)).map(|(_, given)| given.run.clone()).collect()
}

/// How long the end of this run may wait, because others of the job go on and their ends are gathered with it; `None`
/// when it is to be looked at now.
#[must_use]
pub fn gather_delay(local: &Local, job: &JobView<'_>, me: Option<&Member>, given: &Given) -> Option<Millis> {
    let run_state = job.run_state_of(me?).and_then(|known| known.run_state.value.as_ref());
    (local.shard_runs(job.id).running > 0 && is_open(run_state, given)).then_some(GATHER)
}

/// Whether a run is in the run state as claimed and not finished.
fn is_open(run_state: Option<&ShardRunState>, given: &Given) -> bool {
    let open = run_state.and_then(|run_state| run_state.open_of(given.run.shard));
    open.is_some_and(|open| open.fire == given.run.fire && open.attempt == given.attempt)
}

/// Ends a run whose entry in the registry is gone. An unmonitored run had none once it started.
fn stop_orphans(ctx: &RuleContext<'_>, job: &JobView<'_>, out: &mut RuleOutput) {
    let run_state = job.run_state_of(ctx.member).and_then(|known| known.run_state.value.as_ref());
    if ctx.me.is_some() && job.terms().is_some_and(|(_, shards)| !shards.monitor) {
        return;
    }
    for (_, given) in ctx.local.given_of(job.id).filter(|(_, g)| g.ended.is_none() && !g.stopping) {
        if !is_open(run_state, given) {
            out.add(RuleAction::Stop(job.id, given.run.clone(), StopReason::Fenced));
        }
    }
}

/// This node's run state of a job, and its next version.
struct RunStateWriter<'a> {
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
        let recording = &self.sharded.ctx.local.recording;
        self.draft.verdicts.retain(|v| recording.get(&(v.run.clone(), v.attempt)) != Some(&true));
    }

    /// Closes all ended runs in one commit, and settles the fires that they missed meanwhile.
    fn close(&mut self, out: &mut RuleOutput) {
        let ctx = self.context();
        let monitor = self.terms().is_none_or(|(_, shards)| shards.monitor);
        let ours = || {
            ctx.local.given_of(self.sharded.job.id).filter(|(_, given)| is_open(Some(&self.current), given))
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
        let fenced =
            |given: &Given| matches!(given.ended, Some((RunOutcome::Stopped(StopReason::Fenced), _)));
        let (lost, over): (Vec<_>, Vec<_>) = ended.into_iter().partition(|(_, given)| fenced(given));
        let [lost, over] =
            [lost, over].map(|runs| runs.into_iter().map(|(shard, _)| shard).collect::<ShardSet>());
        self.lose(&lost);
        self.draft.close(&over);
        self.retry(&over);
        self.draft.ended = Some(ctx.now.wall);
        self.settle_missed(&over.or(&lost));
        self.set_kind(CommitKind::Finish);
    }

    /// Settles runs that were ended when trust ran out: they are in doubt, as if the node had died.
    fn lose(&mut self, lost: &ShardSet) {
        let repeats = self.terms().is_some_and(|(t, _)| t.enabled && t.delivery == Delivery::AtLeastOnce);
        let then =
            if repeats { "another attempt follows" } else { "it is not repeated: delivery is at_most_once" };
        for open in self.current.open.clone().iter().filter(|open| open.shards.meets(lost)) {
            let shards = open.shards.and(lost);
            let reason = format!("ended when trust ran out; {then}");
            let told = (&open.fire, open.due, open.due);
            self.draft.verdicts.extend(self.verdict(told, &shards, open.attempt, VerdictState::Lost, reason));
            self.draft.close(&shards);
            if !repeats && self.retries() {
                self.give_up(open, &shards, open.attempt + 1, "the attempt before is lost");
            }
            if repeats {
                let (from, seq) = (self.context().now.wall, self.draft.seq);
                self.draft.add_open(OpenShards {
                    began: Some(open.began()),
                    from,
                    attempt: open.attempt + 1,
                    seq,
                    shards,
                    ..open.clone()
                });
            }
        }
    }

    /// Skips the fires that shards missed because they were running, except those that the catch-up keeps.
    fn settle_missed(&mut self, closed: &ShardSet) {
        let Some((terms, shards)) = self.terms().filter(|(t, _)| t.enabled && !t.paused) else { return };
        let Some(schedule) = &terms.schedule else { return };
        let ctx = self.context();
        // With a wrong clock it is unknown which fires came due meanwhile.
        let other = ctx.local.lease.registry_time(ctx.now).filter(|_| !self.knows_time(shards));
        let now = other.unwrap_or(ctx.now.wall);
        let policy = MisfirePolicy { grace: Millis::ZERO, ..ctx.policy(terms) };
        let closed = closed.minus(&self.draft.unfinished());
        let (groups, runs) = (self.draft.groups.clone(), self.current.open.clone());
        for (group, open) in groups.iter().flat_map(|group| runs.iter().map(move |open| (group, open))) {
            let free = group.shards.and(&closed).and(&open.shards);
            let floor = group.watermark.max(terms.since);
            // A fire that was due before the run began was late already, and still runs within its grace.
            let late = schedule.next(floor).is_some_and(|due| due <= open.from);
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
        let told = free.minus(&shards.off);
        let reason = missed(from, last, why);
        let verdict = self.verdict((&Fire::Due(last), last, from), &told, 0, VerdictState::Skipped, reason);
        self.draft.verdicts.extend(verdict);
    }

    /// The verdict on a fire of these shards; `None` when there are none.
    fn verdict(
        &self,
        (fire, due, from): (&Fire, Wall, Wall),
        shards: &ShardSet,
        attempt: u32,
        state: VerdictState,
        reason: String,
    ) -> Option<Verdict> {
        let run = RunId { job: self.sharded.job.name().clone(), fire: fire.clone(), shard: shards.first()? };
        let (node, shards) = (self.context().member.node.as_str().into(), shards.clone());
        Some(Verdict { run, attempt, due, state, reason, node, from, shards })
    }

    /// Claims triggered and due fires.
    fn claim(&mut self, out: &mut RuleOutput) {
        let sharding = self.sharded.sharding;
        let Some((terms, shards)) = self.terms().filter(|(terms, _)| terms.enabled) else { return };
        // A reshard to another number of shards is about to be requested, and no fire has both numbers.
        let cut = &sharding.shard_map;
        if !self.takes_part || sharding.reshard_pending.is_some() || cut.number == 0 {
            return;
        }
        if shards.total.map_or_else(|| !cut.is_one_each(), |total| total != cut.total) {
            return;
        }
        let assignment = sharding.assignment_of(self.context().member);
        let mine = assignment.iter().fold(ShardSet::empty(), |all, group| all.or(&group.shards));
        // A draining shard goes where it belongs first.
        let mine = mine.minus(&sharding.shard_map.draining);
        if self.draft.verdicts.len() >= VERDICTS_MAX || self.drop_trigger() || mine.is_empty() {
            return;
        }
        self.claim_triggered(&mine, shards, out);
        if !terms.paused {
            self.claim_due(&mine, terms, shards, out);
        }
    }

    /// All shards of the job.
    fn all(&self) -> ShardSet {
        ShardSet::all(self.sharded.sharding.shard_map.total)
    }

    /// The shards that answer a trigger: of a broadcast job, the draining ones belong to no node's part.
    fn answering(&self) -> ShardSet {
        let broadcast = self.terms().is_some_and(|(_, shards)| shards.total.is_none());
        if broadcast { self.all().minus(&self.sharded.sharding.shard_map.draining) } else { self.all() }
    }

    /// The shards that run, monitored or not.
    fn busy(&self) -> ShardSet {
        let running =
            self.context().local.given_of(self.sharded.job.id).filter(|(_, given)| given.ended.is_none());
        let busy = running.map(|(shard, _)| shard).collect::<ShardSet>().or(&self.draft.unfinished());
        // In a broadcast job the run may go on under the number that the node had before.
        let broadcast = self.terms().is_some_and(|(_, shards)| shards.total.is_none());
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
        request.taken = true;
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
        if !self.has_slot(record.requests[index].at, out) {
            return;
        }
        let mut record = record.clone();
        let request = &mut record.requests[index];
        let asked = mine.minus(&request.shards);
        request.shards = request.shards.or(mine);
        request.taken = request.node.is_some() || self.answering().minus(&request.shards).is_empty();
        let (busy, fire) = (self.busy(), Fire::Asked(request.id.clone()));
        let at = request.at;
        let forgot = self.terms().and_then(|(terms, _)| self.context().forgot(terms.delivery, at));
        if let Some(why) = forgot {
            let told = asked.minus(&shards.off);
            let verdict = self.verdict((&fire, at, at), &told, 0, VerdictState::Skipped, why.into());
            self.draft.verdicts.extend(verdict);
            self.triggers = Some(record);
            return self.set_kind(CommitKind::ClaimShards);
        }
        let refused = asked.and(&busy).minus(&shards.off);
        if !refused.is_empty() {
            let event = Event::Rejected(self.sharded.job.name().clone(), request.id.clone(), refused.clone());
            out.notices.push(CommitNotice { scope: self.sharded.scope(), sent: false, event });
            let verdict =
                self.verdict((&fire, at, at), &refused, 0, VerdictState::Skipped, self.obstacle(&refused));
            self.draft.verdicts.extend(verdict);
        }
        self.open(
            fire,
            (at, at.min(self.context().now.wall)),
            Wall::MIN,
            asked.minus(&busy).minus(&shards.off),
        );
        self.triggers = Some(record);
        self.set_kind(CommitKind::ClaimShards);
    }

    /// Every group of shards whose next fire is near, without the shards that run.
    fn claim_due(&mut self, mine: &ShardSet, terms: &JobTerms, shards: &ShardTerms, out: &mut RuleOutput) {
        let Some(schedule) = &terms.schedule else { return };
        let (now, settings) = (self.context().now, &self.context().local.settings);
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
            let near = next.due.zip(next.from).filter(|(_, from)| *from <= now.wall + settings.lead);
            if next.skipped.is_none() && near.is_none() {
                let at = next.from.map(|from| (from - settings.lead).min(next.until.unwrap_or(from)));
                out.actions.extend(at.map(|at| RuleAction::JobAt(self.sharded.job.id, at)));
                continue;
            }
            if !self.clock_agrees(shards, out) {
                return;
            }
            if let Some(span) = next.skipped {
                self.skip(&ready, span, &no_more(span.0, &policy), shards);
                self.set_kind(CommitKind::Skip);
            }
            let Some((due, from)) = near else { continue };
            if now.mono + (from - now.wall) >= self.context().lease.until() {
                // The lease is renewed long before; until then it would be unsure whether the fire can be started.
                out.add(RuleAction::JobAwaitsTrust(self.sharded.job.id));
                continue;
            }
            let back = next.skipped.map_or(group.watermark, |(_, last)| last);
            let run = if paused { ShardSet::empty() } else { ready.minus(&shards.off) };
            if !run.is_empty() && !self.has_slot(due, out) {
                continue;
            }
            self.draft.set_watermark(&ready, due);
            self.open(Fire::Due(due), (due, from), back, run);
            self.set_kind(CommitKind::ClaimShards);
        }
    }

    fn open(&mut self, fire: Fire, (due, from): (Wall, Wall), back: Wall, shards: ShardSet) {
        if shards.is_empty() {
            return;
        }
        let (from, seq) = (from.max(self.context().now.wall), self.draft.seq);
        let total = self.sharded.sharding.shard_map.total;
        self.draft.add_open(OpenShards {
            fire,
            due,
            from,
            back,
            attempt: 1,
            seq,
            total,
            shards,
            wait: None,
            began: None,
        });
        self.draft.began = Some(from);
    }

    /// Whether one more run fits; if not, the job is looked at when one ends.
    fn has_slot(&self, due: Wall, out: &mut RuleOutput) -> bool {
        let local = self.context().local;
        let free = free_slots(self.context().view, local) > out.claimed && is_within_pace(local, out);
        if !free {
            out.add(RuleAction::JobAwaitsSlot(self.sharded.job.id, due));
        }
        free
    }

    fn commit(&mut self, kind: CommitKind, out: &mut RuleOutput) {
        let table = &self.sharded;
        let mut guards = Vec::from_iter(table.run_state_guard(self.context().member));
        guards.extend(table.job.calendar_guards());
        let mut writes = Vec::from([table.put_run_state(self.context().member, &self.draft)]);
        // The leader reshards before the next fire and reads no run state: the assignment shows it the withdrawal.
        let told = table.sharding.reshard_pending.is_some() && self.draft.takes_back(&self.current);
        let mut sharding = table.sharding.clone();
        // Every member with a run state is listed, so that it is looked for should that member die.
        let listed = sharding.run_states.contains(self.context().member);
        if !listed {
            sharding.run_states.push(self.context().member.clone());
        }
        writes.extend((told || !listed).then(|| table.put(sharding)));
        if let (Some(record), Some(known)) = (self.triggers.take(), table.job.triggers()) {
            let key = keys::triggers(table.job.name());
            guards.push(known.guard(key.clone()));
            writes.push(Write::Put { key, value: encode(&record), owner: None });
        }
        out.commit(table.scope(), kind, table.txn(guards, writes));
    }
}
