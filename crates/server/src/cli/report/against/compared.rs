//! The comparison: what both sides ran, and what only one of them.

use std::collections::BTreeMap;

use evenkeel_core::time::{Millis, Wall};
use serde::Serialize;

use super::super::numbers::grouped;
use super::known_jobs::CompareUnit;
use super::own_fires::{OwnFire, OwnFires};
use crate::local_time;
use crate::output::{TableRow, or_dash};
use crate::rival::alignment::{AlignedRun, align};
use crate::rival::{BadRecord, RivalFire, RivalLog};

/// On which side a fire is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FireSide {
    Both,
    OnlyHere,
    OnlyThere,
}

/// A fire of one side or of both.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct ComparedFire {
    side: FireSide,
    /// When it started here, and there.
    here: Option<String>,
    there: Option<String>,
    /// How much later it started here, in milliseconds.
    difference_ms: Option<i64>,
    /// What became of it here, and there, as far as that is known.
    outcome_here: Option<String>,
    outcome_there: Option<String>,
    /// Why a fire that is only there did not run here, if there is a record of it.
    reason: Option<String>,
}

/// How many fires are where, and how much their starts differ, in milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct CompareCounts {
    pub(super) both: u64,
    pub(super) only_here: u64,
    pub(super) only_there: u64,
    /// The median of the absolute differences, and the worst difference.
    pub(super) median_ms: Option<i64>,
    pub(super) worst_ms: Option<i64>,
}

/// A job, or several with the same command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct ComparedJob {
    /// The names here; empty if no job here is meant.
    names: Vec<String>,
    /// What the other scheduler names it.
    there: Vec<String>,
    pub(super) counts: CompareCounts,
    notes: Vec<String>,
    fires: Vec<ComparedFire>,
    #[serde(skip)]
    differences: Vec<i64>,
}

/// The whole comparison, for programs.
#[derive(Debug, Serialize)]
pub(super) struct FireComparison {
    since: String,
    until: String,
    tolerance_ms: i64,
    pub(super) counts: CompareCounts,
    pub(super) jobs: Vec<ComparedJob>,
    pub(super) bad: Vec<BadRecord>,
    pub(super) left_out: BTreeMap<&'static str, u64>,
    pub(super) missing: Vec<String>,
}

/// A fire in a table.
#[derive(Debug, Serialize)]
pub(super) struct CompareRow<'a> {
    job: &'a ComparedJob,
    fire: &'a ComparedFire,
}

impl CompareCounts {
    fn note_differences(&mut self, differences: &mut [i64]) {
        differences.sort_unstable_by_key(|differ| differ.abs());
        self.median_ms = differences.get(differences.len() / 2).map(|differ| differ.abs());
        self.worst_ms = differences.last().copied();
    }
}

impl ComparedJob {
    /// Compares the runs of a unit within a span. The runs beside the span, up to the tolerance, only serve as partners.
    pub(super) fn of(unit: &CompareUnit, own: &OwnFires, span: (Wall, Wall), tolerance: Millis) -> Self {
        let all = || unit.jobs.iter().filter_map(|job| own.jobs.get(job)).flatten();
        let mut here: Vec<(Wall, &OwnFire)> =
            all().filter_map(|(_, fire)| Some((fire.started?, fire))).collect();
        here.sort_by_key(|(at, _)| *at);
        // A record there beyond the tolerance beside the span is of no use.
        let wide = (span.0 - tolerance, span.1 + tolerance);
        let there: Vec<&RivalFire> =
            unit.there.iter().filter(|fire| fire.at >= wide.0 && fire.at < wide.1).collect();
        let moments: Vec<i64> = here.iter().map(|(at, _)| at.0).collect();
        let others: Vec<i64> = there.iter().map(|fire| fire.at.0).collect();
        let idle: BTreeMap<Wall, &OwnFire> =
            all().filter(|(_, fire)| fire.started.is_none()).map(|(due, fire)| (*due, fire)).collect();
        let names: Vec<String> = unit.jobs.iter().cloned().collect();
        let (there_names, counts) = (unit.subjects.clone(), CompareCounts::default());
        let (fires, notes, differences) = (Vec::new(), Vec::new(), Vec::new());
        let mut job = Self { names, there: there_names, counts, notes, fires, differences };
        let is_in = |at: Wall| at >= span.0 && at < span.1;
        for run in align(&moments, &others, tolerance.0) {
            match run {
                AlignedRun::Both { here: n, there: k } if is_in(here[n].0) || is_in(there[k].at) => {
                    job.add(Some(here[n]), Some(there[k]), None);
                }
                AlignedRun::Here(n) if is_in(here[n].0) => job.add(Some(here[n]), None, None),
                AlignedRun::There(k) if is_in(there[k].at) => {
                    let at = there[k].at;
                    let near = idle.range(at - tolerance..=at + tolerance);
                    let near = near.min_by_key(|(due, _)| (**due - at).0.abs());
                    job.add(None, Some(there[k]), near.map(|(_, fire)| fire.reason.clone()));
                }
                _ => {}
            }
        }
        job.counts.note_differences(&mut job.differences);
        job.note(here.first().map(|(at, _)| *at));
        job
    }

