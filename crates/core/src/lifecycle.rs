//! One life of a run: what any run goes through from its claim to its end, whatever the placement of its job.
//!
//! Each file is one act. An act looks at an [`Attempt`] and says what becomes of it; it knows no
//! placement. A placement (`placement/firing/`) decides which node has which attempts, asks the acts what becomes of them,
//! and writes the answer into its own record.

use crate::ids::{Fire, RunId, Shard};
use crate::record::Attempt;
use crate::rule_context::RuleContext;
use crate::time::{Millis, Wall};
use crate::view::{JobTerms, JobView};

mod attempts;
mod backfill;
mod cancel;
mod claim;
mod finish;
mod overlap;
mod parameters;
pub mod pause;
mod retry;
mod settle;
mod start;
mod verdicts;

pub(crate) use attempts::is_claimed;
pub use attempts::{closed, is_own, stop_orphans};
pub use cancel::{MANUAL, awaits, is_cancelled, is_request, is_unclaimed, taken_back};
pub use claim::free_slots;
pub(crate) use claim::{ClaimSlot, PACE_AGAIN, is_within_pace};
pub(crate) use finish::Ending;
pub(crate) use overlap::time_of;
pub(crate) use parameters::has_parameter_room;
pub(crate) use retry::wait_of;
pub(crate) use start::{StartReadiness, moment};
pub use verdicts::{SHADOW, is_repeated, is_shadow, is_skipped_on_purpose};
pub(crate) use verdicts::{hand_over, is_recorded, missed, no_more, not_attempted, too_old};

/// How long after its moment a claimed fire may start without another commit.
pub(crate) const START_WINDOW: Millis = Millis::secs(1);
/// How many verdicts may wait for history before the job claims no more: what cannot be recorded is not run.
pub(crate) const VERDICTS_MAX: usize = 100;

/// The runs of one job, as this node may decide about them now.
#[derive(Clone, Copy)]
pub(crate) struct JobRuns<'a> {
    pub(crate) ctx: &'a RuleContext<'a>,
    pub(crate) job: JobView<'a>,
    /// The terms of the job; `None` when it is deleted.
    pub(crate) terms: Option<&'a JobTerms>,
}

impl<'a> JobRuns<'a> {
    pub(crate) fn new(ctx: &'a RuleContext<'a>, job: JobView<'a>) -> Self {
        Self { ctx, job, terms: job.job_terms() }
    }

    /// The id of the run of this fire in a shard.
    pub(crate) fn run_id(&self, fire: &Fire, shard: Shard) -> RunId {
        RunId { job: self.job.name().clone(), fire: fire.clone(), shard }
    }

    /// The id of an attempt's run; of several shards, of the first.
    pub(crate) fn id(&self, attempt: &Attempt) -> RunId {
        self.run_id(&attempt.fire, attempt.shards.first().unwrap_or(Shard(0)))
    }

    /// Whether this attempt was given to an executor; of several shards, that of the first.
    pub(crate) fn is_given(&self, attempt: &Attempt) -> bool {
        self.ctx.local.runs.get(self.job.id, &self.id(attempt)).is_some()
    }

    /// Whether the schedule still has the fire of an attempt that is not made yet. A manual run is due until its job is
    /// disabled or deleted.
    pub(crate) fn is_scheduled(&self, attempt: &Attempt) -> bool {
        let Some(terms) = self.terms.filter(|terms| terms.enabled) else { return false };
        let Fire::Due(due) = attempt.fire else { return true };
        let schedule = terms.schedule.as_ref();
        let next = schedule
            .and_then(|schedule| schedule.counted_from(attempt.back.max(terms.since)).next(due - Millis(1)));
        due > terms.since && next == Some(due)
    }

    /// The schedule's first fire after this moment, where the job may fire.
    pub(crate) fn next_due(&self, after: Wall) -> Option<Wall> {
        let terms = self.terms.filter(|terms| terms.enabled && !terms.paused)?;
        terms.schedule.as_ref()?.next(after.max(terms.since))
    }
}
