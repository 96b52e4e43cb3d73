//! Where jitters move the fires of many jobs with the same schedule, counted together.
//!
//! The hash of a name and a moment goes over the bytes of the moment one after another. What they add to the hash of a name
//! depends on the last byte of that hash only, so it is computed once for each of the 256 bytes instead of for each name.

use alloc::vec::Vec;

use super::fire_count::{ForecastWindow, MovableFire};
use super::name_hash::NameHash;

/// How many names are counted at a time: few enough to stay close to the processor.
const BATCH: usize = 4_096;

/// The names of jobs with the same schedule, as far as they decide how far its fires are moved.
#[derive(Clone, Debug)]
pub(crate) struct SpreadNames {
    /// By the number of runs of a fire, and then by the last byte.
    names: Vec<(u64, SpreadPart)>,
}

/// What a name adds to the hash of each moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct SpreadPart {
    /// The last byte of its hash.
    last: u8,
    part: u64,
}

/// Remainders of a division, without dividing each time.
#[derive(Clone, Copy, Debug)]
struct FastRemainder {
    divisor: u64,
    /// 2^64 by the divisor, or one less.
    inverse: u64,
}

impl SpreadNames {
    /// These names, each with the runs of a fire.
    pub(crate) fn new<'a>(names: impl Iterator<Item = (&'a str, u64)>) -> Self {
        let part = |(name, runs)| {
            let (last, part) = NameHash::of(name).part_of_moments();
            (runs, SpreadPart { last, part })
        };
        let mut names: Vec<(u64, SpreadPart)> = names.map(part).collect();
        names.sort_unstable_by_key(|(runs, part)| (*runs, part.last));
        Self { names }
    }

    /// Passes on how many of these fires are moved into each step, and how many runs each of them has.
    pub(crate) fn count(
        &self,
        movable: &[MovableFire],
        window: &ForecastWindow,
        mut add: impl FnMut(usize, u64, u64),
    ) {
        let mut seconds = Vec::new();
        for names in self.names.chunk_by(|one, other| one.0 == other.0) {
            let runs = names.first().map_or(0, |(runs, _)| *runs);
            for names in names.chunks(BATCH) {
                let parts: Vec<SpreadPart> = names.iter().map(|(_, part)| *part).collect();
                for fire in movable {
                    count_fire(&parts, *fire, &mut seconds, |second, fires| {
                        let step = window.step_of(fire.after(second));
                        step.into_iter().for_each(|step| add(step, fires, runs));
                    });
                }
            }
        }
    }
}

/// Passes on by how many seconds these names move a fire, each time with how many they are. `seconds` is room to count.
fn count_fire(
    parts: &[SpreadPart],
    fire: MovableFire,
    seconds: &mut Vec<u32>,
    mut found: impl FnMut(u64, u64),
) {
    let room = usize::try_from(fire.room()).unwrap_or(usize::MAX);
    if room > parts.len() {
        return each_second(parts, fire, |second| found(second, 1));
    }
    seconds.clear();
    seconds.resize(room, 0);
    let list = seconds.as_mut_slice();
    each_second(parts, fire, |second| {
        if let Some(count) = list.get_mut(second as usize) {
            *count += 1;
        }
    });
    for (second, fires) in (0..).zip(seconds).filter(|(_, fires)| **fires > 0) {
        found(second, u64::from(*fires));
    }
}

/// Passes on by how many seconds each of these names moves a fire.
fn each_second(parts: &[SpreadPart], fire: MovableFire, mut found: impl FnMut(u64)) {
    let room = FastRemainder::new(fire.room());
    for parts in parts.chunk_by(|one, other| one.last == other.last) {
        let Some(SpreadPart { last, .. }) = parts.first() else { continue };
        let moment = NameHash::moment_after(*last, fire.due());
        for part in parts {
            found(room.of(NameHash::joined(part.part, moment)));
        }
    }
}

impl FastRemainder {
    fn new(divisor: u64) -> Self {
        let divisor = divisor.max(1);
        Self { divisor, inverse: u64::MAX / divisor }
    }

    /// The remainder of this number.
    fn of(self, number: u64) -> u64 {
        let product = u128::from(number) * u128::from(self.inverse);
        // At most one less than the quotient.
        let quotient = (product >> 64) as u64;
        let rest = number.wrapping_sub(quotient.wrapping_mul(self.divisor));
        if rest >= self.divisor { rest - self.divisor } else { rest }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Wall;

    #[test]
    fn a_fast_remainder_is_the_remainder() {
        for divisor in [1, 2, 3, 7, 64, 300, 3_600, 86_399, 86_400, 1 << 32, u64::MAX] {
            let fast = FastRemainder::new(divisor);
            let near = [0, 1, divisor - 1, divisor, divisor.saturating_add(1), u64::MAX - 1, u64::MAX];
            let far = (0..1_000).map(|n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            for number in near.into_iter().chain(far) {
                assert_eq!(fast.of(number), number % divisor, "{number} by {divisor}");
            }
        }
    }

    #[test]
    fn the_parts_of_a_hash_join_to_the_hash() {
        for n in 0..2_000_i64 {
            let (name, due) = (NameHash::of(&alloc::format!("team/job-{n}")), Wall(n * 987_654_321_012));
            let (last, part) = name.part_of_moments();
            assert_eq!(NameHash::joined(part, NameHash::moment_after(last, due)), name.of_moment(due));
        }
    }
}
