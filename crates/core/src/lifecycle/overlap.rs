//! Overlap: a run that executes, or waits for its next attempt, while further fires of its job come due. Where the job
//! replaces runs, the next fire takes its place.

use super::{JobRuns, START_WINDOW};
use crate::effect::StopReason;
use crate::ids::Fire;
use crate::job::Overlap;
use crate::local::Given;
use crate::record::Attempt;
use crate::rule_context::{RuleAction, RuleContext, RuleOutput};
use crate::time::{Mono, Wall};

/// The wall-clock time at a moment of our own clock, up to which fires have come due; `None` when it is unknown.
pub(crate) fn time_of(ctx: &RuleContext<'_>, moment: Mono) -> Option<Wall> {
    let agrees = ctx.clock_agrees().then_some(ctx.now.wall);
    let now = agrees.or_else(|| ctx.local.lease.registry_time(ctx.now))?;
    Some(now - (ctx.now.mono - moment))
}

/// The moment after which the next fire replaces a run. A manual run may first start late before it is replaced.
fn last_before(attempt: &Attempt) -> Wall {
    match attempt.fire {
        Fire::Due(due) => due,
        Fire::Asked(_) => attempt.from.unwrap_or(attempt.due) + START_WINDOW,
    }
}

impl JobRuns<'_> {
    /// The fire after the attempt's, and after `floor`, that replaces it; `None` where the job does not replace runs.
    fn replacement(&self, attempt: &Attempt, floor: Wall) -> Option<Wall> {
        self.terms.filter(|terms| terms.misfire().overlap == Overlap::Replace)?;
        self.ctx.clock_agrees().then(|| self.next_due(last_before(attempt).max(floor)))?
    }

    /// Whether a fire after the attempt's, and after `floor`, replaces it by now; if one may later, the job is looked at
    /// then.
    pub(crate) fn is_replaced(&self, attempt: &Attempt, floor: Wall, out: &mut RuleOutput) -> bool {
        match self.replacement(attempt, floor) {
            Some(due) if due <= self.ctx.now.wall => true,
            Some(due) => {
                out.add(RuleAction::JobAt(self.job.id, due));
                false
            }
            None => false,
        }
    }

    /// Ends a running attempt that a later fire replaces.
    pub(crate) fn give_way(&self, attempt: &Attempt, given: &Given, floor: Wall, out: &mut RuleOutput) {
        if self.is_replaced(attempt, floor, out) {
            out.add(RuleAction::Stop(self.job.id, given.run.clone(), StopReason::Replaced));
        }
    }
}
