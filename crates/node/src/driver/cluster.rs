//! Checks that the registry and the data folder belong to the same cluster, so that two clusters are never mixed up.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::keys::{self, Key};
use evenkeel_core::record::{ClusterRecord, Layouts, RegistryBookmark, RegistryPosition, decode, encode};
use evenkeel_core::registry::{Change, Guard, Revision, Txn, TxnOutcome, Write};
use evenkeel_core::time::Millis;
use evenkeel_registry::{Registry, RegistryError};

use super::data_folder::DataFolder;
use crate::NodeIdentity;
use crate::clock;
use crate::error::OpenError;

/// How often to try to write the cluster's entry; each time another node may be faster.
const ATTEMPTS: u32 = 20;

/// Refuses a data folder of another cluster, a registry of an unknown layout, and a registry that accepts no members.
/// The first node of a cluster gives it an id. Returns the generation of fencing tokens here.
pub(super) async fn check(
    registry: &Arc<dyn Registry>,
    url: &str,
    folder: &DataFolder,
    (identity, ttl): (Option<&NodeIdentity>, Millis),
) -> Result<u16, OpenError> {
    let engine = registry.facts().generation;
    // A cluster that ends with its process cannot be mixed up with another one.
    if registry.facts().engine == "memory" {
        return Ok(engine);
    }
    let known = folder.cluster();
    let cluster = match read(registry).await? {
        Some(cluster) => cluster,
        // A new id for an emptied registry would shut out all other nodes, and the backup too.
        None if known.is_some() => {
            return Err(OpenError::Setting(format!(
                "the registry {url} is empty, but the data folder {} was used with a cluster: give the registry that \
                 belongs to it; if that has lost its data, restore a backup (`evenkeel cluster restore`), or remove {} \
                 to begin anew",
                folder.path().display(),
                folder.cluster_file().display()
            )));
        }
        None => create(registry).await?,
    };
    if let Some(unknown) = Layouts::OWN.lacks(cluster.layout) {
        return Err(OpenError::Setting(format!("no node can join at the registry {url}: {unknown}")));
    }
    if let Some(shut) = &cluster.shut {
        return Err(OpenError::Setting(format!("no node can join at the registry {url}: {shut}")));
    }
    match known {
        Some(known) if known != cluster.id => {
            return Err(OpenError::Setting(format!(
                "the data folder {} belongs to another cluster than the registry {url}: give the registry or the data \
                 folder that belongs to it, or remove {} to let the folder join this cluster",
                folder.path().display(),
                folder.cluster_file().display()
            )));
        }
        Some(_) => {}
        None => folder
            .note_cluster(&cluster.id)
            .map_err(|error| OpenError::Data { path: folder.cluster_file(), error })?,
    }
    let cluster = match identity {
        Some(identity) => {
            let cluster = identify(registry, cluster, &identity.name, url).await?;
            knows_secret(&cluster, identity, url)?;
            cluster
        }
        None => cluster,
    };
    let seen = folder.seen();
    let found = reconcile(registry, cluster, (engine, ttl), url, seen.as_ref()).await?;
    let generation = found.generation_on(engine);
    // The next write here will show its position.
    let same = seen.filter(|seen| (seen.engine, seen.generation) == (engine, generation));
    folder.note_found(same.unwrap_or(RegistryBookmark {
        engine,
        generation,
        revision: Revision::default(),
        entry: None,
    }));
    Ok(generation)
}

/// Compares this node's identity with the cluster's: nodes of two identities could not talk to each other. The first node
/// says it.
async fn identify(
    registry: &Arc<dyn Registry>,
    mut cluster: ClusterRecord,
    identity: &str,
    url: &str,
) -> Result<ClusterRecord, OpenError> {
    for _ in 0..ATTEMPTS {
        let Some(new) = cluster.identified(identity) else { break };
        if replace(registry, &cluster, &new).await? {
            return Ok(new);
        }
        // Another node was faster, or the answer was lost.
        cluster = read(registry).await?.unwrap_or(cluster);
    }
    match cluster.identity.as_deref() {
        Some(known) if known == identity => Ok(cluster),
        Some(known) => Err(OpenError::Setting(format!(
            "this node has the identity {identity}, and the cluster at the registry {url} has {known}: say \
             `evenkeel cluster join-token` on a host of the cluster, and start this node with --join TOKEN and a new \
             --identity FILE"
        ))),
        None => Err(unwritten()),
    }
}

