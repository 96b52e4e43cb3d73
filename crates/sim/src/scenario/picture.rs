//! The output of a scenario about the cluster: beats, plans, loads, strikes, the leader, and calls between nodes.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use evenkeel_core::ids::{Fire, JobName, NodeName};
use evenkeel_core::keys;
use evenkeel_core::record::{
    Attempt, BeatRecord, ClusterSettings, LoadRecord, OfflineRecord, Plan, ServingRecord, SpecRecord,
    StrikeRecord, decode,
};
use evenkeel_core::registry::Value;
use evenkeel_core::time::{Millis, Mono, Wall};

use super::ScenarioRunner;
use crate::trace::seconds;
use crate::world::clock::START;

/// The lateness up to which a run is not reported as late, in milliseconds.
const LATE: i64 = 1_000;

fn since(at: Wall) -> String {
    let ms = (at - START).0;
    if ms % 1_000 == 0 { format!("{}s", ms / 1_000) } else { seconds(ms) }
}

fn fire(fire: &Fire) -> String {
    match fire {
        Fire::Due(due) => since(*due),
        Fire::Asked(request) => request.to_string(),
    }
}

impl ScenarioRunner {
    fn entry(&self, key: &keys::Key) -> Option<Value> {
        Some(self.world.store().read(core::slice::from_ref(key)).pop()?.entry?.value)
    }

    fn settings(&self) -> ClusterSettings {
        self.entry(&keys::settings()).and_then(|value| decode(&value)).unwrap_or_default()
    }

    /// A beat by its number since the beginning.
    fn beat(&self, beat: u64) -> i64 {
        let first = self.settings().beat_of(START);
        i64::try_from(beat).unwrap_or(0) - i64::try_from(first).unwrap_or(0)
    }

    /// `dispatch: beat 1 is A's, the 2nd taken`.
    pub(super) fn beats(&self) -> String {
        let mut text = String::new();
        for change in &self.world.store().list().changes {
            let Some(keys::ParsedKey::Beat(operation)) = keys::parse(&change.key) else { continue };
            let Some(record) = self.entry(&change.key).and_then(|value| decode::<BeatRecord>(&value)) else {
                continue;
            };
            let (beat, holder) = (self.beat(record.beat), &record.holder.node);
            writeln!(text, "{operation}: beat {beat} is {holder}'s, taken {} times", record.seq)
                .expect("a text grows");
        }
        text
    }

    /// `A: 41.00 waits 410 ms, 8 of 32 slots busy`, as each online node last reported.
    pub(super) fn loads(&self) -> String {
        let mut text = String::new();
        for name in self.world.names() {
            let Some(load) = self.entry(&keys::load(name)).and_then(|value| decode::<LoadRecord>(&value))
            else {
                continue;
            };
            let (score, wait) = (load.score, load.score.wait().0);
            writeln!(text, "{name}: {score} waits {wait} ms, {} of {} slots busy", load.busy, load.slots)
                .expect("a text grows");
        }
        text
    }

    /// A plan run by run, with the number of its node's free slots at the choice.
    pub(super) fn plan(&self, job: &JobName) -> String {
        let plan: Plan = self.entry(&keys::plan(job)).and_then(|value| decode(&value)).unwrap_or_default();
        let mut text = self.plan_line(job, &plan);
        for run in &plan.runs {
            let state = if run.is_claimed() { "accepted by" } else { "planned for" };
            let (when, by, free) = (fire(&run.fire), &run.by.node, run.free());
            let again = if run.attempt > 1 { format!(", attempt {}", run.attempt) } else { String::new() };
            writeln!(text, "  {when} {state} {by}, which had {free} free{again}").expect("a text grows");
        }
        text
    }

    /// A plan in one line.
    pub(super) fn plans(&self, job: &JobName) -> String {
        let plan: Plan = self.entry(&keys::plan(job)).and_then(|value| decode(&value)).unwrap_or_default();
        self.plan_line(job, &plan)
    }

