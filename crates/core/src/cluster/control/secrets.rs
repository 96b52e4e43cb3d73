//! Command items about secrets. What they hold is not known here.

use alloc::boxed::Box;
use alloc::format;

use super::decision::{ItemDecision, answer, refuse, rewritten};
use super::namespaces::{self, NamespacePass};
use crate::commit_kind::CommitKind;
use crate::ids::SecretName;
use crate::input::{Answer, Refusal};
use crate::keys;
use crate::record::{SealedSecret, SecretRecord};
use crate::rule_context::RuleContext;

/// Sets a secret. It is sealed for the version that follows the one that the caller has read.
pub(super) fn set(ctx: &RuleContext<'_>, secret: &SealedSecret) -> ItemDecision {
    let name = &secret.name;
    let known = ctx.view.secret_entry(name);
    let record = known.and_then(|entry| entry.value.as_ref());
    let old = record.and_then(SecretRecord::live);
    if old == Some(secret) {
        return answer(Answer::Unchanged);
    }
    let version = record.map_or(0, SecretRecord::version);
    if secret.version != version + 1 {
        let text = format!("secret {name} was changed meanwhile, to version {version}: try again");
        return refuse(Refusal::Conflict, text);
    }
    let pass = match old {
        Some(_) => NamespacePass::default(),
        None => match namespaces::admit(ctx, name) {
            Ok(pass) => pass,
            Err(decided) => return decided,
        },
    };
    let kind = if old.is_some() { CommitKind::UpdateSecret } else { CommitKind::CreateSecret };
    let mut txn = rewritten(keys::secret(name), known, |_| SecretRecord::Live(Box::new(secret.clone())));
    txn.guards.extend(pass.guards);
    ItemDecision::Commit(kind, txn)
}

/// Deletes a secret. Jobs that name it fail from now on, unless their node has a file of that name.
pub(super) fn delete(ctx: &RuleContext<'_>, name: &SecretName) -> ItemDecision {
    if ctx.view.secret(name).is_none() {
        let text = format!("there is no secret {name}: `evenkeel secret list` shows those there are");
        return refuse(Refusal::NotFound, text);
    }
    let deleted = |version| SecretRecord::Deleted { version };
    ItemDecision::Commit(
        CommitKind::DeleteSecret,
        rewritten(keys::secret(name), ctx.view.secret_entry(name), deleted),
    )
}
