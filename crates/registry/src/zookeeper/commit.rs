//! Commits transactions: reads, plans and sends them, and reads again if another writer was faster.
//!
//! Neighbours that are independent go out together, many as one request, in their order, without waiting for each
//! other's answers. If one has a conflict, those that went with it are read again too, and go without it.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_core::keys::Key;
use evenkeel_core::registry::{LeaseId, Revision, Txn, TxnOutcome};
use zookeeper_client::{Client, CreateMode, Error, MultiWriteError, MultiWriteResult, Stat};

use super::order_position::OrderPosition;
use super::paths::{data_to_keys, revision};
use super::plan::{
    LeaseNote, MultiOp, MultiPlan, ZnodeVersion, ZnodeView, holds, leases, merge_plans, owners, plan_txn,
};
use super::session::{ANSWER, ZookeeperSession, to_duration};
use super::{FACTS, PACKET, packet_bytes};
use crate::{RegistryError, fits};

/// How often to try a transaction that has a conflict each time.
const TRIES: u32 = 30;

/// After this many tries, the first of them from the cache, each goes alone: then one with repeated conflicts delays no
/// other.
const TRIES_TOGETHER: u32 = 4;

/// How many are read together and are in flight at once, and how large they are at most if they are several.
const TOGETHER: usize = 1_000;
const BYTES: usize = 16 << 20;

/// How many go out as one: ZooKeeper agrees on each request by itself, which costs far more than its contents.
const AS_ONE: usize = 64;

/// The result of one attempt.
enum MultiOutcome {
    /// All were made.
    Applied(Revision),
    /// Another writer changed what was read. Nothing was written.
    Conflict,
}

/// The revision of operations, and the stat of each node that one of them wrote.
type MultiStats = (Revision, Vec<Option<Stat>>);

/// Transactions that are sent as one: their places, and their plans.
#[derive(Default)]
struct MultiBatch {
    places: Vec<usize>,
    plans: Vec<MultiPlan>,
    bytes: usize,
}

impl MultiBatch {
    fn deletes(&self) -> bool {
        self.plans.iter().any(|plan| plan.deletes)
    }
}

/// Adds a transaction to the last batch that has room for it, or begins another one.
fn add_to_batch(bundles: &mut Vec<MultiBatch>, most: usize, (nth, plan): (usize, MultiPlan), bytes: usize) {
    if bundles.last().is_none_or(|last| last.places.len() >= most || last.bytes + bytes > PACKET) {
        bundles.push(MultiBatch::default());
    }
    if let Some(last) = bundles.last_mut() {
        last.places.push(nth);
        last.plans.push(plan);
        last.bytes += bytes;
    }
}

impl ZookeeperSession {
    pub(super) async fn commit(&self, txns: &[Txn]) -> Vec<TxnOutcome> {
        let mut outcomes = vec![TxnOutcome::Unknown; txns.len()];
        let mut from = 0;
        while from < txns.len() {
            let to = from + independent_prefix(&txns[from..]);
            let settled = self.commit_independent(&txns[from..to], &mut outcomes[from..to]).await;
            self.set_last_error(settled.as_ref().err());
            if settled.is_err() {
                break;
            }
            from = to;
        }
        self.wake.notify_one();
        outcomes
    }

