//! A judge that sees nothing wrong in a wrong case would prove nothing: each wrong that he must see is planted once.

use super::*;
use crate::evidence::tests::{killed, lost_lease};
use crate::evidence::{LostLease, NodeFault};

const ONCE: usize = 0;
const AGAIN: usize = 3;

/// Everything that was right, and what one test changes of it.
struct ShardedStory {
    lines: Vec<ShardWitnessLine>,
    verdicts: Vec<ShardVerdict>,
    faults: Vec<NodeFault>,
    lost_leases: Vec<LostLease>,
    rescales: Vec<Rescale>,
    skips: Vec<SkippedFires>,
}

fn line(word: WitnessWord, job: usize, shard: u32, due: i64, at: i64) -> ShardWitnessLine {
    let token = u64::try_from(due).expect("not before 1970");
    let (job, of) = (witness::name(job), JOBS[job].shards);
    ShardWitnessLine { word, job, due, shard, of, node: "n1".into(), attempt: 1, token, at, by: at + 20 }
}

/// History says so of fires, and of the one that was lost at that moment.
fn verdict(job: usize, span: (i64, i64), lost: Option<i64>) -> ShardVerdict {
    let (state, reason) =
        if lost.is_some() { (FireEnd::Lost, "its node is gone") } else { (FireEnd::Skipped, MISFIRE) };
    let loss = lost.map(|recorded| AttemptLoss { node: "n1".into(), attempt: 1, started: None, recorded });
    let (attempt, reason) = (u64::from(lost.is_some()), reason.into());
    ShardVerdict { job: witness::name(job), shard: 0, span, state, attempt, reason, loss }
}

impl ShardedStory {
    /// Every job ran on each second from 2 to 19, and everything went well.
    fn fair() -> Self {
        let mut lines = Vec::new();
        for due in (2_000..19_000).step_by(1_000) {
            for (job, is) in JOBS.iter().enumerate() {
                for shard in 0..is.shards {
                    lines.extend(
                        [WitnessWord::Start, WitnessWord::End].map(|word| line(word, job, shard, due, due)),
                    );
                }
            }
        }
        let (verdicts, faults, lost_leases) = (Vec::new(), Vec::new(), Vec::new());
        Self { lines, verdicts, faults, lost_leases, rescales: Vec::new(), skips: Vec::new() }
    }

    /// Without what shard 0 of this job wrote of this fire.
    fn without(mut self, job: usize, due: i64) -> Self {
        self.lines.retain(|line| (&line.job, line.shard, line.due) != (&witness::name(job), 0, due));
        self
    }

    /// The same with these lines where their time has come.
    fn with(mut self, lines: &[ShardWitnessLine]) -> Self {
        for line in lines {
            let at = self.lines.iter().position(|other| other.at > line.at).unwrap_or(self.lines.len());
            self.lines.insert(at, line.clone());
        }
        self
    }

    fn says(mut self, verdict: ShardVerdict) -> Self {
        self.verdicts.push(verdict);
        self
    }

    fn fault(mut self, at: i64) -> Self {
        self.faults.push(killed(at));
        self
    }

    fn lost_lease(mut self, at: i64) -> Self {
        self.lost_leases.push(lost_lease(at));
        self
    }

    #[track_caller]
    fn judged(self, expected: &[&str]) {
        let evidence = Evidence::gather(&self.faults, &self.lost_leases, witness::starts(&self.lines));
        let (rescales, skips) = (&self.rescales, &self.skips);
        let course = TrialCourse { begun: 1_000, ended: 20_000, evidence: &evidence, rescales, skips };
        let found = ShardedCase::gather(self.lines, self.verdicts.into_iter(), course).judge();
        let seen = expected.iter().zip(&found).all(|(expected, found)| found.contains(expected));
        assert!(seen && found.len() == expected.len(), "expected {expected:?}, found {found:#?}");
    }
}

#[test]
fn nothing_is_found_where_all_is_well() {
    ShardedStory::fair().judged(&[]);
}

