//! Transactions: looked at, planned, sent, and looked at again where somebody was faster.
//!
//! Neighbours that have nothing in common go out together, in their order, without waiting for each other's answers; one
//! that was overtaken holds up nobody.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_core::keys::Key;
use evenkeel_core::registry::{LeaseId, Outcome, Revision, Txn};
use zookeeper_client::{Client, CreateMode, Error, MultiWriteError, MultiWriteResult};

use super::link::{ANSWER, Link, span};
use super::plan::{Noted, Op, Plan, Seen, Sight, leases, owners, plan};
use super::tree::{data_to_keys, revision};
use super::{FACTS, fits_in_a_packet};
use crate::{RegistryError, fits};

/// How often one is tried that is overtaken each time.
const TRIES: u32 = 30;

/// How many go out together.
pub(crate) const TOGETHER: usize = 256;

/// What became of one attempt.
enum Attempt {
    Settled(Outcome),
    /// Somebody changed what was seen. Nothing was written.
    Overtaken,
}

impl Link {
    pub(super) async fn commit(&self, txns: &[Txn]) -> Vec<Outcome> {
        let mut outcomes = vec![Outcome::Unknown; txns.len()];
        let mut from = 0;
        while from < txns.len() {
            let to = from + apart(&txns[from..]);
            let settled = self.commit_apart(&txns[from..to], &mut outcomes[from..to]).await;
            self.set_trouble(settled.as_ref().err());
            if settled.is_err() {
                break;
            }
            from = to;
        }
        self.nudge.notify_one();
        outcomes
    }

    /// Transactions that have nothing in common.
    async fn commit_apart(&self, txns: &[Txn], outcomes: &mut [Outcome]) -> Result<(), RegistryError> {
        let mut waiting: Vec<usize> = (0..txns.len()).collect();
        for tried in 0..TRIES {
            let client = self.client().await?;
            let sight = self.look(&client, waiting.iter().map(|nth| &txns[*nth]), tried > 0).await?;
            let (mut sent, mut refused, mut kills) = (Vec::new(), Vec::new(), 0);
            for nth in waiting {
                let txn = &txns[nth];
                let good = fits(&FACTS, txn) && fits_in_a_packet(txn);
                match good.then(|| plan(&self.tree, txn, &sight, kills)).flatten() {
                    Some(plan) => {
                        kills += i32::from(plan.kills);
                        sent.push((nth, self.send(&client, &plan)));
                    }
                    None => refused.push((nth, !good)),
                }
            }
            waiting = Vec::new();
            for (nth, answer) in sent {
                match tokio::time::timeout(span(ANSWER), answer).await {
                    Ok(Ok(Attempt::Settled(outcome))) => outcomes[nth] = outcome,
                    Ok(Ok(Attempt::Overtaken)) => waiting.push(nth),
                    // Whatever is left is unknown.
                    Ok(Err(error)) => return Err(self.explain(&error)),
                    Err(_) => return Err(self.explain(&Error::Timeout)),
                }
            }
            for (nth, for_good) in refused {
                // What a follower does not know yet is no reason to refuse.
                if tried == 0 && !for_good {
                    waiting.push(nth);
                } else {
                    let found = self.read(txns[nth].keys().cloned().collect()).await?;
                    outcomes[nth] = Outcome::Refused(found);
                }
            }
            if waiting.is_empty() {
                return Ok(());
            }
            waiting.sort_unstable();
        }
        Err(RegistryError::Unavailable("others change the same entries all the time: try again".into()))
    }

