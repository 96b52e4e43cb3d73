//! The judge: every second that was due, against what the witness saw and what the history says.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::pulse;
use crate::witness::{self, Line, Roster, Word};

/// How long before its moment a fire may be claimed; what a dead node had claimed may be lost.
const LEAD_MS: i64 = 1_000;
/// How late a fire may be claimed because it queued behind a run of two leases and behind a takeover.
const BACKLOG_MS: i64 = 30_000;

/// What a node says of runs whose guard did not answer in time, which a machine that is much too busy can bring about. They
/// were ended, and that is told, so none of them is lost.
pub(crate) const UNGUARDED: &str = "the guard process was gone";

/// Something done to a node.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) node: &'static str,
    pub(crate) how: &'static str,
    /// When, by the calendar, in milliseconds.
    pub(crate) at: i64,
    /// How long until its claimed jobs were others', in milliseconds.
    pub(crate) takeover: i64,
    /// How long until its shards were others', in milliseconds.
    pub(crate) recut: i64,
}

impl Fault {
    /// Whether what lasted so long after it was done by the time that is promised for it, had the machine not stood still.
    pub(crate) fn in_time(&self, lasted: i64, promised: i64) -> bool {
        lasted <= promised + pulse::slack(self.at, self.at + lasted)
    }
}

/// All that is known of one fire.
#[derive(Default)]
struct Fire {
    starts: Vec<Line>,
    ends: Vec<Line>,
    lost: Vec<String>,
    /// Attempts that ended with their guard.
    unguarded: Vec<u64>,
}

/// The evidence.
pub(crate) struct Case<'a> {
    roster: &'a Roster,
    fires: BTreeMap<(String, i64), Fire>,
    /// Complaints that only the order of lines can tell.
    disorder: Vec<String>,
    begun: i64,
    ended: i64,
    faults: &'a [Fault],
}

impl<'a> Case<'a> {
    /// Reads the witness and the history.
    pub(crate) fn gather<'v>(
        roster: &'a Roster,
        lines: Vec<Line>,
        verdicts: impl Iterator<Item = &'v Value>,
        begun: i64,
        ended: i64,
        faults: &'a [Fault],
    ) -> Self {
        let disorder = disorder(&lines);
        let mut case = Self { roster, fires: BTreeMap::new(), disorder, begun, ended, faults };
        for line in lines {
            let fire = case.fires.entry((line.job.clone(), line.due)).or_default();
            match line.word {
                Word::Start => fire.starts.push(line),
                Word::End => fire.ends.push(line),
                Word::Alive => {}
            }
        }
        let ours = |row: &&Value| row["job"].as_str().is_some_and(|job| job.starts_with(roster.prefix));
        for row in verdicts.filter(ours) {
            let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
            let due = witness::moment(&text("due")).expect("a due time");
            let fire = case.fires.entry((text("job"), due)).or_default();
            match text("state").as_str() {
                "lost" => fire.lost.push(text("node")),
                "fenced" if text("reason") == UNGUARDED => fire.unguarded.extend(row["attempt"].as_u64()),
                _ => {}
            }
        }
        case
    }

    /// What is wrong; empty when nothing is.
    pub(crate) fn judge(&self) -> Vec<String> {
        let mut complaints = self.disorder.clone();
        let first = (self.begun / 1_000 + 2) * 1_000;
        for job in 0..self.roster.jobs {
            for due in (first..self.ended - 1_000).step_by(1_000) {
                let name = self.roster.name(job);
                let none = Fire::default();
                let fire = self.fires.get(&(name.clone(), due)).unwrap_or(&none);
                let found = if witness::repeats(job) {
                    self.at_least_once(fire, due)
                } else {
                    self.at_most_once(fire, due)
                };
                complaints.extend(found.map(|what| format!("{name} due {due}: {what}")));
            }
        }
        let on_time = |(_, due): &&(String, i64)| due % 1_000 == 0;
        let phantoms = self.fires.keys().filter(|key| !on_time(key));
        complaints.extend(phantoms.map(|(job, due)| format!("{job} due {due}: no such fire")));
        complaints
    }

    /// It ran, and ran again only as a higher attempt after its first node was gone.
    fn at_least_once(&self, fire: &Fire, due: i64) -> Option<String> {
        let Some(last) = fire.starts.last() else { return Some("never ran".into()) };
        if !fire.ends.iter().any(|end| end.attempt == last.attempt) {
            return Some(format!("attempt {} did not end", last.attempt));
        }
        fire.starts.windows(2).find_map(|pair| {
            let (before, after) = (&pair[0], &pair[1]);
            let rising = before.attempt < after.attempt && before.token < after.token;
            // Not every trial notes when a line was written.
            let behind = |fault: &Fault| after.at == 0 || fault.at <= after.at;
            let gone = self.explain(due, &before.node).any(behind) || self.came_between(before, after);
            let reason = gone || fire.unguarded.contains(&u64::from(before.attempt));
            (!(rising && reason)).then(|| format!("doubled: {before:?} then {after:?}"))
        })
    }

    /// It ran once, or its node died or froze with it claimed and the history says that it is lost.
    fn at_most_once(&self, fire: &Fire, due: i64) -> Option<String> {
        if fire.starts.len() > 1 {
            return Some(format!("doubled: {:?}", fire.starts));
        }
        if !(fire.ends.is_empty() && fire.unguarded.is_empty()) {
            return None;
        }
        let Some(node) = fire.lost.first() else {
            return Some(if fire.starts.is_empty() { "never ran" } else { "ended by nobody's word" }.into());
        };
        let excused = self.explain(due, node).next().is_some();
        (!excused).then(|| format!("lost on {node} without a fault that explains it"))
    }

    /// Whether a fault is known to have come upon the node of an attempt before the next attempt began. A fire that several faults
    /// in a row came upon may have been due long before the last of them.
    fn came_between(&self, before: &Line, after: &Line) -> bool {
        let between = |fault: &Fault| fault.node == before.node && (before.at..=after.at).contains(&fault.at);
        before.at > 0 && self.faults.iter().any(between)
    }

    /// The faults at which a node may have had a fire claimed, or under way.
    fn explain(&self, due: i64, node: &str) -> impl Iterator<Item = &Fault> {
        let claimed = move |fault: &&Fault| due <= fault.at + LEAD_MS && due >= fault.at - BACKLOG_MS;
        self.faults.iter().filter(move |fault| fault.node == node).filter(claimed)
    }
}

