//! What this node reads from the registry: the listings of everything, and the entries that no listing shows.

use alloc::collections::BTreeSet;

use crate::time::{Millis, Mono};
use crate::view::JobId;

/// How long a listing may be in flight before it is asked for again.
pub(crate) const LISTING_PATIENCE: Millis = Millis::secs(60);

/// The listings, and the reads in flight.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RegistryReads {
    /// Jobs whose entries are being read.
    reading: BTreeSet<JobId>,
    /// When the registry was last listed.
    listed: Option<Mono>,
    /// When a listing was requested that was not answered yet.
    listing: Option<Mono>,
    /// When to list again, if earlier than the next rescan.
    list_at: Mono,
}

impl Default for RegistryReads {
    fn default() -> Self {
        Self { reading: BTreeSet::new(), listed: None, listing: None, list_at: Mono(i64::MAX) }
    }
}

impl RegistryReads {
    /// Begins to read the entries of a job.
    pub(crate) fn begin_reading(&mut self, job: JobId) {
        self.reading.insert(job);
    }

    /// Notes that an entry of a job was read.
    pub(crate) fn was_read(&mut self, job: JobId) {
        self.reading.remove(&job);
    }

    /// Ends all reads: the failed one is not named, and reading twice does no harm.
    pub(crate) fn end_reading(&mut self) -> BTreeSet<JobId> {
        core::mem::take(&mut self.reading)
    }

    /// Whether entries of this job are being read.
    pub(crate) fn is_reading(&self, job: JobId) -> bool {
        self.reading.contains(&job)
    }

    /// How many jobs are being read.
    pub(crate) fn reading(&self) -> usize {
        self.reading.len()
    }

    /// Lists again at this moment, whatever was asked for before.
    pub(crate) fn list_at(&mut self, at: Mono) {
        self.list_at = at;
    }

    /// Lists again no later than at this moment.
    pub(crate) fn list_by(&mut self, at: Mono) {
        self.list_at = self.list_at.min(at);
    }

    /// Lists again now, though not sooner than `pause` after the last listing.
    pub(crate) fn list_after(&mut self, pause: Millis, now: Mono) {
        self.list_at = now.max(self.listed.map_or(now, |last| last + pause));
    }

    /// When to list next, if a listing is made every `rescan`.
    pub(crate) fn next_listing(&self, rescan: Millis, now: Mono) -> Mono {
        match (self.listing, self.listed) {
            (Some(asked), _) => asked + LISTING_PATIENCE,
            (None, Some(last)) => (last + rescan).min(self.list_at),
            (None, None) if self.list_at == Mono(i64::MAX) => now,
            (None, None) => self.list_at,
        }
    }

    /// Begins a listing.
    pub(crate) fn begin_listing(&mut self, now: Mono) {
        self.listing = Some(now);
        self.list_at = Mono(i64::MAX);
    }

    /// Notes that a listing was answered.
    pub(crate) fn was_listed(&mut self, now: Mono) {
        (self.listing, self.listed) = (None, Some(now));
    }

    /// Notes that a listing failed: it is asked for again at this moment.
    pub(crate) fn listing_failed(&mut self, again: Mono) {
        (self.listing, self.list_at) = (None, again);
    }

    /// Whether a listing is in flight.
    pub(crate) fn is_listing(&self) -> bool {
        self.listing.is_some()
    }
}
