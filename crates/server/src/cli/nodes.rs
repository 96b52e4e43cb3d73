//! The commands `evenkeel node …`.

use std::time::Duration;

use clap::Subcommand;
use evenkeel::clock;
use evenkeel_core::ids::counted;
use evenkeel_core::time::{Millis, Mono, TimeSpan, TimeSpanError};
use serde_json::{Value, json};

use super::response::print_response;
use crate::api_types::{BalanceReport, EventPage, LoadRow, NodeRow, ObstacleRow, ServiceRow, WhatIfRow};
use crate::client::{ConnectArgs, escape};
use crate::exit::{CliError, ExitKind};
use crate::output::{self, OutputFormat, SimulatedBalanceRow};
use crate::upgrade::WAIT_LIMITS;

/// The time for a new program to start, and the interval of checks for it.
const BEGINS: Duration = Duration::from_secs(20);
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// How long the node may give no answer before a wait is given up.
const SILENCE: Duration = Duration::from_secs(30);
/// What a node does once it drains.
const DRAINING: &str = "draining: it claims nothing more and gives up its jobs after their runs";

/// What can be done with nodes.
#[derive(Debug, Subcommand)]
pub(crate) enum NodeCommand {
    /// List the living nodes, and nodes that left within the last day, with the load that each measured last; nodes measure once a minute
    List {
        #[command(flatten)]
        reach: ConnectArgs,
    },
    /// Show the node with the lowest load score and its address
    LeastLoaded {
        #[command(flatten)]
        reach: ConnectArgs,
    },
    /// Show the load of a node, the latest minute first
    Load {
        /// The node's name
        name: String,
        /// Only after this time: how long ago, such as 10m or 2d, or a moment such as 2026-03-01T22:30:00Z
        #[arg(long, value_name = "WHEN", default_value = "1d", value_parser = super::values::when)]
        since: String,
        /// The maximum number of points
        #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=10_000))]
        limit: u32,
        #[command(flatten)]
        reach: ConnectArgs,
    },
    /// Show the distribution of jobs over nodes, and the distribution if some nodes were lost or drained
    Balance {
        /// What to simulate: kill=NODE,NODE or drain=NODE,NODE; the flag can be repeated
        #[arg(long, value_name = "WHAT=NODES")]
        simulate: Vec<String>,
        #[command(flatten)]
        reach: ConnectArgs,
    },
    /// Drain a node: it gives up its jobs, each after its run, and claims no more. Refused if the other nodes have no room for them
    Drain {
        /// The node's name
        name: String,
        /// Drain the node even if the other nodes have no room for its jobs
        #[arg(long)]
        force: bool,
        /// Wait until the node owns no job and no shard and has no running run. Then it may be stopped
        #[arg(long)]
        wait: bool,
        /// With --wait, give up after this time, such as 90s or 5m
        #[arg(long, value_name = "TIME", requires = "wait")]
        timeout: Option<TimeSpan>,
        #[command(flatten)]
        reach: ConnectArgs,
    },
    /// Let a drained node claim jobs again
    Undrain {
        /// The node's name
        name: String,
        #[command(flatten)]
        reach: ConnectArgs,
    },
    /// Cordon a node: it keeps its jobs, its shards and what is planned for it, goes on firing, and gets nothing new
    Cordon {
        /// The node's name
        name: String,
        #[command(flatten)]
        reach: ConnectArgs,
    },
    /// Let a cordoned node get new work again
    Uncordon {
        /// The node's name
        name: String,
        #[command(flatten)]
        reach: ConnectArgs,
    },
    /// Make a node's process continue in the program that is now in its file, while its commands go on running
    Upgrade {
        /// The name of the node, which must be the node at --server
        name: String,
        /// How long to wait for functions and requests to end, which cannot continue in another program
        #[arg(long, value_name = "TIME", default_value = "30s", value_parser = upgrade_wait)]
        wait: TimeSpan,
        #[command(flatten)]
        reach: ConnectArgs,
    },
    /// Mark a node online that its peers could not reach
    Activate {
        /// The node's name
        name: String,
        #[command(flatten)]
        reach: ConnectArgs,
    },
}

/// The time limit of an upgrade.
fn upgrade_wait(text: &str) -> Result<TimeSpan, TimeSpanError> {
    TimeSpan::parse("span", text, WAIT_LIMITS)
}

