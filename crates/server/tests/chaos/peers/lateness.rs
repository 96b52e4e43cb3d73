//! How late fires started: while something was wrong they may be, and soon after they may not.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::fleet::{settle, wall};
use crate::process::millis;
use crate::witness::{JobRoster, PATIENCE_MS, WitnessLine, WitnessWord, read};

/// So late no fire may be when nothing is wrong and the machine has time.
const LATE_MS: i64 = 1_000;
/// So far behind is a job whose last fire is not the one before the present one.
const BEHIND_MS: i64 = 2_000;
/// What is made up starts in any order: a job is behind while it has begun none of a second so shortly ago. One that is lost
/// for good is let go by then.
const WINDOW_MS: i64 = 8_000;
/// A fire that was due so shortly before something went wrong may not have begun by then.
const BEFORE_MS: i64 = 1_000;
/// For so long no fire may be late until nothing counts as wrong any more: two beats and more.
const CALM_MS: i64 = 7_000;
/// Within so long after something was mended no fire is late any more, where the machine has time.
const RECOVERY_MS: i64 = 15_000;

/// A time in which something was wrong.
#[derive(Clone, Debug)]
pub(crate) struct FaultWindow {
    pub(crate) what: String,
    pub(crate) from: i64,
    /// Since when nothing was wrong any more.
    pub(crate) mended: i64,
    /// Since when no fire was late any more.
    pub(crate) calm: i64,
}

/// What was measured, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LatenessReport {
    /// The worst while something was wrong, and just after.
    pub(crate) in_trouble: i64,
    /// The worst at all other times.
    pub(crate) in_peace: i64,
    /// How many fires were late when nothing was wrong.
    pub(crate) late: usize,
    /// The longest from when it was mended until no fire was late any more.
    pub(crate) recovery: i64,
    /// The shortest.
    pub(crate) best_recovery: i64,
}

/// Waits until every job has begun a fire that was due just now.
pub(crate) fn wait_until_prompt(log: &Path, roster: &JobRoster) {
    wait_while("behind", || {
        let (lines, now) = (read(log), wall());
        let jobs = (0..roster.jobs).map(|job| roster.name(job));
        jobs.filter(|job| is_behind(&lines, job, now)).collect()
    });
}

/// Waits until no fire was late for longer than two beats; since when.
///
/// It waits for as long as that takes, since a busy machine delays everything. A cluster whose fires are late again and again
/// never gets there.
pub(crate) fn wait_until_calm(log: &Path, roster: &JobRoster) -> i64 {
    let mut since = 0;
    wait_while("late", || {
        let (lines, now) = (read(log), wall());
        since = now - BEHIND_MS - CALM_MS;
        let jobs = (0..roster.jobs).map(|job| roster.name(job));
        jobs.filter(|job| !is_calm(&lines, job, (since, since + CALM_MS))).collect()
    });
    since
}

fn wait_while(what: &str, mut jobs: impl FnMut() -> Vec<String>) {
    let begun = millis();
    loop {
        let late = jobs();
        if late.is_empty() {
            return;
        }
        assert!(millis() - begun < PATIENCE_MS, "after {PATIENCE_MS} ms still {what}: {late:?}");
        settle(200);
    }
}

/// Whether every fire of a job that was due in this time began in time.
fn is_calm(lines: &[WitnessLine], job: &str, (from, until): (i64, i64)) -> bool {
    let ours = lines.iter().filter(|line| line.job == job && line.word == WitnessWord::Start);
    let prompt: BTreeSet<i64> =
        ours.filter(|line| line.at - line.due < LATE_MS).map(|line| line.due).collect();
    let second = |at: i64| (at + 999) / 1_000 * 1_000;
    (second(from)..until).step_by(1_000).all(|due| prompt.contains(&due))
}

/// How late a fire that was due in this time began at most.
pub(crate) fn latest(lines: &[WitnessLine], (from, until): (i64, i64)) -> i64 {
    let within = |((_, due), _): &((&str, i64), i64)| (from - BEFORE_MS..until).contains(due);
    first_starts(lines).into_iter().filter(within).map(|((_, due), at)| at - due).max().unwrap_or(0)
}

/// When each fire began first.
fn first_starts(lines: &[WitnessLine]) -> BTreeMap<(&str, i64), i64> {
    let mut first = BTreeMap::new();
    for line in lines.iter().filter(|line| line.word == WitnessWord::Start) {
        first.entry((line.job.as_str(), line.due)).or_insert(line.at);
    }
    first
}

