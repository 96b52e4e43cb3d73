//! Command items about users and API tokens.

use alloc::boxed::Box;
use alloc::format;

use super::decision::{ItemDecision, answer, refuse};
use crate::commit_kind::CommitKind;
use crate::ids::PrincipalName;
use crate::input::{Answer, Refusal};
use crate::keys;
use crate::principal::{Principal, PrincipalKind};
use crate::record::{PrincipalRecord, encode};
use crate::registry::{Txn, Write};
use crate::rule_context::RuleContext;
use crate::time::Wall;

/// Creates a principal, or replaces the version of it that the caller has read; 0 says that there must be none.
pub(super) fn declare(ctx: &RuleContext<'_>, principal: &Principal, replaces: u64) -> ItemDecision {
    let (kind, name) = (principal.kind, &principal.name);
    let known = ctx.view.principal_entry(kind, name).and_then(|entry| entry.value.as_ref());
    let present = known.and_then(|record| record.live().map(|old| (old, record.version())));
    match present {
        None if replaces > 0 => return missing(kind, name),
        Some(_) if replaces == 0 => {
            return refuse(Refusal::Conflict, format!("there is a {} {name} already", kind.as_str()));
        }
        Some((_, version)) if version != replaces => {
            let text = format!(
                "{} {name} was changed meanwhile, from version {replaces} to {version}: look at it and try again",
                kind.as_str()
            );
            return refuse(Refusal::Conflict, text);
        }
        Some((old, _)) if old == principal => return answer(Answer::Unchanged),
        _ => {}
    }
    let commit = if present.is_some() { CommitKind::UpdatePrincipal } else { CommitKind::CreatePrincipal };
    ItemDecision::Commit(commit, put(ctx, (kind, name), principal.clone()))
}

/// Deletes a principal: it is let in no more, and its sessions have ended.
pub(super) fn delete(ctx: &RuleContext<'_>, kind: PrincipalKind, name: &PrincipalName) -> ItemDecision {
    let known = ctx.view.principal_entry(kind, name).and_then(|entry| entry.value.as_ref());
    if matches!(known, None | Some(PrincipalRecord::Deleted { .. })) {
        return missing(kind, name);
    }
    let record = |version| PrincipalRecord::Deleted { version };
    ItemDecision::Commit(CommitKind::DeletePrincipal, rewrite(ctx, (kind, name), record))
}

/// Notes that a principal was used, unless a later use is known.
pub(super) fn used(ctx: &RuleContext<'_>, principal: &Principal) -> ItemDecision {
    let (kind, name) = (principal.kind, &principal.name);
    let Some(present) = ctx.view.principal(kind, name) else { return missing(kind, name) };
    let same = |last_used: Option<Wall>| Principal { last_used, ..present.clone() };
    if present.last_used >= principal.last_used || same(principal.last_used) != *principal {
        return answer(Answer::Unchanged);
    }
    ItemDecision::Commit(CommitKind::UpdatePrincipal, put(ctx, (kind, name), principal.clone()))
}

fn missing(kind: PrincipalKind, name: &PrincipalName) -> ItemDecision {
    let kind = kind.as_str();
    refuse(
        Refusal::NotFound,
        format!("there is no {kind} {name}: `evenkeel {kind} list` shows those there are"),
    )
}

fn put(ctx: &RuleContext<'_>, of: (PrincipalKind, &PrincipalName), principal: Principal) -> Txn {
    rewrite(ctx, of, |version| PrincipalRecord::Live { principal: Box::new(principal), version })
}

fn rewrite(
    ctx: &RuleContext<'_>,
    (kind, name): (PrincipalKind, &PrincipalName),
    record: impl FnOnce(u64) -> PrincipalRecord,
) -> Txn {
    let (key, known) = (keys::principal(kind, name), ctx.view.principal_entry(kind, name));
    let version = known.and_then(|entry| entry.value.as_ref()).map_or(0, PrincipalRecord::version);
    let guard = known.cloned().unwrap_or_default().guard(key.clone());
    let write = Write::Put { key, value: encode(&record(version.saturating_add(1))), owner: None };
    Txn { guards: [guard].into(), writes: [write].into() }
}