#[test]
fn a_shard_that_did_not_run_is_found() {
    ShardedStory::fair().without(ONCE, 5_000).judged(&["never ran"]);
    ShardedStory::fair().without(AGAIN, 5_000).judged(&["never ran"]);
    let start = |job| line(WitnessWord::Start, job, 0, 5_000, 5_000);
    ShardedStory::fair().without(ONCE, 5_000).with(&[start(ONCE)]).judged(&["ended by nobody's word"]);
    ShardedStory::fair().without(AGAIN, 5_000).with(&[start(AGAIN)]).judged(&["attempt 1 did not end"]);
}

#[test]
fn a_loss_needs_an_interruption_that_explains_it() {
    let lost_at = |recorded| {
        ShardedStory::fair().without(ONCE, 5_000).says(verdict(ONCE, (5_000, 5_000), Some(recorded)))
    };
    let lost = || lost_at(5_900);
    lost().fault(4_500).judged(&[]);
    lost().judged(&["without a cause"]);
    lost().fault(3_900).judged(&["without a cause"]);
    lost().fault(5_901).judged(&["without a cause"]);
    lost_at(9_000).fault(7_500).judged(&["without a cause"]);
    let elsewhere = ShardWitnessLine { node: "n2".into(), ..line(WitnessWord::Start, ONCE, 0, 5_000, 5_000) };
    lost().fault(4_500).with(&[elsewhere]).judged(&["ran elsewhere"]);
    // Where doubt means another attempt, a word of loss is not enough.
    let again = ShardedStory::fair().without(AGAIN, 5_000).says(verdict(AGAIN, (5_000, 5_000), Some(5_900)));
    again.fault(4_500).judged(&["never ran"]);
}

/// No fault of the trial, but the node recorded that its lease was lost.
#[test]
fn a_lost_lease_explains_what_the_node_had_and_nothing_else() {
    let stalled = |recorded| {
        let mut story = ShardedStory::fair();
        let others = |line: &&mut ShardWitnessLine| (5_000..17_000).contains(&line.due);
        story.lines.iter_mut().filter(others).for_each(|line| line.node = "n2".into());
        let late = |line: &&mut ShardWitnessLine| (5_000..8_000).contains(&line.due);
        story.lines.iter_mut().filter(late).for_each(|line| (line.at, line.by) = (8_000, 8_020));
        story.without(ONCE, 5_000).says(verdict(ONCE, (5_000, 5_000), Some(recorded)))
    };
    stalled(7_900).lost_lease(9_500).judged(&[]);
    stalled(7_900).judged(&["without a cause"]);
    stalled(7_900).lost_lease(3_500).judged(&["without a cause"]);
    stalled(7_900).lost_lease(18_500).judged(&["without a cause"]);
    stalled(3_900).lost_lease(9_500).judged(&["without a cause"]);
    stalled(7_900).without(ONCE, 6_000).lost_lease(9_500).judged(&["never ran"]);
    let more = |word| ShardWitnessLine { attempt: 2, token: 5_500, ..line(word, AGAIN, 0, 5_000, 5_800) };
    let again = || ShardedStory::fair().with(&[WitnessWord::Start, WitnessWord::End].map(more));
    again().lost_lease(5_900).judged(&[]);
    again().lost_lease(4_900).judged(&["doubled"]);
    again().lost_lease(8_900).judged(&["doubled"]);
    let twice = [WitnessWord::Start, WitnessWord::End].map(|word| ShardWitnessLine {
        job: witness::name(ONCE),
        of: 1,
        ..more(word)
    });
    ShardedStory::fair().with(&twice).lost_lease(5_900).judged(&["doubled"]);
}

