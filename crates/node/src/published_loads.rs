//! The loads that the nodes published. No feed carries them, so a handle reads them on demand.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::ids::Member;
use evenkeel_core::keys::{self, Key};
use evenkeel_core::record::{LoadRecord, decode};
use evenkeel_core::registry::Change;
use evenkeel_core::time::{Millis, Mono};
use tokio::sync::Mutex;

use crate::clock;

/// How long loads that were read are returned without reading them again. Nodes publish theirs once a beat.
const FRESH: Millis = Millis::secs(1);
/// How long a caller waits for the registry. Lists of nodes must not hang while it does not answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// The loads of the members that have published one in this life.
pub type NodeLoads = BTreeMap<Member, LoadRecord>;

/// The loads that were read last.
#[derive(Default)]
pub(crate) struct PublishedLoads(Mutex<ReadLoads>);

#[derive(Default)]
struct ReadLoads {
    loads: Arc<NodeLoads>,
    /// When they were last asked for.
    asked: Option<Mono>,
}

impl PublishedLoads {
    /// Returns the loads of these members, at most a second old. While the registry does not answer, they are those that
    /// were read last.
    pub(crate) async fn of<E>(
        &self,
        members: Vec<Member>,
        read: impl AsyncFnOnce(Vec<Key>) -> Result<BTreeMap<Key, Change>, E>,
    ) -> Arc<NodeLoads> {
        // Callers that come at the same time share one read.
        let mut known = self.0.lock().await;
        let now = clock::now().mono;
        if known.asked.is_some_and(|at| now - at < FRESH) {
            return Arc::clone(&known.loads);
        }
        let nodes: BTreeSet<Key> = members.iter().map(|member| keys::load(&member.node)).collect();
        if let Ok(Ok(found)) = tokio::time::timeout(PATIENCE, read(nodes.into_iter().collect())).await {
            let loads = members.into_iter().filter_map(|member| {
                let entry = found.get(&keys::load(&member.node))?.entry.as_ref()?;
                let load = decode::<LoadRecord>(&entry.value)?;
                (load.incarnation == member.incarnation).then_some((member, load))
            });
            known.loads = Arc::new(loads.collect());
        }
        known.asked = Some(now);
        Arc::clone(&known.loads)
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_core::load::{HostLoad, Score};
    use evenkeel_core::record::encode;
    use evenkeel_core::registry::{Entry, Revision};
    use evenkeel_core::time::Wall;

    use super::*;

    fn load(incarnation: u64) -> LoadRecord {
        let (sample, score) = (HostLoad::default(), Score(4_100));
        LoadRecord { incarnation, at: Wall(5), sample, busy: 1, dispatched: 0, slots: 4, score, seq: 9 }
    }

    fn change(key: Key, incarnation: u64) -> (Key, Change) {
        let revision = Revision(7);
        let entry = Entry { value: encode(&load(incarnation)), revision, born: revision, owner: None };
        (key.clone(), Change { key, entry: Some(entry), revision })
    }

    #[tokio::test]
    async fn loads_are_of_this_life_read_once_a_second_and_kept_while_the_registry_is_silent() {
        let members: Vec<Member> = ["a@1", "b@2", "c@3"].map(|text| text.parse().unwrap()).into();
        let loads = PublishedLoads::default();
        let known = loads
            .of(members.clone(), async |keys: Vec<Key>| {
                assert_eq!(keys.len(), 3);
                // The load of b is of an earlier life, and c has published none.
                Ok::<_, ()>(keys.into_iter().take(2).map(|key| change(key, 1)).collect())
            })
            .await;
        assert_eq!(*known, [(members[0].clone(), load(1))].into());
        // Whatever stalls the machine, they are fresh.
        loads.0.lock().await.asked = Some(clock::now().mono + Millis::secs(10_000));
        let reads_again = async |_: Vec<Key>| -> Result<_, ()> { panic!("they are fresh") };
        assert_eq!(loads.of(members.clone(), reads_again).await, known);
        loads.0.lock().await.asked = None;
        let silent = loads.of(members.clone(), async |_| std::future::pending::<Result<_, ()>>().await).await;
        assert_eq!(silent, known);
        loads.0.lock().await.asked = None;
        assert_eq!(loads.of(members, async |_| Err(())).await, known);
    }
}
