//! Dispatch: the planner plans the fires of all dispatched jobs up to the next beat, in the order in which they are
//! due, each for the node that is expected to have the most slots free then, and offers them.
//!
//! A plan is an entry that only the planner may add to. Each of its runs names a node, which accepts it shortly before
//! it is due in a commit of its own; so the order of messages does not matter, and no run belongs to two nodes. An
//! offer only says where to look. A node without a slot is passed over; one that cannot be reached gets a strike and is
//! left out for the beat; where none can be reached the planner keeps the run (S0-38 … S0-44, I42). The runs that a
//! dead node had not accepted are planned again; accepted ones are in doubt, and settled by the job's delivery.

use alloc::vec::Vec;

use crate::commit_kind::CommitKind;
use crate::due::MisfirePolicy;
use crate::eligibility::{self, PlanningRight};
use crate::ids::{Fire, Member};
use crate::keys;
use crate::lifecycle::{self, JobRuns, too_old};
use crate::local::{CommitScope, OfferState, PlacedRun};
use crate::record::{Attempt, Plan, TriggerRecord, encode};
use crate::registry::{Guard, Txn, Write};
use crate::rule_context::{RuleAction, RuleContext, RuleOutput};
use crate::time::{Millis, Wall};
use crate::view::{DispatchedState, JobId, JobTerms, JobView, KnownPlan};

mod candidates;
mod new_runs;
mod placement;
mod verdicts;

pub use candidates::CandidateNodes;
use placement::{PendingPlacement, PlacementChoice};
pub(super) use verdicts::is_stale;

/// The most runs that a plan holds; later runs are planned when some are gone.
const RUNS_MAX: usize = 128;
/// How long before the last planned run is due a full plan is looked at again.
const AHEAD: Millis = Millis::secs(5);
/// A run that is due sooner than this stays where it is when nodes come and go: it may be accepted at any moment.
const SOON: Millis = Millis::secs(2);
/// The operations of a plan's commit beside the guards on calendars and on dead nodes: those on this node,
/// the right to plan, the plan, the assignment and the triggers; plan and triggers written.
const COMMIT: usize = 7;

/// Plans the jobs of a step together, so that the runs of all are placed in the order in which they are due.
pub fn decide(ctx: &RuleContext<'_>, focus: &[JobId], out: &mut RuleOutput) {
    let Some(right) = eligibility::planning_right(ctx) else { return };
    let (mut batch, mut writers) = (None, Vec::new());
    for id in focus {
        let Some(mut writer) = PlanWriter::open(ctx, *id, &right, out) else { continue };
        writer.revise(batch.get_or_insert_with(|| CandidateNodes::new(ctx)), out);
        writers.push(writer);
    }
    let Some(mut batch) = batch else { return };
    placement::place_runs(ctx, &right, &mut writers, &mut batch);
    for writer in writers {
        if ctx.local.planning.spreads(writer.job.id) {
            out.add(RuleAction::JobSpread(writer.job.id));
        }
        match writer.kind {
            Some(kind) => writer.commit(kind, out),
            None => writer.follow_up(out),
        }
    }
}

/// The plan of a job, and its next version.
struct PlanWriter<'a> {
    runs: JobRuns<'a>,
    ctx: &'a RuleContext<'a>,
    job: JobView<'a>,
    state: &'a DispatchedState,
    plan: &'a KnownPlan,
    draft: Plan,
    right: &'a PlanningRight,
    /// Runs of the draft that are to be placed on nodes.
    placements: Vec<PendingPlacement>,
    /// The kind of the commit, once the draft is worth one.
    kind: Option<CommitKind>,
    /// Its additional guards.
    guards: Vec<Guard>,
    triggers: Option<TriggerRecord>,
    /// The runs planned before the schedule changed, which are planned anew.
    anew: Vec<Attempt>,
}

