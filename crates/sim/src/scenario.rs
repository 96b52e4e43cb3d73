//! Scenarios: transcripts of a small cluster, in the notation of the rule's source.
//!
//! A scenario is a text of commands, `----`, and the expected state. It runs in a calm [`SimWorld`], with the order of
//! messages from a seed; the result is compared with the expected one, or replaces it with `UPDATE=1`.

mod cluster;
mod command;
mod picture;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use evenkeel_core::effect::Event;
use evenkeel_core::ids::{JobName, NodeName, RunId};
use evenkeel_core::input::{Answer, CommandId};

use crate::trace::seconds;
use crate::world::{SimWorld, WorldOptions};
use command::ScenarioCommand;

/// The runner of a scenario, with its cluster.
pub struct ScenarioRunner {
    world: SimWorld,
    /// The number of jobs made so far: their names are j1, j2, …
    made: usize,
    /// The position up to which announcements, traces and answers were shown.
    shown: ScenarioCursor,
    awaited: Vec<(String, CommandId)>,
}

#[derive(Default)]
struct ScenarioCursor {
    events: usize,
    announced: usize,
    trace: usize,
    acts: usize,
    talk: usize,
    fires: BTreeMap<JobName, usize>,
    verdicts: BTreeSet<(RunId, u32)>,
}

impl ScenarioRunner {
    /// An empty cluster; the seed decides the order of messages.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let world = SimWorld::new(WorldOptions { seed, keeps_text: true, ..WorldOptions::default() });
        Self { world, made: 0, shown: ScenarioCursor::default(), awaited: Vec::new() }
    }

    fn play(&mut self, line: &str) -> Result<String, String> {
        let command: ScenarioCommand = line.parse()?;
        let out = command.run(self)?;
        if let Some(broken) = self.world.broken() {
            return Err(format!("an invariant broke: {broken:?}"));
        }
        Ok(out)
    }

    /// `A={K=19 S=3 N=10 X=9 M=10}` for each online node, and the events since the last output.
    fn state(&mut self) -> String {
        let mut text = String::new();
        let names: Vec<NodeName> = self.world.names().cloned().collect();
        let mut refuses = BTreeSet::new();
        for name in &names {
            let Some(node) = self.world.node(name) else { continue };
            let (view, alarm) = (node.view(), node.local().settings().alarm);
            let (held, quota) = (self.world.held(name), self.world.quota(name));
            let (jobs, nodes) = (view.enabled(), view.nodes());
            writeln!(text, "{name}={{K={jobs} S={nodes} N={quota} X={held} M={alarm}}}")
                .expect("a text grows");
            if held >= quota {
                refuses.insert(name.to_string());
            }
        }
        let events = &self.world.announced()[self.shown.events..];
        let alarms = events.iter().filter(|(_, _, event)| matches!(event, Event::Alarm { .. }));
        let alarms: BTreeSet<String> = alarms.map(|(_, name, _)| name.to_string()).collect();
        self.shown.events = self.world.announced().len();
        for (what, who) in [("alarm", alarms), ("refuses", refuses)] {
            if !who.is_empty() {
                let who: Vec<String> = who.into_iter().collect();
                writeln!(text, "{what}: {}", who.join(" ")).expect("a text grows");
            }
        }
        text
    }

    /// The runs that began and ended since the last output, and the new verdicts in history.
    fn log(&mut self) -> String {
        let lines = &self.world.trace().text()[self.shown.trace..];
        let told = |line: &&String| {
            [" runs ", " ended ", " history has "].iter().any(|word| line.contains(word))
                && ![" gives ", " offered "].iter().any(|word| line.contains(word))
        };
        let mut text = String::new();
        for line in lines.iter().filter(told) {
            let line = line.trim_start().split_once(' ').map_or("", |(_, rest)| rest);
            let words: Vec<&str> = line.split_whitespace().collect();
            writeln!(text, "{}", words.join(" ")).expect("a text grows");
        }
        self.shown.trace = self.world.trace().text().len();
        text + &self.verdicts()
    }

    /// The verdicts in history since the last output.
    fn verdicts(&mut self) -> String {
        let mut text = String::new();
        for (key, verdict) in self.world.verdicts() {
            if self.shown.verdicts.insert(key.clone()) {
                let (run, state, node) = (&verdict.run, verdict.state, &verdict.node);
                let all = match verdict.shards.len() {
                    0 | 1 => String::new(),
                    _ => format!(" (shards {})", verdict.shards),
                };
                let (attempt, reason) = (verdict.attempt, &verdict.reason);
                writeln!(text, "{run}{all} attempt {attempt} {state:?} on {node}: {reason}")
                    .expect("a text grows");
            }
        }
        text
    }

    /// The events of nodes since the last output. Their connections to the registry and their number are included with
    /// `session`.
    fn events(&mut self, session: bool) -> String {
        let events = &self.world.announced()[self.shown.announced..];
        let of_session = |event: &Event| {
            matches!(
                event,
                Event::Connected | Event::Disconnected | Event::NodesChanged(_) | Event::NodeLeft(..)
            )
        };
        let mut text = String::new();
        for (at, name, event) in events {
            if session {
                writeln!(text, "{} {name}: {event}", seconds(*at)).expect("a text grows");
            } else if !of_session(event) {
                writeln!(text, "{name}: {event}").expect("a text grows");
            }
        }
        self.shown.announced = self.world.announced().len();
        text
    }

    /// The answers since the last output.
    fn answers(&mut self) -> String {
        let mut text = String::new();
        let mut open = Vec::new();
        for (what, ask) in std::mem::take(&mut self.awaited) {
            match self.world.answer(ask) {
                Some(answer) => writeln!(text, "{what}: {}", answer_text(answer)).expect("a text grows"),
                None => open.push((what, ask)),
            }
        }
        for (what, _) in &open {
            writeln!(text, "{what}: waits").expect("a text grows");
        }
        self.awaited = open;
        text
    }
}

