//! Seals entries anew, while nodes run: the last step before a former key of seals is dropped.

use evenkeel_core::keys::{self, ParsedKey, parse};
use evenkeel_core::record::{ClusterRecord, SealedSecret, SecretRecord, decode, encode};
use evenkeel_core::registry::{Guard, Txn, TxnOutcome, Write};
use evenkeel_registry::{Registry, RegistryError};

use crate::NodeIdentity;
use crate::seal_key::OpenedEntry;

/// How many entries are written in one request.
const BATCH: usize = 200;
/// How often what nodes have changed meanwhile is looked at again.
const ROUNDS: u32 = 20;

/// How many entries were sealed anew, and how many have no valid seal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resealed {
    /// The address of the registry, without a password.
    pub registry: String,
    /// Entries that have a seal of the first key now, and had one of another key.
    pub sealed: usize,
    /// Entries without a valid seal, which are left alone.
    pub foreign: usize,
}

/// Gives every entry that has the seal of another key one of the first key, and every secret what `secret` makes of it, if
/// anything. Repeating it is safe, also after a failure.
///
/// # Errors
/// The registry cannot be opened, read or written; `secret` fails; or nodes go on to write seals of another key.
pub async fn reseal(
    url: &str,
    identity: &NodeIdentity,
    secret: impl Fn(&SealedSecret) -> Result<Option<SealedSecret>, String>,
) -> Result<Resealed, RegistryError> {
    let shown = evenkeel_registry::redacted(url);
    let other =
        |found: &str| RegistryError::Refused(format!("{found} at {shown}: name the URL that the nodes use"));
    if !evenkeel_registry::exists(url).await? {
        return Err(other("there is no registry"));
    }
    let registry = evenkeel_registry::open(url).await?;
    let keys = &identity.seals;
    if let Some(txn) = cluster_change(&*registry, identity)
        .await?
        .ok_or_else(|| other("there is no cluster with this identity"))?
    {
        let done = registry.commit(vec![txn]).await.pop();
        if !matches!(done, Some(TxnOutcome::Applied(_))) {
            return Err(RegistryError::Unavailable(
                "the cluster's entry could not be written: try again".to_owned(),
            ));
        }
    }
    let mut done = Resealed { registry: shown, ..Resealed::default() };
    for _ in 0..ROUNDS {
        let (mut txns, mut foreign) = (Vec::new(), 0);
        for change in registry.list().await?.changes {
            let Some(entry) = change.entry else { continue };
            let anew = if change.key.has_seal() {
                match keys.open(&change.key, &entry.value) {
                    OpenedEntry::SealedByAnother(record) => Some(keys.seal(&change.key, &record)),
                    OpenedEntry::Sealed(_) => None,
                    OpenedEntry::Foreign(_) => {
                        foreign += 1;
                        None
                    }
                }
            } else if let Some(ParsedKey::Secret(_)) = parse(&change.key)
                && let Some(SecretRecord::Live(sealed)) = decode(&entry.value)
            {
                let anew = secret(&sealed).map_err(RegistryError::Refused)?;
                anew.map(|sealed| encode(&SecretRecord::Live(Box::new(sealed))))
            } else {
                None
            };
            let Some(value) = anew else { continue };
            let guards = vec![Guard::At(change.key.clone(), entry.revision)];
            txns.push(Txn { guards, writes: vec![Write::Put { key: change.key, value, owner: None }] });
        }
        done.foreign = foreign;
        if txns.is_empty() {
            return Ok(done);
        }
        done.sealed += write(&*registry, &txns).await?;
    }
    Err(RegistryError::Refused(
        "nodes go on to seal entries with the former key: give all of them the identity file first"
            .to_owned(),
    ))
}