/// Refuses an identity of before the cluster's secret was replaced: other nodes would not believe what this one seals.
fn knows_secret(cluster: &ClusterRecord, identity: &NodeIdentity, url: &str) -> Result<(), OpenError> {
    match &cluster.secret {
        Some(secret) if !identity.seals.fingerprints().contains(secret) => Err(OpenError::Setting(format!(
            "this node has the identity of the cluster at the registry {url} as it was before its secret was replaced: copy \
             the file of the identity from another host of the cluster"
        ))),
        _ => Ok(()),
    }
}

/// Replaces the cluster's entry, unless it is another one now. Returns whether it did.
async fn replace(
    registry: &Arc<dyn Registry>,
    old: &ClusterRecord,
    new: &ClusterRecord,
) -> Result<bool, OpenError> {
    let key = keys::cluster();
    let change = registry.read(vec![key.clone()]).await?;
    let Some(entry) = change.first().and_then(|change| change.entry.as_ref()) else {
        return Err(unwritten());
    };
    if record(&change)?.as_ref() != Some(old) {
        return Ok(false);
    }
    let guards = vec![Guard::At(key.clone(), entry.revision)];
    let writes = vec![Write::Put { key, value: encode(new), owner: None }];
    let done = registry.commit(vec![Txn { guards, writes }]).await.pop();
    Ok(matches!(done, Some(TxnOutcome::Applied(_))))
}

fn unwritten() -> OpenError {
    RegistryError::Unavailable("the cluster's entry could not be written: try again".into()).into()
}

async fn read(registry: &Arc<dyn Registry>) -> Result<Option<ClusterRecord>, OpenError> {
    record(&registry.read(vec![keys::cluster()]).await?)
}

/// Reads the registry's position, also by what this node remembers of it.
async fn read_position(
    registry: &Arc<dyn Registry>,
    seen: Option<&RegistryBookmark>,
) -> Result<RegistryPosition, OpenError> {
    let remembered = seen.and_then(|seen| seen.entry.as_ref());
    let mut keys = vec![keys::cluster()];
    keys.extend(remembered.map(|(key, _)| Key::from_stored(key)));
    let found = registry.read(keys).await?;
    let silent = || RegistryError::Unavailable("the registry says nothing of its cluster: try again".into());
    let revision = found.first().ok_or_else(silent)?.revision;
    let entry = found.get(1).and_then(|change| change.entry.as_ref()).map(|entry| entry.revision);
    Ok(RegistryPosition { revision, entry })
}

/// Records the engine's present generation. If it is another one, writes made until now may be lost; so too if the
/// registry has less than this node saw in its last life, which an engine that was restored as it was cannot report.
/// Each node does this before it joins. The engine refuses nodes of an earlier generation, or they read the new one
/// here. But they may not know yet, and have runs until they stop trusting their leases, so the new generation is
/// recorded only after any lease could have ended.
async fn reconcile(
    registry: &Arc<dyn Registry>,
    mut cluster: ClusterRecord,
    (engine, ttl): (u16, Millis),
    url: &str,
    seen: Option<&RegistryBookmark>,
) -> Result<ClusterRecord, OpenError> {
    // Before any write: a write of any node may move a rolled-back registry past the remembered position.
    let (mut waited, stands) = (false, read_position(registry, seen).await?);
    for _ in 0..ATTEMPTS {
        // Both may have happened meanwhile: then this node must not write it.
        if Layouts::OWN.lacks(cluster.layout).is_some() || cluster.shut.is_some() {
            return Ok(cluster);
        }
        let behind = seen.filter(|seen| cluster.is_behind(seen, engine, stands));
        let another = behind.is_some() || cluster.engine.is_some_and(|known| known != engine);
        if another && !std::mem::replace(&mut waited, true) {
            tracing::warn!(
                "the registry {url} may have gone back in time: waiting {ttl} until all nodes that were there have noticed"
            );
            // A registry that has lost them cannot report that they left.
            tokio::time::sleep(Duration::from_millis(ttl.0.unsigned_abs())).await;
            cluster = read(registry).await?.unwrap_or(cluster);
            continue;
        }
        let now = if another { clock::of(registry).await? } else { clock::now().wall };
        let new = match behind {
            Some(seen) => Some(cluster.gone_back(seen, engine, now)),
            None => cluster.found_on(engine, now),
        };
        let Some(new) = new else { return Ok(cluster) };
        if replace(registry, &cluster, &new).await? {
            if new.lost != cluster.lost {
                tracing::warn!(
                    "jobs with delivery at_most_once skip what was due until now: it may have run, and be forgotten"
                );
            }
            return Ok(new);
        }
        // Another node was faster, or the answer was lost.
        cluster = read(registry).await?.unwrap_or(cluster);
    }
    Err(unwritten())
}

