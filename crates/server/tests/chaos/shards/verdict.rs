//! The judge of sharded jobs: every shard of every second that was due, against what the witness saw and what history says.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::skips::SkippedFires;
use super::witness::{self, JOBS, ShardWitnessLine, WitnessWord, moment};
use crate::evidence::{AttemptLoss, Evidence, LEAD_MS, UNGUARDED};

const PERIOD_MS: i64 = 1_000;
/// Why a fire may be skipped; nothing here lasts as long as the grace.
const MISFIRE: &str = "came due while the run before was going on";

/// What history says of a fire that did not run to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShardVerdict {
    job: String,
    shard: u32,
    /// First and last of the fires that it is about.
    span: (i64, i64),
    state: FireEnd,
    attempt: u64,
    reason: String,
    loss: Option<AttemptLoss>,
}

/// How it came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FireEnd {
    Lost,
    Skipped,
    /// Ended by its own node.
    Fenced,
}

impl ShardVerdict {
    /// Reads a row of the history; `None` when it is not about a sharded job.
    pub(crate) fn of(row: &Value) -> Option<Self> {
        let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
        let (job, reason) = (text("job"), text("reason"));
        if !(0..JOBS.len()).any(|at| witness::name(at) == job) {
            return None;
        }
        let last = moment(&text("due")).expect("a due time");
        let first = reason.strip_prefix("all fires from ").and_then(|rest| rest.split_once(" on: "));
        let first = first.map_or(last, |(first, _)| moment(first).expect("a moment"));
        let shard = u32::try_from(row["shard"].as_u64().expect("a shard")).expect("a small number");
        let state = match row["state"].as_str() {
            Some("lost") => FireEnd::Lost,
            Some("skipped") => FireEnd::Skipped,
            _ => FireEnd::Fenced,
        };
        let attempt = row["attempt"].as_u64().expect("an attempt");
        Some(Self { job, shard, span: (first, last), state, attempt, reason, loss: AttemptLoss::of(row) })
    }

    fn fires(&self) -> impl Iterator<Item = i64> {
        (self.span.0..=self.span.1).step_by(PERIOD_MS as usize)
    }
}

/// A job got another number of shards. Which fires are of which number the registry itself says, by what was claimed before
/// and after.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rescale {
    pub(crate) job: usize,
    pub(crate) from: u32,
    pub(crate) to: u32,
    /// Fires up to this one had begun, or were over, before the change was asked for.
    pub(crate) settled: i64,
    /// Fires after this one were claimed when the change was made.
    pub(crate) claimed: i64,
}

/// What was done, and what is known beside witness and history.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TrialCourse<'a> {
    pub(crate) begun: i64,
    pub(crate) ended: i64,
    pub(crate) evidence: &'a Evidence,
    pub(crate) rescales: &'a [Rescale],
    pub(crate) skips: &'a [SkippedFires],
}

/// All that is known of one shard of one fire.
#[derive(Default)]
struct ShardFireEvidence {
    starts: Vec<ShardWitnessLine>,
    ends: Vec<ShardWitnessLine>,
    lost: Vec<AttemptLoss>,
    skipped: Vec<ShardVerdict>,
    /// Attempts that ended with their guard.
    unguarded: Vec<u64>,
}

/// Whether a shard had to run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FireExpectation {
    Yes,
    /// Its job got another number of shards at that time.
    Perhaps,
    No,
}

/// The evidence: what is known of each shard's fires, by job, shard and due time.
pub(crate) struct ShardedCase<'a> {
    shards: BTreeMap<(String, u32), BTreeMap<i64, ShardFireEvidence>>,
    complaints: Vec<String>,
    course: TrialCourse<'a>,
}