/// Writes entries, and returns how many. One that a node has written meanwhile is left alone: the next round looks at it.
async fn write(registry: &dyn Registry, txns: &[Txn]) -> Result<usize, RegistryError> {
    let mut written = 0;
    for batch in txns.chunks(BATCH) {
        for outcome in registry.commit(batch.to_vec()).await {
            match outcome {
                TxnOutcome::Applied(_) => written += 1,
                TxnOutcome::Refused(_) => {}
                TxnOutcome::Unknown => {
                    let why =
                        registry.last_error().map_or_else(|| "no answer".to_owned(), |why| why.to_string());
                    let text = format!("not all entries are sealed anew ({why}): try again");
                    return Err(RegistryError::Unavailable(text));
                }
            }
        }
    }
    Ok(written)
}

/// The change by which the cluster's entry says which secret is in use, if it does not yet; `None` if it is another cluster.
async fn cluster_change(
    registry: &dyn Registry,
    identity: &NodeIdentity,
) -> Result<Option<Option<Txn>>, RegistryError> {
    let key = keys::cluster();
    let entry = registry.read(vec![key.clone()]).await?.pop().and_then(|change| change.entry);
    let Some((entry, cluster)) =
        entry.and_then(|entry| Some((entry.revision, decode::<ClusterRecord>(&entry.value)?)))
    else {
        return Ok(None);
    };
    if cluster.identity.as_ref() != Some(&identity.name) {
        return Ok(None);
    }
    let secret = identity.seals.fingerprints().into_iter().next().unwrap_or_default();
    Ok(Some(cluster.sealed_with(&secret).map(|cluster| {
        let write = Write::Put { key: key.clone(), value: encode(&cluster), owner: None };
        Txn { guards: vec![Guard::At(key, entry)], writes: vec![write] }
    })))
}

#[cfg(test)]
mod tests {
    use evenkeel_core::ids::JobName;
    use evenkeel_core::keys;

    use super::*;
    use crate::{SealKey, SealKeys};

    #[tokio::test]
    async fn entries_of_a_former_key_are_sealed_anew_and_others_are_left_alone() {
        let url = "memory:reseal";
        let registry = evenkeel_registry::open(url).await.unwrap();
        let [new, old, strange] = [1, 2, 3].map(|byte| SealKey::new([byte; 32]));
        let key = |job: usize| keys::spec(&format!("j{job}").parse::<JobName>().unwrap());
        let put = |n: usize, by: &SealKey| {
            let key = key(n);
            let value = SealKeys::new(by.clone(), []).seal(&key, b"{}");
            Txn { guards: Vec::new(), writes: vec![Write::Put { key, value, owner: None }] }
        };
        let all = (0..500).map(|n| put(n, &old)).chain([put(500, &new), put(501, &strange)]).collect();
        registry.commit(all).await;
        let both = |name: &str| NodeIdentity {
            name: name.to_owned(),
            seals: SealKeys::new(new.clone(), [old.clone()]),
        };
        let cluster = ClusterRecord::new("c".to_owned()).identified("own").unwrap();
        let write = Write::Put { key: keys::cluster(), value: encode(&cluster), owner: None };
        registry.commit(vec![Txn { guards: Vec::new(), writes: vec![write] }]).await;
        let refused = reseal(url, &both("another"), |_| Ok(None)).await.unwrap_err();
        assert!(refused.to_string().contains("no cluster with this identity"), "{refused}");
        let both = both("own");
        let done =
            async || reseal(url, &both, |_| Ok(None)).await.map(|done| (done.sealed, done.foreign)).unwrap();
        assert_eq!(done().await, (500, 1));
        let only = SealKeys::new(new, []);
        for change in registry.list().await.unwrap().changes {
            if !change.key.has_seal() {
                continue;
            }
            let sealed =
                matches!(only.open(&change.key, &change.entry.unwrap().value), OpenedEntry::Sealed(_));
            assert_eq!(sealed, change.key != key(501), "{}", change.key);
        }
        assert_eq!(done().await, (0, 1), "there is nothing more to do");
    }
}
