//! Claiming: one commit moves the watermark past a fire and names the node that runs it.

use super::ClaimedRuns;
use crate::commit_kind::CommitKind;
use crate::due;
use crate::ids::Fire;
use crate::lifecycle::{ClaimSlot, has_parameter_room, too_old};
use crate::overlap::EffectiveSchedule;
use crate::record::{Attempt, RequestedFire, RunState, TriggerRecord};
use crate::rule_context::RuleOutput;
use crate::time::Wall;
use crate::view::JobTerms;

impl ClaimedRuns<'_> {
    /// Claims the next fire in the slot that is offered, or in a free one, or schedules the next look for when that may
    /// be done. Returns whether it claimed.
    pub(super) fn claim(&self, run_state: &RunState, slot: ClaimSlot, out: &mut RuleOutput) -> bool {
        let Some(terms) = self.runs.terms else { return false };
        if !self.ctx().takes(&self.runs.job)
            || !self.runs.may_claim(&run_state.verdicts)
            || !self.has_room(&run_state.open)
        {
            return false;
        }
        self.claim_triggered(run_state, slot, out)
            || (self.runs.may_claim_due(run_state.failures) && self.claim_due(terms, run_state, slot, out))
            || self.claim_backfill(run_state, slot, out)
    }

    /// The oldest trigger that has no run yet.
    fn claim_triggered(&self, run_state: &RunState, slot: ClaimSlot, out: &mut RuleOutput) -> bool {
        let Some(record) = self.runs.job.triggers().and_then(|known| known.value.as_ref()) else {
            return false;
        };
        let Some(index) = record.requests.iter().position(|r| !r.taken) else { return false };
        let mut record = record.clone();
        let request = &mut record.requests[index];
        let (fire, at) = (Fire::Asked(request.id.clone()), request.at);
        let next = RequestedFire { fire, due: at, at, parameters: core::mem::take(&mut request.parameters) };
        request.take();
        self.claim_requested(next, record, run_state, slot, out)
    }

    /// The next fire of a backfill. The job's own fires go first, so a backfill holds each up for one run at most.
    fn claim_backfill(&self, run_state: &RunState, slot: ClaimSlot, out: &mut RuleOutput) -> bool {
        let Some(known) = self.runs.job.triggers().and_then(|known| known.value.as_ref()) else {
            return false;
        };
        if known.backfills.iter().all(|backfill| backfill.left() == 0) {
            return false;
        }
        let mut record = known.clone();
        let Some(next) = record.take_backfill_fire(&run_state.open) else { return false };
        if !has_parameter_room(&run_state.open) {
            return false;
        }
        self.claim_requested(next, record, run_state, slot, out)
    }

    /// Claims a requested fire in the commit that writes this record, in which it is taken. One that is too old for the
    /// delivery of the job gets a verdict in the same way.
    fn claim_requested(
        &self,
        next: RequestedFire,
        record: TriggerRecord,
        run_state: &RunState,
        slot: ClaimSlot,
        out: &mut RuleOutput,
    ) -> bool {
        let forgot = self.runs.terms.and_then(|terms| self.ctx().forgot(terms.delivery, next.at));
        if let Some(why) = forgot {
            let mut run_state = RunState { seq: run_state.seq + 1, ..run_state.clone() };
            let span = (next.due, next.due);
            run_state.verdicts.extend(self.runs.refused(next.fire, span, &Attempt::single(), why.into()));
            self.commit_with(CommitKind::Refuse, run_state, Some(record), out);
            return true;
        }
        let Some(kind) = self.runs.claim_kind(slot, next.at, out) else { return false };
        let moments = (next.due, self.ctx().now.wall);
        let mut run_state = self.opened(run_state, next.fire, moments, run_state.watermark);
        run_state.open.last_mut().into_iter().for_each(|open| open.parameters.clone_from(&next.parameters));
        self.commit_with(kind, run_state, Some(record), out);
        out.claim(self.ctx().view, self.runs.job.id, kind);
        true
    }

    fn claim_due(
        &self,
        terms: &JobTerms,
        run_state: &RunState,
        slot: ClaimSlot,
        out: &mut RuleOutput,
    ) -> bool {
        let Some(schedule) = &terms.schedule else { return false };
        let now = self.ctx().now;
        let policy = self.ctx().policy(terms);
        let floor = run_state.watermark.max(terms.since);
        let schedule = &*schedule.counted_from(floor);
        let next =
            due::next(&EffectiveSchedule { schedule, skipped: &run_state.passed }, floor, now.wall, &policy);
        let near = next.from.is_some_and(|from| self.ctx().may_claim_before(from));
        if next.skipped.is_none() && !near {
            if let Some(from) = next.from {
                self.ctx().looks_before_fire(self.runs.job.id, from, next.until, out);
            }
            return false;
        }
        if !self.runs.clock_agrees(out) {
            return false;
        }
        let without = next.skipped.map(|(from, last)| {
            let mut run_state = RunState { watermark: last, seq: run_state.seq + 1, ..run_state.clone() };
            let reason = too_old(from, last, &policy, now.wall);
            run_state.verdicts.extend(self.runs.skipped((from, last), &Attempt::single(), reason));
            run_state
        });
        let run_state = without.as_ref().unwrap_or(run_state);
        match next.due.zip(next.from).filter(|_| near) {
            Some((due, from)) => {
                if !self.runs.trusts_until(from, out) {
                    return false;
                }
                let Some(kind) = self.runs.claim_kind(slot, due, out) else { return false };
                let run_state = self.opened(run_state, Fire::Due(due), (due, from), due);
                self.commit(kind, run_state, out);
                out.claim(self.ctx().view, self.runs.job.id, kind);
            }
            None => self.commit(CommitKind::Skip, run_state.clone(), out),
        }
        true
    }

    fn opened(
        &self,
        run_state: &RunState,
        fire: Fire,
        (due, from): (Wall, Wall),
        watermark: Wall,
    ) -> RunState {
        // A job that was sharded in an earlier life continues from its tokens.
        let seq =
            run_state.seq.max(self.runs.job.sharding().map_or(0, |sharding| sharding.shard_map.seq)) + 1;
        let open = Attempt {
            from: Some(from.max(self.ctx().now.wall)),
            seq,
            back: run_state.watermark,
            ..Attempt::first(fire, due, self.ctx().member.clone())
        };
        let mut run_state = RunState { watermark, seq, ..run_state.clone() };
        run_state.open.push(open);
        run_state
    }
}
