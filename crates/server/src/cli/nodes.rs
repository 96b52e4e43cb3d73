//! The commands `evenkeel node …`.

use evenkeel_core::input::ApplyResult;
use serde::Serialize;
use std::time::Duration;

use clap::Subcommand;
use evenkeel::clock;
use evenkeel_core::ids::counted;
use evenkeel_core::time::{Millis, Mono, TimeSpan, TimeSpanError};

use super::response::print_response;
use crate::client::ConnectArgs;
use crate::exit::{CliError, ExitKind};
use crate::output::{self, OutputFormat, SimulatedBalanceRow};
use crate::upgrade::WAIT_LIMITS;
use evenkeel_client::requests::{DrainBody, EventListQuery, NodeLoadQuery, UpgradeBody, WhatIfQuery};
use evenkeel_client::types::{
    BalanceReport, DoneAnswer, EventPage, NodePage, NodeRow, ObstacleRow, WhatIfRow,
};

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
    /// List nodes that are online, and those that left within the last day, with their load of the last minute
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
        /// The maximum number of minutes
        #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=10_000))]
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
    /// Mark a node as online that the other nodes count as offline
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
            let page = reach.client()?.list_nodes()?;
            let NodePage { mut nodes, gone, closed, warnings, .. } = page;
            nodes.extend(gone);
            if closed {
                output::print_message("this node was closed from outside and is no member: start it again");
            }
            output::warn(&warnings);
            output::list(reach.output, &nodes, "no node has joined yet")
        }
        NodeCommand::LeastLoaded { reach } => {
            let least_loaded = reach.client()?.least_loaded_node()?;
            output::list(reach.output, &[least_loaded], "no node is online")
        }
        NodeCommand::Load { name, since, limit, reach } => {
            let query = NodeLoadQuery { since: Some(since), limit: Some(limit) };
            let page = reach.client()?.show_node_load(&name, &query)?;
            output::list(reach.output, &page.load, "nothing is known of it in that time")
        }
        NodeCommand::Balance { simulate, reach } => balance(&simulate, &reach),
        NodeCommand::Drain { name, force, wait: true, timeout, reach } => {
            drain_and_wait(&reach, &name, force, timeout.map(Duration::from))
        }
        NodeCommand::Drain { name, force, reach, .. } => {
            let answer = reach.client()?.drain_node(&name, &DrainBody { force })?;
            print_switched(&reach, &name, &answer, (DRAINING, DRAINING))
        }
        NodeCommand::Undrain { name, reach } => {
            let done = ("back: it claims jobs again", "not drained: nothing was changed");
            switch(&reach, &name, "undrain", done)
        }
        NodeCommand::Cordon { name, reach } => {
            let done = (
                "cordoned: it keeps what it has and gets nothing new",
                "cordoned already: nothing was changed",
            );
            switch(&reach, &name, "cordon", done)
        }
        NodeCommand::Uncordon { name, reach } => {
            let done = ("no longer cordoned: it gets new work again", "not cordoned: nothing was changed");
            switch(&reach, &name, "uncordon", done)
        }
        NodeCommand::Upgrade { name, wait, reach } => upgrade(&reach, &name, wait),
        NodeCommand::Activate { name, reach } => {
            let done = ("online: its strikes are forgiven", "online already: nothing was changed");
            switch(&reach, &name, "activate", done)
        }
    }
}

