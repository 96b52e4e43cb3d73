//! Firing of a dispatched job: each node accepts the runs that are planned for it shortly before they are due, starts
//! them on time, and closes them when they end.
//!
//! One run of a job executes at a time, on any node, unless runs may overlap. A run that finds another one executing
//! waits for it; the node that closes that one notifies the next. Accepting moves the plan, in one commit that names
//! the node and a token; so a run that was planned for another node in the meantime cannot be accepted.

use alloc::string::String;
use alloc::vec::Vec;

use super::cancel::cancel_reason;
use super::overlap::time_of;
use super::retry::{given_up, wait_after, wait_of};
use super::{MANUAL, START_WINDOW, is_admitted, is_misdated, is_within_pace, moment, run_of};
use crate::commit_kind::CommitKind;
use crate::effect::{StopReason, Verdict, VerdictState};
use crate::ids::{Fire, Member, RunId, Shard};
use crate::input::RunOutcome;
use crate::job::{Delivery, Job};
use crate::keys;
use crate::local::{CommitScope, Given};
use crate::overlap::SkippedSpan;
use crate::record::{Plan, Planned, RetryWait, encode};
use crate::registry::{Txn, Write};
use crate::rule_context::{RuleAction, RuleContext, RuleOutput};
use crate::rules::dispatch::{is_stale, lost_verdict, too_old};
use crate::shards::ShardSet;
use crate::time::{Millis, Mono, Wall};
use crate::view::{JobTerms, JobView, KnownPlan};

mod accept;
mod overdue;
mod start;

use overdue::{may_accept, must_read_overdue, takes_over};

/// Handles one job.
pub(super) fn decide(ctx: &RuleContext<'_>, job: &JobView<'_>, out: &mut RuleOutput) {
    stop_orphans(ctx, job, out);
    if ctx.me.is_none() || !job.is_consistent() || !ctx.is_idle(&CommitScope::Job(job.id)) {
        return;
    }
    let reread = ctx.local.peers.reread.get(&job.id).copied();
    let now = ctx.now.wall;
    if let Some(at) = reread.filter(|at| *at > now) {
        // Whatever made it be looked at now, it is looked at then.
        out.add(RuleAction::JobAt(job.id, at));
    }
    let reread = reread.is_some_and(|at| at <= now);
    if ctx.local.peers.offered.contains(&job.id) || reread || must_read_overdue(ctx, job.id, out) {
        return out.add(RuleAction::Read(job.id, [keys::plan(job.name())].into()));
    }
    let Some(plan) = job.plan() else { return };
    let Some(record) = &plan.known.value else { return };
    let later = record.runs.iter().filter_map(|run| takes_over(ctx, job.id, run)).filter(|from| *from > now);
    out.actions.extend(later.min().map(|from| RuleAction::JobAt(job.id, from)));
    let mine = |verdict: &Verdict| verdict.node == ctx.member.node.as_str();
    let concerns = |run: &Planned| may_accept(ctx, job.id, run);
    if !record.runs.iter().any(concerns) && !record.verdicts.iter().any(mine) {
        return;
    }
    let terms = job.dispatched().and_then(|state| state.terms.as_deref());
    let mut writer =
        DispatchedRuns { ctx, job: *job, terms, plan, draft: record.clone(), kind: None, next: None };
    writer.record(out);
    writer.close();
    writer.drop_cancelled();
    writer.drop_stale(out);
    writer.accept(out);
    match writer.kind {
        Some(kind) => writer.commit(kind, out),
        None => {
            writer.give_way(out);
            writer.start_all(out);
        }
    }
}

/// Ends a run that the plan does not show as accepted by this node.
fn stop_orphans(ctx: &RuleContext<'_>, job: &JobView<'_>, out: &mut RuleOutput) {
    for (_, given) in ctx.local.given_of(job.id).filter(|(_, g)| g.ended.is_none() && !g.stopping) {
        if !is_open(job, given, ctx.member) {
            out.add(RuleAction::Stop(job.id, given.run.clone(), StopReason::Fenced));
        }
    }
}

/// Whether a run that was given to an executor stands in the plan as this member's.
pub fn is_open(job: &JobView<'_>, given: &Given, me: &Member) -> bool {
    let plan = job.plan().and_then(|plan| plan.known.value.as_ref());
    plan.is_some_and(|plan| {
        plan.runs.iter().any(|run| {
            run.is_accepted() && run.by == *me && run.fire == given.run.fire && run.attempt == given.attempt
        })
    })
}

