//! A judge that sees nothing wrong in a wrong case would prove nothing.

use super::*;
use crate::evidence::tests::{killed, lost_lease};
use crate::evidence::{LostLease, NodeFault};

/// The job of these tests where a fire is `at_most_once`, and where it is `at_least_once`.
const ONCE: usize = 0;
const AGAIN: usize = 1;
const ROSTER: JobRoster = JobRoster { prefix: "job-", jobs: 2, placement: "claimed", slow: ("brief", 3) };

/// A trial from 1 to 20 s, and what one test changes of it.
struct ClaimedStory {
    lines: Vec<WitnessLine>,
    rows: Vec<Value>,
    faults: Vec<NodeFault>,
    lost_leases: Vec<LostLease>,
}

fn line(word: WitnessWord, job: usize, due: i64, at: i64) -> WitnessLine {
    let token = u64::try_from(due).expect("not before 1970");
    WitnessLine { word, job: ROSTER.name(job), due, node: "n1".into(), attempt: 1, token, at, by: at + 20 }
}

impl ClaimedStory {
    /// Both jobs ran on each second from 2 to 19 on one node.
    fn fair() -> Self {
        let both = |due| {
            [ONCE, AGAIN]
                .map(|job| [WitnessWord::Start, WitnessWord::End].map(|word| line(word, job, due, due)))
        };
        let lines = (2_000..20_000).step_by(1_000).flat_map(both).flatten().collect();
        Self { lines, rows: Vec::new(), faults: Vec::new(), lost_leases: Vec::new() }
    }

    /// Without what this job wrote of these fires.
    fn without(mut self, job: usize, dues: std::ops::RangeInclusive<i64>) -> Self {
        self.lines.retain(|line| line.job != ROSTER.name(job) || !dues.contains(&line.due));
        self
    }

    /// Without what any job wrote between these moments: a node that was interrupted.
    fn silent(mut self, from: i64, until: i64) -> Self {
        self.lines.retain(|line| !(from..until).contains(&line.at));
        self
    }

    /// With these lines where their time has come.
    fn with(mut self, lines: &[WitnessLine]) -> Self {
        for line in lines {
            let at = self.lines.iter().position(|other| other.at > line.at).unwrap_or(self.lines.len());
            self.lines.insert(at, line.clone());
        }
        self
    }

    /// History says so of the first attempt of a fire.
    fn says(mut self, state: &str, (job, due): (usize, i64), recorded: i64) -> Self {
        let moment = |ms| jiff::Timestamp::from_millisecond(ms).expect("a moment").to_string();
        self.rows.push(serde_json::json!({
            "job": ROSTER.name(job), "due": moment(due), "state": state, "node": "n1", "attempt": 1,
            "reason": "", "ended": moment(recorded),
        }));
        self
    }

    fn reason(mut self, reason: &str) -> Self {
        self.rows.last_mut().expect("a row")["reason"] = reason.into();
        self
    }

    fn killed(mut self, at: i64) -> Self {
        self.faults.push(killed(at));
        self
    }

    fn lost_lease(mut self, at: i64) -> Self {
        self.lost_leases.push(lost_lease(at));
        self
    }

    #[track_caller]
    fn judged(self, expected: &[&str]) {
        let starts = self.lines.iter().filter(|line| line.word == WitnessWord::Start);
        let starts = starts.map(|line| (line.node.clone(), line.at));
        let evidence = Evidence::gather(&self.faults, &self.lost_leases, starts);
        let case = ClaimedCase::gather(&ROSTER, self.lines.clone(), self.rows.iter(), (0, 20_000), &evidence);
        let found = case.judge();
        let seen = expected.iter().zip(&found).all(|(expected, found)| found.contains(expected));
        assert!(seen && found.len() == expected.len(), "expected {expected:?}, found {found:#?}");
    }
}

#[test]
fn nothing_is_found_where_all_is_well() {
    ClaimedStory::fair().judged(&[]);
}

