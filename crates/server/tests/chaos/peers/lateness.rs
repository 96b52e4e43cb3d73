//! How late fires started: while something was wrong they may be, and soon after they may not.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::fleet::{settle, wall};
use crate::process::millis;
use crate::witness::{Line, Roster, Word, read};

/// So late no fire may be when nothing is wrong and the machine has time.
const LATE_MS: i64 = 1_000;
/// So far behind is a job whose last fire is not the one before the present one.
const BEHIND_MS: i64 = 2_000;
/// What is made up starts in any order: a job is behind while it has begun none of a second so shortly ago. One that is lost
/// for good is let go by then.
const WINDOW_MS: i64 = 8_000;
/// A fire that was due so shortly before something went wrong may not have begun by then.
const BEFORE_MS: i64 = 1_000;
/// After so long whatever was late has been made up for, or never will be.
const PATIENCE_MS: i64 = 15_000;

/// A time in which something was wrong.
#[derive(Clone, Debug)]
pub(crate) struct Trouble {
    pub(crate) what: String,
    pub(crate) from: i64,
    /// Since when nothing was wrong any more.
    pub(crate) mended: i64,
    /// Since when no job was late any more.
    pub(crate) prompt: i64,
}

/// What was measured, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Measured {
    /// The worst while something was wrong, and just after.
    pub(crate) in_trouble: i64,
    /// The worst at all other times.
    pub(crate) in_peace: i64,
    /// How many fires were late when nothing was wrong.
    pub(crate) late: usize,
    /// The longest from when it was mended until no job was late any more.
    pub(crate) recovery: i64,
}

/// Waits until every job has begun a fire that was due just now; when that was.
pub(crate) fn wait_until_prompt(log: &Path, roster: &Roster) -> i64 {
    prompt_within(PATIENCE_MS, log, roster)
        .unwrap_or_else(|late| panic!("after {PATIENCE_MS} ms still late: {late:?}"))
}

/// The same; which jobs are late when it took longer than it may.
pub(crate) fn prompt_within(patience: i64, log: &Path, roster: &Roster) -> Result<i64, Vec<String>> {
    let begun = millis();
    loop {
        let (lines, now) = (read(log), wall());
        let late: Vec<String> =
            (0..roster.jobs).map(|job| roster.name(job)).filter(|job| is_behind(&lines, job, now)).collect();
        if late.is_empty() {
            return Ok(now);
        }
        if millis() - begun >= patience {
            return Err(late);
        }
        settle(100);
    }
}

/// Whether a job, which is due each second, has yet to begin one that it should have begun by now.
fn is_behind(lines: &[Line], job: &str, now: i64) -> bool {
    let dues: BTreeSet<i64> = lines.iter().filter(|line| line.job == job).map(|line| line.due).collect();
    let Some(first) = dues.first() else { return true };
    let second = |at: i64| (at + 999) / 1_000 * 1_000;
    let mut owed = (second(now - WINDOW_MS).max(*first)..=now - BEHIND_MS).step_by(1_000);
    owed.any(|due| !dues.contains(&due))
}

/// Looks at the first start of every fire due from `begun` on; what was measured, and who complains of it.
///
/// `slack` says how much later a fire may have begun because the machine stood still between two moments.
pub(crate) fn judge(
    lines: &[Line],
    troubles: &[Trouble],
    (begun, ended): (i64, i64),
    slack: impl Fn(i64, i64) -> i64,
) -> (Measured, Vec<String>) {
    let mut first: BTreeMap<(&str, i64), i64> = BTreeMap::new();
    for line in lines.iter().filter(|line| line.word == Word::Start) {
        first.entry((&line.job, line.due)).or_insert(line.at);
    }
    let (mut measured, mut complaints) = (Measured::default(), Vec::new());
    for ((job, due), at) in first.into_iter().filter(|((_, due), _)| (begun..ended).contains(due)) {
        let late = at - due;
        let touched = |trouble: &Trouble| due >= trouble.from - BEFORE_MS && due < trouble.prompt;
        if troubles.iter().any(touched) {
            measured.in_trouble = measured.in_trouble.max(late);
            continue;
        }
        measured.in_peace = measured.in_peace.max(late);
        measured.late += usize::from(late >= LATE_MS);
        if late >= LATE_MS + slack(due, at) {
            complaints.push(format!("{job} due {due}: {late} ms late, and nothing was wrong"));
        }
    }
    let recovery = troubles.iter().map(|trouble| trouble.prompt - trouble.mended);
    measured.recovery = recovery.max().unwrap_or(0);
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
    fn who_is_behind_has_a_hole_of_late() {
        let lines = |dues: &[i64]| -> Vec<Line> { dues.iter().map(|due| start(*due, *due)).collect() };
        let behind = |dues: &[i64], now| is_behind(&lines(dues), "job", now);
        assert!(behind(&[], 20_000));
        assert!(!behind(&[17_000, 18_000, 19_000], 20_999), "19 and 20 may be on their way");
        assert!(behind(&[17_000, 18_000], 21_000), "19 is due for two seconds");
        assert!(behind(&[12_000, 13_000, 15_000, 16_000, 17_000], 18_500), "14 is not made up yet");
        let lost: Vec<i64> = [12_000].into_iter().chain((14..=20).map(|s| s * 1_000)).collect();
        assert!(behind(&lost, 20_900) && !behind(&lost, 21_100), "13 is lost for good");
    }

    #[test]
    fn who_is_late_without_a_cause_is_told() {
        let troubles = [Trouble { what: "a cut".into(), from: 10_000, mended: 17_000, prompt: 19_000 }];
        let lines = [
            start(3_000, 9_000),
            start(4_000, 9_000),
            start(5_000, 5_900),
            start(12_000, 18_100),
            start(18_000, 21_000),
            // The second attempt of a fire says nothing of when it began.
            start(18_000, 60_000),
            start(19_000, 20_200),
            start(20_000, 20_999),
            start(21_000, 21_000 + LATE_MS + 500),
            start(22_000, 22_000 + LATE_MS + 499),
        ];
        let (measured, complaints) = judge(&lines, &troubles, (4_500, 30_000), |_, _| 500);
        assert_eq!(measured, Measured { in_trouble: 6_100, in_peace: 1_500, late: 3, recovery: 2_000 });
        assert_eq!(complaints, ["job due 21000: 1500 ms late, and nothing was wrong"]);
        assert_eq!(judge(&lines, &[], (4_500, 15_000), |_, _| 500).1.len(), 1);
    }
}