    fn add(&mut self, here: Option<(Wall, &OwnFire)>, there: Option<&RivalFire>, reason: Option<String>) {
        let (side, count) = match (&here, &there) {
            (Some(_), Some(_)) => (FireSide::Both, &mut self.counts.both),
            (Some(_), None) => (FireSide::OnlyHere, &mut self.counts.only_here),
            (None, _) => (FireSide::OnlyThere, &mut self.counts.only_there),
        };
        *count += 1;
        let difference = here.zip(there).map(|((here, _), there)| (here - there.at).0);
        self.differences.extend(difference);
        self.fires.push(ComparedFire {
            side,
            here: here.map(|(at, _)| at.to_string()),
            there: there.map(|there| there.at.to_string()),
            difference_ms: difference,
            outcome_here: here.map(|(_, fire)| fire.outcome.clone()),
            outcome_there: there.map(|there| there.outcome.clone()).filter(|outcome| !outcome.is_empty()),
            reason: reason.filter(|reason| !reason.is_empty()),
        });
    }

    /// What is to be known of the job as a whole.
    fn note(&mut self, first: Option<Wall>) {
        match (self.names.len(), self.there.is_empty(), first) {
            (0, ..) => self.notes.push("no job here is meant".to_owned()),
            (_, true, _) => {
                self.notes.push("the records of the other scheduler have no run of it".to_owned())
            }
            (_, _, None) => self.notes.push("it has no run here".to_owned()),
            (_, _, Some(first)) => {
                let first = first.to_string();
                let is_before = |fire: &&ComparedFire| {
                    fire.side == FireSide::OnlyThere && fire.there.as_ref().is_some_and(|at| *at < first)
                };
                let before = self.fires.iter().filter(is_before).count() as u64;
                if before > 0 {
                    let first = local_time::local(Some(&first));
                    let said =
                        format!("its first run here is of {first}: {} there are before it", grouped(before));
                    self.notes.push(said);
                }
            }
        }
        if self.names.len() > 1 {
            self.notes.push("they have the same command, and are compared together".to_owned());
        }
    }

    /// Drops the fires of both sides.
    pub(super) fn keep_differences(&mut self) {
        self.fires.retain(|fire| fire.side != FireSide::Both);
    }

    fn name(&self) -> String {
        if self.names.is_empty() { self.there.join(", ") } else { self.names.join(", ") }
    }
}

impl FireComparison {
    /// The comparison of these jobs.
    pub(super) fn new(span: (Wall, Wall), tolerance: Millis, jobs: Vec<ComparedJob>, log: RivalLog) -> Self {
        let mut counts = CompareCounts::default();
        for job in &jobs {
            counts.both += job.counts.both;
            counts.only_here += job.counts.only_here;
            counts.only_there += job.counts.only_there;
        }
        let mut all: Vec<i64> = jobs.iter().flat_map(|job| &job.differences).copied().collect();
        counts.note_differences(&mut all);
        Self {
            since: span.0.to_string(),
            until: span.1.to_string(),
            tolerance_ms: tolerance.0,
            counts,
            jobs,
            bad: log.bad,
            left_out: log.left_out,
            missing: Vec::new(),
        }
    }

    /// The fires of all jobs, as rows of a table.
    pub(super) fn rows(&self) -> Vec<CompareRow<'_>> {
        self.jobs.iter().flat_map(|job| job.fires.iter().map(move |fire| CompareRow { job, fire })).collect()
    }

    /// The last line.
    pub(super) fn summary(&self) -> String {
        let CompareCounts { both, only_here, only_there, median_ms, worst_ms } = &self.counts;
        let jobs = self.jobs.len();
        let starts = match (median_ms, worst_ms) {
            (Some(median), Some(worst)) => {
                format!("; starts differ by {} (median), {} (worst)", millis(*median), signed(*worst))
            }
            _ => String::new(),
        };
        format!(
            "{} job{} from {} to {}: {} fires match, {} only here, {} only there{starts}",
            grouped(jobs as u64),
            if jobs == 1 { "" } else { "s" },
            local_time::local(Some(&self.since)),
            local_time::local(Some(&self.until)),
            grouped(*both),
            grouped(*only_here),
            grouped(*only_there)
        )
    }
}

impl TableRow for ComparedJob {
    const HEADS: &'static [&'static str] =
        &["job", "match", "only here", "only there", "median", "worst", "remark"];
    const WIDE_HEADS: &'static [&'static str] = &["there"];
    fn cells(&self) -> Vec<String> {
        let counts = &self.counts;
        vec![
            self.name(),
            counts.both.to_string(),
            counts.only_here.to_string(),
            counts.only_there.to_string(),
            or_dash(counts.median_ms.map(millis).as_deref()),
            or_dash(counts.worst_ms.map(signed).as_deref()),
            or_dash(Some(&self.notes.join("; "))),
        ]
    }
    fn wide_cells(&self) -> Vec<String> {
        vec![or_dash(Some(&self.there.join(", ")))]
    }
}

