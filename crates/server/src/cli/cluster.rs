//! What `evenkeel cluster …` does.

use clap::Subcommand;
use evenkeel_core::node::Spread;
use evenkeel_core::record::{Handover, PlannerKind};
use serde::Deserialize;

use super::{carry, chosen, doctor};
use crate::client::{Client, Reach, escape};
use crate::exit::Failure;
use crate::output::{self, Output};
use crate::rows::{LayoutRow, SettingsRow, Wanted};
use crate::settings;
use crate::tree::{self, Entry, Form};

/// What can be looked at.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Show the cluster, or each sharded job, as another scheduler writes it down
    Tree {
        /// In whose shape: elasticjob-1 (Elastic-Job-Lite 1.x) or elasticjob-3 (ElasticJob 3.x) for sharded jobs; siatask (SIA-TASK), keeper (Qross Keeper) or azkaban (Azkaban) for the whole cluster
        #[arg(long = "as", value_enum, value_name = "FORM", hide_possible_values = true)]
        form: Form,
        /// Only this job's
        #[arg(long, value_name = "NAME")]
        job: Option<String>,
        #[command(flatten)]
        reach: Reach,
    },
    /// Look whether the registry is fit to keep the books, and say what to do if not; fails when something is wrong
    ///
    /// Needs no node, but a registry that a node has made. It writes one entry that nobody looks at, and takes it away again.
    Doctor(doctor::Doctor),
    /// Copy the books into a file, while nodes work or not: jobs, watermarks, marks, tokens, switches
    ///
    /// Needs no node. Each job is as it stood at one moment. Members, loads and history are not in it.
    Backup(carry::BackUp),
    /// Put a backup into an empty registry; tokens given there are above all before
    ///
    /// Needs no node, and none can join before all of it is there. Should it be cut short, do the same again.
    Restore(carry::Restore),
    /// Move the books to another registry, once all nodes are stopped; no node can join at the old one any more
    ///
    /// Needs no node. Every fire that is due meanwhile runs once, when nodes are started at the new registry, as the grace
    /// and catch-up of its job say. Should it be cut short, do the same again.
    Move(carry::Move),
    /// End an upgrade of all nodes: let them write what only the new program can read
    ///
    /// Refused, with their names, while there are nodes of the program before. No such node can join afterwards.
    Finalize {
        #[command(flatten)]
        reach: Reach,
    },
    /// Show what is set for the whole cluster, and set what is given
    Settings {
        /// Who plans dispatched jobs: beat (in each beat the idlest) or leader (one for as long as it lives)
        #[arg(long, value_name = "WHO", value_parser = chosen::<PlannerKind>)]
        planner: Option<PlannerKind>,
        /// The length of a beat, 1s to 1h; a plain number is seconds
        #[arg(long, value_name = "TIME", value_parser = beat)]
        beat: Option<u32>,
        /// How many strikes make a node offline, 1 to 100
        #[arg(long, value_name = "N")]
        strikes: Option<u32>,
        /// What a new leader waits for: fenced (what leases leave to wait for) or waited (all of it, to the letter)
        #[arg(long, value_name = "HOW", value_parser = chosen::<Handover>)]
        handover: Option<Handover>,
        /// How free jobs are spread over nodes: even (each its fair share) or first_come (whoever comes first, up to the quota)
        #[arg(long, value_name = "HOW", value_parser = chosen::<Spread>)]
        spread: Option<Spread>,
        #[command(flatten)]
        reach: Reach,
    },
}

/// The length of a beat in seconds.
fn beat(text: &str) -> Result<u32, String> {
    u32::try_from(settings::seconds(text)?).map_err(|_| "the longest beat is 1h".to_owned())
}

/// What a node answers.
#[derive(Debug, Deserialize)]
struct Answer {
    tree: Vec<Entry>,
    after: Option<String>,
}

/// Does it.
///
/// # Errors
/// It could not be done.
pub(crate) fn run(verb: Verb) -> Result<(), Failure> {
    match verb {
        Verb::Tree { form, job, reach } => shown(form, job.as_deref(), &reach),
        Verb::Doctor(args) => doctor::run(&args),
        Verb::Backup(args) => carry::backup(&args),
        Verb::Restore(args) => carry::restore(&args),
        Verb::Move(args) => carry::relocate(&args),
        Verb::Finalize { reach } => finalize(&reach),
        Verb::Settings { planner, beat, strikes, handover, spread, reach } => {
            set(Wanted { planner, beat, strikes, handover, spread }, &reach)
        }
    }
}

fn set(wanted: Wanted, reach: &Reach) -> Result<(), Failure> {
    let client = reach.client()?;
    let row: SettingsRow = if wanted == Wanted::default() {
        client.get("/cluster/settings")?
    } else {
        client.post("/cluster/settings", &wanted)?
    };
    output::list(reach.output, &[row], "nothing is set")
}

fn finalize(reach: &Reach) -> Result<(), Failure> {
    let row: LayoutRow = reach.client()?.post("/cluster/finalize", &())?;
    output::list(reach.output, &[row], "no layout")
}

fn shown(form: Form, job: Option<&str>, reach: &Reach) -> Result<(), Failure> {
    let entries = entries(&reach.client()?, form, job)?;
    match reach.output {
        Output::Json => output::json(&entries),
        Output::Table if entries.is_empty() => output::line("no job is sharded"),
        Output::Table => output::line(&tree::text(&entries)),
    }
}

fn entries(client: &Client, form: Form, job: Option<&str>) -> Result<Vec<Entry>, Failure> {
    let start = format!("/cluster/tree?as={}", form.name());
    if let Some(job) = job {
        return Ok(client.get::<Answer>(&format!("{start}&job={}", escape(job)))?.tree);
    }
    let (mut entries, mut path) = (Vec::new(), start.clone());
    loop {
        let page: Answer = client.get(&path)?;
        entries.extend(page.tree);
        let Some(after) = page.after else { return Ok(entries) };
        path = format!("{start}&after={}", escape(&after));
    }
}
