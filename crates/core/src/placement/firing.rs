//! Firing: each placement claims the fires that are its node's a little ahead, starts them on time, and closes them when
//! they end. What becomes of a run is decided in [`lifecycle`], the same for all placements; a
//! placement decides whose the run is, and writes the record.

use crate::lifecycle;
use crate::local::CommitScope;
use crate::rule_context::{RuleContext, RuleOutput};
use crate::time::Wall;
use crate::view::JobId;

mod claimed;
mod dispatched;
mod sharded;

pub use sharded::gather_delay;

/// Whether a job that waits for a slot, for a start that is due then, only waits on when it fires again: nothing else is to
/// be decided then.
pub fn only_waits(ctx: &RuleContext<'_>, id: JobId, due: Wall) -> bool {
    let job = ctx.job(id);
    !job.is_sharded() && !job.is_dispatched() && claimed::only_waits(ctx, &job, due)
}

/// Looks at one job.
pub fn decide(ctx: &RuleContext<'_>, id: JobId, out: &mut RuleOutput) {
    let job = ctx.job(id);
    lifecycle::stop_orphans(ctx, &job, out);
    if ctx.me.is_none() || !job.is_consistent() || !ctx.is_idle(&CommitScope::Job(id)) {
        return;
    }
    if job.is_sharded() {
        sharded::decide(ctx, &job, out);
    } else if job.is_dispatched() {
        dispatched::decide(ctx, &job, out);
    } else {
        claimed::decide(ctx, &job, out);
    }
}
