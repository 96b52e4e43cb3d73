//! A reproducible random generator for cases.

/// A reproducible random generator (xorshift).
pub(super) struct Xorshift(pub(super) u64);

impl Xorshift {
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    pub(super) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        let bound = u64::try_from(from.len()).expect("a length is a number");
        from[usize::try_from(self.below(bound)).expect("below a length")]
    }
}
