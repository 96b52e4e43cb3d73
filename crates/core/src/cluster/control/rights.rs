//! Whether the caller of a command has its role on the job that an item changes, where the labels of the job decide.
//!
//! The transaction of the item is guarded by the job's entry as this view has it, so a job that gets other labels meanwhile
//! is looked at again.

use alloc::string::String;

use super::decision::{ItemDecision, refuse};
use crate::ids::JobName;
use crate::input::{CommandObject, Refusal};
use crate::local::CommandItem;
use crate::principal::JobRights;
use crate::record::SpecRecord;
use crate::rule_context::RuleContext;
use crate::view::View;

/// The refusal of an item on whose job the caller lacks the role.
pub(super) fn lacking(ctx: &RuleContext<'_>, rights: &JobRights, item: &CommandItem) -> Option<ItemDecision> {
    let refused = match item {
        CommandItem::Job(job) => {
            declares(ctx.view, rights, &job.name).and_then(|()| rights.check_declared(&job.name, &job.labels))
        }
        CommandItem::Same(same) => declares(ctx.view, rights, &same.name).and_then(|()| {
            // The registry may have another declaration by now.
            match ctx.view.find(&same.name).is_some_and(|job| job.has_spec_of(same.revision)) {
                true => Ok(()),
                // One that cannot be read is refused as such.
                false => same.job().map_or(Ok(()), |job| rights.check_declared(&job.name, &job.labels)),
            }
        }),
        CommandItem::Command(command) => match command.describe()?.object {
            CommandObject::Job(name) => on_job(ctx.view, rights, name),
            CommandObject::Run(run) => on_run(ctx.view, rights, &run.job),
            _ => Ok(()),
        },
    };
    refused.err().map(|why| refuse(Refusal::Forbidden, why))
}

/// Checks the role on the job of a run. Without the job nothing says whose the run is.
pub(crate) fn on_run(view: &View, rights: &JobRights, job: &JobName) -> Result<(), String> {
    match view.find(job).and_then(|job| job.spec()) {
        Some(spec) => rights.check_present(job, &spec.job.labels),
        None => rights.check_unknown(job),
    }
}

/// Checks the role on a job, if it exists: what does not is refused as missing.
fn on_job(view: &View, rights: &JobRights, name: &JobName) -> Result<(), String> {
    match view.find(name).map(|job| job.spec()) {
        Some(Some(spec)) => rights.check_present(name, &spec.job.labels),
        Some(None) => rights.check_unknown(name),
        None => Ok(()),
    }
}

/// Checks the role on what a declaration would replace. An entry that no node of this cluster wrote may have any labels.
fn declares(view: &View, rights: &JobRights, name: &JobName) -> Result<(), String> {
    let job = view.id(name).map(|id| view.job(id));
    match job.as_ref().and_then(|job| job.spec_record()) {
        Some(SpecRecord::Unsealed(_)) => rights.check_unknown(name),
        _ => on_job(view, rights, name),
    }
}
