//! Roll-ups: how many fires came to which outcome, by hour, day and job, long after the rows of their attempts are gone.
//!
//! A batch that settles a fire changes the counts in its own transaction, so they are exact whatever dies when, and
//! nothing counts twice: each row of an attempt has a [mark](mark::FireMark) of what it counts as.
//!
//! - [`counts`] has the counts, [`mark`] what one fire counts as, [`tally`] the changes of a batch.
//! - [`packed`] holds the hours of a day in one row for each job; [`store`] writes the rows, [`query`] reads them.
//! - [`backfill`] counts the rows of an earlier version, [`sweep`] deletes what is too old.

pub(super) mod backfill;
pub(super) mod counts;
pub(super) mod mark;
mod packed;
mod query;
pub(super) mod store;
pub(super) mod sweep;
pub(super) mod tally;

pub(super) use counts::COUNT_COLUMNS;
pub use counts::FireCounts;
pub use mark::FireClass;
pub use query::{SummaryBy, SummaryFilter, SummaryOrder, SummaryPart, SummaryRow};

use evenkeel_core::time::{Millis, Wall};

/// How late a fire may start that counts as on time, where its job has no `late_after`.
pub(crate) const LATE: Millis = Millis::secs(60);
/// The milliseconds of an hour.
const HOUR: i64 = 3_600_000;
/// The hours of a day.
pub(super) const DAY: i64 = 24;
/// The counts of the whole cluster have this in place of a namespace.
const CLUSTER: &str = "";

/// The hour of a moment, counted from 1970 in UTC.
pub(super) fn hour_of(at: Wall) -> i64 {
    at.0.div_euclid(HOUR)
}
