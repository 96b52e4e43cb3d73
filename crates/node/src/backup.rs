//! Backup, restore and migration of a cluster's registry data.
//!
//! [`evenkeel_core::backup`] decides which entries are copied, and under which names. This module reads and writes
//! them. A process may die at any point without harm: the same call, made again, continues.

mod error;
mod file;
mod history;
mod migrate;
mod registry;
mod restore;

use evenkeel_core::backup::{BackupCounts, count_entries, open_runs, retire_members};
use evenkeel_core::record::{ClusterRecord, JoinRefusal, Layouts};

use crate::clock;
pub use error::BackupError;
pub use file::{Backup, BackupHeader};
pub use history::HistoryCopy;
pub use migrate::{MigrationReport, migrate};
use registry::BackupRegistry;
use restore::RestoreStart;

/// The result of a restore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoreReport {
    /// What was restored.
    pub tally: BackupCounts,
    /// The generation of fencing tokens from now on.
    pub generation: u16,
    /// Whether it was restored already, so that nothing was done.
    pub already: bool,
}

/// Backs up the registry data of the cluster at a URL. Nodes may be at work meanwhile; the entries of one job always
/// are of one moment.
///
/// # Errors
/// The registry cannot be read, or holds no cluster's data.
pub async fn backup(url: &str) -> Result<Backup, BackupError> {
    copy(&BackupRegistry::existing(url).await?).await
}

async fn copy(books: &BackupRegistry) -> Result<Backup, BackupError> {
    let (cluster, _) = books.owned().await?;
    if let Some(shut @ JoinRefusal::Filling { .. }) = &cluster.shut {
        return Err(books.conflict(&format!("is not whole: {shut}")));
    }
    let reading = books.read_all().await?;
    let engine = books.facts();
    let header = BackupHeader {
        layout: cluster.layout,
        generation: cluster.generation_on(engine.generation),
        cluster: cluster.id,
        engine: engine.engine.to_owned(),
        registry: books.url().to_owned(),
        taken: clock::now().wall,
        revisions: (reading.first, reading.last),
        members: reading.members,
        moved: cluster.shut.and_then(|shut| match shut {
            JoinRefusal::Moved { to, .. } => Some(to),
            JoinRefusal::Filling { .. } => None,
        }),
    };
    Ok(Backup { header, entries: reading.entries })
}

impl Backup {
    /// The number of entries of each kind.
    #[must_use]
    pub fn tally(&self) -> BackupCounts {
        count_entries(&self.entries)
    }

    /// The runs that were open when the backup was taken, in words.
    #[must_use]
    pub fn open_runs(&self) -> Vec<String> {
        open_runs(&self.entries)
    }

    /// The age of the backup in milliseconds, by this host's clock.
    #[must_use]
    pub fn age(&self) -> evenkeel_core::time::Millis {
        clock::now().wall - self.header.taken
    }
}

/// Restores a backup into an empty registry. Nodes can join once all of it is there.
///
/// # Errors
/// The registry is not empty, cannot hold the backup, or cannot be reached. Restoring the same backup again continues
/// where it stopped.
pub async fn restore(url: &str, backup: &Backup) -> Result<RestoreReport, BackupError> {
    put_back(&BackupRegistry::open(url).await?, backup).await
}

async fn put_back(books: &BackupRegistry, backup: &Backup) -> Result<RestoreReport, BackupError> {
    let BackupHeader { layout, cluster, taken, generation, .. } = &backup.header;
    if let Some(unknown) = Layouts::OWN.lacks(*layout) {
        return Err(BackupError::Invalid(format!("the backup cannot be read: {unknown}")));
    }
    let generation = restore::raised(*generation, books)?;
    // What was written after the backup was taken is lost.
    let (engine, lost) = (Some(books.facts().generation), Some(books.time().await?));
    let record =
        ClusterRecord { layout: *layout, generation, engine, lost, ..ClusterRecord::new(cluster.clone()) };
    let from = format!("the backup of {taken} ({})", backup.checksum());
    let entries = retire_members(&backup.entries);
    restore::must_fit(books, &entries)?;
    let filled = restore::begin(books, &from, record).await?;
    let already = matches!(filled, RestoreStart::Already(_));
    let generation = match filled {
        RestoreStart::Already(record) => record.generation,
        RestoreStart::Pending(mark) => restore::complete(books, mark, &entries).await?,
    };
    let generation = generation.saturating_add(books.facts().generation);
    Ok(RestoreReport { tally: count_entries(&entries), generation, already })
}

/// A registry's URL without its password, fit to be shown.
#[must_use]
pub fn shown(url: &str) -> String {
    evenkeel_registry::redacted(url)
}

#[cfg(test)]
mod tests;
