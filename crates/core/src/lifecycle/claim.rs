//! Claiming: whether a job may claim one more run, and whether the node has room for it.

use alloc::vec::Vec;

use super::{JobRuns, VERDICTS_MAX};
use crate::cluster::pools;
use crate::commit_kind::CommitKind;
use crate::effect::{Event, Verdict};
use crate::ids::RunId;
use crate::job::Job;
use crate::local::Local;
use crate::rule_context::{RuleAction, RuleOutput};
use crate::time::{Millis, Wall};
use crate::view::View;

/// When to look again at a fire whose confirmation had to wait.
pub(crate) const PACE_AGAIN: Millis = Millis(100);

/// Whether one more claim or confirmation of fires may go out in this step.
pub(crate) fn is_within_pace(local: &Local, out: &RuleOutput) -> bool {
    local.commits.pace_left() > out.paced
}

/// The slot that a claimed job's next fire may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClaimSlot {
    /// A free slot.
    Free,
    /// The slot of the run that ends with the same commit.
    OfEndedRun,
}

/// How many more runs this node may take on. A claimed job takes its slot when its fire is claimed, a shard when it
/// starts; but shards that have to be confirmed first would lose theirs to others each time, so one is kept for them. A
/// run that waits for permits takes none, and gets both at once.
#[must_use]
pub fn free_slots(view: &View, local: &Local) -> usize {
    (local.settings.slots as usize).saturating_sub(taken_slots(view, local))
}

/// How many slots are taken. The run that a pending commit ends counts until the commit is answered. A run that started
/// before its job, or its namespace, had a limit has no permit, and yet its slot: so no fewer than execute.
fn taken_slots(view: &View, local: &Local) -> usize {
    let open = view.open_count().saturating_sub(view.awaiting_permit()).max(local.runs.executing_others());
    open + local.commits.claims() + local.runs.executing_shards()
}

impl JobRuns<'_> {
    /// Whether the job claims fires at all: what cannot be recorded is not run.
    pub(crate) fn may_claim(&self, verdicts: &[Verdict]) -> bool {
        self.terms.is_some_and(|terms| terms.enabled) && verdicts.len() < VERDICTS_MAX
    }

    /// Whether one more run fits; if not, the job is looked at when one ends.
    pub(crate) fn has_slot(&self, due: Wall, out: &mut RuleOutput) -> bool {
        self.claim_kind(ClaimSlot::Free, due, out).is_some()
    }

    /// The kind of commit that claims a fire, due then, of a claimed job, if it gets a slot; if not, the job is looked
    /// at when a run ends. A run that ends leaves its slot to the next fire of its job, so that one commit does both;
    /// but not where another job waits for a slot, or where the node has more runs than slots.
    pub(crate) fn claim_kind(
        &self,
        offered: ClaimSlot,
        due: Wall,
        out: &mut RuleOutput,
    ) -> Option<CommitKind> {
        let local = self.ctx.local;
        let taken = taken_slots(self.ctx.view, local) + out.claimed;
        let slots = local.settings.slots as usize;
        let reuses = offered == ClaimSlot::OfEndedRun && taken <= slots && local.slot_waiters.is_empty();
        let kind = match reuses {
            true => Some(CommitKind::FinishAndClaim),
            false => (taken < slots).then_some(CommitKind::ClaimFire),
        };
        let kind = kind.filter(|_| is_within_pace(local, out));
        if kind.is_none() {
            out.add(self.ctx.awaits_slot(&self.job, due));
        }
        kind
    }

    /// Those of these runs that have permits of all limits that the job counts in; for the others the job is looked at
    /// when it may have one. A deleted job (`None`) is in no pool.
    pub(crate) fn admitted(
        &self,
        job: Option<&Job>,
        runs: Vec<RunId>,
        due: Wall,
        out: &mut RuleOutput,
    ) -> Vec<RunId> {
        match job {
            Some(job) => pools::admitted(self.ctx, (self.job.id, job), due, runs, out),
            None => runs,
        }
    }

    /// The most by which the clocks may differ while the job claims fires (S2-25).
    fn max_clock_skew(&self) -> Millis {
        let own = self.ctx.local.settings.max_clock_skew;
        let job = self.terms.and_then(|terms| terms.shards.as_ref()?.max_clock_skew);
        job.map_or(own, |job| job.min(own))
    }

    /// Whether the clocks agree as well as the job demands (S2-25, law 6).
    pub(crate) fn knows_time(&self) -> bool {
        let difference = self.ctx.local.lease.difference(self.ctx.now);
        difference.is_none_or(|by| by <= self.max_clock_skew())
    }

    /// The same; if they do not agree, the job is looked at when they do.
    pub(crate) fn clock_agrees(&self, out: &mut RuleOutput) -> bool {
        let agrees = self.knows_time();
        if !agrees {
            out.add(RuleAction::Announce(Event::ClockDiffers(self.max_clock_skew())));
            out.add(RuleAction::JobAwaitsTrust(self.job.id));
        }
        agrees
    }

    /// Whether the lease is trusted until this moment; if not, the job is looked at when it is. The lease is renewed long
    /// before; until then it would be unsure whether the fire can be started.
    pub(crate) fn trusts_until(&self, from: Wall, out: &mut RuleOutput) -> bool {
        let now = self.ctx.now;
        let trusted = now.mono + (from - now.wall) < self.ctx.lease.until();
        if !trusted {
            out.add(RuleAction::JobAwaitsTrust(self.job.id));
        }
        trusted
    }
}
