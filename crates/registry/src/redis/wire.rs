//! Encodes requests as the scripts' arguments, and decodes their replies.

use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel_core::keys::Key;
use evenkeel_core::registry::{Change, Entry, Guard, LeaseId, Revision, Txn, TxnOutcome, Write};
use redis::{Cmd, Value};

/// The keys that a group of transactions names, by the numbers that the script uses.
pub(super) struct KeyIndex<'t> {
    numbers: BTreeMap<&'t Key, usize>,
    /// In the order of their numbers: those of cold entries first.
    keys: Vec<&'t Key>,
    cold: usize,
}

impl<'t> KeyIndex<'t> {
    pub(super) fn from_txns(txns: impl Iterator<Item = &'t Txn>) -> Self {
        let mut numbers: BTreeMap<&Key, usize> = txns.flat_map(named_keys).map(|key| (key, 0)).collect();
        let (mut keys, hot): (Vec<&Key>, Vec<&Key>) = numbers.keys().partition(|key| key.is_cold());
        let cold = keys.len();
        keys.extend(hot);
        for (nth, key) in keys.iter().enumerate() {
            numbers.insert(key, nth + 1);
        }
        Self { numbers, keys, cold }
    }

    pub(super) fn add_keys(&self, cmd: &mut Cmd) {
        cmd.arg(self.keys.len()).arg(self.cold);
        for key in &self.keys {
            cmd.arg(key.as_str());
        }
    }

    /// The number of a key, from 1; 0 for a key that is not named.
    fn number(&self, key: &Key) -> usize {
        self.numbers.get(key).copied().unwrap_or(0)
    }
}

/// The keys that a transaction names, guards first, with repetitions.
fn named_keys(txn: &Txn) -> impl Iterator<Item = &Key> {
    txn.guards.iter().filter_map(Guard::key).chain(txn.writes.iter().map(Write::key))
}

/// Adds a transaction, whose keys are given by their numbers.
pub(super) fn add_txn(cmd: &mut Cmd, txn: &Txn, names: &KeyIndex<'_>) {
    cmd.arg("T").arg(txn.guards.len());
    for guard in &txn.guards {
        match guard {
            Guard::Absent(key) => cmd.arg("A").arg(names.number(key)).arg(""),
            Guard::Present(key) => cmd.arg("P").arg(names.number(key)).arg(""),
            // With the blank that follows it in a head.
            Guard::At(key, revision) => cmd.arg("=").arg(names.number(key)).arg(format!("{revision} ")),
            Guard::Born(key, revision) => cmd.arg("B").arg(names.number(key)).arg(revision.0),
            Guard::Open(lease) => cmd.arg("O").arg(0).arg(lease.0),
        };
    }
    cmd.arg(txn.writes.len());
    for write in &txn.writes {
        match write {
            Write::Put { key, value, owner } => {
                let owner = owner.map_or(0, |lease| lease.0);
                cmd.arg("P").arg(names.number(key)).arg(value.as_ref()).arg(owner)
            }
            Write::Delete { key } => cmd.arg("D").arg(names.number(key)).arg("").arg(0),
        };
    }
}

/// Adds one that is never made, for a transaction that is too large: the reply has its keys all the same.
pub(super) fn add_refusal(cmd: &mut Cmd, txn: &Txn, names: &KeyIndex<'_>) {
    let keys: Vec<_> = named_keys(txn).collect();
    cmd.arg("T").arg(keys.len().max(1));
    for key in &keys {
        cmd.arg("N").arg(names.number(key)).arg("");
    }
    if keys.is_empty() {
        cmd.arg("N").arg(0).arg("");
    }
    cmd.arg(0);
}

/// The outcome of a transaction; `None` if the answer is not the script's.
pub(super) fn outcome(answer: Value, txn: &Txn) -> Option<TxnOutcome> {
    let Value::Array(_) = answer else { return Some(TxnOutcome::Applied(Revision(number(&answer)?))) };
    let mut answer = list(answer)?;
    let revision = Revision(number(&answer.next()?)?);
    let mut found = BTreeMap::new();
    for key in named_keys(txn) {
        if !found.contains_key(key) {
            found.insert(key, entry(&answer.next()?, answer.next()?)?);
        }
    }
    let change = |(key, entry): (&Key, _)| Change { key: key.clone(), entry, revision };
    Some(TxnOutcome::Refused(found.into_iter().map(change).collect()))
}

/// An entry from its head and value, both nil if it is absent.
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

/// The elements of an array.
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

/// A number, which the scripts encode as text.
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