#[test]
fn a_second_start_needs_a_dead_node_and_a_higher_attempt() {
    let second = |job, attempt: u32| {
        let more = |word| ShardWitnessLine {
            attempt,
            token: 5_500,
            node: "n2".into(),
            ..line(word, job, 0, 5_000, 5_800)
        };
        ShardedStory::fair().with(&[more(WitnessWord::Start), more(WitnessWord::End)])
    };
    second(AGAIN, 2).fault(5_100).judged(&[]);
    second(AGAIN, 2).judged(&["doubled"]);
    second(AGAIN, 2).fault(5_900).judged(&["doubled"]);
    second(AGAIN, 2).fault(3_900).judged(&["doubled"]);
    second(AGAIN, 1).fault(5_100).judged(&["doubled"]);
    second(ONCE, 2).fault(5_100).judged(&["doubled"]);
    // It began long after it was due, as faults in a row came upon it: the last one between these attempts, or before both.
    let late = |attempt: u32, at| {
        [WitnessWord::Start, WitnessWord::End].map(|word| ShardWitnessLine {
            attempt,
            token: 20_000 + u64::from(attempt),
            ..line(word, AGAIN, 0, 5_000, at)
        })
    };
    let [[first, _], [second, end]] = [late(1, 38_000), late(2, 43_000)];
    let long_after =
        || ShardedStory::fair().without(AGAIN, 5_000).with(&[first.clone(), second.clone(), end.clone()]);
    long_after().fault(39_000).judged(&[]);
    long_after().fault(37_000).judged(&["doubled"]);
}

#[test]
fn a_run_that_ended_with_its_guard_is_told_and_may_be_attempted_again() {
    let gone = |job, reason: &str| ShardVerdict {
        state: FireEnd::Fenced,
        attempt: 1,
        reason: reason.into(),
        loss: AttemptLoss::of(&serde_json::json!({
            "state": "fenced", "node": "n1", "reason": reason, "ended": "1970-01-01T00:00:05.900Z",
        })),
        ..verdict(job, (5_000, 5_000), None)
    };
    ShardedStory::fair().without(ONCE, 5_000).says(gone(ONCE, UNGUARDED)).judged(&[]);
    ShardedStory::fair().without(ONCE, 5_000).says(gone(ONCE, "")).judged(&["without a cause"]);
    ShardedStory::fair().without(AGAIN, 5_000).says(gone(AGAIN, UNGUARDED)).judged(&["never ran"]);
    let more = |word| ShardWitnessLine { attempt: 2, token: 5_500, ..line(word, AGAIN, 0, 5_000, 5_800) };
    let again = || ShardedStory::fair().with(&[more(WitnessWord::Start), more(WitnessWord::End)]);
    again().says(gone(AGAIN, UNGUARDED)).judged(&[]);
    again().says(gone(AGAIN, "")).judged(&["doubled"]);
}

#[test]
fn a_shard_beside_itself_and_a_token_that_does_not_grow_are_found() {
    let mut story = ShardedStory::fair();
    let late = line(WitnessWord::Alive, AGAIN, 0, 5_000, 6_100);
    story = story.with(&[late]);
    story.judged(&["a shard beside itself"]);
    let mut story = ShardedStory::fair();
    let same = |line: &&mut ShardWitnessLine| line.job == witness::name(ONCE) && line.due == 7_000;
    story.lines.iter_mut().filter(same).for_each(|line| line.token = 6_000);
    story.judged(&["a token did not grow"]);
}

