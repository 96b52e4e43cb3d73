//! Commits transactions: guards as comparisons, present entries in the other branch, batches that keep their order.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use evenkeel_core::keys::Key;
use evenkeel_core::registry::{Guard, LeaseId, Revision, Txn, TxnOutcome, Write};
use prost::Message;
use tokio::task::JoinSet;

use super::errors::EtcdError;
use super::keyspace::{self, EtcdKeyspace};
use super::message::{
    Compare, CompareValue, DeleteRangeRequest, EtcdOp, PutRequest, RequestOp, TxnRequest, TxnResponse,
};
use super::shared::{EtcdShared, REQUEST_MAX};
use crate::fits;

const EQUAL: i32 = 0;
const GREATER: i32 = 1;
const LESS: i32 = 2;

pub(super) const PATH: &str = "/etcdserverpb.KV/Txn";

/// Sends independent transactions together, many requests at once, and dependent ones one after the other.
pub(super) async fn commit(shared: &Arc<EtcdShared>, txns: Vec<Txn>) -> Vec<TxnOutcome> {
    // A single one, the usual case, needs no task of its own.
    let txns = match <[Txn; 1]>::try_from(txns) {
        Ok([only]) => return vec![shared.commit_one(only).await],
        Err(several) => several,
    };
    let waves: Vec<_> = waves(&txns).iter().map(|wave| shared.pack(&txns, wave)).collect();
    let mut outcomes = vec![TxnOutcome::Unknown; txns.len()];
    let mut txns: Vec<_> = txns.into_iter().map(Some).collect();
    for wave in waves {
        let mut under_way = JoinSet::new();
        for bundle in wave {
            let bundle = bundle.into_iter().filter_map(|place| Some((place, txns[place].take()?)));
            under_way.spawn(shared.clone().commit_bundle(bundle.collect()));
        }
        let mut doubt = false;
        while let Some(ended) = under_way.join_next().await {
            for (place, outcome) in ended.into_iter().flatten() {
                doubt |= outcome == TxnOutcome::Unknown;
                outcomes[place] = outcome;
            }
        }
        // A transaction after an unknown one might come before it.
        if doubt {
            break;
        }
    }
    outcomes
}

/// Groups the transactions so that, of two dependent ones, the later is in a later group.
fn waves(txns: &[Txn]) -> Vec<Vec<usize>> {
    let mut waves: Vec<Vec<usize>> = Vec::new();
    // The wave from which a key may be read again, and the one from which it may be written.
    let mut free: BTreeMap<&Key, (usize, usize)> = BTreeMap::new();
    for (place, txn) in txns.iter().enumerate() {
        let written: BTreeSet<&Key> = txn.writes.iter().map(Write::key).collect();
        let wave = txn.keys().filter_map(|key| {
            let (look, write) = free.get(key)?;
            Some(if written.contains(key) { *write } else { *look })
        });
        let wave = wave.max().unwrap_or(0);
        for key in txn.keys() {
            let (look, write) = free.entry(key).or_default();
            *write = (*write).max(wave + 1);
            if written.contains(key) {
                *look = (*look).max(wave + 1);
            }
        }
        if wave == waves.len() {
            waves.push(Vec::new());
        }
        waves[wave].push(place);
    }
    waves
}

impl EtcdShared {
    pub(super) async fn commit_one(&self, txn: Txn) -> TxnOutcome {
        if !fits(&self.facts, &txn) {
            return self.refuse(&txn).await;
        }
        let Some(request) = request(&self.keyspace, self.since, &txn) else { return self.refuse(&txn).await };
        if request.encoded_len() > REQUEST_MAX {
            return self.refuse(&txn).await;
        }
        let answer = {
            let _turn = self.permits.acquire().await;
            self.client.call_once::<_, TxnResponse>(PATH, request).await
        };
        match answer.and_then(|answer| self.check_generation(&answer).map(|()| answer)) {
            Ok(answer) => {
                self.set_last_error(None);
                self.outcome(&txn, answer)
            }
            // The server's limit is lower than assumed, or the lease ended in between: nothing was written.
            Err(EtcdError::TooLarge | EtcdError::NoLease) => self.refuse(&txn).await,
            Err(fault) => {
                self.set_last_error(Some(fault.into_registry_error()));
                TxnOutcome::Unknown
            }
        }
    }

