//! Command items that switch a job, or some of its shards, on all nodes, or delete it.

use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;

use super::{
    ItemDecision, NamespaceWrites, answer, calendars, misplaced, namespaces, no_job, nodes, refuse, rewrite,
};
use crate::commit_kind::CommitKind;
use crate::ids::JobName;
use crate::input::{Answer, Refusal};
use crate::job::{Spec, SwitchOrigin, SwitchPosition};
use crate::record::SpecRecord;
use crate::registry::{Guard, Revision};
use crate::rule_context::RuleContext;
use crate::shards::ShardSet;

/// Pauses a job, or resumes its schedule from now on.
pub(super) fn pause(ctx: &RuleContext<'_>, name: &JobName, on: bool, origin: SwitchOrigin) -> ItemDecision {
    change(ctx, name, CommitKind::PauseOrResume, |spec| {
        if spec.paused == on {
            // Another switch may keep the job from firing all the same.
            return Err(if on || spec.job.enabled {
                answer(Answer::Done)
            } else {
                refuse(
                    Refusal::Conflict,
                    format!(
                        "job {name} is not paused but disabled: enable it with `evenkeel job enable {name}`"
                    ),
                )
            });
        }
        spec.paused = on;
        spec.operator.paused = on.then_some(origin);
        spec.since = if on { spec.since } else { ctx.now.wall };
        Ok(())
    })
}

/// Enables a job from now on, or disables it.
pub(super) fn enable(ctx: &RuleContext<'_>, name: &JobName, on: bool, origin: SwitchOrigin) -> ItemDecision {
    change(ctx, name, CommitKind::EnableOrDisable, |spec| {
        if spec.job.enabled == on {
            return Err(if !on || !spec.paused {
                answer(Answer::Done)
            } else {
                refuse(
                    Refusal::Conflict,
                    format!(
                        "job {name} is not disabled but paused: resume it with `evenkeel job resume {name}`"
                    ),
                )
            });
        }
        if on {
            namespaces::may_enable(ctx, &spec.job)?;
        }
        spec.switch_enabled(if on { SwitchPosition::On } else { SwitchPosition::Off }, origin);
        spec.since = if on { ctx.now.wall } else { spec.since };
        Ok(())
    })
}

/// Enables or disables some shards of a job.
pub(super) fn enable_shards(
    ctx: &RuleContext<'_>,
    name: &JobName,
    (shards, on): (&ShardSet, bool),
    origin: SwitchOrigin,
) -> ItemDecision {
    change(ctx, name, CommitKind::SwitchShards, |spec| {
        if let Some(text) = nodes::wrong_shards(&spec.job, shards) {
            return Err(refuse(Refusal::Invalid, text));
        }
        let off = if on { spec.off.minus(shards) } else { spec.off.or(shards) };
        if off == spec.off {
            return Err(answer(Answer::Done));
        }
        spec.operator.off = (!off.is_empty()).then_some(origin);
        spec.off = off;
        Ok(())
    })
}

/// Deletes a job, also one whose entry has no valid seal.
pub(super) fn delete(ctx: &RuleContext<'_>, name: &JobName) -> ItemDecision {
    let Some(job) = ctx.view.id(name).map(|id| ctx.job(id)) else { return no_job(name) };
    let version = match job.spec_record() {
        Some(SpecRecord::Live(spec) | SpecRecord::Unsealed(spec)) => spec.version,
        Some(SpecRecord::Deleted { .. }) | None => return no_job(name),
    };
    let record = SpecRecord::Deleted { version: version.saturating_add(1) };
    ItemDecision::Commit(CommitKind::DeleteJob, rewrite(ctx, name, Some(job), &record))
}

/// Makes a job of an entry without a valid seal, as it was last written at this revision.
pub(super) fn accept(
    ctx: &RuleContext<'_>,
    name: &JobName,
    read_at: Revision,
    writes: &mut NamespaceWrites,
) -> ItemDecision {
    let Some(job) = ctx.view.id(name).map(|id| ctx.job(id)) else { return no_job(name) };
    let mut spec = match job.spec_record() {
        Some(SpecRecord::Unsealed(spec)) => spec,
        Some(SpecRecord::Live(_)) => return answer(Answer::Unchanged),
        Some(SpecRecord::Deleted { .. }) | None => return no_job(name),
    };
    if !job.has_spec_of(read_at) {
        let text = format!("job {name} was written again since you looked at it: look at it once more");
        return refuse(Refusal::Conflict, text);
    }
    spec.version = spec.version.saturating_add(1);
    // It may name another job than its key.
    if spec.job.name != *name {
        let text = format!("the entry of job {name} declares job {}: delete it", spec.job.name);
        return refuse(Refusal::Conflict, text);
    }
    if let Some(text) = misplaced(Some(&job), None, &spec.job).or_else(|| calendars::missing(ctx, &spec.job))
    {
        return refuse(Refusal::Conflict, text);
    }
    let pass = match namespaces::admit_job(ctx, None, (&spec.job, spec.version), writes) {
        Ok(pass) => pass,
        Err(decided) => return decided,
    };
    let calendars: Vec<Guard> = spec.job.calendars().map(|name| ctx.view.calendar_guard(name)).collect();
    let mut txn = rewrite(ctx, name, Some(job), &SpecRecord::Live(spec));
    txn.guards.extend(calendars.into_iter().chain(pass.guards));
    txn.writes.extend(pass.writes);
    ItemDecision::Commit(CommitKind::CreateJob, txn)
}

/// Writes the next version of a job's spec, with an edit that may decide otherwise.
fn change(
    ctx: &RuleContext<'_>,
    name: &JobName,
    kind: CommitKind,
    edit: impl FnOnce(&mut Spec) -> Result<(), ItemDecision>,
) -> ItemDecision {
    let Some(job) = ctx.view.find(name) else { return no_job(name) };
    let Some(mut spec) = job.spec() else { return no_job(name) };
    spec.version += 1;
    match edit(&mut spec) {
        Ok(()) => {
            let record = SpecRecord::Live(Box::new(spec));
            ItemDecision::Commit(kind, rewrite(ctx, name, Some(job), &record))
        }
        Err(decided) => decided,
    }
}