impl<'a> ShardedCase<'a> {
    /// Puts the witness's lines and the history's verdicts together.
    pub(crate) fn gather(
        lines: Vec<ShardWitnessLine>,
        verdicts: impl Iterator<Item = ShardVerdict>,
        course: TrialCourse<'a>,
    ) -> Self {
        let complaints = disorder(&lines);
        let mut case = Self { shards: BTreeMap::new(), complaints, course };
        for line in lines {
            let fire = case.fire(&line.job, line.shard, line.due);
            match line.word {
                WitnessWord::Start => fire.starts.push(line),
                WitnessWord::End => fire.ends.push(line),
                WitnessWord::Alive => {}
            }
        }
        for verdict in verdicts {
            for due in verdict.fires().collect::<Vec<_>>() {
                let fire = case.fire(&verdict.job, verdict.shard, due);
                fire.lost.extend(verdict.loss.clone());
                match verdict.state {
                    FireEnd::Skipped => fire.skipped.push(verdict.clone()),
                    FireEnd::Fenced if verdict.reason == UNGUARDED => fire.unguarded.push(verdict.attempt),
                    FireEnd::Lost | FireEnd::Fenced => {}
                }
            }
        }
        case
    }

    fn fire(&mut self, job: &str, shard: u32, due: i64) -> &mut ShardFireEvidence {
        self.shards.entry((job.to_owned(), shard)).or_default().entry(due).or_default()
    }

    /// What is wrong; empty when nothing is.
    pub(crate) fn judge(mut self) -> Vec<String> {
        let mut complaints = std::mem::take(&mut self.complaints);
        let none = (ShardFireEvidence::default(), BTreeMap::new());
        for (at, job) in JOBS.iter().enumerate() {
            let name = witness::name(at);
            for shard in 0..job.shards.max(job.other.unwrap_or(0)) {
                let fires = self.shards.get(&(name.clone(), shard)).unwrap_or(&none.1);
                for due in self.dues() {
                    let found = self.one(at, shard, due, fires.get(&due).unwrap_or(&none.0), fires);
                    complaints.extend(found.map(|what| format!("{name} shard {shard} due {due}: {what}")));
                }
            }
        }
        for ((job, shard), fires) in &self.shards {
            let strange = fires.iter().filter(|(due, _)| *due % PERIOD_MS != 0);
            complaints.extend(strange.map(|(due, _)| format!("{job} shard {shard} due {due}: no such fire")));
        }
        complaints.extend(self.shards.values().flat_map(BTreeMap::values).flat_map(|f| self.wrong_total(f)));
        complaints.extend(self.needless());
        complaints
    }

    /// Every second that is surely the jobs'.
    fn dues(&self) -> impl Iterator<Item = i64> + use<> {
        let first = (self.course.begun / PERIOD_MS + 2) * PERIOD_MS;
        (first..self.course.ended - PERIOD_MS).step_by(PERIOD_MS as usize)
    }

    fn one(
        &self,
        job: usize,
        shard: u32,
        due: i64,
        fire: &ShardFireEvidence,
        fires: &BTreeMap<i64, ShardFireEvidence>,
    ) -> Option<String> {
        let repeats = JOBS[job].repeats;
        match self.wanted(job, shard, due) {
            FireExpectation::No if fire.starts.is_empty() => return None,
            FireExpectation::No => return Some(format!("there is no such shard: {:?}", fire.starts)),
            FireExpectation::Perhaps if fire.starts.is_empty() => return None,
            FireExpectation::Perhaps | FireExpectation::Yes => {}
        }
        if let Some(verdict) = fire.skipped.first() {
            return self
                .skipped(verdict, due, fire, fires)
                .map(|what| format!("{what}: {verdict:?}"))
                .or_else(|| {
                    (self.wanted(job, shard, verdict.span.1 + PERIOD_MS) == FireExpectation::Yes)
                        .then_some(())
                        .and_then(|()| self.caught_up(verdict, fires))
                });
        }
        if repeats { self.at_least_once(fire) } else { self.at_most_once(fire, due, fires) }
    }

