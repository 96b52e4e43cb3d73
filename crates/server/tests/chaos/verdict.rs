//! The judge: every second that was due, against what the witness saw and what the history says.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::evidence::{AttemptLoss, Evidence, LEAD_MS, UNGUARDED};
use crate::witness::{self, JobRoster, WitnessLine, WitnessWord};

/// All that is known of one fire.
#[derive(Default)]
struct FireEvidence {
    starts: Vec<WitnessLine>,
    ends: Vec<WitnessLine>,
    lost: Vec<AttemptLoss>,
    /// Attempts that ended with their guard.
    unguarded: Vec<u64>,
}

/// All that is known of a trial's jobs.
pub(crate) struct ClaimedCase<'a> {
    roster: &'a JobRoster,
    fires: BTreeMap<(String, i64), FireEvidence>,
    /// Complaints that only the order of lines can tell.
    disorder: Vec<String>,
    begun: i64,
    ended: i64,
    evidence: &'a Evidence,
}

impl<'a> ClaimedCase<'a> {
    /// Reads the witness and the history.
    pub(crate) fn gather<'v>(
        roster: &'a JobRoster,
        lines: Vec<WitnessLine>,
        verdicts: impl Iterator<Item = &'v Value>,
        (begun, ended): (i64, i64),
        evidence: &'a Evidence,
    ) -> Self {
        let disorder = disorder(&lines);
        let mut case = Self { roster, fires: BTreeMap::new(), disorder, begun, ended, evidence };
        for line in lines {
            let fire = case.fires.entry((line.job.clone(), line.due)).or_default();
            match line.word {
                WitnessWord::Start => fire.starts.push(line),
                WitnessWord::End => fire.ends.push(line),
                WitnessWord::Alive => {}
            }
        }
        let ours = |row: &&Value| row["job"].as_str().is_some_and(|job| job.starts_with(roster.prefix));
        for row in verdicts.filter(ours) {
            let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
            let due = witness::moment(&text("due")).expect("a due time");
            let fire = case.fires.entry((text("job"), due)).or_default();
            fire.lost.extend(AttemptLoss::of(row));
            if text("state") == "fenced" && text("reason") == UNGUARDED {
                fire.unguarded.extend(row["attempt"].as_u64());
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
                let none = FireEvidence::default();
                let fire = self.fires.get(&(name.clone(), due)).unwrap_or(&none);
                let found = if witness::repeats(job) {
                    self.at_least_once(fire)
                } else {
                    self.at_most_once(fire, (&name, due))
                };
                complaints.extend(found.map(|what| format!("{name} due {due}: {what}")));
            }
        }
        let on_time = |(_, due): &&(String, i64)| due % 1_000 == 0;
        let phantoms = self.fires.keys().filter(|key| !on_time(key));
        complaints.extend(phantoms.map(|(job, due)| format!("{job} due {due}: no such fire")));
        complaints
    }

    /// It ran, and ran again only as a higher attempt after its first node was interrupted.
    fn at_least_once(&self, fire: &FireEvidence) -> Option<String> {
        let Some(last) = fire.starts.last() else { return Some("never ran".into()) };
        if !fire.ends.iter().any(|end| end.attempt == last.attempt) {
            return Some(format!("attempt {} did not end", last.attempt));
        }
        fire.starts.windows(2).find_map(|pair| {
            let (before, after) = (&pair[0], &pair[1]);
            let rising = before.attempt < after.attempt && before.token < after.token;
            let interrupted = self.evidence.explains_repetition(
                &before.node,
                (AttemptLoss::began(&fire.lost, before.attempt, before.at), after.by),
            );
            let reason = interrupted || fire.unguarded.contains(&u64::from(before.attempt));
            (!(rising && reason)).then(|| format!("doubled: {before:?} then {after:?}"))
        })
    }

    /// It ran once, or its node was interrupted while it had the fire, and the history says that it is lost.
    fn at_most_once(&self, fire: &FireEvidence, (job, due): (&str, i64)) -> Option<String> {
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
        let later = || self.fires.range((job.to_owned(), due + 1)..).take_while(|((of, _), _)| of == job);
        let went_on =
            |moment| later().any(|(_, fire)| fire.starts.first().is_some_and(|start| start.by <= moment));
        let explained = self.evidence.explains_loss(loss, since, went_on);
        (!explained).then(|| format!("lost on {} without a cause that explains it", loss.node))
    }
}

/// Two runs of one job at the same time, and tokens that do not grow.
fn disorder(lines: &[WitnessLine]) -> Vec<String> {
    let mut running: BTreeMap<&str, &WitnessLine> = BTreeMap::new();
    let mut complaints = Vec::new();
    for line in lines {
        let Some(current) = running.get(line.job.as_str()).copied() else {
            running.insert(&line.job, line);
            continue;
        };
        if line.word == WitnessWord::Start {
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

#[cfg(test)]
mod tests;