impl<'a> PlanWriter<'a> {
    /// Opens a job's plan, if it may be written now. A plan that was not read since the right was won is read first.
    fn open(
        ctx: &'a RuleContext<'a>,
        id: JobId,
        right: &'a PlanningRight,
        out: &mut RuleOutput,
    ) -> Option<Self> {
        let job = ctx.job(id);
        let state = job.dispatched()?;
        if !job.is_consistent() || !ctx.is_idle(&CommitScope::Job(id)) {
            return None;
        }
        let Some(plan) = state.plan.as_ref().filter(|plan| plan.as_of >= right.since) else {
            out.add(RuleAction::Read(id, [keys::plan(job.name())].into()));
            return None;
        };
        if !ctx.knows_loads(right.since) {
            out.add(RuleAction::ReadLoads(Some(id)));
            return None;
        }
        let draft = plan.known.value.clone().unwrap_or_default();
        let (wants, guards, anew) = (Vec::new(), Vec::new(), Vec::new());
        Some(PlanWriter {
            runs: JobRuns::new(ctx, job),
            ctx,
            job,
            state,
            plan,
            draft,
            right,
            placements: wants,
            kind: None,
            guards,
            triggers: None,
            anew,
        })
    }

    fn revise(&mut self, batch: &mut CandidateNodes, out: &mut RuleOutput) {
        self.record(out);
        self.settle(batch, out);
        match self.state.terms.as_deref().filter(|terms| terms.enabled) {
            Some(terms) => {
                // Once the beat is long over, fires due since belong to the next one, also those too old by then.
                let in_time = !terms.paused && self.ctx.now.wall <= self.right.horizon;
                let plans = in_time && self.follow(terms, out);
                self.reassign(batch);
                self.plan_triggered(terms, batch, out);
                if plans {
                    self.plan_due(terms, batch, out);
                }
            }
            None => self.withdraw(),
        }
    }

    /// Adds what is missing in a valid plan.
    fn follow_up(&self, out: &mut RuleOutput) {
        match self.state.terms {
            None => self.retire(out),
            Some(_) => self.offer(out),
        }
    }

    /// Sets the kind of the commit, unless a weightier one is set already.
    fn set_kind(&mut self, kind: CommitKind) {
        self.kind.get_or_insert(kind);
    }

    /// Hands verdicts to the history, and forgets those it has.
    fn record(&mut self, out: &mut RuleOutput) {
        let ctx = self.ctx;
        lifecycle::hand_over(ctx, self.draft.verdicts.iter(), out);
        let before = self.draft.verdicts.len();
        self.draft.verdicts.retain(|verdict| !lifecycle::is_recorded(ctx, verdict));
        if self.draft.verdicts.len() < before {
            self.set_kind(CommitKind::ClearVerdicts);
        }
    }

    /// Settles the accepted runs of dead nodes, which are in doubt: they are lost, or attempted again.
    fn settle(&mut self, batch: &mut CandidateNodes, out: &mut RuleOutput) {
        let dead = |run: &Attempt| run.is_claimed() && self.ctx.view.member(&run.by).is_none();
        if !self.draft.runs.iter().any(dead) {
            return;
        }
        let others = COMMIT + self.job.calendar_guards().count();
        let most = self.ctx.local.settings.operations_max.saturating_sub(others).max(1);
        for run in core::mem::take(&mut self.draft.runs) {
            let gone = Guard::Absent(keys::node(&run.by));
            let guarded = self.guards.contains(&gone);
            // The others are settled in the next commit.
            if !dead(&run) || (!guarded && self.guards.len() >= most) {
                self.draft.runs.push(run);
                continue;
            }
            if self.runs.repeats() && !batch.can_place(self.ctx, &self.job) {
                // Without a node to repeat it, it waits for one.
                out.add(RuleAction::JobUnplaced(self.job.id));
                self.draft.runs.push(run);
                continue;
            }
            if !guarded {
                self.guards.push(gone);
            }
            if let Some(next) = self.runs.settle(&run, "its node is gone", self.draft.outcomes()) {
                self.want(next, PlacementChoice::MostSlots);
            }
            self.set_kind(CommitKind::Settle);
        }
    }