#[test]
fn a_fire_that_did_not_run_is_found() {
    ClaimedStory::fair().without(ONCE, 5_000..=5_000).judged(&["never ran"]);
    ClaimedStory::fair().without(AGAIN, 5_000..=5_000).judged(&["never ran"]);
    let start = |job| [line(WitnessWord::Start, job, 5_000, 5_000)];
    ClaimedStory::fair().without(ONCE, 5_000..=5_000).with(&start(ONCE)).judged(&["ended by nobody's word"]);
    ClaimedStory::fair().without(AGAIN, 5_000..=5_000).with(&start(AGAIN)).judged(&["attempt 1 did not end"]);
    // Neither a death nor a lost lease excuses what no history knows.
    ClaimedStory::fair().without(ONCE, 5_000..=5_000).killed(5_010).judged(&["never ran"]);
    ClaimedStory::fair().without(ONCE, 5_000..=5_000).lost_lease(5_010).judged(&["never ran"]);
    ClaimedStory::fair()
        .without(ONCE, 5_000..=5_000)
        .with(&start(ONCE))
        .killed(5_010)
        .judged(&["ended by nobody's"]);
}

#[test]
fn a_loss_needs_an_interruption_that_explains_it() {
    let lost = || ClaimedStory::fair().without(ONCE, 5_000..=5_000).says("lost", (ONCE, 5_000), 5_900);
    lost().judged(&["without a cause"]);
    lost().killed(4_500).judged(&[]);
    lost().killed(5_010).judged(&[]);
    lost().killed(3_900).judged(&["without a cause"]);
    lost().killed(5_901).judged(&["without a cause"]);
    // A later fire of the job had begun when the node died, so this one was over.
    lost().says("lost", (ONCE, 5_000), 9_000).killed(7_500).judged(&["without a cause"]);
    ClaimedStory::fair()
        .without(ONCE, 5_000..=5_000)
        .says("lost", (ONCE, 5_000), 9_000)
        .killed(7_500)
        .judged(&["without"]);
    let elsewhere = WitnessLine { node: "n2".into(), ..line(WitnessWord::Start, ONCE, 5_000, 5_000) };
    lost().killed(5_010).with(&[elsewhere]).judged(&["ran elsewhere"]);
    // It began after the node had died and come back, so that death took nothing from it.
    let late = line(WitnessWord::Start, ONCE, 5_000, 5_500);
    lost().killed(5_010).with(std::slice::from_ref(&late)).judged(&["without a cause"]);
    lost().killed(5_600).with(&[late]).judged(&[]);
    // Where doubt means another attempt, a word of loss is not enough.
    let again = ClaimedStory::fair().without(AGAIN, 5_000..=5_000).says("lost", (AGAIN, 5_000), 5_900);
    again.killed(5_010).judged(&["never ran"]);
}

/// A machine that stood still from 5 to 17 s: no fault of the trial, but the node recorded that its lease was lost.
#[test]
fn a_lost_lease_explains_what_the_node_had_and_nothing_else() {
    let stalled = || {
        ClaimedStory::fair()
            .silent(5_000, 17_000)
            .without(ONCE, 5_000..=16_000)
            .without(AGAIN, 5_000..=16_000)
    };
    let made_up = |mut story: ClaimedStory, from: i64| {
        for due in (from..17_000).step_by(1_000) {
            for job in [ONCE, AGAIN] {
                let others =
                    |word| WitnessLine { node: "n2".into(), ..line(word, job, due, 16_500 + due / 1_000) };
                story = story.with(&[WitnessWord::Start, WitnessWord::End].map(others));
            }
        }
        story
    };
    let story = || made_up(stalled(), 6_000);
    let again = |node: &str, attempt: u32, at| {
        let more = |word| WitnessLine { attempt, node: node.into(), ..line(word, AGAIN, 5_000, at) };
        [WitnessWord::Start, WitnessWord::End].map(more)
    };
    let story = || story().with(&again("n2", 2, 16_501));
    let lost = || story().says("lost", (ONCE, 5_000), 16_400);
    lost().lost_lease(16_900).judged(&[]);
    lost().judged(&["without a cause"]);
    story().lost_lease(16_900).judged(&["never ran"]);
    story().says("fenced", (ONCE, 5_000), 13_000).lost_lease(16_900).judged(&[]);
    story().says("fenced", (ONCE, 5_000), 13_000).judged(&["without a cause"]);
    // Another fire that the node had long finished with is not explained, nor one that it claimed in its next life.
    let another = |due, recorded| {
        lost().without(ONCE, due..=due).says("lost", (ONCE, due), recorded).lost_lease(16_900)
    };
    another(2_000, 16_400).judged(&["job-00 due 2000: lost on n1 without a cause"]);
    another(18_000, 18_900).judged(&["job-00 due 18000: lost on n1 without a cause"]);
}