/// The answer to a drain that is waited for.
#[derive(Serialize)]
struct DrainedAnswer {
    #[serde(flatten)]
    answer: DoneAnswer,
    /// The node owns nothing any more.
    drained: bool,
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
    let answer = client.drain_node(name, &DrainBody { force })?;
    output::warn(answer.warnings.as_deref().unwrap_or_default());
    if reach.output.is_text() {
        output::print_message(&format!("node {name} is {DRAINING}"));
    }
    let mut silent_since = None;
    loop {
        let now = clock::now().mono;
        let row = match client.list_nodes() {
            Ok(page) => {
                silent_since = None;
                Some(page.nodes.into_iter().find(|row| row.name == name))
            }
            // The node may be slow for a moment.
            Err(failure) if now >= after(*silent_since.get_or_insert(now), SILENCE) => {
                return Err(failure.into());
            }
            Err(_) => None,
        };
        if let Some(None) = row {
            let text = format!("node {name} ended before it said that it owns nothing: see its log");
            return Err(CliError::new(ExitKind::Failed, text));
        }
        let row = row.flatten();
        if row.as_ref().is_some_and(|row| row.drained) {
            let answer = DrainedAnswer { answer, drained: true };
            return print_response(reach, &answer, &format!("node {name} is drained: it may be stopped"));
        }
        if row.as_ref().is_some_and(|row| !row.draining) {
            let text = format!("node {name} was undrained meanwhile: it keeps what it has");
            return Err(CliError::new(ExitKind::Conflict, text));
        }
        if until.is_some_and(|until| now >= until) {
            let text = not_drained(name, row.as_ref());
            return Err(CliError::new(ExitKind::Unavailable, text));
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Why a node is not drained yet.
fn not_drained(name: &str, row: Option<&NodeRow>) -> String {
    let (held, shards) = row.map_or((0, 0), |row| (row.held, row.shards));
    let holds: Vec<String> = [(held, "job"), (shards, "shard")]
        .into_iter()
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
fn switch(reach: &ConnectArgs, name: &str, verb: &str, said: (&str, &str)) -> Result<(), CliError> {
    let answer = reach.client()?.switch_node(name, verb)?;
    print_switched(reach, name, &answer, said)
}

fn print_switched(
    reach: &ConnectArgs,
    name: &str,
    answer: &DoneAnswer,
    (done, already): (&str, &str),
) -> Result<(), CliError> {
    output::warn(answer.warnings.as_deref().unwrap_or_default());
    let said = if answer.applied == Some(ApplyResult::Unchanged) { already } else { done };
    print_response(reach, answer, &format!("node {name} is {said}"))
}

/// Requests an upgrade, and waits until the node reports its outcome.
fn upgrade(reach: &ConnectArgs, name: &str, wait: TimeSpan) -> Result<(), CliError> {
    let client = reach.client()?;
    let asked = client.upgrade_node(name, &UpgradeBody { wait: Some(wait.to_string()) })?;
    let (node, since) = (Some(name.to_owned()), Some(asked.since.clone()));
    let query = EventListQuery { node, since, ..EventListQuery::default() };
    let patience = Duration::from(wait) + BEGINS;
    let until = clock::now().mono.0 + i64::try_from(patience.as_millis()).unwrap_or(0);
    while clock::now().mono.0 < until {
        // While the program changes, no node answers; that is no reason to give up.
        if let Ok(EventPage { events, .. }) = client.list_events(&query) {
            if let Some(event) = events.iter().find(|event| event.kind == "not_upgraded") {
                return Err(CliError::new(ExitKind::Conflict, event.text.clone()));
            }
            if let Some(event) = events.iter().find(|event| event.kind == "upgraded") {
                return print_response(
                    reach,
                    &asked,
                    &format!("node {name} {}: evenkeel {}", event.text, asked.version),
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
    let query = WhatIfQuery { kill: kill.join(","), drain: drain.join(",") };
    let found = reach.client()?.balance_nodes(&query)?;
    if !reach.output.is_text() {
        return output::value(reach.output, &found);
    }
    let none = "no node has joined yet";
    if reach.output == OutputFormat::Name {
        return output::list(reach.output, &found.rows, none);
    }
    if !reach.output.is_text() {
        return output::value(reach.output, &found);
    }
    if found.then.is_some() {
        let rows: Vec<SimulatedBalanceRow<'_>> = found.rows.iter().map(SimulatedBalanceRow).collect();
        output::list(reach.output, &rows, none)?;
    } else {
        output::list(reach.output, &found.rows, none)?;
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
