//! Fingerprints: 128 bits stand for a state, so that millions of visited ones fit in memory.

use std::hash::{Hash, Hasher};
use std::rc::Rc;

const KEYS: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xd1b5_4a32_d192_ed03];

/// Two multiply-and-fold accumulators with different keys. Not made to withstand attacks, only chance: among 10⁸ states
/// two share a fingerprint with a probability of about 10⁻²³.
pub(super) struct FingerprintHasher([u64; 2]);

impl FingerprintHasher {
    pub(super) fn new() -> Self {
        Self([0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344])
    }

    pub(super) fn of<T: Hash>(value: &T) -> u128 {
        let mut printer = Self::new();
        value.hash(&mut printer);
        printer.print()
    }

    pub(super) fn print(&self) -> u128 {
        let [a, b] = [0, 1].map(|run_state| fold(self.0[run_state] ^ KEYS[1 - run_state], KEYS[run_state]));
        u128::from(a) << 64 | u128::from(b)
    }
}

fn fold(value: u64, key: u64) -> u64 {
    let wide = u128::from(value) * u128::from(key);
    (wide >> 64) as u64 ^ wide as u64
}

impl Hasher for FingerprintHasher {
    fn finish(&self) -> u64 {
        self.0[0]
    }

    fn write(&mut self, bytes: &[u8]) {
        self.write_u64(bytes.len() as u64);
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u64(&mut self, word: u64) {
        // An accumulator moves on even if the word cancels it, or zeros would vanish.
        for (run_state, key) in self.0.iter_mut().zip(KEYS) {
            *run_state = fold(*run_state ^ word, key).wrapping_add(key).rotate_left(23);
        }
    }

    fn write_u8(&mut self, n: u8) {
        self.write_u64(u64::from(n));
    }

    fn write_u16(&mut self, n: u16) {
        self.write_u64(u64::from(n));
    }

    fn write_u32(&mut self, n: u32) {
        self.write_u64(u64::from(n));
    }

    fn write_usize(&mut self, n: usize) {
        self.write_u64(n as u64);
    }
}

/// A part of the state that successors share until one changes it; its fingerprint is computed once.
pub(super) struct FingerprintedPart<T> {
    value: Rc<T>,
    print: Option<u128>,
}

impl<T> Clone for FingerprintedPart<T> {
    fn clone(&self) -> Self {
        Self { value: self.value.clone(), print: self.print }
    }
}

impl<T: Clone + Hash> FingerprintedPart<T> {
    pub(super) fn new(value: T) -> Self {
        Self { value: Rc::new(value), print: None }
    }

    pub(super) fn get(&self) -> &T {
        &self.value
    }

    pub(super) fn edit(&mut self) -> &mut T {
        self.print = None;
        Rc::make_mut(&mut self.value)
    }

    pub(super) fn print(&mut self) -> u128 {
        *self.print.get_or_insert_with(|| FingerprintHasher::of(&*self.value))
    }
}

#[cfg(test)]
mod tests {
    use super::FingerprintHasher;

    #[test]
    fn prints_tell_close_values_apart() {
        let prints = [
            FingerprintHasher::of(&(0_u64, 1_u64)),
            FingerprintHasher::of(&(1_u64, 0_u64)),
            FingerprintHasher::of(&(0_u64, 0_u64)),
            FingerprintHasher::of(&("ab", "c")),
            FingerprintHasher::of(&("a", "bc")),
            FingerprintHasher::of(&vec![0_u8; 7]),
            FingerprintHasher::of(&vec![0_u8; 8]),
        ];
        let distinct: std::collections::BTreeSet<u128> = prints.into_iter().collect();
        assert_eq!(distinct.len(), prints.len());
    }
}
