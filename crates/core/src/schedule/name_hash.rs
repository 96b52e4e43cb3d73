//! Hashes of a job's name: numbers by which jobs spread and that every node computes the same.

use crate::time::Wall;

/// The hash of a job's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct NameHash(u64);

/// The factor of FNV-1a, 64 bits, and that of the eight bytes of a moment.
const FACTOR: u64 = 0x0100_0000_01b3;
const EIGHT_FACTORS: u64 = FACTOR.wrapping_pow(8);

/// FNV-1a, 64 bits.
fn fold(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(FACTOR))
}

/// The end of splitmix64, which makes near numbers far.
fn mix(z: u64) -> u64 {
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl NameHash {
    /// The hash of this name.
    pub(super) fn of(name: &str) -> Self {
        Self(fold(0xcbf2_9ce4_8422_2325, name.as_bytes()))
    }

    /// The number behind `H` in the field of this name.
    pub(super) fn of_field(self, field: &str) -> u64 {
        mix(fold(fold(self.0, &[0]), field.as_bytes()))
    }

    /// The number behind the jitter of the fire at this moment.
    pub(super) fn of_moment(self, due: Wall) -> u64 {
        mix(fold(fold(self.0, &[1]), &due.0.to_le_bytes()))
    }

    /// The part that a name has in [`Self::of_moment`], and the byte on which the part of the moment depends.
    pub(super) fn part_of_moments(self) -> (u8, u64) {
        let hash = fold(self.0, &[1]);
        (hash.to_le_bytes()[0], hash.wrapping_mul(EIGHT_FACTORS))
    }

    /// The part that a moment has in [`Self::of_moment`] of each name with this byte.
    ///
    /// A byte of the moment changes the last byte of the hash by a difference that this last byte decides, and the last byte
    /// depends on earlier last bytes only. So all differences are the same for all names with this byte.
    pub(super) fn moment_after(last: u8, due: Wall) -> u64 {
        let last = u64::from(last);
        fold(last, &due.0.to_le_bytes()).wrapping_sub(last.wrapping_mul(EIGHT_FACTORS))
    }

    /// The number of [`Self::of_moment`], of its two parts.
    pub(super) fn joined(name: u64, moment: u64) -> u64 {
        mix(name.wrapping_add(moment))
    }
}

/// Whether the rules in this text may mean something else for a job of another name: one of them has an `H`.
pub(super) fn is_spread(rules: &str) -> bool {
    let ends = |c: char| c.is_ascii_whitespace() || [',', ':'].contains(&c);
    rules.split(ends).any(|part| part.starts_with(['H', 'h']))
}
