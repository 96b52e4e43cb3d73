//! Starts, cancels and confirms the planned runs that this node accepted.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::DispatchedRuns;
use crate::commit_kind::CommitKind;
use crate::effect::Run;
use crate::ids::Shard;
use crate::lifecycle::{PACE_AGAIN, StartReadiness, is_within_pace};
use crate::local::CommitScope;
use crate::overlap::SUPERSEDED;
use crate::record::{Attempt, Plan, PlannerKind};
use crate::rule_context::{RuleAction, RuleOutput};
use crate::time::Wall;

impl DispatchedRuns<'_> {
    /// Starts accepted runs within a second of their moment; later ones are confirmed first.
    pub(super) fn start_all(&self, out: &mut RuleOutput) {
        let (local, job) = (self.ctx().local, self.runs.job);
        if local.checks.is_put_off(job.id) {
            return;
        }
        let mut going = local.runs.of_job(job.id).count();
        for run in self.own_runs().filter(|run| run.is_claimed() && !self.runs.is_given(run)) {
            let before = out.actions.len();
            if going < job.max_concurrent_runs() {
                self.start(run, out);
            }
            if out.commits_since(before, &CommitScope::Job(job.id)) {
                return;
            }
            going += out.starts_since(before);
        }
    }

    fn start(&self, run: &Attempt, out: &mut RuleOutput) {
        if self.runs.is_replaced(run, Wall::MIN, out) {
            return self.replace(run, out);
        }
        let readiness = self.runs.readiness(run, out);
        if readiness == StartReadiness::NotYet {
            return;
        }
        let (spec, id) = (self.runs.job.spec(), self.runs.id(run));
        let declared = spec.as_ref().map(|spec| &spec.job);
        if self.runs.admitted(declared, [id].into(), self.runs.wanted_since(run), out).is_empty() {
            return;
        }
        let StartReadiness::Start(not_after) = readiness else { return self.confirm(run, out) };
        if let Some(declared) = declared {
            let started = self.runs.run(run, Shard(0), declared, not_after);
            let parts = [self.sent(run), started.sent.clone()].into_iter().filter(|part| !part.is_empty());
            let sent = parts.collect::<Vec<_>>().join("; ");
            out.add(RuleAction::Start(self.runs.job.id, Run { sent, ..started }));
        }
    }

    /// The planner of a run, and why it chose this node: the plan forgets both when the run is over.
    fn sent(&self, run: &Attempt) -> String {
        let Some(planner) = &self.draft.planner else { return String::new() };
        let right = match self.ctx().view.settings().planner {
            PlannerKind::Beat => "in beat",
            PlannerKind::Leader => "by epoch",
        };
        let planned = format!("planned by {} {right} {}", planner.member, planner.number);
        format!("{planned}: {}", run.why_chosen())
    }

    /// Removes an accepted run that has not started from the plan, in favour of a later fire.
    fn replace(&self, run: &Attempt, out: &mut RuleOutput) {
        let mut writer = self.with(self.draft.clone());
        writer.draft.runs.retain(|other| other.fire != run.fire);
        writer.give_up(run, SUPERSEDED);
        writer.commit(CommitKind::GiveUp, out);
    }

    /// Moves the start window of an accepted run that is too old to start from (law 2).
    fn confirm(&self, run: &Attempt, out: &mut RuleOutput) {
        if !is_within_pace(self.ctx().local, out) {
            let again = self.ctx().now.mono + PACE_AGAIN;
            return out.add(RuleAction::JobAfter(self.runs.job.id, again));
        }
        let mut draft = self.draft.clone();
        if let Some(mine) = draft.runs.iter_mut().find(|other| other.fire == run.fire) {
            *mine = self.runs.confirmed(run, run.seq);
        }
        self.with(draft).commit(CommitKind::Confirm, out);
    }

    /// A writer of another next version of the same plan.
    fn with(&self, draft: Plan) -> Self {
        Self { runs: self.runs, plan: self.plan, draft, kind: None, next: None }
    }
}
