//! Migrates an idle cluster: marks the new registry, closes the old one, then copies everything.
//!
//! Until the old registry is closed nothing has changed there. From then on nodes cannot join it, and its contents
//! cannot change, for only members write; so another migration copies exactly the same.

use std::time::Duration;

use evenkeel_core::backup::{BackupCounts, count_entries, open_runs, retire_members};
use evenkeel_core::keys;
use evenkeel_core::record::{ClusterRecord, JoinRefusal, encode};
use evenkeel_core::registry::{DurabilityClass, Guard, Revision, Txn, Write};
use evenkeel_core::time::Millis;

use super::error::BackupError;
use super::history::{self, HistoryCopy};
use super::registry::{BackupRegistry, BackupSnapshot, TxnResult};
use super::restore::{self, RestoreStart};
use crate::clock;

/// How often to check for living members.
const AGAIN: Duration = Duration::from_millis(200);
/// The most names in a message.
const NAMED: usize = 5;

/// The result of a migration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MigrationReport {
    /// The old registry's URL, without a password.
    pub from: String,
    /// The new registry's URL.
    pub to: String,
    /// What was copied.
    pub tally: BackupCounts,
    /// The generation of fencing tokens from now on.
    pub generation: u16,
    /// The durability class before and after, if the new one is weaker.
    pub weaker: Option<(DurabilityClass, DurabilityClass)>,
    /// Whether it was migrated before, so that nothing was done.
    pub already: bool,
    /// What happened to the history beside the registry's file.
    pub past: HistoryCopy,
}

/// Migrates a cluster without living nodes; waits up to `patience` for the last one. A killed node counts as living
/// until its lease ends, which many engines see only when asked.
///
/// # Errors
/// A node lives, a run is open, the new registry is not empty or cannot hold the data, or one of the registries cannot
/// be reached. Migrating again continues where it stopped.
pub async fn migrate(from: &str, to: &str, patience: Duration) -> Result<MigrationReport, BackupError> {
    let source = BackupRegistry::existing(from).await?;
    // Before anything is created at the other end.
    let (cluster, _) = source.owned().await?;
    if cluster.shut.is_none() {
        let patience = Millis(i64::try_from(patience.as_millis()).unwrap_or(i64::MAX));
        let until = clock::now().mono + patience;
        while let Err(why) = read_idle(&source).await {
            if clock::now().mono >= until || !source.has_members().await? {
                return Err(why);
            }
            tokio::time::sleep(AGAIN).await;
        }
    }
    let moved = migrate_between(&source, &BackupRegistry::open(to).await?).await?;
    Ok(MigrationReport { past: history::copy_history(from, to).await, ..moved })
}

