//! Command items that switch a job, or some of its shards, on all nodes, or delete it.

use alloc::boxed::Box;
use alloc::format;

use super::{ItemDecision, answer, namespaces, no_job, nodes, refuse, rewrite};
use crate::commit_kind::CommitKind;
use crate::ids::JobName;
use crate::input::{Answer, Refusal};
use crate::job::{Spec, SwitchOrigin, SwitchPosition};
use crate::record::SpecRecord;
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

/// Deletes a job.
pub(super) fn delete(ctx: &RuleContext<'_>, name: &JobName) -> ItemDecision {
    let Some(job) = ctx.view.find(name) else { return no_job(name) };
    let Some(spec) = job.spec() else { return no_job(name) };
    let record = SpecRecord::Deleted { version: spec.version + 1 };
    ItemDecision::Commit(CommitKind::DeleteJob, rewrite(ctx, name, Some(job), &record))
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