    /// Commits independent transactions.
    async fn commit_independent(
        &self,
        txns: &[Txn],
        outcomes: &mut [TxnOutcome],
    ) -> Result<(), RegistryError> {
        let mut waiting: Vec<usize> = (0..txns.len()).collect();
        for tried in 0..TRIES {
            let client = self.client().await?;
            let named: Vec<_> = waiting.iter().map(|nth| &txns[*nth]).collect();
            let view = match tried {
                0 => self.observe_cached(&client, &named).await?,
                _ => self.observe(&client, named.iter().copied(), true).await?,
            };
            let most = if tried < TRIES_TOGETHER { AS_ONE } else { 1 };
            let (mut planned, mut refused) = (Vec::new(), Vec::new());
            for nth in waiting {
                let good = fits(&FACTS, &txns[nth]) && packet_bytes(&txns[nth]) <= PACKET;
                match good.then(|| plan_txn(&self.paths, &txns[nth], &view)).flatten() {
                    Some(plan) => planned.push((nth, plan)),
                    None => refused.push((nth, !good)),
                }
            }
            // A transaction behind one that deletes relies on the count of deaths, so deletions go last.
            planned.sort_by_key(|(_, plan)| plan.deletes);
            let mut bundles = Vec::new();
            for (nth, plan) in planned {
                // The note of a lease is shared by all entries that it owns.
                let alone = !owners(&txns[nth]).is_empty();
                let bytes = if alone { PACKET } else { packet_bytes(&txns[nth]) };
                add_to_batch(&mut bundles, most, (nth, plan), bytes);
            }
            waiting = self.send_all(&client, bundles, view.deaths, outcomes).await?;
            for (nth, for_good) in refused {
                // Entries from a lagging follower or from the cache are no reason to refuse.
                if tried == 0 && !for_good {
                    waiting.push(nth);
                } else {
                    let found = self.read(txns[nth].keys().cloned().collect()).await?;
                    // It may hold again by now; then the entries that were read would be no reason.
                    if !for_good && holds(&txns[nth], &ZnodeView::from_changes(&found, &view)) {
                        waiting.push(nth);
                    } else {
                        outcomes[nth] = TxnOutcome::Refused(found);
                    }
                }
            }
            if waiting.is_empty() {
                return Ok(());
            }
            waiting.sort_unstable();
        }
        Err(RegistryError::Unavailable("others change the same entries all the time: try again".into()))
    }

    /// Sends batches one behind the other, and returns the transactions with a conflict. Those that delete come last.
    async fn send_all(
        &self,
        client: &Client,
        bundles: Vec<MultiBatch>,
        before: i32,
        outcomes: &mut [TxnOutcome],
    ) -> Result<Vec<usize>, RegistryError> {
        let (mut sent, mut deaths) = (Vec::with_capacity(bundles.len()), before);
        let (mut overtaken, mut killed) = (Vec::new(), false);
        for bundle in bundles {
            let kills = bundle.deletes();
            if kills && killed {
                // If the one before were not made, another writer's deletion could be taken for its own, and what was
                // deleted may be there again. So its answer is awaited.
                self.await_results(std::mem::take(&mut sent), &mut overtaken, outcomes).await?;
                if !overtaken.is_empty() {
                    overtaken.extend(bundle.places);
                    continue;
                }
            }
            killed |= kills;
            let ops = merge_plans(&self.paths, bundle.plans, deaths);
            deaths = deaths.wrapping_add(i32::from(kills));
            sent.push((bundle.places, self.send(client, ops, (before, deaths))));
        }
        self.await_results(sent, &mut overtaken, outcomes).await?;
        Ok(overtaken)
    }

    /// Waits for the answers to what was sent, and adds the transactions with a conflict.
    async fn await_results(
        &self,
        sent: Vec<(Vec<usize>, impl Future<Output = Result<MultiOutcome, Error>> + Send)>,
        overtaken: &mut Vec<usize>,
        outcomes: &mut [TxnOutcome],
    ) -> Result<(), RegistryError> {
        for (places, answer) in sent {
            match tokio::time::timeout(to_duration(ANSWER), answer).await {
                Ok(Ok(MultiOutcome::Applied(revision))) => {
                    places.into_iter().for_each(|nth| outcomes[nth] = TxnOutcome::Applied(revision));
                }
                Ok(Ok(MultiOutcome::Conflict)) => overtaken.extend(places),
                // The remaining ones are unknown.
                Ok(Err(error)) => return Err(self.explain(&error)),
                Err(_) => return Err(self.explain(&Error::Timeout)),
            }
        }
        Ok(())
    }

