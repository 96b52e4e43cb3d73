//! Room for one more run: the overlap limit, a slot on this node, the pace of the registry, and a permit of its pool.

use super::ClaimedRuns;
use crate::ids::RunId;
use crate::job::Spec;
use crate::local::Local;
use crate::record::Open;
use crate::rule_context::{RuleAction, RuleContext, RuleOutput};
use crate::rules::pools;
use crate::time::{Millis, Wall};
use crate::view::{JobId, View};

/// When to look again at a fire whose confirmation had to wait.
pub(super) const PACE_AGAIN: Millis = Millis(100);

/// Whether one more claim or confirmation of fires may go out in this step.
pub(super) fn is_within_pace(local: &Local, out: &RuleOutput) -> bool {
    local.pace_left() > out.paced
}

/// Whether the job's pool, if it is in one, has a permit for this run; if not, the job is looked at when it may have
/// one. A deleted job is in no pool.
pub(super) fn is_admitted(
    ctx: &RuleContext<'_>,
    id: JobId,
    (spec, run, due): (Option<&Spec>, &RunId, Wall),
    out: &mut RuleOutput,
) -> bool {
    let Some(spec) = spec else { return true };
    !pools::admitted(ctx, (id, &spec.job), due, [run.clone()].into(), out).is_empty()
}

/// How many more runs this node may take on. A claimed job takes its slot when its fire is claimed, a shard when it
/// starts; but shards that have to be confirmed first would lose theirs to others each time, so one is kept for them. A
/// run that waits for a permit of its pool takes none, and gets both at once.
#[must_use]
pub fn free_slots(view: &View, local: &Local) -> usize {
    let open = view.open_count().saturating_sub(view.awaiting_permit());
    let taken = open + local.acts.claims() + local.shards_running;
    (local.settings.slots as usize).saturating_sub(taken)
}

impl ClaimedRuns<'_> {
    /// Whether another fire may be open beside the open ones. Of several only the last may be unstarted: no watermark
    /// could be taken back for one before it.
    pub(super) fn has_room(&self, beside: &[Open]) -> bool {
        let is_begun = |open: &Open| open.wait.is_some() || self.given_to(open).is_some();
        beside.is_empty() || (beside.len() < self.job.max_concurrent_runs() && beside.iter().all(is_begun))
    }

    /// Whether one more run fits; if not, the job is looked at when one ends.
    pub(super) fn has_slot(&self, due: Wall, out: &mut RuleOutput) -> bool {
        let free =
            free_slots(self.ctx.view, self.ctx.local) > out.claimed && is_within_pace(self.ctx.local, out);
        if !free {
            out.add(RuleAction::JobAwaitsSlot(self.job.id, due));
        }
        free
    }
}
