//! Restores registry data into an empty registry. First a marker keeps nodes from joining and other restores out; then
//! the entries are written and compared; last, the registry is opened.

use evenkeel_core::backup::{EntryMap, asking_for_more, too_large};
use evenkeel_core::keys::{self, Key};
use evenkeel_core::record::{ClusterRecord, JoinRefusal, decode, encode};
use evenkeel_core::registry::{Change, Guard, Revision, Txn, Value, Write};

use super::error::BackupError;
use super::registry::{BackupRegistry, TxnResult};

/// How many entries, and how many bytes of them, are in flight at once.
const TOGETHER: usize = 200;
const BYTES: usize = 1 << 20;
/// Entries of `diagnose`, which are soon gone.
const TRIALS: &str = "doctor/";

/// A registry that accepts these entries, no others, and no members.
pub(super) struct RestoreMarker {
    /// The cluster's record as it will be once everything is there.
    record: ClusterRecord,
    at: Revision,
}

/// Whether the restore still has to be done.
pub(super) enum RestoreStart {
    /// It was completed before.
    Already(ClusterRecord),
    /// It has to be completed.
    Pending(RestoreMarker),
}

/// Checks that the engine accepts every entry, and gives every job the durability that it requires.
pub(super) fn must_fit(books: &BackupRegistry, entries: &EntryMap) -> Result<(), BackupError> {
    let class = books.facts().class;
    let asking = asking_for_more(entries.iter(), class);
    if let Some(job) = asking.first() {
        let more = match asking.len() {
            1 => String::new(),
            2 => " (as does 1 more job)".to_owned(),
            n => format!(" (as do {} more jobs)", n - 1),
        };
        return Err(books.conflict(&format!(
            "gives class {class:?}, and job {job} asks for more{more}: see `evenkeel cluster doctor` for what would make it \
             better, or declare the job with a lower guarantee where it is now"
        )));
    }
    let most = books.facts().value_max;
    let large = too_large(entries, most);
    let Some((key, size)) = large.first() else { return Ok(()) };
    Err(books.conflict(&format!(
        "takes {most} bytes a value, and {key} has {size}{}: choose another engine, or make the job smaller",
        if large.len() > 1 { format!(" ({} more are too large)", large.len() - 1) } else { String::new() }
    )))
}

/// Marks an empty registry, or finds the marker of an earlier try with the same backup.
pub(super) async fn begin(
    books: &BackupRegistry,
    from: &str,
    record: ClusterRecord,
) -> Result<RestoreStart, BackupError> {
    let shut = Some(JoinRefusal::Filling { from: from.to_owned() });
    let record = ClusterRecord { filled: Some(from.to_owned()), ..record };
    let ours = |found: &ClusterRecord| found.id == record.id && found.generation >= record.generation;
    // Earlier programs did not record it.
    let same = |found: &ClusterRecord| found.filled.is_none() || found.filled == record.filled;
    if let Some((found, at)) = books.cluster().await? {
        return match &found.shut {
            it if *it == shut && ours(&found) => {
                Ok(RestoreStart::Pending(RestoreMarker { record: ClusterRecord { shut: None, ..found }, at }))
            }
            None if ours(&found) && same(&found) => Ok(RestoreStart::Already(found)),
            Some(other @ JoinRefusal::Filling { .. }) => Err(books.conflict(&format!("is taken: {other}"))),
            _ => Err(books.conflict(&format!(
                "is not empty, it is the registry of cluster {}: choose another namespace or file",
                found.id
            ))),
        };
    }
    let listed = books.list().await?;
    let stranger = listed.changes.iter().find(|it| !it.key.as_str().starts_with(TRIALS));
    if let Some(stranger) = stranger {
        return Err(books.conflict(&format!(
            "is not empty, there is {}{}: choose another namespace or file",
            stranger.key,
            if listed.changes.len() > 1 {
                format!(" and {} more", listed.changes.len() - 1)
            } else {
                String::new()
            }
        )));
    }
    let marked = ClusterRecord { shut, ..record.clone() };
    let value = encode(&marked);
    let txn =
        Txn { guards: vec![Guard::Absent(keys::cluster())], writes: vec![put(keys::cluster(), &value)] };
    match books.settle(vec![txn]).await?.pop() {
        Some(TxnResult::Applied(at)) => Ok(RestoreStart::Pending(RestoreMarker { record, at })),
        // The first try may have succeeded; any other value is another process's.
        Some(TxnResult::Refused(found)) if exact_revision(&found, &keys::cluster(), &value).is_some() => {
            let at = exact_revision(&found, &keys::cluster(), &value).unwrap_or_default();
            Ok(RestoreStart::Pending(RestoreMarker { record, at }))
        }
        _ => Err(books.conflict("was empty a moment ago and is not any more: see who else writes there")),
    }
}

