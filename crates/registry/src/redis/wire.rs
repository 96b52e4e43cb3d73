//! What is asked and answered, as the scripts' arguments and replies.

use std::sync::Arc;

use evenkeel_core::keys::Key;
use evenkeel_core::registry::{Change, Entry, Guard, LeaseId, Outcome, Revision, Txn, Write};
use redis::{Cmd, Value};

/// Adds a transaction: its keys, then guards and writes that name them by their place.
pub(super) fn add_txn(cmd: &mut Cmd, txn: &Txn) {
    let keys = add_keys(cmd, txn);
    // Keys are in order, and each one of the transaction is among them.
    let nth = |key: &Key| keys.partition_point(|known| *known < key) + 1;
    cmd.arg(txn.guards.len());
    for guard in &txn.guards {
        match guard {
            Guard::Absent(key) => cmd.arg("A").arg(nth(key)).arg(""),
            Guard::Present(key) => cmd.arg("P").arg(nth(key)).arg(""),
            Guard::At(key, revision) => cmd.arg("=").arg(nth(key)).arg(revision.0),
            Guard::Born(key, revision) => cmd.arg("B").arg(nth(key)).arg(revision.0),
            Guard::Open(lease) => cmd.arg("O").arg(0).arg(lease.0),
        };
    }
    cmd.arg(txn.writes.len());
    for write in &txn.writes {
        match write {
            Write::Put { key, value, owner } => {
                cmd.arg("P").arg(nth(key)).arg(value.as_ref());
                match owner {
                    Some(lease) => cmd.arg(lease.0),
                    None => cmd.arg(""),
                }
            }
            Write::Delete { key } => cmd.arg("D").arg(nth(key)),
        };
    }
}

/// Adds one that is never made, for a transaction that is too large: its keys are told all the same.
pub(super) fn add_refusal(cmd: &mut Cmd, txn: &Txn) {
    add_keys(cmd, txn);
    cmd.arg(1).arg("N").arg(0).arg("").arg(0);
}

fn add_keys<'t>(cmd: &mut Cmd, txn: &'t Txn) -> Vec<&'t Key> {
    let keys: Vec<_> = txn.keys().collect();
    cmd.arg("T").arg(keys.len());
    for key in &keys {
        cmd.arg(key.as_str());
    }
    keys
}

/// What became of a transaction; `None` when that is no answer of the script.
pub(super) fn outcome(answer: Value, txn: &Txn) -> Option<Outcome> {
    let mut answer = list(answer)?;
    let revision = Revision(number(&answer.next()?)?);
    if answer.next().is_none() {
        return Some(Outcome::Applied(revision));
    }
    let found = txn.keys().map(|key| {
        let entry = entry(&answer.next()?, answer.next()?)?;
        Some(Change { key: key.clone(), entry, revision })
    });
    Some(Outcome::Refused(found.collect::<Option<_>>()?))
}

/// An entry of its head and value, both nothing when it is absent.
#[expect(clippy::option_option, reason = "no answer of the script is not the same as no entry")]
pub(super) fn entry(head: &Value, value: Value) -> Option<Option<Entry>> {
    if *head == Value::Nil {
        return Some(None);
    }
    let mut head = std::str::from_utf8(bytes(head)?).ok()?.split(' ').map(str::parse::<u64>);
    let mut next = || head.next()?.ok();
    let (revision, born, owner) = (Revision(next()?), Revision(next()?), next()?);
    let value = Arc::from(bytes(&value)?);
    Some(Some(Entry { value, revision, born, owner: (owner > 0).then_some(LeaseId(owner)) }))
}

/// The parts of an array.
pub(super) fn list(value: Value) -> Option<std::vec::IntoIter<Value>> {
    match value {
        Value::Array(parts) => Some(parts.into_iter()),
        _ => None,
    }
}

/// A text, as keys are.
pub(super) fn text(value: Value) -> Option<String> {
    match value {
        Value::BulkString(bytes) => String::from_utf8(bytes).ok(),
        Value::SimpleString(text) => Some(text),
        _ => None,
    }
}

/// A number, which the scripts write as text.
pub(super) fn number<T: std::str::FromStr>(value: &Value) -> Option<T> {
    std::str::from_utf8(bytes(value)?).ok()?.parse().ok()
}

fn bytes(value: &Value) -> Option<&[u8]> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        Value::SimpleString(text) => Some(text.as_bytes()),
        _ => None,
    }
}
