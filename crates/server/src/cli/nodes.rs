//! What `evenkeel node …` does.

use clap::Subcommand;
use serde_json::{Value, json};

use super::jobs::said;
use crate::client::{Reach, escape};
use crate::exit::{Exit, Failure};
use crate::output;
use crate::rows::{NodeRow, ServiceRow};

/// What can be done with nodes.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// List the living nodes
    List {
        #[command(flatten)]
        reach: Reach,
    },
    /// Show which node has least to do, and where it answers
    Idlest {
        #[command(flatten)]
        reach: Reach,
    },
    /// Let a node give its jobs up, each after its run, and claim no more
    Drain {
        /// The node's name
        name: String,
        #[command(flatten)]
        reach: Reach,
    },
    /// Let it claim jobs again
    Undrain {
        /// The node's name
        name: String,
        #[command(flatten)]
        reach: Reach,
    },
}

/// Does it.
///
/// # Errors
/// It could not be done.
pub(crate) fn run(verb: Verb) -> Result<(), Failure> {
    match verb {
        Verb::List { reach } => {
            let answer: Value = reach.client()?.get("/nodes")?;
            let nodes: Vec<NodeRow> = serde_json::from_value(answer["nodes"].clone())
                .map_err(|e| Failure::new(Exit::Failed, e.to_string()))?;
            if answer["closed"] == Value::Bool(true) {
                eprintln!("evenkeel: this node was closed from outside and is no member: start it again");
            }
            output::list(reach.output, &nodes, "no node has joined yet")
        }
        Verb::Idlest { reach } => {
            let idlest: ServiceRow = reach.client()?.get("/service")?;
            output::list(reach.output, &[idlest], "no node is online")
        }
        Verb::Drain { name, reach } => switch(
            &reach,
            &name,
            "drain",
            "draining: it claims nothing more and gives up its jobs after their runs",
        ),
        Verb::Undrain { name, reach } => switch(&reach, &name, "undrain", "back: it claims jobs again"),
    }
}

fn switch(reach: &Reach, name: &str, verb: &str, done: &str) -> Result<(), Failure> {
    let answer: Value = reach.client()?.post(&format!("/nodes/{}/{verb}", escape(name)), &json!({}))?;
    said(reach, &answer, &format!("node {name} is {done}"))
}