    fn plan_line(&self, job: &JobName, plan: &Plan) -> String {
        let mut per = BTreeMap::<&NodeName, usize>::new();
        plan.runs.iter().for_each(|run| *per.entry(&run.by.node).or_default() += 1);
        let per: Vec<String> = per.iter().map(|(node, runs)| format!("{node} {runs}")).collect();
        let accepted = plan.runs.iter().filter(|run| run.is_claimed()).count();
        let planner = plan.planner.as_ref().map_or("none".to_owned(), |p| p.member.node.to_string());
        let open: Vec<&Attempt> = plan.runs.iter().collect();
        let span = match (open.first(), open.last()) {
            (Some(first), Some(last)) => format!(" from {} to {}", fire(&first.fire), fire(&last.fire)),
            _ => String::new(),
        };
        let runs = if per.is_empty() { "nothing".to_owned() } else { per.join(", ") };
        format!("{job}: {runs}{span}, {accepted} accepted; planned by {planner}\n")
    }

    /// `B: offline since 180s; strikes A 2, C 1`.
    pub(super) fn health(&self) -> String {
        let mut text = String::new();
        let names: Vec<NodeName> = self.world.names().cloned().collect();
        for name in &names {
            let offline = self
                .entry(&keys::offline(name))
                .and_then(|value| decode::<OfflineRecord>(&value))
                .filter(|record| record.offline);
            let current = self.world.node(name).and_then(|node| node.member());
            let offline =
                offline.filter(|record| current.as_ref().is_none_or(|m| m.incarnation == record.incarnation));
            let state = offline.map_or("online".to_owned(), |record| {
                format!("offline since beat {}", self.beat(record.beat))
            });
            let strikes: Vec<String> = names
                .iter()
                .filter_map(|observer| {
                    let strike: StrikeRecord = decode(&self.entry(&keys::strike(name, observer))?)?;
                    let life = current.as_ref().is_none_or(|m| m.incarnation == strike.incarnation);
                    (strike.count > 0 && life).then(|| format!("{observer} {}", strike.count))
                })
                .collect();
            let strikes = if strikes.is_empty() {
                "no strikes".to_owned()
            } else {
                format!("strikes {}", strikes.join(", "))
            };
            writeln!(text, "{name}: {state}, {strikes}").expect("a text grows");
        }
        text
    }

    /// The leadership in the registry, and the role that each online node reports when probed.
    pub(super) fn serving(&self) -> String {
        let record: ServingRecord =
            self.entry(&keys::serving()).and_then(|value| decode(&value)).unwrap_or_default();
        let leader = record.leader.as_ref().map_or("none".to_owned(), |m| m.node.to_string());
        let state = match (record.leader.is_some(), record.serves, record.released) {
            (true, true, _) => "serves",
            (true, false, _) => "resumes",
            (false, _, true) => "released",
            (false, _, false) => "free",
        };
        let mut text = format!("leader {leader}, epoch {}, {state};", record.epoch);
        for name in self.world.names() {
            let role = self.world.node(name).map(|node| node.role(Mono(self.world.now())));
            let says =
                role.map_or("is down", |role| if role.serves.is_some() { "serves" } else { "stands by" });
            write!(text, " {name} {says}").expect("a text grows");
        }
        text + "\n"
    }

    /// A node's knowledge of jobs in memory, and whether it equals the registry's.
    pub(super) fn knows(&self, name: &NodeName) -> String {
        let Some(node) = self.world.node(name) else { return format!("{name} is down\n") };
        let mut same = true;
        let mut jobs = Vec::new();
        for change in &self.world.store().list().changes {
            let Some(keys::ParsedKey::Spec(job)) = keys::parse(&change.key) else { continue };
            let truth = change.entry.as_ref().and_then(|entry| decode::<SpecRecord>(&entry.value));
            let known = node.view().find(&job).and_then(|job| job.spec_record());
            let live = |record: &Option<SpecRecord>| match record {
                Some(SpecRecord::Live(spec)) => Some(spec.clone()),
                _ => None,
            };
            same &= live(&truth) == live(&known);
            if let Some(spec) = live(&known) {
                let paused = if spec.paused { " paused" } else { "" };
                jobs.push(format!("{job} version {}{paused}", spec.version));
            }
        }
        let same = if same { "as in the registry" } else { "not as in the registry" };
        format!("{name} knows {}: {same}\n", jobs.join(", "))
    }

