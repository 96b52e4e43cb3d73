//! Bundles several transactions into one request. etcd agrees on each request by itself, which costs far more than its
//! contents.
//!
//! Only transactions of which none writes what another names are bundled: then their order does not matter, and they
//! may share a revision. If one of them cannot be made, etcd makes none and returns the present entries: the
//! transactions that these refute go alone, and the others together again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use evenkeel_core::keys::Key;
use evenkeel_core::registry::{Change, EngineFacts, Entry, Guard, Revision, Txn, TxnOutcome, Write};
use prost::Message;
use tokio::task::JoinSet;

use super::commit::{PATH, compare, request, steps, written_at};
use super::errors::EtcdError;
use super::keyspace::{self, EtcdKeyspace};
use super::message::{TxnRequest, TxnResponse};
use super::shared::{EtcdShared, REQUEST_MAX};
use crate::fits;

/// The size of some transactions as one request.
#[derive(Default)]
struct RequestSize<'t> {
    guards: BTreeSet<&'t Guard>,
    keys: BTreeSet<&'t Key>,
    writes: usize,
    bytes: usize,
}

/// Groups independent transactions, in their order: as many as one request takes.
fn pack(
    tree: &EtcdKeyspace,
    since: Revision,
    facts: &EngineFacts,
    txns: &[Txn],
    places: &[usize],
) -> Vec<Vec<usize>> {
    let mut bundles: Vec<Vec<usize>> = Vec::new();
    let mut open: Option<RequestSize<'_>> = None;
    for place in places {
        let txn = &txns[*place];
        let Some(bytes) = bundled_bytes(tree, since, facts, txn) else {
            bundles.push(vec![*place]);
            open = None;
            continue;
        };
        match (&mut open, bundles.last_mut()) {
            (Some(load), Some(bundle)) if load.fits(txn, bytes, facts.operations_max) => {
                load.add(txn, bytes);
                bundle.push(*place);
            }
            _ => {
                bundles.push(vec![*place]);
                open.insert(RequestSize::default()).add(txn, bytes);
            }
        }
    }
    bundles
}

/// The size of a transaction; `None` for one that goes alone: it cannot be made as it is, or it involves a lease, which
/// may have ended without a sign in the entries.
fn bundled_bytes(tree: &EtcdKeyspace, since: Revision, facts: &EngineFacts, txn: &Txn) -> Option<usize> {
    let of_entries = txn.guards.iter().all(|guard| guard.key().is_some());
    let lasting = !txn.writes.iter().any(|write| matches!(write, Write::Put { owner: Some(_), .. }));
    let request = if of_entries && lasting && fits(facts, txn) { request(tree, since, txn) } else { None };
    request.map(|request| request.encoded_len())
}

impl<'t> RequestSize<'t> {
    fn fits(&self, txn: &'t Txn, bytes: usize, most: usize) -> bool {
        let guards = txn.guards.iter().filter(|guard| !self.guards.contains(guard)).count();
        let keys = txn.keys().filter(|key| !self.keys.contains(key)).count();
        self.guards.len() + guards <= most
            && self.keys.len() + keys <= most
            && self.writes + txn.writes.len() <= most
            && self.bytes + bytes <= REQUEST_MAX
    }

    fn add(&mut self, txn: &'t Txn, bytes: usize) {
        self.guards.extend(&txn.guards);
        self.keys.extend(txn.keys());
        self.writes += txn.writes.len();
        self.bytes += bytes;
    }
}

/// All of them as one etcd request, while the generation is the one written at `since`, which is read last.
fn merged_request(tree: &EtcdKeyspace, since: Revision, txns: &[(usize, Txn)]) -> TxnRequest {
    let mut load = RequestSize::default();
    txns.iter().for_each(|(_, txn)| load.add(txn, 0));
    let same = written_at(tree.meta(), since);
    let keys = load.keys.into_iter().map(|key| tree.entry(key)).chain([tree.meta()]);
    TxnRequest {
        compare: load.guards.into_iter().map(|guard| compare(tree, guard)).chain([same]).collect(),
        success: txns.iter().flat_map(|(_, txn)| steps(tree, txn)).collect(),
        failure: keys.map(keyspace::exists_op).collect(),
    }
}

/// Whether a guard holds for an entry.
fn holds(guard: &Guard, found: &BTreeMap<Key, Change>) -> bool {
    let entry = |key| found.get(key).and_then(|change: &Change| change.entry.as_ref());
    let is = |key, test: &dyn Fn(&Entry) -> Revision, at| entry(key).is_some_and(|entry| test(entry) == at);
    match guard {
        Guard::Absent(key) => entry(key).is_none(),
        Guard::Present(key) => entry(key).is_some(),
        Guard::At(key, at) => is(key, &|entry| entry.revision, *at),
        Guard::Born(key, at) => is(key, &|entry| entry.born, *at),
        Guard::Open(_) => false,
    }
}

impl EtcdShared {
    /// Groups independent transactions, in their order.
    pub(super) fn pack(&self, txns: &[Txn], places: &[usize]) -> Vec<Vec<usize>> {
        pack(&self.keyspace, self.since, &self.facts, txns, places)
    }

