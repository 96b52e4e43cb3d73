//! Sets of shards: small, canonical, and short in text.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;
use serde::{Deserialize, Serialize};

use crate::ids::{IdError, Shard};

/// The most shards a job may have.
pub const SHARDS_MAX: u32 = 100_000;

/// A set of shards of one job. Equal sets are equal values.
///
/// Read and shown as ranges, `0-3,7`. Kept as that or, where ranges are many, as a bitmap (`x` and two hexadecimal
/// digits for each eight shards, the lowest in the lowest bit), whichever is shorter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ShardSet(Vec<u64>);

impl ShardSet {
    /// The empty set.
    #[must_use]
    pub const fn empty() -> Self {
        Self(Vec::new())
    }

    /// The shards from 0 to `total` − 1.
    #[must_use]
    pub fn all(total: u32) -> Self {
        Self::range(0, total)
    }

    /// The shards from `start` to `end` − 1.
    #[must_use]
    pub fn range(start: u32, end: u32) -> Self {
        (start..end).map(Shard).collect()
    }

    /// One shard.
    #[must_use]
    pub fn one(shard: Shard) -> Self {
        core::iter::once(shard).collect()
    }

    /// Whether it has no shard.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many shards it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether it has this shard.
    #[must_use]
    pub fn contains(&self, shard: Shard) -> bool {
        self.0.get(shard.0 as usize / 64).is_some_and(|word| word & bit(shard) != 0)
    }

    /// Adds a shard.
    pub fn insert(&mut self, shard: Shard) {
        let word = shard.0 as usize / 64;
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= bit(shard);
    }

    /// The shards in either set.
    #[must_use]
    pub fn or(&self, other: &Self) -> Self {
        let (long, short) = if self.0.len() < other.0.len() { (other, self) } else { (self, other) };
        let mut words = long.0.clone();
        words.iter_mut().zip(&short.0).for_each(|(a, b)| *a |= b);
        Self(words)
    }

    /// The shards in both sets.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self::trimmed(self.0.iter().zip(&other.0).map(|(a, b)| a & b).collect())
    }

    /// The shards of this set that are not in the other.
    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        let others = other.0.iter().copied().chain(core::iter::repeat(0));
        Self::trimmed(self.0.iter().zip(others).map(|(a, b)| a & !b).collect())
    }

    /// Whether the sets have a shard in common.
    #[must_use]
    pub fn meets(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).any(|(a, b)| a & b != 0)
    }

    /// Its shards, the lowest first.
    pub fn iter(&self) -> impl Iterator<Item = Shard> {
        (0_u32..).zip(&self.0).flat_map(|(at, word)| {
            let rest = core::iter::successors(Some(*word), |word| Some(word & word.wrapping_sub(1)));
            rest.take_while(|word| *word != 0).map(move |word| Shard(at * 64 + word.trailing_zeros()))
        })
    }

    /// Its lowest shard.
    #[must_use]
    pub fn first(&self) -> Option<Shard> {
        self.iter().next()
    }

    /// Its lowest `n` shards.
    #[must_use]
    pub fn lowest(&self, n: usize) -> Self {
        if n >= self.len() { self.clone() } else { self.iter().take(n).collect() }
    }

    fn trimmed(mut words: Vec<u64>) -> Self {
        while words.last() == Some(&0) {
            words.pop();
        }
        Self(words)
    }

    fn bitmap(&self) -> String {
        let bytes: Vec<u8> = self.0.iter().flat_map(|word| word.to_le_bytes()).collect();
        let len = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        bytes[..len].iter().fold(String::from("x"), |text, byte| text + &format!("{byte:02x}"))
    }
}

fn bit(shard: Shard) -> u64 {
    1 << (shard.0 % 64)
}

impl FromIterator<Shard> for ShardSet {
    fn from_iter<I: IntoIterator<Item = Shard>>(shards: I) -> Self {
        let mut set = Self::empty();
        shards.into_iter().for_each(|shard| set.insert(shard));
        set
    }
}

