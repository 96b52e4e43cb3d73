//! Backfills: the request, which fixes the fires to run, and the end. The rules of firing claim one after the
//! other, each in a commit that also writes the entry that is written here.

use alloc::boxed::Box;
use alloc::format;

use super::decision::{ItemDecision, answer, no_job, refuse};
use crate::backfill::BackfillPlan;
use crate::commit_kind::CommitKind;
use crate::ids::{Fire, JobName, RequestId};
use crate::input::{Answer, BackfillOptions, Refusal};
use crate::keys;
use crate::record::{BACKFILLS_MAX, Backfill, TriggerRecord, encode};
use crate::registry::{Guard, Txn, Write};
use crate::rule_context::RuleContext;
use crate::view::JobView;

/// Requests a backfill. One with this id is the same one, whatever its span.
pub(super) fn request(
    ctx: &RuleContext<'_>,
    name: &JobName,
    id: &RequestId,
    options: &BackfillOptions,
) -> ItemDecision {
    let Some(job) = ctx.view.find(name) else { return no_job(name) };
    let Some(spec) = job.spec() else { return no_job(name) };
    let mut record = record_of(&job);
    if let Some(known) = record.backfills.iter().find(|known| known.id == *id) {
        return answer(Answer::Backfill(Box::new(known.clone())));
    }
    if !job.is_enabled() {
        return refuse(Refusal::Conflict, format!("job {name} is disabled: enable it first"));
    }
    let schedule = ctx.view.schedule_of(&spec.job);
    let plan = match BackfillPlan::of(&spec.job, schedule.as_ref(), id, options, ctx.now.wall) {
        Ok(plan) => plan,
        Err((kind, text)) => return refuse(kind, text),
    };
    let BackfillPlan { dues, max_parallel, parameters, warnings: _ } = plan;
    let new = Backfill {
        id: id.clone(),
        at: ctx.moment(),
        dues,
        next: 0,
        max_parallel,
        parameters,
        cancelled: None,
    };
    // Two runs must not have one name.
    let is_taken = |fire: &Fire| new.position(fire).is_some() || record.backfill_of(fire).is_some();
    let taken = record.requests.iter().any(|request| is_taken(&Fire::Asked(request.id.clone())));
    let twice =
        new.dues.iter().filter_map(|due| new.fire_of(*due)).any(|fire| record.backfill_of(&fire).is_some());
    if taken || twice {
        return refuse(
            Refusal::Conflict,
            format!("runs of job {name} have ids that begin with {id}: use another id"),
        );
    }
    if record.backfills.len() >= BACKFILLS_MAX {
        let Some(over) = record.backfills.iter().position(|known| known.left() == 0) else {
            let text = format!("{BACKFILLS_MAX} backfills of job {name} go on already: wait for one to end");
            return refuse(Refusal::Conflict, text);
        };
        record.backfills.remove(over);
    }
    record.backfills.push(new);
    let (guard, write) = written(&job, &record);
    let guards = [guard, job.spec_guard()].into_iter().chain(job.calendar_guards());
    ItemDecision::Commit(CommitKind::Backfill, Txn { guards: guards.collect(), writes: [write].into() })
}

/// Ends a backfill. One that is over already is left as it is.
pub(super) fn cancel(ctx: &RuleContext<'_>, name: &JobName, id: &RequestId) -> ItemDecision {
    let Some(job) = ctx.view.find(name) else { return no_job(name) };
    let mut record = record_of(&job);
    let Some(known) = record.backfills.iter_mut().find(|known| known.id == *id) else {
        let text = format!("job {name} has no backfill {id}: it has ended long ago, or has another id");
        return refuse(Refusal::NotFound, text);
    };
    if known.left() == 0 {
        return answer(Answer::Backfill(Box::new(known.clone())));
    }
    known.cancel(ctx.now.wall);
    let (guard, write) = written(&job, &record);
    let txn = Txn { guards: [guard, job.spec_guard()].into(), writes: [write].into() };
    ItemDecision::Commit(CommitKind::CancelBackfill, txn)
}

/// What ends all backfills of a job that is disabled or deleted; `None` where none goes on.
pub(super) fn ended(ctx: &RuleContext<'_>, job: &JobView<'_>) -> Option<(Guard, Write)> {
    let mut record = record_of(job);
    if record.backfills.iter().all(|backfill| backfill.left() == 0) {
        return None;
    }
    record.backfills.iter_mut().for_each(|backfill| backfill.cancel(ctx.now.wall));
    Some(written(job, &record))
}

fn record_of(job: &JobView<'_>) -> TriggerRecord {
    job.triggers().and_then(|known| known.value.clone()).unwrap_or_default()
}

/// The entry of triggers as it is to be, if it is as it is known.
fn written(job: &JobView<'_>, record: &TriggerRecord) -> (Guard, Write) {
    let key = keys::triggers(job.name());
    let guard = job.triggers().cloned().unwrap_or_default().guard(key.clone());
    (guard, Write::Put { key, value: encode(record), owner: None })
}