    /// Whether a shard belonged to its job's fire of this moment.
    fn wanted(&self, job: usize, shard: u32, due: i64) -> FireExpectation {
        let mut total = JOBS[job].shards;
        for change in self.course.rescales.iter().filter(|change| change.job == job) {
            if due <= change.settled {
                break;
            }
            if due <= change.claimed {
                return match shard {
                    s if s < change.from.min(change.to) => FireExpectation::Yes,
                    s if s < change.from.max(change.to) => FireExpectation::Perhaps,
                    _ => FireExpectation::No,
                };
            }
            total = change.to;
        }
        if shard < total { FireExpectation::Yes } else { FireExpectation::No }
    }

    /// It ran, and ran again only as a higher attempt after its first node was interrupted.
    fn at_least_once(&self, fire: &ShardFireEvidence) -> Option<String> {
        let Some(last) = fire.starts.last() else { return Some("never ran".into()) };
        if !fire.ends.iter().any(|end| end.attempt == last.attempt) {
            return Some(format!("attempt {} did not end", last.attempt));
        }
        fire.starts.windows(2).find_map(|pair| {
            let (before, after) = (&pair[0], &pair[1]);
            let rising = before.attempt < after.attempt && before.token < after.token;
            let evidence = self.course.evidence;
            let reason = evidence.explains_repetition(
                &before.node,
                (AttemptLoss::began(&fire.lost, before.attempt, before.at), after.by),
            ) || fire.unguarded.contains(&u64::from(before.attempt));
            (!(rising && reason)).then(|| format!("doubled: {before:?} then {after:?}"))
        })
    }

    /// It ran once, or its node was interrupted while it had the fire, and history says that it is lost.
    fn at_most_once(
        &self,
        fire: &ShardFireEvidence,
        due: i64,
        fires: &BTreeMap<i64, ShardFireEvidence>,
    ) -> Option<String> {
        if fire.starts.len() > 1 {
            return Some(format!("doubled: {:?}", fire.starts));
        }
        if !(fire.ends.is_empty() && fire.unguarded.is_empty()) {
            return None;
        }
        let start = fire.starts.first();
        let Some(loss) = fire.lost.first() else {
            return Some(if start.is_none() { "never ran" } else { "ended by nobody's word" }.into());
        };
        if let Some(start) = start.filter(|start| start.node != loss.node) {
            return Some(format!("lost on {}, but it ran elsewhere: {start:?}", loss.node));
        }
        let since = start.map_or(due - LEAD_MS, |start| start.at.max(due - LEAD_MS));
        let mut later =
            fires.range(due + 1..).filter_map(|(_, fire)| fire.starts.first()).map(|start| start.by);
        let went_on = later.next().unwrap_or(i64::MAX);
        let explained = self.course.evidence.explains_loss(loss, since, |moment| went_on <= moment);
        (!explained).then(|| format!("lost on {} without a cause that explains it", loss.node))
    }

    /// It was due after the run before had begun and before that was closed.
    fn skipped(
        &self,
        verdict: &ShardVerdict,
        due: i64,
        fire: &ShardFireEvidence,
        fires: &BTreeMap<i64, ShardFireEvidence>,
    ) -> Option<String> {
        if !fire.starts.is_empty() {
            return Some("skipped, and ran".into());
        }
        if !verdict.reason.ends_with(MISFIRE) {
            return Some("skipped for no good reason".into());
        }
        let known = |skip: &&SkippedFires| {
            (&skip.job, skip.shard, skip.span) == (&verdict.job, verdict.shard, verdict.span)
        };
        let Some(skip) = self.course.skips.iter().find(known) else {
            return Some("skipped, but the registry closed no run that was in its way".into());
        };
        // The earlier fire that it waited for was due before the first of those that are given up together.
        let waited = waited(verdict, fires).is_some_and(|(run, _)| run == skip.run);
        let open = (skip.began..=skip.closed).contains(&due);
        (!(waited && open)).then(|| format!("skipped, but no run was going on: {skip:?}"))
    }