impl fmt::Display for ShardSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shards = self.iter().map(|shard| shard.0).peekable();
        let mut first = true;
        while let Some(start) = shards.next() {
            let mut end = start;
            while let Some(next) = shards.next_if_eq(&(end + 1)) {
                end = next;
            }
            let comma = if core::mem::take(&mut first) { "" } else { "," };
            match end - start {
                0 => write!(f, "{comma}{start}")?,
                _ => write!(f, "{comma}{start}-{end}")?,
            }
        }
        Ok(())
    }
}

impl FromStr for ShardSet {
    type Err = IdError;
    fn from_str(text: &str) -> Result<Self, IdError> {
        let bad = || IdError::new(format!("{text:?} names no shards: write them as 0,2 or 0-3,7"));
        if let Some(digits) = text.strip_prefix('x') {
            return from_bitmap(digits).ok_or_else(bad);
        }
        let mut set = Self::empty();
        for part in text.split(',').map(str::trim).filter(|_| !text.is_empty()) {
            let (start, end) = part.split_once('-').unwrap_or((part, part));
            let (start, end): (u32, u32) =
                (start.trim().parse().map_err(|_| bad())?, end.trim().parse().map_err(|_| bad())?);
            if start > end || end >= SHARDS_MAX {
                return Err(bad());
            }
            (start..=end).for_each(|shard| set.insert(Shard(shard)));
        }
        Ok(set)
    }
}

fn from_bitmap(digits: &str) -> Option<ShardSet> {
    if digits.len() > SHARDS_MAX as usize / 4 || !digits.len().is_multiple_of(2) || !digits.is_ascii() {
        return None;
    }
    let mut words = Vec::new();
    for (at, pair) in (0..digits.len()).step_by(2).map(|at| &digits[at..at + 2]).enumerate() {
        let byte = u64::from(u8::from_str_radix(pair, 16).ok()?);
        if at % 8 == 0 {
            words.push(0);
        }
        *words.last_mut()? |= byte << (at % 8 * 8);
    }
    Some(ShardSet::trimmed(words))
}

impl TryFrom<String> for ShardSet {
    type Error = IdError;
    fn try_from(text: String) -> Result<Self, IdError> {
        text.parse()
    }
}

impl From<ShardSet> for String {
    fn from(set: ShardSet) -> Self {
        let (ranges, bitmap) = (format!("{set}"), set.bitmap());
        if bitmap.len() < ranges.len() { bitmap } else { ranges }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    fn set(text: &str) -> ShardSet {
        text.parse().unwrap()
    }

    /// proves: S2-35
    #[test]
    fn sets_are_read_and_shown_as_ranges() {
        for (text, shown) in
            [("", ""), ("0", "0"), ("0,1,2", "0-2"), ("0, 1, 2", "0-2"), ("9,3-5,64", "3-5,9,64")]
        {
            assert_eq!(set(text).to_string(), shown);
        }
        for bad in ["-", "a", "1-", "3-1", "1,,2", "100000", "x1", "xzz", "-1"] {
            assert!(bad.parse::<ShardSet>().is_err(), "{bad}");
        }
    }

    #[test]
    fn the_kept_text_is_the_shorter_one_and_is_read_back() {
        let odd: ShardSet = (0..6_667).filter(|n| n % 2 == 1).map(Shard).collect();
        let kept = String::from(odd.clone());
        assert_eq!(kept.len(), 1 + 2 * 6_667_usize.div_ceil(8), "a bitmap of 834 bytes");
        assert_eq!(kept.parse::<ShardSet>(), Ok(odd));
        assert_eq!(String::from(ShardSet::all(20_000)), "0-19999");
    }

    #[test]
    fn sets_are_canonical() {
        let (a, b) = (set("0-70"), set("64-70"));
        assert_eq!(a.minus(&b), ShardSet::all(64));
        assert_eq!(a.minus(&b).or(&b), a);
        assert_eq!(a.and(&b), b);
        assert_eq!(b.minus(&b), ShardSet::empty());
        assert_eq!((a.len(), b.first(), a.lowest(2)), (71, Some(Shard(64)), set("0-1")));
        assert!(a.meets(&b) && !a.minus(&b).meets(&b) && a.contains(Shard(70)) && !a.contains(Shard(71)));
    }
}