impl TableRow for CompareRow<'_> {
    const HEADS: &'static [&'static str] =
        &["job", "fire", "here", "there", "differ", "outcome here", "outcome there", "reason"];
    fn cells(&self) -> Vec<String> {
        let ComparedFire { side, here, there, difference_ms, outcome_here, outcome_there, reason } =
            self.fire;
        let side = match side {
            FireSide::Both => "match",
            FireSide::OnlyHere => "only here",
            FireSide::OnlyThere => "only there",
        };
        vec![
            self.job.name(),
            side.to_owned(),
            local_time::local(here.as_deref()),
            local_time::local(there.as_deref()),
            or_dash(difference_ms.map(signed).as_deref()),
            or_dash(outcome_here.as_deref()),
            or_dash(outcome_there.as_deref()),
            or_dash(reason.as_deref()),
        ]
    }
}

/// A difference for people.
fn millis(differ: i64) -> String {
    if differ < 10_000 { format!("{differ}ms") } else { format!("{}s", differ / 1_000) }
}

/// The same with its sign: + for later here.
fn signed(differ: i64) -> String {
    format!("{}{}", if differ < 0 { "-" } else { "+" }, millis(differ.abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there(at: i64) -> RivalFire {
        RivalFire { at: Wall(at * 1_000), outcome: String::new(), shard: None, id: None }
    }

    fn own(fires: &[(i64, Option<i64>)]) -> OwnFires {
        let fire = |(due, started): &(i64, Option<i64>)| {
            let (outcome, reason) = match started {
                Some(_) => ("shadow", String::new()),
                None => ("skipped", format!("why {due}")),
            };
            let started = started.map(Wall);
            (Wall(due * 1_000), OwnFire { started, outcome: outcome.to_owned(), reason })
        };
        let jobs = [("j".to_owned(), fires.iter().map(fire).collect())].into();
        OwnFires { jobs, missing: Vec::new() }
    }

    #[test]
    fn a_doubled_run_there_and_missing_runs_on_either_side_are_found() {
        let own = own(&[
            (-30, Some(-30_000)),
            (100, Some(100_040)),
            (200, Some(200_000)),
            (300, Some(300_000)),
            (400, None),
            (990, Some(990_000)),
        ]);
        let there = [-900, -25, 100, 101, 300, 402, 1_010, 1_020, 5_000].map(there).to_vec();
        let unit = CompareUnit { jobs: ["j".to_owned()].into(), subjects: vec!["j".to_owned()], there };
        let job = ComparedJob::of(&unit, &own, (Wall(0), Wall(1_000_000)), Millis::secs(60));
        let sides: Vec<(FireSide, Option<i64>, Option<&str>)> =
            job.fires.iter().map(|fire| (fire.side, fire.difference_ms, fire.reason.as_deref())).collect();
        assert_eq!(
            sides,
            [
                (FireSide::Both, Some(40), None),
                (FireSide::OnlyThere, None, None),
                (FireSide::OnlyHere, None, None),
                (FireSide::Both, Some(0), None),
                (FireSide::OnlyThere, None, Some("why 400")),
                // Its partner is beyond the end of the span; the run after that is not compared.
                (FireSide::Both, Some(-20_000), None),
            ]
        );
        let counts = &job.counts;
        assert_eq!((counts.both, counts.only_here, counts.only_there), (3, 1, 2));
        assert_eq!((counts.median_ms, counts.worst_ms), (Some(40), Some(-20_000)));
        let whole = FireComparison::new((Wall(0), Wall(1)), Millis::secs(60), vec![job], RivalLog::default());
        let summary = whole.summary();
        assert!(
            summary.ends_with(
                ": 3 fires match, 1 only here, 2 only there; starts differ by 40ms (median), -20s (worst)"
            ),
            "{summary}"
        );
    }

    #[test]
    fn remarks_say_why_a_whole_job_differs() {
        let of = |jobs: &[&str], subjects: &[&str], fires: &[(i64, Option<i64>)], others: &[i64]| {
            let owned = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
            let there = others.iter().copied().map(there).collect();
            let unit =
                CompareUnit { jobs: owned(jobs).into_iter().collect(), subjects: owned(subjects), there };
            let job = ComparedJob::of(&unit, &own(fires), (Wall(0), Wall(1_000_000)), Millis::secs(60));
            (job.name(), job.notes.join("; "))
        };
        let none = of(&[], &["gone"], &[], &[5]);
        assert_eq!(none, ("gone".to_owned(), "no job here is meant".to_owned()));
        assert!(of(&["j"], &["j"], &[], &[5]).1.contains("no run here"));
        assert!(of(&["j"], &[], &[(5, Some(5_000))], &[]).1.contains("have no run of it"));
        let late = of(&["j"], &["j"], &[(500, Some(500_000))], &[100, 200, 500]);
        assert!(late.1.ends_with(": 2 there are before it"), "{late:?}");
        let two = of(&["j", "k"], &["x"], &[(5, Some(5_000))], &[5]);
        assert_eq!(
            two,
            ("j, k".to_owned(), "they have the same command, and are compared together".to_owned())
        );
    }
}