    /// After a change of the schedule, or of a calendar, plans everything behind the furthest fire that was ever
    /// accepted anew, in the same commit: runs accepted between two would be planned twice. Returns whether the plan
    /// follows the declaration.
    fn follow(&mut self, terms: &JobTerms, out: &mut RuleOutput) -> bool {
        let version = self.job.spec_record().map_or(0, |record| record.version());
        let calendars = self.job.calendars_version();
        if (self.draft.version, self.draft.calendars) == (version, calendars) {
            return true;
        }
        if !self.runs.clock_agrees(out) {
            return false;
        }
        let now = self.ctx.now.wall;
        let mark = self.draft.watermark.min(self.draft.reached.max(terms.since));
        self.draft.watermark = mark;
        (self.draft.version, self.draft.calendars) = (version, calendars);
        let anew = |run: &Attempt| {
            let first = !run.is_claimed() && run.attempt == 1;
            first && (matches!(run.fire, Fire::Due(due) if due > mark) || is_stale(terms, run, now))
        };
        let (anew, kept) = core::mem::take(&mut self.draft.runs).into_iter().partition(anew);
        (self.anew, self.draft.runs) = (anew, kept);
        if self.plan.known.value.is_some() {
            self.set_kind(CommitKind::FollowSchedule);
        }
        true
    }

    /// Adds a new run to the draft, to be placed on a node.
    fn want(&mut self, run: Attempt, to: PlacementChoice) {
        self.placements.push(PendingPlacement { fire: run.fire.clone(), busy: Vec::new(), to });
        self.draft.runs.push(run);
    }

    /// Whether a run of the draft is to be placed on a node.
    fn awaits_placement(&self, fire: &Fire) -> bool {
        self.placements.iter().any(|want| want.fire == *fire)
    }

    /// Notes that a run was placed on a node.
    fn place(&mut self, want: &PendingPlacement, by: Member, free: i64) {
        let Some(run) = self.draft.runs.iter_mut().find(|run| run.fire == want.fire) else { return };
        if want.to != PlacementChoice::Better {
            run.place(by, free);
        } else if run.by != by {
            run.place(by, free);
            // It outweighs new runs: their placement depends on it.
            self.kind = self.kind.filter(|kind| *kind != CommitKind::Plan);
            self.set_kind(CommitKind::PlanAgain);
        }
    }

    /// Moves runs that are not accepted where their nodes should not have them, and where the runs of all jobs are
    /// spread anew.
    fn reassign(&mut self, batch: &mut CandidateNodes) {
        let ctx = self.ctx;
        let spreads = ctx.local.planning.spreads(self.job.id);
        let soon = ctx.now.wall + SOON;
        for run in &self.draft.runs {
            if run.is_claimed() || self.awaits_placement(&run.fire) {
                continue;
            }
            let sent = ctx.local.offers.sent(self.job.id, &run.fire);
            let sent = sent.filter(|sent| sent.to == run.by);
            // A node that cannot be reached is tried again in the next beat (S0-43); once a run has come round to a
            // node that was busy before, it queues there.
            let refused = sent.is_some_and(|sent| sent.state == OfferState::Busy && !sent.is_settled());
            let may_stay = !refused && batch.may_run(ctx, &self.job, &run.by);
            if may_stay && !(spreads && run.due > soon) {
                continue;
            }
            if batch.can_place(ctx, &self.job) {
                let passed = sent.map(|sent| sent.busy.clone()).unwrap_or_default();
                self.placements.push(PendingPlacement {
                    fire: run.fire.clone(),
                    busy: passed,
                    to: PlacementChoice::Better,
                });
            }
        }
    }

    fn skip(&mut self, from: Wall, last: Wall, policy: &MisfirePolicy) {
        let reason = too_old(from, last, policy, self.ctx.now.wall);
        let verdict = self.runs.skipped((from, last), &Attempt::single(), reason);
        // Runs that were planned before and still wait are among them.
        let given_up = |run: &Attempt| matches!(run.fire, Fire::Due(due) if from <= due && due <= last);
        self.draft.runs.retain(|run| run.is_claimed() || run.attempt > 1 || !given_up(run));
        self.draft.watermark = last;
        self.draft.reached = self.draft.reached.max(last);
        self.draft.verdicts.extend(verdict);
        self.set_kind(CommitKind::Skip);
    }

