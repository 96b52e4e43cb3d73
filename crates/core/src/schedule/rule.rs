//! One rule of a schedule, as it was read.

use super::cron_fields::CronFields;
use super::zone::Dst;
use crate::time::Wall;

/// A rule: one line of the text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum ScheduleRule {
    /// Local times of the zone's calendar.
    Cron(CronFields, Dst),
    /// Every so many milliseconds, counted from so many after the Unix epoch.
    Every(i64, i64),
    /// So many milliseconds after the end of the run before.
    AfterCompletion(i64),
    /// One moment.
    Once(Wall),
}
