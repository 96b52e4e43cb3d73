//! Firing of a dispatched job: each node accepts the runs that are planned for it shortly before they are due, starts
//! them on time, and closes them when they end.
//!
//! One run of a job executes at a time, on any node, unless runs may overlap. A run that finds another one executing
//! waits for it; the node that closes that one notifies the next. Accepting moves the plan, in one commit that names
//! the node and a token; so a run that was planned for another node in the meantime cannot be accepted.

use alloc::string::String;
use alloc::vec::Vec;

use crate::commit_kind::CommitKind;
use crate::effect::Verdict;
use crate::ids::{Fire, Member, RunId};
use crate::keys;
use crate::lifecycle::{self, Ending, JobRuns, MANUAL, time_of, too_old};
use crate::local::{CommitScope, Given};
use crate::overlap::SkippedSpan;
use crate::placement::dispatch::is_stale;
use crate::record::{Attempt, Plan, RetryWait, encode};
use crate::registry::{Txn, Write};
use crate::rule_context::{RuleAction, RuleContext, RuleOutput};
use crate::time::{Millis, Mono, Wall};
use crate::view::{JobTerms, JobView, KnownPlan};

mod accept;
mod overdue;
mod overlap;
mod start;

use overdue::{may_accept, must_read_overdue, takes_over};

/// Handles one job.
pub(super) fn decide(ctx: &RuleContext<'_>, job: &JobView<'_>, out: &mut RuleOutput) {
    let reread = ctx.local.offers.reread_at(job.id);
    let now = ctx.now.wall;
    if let Some(at) = reread.filter(|at| *at > now) {
        // Whatever made it be looked at now, it is looked at then.
        out.add(RuleAction::JobAt(job.id, at));
    }
    let reread = reread.is_some_and(|at| at <= now);
    if ctx.local.offers.was_offered(job.id) || reread || must_read_overdue(ctx, job.id, out) {
        return out.add(RuleAction::Read(job.id, [keys::plan(job.name())].into()));
    }
    let Some(plan) = job.plan() else { return };
    let Some(record) = &plan.known.value else { return };
    let later = record.runs.iter().filter_map(|run| takes_over(ctx, job.id, run)).filter(|from| *from > now);
    out.actions.extend(later.min().map(|from| RuleAction::JobAt(job.id, from)));
    let mine = |verdict: &Verdict| verdict.node == ctx.member.node.as_str();
    let concerns = |run: &Attempt| may_accept(ctx, job.id, run);
    if !record.runs.iter().any(concerns) && !record.verdicts.iter().any(mine) {
        return;
    }
    let runs = JobRuns::new(ctx, *job);
    let mut writer = DispatchedRuns { runs, plan, draft: record.clone(), kind: None, next: None };
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

/// The runs of one job that belong to this node.
pub(super) struct DispatchedRuns<'a> {
    runs: JobRuns<'a>,
    plan: &'a KnownPlan,
    pub(super) draft: Plan,
    kind: Option<CommitKind>,
    /// The next run and its node, now that one is closed.
    next: Option<(RunId, Member)>,
}

impl<'a> DispatchedRuns<'a> {
    fn ctx(&self) -> &'a RuleContext<'a> {
        self.runs.ctx
    }

    pub(super) fn set_kind(&mut self, kind: CommitKind) {
        self.kind.get_or_insert(kind);
    }

    fn own_runs(&self) -> impl Iterator<Item = &Attempt> {
        self.draft.runs.iter().filter(|run| run.by == *self.ctx().member)
    }

    /// Hands the verdicts on this node's own runs to the history: the planner sees them only when it reads the plan.
    fn record(&mut self, out: &mut RuleOutput) {
        let (ctx, me) = (self.ctx(), self.ctx().member.node.as_str());
        lifecycle::hand_over(ctx, self.draft.verdicts.iter().filter(|v| v.node == me), out);
        let before = self.draft.verdicts.len();
        self.draft.verdicts.retain(|v| v.node != me || !lifecycle::is_recorded(ctx, v));
        if self.draft.verdicts.len() < before {
            self.set_kind(CommitKind::ClearVerdicts);
        }
    }

