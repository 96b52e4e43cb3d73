//! Backfills of a job: those that the registry has, and what one would be.

use evenkeel::Handle;
use evenkeel_core::backfill::BackfillPlan;
use evenkeel_core::ids::{JobName, RequestId};
use evenkeel_core::input::{BackfillOptions, Refusal};
use evenkeel_core::record::Backfill;
use evenkeel_core::time::Wall;

/// The backfill of this id, if the registry has it.
pub(crate) fn backfill(handle: &Handle, name: &JobName, id: &RequestId) -> Option<Backfill> {
    handle.with_node(|node| {
        let job = node.view().find(name)?;
        job.triggers()?.value.as_ref()?.backfills.iter().find(|known| known.id == *id).cloned()
    })
}

/// What a backfill of a job would be, or why there can be none; `None` if there is no such job.
pub(crate) fn backfill_plan(
    handle: &Handle,
    name: &JobName,
    id: &RequestId,
    options: &BackfillOptions,
    now: Wall,
) -> Option<Result<BackfillPlan, (Refusal, String)>> {
    let (job, calendars) = handle.with_node(|node| {
        let job = node.view().find(name)?.spec()?.job;
        let calendars = node.view().calendars_of(&job);
        Some((job, calendars))
    })?;
    let schedule = job.schedule_with_calendars(calendars.as_ref());
    Some(BackfillPlan::of(&job, schedule.as_ref(), id, options, now))
}
