//! Values with numbers, found by their hashes: equal values have one number.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::hash::{Hash, Hasher};

/// A hash that costs little. Values whose hashes are equal are compared, so it need not be a good one.
#[derive(Debug, Default)]
struct QuickHash(u64);

/// A value behind its hash: most comparisons need the hash only.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct HashedValue<T> {
    hash: u64,
    value: T,
}

/// Values with numbers, each once.
#[derive(Debug)]
pub(super) struct InternedValues<T> {
    list: Vec<T>,
    numbers: BTreeMap<HashedValue<T>, u32>,
}

impl Hasher for QuickHash {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| self.write_u64(u64::from_le_bytes(*word)));
        rest.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u8(&mut self, number: u8) {
        self.write_u64(u64::from(number));
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(5) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }
}

impl<T: Hash> HashedValue<T> {
    /// This value.
    pub(super) fn new(value: T) -> Self {
        let mut hash = QuickHash::default();
        value.hash(&mut hash);
        Self { hash: hash.finish(), value }
    }

    /// The value itself.
    pub(super) fn value(&self) -> &T {
        &self.value
    }
}

impl<T> Default for InternedValues<T> {
    fn default() -> Self {
        Self { list: Vec::new(), numbers: BTreeMap::new() }
    }
}

impl<T: Clone + Ord + Hash> InternedValues<T> {
    /// The number of this value.
    pub(super) fn number(&mut self, value: T) -> u32 {
        let value = HashedValue::new(value);
        if let Some(known) = self.numbers.get(&value) {
            return *known;
        }
        let number = u32::try_from(self.list.len()).expect("there are fewer than 2^32 jobs");
        self.list.push(value.value().clone());
        self.numbers.insert(value, number);
        number
    }

    /// The value with this number.
    pub(super) fn get(&self, number: u32) -> Option<&T> {
        self.list.get(number as usize)
    }

    /// How many values there are.
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }
}