pub(super) async fn migrate_between(
    source: &BackupRegistry,
    target: &BackupRegistry,
) -> Result<MigrationReport, BackupError> {
    let (cluster, at) = source.owned().await?;
    if source.url() == target.url() {
        return Err(source.conflict("would be moved onto itself: say another one with --to"));
    }
    let shut = match &cluster.shut {
        None => None,
        Some(JoinRefusal::Moved { to, .. }) if to == target.url() => Some(at),
        Some(other) => return Err(source.conflict(&format!("cannot be moved: {other}"))),
    };
    let reading = match shut {
        None => read_idle(source).await?,
        Some(_) => source.read_all().await?,
    };
    if shut.is_none() {
        restore::must_fit(target, &retire_members(&reading.entries))?;
    }
    let (engine, class) = (source.facts().generation, (source.facts().class, target.facts().class));
    let generation = restore::raised(cluster.generation_on(engine), target)?;
    let engine = Some(target.facts().generation);
    let record = ClusterRecord { generation, engine, shut: None, ..cluster.wanting(None) };
    let moved = |reading: &BackupSnapshot, generation: u16, already| MigrationReport {
        from: source.url().to_owned(),
        to: target.url().to_owned(),
        tally: count_entries(&reading.entries),
        generation: generation.saturating_add(target.facts().generation),
        weaker: (class.1 < class.0).then_some(class),
        already,
        past: HistoryCopy::None,
    };
    let mark = match restore::begin(target, &format!("the move from {}", source.url()), record).await? {
        RestoreStart::Pending(mark) => mark,
        RestoreStart::Already(found) if shut.is_some() => return Ok(moved(&reading, found.generation, true)),
        RestoreStart::Already(found) => {
            return Err(target.conflict(&format!(
                "is not empty, it keeps books of the same cluster ({}): choose another namespace or file",
                found.id
            )));
        }
    };
    let shut = match shut {
        Some(at) => at,
        None => close(source, cluster.clone(), at, target.url()).await?,
    };
    // A node may have joined between the first check and the closing: then everything is undone.
    let reading = source.read_all().await?;
    let entries = retire_members(&reading.entries);
    if let Err(why) = check_idle(source, &reading).and_then(|()| restore::must_fit(target, &entries)) {
        rewrite(source, ClusterRecord { shut: None, ..cluster }, shut).await?;
        return Err(why);
    }
    let generation = restore::complete(target, mark, &entries).await?;
    Ok(moved(&reading, generation, false))
}

/// Reads everything, once no node lives there and no work is half done.
async fn read_idle(source: &BackupRegistry) -> Result<BackupSnapshot, BackupError> {
    source.sweep().await?;
    let reading = source.read_all().await?;
    check_idle(source, &reading)?;
    Ok(reading)
}

/// Checks that no node lives there and no work is half done.
fn check_idle(source: &BackupRegistry, reading: &BackupSnapshot) -> Result<(), BackupError> {
    if !reading.members.is_empty() {
        let names: Vec<_> = reading.members.iter().map(|member| member.node.to_string()).collect();
        return Err(source.conflict(&format!(
            "has living nodes: {}: stop each with Ctrl-C or SIGTERM, so that it ends its runs and gives its jobs back, then \
             do the same again; where one was killed say --wait 1m, for it lives until its lease ends",
            few(&names)
        )));
    }
    let open = open_runs(&reading.entries);
    if open.is_empty() {
        return Ok(());
    }
    Err(source.conflict(&format!(
        "has runs that have not ended, since their nodes did not stop by themselves: {}: start a node there, wait until \
         they are settled, stop it with Ctrl-C or SIGTERM, then do the same again",
        few(&open)
    )))
}

/// The first few names, and how many more there are.
fn few(all: &[String]) -> String {
    let more = all.len().saturating_sub(NAMED);
    let named = all[..all.len() - more].join(", ");
    if more == 0 { named } else { format!("{named} and {more} more") }
}

/// Closes a registry: every join that has not seen it fails from now on. Returns the revision of the closing.
async fn close(
    source: &BackupRegistry,
    cluster: ClusterRecord,
    at: Revision,
    to: &str,
) -> Result<Revision, BackupError> {
    let shut = JoinRefusal::Moved { to: to.to_owned(), at: clock::now().wall };
    rewrite(source, ClusterRecord { shut: Some(shut), ..cluster }, at).await
}

/// Rewrites the cluster's entry. Returns its revision.
async fn rewrite(
    source: &BackupRegistry,
    record: ClusterRecord,
    at: Revision,
) -> Result<Revision, BackupError> {
    let write = Write::Put { key: keys::cluster(), value: encode(&record), owner: None };
    let txn = Txn { guards: vec![Guard::At(keys::cluster(), at)], writes: vec![write] };
    match source.settle(vec![txn]).await?.pop() {
        Some(TxnResult::Applied(at)) => Ok(at),
        _ => match source.owned().await? {
            // The first try had succeeded.
            (found, at) if found == record => Ok(at),
            _ => Err(source.conflict("was changed by somebody else meanwhile: do the same again")),
        },
    }
}