#[test]
fn a_skipped_fire_needs_a_run_that_was_in_its_way_and_one_that_makes_up_for_it() {
    // The run of second 5 went on until 8.4: 6 and 7 are given up, 8 is made up.
    let long = |end: i64| {
        let story = ShardedStory::fair()
            .without(ONCE, 5_000)
            .without(ONCE, 6_000)
            .without(ONCE, 7_000)
            .without(ONCE, 8_000);
        let run =
            [line(WitnessWord::Start, ONCE, 0, 5_000, 5_000), line(WitnessWord::End, ONCE, 0, 5_000, end)];
        let next = [WitnessWord::Start, WitnessWord::End].map(|word| line(word, ONCE, 0, 8_000, 8_500));
        story.with(&run).with(&next)
    };
    let given_up = || verdict(ONCE, (6_000, 7_000), None);
    // The registry closed the run of that fire, which could start and was closed at these moments.
    let closed = |run, began, closed| {
        let (job, shard, span) = (witness::name(ONCE), 0, (6_000, 7_000));
        vec![SkippedFires { job, shard, span, run, began, closed }]
    };
    let long = |end: i64| ShardedStory { skips: closed(5_000, 5_000, end + 50), ..long(end) };
    long(8_400).says(given_up()).judged(&[]);
    long(8_400).judged(&["never ran", "never ran"]);
    long(5_900).says(given_up()).judged(&["no run was going on", "no run was going on"]);
    let none = |skips| ShardedStory { skips, ..long(8_400) };
    none(Vec::new()).says(given_up()).judged(&["closed no run", "closed no run"]);
    none(closed(5_000, 6_500, 8_450)).says(given_up()).judged(&["no run was going on"]);
    none(closed(5_000, 5_000, 6_900)).says(given_up()).judged(&["no run was going on"]);
    none(closed(4_000, 4_000, 8_450)).says(given_up()).judged(&["no run was", "no run was"]);
    // The registry kept it open, and the witness saw that each of those that are skipped came due after its end.
    let run =
        [line(WitnessWord::Start, ONCE, 0, 5_000, 4_600), line(WitnessWord::End, ONCE, 0, 5_000, 4_900)];
    let early = none(closed(5_000, 5_000, 8_450)).without(ONCE, 5_000).with(&run);
    early.says(given_up()).judged(&["at any of 2 skipped fires"]);
    long(8_400).without(ONCE, 8_000).says(given_up()).judged(&["made up", "made up", "never ran"]);
    let old = ShardVerdict { reason: "older than the grace of 60s".into(), ..given_up() };
    long(8_400).says(old).judged(&["no good reason", "no good reason"]);
    let ran = [WitnessWord::Start, WitnessWord::End].map(|word| line(word, ONCE, 0, 7_000, 8_450));
    long(8_400).says(given_up()).with(&ran).judged(&["skipped, and ran"]);
}

#[test]
fn shards_that_there_are_not_and_wrong_numbers_of_them_are_found() {
    let extra = [WitnessWord::Start, WitnessWord::End]
        .map(|word| ShardWitnessLine { of: 2, ..line(word, ONCE, 1, 5_000, 5_000) });
    // Shard 1 of a job of one is looked for only where the job may have two.
    ShardedStory::fair().with(&extra).judged(&["wrong number"]);
    let rescaled = |of: u32, due: i64| {
        let job = 4;
        let mut story = ShardedStory::fair();
        story.lines.retain(|line| line.job != witness::name(job) || line.due < 10_000);
        for due in (10_000..19_000).step_by(1_000) {
            for shard in 0..9 {
                let both = [WitnessWord::Start, WitnessWord::End]
                    .map(|word| ShardWitnessLine { of: 9, ..line(word, job, shard, due, due) });
                story = story.with(&both);
            }
        }
        let odd = |line: &&mut ShardWitnessLine| {
            line.job == witness::name(job) && line.due == due && line.shard == 0
        };
        story.lines.iter_mut().filter(odd).for_each(|line| line.of = of);
        story.rescales.push(Rescale { job, from: 6, to: 9, settled: 8_000, claimed: 10_000 });
        story
    };
    rescaled(9, 15_000).judged(&[]);
    rescaled(6, 15_000).judged(&["wrong number"]);
    rescaled(6, 10_000).judged(&[]);
    rescaled(7, 10_000).judged(&["wrong number"]);
    let mut early = rescaled(9, 15_000);
    early.lines.retain(|line| (&line.job, line.shard, line.due) != (&witness::name(4), 8, 16_000));
    early.judged(&["never ran"]);
}

#[test]
fn rows_of_history_are_read() {
    let row = serde_json::json!({
        "job": "sharded-0", "shard": 3, "due": "1970-01-01T00:00:07.000Z", "state": "skipped", "node": "n1",
        "attempt": 0, "ended": "1970-01-01T00:00:08Z",
        "reason": format!("all fires from 1970-01-01T00:00:05.000Z on: {MISFIRE}"),
    });
    let read = ShardVerdict::of(&row).expect("a verdict");
    assert_eq!((read.shard, read.span, read.state), (3, (5_000, 7_000), FireEnd::Skipped));
    assert_eq!(read.fires().collect::<Vec<_>>(), [5_000, 6_000, 7_000]);
    assert_eq!(
        ShardVerdict::of(
            &serde_json::json!({"job": "witness-00", "shard": 0, "due": "1970-01-01T00:00:07Z"})
        ),
        None
    );
}