    /// Makes the transactions that can be made, and records the outcome of each.
    pub(super) async fn commit_bundle(
        self: Arc<Self>,
        mut txns: Vec<(usize, Txn)>,
    ) -> Vec<(usize, TxnOutcome)> {
        let (mut settled, mut alone) = (Vec::with_capacity(txns.len()), JoinSet::new());
        let go_alone = |(place, txn), alone: &mut JoinSet<_>| {
            let shared = self.clone();
            alone.spawn(async move { (place, shared.commit_one(txn).await) });
        };
        while txns.len() > 1 {
            let answer = {
                let _turn = self.permits.acquire().await;
                self.client
                    .call_once::<_, TxnResponse>(PATH, merged_request(&self.keyspace, self.since, &txns))
                    .await
            };
            let answer = match answer.and_then(|answer| self.check_generation(&answer).map(|()| answer)) {
                Ok(answer) => answer,
                // Together they are too much for this server.
                Err(EtcdError::TooLarge | EtcdError::NoLease) => break,
                Err(fault) => {
                    self.set_last_error(Some(fault.into_registry_error()));
                    settled.extend(txns.drain(..).map(|(place, _)| (place, TxnOutcome::Unknown)));
                    break;
                }
            };
            self.set_last_error(None);
            let at = answer.header.as_ref().map_or(0, |header| header.revision);
            self.announce(keyspace::revision(at));
            if answer.succeeded {
                settled.extend(
                    txns.drain(..).map(|(place, _)| (place, TxnOutcome::Applied(keyspace::revision(at)))),
                );
                break;
            }
            let keys: BTreeSet<_> = txns.iter().flat_map(|(_, txn)| txn.keys()).collect();
            let told = answer.responses.into_iter().map(|op| op.range?.kvs.into_iter().next());
            let found = keyspace::changes(keys.into_iter(), told, at);
            let found: BTreeMap<_, _> =
                found.into_iter().map(|change| (change.key.clone(), change)).collect();
            let refuted = |(_, txn): &mut (usize, Txn)| !txn.guards.iter().all(|guard| holds(guard, &found));
            let refuted: Vec<_> = txns.extract_if(.., refuted).collect();
            if refuted.is_empty() {
                break;
            }
            refuted.into_iter().for_each(|txn| go_alone(txn, &mut alone));
        }
        txns.into_iter().for_each(|txn| go_alone(txn, &mut alone));
        while let Some(ended) = alone.join_next().await {
            settled.extend(ended);
        }
        settled
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_core::registry::LeaseId;

    use super::*;
    use crate::Registry;
    use crate::clock::HostClock;
    use crate::memory::Memory;

    fn key(text: &str) -> Key {
        Key::from_stored(text)
    }

    /// A node's claim of a fire, as large as this.
    fn fire(job: usize, bytes: usize) -> Txn {
        let run_state = key(&format!("run/{job}/claim"));
        let guards = vec![
            Guard::Born(key("node/a@1"), Revision(3)),
            Guard::At(run_state.clone(), Revision(7)),
            Guard::At(key(&format!("job/{job}/assignment")), Revision(5)),
        ];
        Txn { guards, writes: vec![Write::Put { key: run_state, value: vec![0; bytes].into(), owner: None }] }
    }

    fn sizes(txns: &[Txn]) -> Vec<usize> {
        let facts = EngineFacts {
            operations_max: 127,
            value_max: super::super::VALUE_MAX,
            ..Memory::new(Arc::new(HostClock)).facts()
        };
        let packed =
            pack(&EtcdKeyspace::new("ns"), Revision(2), &facts, txns, &(0..txns.len()).collect::<Vec<_>>());
        assert!(packed.iter().flatten().copied().eq(0..txns.len()), "{packed:?}");
        packed.iter().map(Vec::len).collect()
    }

    #[test]
    fn as_many_go_together_as_one_request_takes() {
        // One guard is the same in all, two are their own.
        assert_eq!(sizes(&(0..130).map(|job| fire(job, 100)).collect::<Vec<_>>()), [63, 63, 4]);
        assert_eq!(sizes(&(0..5).map(|job| fire(job, 600 << 10)).collect::<Vec<_>>()), [2, 2, 1]);
        assert_eq!(sizes(&[]), Vec::<usize>::new());
    }

    #[test]
    fn what_may_be_refused_for_another_reason_goes_alone() {
        let too_large = fire(1, super::super::VALUE_MAX + 1);
        let mut of_a_lease = fire(2, 1);
        of_a_lease.guards.push(Guard::Open(LeaseId(7)));
        let mut owned = fire(3, 1);
        owned.writes.push(Write::Put { key: key("o"), value: (*b"").into(), owner: Some(LeaseId(7)) });
        let mut impossible = fire(4, 1);
        impossible.writes.insert(0, Write::Delete { key: impossible.writes[0].key().clone() });
        for alone in [too_large, of_a_lease, owned, impossible] {
            assert_eq!(sizes(&[fire(5, 1), fire(6, 1), alone, fire(7, 1), fire(8, 1)]), [2, 1, 2]);
        }
    }

    /// Revisions that no entry has are included, as etcd judges its comparisons.
    #[test]
    fn what_was_found_tells_which_guards_do_not_hold() {
        let entry = Entry { value: (*b"").into(), revision: Revision(9), born: Revision(4), owner: None };
        let change = |at: &str, entry| (key(at), Change { key: key(at), entry, revision: Revision(10) });
        let found = BTreeMap::from([change("there", Some(entry)), change("gone", None)]);
        let (there, gone) = (|| key("there"), || key("gone"));
        let so = [
            Guard::Present(there()),
            Guard::Absent(gone()),
            Guard::At(there(), Revision(9)),
            Guard::Born(there(), Revision(4)),
        ];
        let not_so = [
            Guard::Absent(there()),
            Guard::Present(gone()),
            Guard::At(there(), Revision(4)),
            Guard::Born(there(), Revision(9)),
            Guard::At(gone(), Revision(0)),
            Guard::Born(gone(), Revision(0)),
        ];
        assert!(so.iter().all(|guard| holds(guard, &found)));
        assert!(!not_so.iter().any(|guard| holds(guard, &found)));
    }
}
