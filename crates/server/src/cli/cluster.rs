//! What `evenkeel cluster …` does.

use clap::Subcommand;
use serde::Deserialize;

use crate::client::{Client, Reach, escape};
use crate::exit::Failure;
use crate::output::{self, Output};
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
    let Verb::Tree { form, job, reach } = verb;
    let entries = entries(&reach.client()?, form, job.as_deref())?;
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
