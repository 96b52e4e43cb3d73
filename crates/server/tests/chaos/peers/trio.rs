//! Three nodes that plan for each other, on one host or on three, and what is done to them.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use evenkeel_core::ids::NodeName;
use evenkeel_core::keys;
use evenkeel_core::record::{Plan, ServingRecord, StrikeRecord};
use rusqlite::Connection;
use serde_json::Value;

use super::network::{NetworkPath, TestNetwork, address};
use crate::evidence::{FaultAction, LostLease, NodeFault};
use crate::fleet::{
    LOST_LEASES, RunHistory, STATES, books, entry, keep_verdicts, remember, settle, stop_at_rest, ttl, wall,
};
use crate::process::{self, ServerProcess, millis, until, until_told};
use crate::witness::JobRoster;
use crate::{FREEZE_MS, LEASE_MS, NAMES};

const PORT: &str = "7700";
const KEY: &str = "correct-horse-battery-staple\n";

/// Three nodes.
pub(crate) struct Trio<'a> {
    folder: &'a Path,
    /// Before the network, since they end first.
    nodes: Vec<ServerProcess>,
    network: Option<TestNetwork>,
    key: PathBuf,
    /// What history says of fires that did not run to their end.
    pub(crate) verdicts: RunHistory,
}

impl<'a> Trio<'a> {
    /// Starts them, each on its own host where there is a network.
    pub(crate) fn start(folder: &'a Path, network: Option<TestNetwork>) -> Self {
        let key = folder.join("key");
        std::fs::write(&key, KEY).expect("written");
        std::fs::set_permissions(&key, PermissionsExt::from_mode(0o600)).expect("it is ours");
        let mut trio = Self { folder, nodes: Vec::new(), network, key, verdicts: RunHistory::new() };
        for node in 0..NAMES.len() {
            let served = trio.serve(node);
            trio.nodes.push(served);
        }
        trio.wait_for_all();
        keep_verdicts(folder);
        trio
    }

    fn serve(&self, node: usize) -> ServerProcess {
        let ttl = ttl(LEASE_MS);
        let shared = ["--ttl", &ttl, "--slots", "100"];
        let Some(network) = &self.network else {
            return ServerProcess::serve(self.folder, NAMES[node], &shared);
        };
        let (ip, key) = (address(node), self.key.display().to_string());
        let advertised = format!("{ip}:{PORT}");
        let own = ["--listen", &ip, "--port", PORT, "--advertise", &advertised, "--cluster-key-file", &key];
        let command = ServerProcess::command(self.folder, NAMES[node], &[&shared[..], &own].concat());
        ServerProcess::start(&mut network.on_host(node, &command))
    }

    /// One of the nodes.
    pub(crate) fn node(&self, node: usize) -> &ServerProcess {
        &self.nodes[node]
    }

    /// The network between them.
    pub(crate) fn network(&self) -> &TestNetwork {
        self.network.as_ref().expect("this trial has a network")
    }

    /// A client's verb for one of them that must work; what it printed.
    pub(crate) fn ok(&self, node: usize, args: &[&str]) -> String {
        let mut command: Command = self.nodes[node].client(args);
        if let Some(network) = &self.network {
            command.env("EVENKEEL_CLUSTER_KEY_FILE", &self.key);
            command = network.on_hub(&command);
        }
        let output = command.output().expect("evenkeel starts");
        assert!(output.status.success(), "{args:?}: {}", process::text(&output.stderr));
        process::text(&output.stdout)
    }

    /// The same with `-o json`.
    pub(crate) fn json(&self, node: usize, args: &[&str]) -> Value {
        let text = self.ok(node, &[args, &["-o", "json"]].concat());
        serde_json::from_str(&text).expect("it is JSON")
    }

    /// Declares jobs.
    pub(crate) fn apply(&self, file: &str) {
        let path = self.folder.join("jobs.toml");
        std::fs::write(&path, file).expect("written");
        self.ok(0, &["job", "apply", "-f", &path.display().to_string()]);
    }

    fn wait_for_all(&self) {
        until("every node is a member and says so", || {
            let members = |node| self.json(node, &["node", "list"]).as_array().map(Vec::len);
            (0..NAMES.len()).all(|node| members(node) == Some(NAMES.len())).then_some(())
        });
    }

    /// Kills a node that has runs; it stays dead.
    pub(crate) fn kill(&self, victim: usize, roster: &JobRoster) -> NodeFault {
        self.wait_until_busy(victim, roster);
        let at = wall();
        self.nodes[victim].signal("KILL");
        self.watch_takeover(victim, (FaultAction::Killed, at), roster)
    }