    /// Drops the runs of a disabled or deleted job, except the running ones.
    fn withdraw(&mut self) {
        let (kept, gone): (Vec<_>, Vec<_>) =
            core::mem::take(&mut self.draft.runs).into_iter().partition(Attempt::is_claimed);
        self.draft.runs = kept;
        for run in gone.iter().filter(|run| run.attempt > 1) {
            let verdict = self.runs.not_attempted(run, run.attempt, "its job was disabled or deleted");
            self.draft.verdicts.push(verdict);
        }
        if !gone.is_empty() {
            self.draft.watermark = self.draft.watermark.min(self.draft.reached);
            self.set_kind(CommitKind::Withdraw);
        }
    }

    /// Notes in the assignment of a deleted job that its plan is empty: then the name may get another placement.
    fn retire(&self, out: &mut RuleOutput) {
        if !self.state.planned || !self.draft.runs.is_empty() || !self.draft.verdicts.is_empty() {
            return;
        }
        let place = crate::record::Assignment { planned: false, ..self.job.assignment().next() };
        let key = keys::assignment(self.job.name());
        let guards = self.ctx.born().into_iter().chain([
            self.right.guard.clone(),
            self.job.assignment_guard(),
            self.plan.known.guard(keys::plan(self.job.name())),
        ]);
        let writes = [Write::Put { key, value: encode(&place), owner: None }].into();
        out.commit(
            CommitScope::Job(self.job.id),
            CommitKind::Retire,
            Txn { guards: guards.collect(), writes },
        );
    }

    fn commit(mut self, kind: CommitKind, out: &mut RuleOutput) {
        self.draft.seq += 1;
        self.draft.planner = Some(self.right.planner.clone());
        let key = keys::plan(self.job.name());
        let mut guards: Vec<Guard> = self.ctx.born().into_iter().collect();
        guards.extend([
            self.right.guard.clone(),
            self.plan.known.guard(key.clone()),
            self.job.assignment_guard(),
        ]);
        guards.extend(self.job.calendar_guards());
        guards.append(&mut self.guards);
        let mut writes = Vec::from([Write::Put { key, value: encode(&self.draft), owner: None }]);
        if let (Some(record), Some(known)) = (self.triggers.take(), self.job.triggers()) {
            let key = keys::triggers(self.job.name());
            guards.push(known.guard(key.clone()));
            writes.push(Write::Put { key, value: encode(&record), owner: None });
        }
        // Runs that the view shows count already.
        let known: &[Attempt] = self.plan.known.value.as_ref().map_or(&[], |plan| &plan.runs);
        let placed = |run: &&Attempt| !known.iter().any(|old| old.fire == run.fire && old.by == run.by);
        let terms = self.state.terms.as_deref();
        let placed_run = |run: &Attempt| PlacedRun {
            node: run.by.clone(),
            begin: placement::begin(run),
            length: placement::length(&self.draft, terms, run, self.right),
        };
        out.placing.insert(self.job.id, self.draft.runs.iter().filter(placed).map(placed_run).collect());
        out.commit(CommitScope::Job(self.job.id), kind, Txn { guards, writes });
    }

    /// Offers runs to nodes that do not know of them yet.
    fn offer(&self, out: &mut RuleOutput) {
        let waiting = self.draft.runs.iter().filter(|run| !run.is_claimed() && run.by != *self.ctx.member);
        for run in waiting {
            let sent = self.ctx.local.offers.sent(self.job.id, &run.fire);
            if sent.is_some_and(|sent| sent.to == run.by && !sent.is_open()) {
                continue;
            }
            let must = sent.is_some_and(|sent| sent.busy.contains(&run.by));
            out.add(RuleAction::Offer(self.job.id, self.runs.id(run), run.by.clone(), must));
        }
    }
}