/// Writes what is missing, compares everything, opens the registry. Returns what the engine's generation is raised by.
pub(super) async fn complete(
    books: &BackupRegistry,
    mark: RestoreMarker,
    entries: &EntryMap,
) -> Result<u16, BackupError> {
    let mut batch: Vec<(&Key, &Value)> = Vec::new();
    let mut bytes = 0;
    for (key, value) in entries {
        bytes += value.len();
        batch.push((key, value));
        if batch.len() == TOGETHER || bytes >= BYTES {
            write(books, &mark, std::mem::take(&mut batch)).await?;
            bytes = 0;
        }
    }
    write(books, &mark, batch).await?;
    compare(books, entries).await?;
    open(books, &mark).await?;
    Ok(mark.record.generation)
}

/// Each entry is written once, and only while the marker exists: a late write finds a running cluster and does nothing.
async fn write(
    books: &BackupRegistry,
    mark: &RestoreMarker,
    batch: Vec<(&Key, &Value)>,
) -> Result<(), BackupError> {
    let txn = |(key, value): &(&Key, &Value)| Txn {
        guards: vec![Guard::At(keys::cluster(), mark.at), Guard::Absent((*key).clone())],
        writes: vec![put((*key).clone(), value)],
    };
    let settled = books.settle(batch.iter().map(txn).collect()).await?;
    for ((key, value), settled) in batch.into_iter().zip(settled) {
        let TxnResult::Refused(found) = settled else { continue };
        if exact_revision(&found, key, value).is_none() {
            return Err(books.conflict(&format!(
                "did not take {key}, because somebody else writes there: see who, and begin with an empty one"
            )));
        }
    }
    Ok(())
}

/// The revision of exactly this value.
fn exact_revision(found: &[Change], key: &Key, value: &Value) -> Option<Revision> {
    let entry = found.iter().find(|change| change.key == *key)?.entry.as_ref()?;
    (entry.value == *value).then_some(entry.revision)
}

async fn compare(books: &BackupRegistry, entries: &EntryMap) -> Result<(), BackupError> {
    let mut found = books.read_all().await?.entries;
    found.retain(|key, _| !key.as_str().starts_with(TRIALS));
    let differs = |key: &&Key| found.get(*key) != entries.get(*key);
    match entries.keys().chain(found.keys()).find(differs) {
        None => Ok(()),
        Some(key) => Err(books.conflict(&format!(
            "has not kept {key} as it was written: see who else writes there, and begin with an empty one"
        ))),
    }
}

async fn open(books: &BackupRegistry, mark: &RestoreMarker) -> Result<(), BackupError> {
    let value = encode(&mark.record);
    let txn =
        Txn { guards: vec![Guard::At(keys::cluster(), mark.at)], writes: vec![put(keys::cluster(), &value)] };
    match books.settle(vec![txn]).await?.pop() {
        Some(TxnResult::Applied(_)) => Ok(()),
        Some(TxnResult::Refused(found)) if is_open(&found, &mark.record) => Ok(()),
        _ => {
            Err(books
                .conflict("was changed by somebody else meanwhile: see who, and begin with an empty one"))
        }
    }
}

/// Whether the same restore has opened it: this process, or another one with the same backup.
fn is_open(found: &[Change], record: &ClusterRecord) -> bool {
    let entry =
        found.iter().find(|change| change.key == keys::cluster()).and_then(|change| change.entry.as_ref());
    entry.and_then(|entry| decode::<ClusterRecord>(&entry.value)).as_ref() == Some(record)
}

fn put(key: Key, value: &Value) -> Write {
    Write::Put { key, value: value.clone(), owner: None }
}

/// The number to add to the generation of the registry's engine, so that new tokens are greater than all tokens of this
/// generation, and than the engine's own.
pub(super) fn raised(generation: u16, books: &BackupRegistry) -> Result<u16, BackupError> {
    let engine = books.facts().generation;
    let added = generation.saturating_sub(engine).saturating_add(1);
    match u32::from(engine) + u32::from(added) <= u32::from(u16::MAX) && generation < u16::MAX {
        true => Ok(added),
        false => Err(BackupError::Conflict(format!(
            "the generation is {generation}, and there are not many more: declare the jobs anew in an empty registry"
        ))),
    }
}