fn answer_text(answer: &Answer) -> String {
    match answer {
        Answer::Done | Answer::Unchanged => "done".to_owned(),
        Answer::Applied(jobs) => jobs
            .iter()
            .map(|(job, what)| format!("{job} {what:?}"))
            .collect::<Vec<_>>()
            .join(", ")
            .to_lowercase(),
        Answer::Accepted(run, _) => format!("accepted as {run}"),
        Answer::Backfill(backfill) => format!("backfill {} of {} fires", backfill.id, backfill.dues.len()),
        Answer::Calendar(name, applied) => format!("calendar {name} {applied:?}").to_lowercase(),
        Answer::Namespace(name, applied) => format!("namespace {name} {applied:?}").to_lowercase(),
        Answer::Layout(layout, applied) => format!("layout {layout} {applied:?}").to_lowercase(),
        Answer::Claiming { claims, left } => {
            let left: usize = left.iter().map(|left| left.jobs).sum();
            format!("claims {claims}, leaves {left}")
        }
        Answer::Locked(token, times) => format!("locked {times} times, token {}", token.0 & 0xffff_ffff_ffff),
        Answer::Busy(runs) => format!("busy for {} runs", runs.len()),
        Answer::Beat { beat, token } => {
            format!("beat {beat} is its own, token {}", token.0 & 0xffff_ffff_ffff)
        }
        Answer::Refused(_, why) => format!("refused: {why}"),
    }
}

/// Plays a whole file and returns it with the actual output.
///
/// # Errors
/// A command is invalid, or an invariant was violated; the text names the line.
pub fn replay(file: &str) -> Result<String, String> {
    let seed = file.lines().find_map(|line| line.strip_prefix("# seed: ")?.trim().parse().ok()).unwrap_or(1);
    let mut scenario = ScenarioRunner::new(seed);
    let (mut out, mut block, mut expected) = (String::new(), Vec::new(), false);
    for (index, line) in file.lines().enumerate() {
        let plain = line.trim();
        if plain == "----" {
            expected = true;
            let mut said = String::new();
            for (at, command) in block.drain(..) {
                let played: Result<String, String> = scenario.play(command);
                said += &played.map_err(|e| format!("line {at}: {command}: {e}"))?;
            }
            writeln!(out, "----\n{said}").expect("a text grows");
        } else if plain.is_empty() {
            // The expected output ends here; it is replaced, with its empty line.
            if !std::mem::take(&mut expected) {
                out.push('\n');
            }
        } else if !expected {
            writeln!(out, "{line}").expect("a text grows");
            if !plain.starts_with('#') {
                block.push((index + 1, plain));
            }
        }
    }
    Ok(out.trim_end().to_owned() + "\n")
}