    /// Reads everything that some transactions name.
    async fn observe<'t>(
        &self,
        client: &Client,
        txns: impl Iterator<Item = &'t Txn> + Clone,
        sync: bool,
    ) -> Result<ZnodeView, RegistryError> {
        let synced = sync.then(|| client.sync(self.paths.root()));
        // First of all, so that a deletion after the entries were read is noticed by the check.
        let deaths = client.check_stat(&self.paths.deaths());
        let keys: BTreeSet<&Key> = txns.clone().flat_map(Txn::keys).collect();
        let leases: BTreeSet<LeaseId> = txns.clone().flat_map(leases).collect();
        let owners: BTreeSet<LeaseId> = txns.flat_map(owners).collect();
        let keys: Vec<_> =
            keys.into_iter().map(|key| (key, client.check_stat(&self.paths.entry(key)))).collect();
        let alive: Vec<_> =
            leases.into_iter().map(|lease| (lease, client.check_stat(&self.paths.lease(lease)))).collect();
        let noted: Vec<_> =
            owners.into_iter().map(|lease| (lease, client.get_data(&self.paths.owned(lease)))).collect();
        if let Some(synced) = synced {
            self.with_timeout(synced).await?;
        }
        let deaths = self.with_timeout(deaths).await?.ok_or_else(|| self.deleted_error())?.version;
        let mut view = ZnodeView { deaths, entries: BTreeMap::new(), leases: BTreeMap::new() };
        for (key, asked) in keys {
            if let Some(stat) = self.with_timeout(asked).await? {
                view.entries.insert(key.clone(), ZnodeVersion::of(&stat));
            }
        }
        self.entry_cache()
            .insert(deaths, view.entries.iter().map(|(key, seen)| (self.paths.entry(key), *seen)));
        for (lease, asked) in alive {
            if self.with_timeout(asked).await?.is_some() {
                view.leases.insert(lease, LeaseNote::default());
            }
        }
        for (lease, asked) in noted {
            match tokio::time::timeout(to_duration(ANSWER), asked).await {
                Ok(Ok((data, stat))) => {
                    if let Some(noted) = view.leases.get_mut(&lease) {
                        *noted = LeaseNote { keys: data_to_keys(&data), version: stat.version };
                    }
                }
                Ok(Err(Error::NoNode)) => drop(view.leases.remove(&lease)),
                Ok(Err(error)) => return Err(self.explain(&error)),
                Err(_) => return Err(self.explain(&Error::Timeout)),
            }
        }
        Ok(view)
    }

    /// Uses the cached versions of what some transactions name, if they match the guards; reads the rest.
    async fn observe_cached(&self, client: &Client, txns: &[&Txn]) -> Result<ZnodeView, RegistryError> {
        let (mut view, mut rest) = (ZnodeView::default(), Vec::new());
        {
            let memory = self.entry_cache();
            view.deaths = memory.deaths;
            for txn in txns {
                for key in txn.keys().filter(|key| !view.entries.contains_key(*key)).collect::<Vec<_>>() {
                    view.entries.extend(memory.get(&self.paths.entry(key)).map(|seen| (key.clone(), seen)));
                }
                let is_known = txn.keys().all(|key| view.entries.contains_key(key));
                if !is_known || !leases(txn).is_empty() || !holds(txn, &view) {
                    rest.push(*txn);
                }
            }
        }
        if rest.is_empty() {
            return Ok(view);
        }
        let looked = self.observe(client, rest.iter().copied(), false).await?;
        if rest.len() == txns.len() {
            return Ok(looked);
        }
        if looked.deaths != view.deaths {
            return self.observe(client, txns.iter().copied(), false).await;
        }
        view.entries.extend(looked.entries);
        view.leases = looked.leases;
        Ok(view)
    }

    /// Sends operations. `deaths` counts the deletions when all was read, and those after this request, if it relies on
    /// their number. The request is in flight when this returns.
    fn send<'c>(
        &'c self,
        client: &'c Client,
        ops: Vec<MultiOp>,
        (before, after): (i32, i32),
    ) -> impl Future<Output = Result<MultiOutcome, Error>> + Send + use<'c> {
        let sent = self.send_ops(client, &ops);
        async move {
            let Some((revision, stats)) = sent.await? else {
                self.entry_cache().clear();
                return Ok(MultiOutcome::Conflict);
            };
            // A request that relies on no version is made whatever was deleted, and those sent before it may not have
            // been made.
            let deaths_path = self.paths.deaths();
            let deaths = if ops.iter().any(|op| op.relies_on(&deaths_path)) { after } else { before };
            let gone: BTreeSet<_> = ops.iter().filter_map(MultiOp::deleted).map(str::to_owned).collect();
            let written = ops.into_iter().zip(stats).skip(1).filter_map(|(op, stat)| match (op, stat) {
                (MultiOp::Set(path, ..), Some(stat)) => Some((path, ZnodeVersion::of(&stat))),
                // Its stat is not requested, since some servers leave it out (ZOOKEEPER-4026, -4667).
                (MultiOp::Create(path, ..), _) => {
                    Some((path, ZnodeVersion { version: 0, revision, born: revision }))
                }
                _ => None,
            });
            let written = written.filter(|(path, _)| !gone.contains(path));
            self.entry_cache().insert(deaths, written);
            Ok(MultiOutcome::Applied(revision))
        }
    }

    /// Sends operations of which the first writes the order; `None` when one of them was refused.
    pub(super) fn send_ops<'c>(
        &'c self,
        client: &'c Client,
        ops: &[MultiOp],
    ) -> impl Future<Output = Result<Option<MultiStats>, Error>> + Send + use<'c> {
        let (persistent, next) = (
            self.create_options(CreateMode::Persistent),
            self.create_options(CreateMode::PersistentSequential),
        );
        let mut writer = client.new_multi_writer();
        let added = ops.iter().try_for_each(|op| match op {
            MultiOp::Check(path, version) => writer.add_check_version(path, *version),
            MultiOp::Create(path, data) => writer.add_create(path, data, &persistent),
            MultiOp::Set(path, data, version) => writer.add_set_data(path, data, Some(*version)),
            MultiOp::Delete(path, version) => writer.add_delete(path, Some(*version)),
            MultiOp::Record(path, data) => writer.add_create(path, data, &next),
        });
        let seen = self.known_order();
        let sent = added.map(|()| writer.commit());
        async move {
            match sent?.await {
                Ok(results) => {
                    let stats = results.into_iter().map(|result| match result {
                        MultiWriteResult::SetData { stat } => Some(stat),
                        _ => None,
                    });
                    let stats: Vec<_> = stats.collect();
                    match stats.first() {
                        // The next read finds out for certain.
                        Some(Some(order)) if !self.record_order(OrderPosition::of(order), seen) => {
                            Err(Error::UnexpectedError("the order is not as it was".into()))
                        }
                        Some(Some(order)) => Ok(Some((revision(order.mzxid), stats))),
                        _ => Err(Error::UnexpectedError("no revision in the answer".into())),
                    }
                }
                Err(MultiWriteError::OperationFailed {
                    source: Error::NoNode | Error::BadVersion | Error::NodeExists,
                    ..
                }) => Ok(None),
                Err(error) => Err(error.into()),
            }
        }
    }
}

/// How many of these, from the first on, are independent of each other.
fn independent_prefix(txns: &[Txn]) -> usize {
    let (mut named, mut written) = (BTreeSet::new(), BTreeSet::new());
    let (mut by, mut bytes) = (BTreeSet::new(), 0);
    for (nth, txn) in txns.iter().enumerate() {
        let writes: BTreeSet<_> = txn.writes.iter().map(evenkeel_core::registry::Write::key).collect();
        let owners = owners(txn);
        let meets = txn.keys().any(|key| written.contains(key))
            || writes.iter().any(|key| named.contains(key))
            || !by.is_disjoint(&owners);
        bytes += packet_bytes(txn);
        if nth == TOGETHER || ((meets || bytes > BYTES) && nth > 0) {
            return nth;
        }
        named.extend(txn.keys());
        written.extend(writes);
        by.extend(owners);
    }
    txns.len()
}