    /// Starts a node that was killed.
    pub(crate) fn restart(&mut self, victim: usize) {
        self.nodes[victim] = self.serve(victim);
        self.wait_for_all();
    }

    /// Freezes a node that has runs; it stays frozen.
    pub(crate) fn freeze(&self, victim: usize, roster: &JobRoster) -> NodeFault {
        self.wait_until_busy(victim, roster);
        let at = wall();
        stop_at_rest(self.folder, &self.nodes[victim]);
        self.watch_takeover(victim, (FaultAction::Frozen, at), roster)
    }

    /// Lets a frozen node go on once its lease is surely over.
    pub(crate) fn thaw(&self, fault: &NodeFault, victim: usize) {
        settle(FREEZE_MS - (wall() - fault.done));
        self.nodes[victim].signal("CONT");
        until("the frozen node records that its lease was lost", || {
            let recorded = |lost: &LostLease| lost.node == NAMES[victim] && lost.at >= fault.at;
            self.lost_leases().iter().any(recorded).then_some(())
        });
        self.wait_for_all();
    }

    fn wait_until_busy(&self, node: usize, roster: &JobRoster) {
        let books = books(self.folder);
        until("it has runs", || has_runs(&books, node, roster).then_some(()));
    }

    /// Waits until no plan names the victim any more.
    fn watch_takeover(&self, victim: usize, (how, at): (FaultAction, i64), roster: &JobRoster) -> NodeFault {
        let (done, begun) = (wall(), millis());
        let books = books(self.folder);
        until_told(
            "its runs are planned for others",
            || (!has_runs(&books, victim, roster)).then_some(()),
            || format!("serving: {:?}; {:?}", self.serving(), plans(&books, roster).collect::<Vec<_>>()),
        );
        let takeover = millis() - begun;
        NodeFault { node: NAMES[victim], how, at, done, takeover, reshard: takeover, after_lease: None }
    }

    /// The leases that nodes recorded as lost.
    pub(crate) fn lost_leases(&self) -> Vec<LostLease> {
        LostLease::read(&self.json(0, &LOST_LEASES))
    }

    /// Waits until who sends over these ways, and whoever waits for the answer, has noticed that they are cut.
    pub(crate) fn wait_until_felt(&self, ways: &[NetworkPath]) {
        let books = books(self.folder);
        let name = |node: usize| -> NodeName { NAMES[node].parse().expect("a name") };
        until("the cut is felt", || {
            let felt = |way: &NetworkPath| {
                let strike: Option<StrikeRecord> =
                    entry(&books, keys::strike(&name(way.to), &name(way.from)).as_str());
                strike.is_some_and(|strike| strike.count > 0)
            };
            ways.iter().all(|way| felt(way) && felt(&way.back())).then_some(())
        });
    }

    /// Brings back whom its peers took for unreachable; how many those were.
    pub(crate) fn activate(&self) -> usize {
        let nodes = self.json(0, &["node", "list"]);
        let offline = nodes.as_array().expect("a list").iter().filter(|row| row["offline"] == true);
        let names: Vec<&str> = offline.filter_map(|row| row["name"].as_str()).collect();
        for name in &names {
            self.ok(0, &["node", "activate", name]);
        }
        names.len()
    }

    /// Who serves, and by which epoch.
    pub(crate) fn serving(&self) -> Option<(usize, u64)> {
        let record: ServingRecord = entry(&books(self.folder), keys::serving().as_str())?;
        let leader = record.leader.filter(|_| record.serves)?;
        Some((NAMES.iter().position(|name| *name == leader.node.as_str())?, record.epoch))
    }

    /// Remembers what history says at this moment.
    pub(crate) fn collect_history(&mut self) {
        for state in STATES {
            let rows = self.json(0, &["run", "list", "--state", state, "--limit", "1000000"]);
            remember(&mut self.verdicts, &rows);
        }
    }
}

/// Whether runs are planned for a node, or are its own already.
fn has_runs(books: &Connection, node: usize, roster: &JobRoster) -> bool {
    plans(books, roster).any(|plan| plan.runs.iter().any(|run| run.by.node.as_str() == NAMES[node]))
}

fn plans(books: &Connection, roster: &JobRoster) -> impl Iterator<Item = Plan> {
    let key = |job| keys::plan(&roster.name(job).parse().expect("a name"));
    (0..roster.jobs).filter_map(move |job| entry(books, key(job).as_str()))
}