    /// A run that has ended is closed soon, but for a machine that stands still in between: so not every skipped fire may have
    /// come due after the run in its way had ended.
    fn needless(&self) -> Option<String> {
        let skipped = |fires: &'_ BTreeMap<i64, ShardFireEvidence>| -> Vec<bool> {
            let all = fires.iter().filter_map(|(due, fire)| Some((*due, fire.skipped.first()?)));
            let over = |(due, verdict): (i64, &ShardVerdict)| {
                let end = waited(verdict, fires).and_then(|(_, run)| run.ends.last());
                end.is_some_and(|end| end.by < due - LEAD_MS)
            };
            all.map(over).collect()
        };
        let over: Vec<bool> = self.shards.values().flat_map(skipped).collect();
        let all = !over.is_empty() && over.iter().all(|over| *over);
        all.then(|| format!("no run was going on at any of {} skipped fires", over.len()))
    }

    /// The latest of the fires that a run was in the way of is made up when it has ended.
    fn caught_up(&self, verdict: &ShardVerdict, fires: &BTreeMap<i64, ShardFireEvidence>) -> Option<String> {
        let kept = verdict.span.1 + PERIOD_MS;
        let ran = fires.get(&kept).is_some_and(|fire| !fire.starts.is_empty() || !fire.lost.is_empty());
        (kept < self.course.ended - PERIOD_MS && !ran).then(|| format!("nothing made up for it: {verdict:?}"))
    }

    /// Each shard was told of how many it is one: as many as there were.
    fn wrong_total(&self, fire: &ShardFireEvidence) -> Vec<String> {
        let right = |line: &ShardWitnessLine| {
            let job = (0..JOBS.len()).find(|at| witness::name(*at) == line.job)?;
            let near: BTreeSet<u32> = self
                .course
                .rescales
                .iter()
                .filter(|r| r.job == job)
                .filter(|r| (r.settled + 1..=r.claimed).contains(&line.due))
                .flat_map(|r| [r.from, r.to])
                .collect();
            let exact = || {
                self.wanted(job, line.of.wrapping_sub(1), line.due) == FireExpectation::Yes
                    && self.wanted(job, line.of, line.due) == FireExpectation::No
            };
            let known = if near.is_empty() { exact() } else { near.contains(&line.of) };
            (known && line.shard < line.of).then_some(())
        };
        let wrong = fire.starts.iter().filter(|line| right(line).is_none());
        wrong.map(|line| format!("told a wrong number of shards: {line:?}")).collect()
    }
}

/// The fire that ran last before those that are given up together.
fn waited<'f>(
    verdict: &ShardVerdict,
    fires: &'f BTreeMap<i64, ShardFireEvidence>,
) -> Option<(i64, &'f ShardFireEvidence)> {
    let ran = |fire: &ShardFireEvidence| {
        !(fire.starts.is_empty() && fire.unguarded.is_empty() && fire.lost.is_empty())
    };
    fires.range(..verdict.span.0).rev().find(|(_, fire)| ran(fire)).map(|(due, fire)| (*due, fire))
}

/// A shard beside itself, and tokens that do not grow.
fn disorder(lines: &[ShardWitnessLine]) -> Vec<String> {
    let mut running: BTreeMap<(&str, u32), &ShardWitnessLine> = BTreeMap::new();
    let mut complaints = Vec::new();
    for line in lines {
        let Some(current) = running.insert((&line.job, line.shard), line) else { continue };
        if line.word == WitnessWord::Start {
            if line.token <= current.token {
                complaints.push(format!("a token did not grow: {current:?} then {line:?}"));
            }
        } else if line.token != current.token {
            complaints.push(format!("a shard beside itself: {line:?} beside {current:?}"));
        }
    }
    complaints
}

#[cfg(test)]
mod tests;