/// The runs of one job that belong to this node.
pub(super) struct DispatchedRuns<'a> {
    pub(super) ctx: &'a RuleContext<'a>,
    pub(super) job: JobView<'a>,
    pub(super) terms: Option<&'a JobTerms>,
    plan: &'a KnownPlan,
    pub(super) draft: Plan,
    kind: Option<CommitKind>,
    /// The next run and its node, now that one is closed.
    next: Option<(RunId, Member)>,
}

impl<'a> DispatchedRuns<'a> {
    pub(super) fn set_kind(&mut self, kind: CommitKind) {
        self.kind.get_or_insert(kind);
    }

    fn id(&self, run: &Planned) -> RunId {
        RunId { job: self.job.name().clone(), fire: run.fire.clone(), shard: Shard(0) }
    }

    fn own_runs(&self) -> impl Iterator<Item = &Planned> {
        self.draft.runs.iter().filter(|run| run.by == *self.ctx.member)
    }

    /// Hands the verdicts on this node's own runs to the history: the planner sees them only when it reads the plan.
    fn record(&mut self, out: &mut RuleOutput) {
        let (me, recording) = (self.ctx.member.node.as_str(), &self.ctx.local.recording);
        let known = |v: &Verdict| recording.get(&(v.run.clone(), v.attempt)).copied();
        for verdict in self.draft.verdicts.iter().filter(|v| v.node == me && known(v).is_none()) {
            out.add(RuleAction::Record(verdict.clone()));
        }
        let before = self.draft.verdicts.len();
        self.draft.verdicts.retain(|v| v.node != me || known(v) != Some(true));
        if self.draft.verdicts.len() < before {
            self.set_kind(CommitKind::ClearVerdicts);
        }
    }

    /// Removes ended runs from the plan; a run that was ended because trust ran out is in doubt.
    fn close(&mut self) {
        let is_of = |run: &Planned, given: &Given| {
            run.is_accepted()
                && run.by == *self.ctx.member
                && run.fire == given.run.fire
                && run.attempt == given.attempt
        };
        let place = |given: &Given| self.draft.runs.iter().position(|run| is_of(run, given));
        let ended = |given: &'a Given| Some((given, given.ended?, place(given)?));
        let mut given = self.ctx.local.given_of(self.job.id);
        let Some((given, (ended, over), at)) = given.find_map(|(_, given)| ended(given)) else { return };
        let run = self.draft.runs.remove(at);
        self.draft.freed = Some(self.ctx.now.wall);
        let spec = self.job.spec();
        if ended == RunOutcome::Stopped(StopReason::Fenced) {
            let repeats = spec.is_some_and(|s| s.job.enabled && s.job.delivery == Delivery::AtLeastOnce);
            self.draft.verdicts.push(lost_verdict(self.id(&run), &run, repeats));
            if repeats {
                let (attempt, began) = (run.attempt + 1, run.began());
                let next = Planned { attempt, seq: 0, from: None, began, planned_for: None, ..run };
                self.draft.runs.insert(at, next);
            }
            return self.set_kind(CommitKind::Settle);
        }
        self.note_length(&run, over);
        self.make_way((run.from.unwrap_or(run.due), over));
        if let Some(length) = wait_after(given) {
            let (attempt, began) = (run.attempt + 1, run.began());
            let next = Planned { attempt, seq: 0, from: None, began, planned_for: None, ..run };
            let wait = wait_of(self.ctx, length);
            // With a wrong clock this is unknown.
            let agrees = self.ctx.clock_agrees();
            let over = |job: &Job| job.time_is_over(began?, wait.until).filter(|_| agrees);
            let over = |job: &Job| cancel_reason(self.ctx.local, given).or_else(|| over(job));
            match spec.map(|spec| (spec.job.enabled, over(&spec.job))) {
                Some((true, None)) => {
                    let at = at.min(self.draft.runs.len());
                    self.draft.runs.insert(at, Planned { wait: Some(wait), ..next });
                    return self.set_kind(CommitKind::WaitForRetry);
                }
                Some((true, Some(why))) => self.give_up(&next, &why),
                Some((false, _)) => self.give_up(&next, "its job was disabled"),
                None => self.give_up(&next, "its job was deleted"),
            }
        }
        self.next = self.next_of_others();
        self.set_kind(CommitKind::Finish);
    }

    /// Updates the expected duration of runs, from which follows when the next ones will have ended.
    fn note_length(&mut self, run: &Planned, over: Mono) {
        let Some((from, over)) = run.from.zip(time_of(self.ctx, over)) else { return };
        let took = (over - from).max(Millis(1));
        self.draft.took =
            Some(self.draft.took.map_or(took, |before| Millis(i64::midpoint(before.0, took.0))));
    }

