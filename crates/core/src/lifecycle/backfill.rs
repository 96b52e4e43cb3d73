//! Runs of backfills: since when they wait, and what their records say of them. They stand for moments long ago.

use alloc::format;
use alloc::string::String;

use super::JobRuns;
use crate::record::{Attempt, Backfill};
use crate::time::Wall;

impl JobRuns<'_> {
    /// The backfill of which an attempt is one, while the registry has it.
    fn backfill(&self, attempt: &Attempt) -> Option<&Backfill> {
        self.job.triggers()?.value.as_ref()?.backfill_of(&attempt.fire)
    }

    /// Since when the fire of an attempt has been wanted: it waits in line behind what was wanted before.
    pub(crate) fn wanted_since(&self, attempt: &Attempt) -> Wall {
        self.backfill(attempt).map_or(attempt.due, |backfill| backfill.at)
    }

    /// Why there is this run, for people; empty for one that is of no backfill.
    pub(crate) fn backfill_text(&self, attempt: &Attempt) -> String {
        let place = |backfill: &Backfill| Some((backfill.position(&attempt.fire)? + 1, backfill.dues.len()));
        let found = self.backfill(attempt).and_then(|backfill| Some((&backfill.id, place(backfill)?)));
        found.map(|(id, (n, all))| format!("backfill {id}, {n} of {all}")).unwrap_or_default()
    }
}
