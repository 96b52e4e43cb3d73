//! Plans the first attempts of fires that are due and of manual runs.

use super::candidates::CandidateNodes;
use super::placement::PlacementChoice;
use super::{AHEAD, PlanWriter, RUNS_MAX};

use crate::commit_kind::CommitKind;
use crate::due;
use crate::ids::Fire;
use crate::lifecycle::{VERDICTS_MAX, has_parameter_room};
use crate::overlap::EffectiveSchedule;
use crate::record::{Attempt, TriggerRecord};
use crate::rule_context::{RuleAction, RuleOutput};
use crate::time::{Millis, Wall};
use crate::view::JobTerms;

/// How many runs a plan may have for one more fire of a backfill to be added: the job's own fires need room.
const BACKFILL_RUNS_MAX: usize = RUNS_MAX / 2;
/// How often the planner looks whether a run of a backfill has ended.
const BACKFILL_LOOK: Millis = Millis::secs(1);

impl PlanWriter<'_> {
    /// Places the manual runs that are not planned yet on the least loaded node (S0-54).
    pub(super) fn plan_triggered(
        &mut self,
        terms: &JobTerms,
        batch: &mut CandidateNodes,
        out: &mut RuleOutput,
    ) {
        let Some(mut record) = self.job.triggers().and_then(|known| known.value.clone()) else { return };
        for request in record.requests.iter_mut().filter(|request| !request.taken) {
            if self.draft.runs.len() >= RUNS_MAX || !has_parameter_room(&self.draft.runs) {
                break;
            }
            if let Some(why) = self.ctx.forgot(terms.delivery, request.at) {
                if self.draft.verdicts.len() >= VERDICTS_MAX {
                    break;
                }
                request.take();
                let fire = Fire::Asked(request.id.clone());
                let at = (request.at, request.at);
                self.draft.verdicts.extend(self.runs.refused(fire, at, &Attempt::single(), why.into()));
                continue;
            }
            if !batch.has_candidate(self.ctx.view, self.job.group()) {
                out.add(RuleAction::JobUnplaced(self.job.id));
                break;
            }
            let parameters = core::mem::take(&mut request.parameters);
            request.take();
            let run = self.first_attempt(Fire::Asked(request.id.clone()), request.at);
            self.want(run.with_parameters(parameters), PlacementChoice::LeastLoaded);
        }
        self.plan_backfills(&mut record, terms, batch, out);
        if self.job.triggers().and_then(|known| known.value.as_ref()) != Some(&record) {
            self.triggers = Some(record);
            self.set_kind(CommitKind::Plan);
        }
    }

    /// Plans as many fires of backfills as may be open at once. No feed says when one of them ends, so the plan is read
    /// again soon while others are to follow.
    fn plan_backfills(
        &mut self,
        record: &mut TriggerRecord,
        terms: &JobTerms,
        batch: &mut CandidateNodes,
        out: &mut RuleOutput,
    ) {
        while record.backfills.iter().any(|backfill| backfill.left() > 0) {
            let is_full = self.draft.runs.len() >= BACKFILL_RUNS_MAX || !has_parameter_room(&self.draft.runs);
            if is_full || self.draft.verdicts.len() >= VERDICTS_MAX {
                return self.reread_soon(out);
            }
            if !batch.has_candidate(self.ctx.view, self.job.group()) {
                return out.add(RuleAction::JobUnplaced(self.job.id));
            }
            let Some(next) = record.take_backfill_fire(&self.draft.runs) else {
                return self.reread_soon(out);
            };
            if let Some(why) = self.ctx.forgot(terms.delivery, next.at) {
                let span = (next.due, next.due);
                let refused = self.runs.refused(next.fire, span, &Attempt::single(), why.into());
                self.draft.verdicts.extend(refused);
                continue;
            }
            let run = self.first_attempt(next.fire, next.due).with_parameters(next.parameters);
            self.want(run, PlacementChoice::LeastLoaded);
        }
    }

    /// Has the plan read again in a moment.
    fn reread_soon(&self, out: &mut RuleOutput) {
        out.add(RuleAction::Reread(self.job.id, self.ctx.now.wall + BACKFILL_LOOK));
    }

    /// Plans every fire up to the horizon; of those that are too old, the ones that the job's catch-up keeps (I0-07).
    pub(super) fn plan_due(&mut self, terms: &JobTerms, batch: &mut CandidateNodes, out: &mut RuleOutput) {
        let Some(schedule) = &terms.schedule else { return };
        let (now, policy) = (self.ctx.now.wall, self.ctx.policy(terms));
        let grace = policy.grace;
        loop {
            let floor = self.draft.watermark.max(terms.since);
            let timetable = EffectiveSchedule { schedule, skipped: &self.draft.passed };
            let next = due::next(&timetable, floor, now, &policy);
            let near = next.due.filter(|due| *due <= self.right.horizon);
            if near.is_none() && next.skipped.is_none() {
                // A beat's horizon stands still, and the next beat looks at every job again.
                if let Some(due) = next.due.filter(|_| self.right.slides) {
                    out.add(RuleAction::JobAt(self.job.id, due - (self.right.horizon - now)));
                }
                return;
            }
            if !self.runs.clock_agrees(out) {
                return;
            }
            if self.draft.runs.len() >= RUNS_MAX || self.draft.verdicts.len() >= VERDICTS_MAX {
                let last = self.draft.runs.iter().map(|run| run.due).max().unwrap_or(now);
                return out.add(RuleAction::JobAt(self.job.id, (last - AHEAD).max(now + Millis::secs(1))));
            }
            if let Some((from, last)) = next.skipped {
                self.skip(from, last, &policy);
            }
            let Some(due) = near else { continue };
            let fire = Fire::Due(due);
            let is_known = self.draft.runs.iter().any(|run| run.fire == fire);
            if !is_known && !self.plan_fire(fire, due, batch) {
                out.add(RuleAction::JobUnplaced(self.job.id));
                // An old one that is kept is replaced by the next one that becomes old, or dropped at its age limit.
                let first = schedule.next((now - grace - Millis(1)).max(floor));
                let looks = first.map(|due| due + grace + Millis(1)).into_iter();
                let looks = looks.chain(next.until.filter(|until| *until > now));
                let looks = looks.chain(schedule.next(due.max(now)).filter(|_| policy.newest));
                return out.actions.extend(looks.map(|at| RuleAction::JobAt(self.job.id, at)));
            }
            self.draft.watermark = due;
            self.set_kind(CommitKind::Plan);
        }
    }

    /// Plans a fire, if there is a node for it. One that was planned already stays where it is.
    pub(super) fn plan_fire(&mut self, fire: Fire, due: Wall, batch: &mut CandidateNodes) -> bool {
        if let Some(old) = self.anew.iter().find(|run| run.fire == fire)
            && batch.may_run(self.ctx, &self.job, &old.by)
        {
            let (by, choice) = (old.by.clone(), old.choice.clone());
            self.draft.runs.push(Attempt { choice, ..Attempt::first(fire, due, by) });
            return true;
        }
        let can = batch.can_place(self.ctx, &self.job);
        if can {
            self.want(self.first_attempt(fire, due), PlacementChoice::MostSlots);
        }
        can
    }

    /// The first attempt of a fire, which belongs to this node until it is placed on another one.
    pub(super) fn first_attempt(&self, fire: Fire, due: Wall) -> Attempt {
        Attempt::first(fire, due, self.ctx.member.clone())
    }
}