    /// The next run, if it is due and belongs to another node: that node learns of it only by a notice.
    fn next_of_others(&self) -> Option<(RunId, Member)> {
        let now = self.ctx.now.wall;
        // Where runs may overlap, one that waits for its next attempt holds none up.
        let waits = |run: &Planned| {
            self.job.max_concurrent_runs() > 1 && run.wait.is_some_and(|wait| wait.left(now).is_some())
        };
        let open = self.draft.runs.iter().filter(|run| !run.is_accepted() && !waits(run));
        let next = open.min_by_key(|run| self.moment(run));
        let others = next.filter(|run| run.by != *self.ctx.member && self.moment(run) <= now);
        others.map(|run| (self.id(run), run.by.clone()))
    }

    /// Drops cancelled runs that have not started.
    fn drop_cancelled(&mut self) {
        let ctx = self.ctx;
        if ctx.local.called_off.is_empty() {
            return;
        }
        let given = |run: &Planned| ctx.local.given_to(self.job.id, &self.id(run)).is_some();
        let called = |run: &&Planned| !given(run) && ctx.local.is_cancelled(&self.id(run));
        let gone: Vec<Planned> = self.own_runs().filter(called).cloned().collect();
        self.draft.runs.retain(|run| !gone.contains(run));
        for run in gone {
            self.use_up(&run);
            if let Some(wait) = run.wait {
                self.make_way((wait.since(), ctx.now.mono));
            }
            self.give_up(&run, MANUAL);
            self.next = self.next_of_others();
            self.set_kind(CommitKind::GiveUp);
        }
    }

    /// Makes sure that no change of the schedule plans the fire of this run again.
    fn use_up(&mut self, run: &Planned) {
        let Fire::Due(due) = run.fire else { return };
        let before =
            |other: &Planned| !other.is_accepted() && matches!(other.fire, Fire::Due(other) if other < due);
        if due <= self.draft.reached || !self.draft.runs.iter().any(before) {
            self.draft.reached = self.draft.reached.max(due);
        } else {
            // Earlier fires may still be planned, so only this one is skipped.
            self.draft.passed.push(SkippedSpan { after: due - Millis(1), until: due });
        }
    }

    /// Drops runs that are no longer due, or too old, once their moment has come.
    fn drop_stale(&mut self, out: &mut RuleOutput) {
        let (ctx, id, now) = (self.ctx, self.job.id, self.ctx.now.wall);
        // With a wrong clock nothing is due, nor too old.
        let (terms, agrees) = (self.terms, self.ctx.clock_agrees());
        let given = |run: &Planned| self.ctx.local.given_of(self.job.id).any(|(_, g)| g.run.fire == run.fire);
        let stale = |run: &Planned| match terms {
            None => true,
            Some(terms) => agrees && run.attempt == 1 && run.due <= now && is_stale(terms, run, now),
        };
        let (gone, kept): (Vec<_>, Vec<_>) = core::mem::take(&mut self.draft.runs)
            .into_iter()
            .partition(|run| may_accept(ctx, id, run) && !given(run) && stale(run));
        self.draft.runs = kept;
        for run in gone {
            if run.attempt > 1 {
                self.give_up(&run, "its job was deleted");
            }
            self.set_kind(CommitKind::Withdraw);
        }
        let Some(terms) = terms.filter(|_| agrees) else { return };
        self.drop_overtime();
        self.drop_superseded(out);
        let goes =
            |run: &&Planned| run.by == *ctx.member && run.due > now && self.is_dropped_when_due(terms, run);
        let first = self.draft.runs.iter().filter(goes).map(|run| run.due).min();
        out.actions.extend(first.map(|due| RuleAction::JobAt(self.job.id, due)));
        let policy = self.ctx.policy(terms);
        let grace = policy.grace;
        let waits =
            |run: &Planned| !run.is_accepted() && matches!(run.fire, Fire::Due(_)) && run.attempt == 1;
        // Of those that are too old the newest ones are kept, as many as the job's catch-up says.
        let (keep, edge) = (policy.most() as usize, now - grace);
        let mut dues: Vec<Wall> =
            self.draft.runs.iter().filter(|run| waits(run)).map(|run| run.due).collect();
        dues.sort_unstable_by(|a, b| b.cmp(a));
        let last = dues.iter().filter(|due| **due < edge).nth(keep).copied();
        // … and of these none older than its window.
        let (aged, young): (Vec<_>, Vec<_>) =
            dues.iter().copied().partition(|due| policy.ends(*due).is_some_and(|end| end <= now));
        let last = last.max(aged.first().copied());
        // … and where only the latest is to start, none before it.
        let newer = dues.iter().filter(|due| **due <= now && policy.newest).nth(1).copied();
        let last = last.max(newer);
        // … and none that may have run before.
        let last = last.max(dues.iter().find(|due| policy.lost >= Some(**due)).copied());
        let later = dues.iter().rev().find(|due| **due > now && policy.newest);
        out.actions.extend(later.map(|due| RuleAction::JobAt(self.job.id, *due)));
        let ends = young.last().and_then(|due| policy.ends(*due));
        out.actions.extend(ends.map(|end| RuleAction::JobAt(self.job.id, end)));
        let mine = |run: &Planned| waits(run) && may_accept(ctx, id, run);
        let old = |run: &Planned| mine(run) && last.is_some_and(|last| run.due <= last);
        let next = dues.iter().rev().find(|due| **due >= edge);
        if let Some(due) = next.filter(|_| self.draft.runs.iter().any(mine)) {
            out.add(RuleAction::JobAt(self.job.id, *due + grace + Millis(1)));
        }
        let (gone, kept): (Vec<_>, Vec<_>) = core::mem::take(&mut self.draft.runs).into_iter().partition(old);
        self.draft.runs = kept;
        for run in gone {
            let verdict = self.skipped((run.due, run.due), too_old(run.due, run.due, &policy, now));
            self.draft.reached = self.draft.reached.max(run.due);
            self.draft.verdicts.push(verdict);
            self.set_kind(CommitKind::Skip);
        }
    }