/// Runs the command.
///
/// # Errors
/// The request failed.
pub(crate) fn run(verb: NodeCommand) -> Result<(), CliError> {
    match verb {
        NodeCommand::List { reach } => {
            let answer: Value = reach.client()?.get("/nodes")?;
            let rows = |key: &str| -> Result<Vec<NodeRow>, CliError> {
                let rows = answer.get(key).cloned().unwrap_or_else(|| json!([]));
                serde_json::from_value(rows).map_err(|e| CliError::new(ExitKind::Failed, e.to_string()))
            };
            let mut nodes = rows("nodes")?;
            nodes.extend(rows("gone")?);
            if answer["closed"] == Value::Bool(true) {
                output::print_message("this node was closed from outside and is no member: start it again");
            }
            output::warn(&answer);
            output::list(reach.output, &nodes, "no node has joined yet")
        }
        NodeCommand::LeastLoaded { reach } => {
            let least_loaded: ServiceRow = reach.client()?.get("/service")?;
            output::list(reach.output, &[least_loaded], "no node is online")
        }
        NodeCommand::Load { name, since, limit, reach } => {
            let path = format!("/nodes/{}/load?since={}&limit={limit}", escape(&name), escape(&since));
            let answer: Value = reach.client()?.get(&path)?;
            let points: Vec<LoadRow> = serde_json::from_value(answer["load"].clone())
                .map_err(|e| CliError::new(ExitKind::Failed, e.to_string()))?;
            output::list(reach.output, &points, "nothing is known of it in that time")
        }
        NodeCommand::Balance { simulate, reach } => balance(&simulate, &reach),
        NodeCommand::Drain { name, force, wait: true, timeout, reach } => {
            drain_and_wait(&reach, &name, force, timeout.map(Duration::from))
        }
        NodeCommand::Drain { name, force, reach, .. } => {
            switch(&reach, &name, "drain", &json!({ "force": force }), (DRAINING, DRAINING))
        }
        NodeCommand::Undrain { name, reach } => {
            let done = ("back: it claims jobs again", "not drained: nothing was changed");
            switch(&reach, &name, "undrain", &json!({}), done)
        }
        NodeCommand::Cordon { name, reach } => {
            let done = (
                "cordoned: it keeps what it has and gets nothing new",
                "cordoned already: nothing was changed",
            );
            switch(&reach, &name, "cordon", &json!({}), done)
        }
        NodeCommand::Uncordon { name, reach } => {
            let done = ("no longer cordoned: it gets new work again", "not cordoned: nothing was changed");
            switch(&reach, &name, "uncordon", &json!({}), done)
        }
        NodeCommand::Upgrade { name, wait, reach } => upgrade(&reach, &name, wait),
        NodeCommand::Activate { name, reach } => {
            let done = ("online: its strikes are forgiven", "online already: nothing was changed");
            switch(&reach, &name, "activate", &json!({}), done)
        }
    }
}

