//! Overdue runs: due runs whose nodes have no slot for them. A node that has a slot takes them.

use crate::lifecycle::{free_slots, moment};
use crate::record::Attempt;
use crate::rule_context::{RuleContext, RuleOutput};
use crate::time::Wall;
use crate::view::JobId;

/// Whether to read the plan because another node had no slot for one of its runs and this node has one. If this node
/// has none either, it looks at the job again when a slot becomes free.
pub(super) fn must_read_overdue(ctx: &RuleContext<'_>, id: JobId, out: &mut RuleOutput) -> bool {
    let unread = ctx.local.offers.unread_overdue(id);
    let due = unread.map(|fire| moment(fire, ctx.now.wall, ctx.now.wall)).min();
    // While a read is in flight or is to be repeated, the old copy decides nothing, even if another run takes the slot.
    let is_read = ctx.local.reads.is_reading(id) || ctx.local.checks.is_put_off(id);
    let reads = is_read || free_slots(ctx.view, ctx.local) > out.claimed;
    if let Some(due) = due.filter(|_| !reads) {
        out.add(ctx.awaits_slot(&ctx.job(id), due));
    }
    due.is_some() && reads
}

/// From when on this node takes a run planned for another one, which had no slot for it; `None` where it does not.
pub(super) fn takes_over(ctx: &RuleContext<'_>, id: JobId, run: &Attempt) -> Option<Wall> {
    if run.by == *ctx.member || run.is_claimed() || !ctx.local.offers.is_overdue(id, &run.fire) {
        return None;
    }
    let now = ctx.now.wall;
    let waits = run.wait.and_then(|wait| wait.left(now));
    Some(waits.unwrap_or_else(|| moment(&run.fire, run.due, now)))
}

/// Whether a run belongs to this node, or may come to it.
pub(super) fn may_accept(ctx: &RuleContext<'_>, id: JobId, run: &Attempt) -> bool {
    run.by == *ctx.member || takes_over(ctx, id, run).is_some_and(|from| from <= ctx.now.wall)
}