    fn outcome(&self, txn: &Txn, answer: TxnResponse) -> TxnOutcome {
        let at = answer.header.as_ref().map_or(0, |header| header.revision);
        self.announce(keyspace::revision(at));
        if answer.succeeded {
            return TxnOutcome::Applied(keyspace::revision(at));
        }
        let found =
            answer.responses.into_iter().map(|op| op.range.and_then(|range| range.kvs.into_iter().next()));
        TxnOutcome::Refused(keyspace::changes(txn.keys(), found, at))
    }

    /// The answer for a transaction that is not sent to etcd, as it cannot be made: the present entries.
    async fn refuse(&self, txn: &Txn) -> TxnOutcome {
        match self.read(txn.keys().cloned().collect()).await {
            Ok(found) => TxnOutcome::Refused(found),
            Err(error) => {
                self.set_last_error(Some(error));
                TxnOutcome::Unknown
            }
        }
    }
}

/// The transaction as an etcd request, while the generation is the one written at `since`, which is read last. `None`
/// when it deletes a key and puts it again: etcd cannot do that in one transaction.
pub(super) fn request(tree: &EtcdKeyspace, since: Revision, txn: &Txn) -> Option<TxnRequest> {
    let mut writes: BTreeMap<&Key, &Write> = BTreeMap::new();
    for write in &txn.writes {
        let before = writes.insert(write.key(), write);
        if matches!((before, write), (Some(Write::Delete { .. }), Write::Put { .. })) {
            return None;
        }
    }
    let owners = txn.writes.iter().filter_map(|write| match write {
        Write::Put { owner, .. } => *owner,
        Write::Delete { .. } => None,
    });
    let owners: BTreeSet<LeaseId> = owners.collect();
    let guards = txn.guards.iter().map(|guard| compare(tree, guard));
    let owners = owners.into_iter().map(|owner| open(tree, owner));
    let compare = guards.chain(owners).chain([written_at(tree.meta(), since)]).collect();
    let looks = txn.keys().map(|key| keyspace::read_op(tree.entry(key), 0));
    // A request that reads and writes nothing would be answered by any member alone, from what it knows.
    let failure = looks.chain([keyspace::exists_op(tree.meta())]).collect();
    Some(TxnRequest { compare, success: steps(tree, txn), failure })
}

/// The transaction's writes. Of several writes to one key etcd accepts one: the last counts.
pub(super) fn steps(tree: &EtcdKeyspace, txn: &Txn) -> Vec<RequestOp> {
    let writes: BTreeMap<&Key, &Write> = txn.writes.iter().map(|write| (write.key(), write)).collect();
    writes.into_values().map(|write| RequestOp { step: Some(step(tree, write)) }).collect()
}

fn step(tree: &EtcdKeyspace, write: &Write) -> EtcdOp {
    match write {
        Write::Put { key, value, owner } => EtcdOp::Put(PutRequest {
            key: tree.entry(key),
            value: value.to_vec(),
            lease: owner.map_or(0, |lease| lease.0.cast_signed()),
        }),
        Write::Delete { key } => {
            EtcdOp::Delete(DeleteRangeRequest { key: tree.entry(key), range_end: vec![] })
        }
    }
}

pub(super) fn compare(tree: &EtcdKeyspace, guard: &Guard) -> Compare {
    match guard {
        Guard::Absent(key) => version(tree.entry(key), EQUAL),
        Guard::Present(key) => version(tree.entry(key), GREATER),
        Guard::At(key, revision) => number(tree.entry(key), *revision, 2, CompareValue::Written),
        Guard::Born(key, revision) => number(tree.entry(key), *revision, 1, CompareValue::Created),
        Guard::Open(lease) => open(tree, *lease),
    }
}

/// Compares that a lease is open: it lives exactly as long as the entry that was created with it.
fn open(tree: &EtcdKeyspace, lease: LeaseId) -> Compare {
    version(tree.lease(lease), GREATER)
}

