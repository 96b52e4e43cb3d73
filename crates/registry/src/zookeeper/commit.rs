//! Transactions: looked at, planned, sent, and looked at again where somebody was faster.
//!
//! Neighbours that have nothing in common go out together, many as one request, in their order, without waiting for each
//! other's answers. Where one was overtaken those that went with it are looked at again too, and go without it.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_core::keys::Key;
use evenkeel_core::registry::{LeaseId, Outcome, Revision, Txn};
use zookeeper_client::{Client, CreateMode, Error, MultiWriteError, MultiWriteResult, Stat};

use super::history::Order;
use super::link::{ANSWER, Link, span};
use super::plan::{Noted, Op, Plan, Seen, Sight, holds, leases, owners, plan, together};
use super::tree::{data_to_keys, revision};
use super::{FACTS, PACKET, packet_bytes};
use crate::{RegistryError, fits};

/// How often one is tried that is overtaken each time.
const TRIES: u32 = 30;

/// After so many tries, the first of them by memory, each goes alone: then one that is overtaken again and again holds up no
/// other.
const TRIES_TOGETHER: u32 = 4;

/// How many are looked at together, and are on their way at once, and how large they are at most if they are several.
const TOGETHER: usize = 1_000;
const BYTES: usize = 16 << 20;

/// How many go out as one: ZooKeeper agrees on each request by itself, which costs far more than what is in it.
const AS_ONE: usize = 64;

/// What became of one attempt.
enum Attempt {
    /// All were made.
    Made(Revision),
    /// Somebody changed what was seen. Nothing was written.
    Overtaken,
}

/// At which revision operations were made, and what became of each node that one of them wrote.
type Made = (Revision, Vec<Option<Stat>>);

/// Transactions that are sent as one: their places, and what they come to.
#[derive(Default)]
struct Bundle {
    places: Vec<usize>,
    plans: Vec<Plan>,
    bytes: usize,
}

impl Bundle {
    fn kills(&self) -> bool {
        self.plans.iter().any(|plan| plan.kills)
    }
}

