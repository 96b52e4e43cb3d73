//! The data folder: its lock, and the identity of the node's last life.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use evenkeel_core::ids::NodeName;
use evenkeel_core::record::RegistryBookmark;
use evenkeel_core::registry::LeaseId;
use serde::{Deserialize, Serialize};

use crate::error::OpenError;

const LOCK: &str = "lock";
const CLUSTER: &str = "cluster";
const INCARNATION: &str = "incarnation";
const SEEN: &str = "seen";

/// A data folder locked by this process for as long as this value exists.
pub(super) struct DataFolder {
    path: PathBuf,
    node: NodeName,
    registry: String,
    /// One write at a time: a node that was frozen may open two leases at once.
    noting: Mutex<()>,
    /// The registry's position when it was last noted; `None` while its cluster is not known.
    seen: Mutex<Option<RegistryBookmark>>,
    trouble: Mutex<FolderHealth>,
    lock: File,
}

/// Whether the folder accepts writes.
#[derive(Default)]
struct FolderHealth {
    failing: bool,
    /// Why not, until it is reported.
    unreported: Option<String>,
}

/// The node, its cluster and its last life.
#[derive(Serialize, Deserialize)]
struct Incarnation {
    registry: String,
    node: NodeName,
    incarnation: u64,
}

/// The last known position of a cluster's registry.
#[derive(Serialize, Deserialize)]
struct StoredPosition {
    cluster: String,
    seen: RegistryBookmark,
}

impl DataFolder {
    /// Creates the folder if need be and locks it. The lock proves that no earlier process uses the folder (law 8).
    pub(super) fn open(path: &Path, node: &NodeName, registry: &str) -> Result<Self, OpenError> {
        let data = |error| OpenError::Data { path: path.to_path_buf(), error };
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(data)?;
        let path = fs::canonicalize(path).map_err(data)?;
        let lock = OpenOptions::new()
            .create(true)
            .write(true)
            .truncate(false)
            .mode(0o600)
            .open(path.join(LOCK))
            .map_err(data)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(OpenError::InUse(path)),
            Err(TryLockError::Error(e)) => return Err(data(e)),
        }
        Ok(Self {
            path,
            node: node.clone(),
            registry: registry.to_string(),
            noting: Mutex::new(()),
            seen: Mutex::new(None),
            trouble: Mutex::default(),
            lock,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Checks that the folder is still there, with the lock that was taken.
    ///
    /// # Errors
    /// It is gone or replaced; the text says what to do.
    pub(super) async fn verify(self: &Arc<Self>) -> Result<(), String> {
        let folder = self.clone();
        let looked = tokio::task::spawn_blocking(move || folder.is_there()).await;
        match looked {
            Ok(Ok(true)) | Err(_) => Ok(()),
            Ok(Ok(false) | Err(_)) => Err(format!(
                "data folder {} was deleted or replaced while in use: see what does that, then start this node again",
                self.path.display()
            )),
        }
    }

    fn is_there(&self) -> io::Result<bool> {
        let (found, taken) = (fs::metadata(self.path.join(LOCK))?, self.lock.metadata()?);
        Ok((found.dev(), found.ino()) == (taken.dev(), taken.ino()))
    }

    /// The last life of this node in this cluster, if the folder has a record of it.
    pub(super) fn predecessor(&self) -> Option<u64> {
        let noted: Incarnation = serde_json::from_slice(&fs::read(self.path.join(INCARNATION)).ok()?).ok()?;
        (noted.registry == self.registry && noted.node == self.node).then_some(noted.incarnation)
    }

    /// The cluster that this folder was used with.
    pub(super) fn cluster(&self) -> Option<String> {
        fs::read_to_string(self.cluster_file()).ok().filter(|id| !id.is_empty())
    }

    /// The file that stores it.
    pub(super) fn cluster_file(&self) -> PathBuf {
        self.path.join(CLUSTER)
    }

    /// Stores the cluster's id.
    pub(super) fn note_cluster(&self, id: &str) -> io::Result<()> {
        let mut file = private(&self.cluster_file())?;
        file.write_all(id.as_bytes())?;
        file.sync_all()
    }

    /// The last known position of this cluster's registry, whatever its URL, if the folder has a record of it.
    pub(super) fn seen(&self) -> Option<RegistryBookmark> {
        let noted: StoredPosition = serde_json::from_slice(&fs::read(self.path.join(SEEN)).ok()?).ok()?;
        (Some(noted.cluster) == self.cluster()).then_some(noted.seen)
    }

    /// Records the registry's position as found at the start.
    pub(super) fn note_found(&self, seen: RegistryBookmark) {
        let mut known = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        *known = Some(seen.clone());
        self.write_seen(&mut known, seen);
    }

    /// Records the registry's position by now. Not durably: a power cut loses some of it, and then a registry that was
    /// rolled back by less is not noticed. For a cluster that ends with its process nothing is recorded.
    pub(super) fn note_seen(&self, seen: RegistryBookmark) {
        let mut known = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        // Records may be written in another order than they were taken.
        let later =
            |known: &&RegistryBookmark| (seen.generation, seen.revision) > (known.generation, known.revision);
        let Some(before) = known.as_ref().filter(later) else { return };
        // Until this life makes a permanent write, the one of an earlier life still counts.
        let same = (before.engine, before.generation) == (seen.engine, seen.generation);
        let entry = seen.entry.or_else(|| before.entry.clone().filter(|_| same));
        self.write_seen(&mut known, RegistryBookmark { entry, ..seen });
    }

    fn write_seen(&self, known: &mut Option<RegistryBookmark>, seen: RegistryBookmark) {
        let Some(cluster) = self.cluster() else { return };
        let (new, noted) = (self.path.join("seen.new"), StoredPosition { cluster, seen: seen.clone() });
        let text = serde_json::to_vec(&noted).map_err(io::Error::from);
        let written = text.and_then(|text| private(&new)?.write_all(&text));
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        match written.and_then(|()| fs::rename(&new, self.path.join(SEEN))) {
            Ok(()) => {
                *known = Some(seen);
                *trouble = FolderHealth::default();
            }
            Err(error) => {
                let why = format!(
                    "data folder {} takes no writes ({error}): free its disk, and let this user write it; until then no output of \
                     runs is kept",
                    self.path.display()
                );
                tracing::warn!("{why}");
                if !std::mem::replace(&mut trouble.failing, true) {
                    trouble.unreported = Some(why);
                }
            }
        }
    }

    /// Why the folder accepts no writes; returned once each time that writes begin to fail.
    pub(super) fn trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).unreported.take()
    }

