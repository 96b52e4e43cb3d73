//! Whether the object of a command is as its caller wants it.
//!
//! The transaction of the command is guarded by the entry as this view has it. So what is decided here holds when the
//! command is done.

use alloc::format;

use super::decision::{ItemDecision, refuse};
use crate::input::{CommandObject, Precondition, Refusal};
use crate::local::CommandItem;
use crate::record::PrincipalRecord;
use crate::rule_context::RuleContext;

/// The refusal of an item whose object is not as it is wanted.
pub(super) fn unmet(
    ctx: &RuleContext<'_>,
    wanted: &Precondition,
    item: &CommandItem,
) -> Option<ItemDecision> {
    let object = item.object()?;
    let version = version(ctx, object)?;
    if wanted.is_met(version) {
        return None;
    }
    let text = match version {
        Some(version) => {
            format!(
                "{object} has version {version}, and the request is for {wanted}: read it again, and change that"
            )
        }
        None => format!("there is no {object}, and the request is for {wanted}"),
    };
    Some(refuse(Refusal::Stale(version.unwrap_or(0)), text))
}

/// The version of an object; `None` for one that has none.
fn version(ctx: &RuleContext<'_>, object: CommandObject<'_>) -> Option<Option<u64>> {
    let view = ctx.view;
    Some(match object {
        CommandObject::Job(name) => view.find(name).map(|job| job.version()),
        CommandObject::Calendar(name) => view.calendar(name).map(|spec| spec.version),
        CommandObject::Namespace(name) => {
            // `default` is there before it is declared.
            view.namespace(name).map(|spec| spec.version).or(name.is_default().then_some(0))
        }
        CommandObject::Principal(kind, name) => {
            let entry = view.principal_entry(kind, name).and_then(|entry| entry.value.as_ref());
            entry.filter(|record| record.live().is_some()).map(PrincipalRecord::version)
        }
        CommandObject::Secret(name) => view.secret(name).map(|secret| secret.version),
        _ => return None,
    })
}
