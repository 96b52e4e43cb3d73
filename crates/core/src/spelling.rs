//! Finds the word that was probably meant.

use alloc::vec;
use alloc::vec::Vec;
use core::mem;

/// The longest word that is compared, in bytes: longer ones are no typing errors.
const LENGTH_MAX: usize = 64;

/// How many letters must be changed, added, left out or swapped with their neighbours to make one text of the other.
/// Texts that are too long to be a word are far from all others.
pub(crate) fn distance(one: &str, other: &str) -> usize {
    if one.len().max(other.len()) > LENGTH_MAX {
        return usize::MAX;
    }
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    let mut before_last: Vec<usize> = vec![0; other.len() + 1];
    let mut last: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in other.iter().enumerate() {
            let mut cost = (last[j] + usize::from(a != b)).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *a == other[j - 1] && one[i - 1] == *b {
                cost = cost.min(before_last[j - 1] + 1);
            }
            row.push(cost);
        }
        before_last = mem::replace(&mut last, row);
    }
    last.last().copied().unwrap_or(0)
}

/// The word that is nearest, if at most a third of the typed one is wrong.
pub(crate) fn nearest<'a>(typed: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let near = known.map(|word| (distance(typed, word), word)).min()?;
    (near.0 <= (typed.len() / 3).max(1)).then_some(near.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_found() {
        assert_eq!([distance("dayly", "daily"), distance("ab", "ba"), distance("", "abc")], [1, 1, 3]);
        assert_eq!(distance(&"a".repeat(65), "a"), usize::MAX);
        let words = ["yearly", "monthly", "daily"];
        assert_eq!(nearest("montly", words.into_iter()), Some("monthly"));
        assert_eq!(nearest("sometimes", words.into_iter()), None);
    }
}