/// Drains a node and returns when the node reports that it owns nothing any more (S1-39).
fn drain_and_wait(
    reach: &ConnectArgs,
    name: &str,
    force: bool,
    timeout: Option<Duration>,
) -> Result<(), CliError> {
    let until = timeout.map(|span| after(clock::now().mono, span));
    let client = reach.client()?;
    let path = format!("/nodes/{}/drain", escape(name));
    let mut answer: Value = client.post(&path, &json!({ "force": force }))?;
    output::warn(&answer);
    if reach.output == OutputFormat::Table {
        output::print_message(&format!("node {name} is {DRAINING}"));
    }
    let mut silent_since = None;
    loop {
        let now = clock::now().mono;
        let row = match client.get::<Value>("/nodes") {
            Ok(nodes) => {
                silent_since = None;
                let rows = nodes["nodes"].as_array();
                rows.and_then(|rows| rows.iter().find(|row| row["name"] == name)).cloned()
            }
            // The node may be slow for a moment.
            Err(failure) if now >= after(*silent_since.get_or_insert(now), SILENCE) => return Err(failure),
            Err(_) => Some(Value::Null),
        };
        let Some(row) = row else {
            let text = format!("node {name} ended before it said that it owns nothing: see its log");
            return Err(CliError::new(ExitKind::Failed, text));
        };
        if row["drained"] == true {
            answer["drained"] = true.into();
            return print_response(reach, &answer, &format!("node {name} is drained: it may be stopped"));
        }
        if row["draining"] == false {
            let text = format!("node {name} was undrained meanwhile: it keeps what it has");
            return Err(CliError::new(ExitKind::Conflict, text));
        }
        if until.is_some_and(|until| now >= until) {
            let text = not_drained(name, &row);
            return Err(CliError::new(ExitKind::Unavailable, text));
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Why a node is not drained yet.
fn not_drained(name: &str, row: &Value) -> String {
    let holds: Vec<String> = [("held", "job"), ("shards", "shard")]
        .into_iter()
        .map(|(key, what)| (usize::try_from(row[key].as_u64().unwrap_or(0)).unwrap_or(usize::MAX), what))
        .filter(|(n, _)| *n > 0)
        .map(|(n, what)| counted(n, what))
        .collect();
    let waits = match holds.is_empty() {
        true => "it waits for its runs to end".to_owned(),
        false => format!("it holds {}, and waits for their runs to end", holds.join(" and ")),
    };
    format!("node {name} is not drained yet: {waits}; see them with `evenkeel run running`")
}

fn after(moment: Mono, span: Duration) -> Mono {
    moment + Millis(i64::try_from(span.as_millis()).unwrap_or(i64::MAX / 2))
}

/// Switches a node; says what it is now, or that it was so already.
fn switch(
    reach: &ConnectArgs,
    name: &str,
    verb: &str,
    body: &Value,
    (done, already): (&str, &str),
) -> Result<(), CliError> {
    let answer: Value = reach.client()?.post(&format!("/nodes/{}/{verb}", escape(name)), body)?;
    output::warn(&answer);
    let said = if answer["applied"] == "unchanged" { already } else { done };
    print_response(reach, &answer, &format!("node {name} is {said}"))
}

/// Requests an upgrade, and waits until the node reports its outcome.
fn upgrade(reach: &ConnectArgs, name: &str, wait: TimeSpan) -> Result<(), CliError> {
    let client = reach.client()?;
    let asked: Value = client.post(&format!("/nodes/{}/upgrade", escape(name)), &json!({ "wait": wait }))?;
    let text = |key: &str| asked[key].as_str().unwrap_or_default().to_owned();
    let path = format!("/events?node={}&since={}", escape(name), escape(&text("since")));
    let patience = Duration::from(wait) + BEGINS;
    let until = clock::now().mono.0 + i64::try_from(patience.as_millis()).unwrap_or(0);
    while clock::now().mono.0 < until {
        // While the program changes, no node answers; that is no reason to give up.
        if let Ok(EventPage { events, .. }) = client.get::<EventPage>(&path) {
            if let Some(event) = events.iter().find(|event| event.kind == "not_upgraded") {
                return Err(CliError::new(ExitKind::Conflict, event.text.clone()));
            }
            if let Some(event) = events.iter().find(|event| event.kind == "upgraded") {
                return print_response(
                    reach,
                    &asked,
                    &format!("node {name} {}: evenkeel {}", event.text, text("version")),
                );
            }
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    let text = format!("node {name} does not say how it went: see its log, and `evenkeel event list`");
    Err(CliError::new(ExitKind::Failed, text))
}

fn balance(simulate: &[String], reach: &ConnectArgs) -> Result<(), CliError> {
    let (mut kill, mut drain) = (Vec::new(), Vec::new());
    for text in simulate {
        match text.split_once('=') {
            Some(("kill", names)) if !names.is_empty() => kill.push(names),
            Some(("drain", names)) if !names.is_empty() => drain.push(names),
            _ => {
                let text = format!("--simulate is {text:?}: write kill=NODE,NODE or drain=NODE,NODE");
                return Err(CliError::usage(text));
            }
        }
    }
    let path = format!("/nodes/balance?kill={}&drain={}", escape(&kill.join(",")), escape(&drain.join(",")));
    let found: BalanceReport = reach.client()?.get(&path)?;
    if reach.output == OutputFormat::Json {
        return output::json(&found);
    }
    let none = "no node has joined yet";
    if found.then.is_some() {
        let rows: Vec<SimulatedBalanceRow<'_>> = found.rows.iter().map(SimulatedBalanceRow).collect();
        output::list(OutputFormat::Table, &rows, none)?;
    } else {
        output::list(OutputFormat::Table, &found.rows, none)?;
    }
    output::line(&format!("\n{}", summary(&found)))?;
    for ObstacleRow { job, why } in found.then.iter().flat_map(|then| &then.obstacles) {
        output::line(&format!("in the way: job {job}: {why}"))?;
    }
    if let Some(more) = found.then.as_ref().map(|then| then.obstacles_more).filter(|more| *more > 0) {
        output::line(&format!("in the way: {}", counted(more, "more job")))?;
    }
    found.warnings.iter().for_each(|text| output::print_message(text));
    Ok(())
}

/// A sentence that says whether there is room for every job.
fn summary(found: &BalanceReport) -> String {
    let BalanceReport { jobs, room, free, .. } = found;
    let all = counted(*jobs, "job");
    let Some(then) = &found.then else {
        let held = if *free == 0 { "all are held".to_owned() } else { format!("{free} held by no node") };
        return match found.covers {
            true => format!("room for {room}, {all}: {held}"),
            // Nodes with room do not help jobs that select other nodes.
            false if room >= jobs => format!(
                "room for only {} of {all}: the others are for nodes with labels or names that too few have; \
                 `evenkeel job list` shows which fit no node",
                jobs - found.short
            ),
            false => {
                format!("room for only {} of {all}: undrain a node or start one more", jobs - found.short)
            }
        };
    };
    let WhatIfRow { moved, room_at_once, room, .. } = then;
    let (at_once, at_last) = (jobs - then.short_at_once, jobs - then.short);
    let lost = Vec::from_iter((!then.lost.is_empty()).then(|| format!("without {}", then.lost.join(", "))));
    let drained = (!then.drained.is_empty()).then(|| format!("with {} drained", then.drained.join(", ")));
    let what = lost.into_iter().chain(drained).collect::<Vec<_>>().join(" and ");
    let moves = format!("{} {}", counted(*moved, "job"), if *moved == 1 { "moves" } else { "move" });
    match (then.covers_at_once, then.covers) {
        (true, _) => {
            format!("{what}: {moves}, the others have room for {room_at_once} of {jobs} at once")
        }
        (false, true) => format!(
            "{what}: {moves}, the others have room for only {at_once} of {jobs} until they know of the \
             loss, then for {room}: raise --tolerance to close the gap"
        ),
        (false, false) => format!(
            "{what}: the others have room for only {at_last} of {all}, {} would be held by no node: start more nodes or \
             undrain one first",
            then.free
        ),
    }
}