    /// Closes the first ended run, in the plan; its next attempt takes its place there.
    fn close(&mut self) {
        let ctx = self.ctx();
        let is_of = |run: &Attempt, given: &Given| {
            run.is_claimed()
                && run.by == *ctx.member
                && run.fire == given.run.fire
                && run.attempt == given.attempt
        };
        let place = |given: &Given| self.draft.runs.iter().position(|run| is_of(run, given));
        let ended = |given: &'a Given| Some((given, given.ended?.1, place(given)?));
        let mut given = ctx.local.runs.of_job(self.runs.job.id);
        let Some((given, over, at)) = given.find_map(|(_, given)| ended(given)) else { return };
        let run = self.draft.runs.remove(at);
        self.draft.freed = Some(ctx.now.wall);
        let ending = self.runs.ending(&run, given, self.draft.outcomes());
        if ending == Some(Ending::InDoubt) {
            let next = self.runs.settle(&run, "ended when trust ran out", self.draft.outcomes());
            self.put_back(at, next);
            return self.set_kind(CommitKind::Settle);
        }
        self.note_length(&run, over);
        self.make_way((run.starts_at(), over));
        if let Some(Ending::Retry(next)) = ending {
            self.put_back(at, Some(Attempt { seq: 0, ..next }));
            return self.set_kind(CommitKind::WaitForRetry);
        }
        self.next = self.next_of_others();
        self.set_kind(CommitKind::Finish);
    }

    /// Puts an attempt into the plan where the one before was.
    fn put_back(&mut self, at: usize, next: Option<Attempt>) {
        let at = at.min(self.draft.runs.len());
        next.into_iter().for_each(|next| self.draft.runs.insert(at, next));
    }

    /// Updates the expected duration of runs, from which follows when the next ones will have ended.
    fn note_length(&mut self, run: &Attempt, over: Mono) {
        let Some((from, over)) = run.from.zip(time_of(self.ctx(), over)) else { return };
        let took = (over - from).max(Millis(1));
        self.draft.took =
            Some(self.draft.took.map_or(took, |before| Millis(i64::midpoint(before.0, took.0))));
    }

    /// The next run, if it is due and belongs to another node: that node learns of it only by a notice.
    fn next_of_others(&self) -> Option<(RunId, Member)> {
        let now = self.ctx().now.wall;
        // Where runs may overlap, one that waits for its next attempt holds none up.
        let waits = |run: &Attempt| {
            self.runs.job.max_concurrent_runs() > 1 && run.wait.is_some_and(|wait| wait.left(now).is_some())
        };
        let open = self.draft.runs.iter().filter(|run| !run.is_claimed() && !waits(run));
        let next = open.min_by_key(|run| self.runs.moment(run));
        let others = next.filter(|run| run.by != *self.ctx().member && self.runs.moment(run) <= now);
        others.map(|run| (self.runs.id(run), run.by.clone()))
    }

