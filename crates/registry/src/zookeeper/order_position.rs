//! How far the order of writes is, by which an ensemble that was rolled back is told from one that lags.

use zookeeper_client::Stat;

/// The position of the order: each write raises both numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OrderPosition {
    pub(super) zxid: i64,
    pub(super) writes: i32,
}

impl OrderPosition {
    pub(super) fn of(stat: &Stat) -> Self {
        Self { zxid: stat.mzxid, writes: stat.version }
    }

    /// Whether this position follows the other in one history. A rolled-back ensemble may have higher zxids at once,
    /// for each election starts a new range; then it has made fewer writes.
    pub(super) fn follows(self, seen: Option<Self>) -> bool {
        seen.is_none_or(|seen| {
            let more = self.zxid > seen.zxid && self.writes.wrapping_sub(seen.writes) > 0;
            more || self == seen
        })
    }
}
