//! The settings of a node at its start.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::ids::NodeName;
use evenkeel_core::labels::Labels;
use evenkeel_core::node::{Quota, Spread};
use evenkeel_core::registry::EngineFacts;
use evenkeel_core::time::Millis;

use crate::command_policy::CommandPolicy;
use crate::executors::{Functions, Network};
use crate::notify::Notifier;
use crate::peers::{NoPeers, PeerRpc};
use crate::retention::Retention;
use crate::seal_key::NodeIdentity;
use crate::secrets::SecretOpener;
use crate::trace::TraceSink;

/// The settings of a node. [`Config::new`] fills in every default; change the fields you care about.
#[derive(Clone)]
pub struct Config {
    /// The node's name, unique in the cluster.
    pub name: NodeName,
    /// The registry's URL, such as `sqlite:PATH` or `memory:`.
    pub registry: String,
    /// The node's own folder: its lock, its incarnation, its runs' output. Two nodes never share one.
    pub data: PathBuf,
    /// The term of the lease (L).
    pub ttl: Duration,
    /// How long a node waits for its name while a living member has it; at least one and a half terms of its lease,
    /// within which an earlier life of the same term ends.
    pub wait_for_name: Duration,
    /// How many failed nodes the others can replace (n), at least 1 (`S1-17`).
    pub tolerance: u32,
    /// The number of owned jobs above which the alarm is raised (M).
    pub alarm: u32,
    /// How many runs are executed at once.
    pub slots: u32,
    /// The labels by which jobs select the node: `zone=eu`, `gpu`.
    pub labels: Labels,
    /// How free jobs are spread over nodes.
    pub spread: Spread,
    /// Which quota the node applies (`S1-21`).
    pub quota: Quota,
    /// Where history is kept: `sqlite:PATH`, or a database that all nodes share, at `postgres://USER@HOST/DATABASE` or
    /// `mysql://USER@HOST/DATABASE`. `None` keeps it in a file beside the registry's, or in the data folder.
    pub history: Option<String>,
    /// The address of the node's HTTP interface, shown to people.
    pub address: String,
    /// The installation folder, compared between nodes (`S0-04`).
    pub home: String,
    /// The notifiers for events of the node and its jobs.
    pub notify: Vec<Notifier>,
    /// The functions that jobs can call by name.
    pub functions: Functions,
    /// The networks besides public ones that requests may reach. Loopback, private and link-local addresses are refused
    /// by default, and a cloud's metadata service unless its exact address is listed.
    pub http_allow: Vec<Network>,
    /// The folder of the secrets that jobs can name, a file each; `None` if there are none.
    pub secrets: Option<PathBuf>,
    /// What opens the secrets that the registry keeps; `None` for programs that use none of them.
    pub secret_opener: Option<Arc<dyn SecretOpener>>,
    /// The program that is started as the guard; `None` for the current one, which must call
    /// [`run_if_asked`](crate::guard::run_if_asked) first in `main`.
    pub executable: Option<PathBuf>,
    /// As which users commands may run, and what they may not gain.
    pub commands: CommandPolicy,
    /// Whether each command gets its own cgroup, where this host allows the node to create any. Without, a job's limits
    /// of a whole run are not enforced.
    pub cgroups: bool,
    /// Whether the guard kills this process when the node in it hangs: it has sent no heartbeat for a third of the time
    /// for which its lease is trusted, and its thread used no processor time. For programs that do nothing else.
    pub watchdog: bool,
    /// How much of the output and records of runs is kept.
    pub retention: Retention,
    /// The cluster's identity. Without it the node joins any cluster, and believes whatever is in the registry.
    pub identity: Option<NodeIdentity>,
    /// How the node reaches other nodes; by default not at all: dispatched jobs start a bit later, nothing is probed.
    pub peers: Arc<dyn PeerRpc>,
    /// Where the spans of fires and attempts go; `None` for nowhere. Runs get their trace context in any case.
    pub traces: Option<Arc<dyn TraceSink>>,
}

/// A config is shown without the passwords in its addresses.
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
            wait_for_name: Duration::ZERO,
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
            secret_opener: None,
            executable: None,
            commands: CommandPolicy::default(),
            cgroups: true,
            watchdog: false,
            retention: Retention::default(),
            identity: None,
            peers: Arc::new(NoPeers),
            traces: None,
        }
    }

    /// The term of the node's leases in a registry of these facts.
    pub(crate) fn term(&self, facts: &EngineFacts) -> Millis {
        Millis(i64::try_from(self.ttl.as_millis()).unwrap_or(i64::MAX)).max(facts.ttl_min)
    }

    /// The same config with these labels, by which jobs can select the node.
    #[must_use]
    pub fn labelled(mut self, labels: Labels) -> Self {
        self.labels = labels;
        self
    }

    /// The same config with these functions.
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
