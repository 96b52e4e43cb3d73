//! Locks: an embedder may take a cluster-wide lock, any number of times over, and gets a fencing token with it (S1-09).
//!
//! The lock is a record with its holder's incarnation; it is free again when it is released, or when its holder is no
//! member any more. Systems written to under the lock should compare tokens: a paused holder cannot know it lost it.

use alloc::collections::BTreeSet;
use alloc::format;

use crate::commit_kind::CommitKind;
use crate::ids::{LockName, Token};
use crate::input::{Answer, Command, CommandId, Refusal};
use crate::keys;
use crate::local::{CommandItem, CommitScope, ItemOutcome, PendingCommit};
use crate::record::{LockRecord, encode};
use crate::registry::{Guard, Txn, Write};
use crate::rule_context::{RuleAction, RuleContext, RuleOutput};
use crate::view::KnownEntry;

/// Looks at the items about locks.
pub fn decide(ctx: &RuleContext<'_>, out: &mut RuleOutput) {
    if !ctx.local.commands.has_idle_items() && ctx.view.own_locks().next().is_none() {
        return;
    }
    let Some(born) = ctx.born() else { return };
    // One item a lock and step: the next one counts on from what this one leaves.
    let mut seen = under_way(ctx);
    for (ask, n, item) in ctx.local.commands.idle_items() {
        let CommandItem::Command(command @ (Command::Lock(name) | Command::Unlock(name))) = item else {
            continue;
        };
        if !seen.insert(name) {
            continue;
        }
        match command {
            Command::Unlock(_) => give_back(ctx, ask, n, name, &born, out),
            _ => take(ctx, ask, n, name, &born, out),
        }
    }
    release_orphans(ctx, &seen, &born, out);
}

/// Releases locks that no command asks for here: the caller may have given up before its command was carried out.
/// back.
fn release_orphans(ctx: &RuleContext<'_>, seen: &BTreeSet<&LockName>, born: &Guard, out: &mut RuleOutput) {
    let local = ctx.local;
    for name in ctx.view.own_locks().filter(|name| !local.commands.holds_lock(name)) {
        let scope = CommitScope::Lock(name.clone());
        if seen.contains(name) || !ctx.is_idle(&scope) || local.commands.wants_lock(name) {
            continue;
        }
        if let Some(known) = ctx.view.lock(name) {
            out.commit(scope, CommitKind::Unlock, release(name, known, born));
        }
    }
}

/// The transaction that releases a lock.
fn release(name: &LockName, known: &KnownEntry<LockRecord>, born: &Guard) -> Txn {
    let key = keys::lock(name);
    let seq = known.value.as_ref().map_or(0, |r| r.seq);
    let writes =
        [Write::Put { key: key.clone(), value: encode(&LockRecord { holder: None, seq }), owner: None }];
    let guards = [born.clone(), known.guard(key)];
    Txn { guards: guards.into(), writes: writes.into() }
}

/// The locks with a commit in flight.
fn under_way<'a>(ctx: &'a RuleContext<'_>) -> BTreeSet<&'a LockName> {
    let local = ctx.local;
    if local.commits.of_kind(CommitKind::Lock) + local.commits.of_kind(CommitKind::Unlock) == 0 {
        return BTreeSet::new();
    }
    let name = |pending: &'a PendingCommit| match &pending.scope {
        CommitScope::Item(ask, n) => local.commands.item(*ask, *n).and_then(CommandItem::lock),
        CommitScope::Lock(name) => Some(name),
        _ => None,
    };
    local.commits.iter().filter_map(name).collect()
}

fn take(ctx: &RuleContext<'_>, ask: CommandId, n: u32, name: &LockName, born: &Guard, out: &mut RuleOutput) {
    let known: KnownEntry<LockRecord> = ctx.view.lock(name).cloned().unwrap_or_default();
    let record = known.value.clone().unwrap_or_default();
    if record.holder.as_ref() == Some(ctx.member) {
        let times = ctx.local.commands.lock_count(name) + 1;
        let token = Token::new(ctx.local.settings.generation, record.seq);
        out.add(RuleAction::SetLockCount(name.clone(), times));
        return out.add(RuleAction::CompleteItem(ask, n, ItemOutcome::Answer(Answer::Locked(token, times))));
    }
    let key = keys::lock(name);
    let mut guards = [born.clone(), known.guard(key.clone())].to_vec();
    if let Some(holder) = &record.holder {
        if ctx.view.member(holder).is_some() {
            return;
        }
        guards.push(Guard::Absent(keys::node(holder)));
    }
    let record = LockRecord { holder: Some(ctx.member.clone()), seq: record.seq + 1 };
    let writes = [Write::Put { key, value: encode(&record), owner: None }];
    out.commit(CommitScope::Item(ask, n), CommitKind::Lock, Txn { guards, writes: writes.into() });
}

fn give_back(
    ctx: &RuleContext<'_>,
    ask: CommandId,
    n: u32,
    name: &LockName,
    born: &Guard,
    out: &mut RuleOutput,
) {
    let times = ctx.local.commands.lock_count(name);
    let done = |answer| RuleAction::CompleteItem(ask, n, ItemOutcome::Answer(answer));
    let ours = ctx
        .view
        .lock(name)
        .filter(|l| l.value.as_ref().is_some_and(|r| r.holder.as_ref() == Some(ctx.member)));
    let Some(known) = ours else {
        if times > 0 {
            // Our own release was applied, perhaps without an answer.
            out.add(RuleAction::SetLockCount(name.clone(), 0));
            return out.add(done(Answer::Done));
        }
        return out
            .add(done(Answer::Refused(Refusal::Conflict, format!("lock {name} is not held by this node"))));
    };
    if times > 1 {
        out.add(RuleAction::SetLockCount(name.clone(), times - 1));
        return out.add(done(Answer::Done));
    }
    out.commit(CommitScope::Item(ask, n), CommitKind::Unlock, release(name, known, born));
}