/// Compares the number of writes of a key, which is 0 for an absent one.
pub(super) fn version(key: Vec<u8>, result: i32) -> Compare {
    Compare { result, target: 0, key, against: Some(CompareValue::Version(0)) }
}

/// Compares a revision. An absent key counts as 0 in etcd, and no entry has revision 0.
fn number(key: Vec<u8>, revision: Revision, target: i32, against: fn(i64) -> CompareValue) -> Compare {
    match i64::try_from(revision.0) {
        Ok(number) if number > 0 => Compare { result: EQUAL, target, key, against: Some(against(number)) },
        _ => version(key, LESS),
    }
}

/// Compares that a key was last written at exactly this revision.
pub(super) fn written_at(key: Vec<u8>, revision: Revision) -> Compare {
    number(key, revision, 2, CompareValue::Written)
}

/// Compares that a key is absent.
pub(super) fn absent(key: Vec<u8>) -> Compare {
    version(key, EQUAL)
}

/// A transaction that puts one key when all of this holds.
pub(super) fn put(compare: Vec<Compare>, key: Vec<u8>, value: Vec<u8>, lease: i64) -> TxnRequest {
    let put = EtcdOp::Put(PutRequest { key, value, lease });
    TxnRequest { compare, success: vec![RequestOp { step: Some(put) }], failure: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> Key {
        Key::from_stored(text)
    }

    fn txn(looks: &[&str], writes: &[&str]) -> Txn {
        let guards = looks.iter().map(|at| Guard::Present(key(at))).collect();
        let put = |at: &&str| Write::Put { key: key(at), value: (*b"").into(), owner: None };
        Txn { guards, writes: writes.iter().map(put).collect() }
    }

    #[test]
    fn what_concerns_the_same_entry_keeps_its_order_and_nothing_else_waits() {
        // All read `me`, as a node's do, and write keys of their own.
        let batch = [txn(&["me", "a"], &["a"]), txn(&["me", "b"], &["b"]), txn(&["me"], &["c"])];
        assert_eq!(waves(&batch), [vec![0, 1, 2]]);
        let batch =
            [txn(&[], &["a"]), txn(&["a"], &["b"]), txn(&["b"], &[]), txn(&[], &["a"]), txn(&[], &["z"])];
        assert_eq!(waves(&batch), [vec![0, 4], vec![1], vec![2, 3]]);
        let batch = [txn(&["a"], &[]), txn(&["a"], &[]), txn(&[], &["a"]), txn(&["a"], &[])];
        assert_eq!(waves(&batch), [vec![0, 1], vec![2], vec![3]]);
        assert_eq!(waves(&[]), Vec::<Vec<usize>>::new());
    }

    #[test]
    fn a_revision_that_no_entry_has_is_never_equal() {
        for never in [0, u64::MAX, 1 << 63] {
            let compare = number(b"k".to_vec(), Revision(never), 2, CompareValue::Written);
            assert_eq!((compare.result, compare.against), (LESS, Some(CompareValue::Version(0))), "{never}");
        }
    }

    #[test]
    fn a_transaction_that_only_asks_for_a_lease_is_still_a_question_to_all_members() {
        let txn = Txn { guards: vec![Guard::Open(LeaseId(7))], writes: vec![] };
        let tree = EtcdKeyspace::new("ns");
        assert_eq!(request(&tree, Revision(2), &txn).unwrap().failure.len(), 1);
    }

    #[test]
    fn of_several_writes_to_a_key_the_last_is_sent() {
        let tree = EtcdKeyspace::new("ns");
        let delete = Write::Delete { key: key("a") };
        let twice = Txn { writes: vec![txn(&[], &["a"]).writes[0].clone(), delete.clone()], guards: vec![] };
        assert_eq!(request(&tree, Revision(2), &twice).unwrap().success.len(), 1);
        let again = Txn { writes: vec![delete, txn(&[], &["a"]).writes[0].clone()], guards: vec![] };
        assert_eq!(request(&tree, Revision(2), &again), None);
    }
}
