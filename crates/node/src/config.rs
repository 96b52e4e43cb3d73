//! What a node is told at its start.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::ids::NodeName;
use evenkeel_core::labels::Labels;
use evenkeel_core::node::{Quota, Spread};
use evenkeel_core::registry::EngineFacts;
use evenkeel_core::time::Millis;

use crate::executors::{Functions, Network};
use crate::notify::Notifier;
use crate::peers::{NoPeers, PeerRpc};

/// How a node is to live. [`Config::new`] fills in every default; change the fields you care about.
#[derive(Clone)]
pub struct Config {
    /// The node's name, one of its kind in the cluster.
    pub name: NodeName,
    /// Where the cluster keeps its books: `sqlite:PATH` or `memory:`.
    pub registry: String,
    /// The node's own folder: its lock, its incarnation, its runs' output. Two nodes never share one.
    pub data: PathBuf,
    /// The term of the lease (L).
    pub ttl: Duration,
    /// How many failed nodes the others make up for (n), at least 1 (`S1-17`).
    pub tolerance: u32,
    /// Above how many held jobs the alarm is raised (M).
    pub alarm: u32,
    /// How many runs are executed at once.
    pub slots: u32,
    /// What jobs may choose the node by: `zone=eu`, `gpu`.
    pub labels: Labels,
    /// How free jobs are spread over nodes.
    pub spread: Spread,
    /// By which quota the node goes (`S1-21`).
    pub quota: Quota,
    /// Where history is kept: `sqlite:PATH`, or in a database that all nodes share, at `postgres://USER@HOST/DATABASE` or
    /// `mysql://USER@HOST/DATABASE`. `None` keeps it in a file beside the registry's, or in the data folder.
    pub history: Option<String>,
    /// Where the node's HTTP interface answers, shown to people.
    pub address: String,
    /// The installation folder, compared between nodes (`S0-04`).
    pub home: String,
    /// Whom to tell what happens to the node.
    pub notify: Vec<Notifier>,
    /// The functions that jobs may call by name.
    pub functions: Functions,
    /// Which networks requests may go to that are not public: loopback, private and link-local ones are refused otherwise,
    /// and a cloud's metadata service unless its very address is named.
    pub http_allow: Vec<Network>,
    /// The folder of the secrets that requests may name, a file each; `None` where there are none.
    pub secrets: Option<PathBuf>,
    /// The program that is started as the guard; `None` for the current one, which must call
    /// [`run_if_asked`](crate::guard::run_if_asked) first in `main`.
    pub executable: Option<PathBuf>,
    /// Whether each command gets a cgroup of its own where this host lets the node make any. Without, a job that says what a whole run
    /// may use is run and not bounded.
    pub cgroups: bool,
    /// How much is kept of what runs leave behind.
    pub retention: Retention,
    /// How it reaches other nodes; nobody by default. Dispatched jobs then start a little later, and nobody is probed.
    pub peers: Arc<dyn PeerRpc>,
}

/// How much is kept of what runs leave behind (`I48`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// The most bytes of output kept of one attempt; what comes after is read and dropped.
    pub output: u64,
    /// The most bytes a second of a command's output, ten seconds' worth at once; what comes faster is counted and dropped. `None`
    /// for no bound.
    pub output_rate: Option<u64>,
    /// The most bytes of all output together.
    pub outputs: u64,
    /// How long records and output are kept.
    pub age: Duration,
    /// How long the audit log is kept.
    pub audit: Duration,
    /// How many attempts are kept of each job.
    pub runs_of_job: u32,
    /// How many attempts are kept in all: of this node's own history, or of the one that all nodes share.
    pub runs: u64,
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            output: 10 << 20,
            output_rate: Some(1 << 20),
            outputs: 1 << 30,
            age: Duration::from_hours(30 * 24),
            audit: Duration::from_hours(400 * 24),
            runs_of_job: 1000,
            runs: 2_000_000,
        }
    }
}

/// A config is shown without the passwords that the addresses in it may have.
impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |url: &String| evenkeel_registry::redacted(url);
        f.debug_struct("Config")
            .field("name", &self.name)
            .field("registry", &shown(&self.registry))
            .field("history", &self.history.as_ref().map(shown))
            .field("data", &self.data)
            .field("ttl", &self.ttl)
            .field("slots", &self.slots)
            .field("labels", &self.labels)
            .field("functions", &self.functions)
            .finish_non_exhaustive()
    }
}

impl Config {
    /// A node with every default.
    #[must_use]
    pub fn new(name: NodeName, registry: impl Into<String>, data: impl Into<PathBuf>) -> Self {
        Self {
            name,
            registry: registry.into(),
            data: data.into(),
            ttl: Duration::from_secs(15),
            tolerance: 1,
            alarm: 100,
            slots: 64,
            labels: Labels::default(),
            spread: Spread::default(),
            quota: Quota::default(),
            history: None,
            address: String::new(),
            home: std::env::current_dir().map(|dir| dir.display().to_string()).unwrap_or_default(),
            notify: Vec::new(),
            functions: Functions::default(),
            http_allow: Vec::new(),
            secrets: None,
            executable: None,
            cgroups: true,
            retention: Retention::default(),
            peers: Arc::new(NoPeers),
        }
    }

    /// How long the node's leases last in a registry of these facts.
    pub(crate) fn term(&self, facts: &EngineFacts) -> Millis {
        Millis(i64::try_from(self.ttl.as_millis()).unwrap_or(i64::MAX)).max(facts.ttl_min)
    }

    /// The same with these labels, so that jobs may choose the node by them.
    #[must_use]
    pub fn labelled(mut self, labels: Labels) -> Self {
        self.labels = labels;
        self
    }

    /// The same with these functions.
    #[must_use]
    pub fn with(mut self, functions: Functions) -> Self {
        self.functions = functions;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// proves: I52
    #[test]
    fn no_password_is_shown() {
        let mut config = Config::new("a".parse().unwrap(), "postgres://me:tulip@db/keel", "/data");
        config.history = Some("mysql://me:tulip@db/keel".into());
        let shown = format!("{config:?}");
        assert!(shown.contains("postgres://") && shown.contains("mysql://"), "{shown}");
        assert!(!shown.contains("tulip"), "{shown}");
    }
}
