//! Repeatable randomness: one seed, and a stream of its own for each use, so that one more draw here shifts
//! nothing there.

/// A stream of numbers, fixed by a seed and a label (splitmix64).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SimRandom {
    state: u64,
}

impl SimRandom {
    /// The stream of this seed under this label.
    #[must_use]
    pub fn new(seed: u64, label: &str) -> Self {
        let bytes = label.bytes();
        let label =
            bytes.fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
        let mut random = Self { state: seed };
        random.state = random.draw() ^ label;
        random
    }

    /// The next number, any of 2^64.
    pub fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from 0 to `n` − 1; 0 when `n` is 0.
    pub fn below(&mut self, n: usize) -> usize {
        let wide = u128::from(self.draw()) * n as u128;
        usize::try_from(wide >> 64).unwrap_or(0)
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        let span = usize::try_from(high - low + 1).unwrap_or(0);
        low + i64::try_from(self.below(span)).unwrap_or(0)
    }

    /// True in this many of a thousand draws. Draws nothing if that is never.
    pub fn chance(&mut self, per_mille: u32) -> bool {
        per_mille > 0 && self.below(1000) < per_mille as usize
    }

    /// One of these; `None` if there are none.
    pub fn pick<'a, T>(&mut self, list: &'a [T]) -> Option<&'a T> {
        list.get(self.below(list.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_of_one_seed_differ_and_repeat() {
        let draws = |label| {
            let mut random = SimRandom::new(7, label);
            [random.draw(), random.draw(), random.draw()]
        };
        assert_eq!(draws("faults"), draws("faults"));
        assert_ne!(draws("faults"), draws("network"));
    }

    #[test]
    fn both_ends_of_a_range_are_drawn() {
        let mut random = SimRandom::new(1, "range");
        let drawn: std::collections::BTreeSet<i64> = (0..1000).map(|_| random.between(-2, 2)).collect();
        assert_eq!(drawn.into_iter().collect::<Vec<_>>(), [-2, -1, 0, 1, 2]);
    }
}