/// Adds a transaction to the last bundle that is no larger than this, or begins another one.
fn add(bundles: &mut Vec<Bundle>, most: usize, (nth, plan): (usize, Plan), bytes: usize) {
    if bundles.last().is_none_or(|last| last.places.len() >= most || last.bytes + bytes > PACKET) {
        bundles.push(Bundle::default());
    }
    if let Some(last) = bundles.last_mut() {
        last.places.push(nth);
        last.plans.push(plan);
        last.bytes += bytes;
    }
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
            let named: Vec<_> = waiting.iter().map(|nth| &txns[*nth]).collect();
            let sight = match tried {
                0 => self.recall(&client, &named).await?,
                _ => self.look(&client, named.iter().copied(), true).await?,
            };
            let most = if tried < TRIES_TOGETHER { AS_ONE } else { 1 };
            let (mut planned, mut refused) = (Vec::new(), Vec::new());
            for nth in waiting {
                let good = fits(&FACTS, &txns[nth]) && packet_bytes(&txns[nth]) <= PACKET;
                match good.then(|| plan(&self.tree, &txns[nth], &sight)).flatten() {
                    Some(plan) => planned.push((nth, plan)),
                    None => refused.push((nth, !good)),
                }
            }
            // Those behind one that deletes count on it, so it goes behind those that do not.
            planned.sort_by_key(|(_, plan)| plan.kills);
            let mut bundles = Vec::new();
            for (nth, plan) in planned {
                // What lives by a lease is noted there with all that did before.
                let alone = !owners(&txns[nth]).is_empty();
                let bytes = if alone { PACKET } else { packet_bytes(&txns[nth]) };
                add(&mut bundles, most, (nth, plan), bytes);
            }
            waiting = self.send_all(&client, bundles, sight.deaths, outcomes).await?;
            for (nth, for_good) in refused {
                // What a follower does not know yet is no reason to refuse, nor is what is remembered.
                if tried == 0 && !for_good {
                    waiting.push(nth);
                } else {
                    let found = self.read(txns[nth].keys().cloned().collect()).await?;
                    // It may hold again by now; then what is found would be no reason.
                    if !for_good && holds(&txns[nth], &Sight::of(&found, &sight)) {
                        waiting.push(nth);
                    } else {
                        outcomes[nth] = Outcome::Refused(found);
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

    /// Sends bundles one behind the other, and returns who was overtaken. Those that delete come last.
    async fn send_all(
        &self,
        client: &Client,
        bundles: Vec<Bundle>,
        before: i32,
        outcomes: &mut [Outcome],
    ) -> Result<Vec<usize>, RegistryError> {
        let (mut sent, mut deaths) = (Vec::with_capacity(bundles.len()), before);
        let (mut overtaken, mut killed) = (Vec::new(), false);
        for bundle in bundles {
            let kills = bundle.kills();
            if kills && killed {
                // Were the one before not made, somebody else's death could be taken for it, and what was deleted then may be
                // there again. So its answer is waited for.
                self.take_answers(std::mem::take(&mut sent), &mut overtaken, outcomes).await?;
                if !overtaken.is_empty() {
                    overtaken.extend(bundle.places);
                    continue;
                }
            }
            killed |= kills;
            let ops = together(&self.tree, bundle.plans, deaths);
            deaths = deaths.wrapping_add(i32::from(kills));
            sent.push((bundle.places, self.send(client, ops, (before, deaths))));
        }
        self.take_answers(sent, &mut overtaken, outcomes).await?;
        Ok(overtaken)
    }

    /// Waits for the answers to what was sent, and adds who was overtaken.
    async fn take_answers(
        &self,
        sent: Vec<(Vec<usize>, impl Future<Output = Result<Attempt, Error>> + Send)>,
        overtaken: &mut Vec<usize>,
        outcomes: &mut [Outcome],
    ) -> Result<(), RegistryError> {
        for (places, answer) in sent {
            match tokio::time::timeout(span(ANSWER), answer).await {
                Ok(Ok(Attempt::Made(revision))) => {
                    places.into_iter().for_each(|nth| outcomes[nth] = Outcome::Applied(revision));
                }
                Ok(Ok(Attempt::Overtaken)) => overtaken.extend(places),
                // Whatever is left is unknown.
                Ok(Err(error)) => return Err(self.explain(&error)),
                Err(_) => return Err(self.explain(&Error::Timeout)),
            }
        }
        Ok(())
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
                sight.entries.insert(key.clone(), Seen::of(&stat));
            }
        }
        self.memory().keep(deaths, sight.entries.iter().map(|(key, seen)| (self.tree.entry(key), *seen)));
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

    /// What is remembered of all that some transactions name, where it is as they guard on it; the rest is looked at.
    async fn recall(&self, client: &Client, txns: &[&Txn]) -> Result<Sight, RegistryError> {
        let (mut sight, mut rest) = (Sight::default(), Vec::new());
        {
            let memory = self.memory();
            sight.deaths = memory.deaths;
            for txn in txns {
                for key in txn.keys().filter(|key| !sight.entries.contains_key(*key)).collect::<Vec<_>>() {
                    sight.entries.extend(memory.of(&self.tree.entry(key)).map(|seen| (key.clone(), seen)));
                }
                let is_known = txn.keys().all(|key| sight.entries.contains_key(key));
                if !is_known || !leases(txn).is_empty() || !holds(txn, &sight) {
                    rest.push(*txn);
                }
            }
        }
        if rest.is_empty() {
            return Ok(sight);
        }
        let looked = self.look(client, rest.iter().copied(), false).await?;
        if rest.len() == txns.len() {
            return Ok(looked);
        }
        if looked.deaths != sight.deaths {
            return self.look(client, txns.iter().copied(), false).await;
        }
        sight.entries.extend(looked.entries);
        sight.leases = looked.leases;
        Ok(sight)
    }

    /// Sends operations. There had been so many deaths when all was looked at, and so many after this if it relies on their
    /// number. They are on their way when this returns.
    fn send<'c>(
        &'c self,
        client: &'c Client,
        ops: Vec<Op>,
        (before, after): (i32, i32),
    ) -> impl Future<Output = Result<Attempt, Error>> + Send + use<'c> {
        let sent = self.send_ops(client, &ops);
        async move {
            let Some((revision, stats)) = sent.await? else {
                self.memory().clear();
                return Ok(Attempt::Overtaken);
            };
            // What relies on no version is made however many have died, and those sent before it may not have been made.
            let deaths_path = self.tree.deaths();
            let deaths = if ops.iter().any(|op| op.relies_on(&deaths_path)) { after } else { before };
            let gone: BTreeSet<_> = ops.iter().filter_map(Op::deleted).map(str::to_owned).collect();
            let written = ops.into_iter().zip(stats).skip(1).filter_map(|(op, stat)| match (op, stat) {
                (Op::Set(path, ..), Some(stat)) => Some((path, Seen::of(&stat))),
                // Its stat is not asked for, since some servers leave it out (ZOOKEEPER-4026, -4667).
                (Op::Create(path, ..), _) => Some((path, Seen { version: 0, revision, born: revision })),
                _ => None,
            });
            let written = written.filter(|(path, _)| !gone.contains(path));
            self.memory().keep(deaths, written);
            Ok(Attempt::Made(revision))
        }
    }

    /// Sends operations of which the first writes the order; `None` when one of them was not possible.
    pub(super) fn send_ops<'c>(
        &'c self,
        client: &'c Client,
        ops: &[Op],
    ) -> impl Future<Output = Result<Option<Made>, Error>> + Send + use<'c> {
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
        let seen = self.seen();
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
                        // Whoever looks next finds out for certain.
                        Some(Some(order)) if !self.saw(Order::of(order), seen) => {
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

/// How many of these, from the first on, have nothing in common that one of them writes.
fn apart(txns: &[Txn]) -> usize {
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