#[test]
fn a_lost_lease_explains_a_repetition_only_after_its_end() {
    let repeated = |attempt: u32, at| {
        let more =
            |word| WitnessLine { attempt, token: 5_500, node: "n2".into(), ..line(word, AGAIN, 5_000, at) };
        ClaimedStory::fair().silent(5_001, 6_000).with(&[WitnessWord::Start, WitnessWord::End].map(more))
    };
    repeated(2, 5_700).lost_lease(5_900).judged(&[]);
    repeated(2, 5_700).judged(&["doubled"]);
    repeated(1, 5_700).lost_lease(5_900).judged(&["doubled"]);
    // The node lost its lease before the first attempt, or started runs of its own after the second.
    repeated(2, 5_700).lost_lease(4_900).judged(&["doubled"]);
    repeated(2, 5_700).lost_lease(8_900).judged(&["doubled"]);
    let twice = |word| WitnessLine { attempt: 2, token: 5_500, ..line(word, ONCE, 5_000, 5_700) };
    ClaimedStory::fair()
        .with(&[WitnessWord::Start, WitnessWord::End].map(twice))
        .lost_lease(5_900)
        .judged(&["doubled"]);
}

#[test]
fn a_second_start_needs_a_dead_node_and_a_higher_attempt() {
    let second = |job, attempt: u32| {
        let more =
            |word| WitnessLine { attempt, token: 5_500, node: "n2".into(), ..line(word, job, 5_000, 5_800) };
        ClaimedStory::fair().with(&[WitnessWord::Start, WitnessWord::End].map(more))
    };
    second(AGAIN, 2).killed(5_100).judged(&[]);
    second(AGAIN, 2).judged(&["doubled"]);
    second(AGAIN, 2).killed(5_900).judged(&["doubled"]);
    second(AGAIN, 2).killed(3_900).judged(&["doubled"]);
    second(AGAIN, 1).killed(5_100).judged(&["doubled"]);
    second(ONCE, 2).killed(5_100).judged(&["doubled"]);
    let lower = |word| WitnessLine { attempt: 2, token: 4_500, ..line(word, AGAIN, 5_000, 5_800) };
    let story = ClaimedStory::fair().with(&[WitnessWord::Start, WitnessWord::End].map(lower)).killed(5_100);
    story.judged(&["a token did not grow", "doubled"]);
}

#[test]
fn a_run_that_ended_with_its_guard_is_told_and_may_be_attempted_again() {
    let gone = |job| ClaimedStory::fair().without(job, 5_000..=5_000).says("fenced", (job, 5_000), 5_500);
    gone(ONCE).reason(UNGUARDED).judged(&[]);
    gone(ONCE).judged(&["without a cause"]);
    gone(AGAIN).reason(UNGUARDED).judged(&["never ran"]);
    let more = |word| WitnessLine { attempt: 2, token: 5_500, ..line(word, AGAIN, 5_000, 5_800) };
    let again = || {
        let story = ClaimedStory::fair().with(&[WitnessWord::Start, WitnessWord::End].map(more));
        story.says("fenced", (AGAIN, 5_000), 5_500)
    };
    again().reason(UNGUARDED).judged(&[]);
    again().judged(&["doubled"]);
}

#[test]
fn two_runs_at_once_and_fires_that_nothing_wanted_are_found() {
    ClaimedStory::fair().with(&[line(WitnessWord::Alive, AGAIN, 5_000, 6_100)]).judged(&["two runs at once"]);
    let odd = [WitnessWord::Start, WitnessWord::End].map(|word| line(word, ONCE, 5_500, 5_500));
    ClaimedStory::fair().with(&odd).judged(&["no such fire"]);
    let mut same = ClaimedStory::fair();
    let seventh = |line: &&mut WitnessLine| line.job == ROSTER.name(ONCE) && line.due == 7_000;
    same.lines.iter_mut().filter(seventh).for_each(|line| line.token = 6_000);
    same.judged(&["a token did not grow"]);
}