/// Whether a job, which is due each second, has yet to begin one that it should have begun by now.
fn is_behind(lines: &[WitnessLine], job: &str, now: i64) -> bool {
    let dues: BTreeSet<i64> = lines.iter().filter(|line| line.job == job).map(|line| line.due).collect();
    let Some(first) = dues.first() else { return true };
    let second = |at: i64| (at + 999) / 1_000 * 1_000;
    let mut owed = (second(now - WINDOW_MS).max(*first)..=now - BEHIND_MS).step_by(1_000);
    owed.any(|due| !dues.contains(&due))
}

/// Looks at the first start of every fire due from `begun` on.
pub(crate) fn measure(
    lines: &[WitnessLine],
    troubles: &[FaultWindow],
    (begun, ended): (i64, i64),
) -> LatenessReport {
    let mut measured = LatenessReport::default();
    let all = first_starts(lines).into_iter();
    for ((_, due), at) in all.filter(|((_, due), _)| (begun..ended).contains(due)) {
        let late = at - due;
        let touched = |trouble: &FaultWindow| due >= trouble.from - BEFORE_MS && due < trouble.calm;
        if troubles.iter().any(touched) {
            measured.in_trouble = measured.in_trouble.max(late);
        } else {
            measured.in_peace = measured.in_peace.max(late);
            measured.late += usize::from(late >= LATE_MS);
        }
    }
    let recoveries = || troubles.iter().map(|trouble| (trouble.calm - trouble.mended).max(0));
    measured.recovery = recoveries().max().unwrap_or(0);
    measured.best_recovery = recoveries().min().unwrap_or(0);
    measured
}

impl LatenessReport {
    /// Whether no round was over in time: a machine that stands still may delay some rounds, and not all of them.
    pub(crate) fn complaint(&self) -> Option<String> {
        let slow = self.best_recovery > RECOVERY_MS;
        slow.then(|| format!("fires were late for at least {} ms after each fault", self.best_recovery))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(due: i64, at: i64) -> WitnessLine {
        let (job, node) = ("job".to_owned(), "n1".to_owned());
        WitnessLine { word: WitnessWord::Start, job, due, node, attempt: 1, token: 1, at, by: at + 20 }
    }

    #[test]
    fn who_is_behind_has_a_hole_of_late() {
        let lines = |dues: &[i64]| -> Vec<WitnessLine> { dues.iter().map(|due| start(*due, *due)).collect() };
        let behind = |dues: &[i64], now| is_behind(&lines(dues), "job", now);
        assert!(behind(&[], 20_000));
        assert!(!behind(&[17_000, 18_000, 19_000], 20_999), "19 and 20 may be on their way");
        assert!(behind(&[17_000, 18_000], 21_000), "19 is due for two seconds");
        assert!(behind(&[12_000, 13_000, 15_000, 16_000, 17_000], 18_500), "14 is not made up yet");
        let lost: Vec<i64> = [12_000].into_iter().chain((14..=20).map(|s| s * 1_000)).collect();
        assert!(behind(&lost, 20_900) && !behind(&lost, 21_100), "13 is lost for good");
    }

    #[test]
    fn a_time_is_calm_when_every_fire_of_it_began_in_time() {
        let lines = [start(3_000, 3_999), start(4_000, 4_010), start(5_000, 6_000), start(6_000, 6_100)];
        assert!(is_calm(&lines, "job", (2_500, 5_000)));
        assert!(!is_calm(&lines, "job", (2_500, 5_001)), "5 was late");
        assert!(is_calm(&lines, "job", (5_001, 7_000)));
        assert!(!is_calm(&lines, "job", (5_001, 7_001)), "7 has not begun");
        assert!(!is_calm(&lines, "other", (2_500, 5_000)));
        assert_eq!(latest(&lines, (4_500, 7_000)), 1_000);
        assert_eq!(latest(&lines, (6_500, 7_000)), 100, "one that was due just before counts too");
        assert_eq!(latest(&lines, (9_000, 10_000)), 0);
    }

    #[test]
    fn how_late_fires_were_is_measured() {
        let troubles = [
            FaultWindow { what: "a cut".into(), from: 10_000, mended: 17_000, calm: 19_000 },
            FaultWindow { what: "a kill".into(), from: 22_500, mended: 25_000, calm: 24_000 },
        ];
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
        ];
        let measured = measure(&lines, &troubles, (4_500, 30_000));
        let expected =
            LatenessReport { in_trouble: 6_100, in_peace: 1_500, late: 2, recovery: 2_000, best_recovery: 0 };
        assert_eq!(measured, expected);
        assert_eq!(measured.complaint(), None);
        assert!(LatenessReport { best_recovery: RECOVERY_MS + 1, ..expected }.complaint().is_some());
    }
}