    /// A job's fires since the last output: their nodes, and anomalies: missing, doubled, late,
    /// repeated.
    pub(super) fn fires(&mut self, job: &JobName) -> String {
        let mark = format!(" runs {job}:");
        let from = self.shown.fires.insert(job.clone(), self.world.trace().text().len()).unwrap_or(0);
        let mut tale = FireSummary::default();
        for line in self.world.trace().text().iter().skip(from).filter(|line| line.contains(&mark)) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [at, node, _, run, _, attempt, ..] = words[..] else { continue };
            let due = run.split(':').nth(1).and_then(|due| due.parse::<i64>().ok());
            let began: i64 = at.trim_end_matches('s').replace('.', "").parse().unwrap_or(0);
            if let Some(due) = due {
                tale.add(node, due - START.0, attempt, began);
            }
        }
        format!("{job}: {}\n", tale.text())
    }

    /// The transactions since the last output, by their labels.
    pub(super) fn acts(&mut self, words: &str) -> String {
        let mut text = String::new();
        let lines = self.world.trace().text();
        for line in lines.iter().skip(self.shown.acts) {
            let Some((at, act)) = line.split_once(" registry: #") else { continue };
            let Some((_, act)) = act.split_once(' ').filter(|(_, act)| act.contains(words)) else { continue };
            let act = act.split(" at ").next().unwrap_or(act);
            writeln!(text, "{} {act}", at.trim()).expect("a text grows");
        }
        self.shown.acts = lines.len();
        text
    }

    /// The calls between nodes since the last output, with their numbers.
    pub(super) fn calls(&mut self) -> String {
        let mut calls = BTreeMap::<String, usize>::new();
        let lines = self.world.trace().text();
        for line in lines.iter().skip(self.shown.talk) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [_, from, "→", verb @ ("probe" | "offer"), to, runs @ ..] = &words[..] else { continue };
            let to = to.split('@').next().unwrap_or(to);
            let verb = if *verb == "probe" { "probes" } else { "offers" };
            let what = if runs.is_empty() { String::new() } else { " runs".to_owned() };
            *calls.entry(format!("{from} {verb} {to}{what}")).or_default() += runs.len().max(1);
        }
        self.shown.talk = lines.len();
        calls.iter().map(|(call, times)| format!("{call}: {times}\n")).collect()
    }
}

/// The summary of a job's fires.
#[derive(Default)]
struct FireSummary {
    /// The number of runs on each node.
    per: BTreeMap<String, usize>,
    /// The number of runs of each fire, without retries.
    dues: BTreeMap<i64, usize>,
    /// The late fires, and by how much.
    late: BTreeMap<i64, i64>,
    retried: Vec<String>,
}

impl FireSummary {
    fn add(&mut self, node: &str, due: i64, attempt: &str, began: i64) {
        *self.per.entry(node.to_owned()).or_default() += 1;
        let times = self.dues.entry(due).or_default();
        if attempt != "1" {
            self.retried.push(format!("attempt {attempt} of {} on {node}", at(due)));
            return;
        }
        *times += 1;
        if began > due + LATE {
            self.late.insert(due, began - due);
        }
    }

    fn text(self) -> String {
        let (Some((&first, _)), Some((&last, _))) = (self.dues.first_key_value(), self.dues.last_key_value())
        else {
            return "nothing".to_owned();
        };
        let mut odd = self.retried;
        let step = self.dues.keys().zip(self.dues.keys().skip(1)).map(|(a, b)| b - a).min().unwrap_or(1);
        let all = (0..=(last - first) / step).map(|n| first + n * step);
        let missing: Vec<String> = all.filter(|due| !self.dues.contains_key(due)).map(at).collect();
        if !missing.is_empty() {
            odd.push(format!("missing {}", missing.join(" ")));
        }
        let doubled = self.dues.iter().filter(|(_, times)| **times > 1);
        odd.extend(doubled.map(|(due, times)| format!("{} ran {times} times", at(*due))));
        if let (Some((&first, _)), Some(most)) = (self.late.first_key_value(), self.late.values().max()) {
            let last = self.late.last_key_value().map_or(first, |(due, _)| *due);
            let span = if first == last {
                at(first)
            } else {
                format!("{} of {} to {}", self.late.len(), at(first), at(last))
            };
            odd.push(format!("{span} late by up to {}", seconds(*most)));
        }
        let odd = if odd.is_empty() { "each once and on time".to_owned() } else { odd.join("; ") };
        let per: Vec<String> = self.per.iter().map(|(node, runs)| format!("{node} {runs}")).collect();
        format!("{}; {} fires, {} to {}, {odd}", per.join(", "), self.dues.len(), at(first), at(last))
    }
}

fn at(due: i64) -> String {
    since(START + Millis(due))
}
