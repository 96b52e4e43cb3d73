//! Starts whose secrets are being read.
//!
//! A folder of secrets may be slow, so another thread reads it: neither the node nor its guard waits for it.

use std::collections::BTreeMap;

use evenkeel_core::ids::RunId;
use tokio::task::{Id, JoinSet};

use super::wire::{AttemptId, LaunchSpec};
use crate::secrets;

/// A start with its secrets, or the attempt that has none and why.
pub(super) type PreparedStart = Result<Box<LaunchSpec>, (AttemptId, String)>;

/// The starts whose secrets are being read.
#[derive(Debug, Default)]
pub(super) struct PreparingStarts {
    tasks: JoinSet<PreparedStart>,
    /// The attempt of each task that is still wanted.
    wanted: BTreeMap<Id, AttemptId>,
}

impl PreparingStarts {
    /// Reads the secrets that this start names.
    pub(super) fn put(&mut self, mut launch: Box<LaunchSpec>) {
        let id = launch.id.clone();
        let task = self.tasks.spawn_blocking(move || {
            let named = launch.setting.secrets.take().unwrap_or_default();
            match secrets::give(&named, &launch.reader) {
                Ok(given) => {
                    launch.secrets = given;
                    Ok(launch)
                }
                Err(why) => Err((launch.id, why)),
            }
        });
        self.wanted.insert(task.id(), id);
    }

    /// The next start whose secrets were read; waits for it. May be dropped at any point.
    pub(super) async fn next(&mut self) -> Option<PreparedStart> {
        loop {
            match self.tasks.join_next_with_id().await? {
                Ok((task, prepared)) => {
                    if self.wanted.remove(&task).is_some() {
                        return Some(prepared);
                    }
                }
                Err(e) => {
                    if let Some(id) = self.wanted.remove(&e.id()) {
                        return Some(Err((id, format!("its secrets were not read: {e}"))));
                    }
                }
            }
        }
    }

    /// Removes the starts of a run, and returns them.
    pub(super) fn drop_run(&mut self, run: &RunId) -> Vec<AttemptId> {
        let dropped = self.wanted.extract_if(.., |_, id| id.run == *run);
        dropped.map(|(_, id)| id).collect()
    }

    /// Removes all, and returns them.
    pub(super) fn clear(&mut self) -> Vec<AttemptId> {
        std::mem::take(&mut self.wanted).into_values().collect()
    }

    /// Whether no start is being prepared.
    pub(super) fn is_empty(&self) -> bool {
        self.wanted.is_empty()
    }
}