    /// Drops cancelled runs that have not started.
    fn drop_cancelled(&mut self) {
        let ctx = self.ctx();
        if !ctx.local.commands.has_cancelled() {
            return;
        }
        let given = |run: &Attempt| ctx.local.runs.get(self.runs.job.id, &self.runs.id(run)).is_some();
        let called = |run: &&Attempt| !given(run) && ctx.local.commands.is_cancelled(&self.runs.id(run));
        let gone: Vec<Attempt> = self.own_runs().filter(called).cloned().collect();
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
    fn use_up(&mut self, run: &Attempt) {
        let Fire::Due(due) = run.fire else { return };
        let before =
            |other: &Attempt| !other.is_claimed() && matches!(other.fire, Fire::Due(other) if other < due);
        if due <= self.draft.reached || !self.draft.runs.iter().any(before) {
            self.draft.reached = self.draft.reached.max(due);
        } else {
            // Earlier fires may still be planned, so only this one is skipped.
            self.draft.passed.push(SkippedSpan { after: due - Millis(1), until: due });
        }
    }

    /// Drops runs that are no longer due, or too old, once their moment has come.
    fn drop_stale(&mut self, out: &mut RuleOutput) {
        let (ctx, id, now) = (self.ctx(), self.runs.job.id, self.ctx().now.wall);
        // With a wrong clock nothing is due, nor too old.
        let (terms, agrees) = (self.runs.terms, self.ctx().clock_agrees());
        let given = |run: &Attempt| ctx.local.runs.of_job(id).any(|(_, given)| given.run.fire == run.fire);
        let stale = |run: &Attempt| match terms {
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
        self.drop_replaced(out);
        let goes =
            |run: &&Attempt| run.by == *ctx.member && run.due > now && self.is_dropped_when_due(terms, run);
        let first = self.draft.runs.iter().filter(goes).map(|run| run.due).min();
        out.actions.extend(first.map(|due| RuleAction::JobAt(self.runs.job.id, due)));
        let policy = self.ctx().policy(terms);
        let grace = policy.grace;
        let waits = |run: &Attempt| !run.is_claimed() && matches!(run.fire, Fire::Due(_)) && run.attempt == 1;
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
        out.actions.extend(later.map(|due| RuleAction::JobAt(self.runs.job.id, *due)));
        let ends = young.last().and_then(|due| policy.ends(*due));
        out.actions.extend(ends.map(|end| RuleAction::JobAt(self.runs.job.id, end)));
        let mine = |run: &Attempt| waits(run) && may_accept(ctx, id, run);
        let old = |run: &Attempt| mine(run) && last.is_some_and(|last| run.due <= last);
        let next = dues.iter().rev().find(|due| **due >= edge);
        if let Some(due) = next.filter(|_| self.draft.runs.iter().any(mine)) {
            out.add(RuleAction::JobAt(self.runs.job.id, *due + grace + Millis(1)));
        }
        let (gone, kept): (Vec<_>, Vec<_>) = core::mem::take(&mut self.draft.runs).into_iter().partition(old);
        self.draft.runs = kept;
        for run in gone {
            let verdict =
                self.runs.skipped((run.due, run.due), &run.shards, too_old(run.due, run.due, &policy, now));
            self.draft.reached = self.draft.reached.max(run.due);
            self.draft.verdicts.extend(verdict);
            self.set_kind(CommitKind::Skip);
        }
    }

    /// Drops runs that are not attempted any more: their time is over after the attempts before, or they are manual
    /// runs or further attempts that the registry may have lost.
    fn drop_overtime(&mut self) {
        let (ctx, id, now) = (self.ctx(), self.runs.job.id, self.ctx().now.wall);
        let mine = |run: &Attempt| {
            may_accept(ctx, id, run)
                && !run.is_claimed()
                && (run.began.is_some() || matches!(run.fire, Fire::Asked(_)))
        };
        if !self.draft.runs.iter().any(mine) {
            return;
        }
        let Some(job) = self.runs.job.spec().map(|spec| spec.job) else { return };
        let over = |run: &Attempt| {
            let since = run.wait.map_or_else(|| self.runs.wanted_since(run), RetryWait::since);
            let forgot = ctx.forgot(job.delivery, since).filter(|_| mine(run));
            forgot.map(String::from).or_else(|| job.time_is_over(run.began.filter(|_| mine(run))?, now))
        };
        let gone: Vec<(Attempt, String)> =
            self.draft.runs.iter().filter_map(|run| Some((run.clone(), over(run)?))).collect();
        self.draft.runs.retain(|run| over(run).is_none());
        for (run, why) in gone {
            self.give_up(&run, &why);
            self.set_kind(CommitKind::GiveUp);
        }
    }

    /// Whether a run is dropped once it is due, as things stand. A run that began before a pause is attempted again
    /// during it, as it would have gone on.
    fn is_dropped_when_due(&self, terms: &JobTerms, run: &Attempt) -> bool {
        run.attempt == 1 && matches!(run.fire, Fire::Due(_)) && is_stale(terms, run, run.due)
    }

    /// Tells the history that an attempt will not be made, which it expects.
    pub(super) fn give_up(&mut self, run: &Attempt, why: &str) {
        self.draft.verdicts.push(self.runs.not_attempted(run, run.attempt, why));
    }

    fn commit(self, kind: CommitKind, out: &mut RuleOutput) {
        let key = keys::plan(self.runs.job.name());
        let draft = Plan { seq: self.draft.seq + 1, ..self.draft };
        let JobRuns { ctx, job, .. } = self.runs;
        let guards = [self.plan.known.guard(key.clone()), job.assignment_guard()];
        let txn = Txn {
            guards: ctx.born().into_iter().chain(guards).chain(job.calendar_guards()).collect(),
            writes: [Write::Put { key, value: encode(&draft), owner: None }].into(),
        };
        out.commit(CommitScope::Job(self.runs.job.id), kind, txn);
        if let Some((run, to)) = self.next {
            out.acceptable_runs.push((self.runs.job.id, run, to));
        }
    }
}
