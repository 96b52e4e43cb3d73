//! Moves a cluster that stands still: the new registry is marked, the old one shut, then everything is carried over.
//!
//! Until the old registry is shut nothing has changed there. From then on nobody can join it, and what it holds can change
//! no more, for only members write; so whoever moves again carries the very same.

use std::time::Duration;

use evenkeel_core::backup::{BackupCounts, count_entries, open_runs, retire_members};
use evenkeel_core::keys;
use evenkeel_core::record::{ClusterRecord, JoinRefusal, encode};
use evenkeel_core::registry::{DurabilityClass, Guard, Revision, Txn, Write};
use evenkeel_core::time::Millis;

use super::history::{self, HistoryCopy};
use super::registry::{BackupRegistry, BackupSnapshot, TxnResult};
use super::restore::{self, RestoreStart};
use super::{BackupError, now, raised};
use crate::clock;

/// How often it is looked whether somebody still lives.
const AGAIN: Duration = Duration::from_millis(200);
/// How many names a message tells.
const NAMED: usize = 5;

/// What came of a move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MigrationReport {
    /// Where the books were, without a password.
    pub from: String,
    /// Where they are.
    pub to: String,
    /// What was carried.
    pub tally: BackupCounts,
    /// The generation that tokens carry from now on.
    pub generation: u16,
    /// What a claim was worth and what it is worth now, where that is less.
    pub weaker: Option<(DurabilityClass, DurabilityClass)>,
    /// Whether it was moved before, so that nothing was done.
    pub already: bool,
    /// What became of the history beside the registry's file.
    pub past: HistoryCopy,
}

/// Moves a cluster none of whose nodes lives, `patience` from now at the latest: one that was killed lives until its lease
/// ends, which many engines see only while somebody asks.
///
/// # Errors
/// A node lives, a run is open, the new registry is not empty or cannot hold the books, or one of them cannot be reached.
/// Moving again goes on where it stopped.
pub async fn migrate(from: &str, to: &str, patience: Duration) -> Result<MigrationReport, BackupError> {
    let source = BackupRegistry::existing(from).await?;
    // Before anything is made at the other end.
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
    let generation = raised(cluster.generation_on(engine), target)?;
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
    // Somebody may have joined between the first look and the closing: then all is as it was.
    let reading = source.read_all().await?;
    let entries = retire_members(&reading.entries);
    if let Err(why) = check_idle(source, &reading).and_then(|()| restore::must_fit(target, &entries)) {
        rewrite(source, ClusterRecord { shut: None, ..cluster }, shut).await?;
        return Err(why);
    }
    let generation = restore::complete(target, mark, &entries).await?;
    Ok(moved(&reading, generation, false))
}

/// All that is there, once nobody lives there and nothing is half done.
async fn read_idle(source: &BackupRegistry) -> Result<BackupSnapshot, BackupError> {
    source.sweep().await?;
    let reading = source.read_all().await?;
    check_idle(source, &reading)?;
    Ok(reading)
}

/// Sees that nobody lives there and nothing is half done.
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

/// The first of these, and how many more there are.
fn few(all: &[String]) -> String {
    let more = all.len().saturating_sub(NAMED);
    let named = all[..all.len() - more].join(", ");
    if more == 0 { named } else { format!("{named} and {more} more") }
}

/// Shuts a registry: every join that has not heard of it fails from now on. Returns since when.
async fn close(
    source: &BackupRegistry,
    cluster: ClusterRecord,
    at: Revision,
    to: &str,
) -> Result<Revision, BackupError> {
    let shut = JoinRefusal::Moved { to: to.to_owned(), at: now() };
    rewrite(source, ClusterRecord { shut: Some(shut), ..cluster }, at).await
}

/// Writes the cluster's entry anew. Returns since when it stands.
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
            // Our first try had landed.
            (found, at) if found == record => Ok(at),
            _ => Err(source.conflict("was changed by somebody else meanwhile: do the same again")),
        },
    }
}
