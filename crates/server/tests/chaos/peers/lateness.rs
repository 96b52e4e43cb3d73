//! How late fires started: while something was wrong they may be, and soon after they may not.

use std::collections::BTreeMap;

use crate::witness::{Line, Word};

/// So late no fire may be when nothing is wrong.
pub(crate) const LATE_MS: i64 = 2_000;
/// So long after something was mended fires may still be late: what had been planned while it was wrong is through.
pub(crate) const RECOVERY_MS: i64 = 2_000;

/// A time in which something was wrong.
#[derive(Clone, Debug)]
pub(crate) struct Trouble {
    pub(crate) what: String,
    pub(crate) from: i64,
    /// Since when nothing was wrong any more.
    pub(crate) mended: i64,
}

/// What was measured, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Measured {
    /// The worst while something was wrong, and just after.
    pub(crate) in_trouble: i64,
    /// The worst at all other times.
    pub(crate) in_peace: i64,
    /// The longest from when it was mended to the last fire that was late.
    pub(crate) recovery: i64,
}

/// Looks at the first start of every fire due from `begun` on; what was measured, and who complains of it.
pub(crate) fn judge(lines: &[Line], troubles: &[Trouble], begun: i64, ended: i64) -> (Measured, Vec<String>) {
    let mut first: BTreeMap<(&str, i64), i64> = BTreeMap::new();
    for line in lines.iter().filter(|line| line.word == Word::Start) {
        first.entry((&line.job, line.due)).or_insert(line.at);
    }
    let (mut measured, mut complaints) = (Measured::default(), Vec::new());
    for ((job, due), at) in first.into_iter().filter(|((_, due), _)| (begun..ended).contains(due)) {
        let late = at - due;
        let touched =
            |trouble: &&Trouble| due >= trouble.from - LATE_MS && due < trouble.mended + RECOVERY_MS;
        let Some(trouble) = troubles.iter().rev().find(touched) else {
            measured.in_peace = measured.in_peace.max(late);
            if late >= LATE_MS {
                complaints.push(format!("{job} due {due}: {late} ms late, and nothing was wrong"));
            }
            continue;
        };
        measured.in_trouble = measured.in_trouble.max(late);
        if late >= LATE_MS {
            measured.recovery = measured.recovery.max(at - trouble.mended);
        }
    }
    (measured, complaints)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(due: i64, at: i64) -> Line {
        let (job, node) = ("job".to_owned(), "n1".to_owned());
        Line { word: Word::Start, job, due, node, attempt: 1, token: 1, at }
    }

    #[test]
    fn who_is_late_without_a_cause_is_told() {
        let troubles = [Trouble { what: "a cut".into(), from: 10_000, mended: 17_000 }];
        let lines = [
            start(3_000, 9_000),
            start(5_000, 5_900),
            start(12_000, 18_100),
            start(18_000, 21_000),
            // The second attempt of a fire says nothing of when it began.
            start(18_000, 60_000),
            start(19_000, 21_000),
            start(20_000, 21_999),
        ];
        let (measured, complaints) = judge(&lines, &troubles, 4_000, 30_000);
        assert_eq!(measured, Measured { in_trouble: 6_100, in_peace: 2_000, recovery: 4_000 });
        assert_eq!(complaints, ["job due 19000: 2000 ms late, and nothing was wrong"]);
        assert_eq!(judge(&lines, &[], 4_000, 15_000).1.len(), 1);
    }
}
