//! The misfire settings of a job: what becomes of late fires.

use super::Overlap;
use crate::due::{CatchUp, CatchUpSpread, MisfirePolicy};
use crate::time::Millis;

/// The misfire settings of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct MisfireSettings {
    /// How late a fire may still start; `None` for what suits the leases.
    pub grace: Option<Millis>,
    /// Which of the older ones are caught up.
    pub catch_up: CatchUp,
    /// What becomes of fires that came due while a run executed.
    pub overlap: Overlap,
    /// How old a caught-up fire may be.
    pub age: Option<Millis>,
    /// Over which span caught-up fires are spread.
    pub spread: Option<CatchUpSpread>,
}

impl MisfireSettings {
    /// The misfire policy under leases of `ttl`.
    #[must_use]
    pub fn policy(&self, ttl: Millis) -> MisfirePolicy {
        let grace = self.grace.unwrap_or_else(|| default_grace(ttl));
        // A fire that may wait for a run may also wait for a node to run it.
        let catch_up = match self.overlap {
            Overlap::Queue(n) => CatchUp::All(n),
            _ => self.catch_up,
        };
        let newest = self.overlap == Overlap::Replace;
        MisfirePolicy { grace, catch_up, age: self.age, spread: self.spread, newest, lost: None }
    }
}

/// How late a fire may still start when the job does not say: long enough to outlast a takeover under leases of `ttl`.
#[must_use]
pub fn default_grace(ttl: Millis) -> Millis {
    Millis::secs(60).max(ttl + Millis::secs(5))
}
