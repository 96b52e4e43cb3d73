//! Whether a run that is planned ahead is still due.

use crate::ids::Fire;
use crate::record::Attempt;
use crate::time::{Millis, Wall};
use crate::view::JobTerms;

/// Whether a run that is planned ahead is no longer due.
pub(in crate::placement) fn is_stale(terms: &JobTerms, run: &Attempt, now: Wall) -> bool {
    let Fire::Due(due) = run.fire else { return !terms.enabled };
    let scheduled = || terms.schedule.as_ref().and_then(|s| s.next(due - Millis(1)));
    // A pause that ends before the run is due leaves it in the plan.
    (terms.paused && due <= now) || !terms.enabled || due <= terms.since || scheduled() != Some(due)
}