    /// Looks at all that some transactions name.
    async fn look<'t>(
        &self,
        client: &Client,
        txns: impl Iterator<Item = &'t Txn> + Clone,
        sync: bool,
    ) -> Result<Sight, RegistryError> {
        let synced = sync.then(|| client.sync(self.tree.root()));
        // First of all, so that whatever is deleted after the entries were looked at is seen by the check.
        let deaths = client.check_stat(&self.tree.deaths());
        let keys: BTreeSet<&Key> = txns.clone().flat_map(Txn::keys).collect();
        let leases: BTreeSet<LeaseId> = txns.clone().flat_map(leases).collect();
        let owners: BTreeSet<LeaseId> = txns.flat_map(owners).collect();
        let keys: Vec<_> =
            keys.into_iter().map(|key| (key, client.check_stat(&self.tree.entry(key)))).collect();
        let alive: Vec<_> =
            leases.into_iter().map(|lease| (lease, client.check_stat(&self.tree.lease(lease)))).collect();
        let noted: Vec<_> =
            owners.into_iter().map(|lease| (lease, client.get_data(&self.tree.owned(lease)))).collect();
        if let Some(synced) = synced {
            self.within(synced).await?;
        }
        let deaths = self.within(deaths).await?.ok_or_else(|| self.gone())?.version;
        let mut sight = Sight { deaths, entries: BTreeMap::new(), leases: BTreeMap::new() };
        for (key, asked) in keys {
            if let Some(stat) = self.within(asked).await? {
                let (revision, born) = (revision(stat.mzxid), revision(stat.czxid));
                sight.entries.insert(key.clone(), Seen { version: stat.version, revision, born });
            }
        }
        for (lease, asked) in alive {
            if self.within(asked).await?.is_some() {
                sight.leases.insert(lease, Noted::default());
            }
        }
        for (lease, asked) in noted {
            match tokio::time::timeout(span(ANSWER), asked).await {
                Ok(Ok((data, stat))) => {
                    if let Some(noted) = sight.leases.get_mut(&lease) {
                        *noted = Noted { keys: data_to_keys(&data), version: stat.version };
                    }
                }
                Ok(Err(Error::NoNode)) => drop(sight.leases.remove(&lease)),
                Ok(Err(error)) => return Err(self.explain(&error)),
                Err(_) => return Err(self.explain(&Error::Timeout)),
            }
        }
        Ok(sight)
    }

    /// Sends a plan. It is on its way when this returns.
    fn send<'c>(
        &self,
        client: &'c Client,
        plan: &Plan,
    ) -> impl Future<Output = Result<Attempt, Error>> + Send + use<'c> {
        let sent = self.send_ops(client, &plan.ops);
        async move {
            Ok(match sent.await? {
                Some(revision) => Attempt::Settled(Outcome::Applied(revision)),
                None => Attempt::Overtaken,
            })
        }
    }

    /// Sends operations of which the first writes the order; `None` when one of them was not possible.
    pub(super) fn send_ops<'c>(
        &self,
        client: &'c Client,
        ops: &[Op],
    ) -> impl Future<Output = Result<Option<Revision>, Error>> + Send + use<'c> {
        let (persistent, next) =
            (self.made(CreateMode::Persistent), self.made(CreateMode::PersistentSequential));
        let mut writer = client.new_multi_writer();
        let added = ops.iter().try_for_each(|op| match op {
            Op::Check(path, version) => writer.add_check_version(path, *version),
            Op::Create(path, data) => writer.add_create(path, data, &persistent),
            Op::Set(path, data, version) => writer.add_set_data(path, data, Some(*version)),
            Op::Delete(path, version) => writer.add_delete(path, Some(*version)),
            Op::Record(path, data) => writer.add_create(path, data, &next),
        });
        let sent = added.map(|()| writer.commit());
        async move {
            match sent?.await {
                Ok(results) => match results.first() {
                    Some(MultiWriteResult::SetData { stat }) => Ok(Some(revision(stat.mzxid))),
                    _ => Err(Error::UnexpectedError("no revision in the answer".into())),
                },
                Err(MultiWriteError::OperationFailed {
                    source: Error::NoNode | Error::BadVersion | Error::NodeExists,
                    ..
                }) => Ok(None),
                Err(error) => Err(error.into()),
            }
        }
    }
}

/// How many of these, from the first on, have nothing in common that one of them writes.
fn apart(txns: &[Txn]) -> usize {
    let (mut named, mut written) = (BTreeSet::new(), BTreeSet::new());
    let mut by = BTreeSet::new();
    for (nth, txn) in txns.iter().enumerate() {
        let writes: BTreeSet<_> = txn.writes.iter().map(evenkeel_core::registry::Write::key).collect();
        let owners = owners(txn);
        let meets = txn.keys().any(|key| written.contains(key))
            || writes.iter().any(|key| named.contains(key))
            || !by.is_disjoint(&owners);
        if nth == TOGETHER || (meets && nth > 0) {
            return nth;
        }
        named.extend(txn.keys());
        written.extend(writes);
        by.extend(owners);
    }
    txns.len()
}
