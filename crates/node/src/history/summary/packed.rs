//! The counts of a job in the hours of one day, packed into a few bytes.
//!
//! Three bytes say in which hours there are counts. For each of them follow a byte that says which counts there are, and
//! those counts, seven bits a byte with the lowest first. A job that runs each hour takes about a hundred bytes a day.

use super::counts::{CountDelta, FireCounts, KINDS};

/// The counts by hour of the day, in order, without hours that have none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct DayCounts(Vec<(u8, FireCounts)>);

impl DayCounts {
    /// Reads what [`encode`](Self::encode) wrote; `None` for anything else.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (mask, mut rest) = bytes.split_first_chunk::<3>()?;
        let mask = u32::from_le_bytes([mask[0], mask[1], mask[2], 0]);
        let mut hours = Vec::with_capacity(mask.count_ones() as usize);
        for hour in (0..24u8).filter(|hour| mask & (1 << hour) != 0) {
            let (kinds, more) = rest.split_first()?;
            rest = more;
            let mut counts = [0; KINDS];
            for (kind, count) in counts.iter_mut().enumerate() {
                if kinds & (1 << kind) != 0 {
                    (*count, rest) = number(rest)?;
                }
            }
            hours.push((hour, FireCounts::from_array(counts)));
        }
        rest.is_empty().then_some(Self(hours))
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mask = self.0.iter().fold(0u32, |mask, (hour, _)| mask | (1 << hour));
        let mut bytes = mask.to_le_bytes()[..3].to_vec();
        for (_, counts) in &self.0 {
            let counts = counts.to_array();
            let has = |(kind, count): (usize, &u64)| if *count > 0 { 1u8 << kind } else { 0 };
            bytes.push(counts.iter().enumerate().map(has).sum());
            counts.iter().filter(|count| **count > 0).for_each(|count| push(&mut bytes, *count));
        }
        bytes
    }

    /// Applies a change in one hour of the day, 0 to 23.
    pub(super) fn apply(&mut self, hour: u8, delta: &CountDelta) {
        let at = self.0.binary_search_by_key(&hour, |(hour, _)| *hour);
        let at = at.unwrap_or_else(|at| {
            self.0.insert(at, (hour, FireCounts::default()));
            at
        });
        self.0[at].1.apply(delta);
        if self.0[at].1 == FireCounts::default() {
            self.0.remove(at);
        }
    }

    /// The hours of the day with counts.
    pub(super) fn hours(&self) -> impl Iterator<Item = (u8, &FireCounts)> {
        self.0.iter().map(|(hour, counts)| (*hour, counts))
    }

    /// How many of the fires did not do their work, and should have.
    pub(super) fn trouble(&self) -> u64 {
        self.0.iter().map(|(_, counts)| counts.trouble()).sum()
    }
}

fn push(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut number = 0u64;
    for (n, byte) in bytes.iter().enumerate().take(10) {
        number |= u64::from(byte & 0x7f) << (7 * n);
        if byte & 0x80 == 0 {
            return Some((number, &bytes[n + 1..]));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_read_back_as_written() {
        let mut day = DayCounts::default();
        assert_eq!(DayCounts::decode(&day.encode()), Some(day.clone()));
        for hour in [23, 0, 7] {
            day.apply(hour, &CountDelta::of(0, 3 + i64::from(hour)));
            day.apply(hour, &CountDelta::of(7, i64::MAX));
        }
        assert_eq!(DayCounts::decode(&day.encode()), Some(day.clone()));
        assert_eq!(day.hours().map(|(hour, _)| hour).collect::<Vec<_>>(), [0, 7, 23]);
        let bytes = day.encode();
        assert!((0..bytes.len()).all(|n| DayCounts::decode(&bytes[..n]).is_none()), "cut short");
        day.apply(7, &CountDelta([-10, 0, 0, 0, 0, 0, 0, -i64::MAX]));
        assert_eq!(day.hours().map(|(hour, _)| hour).collect::<Vec<_>>(), [0, 23], "an hour without counts");
    }

    #[test]
    fn a_job_of_each_hour_takes_few_bytes() {
        let mut day = DayCounts::default();
        (0..24).for_each(|hour| {
            day.apply(hour, &CountDelta::of(0, 1));
            day.apply(hour, &CountDelta::of(7, 5_000));
        });
        assert_eq!(day.encode().len(), 99);
    }
}