async fn create(registry: &Arc<dyn Registry>) -> Result<ClusterRecord, OpenError> {
    let key = keys::cluster();
    // The kernel's own random numbers; two clusters must never get the same id.
    let id = std::fs::read_to_string("/proc/sys/kernel/random/uuid");
    let id = id.map_err(|e| OpenError::Setting(format!("the system gives no random id: {e}")))?;
    let new = ClusterRecord::new(id.trim().to_string());
    let txn = Txn {
        guards: vec![Guard::Absent(key.clone())],
        writes: vec![Write::Put { key, value: encode(&new), owner: None }],
    };
    match registry.commit(vec![txn]).await.pop() {
        Some(TxnOutcome::Applied(_)) => Ok(new),
        // Another node was faster, or the own first try had succeeded.
        _ => read(registry).await?.ok_or_else(unwritten),
    }
}

fn record(found: &[Change]) -> Result<Option<ClusterRecord>, OpenError> {
    let Some(entry) = found.first().and_then(|change| change.entry.as_ref()) else { return Ok(None) };
    let record = decode(&entry.value);
    record.map(Some).ok_or_else(|| {
        OpenError::Setting(format!(
            "the entry {} is not ours: is this another program's registry?",
            found[0].key
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// proves: I1
    #[tokio::test]
    async fn what_a_node_wrote_tells_a_registry_that_went_back_though_others_carried_the_order_on() {
        let dir = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", dir.path().join("registry.db").display());
        let registry = evenkeel_registry::open(&url).await.unwrap();
        let check = async || {
            let folder = DataFolder::open(&dir.path().join("data"), &"a".parse().unwrap(), &url).unwrap();
            let generation = check(&registry, &url, &folder, (None, Millis(1))).await.unwrap();
            (folder, generation)
        };
        let key = Key::from_stored("job/a/assignment");
        let writes = vec![Write::Put { key: key.clone(), value: b"1".as_slice().into(), owner: None }];
        let written = async || {
            let txn = Txn { guards: Vec::new(), writes: writes.clone() };
            let Some(TxnOutcome::Applied(at)) = registry.commit(vec![txn]).await.pop() else {
                panic!("not written")
            };
            at
        };
        let first = check().await.1;
        let at = written().await;
        let seen = |generation, key: &Key, at| {
            let entry = Some((key.as_str().to_owned(), at));
            RegistryBookmark { engine: first, generation, revision: Revision(1), entry }
        };
        let (folder, _) = check().await;
        folder.note_seen(seen(first, &key, at));
        drop(folder);
        let (folder, generation) = check().await;
        assert_eq!(generation, first, "it is as it was seen");
        folder.note_seen(RegistryBookmark {
            revision: Revision(2),
            ..seen(first, &Key::from_stored("job/b/assignment"), Revision(9_999))
        });
        drop(folder);
        let (folder, generation) = check().await;
        assert_eq!(generation, first, "deleted meanwhile, for all anybody knows");
        folder.note_seen(RegistryBookmark { revision: Revision(3), ..seen(first, &key, Revision(at.0 + 1)) });
        drop(folder);
        let (folder, generation) = check().await;
        assert_eq!(generation, first + 1, "it was written later than that");
        drop(folder);
        assert_eq!(check().await.1, first + 1, "once");
    }
}