    /// Drops runs that are not attempted any more: their time is over after the attempts before, or they are manual
    /// runs or further attempts that the registry may have lost.
    fn drop_overtime(&mut self) {
        let (ctx, id, now) = (self.ctx, self.job.id, self.ctx.now.wall);
        let mine = |run: &Planned| {
            may_accept(ctx, id, run)
                && !run.is_accepted()
                && (run.began.is_some() || matches!(run.fire, Fire::Asked(_)))
        };
        if !self.draft.runs.iter().any(mine) {
            return;
        }
        let Some(job) = self.job.spec().map(|spec| spec.job) else { return };
        let over = |run: &Planned| {
            let since = run.wait.map_or(run.due, RetryWait::since);
            let forgot = self.ctx.forgot(job.delivery, since).filter(|_| mine(run));
            forgot.map(String::from).or_else(|| job.time_is_over(run.began.filter(|_| mine(run))?, now))
        };
        let gone: Vec<(Planned, String)> =
            self.draft.runs.iter().filter_map(|run| Some((run.clone(), over(run)?))).collect();
        self.draft.runs.retain(|run| over(run).is_none());
        for (run, why) in gone {
            self.give_up(&run, &why);
            self.set_kind(CommitKind::GiveUp);
        }
    }

    /// Whether a run is dropped once it is due, as things stand. A run that began before a pause is attempted again
    /// during it, as it would have gone on.
    fn is_dropped_when_due(&self, terms: &JobTerms, run: &Planned) -> bool {
        run.attempt == 1 && matches!(run.fire, Fire::Due(_)) && is_stale(terms, run, run.due)
    }

    pub(super) fn skipped(&self, (from, last): (Wall, Wall), reason: String) -> Verdict {
        Verdict {
            run: RunId { job: self.job.name().clone(), fire: Fire::Due(last), shard: Shard(0) },
            attempt: 0,
            due: last,
            state: VerdictState::Skipped,
            reason,
            node: self.ctx.member.node.as_str().into(),
            from,
            shards: ShardSet::empty(),
        }
    }

    /// The verdict that no attempt follows, where the history expects one.
    pub(super) fn give_up(&mut self, run: &Planned, why: &str) {
        let node = self.ctx.member.node.as_str();
        self.draft.verdicts.push(given_up(self.id(run), run.attempt, run.due, node, why));
    }

    fn moment(&self, run: &Planned) -> Wall {
        moment(&run.fire, run.due, self.ctx.now.wall)
    }

    fn commit(self, kind: CommitKind, out: &mut RuleOutput) {
        let key = keys::plan(self.job.name());
        let draft = Plan { seq: self.draft.seq + 1, ..self.draft };
        let txn = Txn {
            guards: (self.ctx.born().into_iter())
                .chain([self.plan.known.guard(key.clone()), self.job.assignment_guard()])
                .chain(self.job.calendar_guards())
                .collect(),
            writes: [Write::Put { key, value: encode(&draft), owner: None }].into(),
        };
        out.commit(CommitScope::Job(self.job.id), kind, txn);
        if let Some((run, to)) = self.next {
            out.acceptable_runs.push((self.job.id, run, to));
        }
    }
}
