//! What this node reads from the registry: the listings of everything, and the entries that no listing shows.

use alloc::collections::BTreeSet;

use crate::time::{Millis, Mono};
use crate::view::JobId;

/// How long a listing may be in flight before it is asked for again.
pub(crate) const LISTING_PATIENCE: Millis = Millis::secs(60);

/// The listings, and the reads in flight.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RegistryReads {
    /// Jobs whose entries, or the loads of the nodes for which they wait, are being read.
    reading: BTreeSet<JobId>,
    /// The jobs that wait for the loads, also after a failed read: another job's read may answer before they ask again.
    await_loads: BTreeSet<JobId>,
    /// The beat in which a read of the loads began that was not answered yet.
    reading_loads: Option<u64>,
    /// The beat in which the last answered read of the loads began.
    loads_of: Option<u64>,
    /// When the loads may be read again after a failure.
    loads_again: Mono,
    /// When the registry was last listed.
    listed: Option<Mono>,
    /// When a listing was requested that was not answered yet.
    listing: Option<Mono>,
    /// When to list again, if earlier than the next rescan.
    list_at: Mono,
}

impl Default for RegistryReads {
    fn default() -> Self {
        Self {
            reading: BTreeSet::new(),
            await_loads: BTreeSet::new(),
            reading_loads: None,
            loads_of: None,
            loads_again: Mono(i64::MIN),
            listed: None,
            listing: None,
            list_at: Mono(i64::MAX),
        }
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
        self.reading_loads = None;
        core::mem::take(&mut self.reading)
    }

    /// Begins to read the loads of the nodes. Returns whether to send that: they are not being read yet.
    pub(crate) fn begin_reading_loads(&mut self, beat: u64) -> bool {
        let begins = self.reading_loads.is_none();
        self.reading_loads = self.reading_loads.or(Some(beat));
        begins
    }

    /// Begins to wait for the loads of the nodes on behalf of a job.
    pub(crate) fn await_loads(&mut self, job: JobId) {
        self.reading.insert(job);
        self.await_loads.insert(job);
    }

    /// Notes that the loads were read. Returns the jobs that waited for them.
    pub(crate) fn loads_were_read(&mut self) -> BTreeSet<JobId> {
        self.loads_of = self.reading_loads.take().or(self.loads_of);
        self.await_loads.iter().for_each(|job| {
            self.reading.remove(job);
        });
        core::mem::take(&mut self.await_loads)
    }

    /// Notes that the loads are not read again before this moment, because that failed.
    pub(crate) fn put_off_loads(&mut self, again: Mono) {
        self.loads_again = again;
    }

    /// When to read the loads in this beat; `None` if they were read in it, or are being read.
    pub(crate) fn loads_due(&self, beat: u64) -> Option<Mono> {
        (self.loads_of != Some(beat) && self.reading_loads.is_none()).then_some(self.loads_again)
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