    /// Records durably the life that begins with this lease.
    pub(super) async fn note_incarnation(self: Arc<Self>, lease: LeaseId) -> io::Result<()> {
        let noted = tokio::task::spawn_blocking(move || self.note(lease));
        noted.await.unwrap_or_else(|panic| Err(io::Error::other(panic)))
    }

    fn note(&self, lease: LeaseId) -> io::Result<()> {
        let _alone = self.noting.lock().unwrap_or_else(PoisonError::into_inner);
        let incarnation =
            Incarnation { registry: self.registry.clone(), node: self.node.clone(), incarnation: lease.0 };
        let new = self.path.join("incarnation.new");
        let mut file = private(&new)?;
        file.write_all(&serde_json::to_vec(&incarnation)?)?;
        file.sync_all()?;
        fs::rename(&new, self.path.join(INCARNATION))?;
        File::open(&self.path)?.sync_all()
    }
}

/// Creates an empty file that only its owner can read, whatever the umask is.
fn private(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use evenkeel_core::registry::Revision;

    use super::*;

    fn open(path: &Path, node: &str, registry: &str) -> Result<DataFolder, OpenError> {
        DataFolder::open(path, &node.parse().unwrap(), registry)
    }

    #[test]
    fn one_process_lives_in_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/data");
        let first = open(&path, "a", "memory:").unwrap();
        assert!(matches!(open(&path, "a", "memory:"), Err(OpenError::InUse(_))));
        drop(first);
        assert!(open(&path, "a", "memory:").is_ok());
    }

    #[tokio::test]
    async fn a_folder_that_is_deleted_or_replaced_while_in_use_is_missed() {
        let data = tempfile::tempdir().unwrap();
        let path = data.path().join("data");
        let folder = Arc::new(open(&path, "a", "memory:").unwrap());
        assert_eq!(folder.verify().await, Ok(()));
        fs::rename(&path, data.path().join("away")).unwrap();
        assert!(folder.verify().await.unwrap_err().contains("start this node again"));
        let other = open(&path, "a", "memory:").unwrap();
        assert!(folder.verify().await.is_err(), "it is another one");
        drop(other);
    }

    #[test]
    fn a_folder_that_cannot_be_used_is_an_error_with_the_fix() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "").unwrap();
        let error = open(&path, "a", "memory:").err().unwrap().to_string();
        assert!(error.contains("choose another --data"), "{error}");
    }

    /// proves: I3
    #[tokio::test]
    async fn the_last_life_is_known_to_the_same_node_of_the_same_cluster_only() {
        let data = tempfile::tempdir().unwrap();
        let folder = Arc::new(open(data.path(), "a", "sqlite:x").unwrap());
        assert_eq!(folder.predecessor(), None);
        folder.clone().note_incarnation(LeaseId(7)).await.unwrap();
        folder.clone().note_incarnation(LeaseId(8)).await.unwrap();
        assert_eq!(folder.predecessor(), Some(8));
        drop(folder);
        for (node, registry) in [("b", "sqlite:x"), ("a", "sqlite:y")] {
            assert_eq!(open(data.path(), node, registry).unwrap().predecessor(), None);
        }
    }

    #[test]
    fn a_folder_that_takes_no_writes_is_told_of_each_time_that_it_begins() {
        let data = tempfile::tempdir().unwrap();
        let folder = open(data.path(), "a", "sqlite:one.db").unwrap();
        folder.note_cluster("c").unwrap();
        let seen = |revision| RegistryBookmark {
            engine: 0,
            generation: 0,
            revision: Revision(revision),
            entry: None,
        };
        folder.note_found(seen(0));
        assert_eq!(folder.trouble(), None);
        let in_the_way = data.path().join("seen.new");
        for round in [10, 20] {
            fs::create_dir(&in_the_way).unwrap();
            folder.note_seen(seen(round + 1));
            assert!(folder.trouble().is_some_and(|why| why.contains("takes no writes")), "{round}");
            folder.note_seen(seen(round + 2));
            assert_eq!(folder.trouble(), None, "it was told");
            fs::remove_dir(&in_the_way).unwrap();
            folder.note_seen(seen(round + 3));
            assert_eq!(folder.seen(), Some(seen(round + 3)));
        }
    }

    #[test]
    fn what_was_seen_last_of_this_cluster_is_remembered() {
        let folder = tempfile::tempdir().unwrap();
        let seen = |generation, revision| {
            let entry = (revision % 2 == 1).then(|| (format!("k{revision}"), Revision(revision)));
            RegistryBookmark { engine: 0, generation, revision: Revision(revision), entry }
        };
        let one = open(folder.path(), "a", "sqlite:one.db").unwrap();
        one.note_cluster("c").unwrap();
        one.note_seen(seen(0, 9));
        assert_eq!(one.seen(), None, "of a cluster that was not found");
        one.note_found(seen(0, 0));
        for (generation, revision, remembered) in
            [(0, 5, (0, 5)), (0, 4, (0, 5)), (1, 2, (1, 2)), (1, 3, (1, 3))]
        {
            one.note_seen(seen(generation, revision));
            assert_eq!(one.seen(), Some(seen(remembered.0, remembered.1)));
        }
        one.note_seen(seen(1, 4));
        let still = RegistryBookmark { entry: seen(1, 3).entry, ..seen(1, 4) };
        assert_eq!(one.seen(), Some(still.clone()), "what was written before is remembered");
        drop(one);
        let between = open(folder.path(), "a", "memory:").unwrap();
        between.note_seen(seen(0, 99));
        drop(between);
        let two = open(folder.path(), "a", "sqlite:two.db").unwrap();
        assert_eq!(two.seen(), Some(still), "wherever it is");
        two.note_cluster("d").unwrap();
        assert_eq!(two.seen(), None, "of another one");
    }
}