/// Two runs of one job at the same time, and tokens that do not grow.
fn disorder(lines: &[Line]) -> Vec<String> {
    let mut running: BTreeMap<&str, &Line> = BTreeMap::new();
    let mut complaints = Vec::new();
    for line in lines {
        let Some(current) = running.get(line.job.as_str()).copied() else {
            running.insert(&line.job, line);
            continue;
        };
        if line.word == Word::Start {
            if line.token <= current.token {
                complaints.push(format!("a token did not grow: {current:?} then {line:?}"));
            }
            running.insert(&line.job, line);
        } else if line.token != current.token {
            complaints.push(format!("two runs at once: {line:?} beside {current:?}"));
        }
    }
    complaints
}

/// A judge that sees nothing wrong in a wrong case would prove nothing.
#[test]
fn the_judge_sees_each_wrong() {
    let started = |word, token, attempt, at| Line {
        word,
        job: witness::CLAIMED.name(1),
        due: 5_000,
        node: "n1".into(),
        attempt,
        token,
        at,
    };
    let line = |word, token, attempt| started(word, token, attempt, 5_000);
    let faults = [Fault { node: "n1", how: "killed", at: 4_500, takeover: 0, recut: 0 }];
    let fire = |starts: &[Line], ends: &[Line], lost: &[&str]| Fire {
        starts: starts.to_vec(),
        ends: ends.to_vec(),
        lost: lost.iter().map(|n| (*n).to_owned()).collect(),
        unguarded: Vec::new(),
    };
    let (roster, fires) = (&witness::CLAIMED, BTreeMap::new());
    let case = Case { roster, fires, disorder: Vec::new(), begun: 0, ended: 0, faults: &faults };
    let (first, second) = (line(Word::Start, 1, 1), line(Word::Start, 2, 2));
    let end = |attempt| line(Word::End, u64::from(attempt), attempt);
    assert!(case.at_least_once(&fire(&[], &[], &[]), 5_000).is_some());
    assert!(case.at_least_once(&fire(std::slice::from_ref(&first), &[], &[]), 5_000).is_some());
    let again = fire(&[first.clone(), second.clone()], &[end(2)], &[]);
    assert!(case.at_least_once(&again, 5_000).is_none());
    assert!(case.at_least_once(&again, 9_000).is_some(), "its node's fault was long before");
    let early = started(Word::Start, 2, 2, 4_499);
    assert!(case.at_least_once(&fire(&[first.clone(), early], &[end(2)], &[]), 5_000).is_some());
    // It was due long before, as faults in a row came upon it; this one came between the last two attempts, or did not.
    let late =
        |again| fire(&[started(Word::Start, 1, 1, 4_400), started(Word::Start, 2, 2, again)], &[end(2)], &[]);
    assert!(case.at_least_once(&late(8_000), 4_500 - 2 * BACKLOG_MS).is_none());
    assert!(case.at_least_once(&late(4_450), 4_500 - 2 * BACKLOG_MS).is_some());
    assert!(case.at_least_once(&fire(&[second.clone(), first.clone()], &[end(1)], &[]), 5_000).is_some());
    assert!(case.at_most_once(&fire(&[], &[], &[]), 5_000).is_some());
    assert!(case.at_most_once(&fire(&[], &[], &["n1"]), 5_000).is_none());
    assert!(case.at_most_once(&fire(&[], &[], &["n1"]), 9_000).is_some());
    assert!(case.at_most_once(&fire(&[], &[], &["n2"]), 5_000).is_some());
    assert!(case.at_most_once(&fire(&[first.clone(), second.clone()], &[end(2)], &[]), 5_000).is_some());
    assert!(disorder(&[first.clone(), second.clone(), line(Word::Alive, 1, 1)]).len() == 1);
    assert!(disorder(&[second, first]).len() == 1);
}
