//! Three nodes on one engine, and what is done to them and to it.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{ClusterRound, ROSTERS};
use crate::evidence::{FaultAction, LostLease, NodeFault};
use crate::fleet::{LOST_LEASES, RunHistory, STATES, remember, rows_around, settle, ttl, wall};
use crate::process::{self, ServerProcess, millis, until};
use crate::wire::NodeWire;
use crate::witness::wait_until_resumed;
use crate::{FREEZE_MS, LEASE_MS, NAMES, times};

/// How often dispatched jobs are planned, in seconds.
pub(super) const BEAT_S: i64 = 3;
/// The node whose wire to the engine is cut.
const WIRED: usize = 2;
/// The node that its guard kills when it hangs.
const WATCHED: usize = 0;
/// The lease on an engine of three members. While they elect a leader nobody can renew, and a node that could not for as long as a
/// short lease ends its runs, though its lease goes on.
const QUORUM_LEASE_MS: i64 = 20_000;
/// How long a member is missed: longer than that.
const MISSED_MS: i64 = QUORUM_LEASE_MS + 2_500;
/// How often the death of a member is tried until no node's lease ended with it.
const ATTEMPTS: usize = 3;

/// Three nodes on one engine, one of them behind a wire.
pub(super) struct EngineCluster {
    folder: PathBuf,
    engine: &'static str,
    url: String,
    wire: NodeWire,
    nodes: Vec<ServerProcess>,
    /// What the histories say of fires that did not run to their end.
    pub(super) verdicts: RunHistory,
}

impl EngineCluster {
    pub(super) fn start(folder: &Path, engine: &'static str, url: &str) -> Self {
        let wire = NodeWire::new();
        let hosts = authority(url);
        if !hosts.contains(',') {
            wire.lead_to(hosts.parse().expect("the engine's address"));
        }
        let mut cluster = Self {
            folder: folder.to_owned(),
            engine,
            url: url.to_owned(),
            wire,
            nodes: Vec::new(),
            verdicts: RunHistory::new(),
        };
        for node in 0..NAMES.len() {
            let served = cluster.serve(node);
            cluster.nodes.push(served);
        }
        cluster.wait_for_all();
        cluster
    }

    fn serve(&self, node: usize) -> ServerProcess {
        let url = self.url_for(node);
        let ttl = ttl(if authority(&url).contains(',') { QUORUM_LEASE_MS } else { LEASE_MS });
        let watchdog = if node == WATCHED { "on" } else { "off" };
        ServerProcess::serve(
            &self.folder,
            NAMES[node],
            &["--registry", &url, "--ttl", &ttl, "--slots", "100", "--watchdog", watchdog],
        )
    }

    /// One node goes over the wire. Of an engine of several members each node names another one first.
    fn url_for(&self, node: usize) -> String {
        let hosts = authority(&self.url);
        let mut members: Vec<_> = hosts.split(',').collect();
        let count = members.len();
        members.rotate_left(node % count);
        let theirs =
            if count == 1 && node == WIRED { self.wire.address.to_string() } else { members.join(",") };
        self.url.replacen(hosts, &theirs, 1)
    }

    pub(super) fn apply(&self, log: &Path) {
        let file: String = ROSTERS.iter().map(|roster| roster.file(log)).collect();
        self.nodes[0].ok(&["cluster", "settings", "--beat", &format!("{BEAT_S}s")]);
        let applied = self.nodes[0].fed(&["job", "apply", "-f", "-"], &file);
        assert!(applied.status.success(), "{}", process::text(&applied.stderr));
    }

    fn wait_for_all(&self) {
        until("every node is a member and says so", || {
            let members = |node: &ServerProcess| node.json(&["node", "list"]).as_array().map(Vec::len);
            self.nodes.iter().all(|node| members(node) == Some(NAMES.len())).then_some(())
        });
    }

    /// Waits until every job has begun a fire that is due from now on; when that was.
    pub(super) fn wait_until_resumed(&self, log: &Path) -> i64 {
        let since = wall();
        ROSTERS.iter().for_each(|roster| wait_until_resumed(log, roster, since));
        wall()
    }

    /// A node is killed, one hangs, one is frozen, one is cut off in two ways, the engine is killed; all of that so often.
    pub(super) fn suffer(&mut self, log: &Path, times: usize) -> Vec<ClusterRound> {
        let mut rounds = Vec::new();
        for _ in 0..times {
            for fault in
                [Self::kill, Self::hang, Self::freeze, Self::cut, Self::silence, Self::restart_engine]
            {
                let begun = wall();
                let faults = fault(self);
                println!("{}: {faults:?}", self.engine);
                rounds.push(ClusterRound { faults, span: (begun, self.wait_until_resumed(log)), latest: 0 });
                self.collect_history();
            }
        }
        rounds
    }

    /// Each node in turn is asked to leave and started again when it has.
    pub(super) fn roll(&mut self, log: &Path) -> Vec<ClusterRound> {
        let mut rounds = Vec::new();
        for _ in 0..times(1) {
            for (node, name) in NAMES.iter().enumerate() {
                self.collect_history();
                let begun = wall();
                let leaving = self.nodes.remove(node);
                leaving.signal("TERM");
                assert_eq!(leaving.end(), 0, "{name} leaves without a complaint");
                let back = self.serve(node);
                self.nodes.insert(node, back);
                self.wait_for_all();
                let span = (begun, self.wait_until_resumed(log));
                rounds.push(ClusterRound { faults: Vec::new(), span, latest: 0 });
            }
        }
        rounds
    }

    /// Each member of the engine in turn is killed, missed for longer than a lease lasts, and started again.
    pub(super) fn lose_members(&mut self, log: &Path) -> Vec<ClusterRound> {
        let mut rounds = Vec::new();
        for _ in 0..times(1) {
            for member in 0..3 {
                let mut attempts = (0..ATTEMPTS).map(|_| self.lose_member(member, log));
                rounds.push(attempts.find_map(|round| round).expect("no node's lease ends"));
                self.collect_history();
            }
        }
        rounds
    }

    /// `None` when a node's lease ended meanwhile, as it may where the machine stands still for as long as a lease lasts.
    fn lose_member(&self, member: usize, log: &Path) -> Option<ClusterRound> {
        let (begun, lives) = (wall(), self.lives());
        let status = engines(&["status", self.engine]);
        let pids: Vec<_> = status.split_whitespace().skip(2).collect();
        assert_eq!(pids.len(), 3, "all members live: {status}");
        let killed = Command::new("kill").args(["-KILL", pids[member]]).status();
        assert!(killed.expect("kill runs").success());
        settle(MISSED_MS);
        let span = (begun, self.wait_until_resumed(log));
        let stayed = self.lives() == lives;
        engines(&["up", self.engine]);
        self.wait_until_resumed(log);
        stayed.then_some(ClusterRound { faults: Vec::new(), span, latest: 0 })
    }

    /// What the histories have about the fire of a complaint, and about those around it.
    pub(super) fn reported_since(&self, complaint: &str) -> String {
        rows_around(&self.nodes[0], complaint)
    }

    /// When each node joined, by its own history: another life has another moment.
    fn lives(&self) -> Vec<String> {
        let joined = |(node, name): (&ServerProcess, &str)| {
            let all = node.json(&["node", "list"]);
            let own = all.as_array().expect("a list").iter().find(|row| row["name"] == name);
            own.and_then(|row| row["joined"].as_str()).expect("a node knows when it joined").to_owned()
        };
        self.nodes.iter().zip(NAMES).map(joined).collect()
    }

    fn kill(&mut self) -> Vec<NodeFault> {
        let at = wall();
        self.nodes[0].signal("KILL");
        let fault = self.watch_takeover(0, (FaultAction::Killed, at));
        self.nodes[0] = self.serve(0);
        self.wait_for_all();
        vec![fault]
    }

    /// Its guard kills it, at some moment until others have its jobs.
    fn hang(&mut self) -> Vec<NodeFault> {
        let at = wall();
        self.nodes[WATCHED].signal("STOP");
        let mut fault = self.watch_takeover(WATCHED, (FaultAction::Killed, at));
        assert_eq!(self.nodes.remove(WATCHED).end(), -1, "a signal ended it");
        fault.done = wall();
        self.nodes.insert(WATCHED, self.serve(WATCHED));
        self.wait_for_all();
        vec![fault]
    }

    fn freeze(&mut self) -> Vec<NodeFault> {
        let (at, begun) = (wall(), millis());
        self.nodes[1].signal("STOP");
        let fault = self.watch_takeover(1, (FaultAction::Frozen, at));
        settle(FREEZE_MS - (millis() - begun));
        self.nodes[1].signal("CONT");
        self.wait_until_back(1, at);
        vec![fault]
    }

    /// Its connections end, and new ones at once.
    fn cut(&mut self) -> Vec<NodeFault> {
        let (at, begun) = (wall(), millis());
        self.wire.cut();
        self.mend((FaultAction::CutOff, at), begun)
    }

    /// Its connections stay, and nothing passes; what it sent meanwhile arrives late.
    fn silence(&mut self) -> Vec<NodeFault> {
        let (at, begun) = (wall(), millis());
        self.wire.silence();
        self.mend((FaultAction::Silenced, at), begun)
    }

    /// Waits until the node behind the wire was missed, and lets it come back.
    fn mend(&mut self, (how, at): (FaultAction, i64), begun: i64) -> Vec<NodeFault> {
        let fault = self.watch_takeover(WIRED, (how, at));
        settle(FREEZE_MS - (millis() - begun));
        self.wire.lead_to(authority(&self.url).parse().expect("the engine's address"));
        self.wait_until_back(WIRED, at);
        vec![fault]
    }

    /// The engine is killed and started again. Whoever could not renew in time ended its runs and said so.
    fn restart_engine(&mut self) -> Vec<NodeFault> {
        let (at, how) = (wall(), FaultAction::EngineKilled);
        engines(&["restart", self.engine]);
        self.wait_for_all();
        let done = wall();
        NAMES.map(|node| NodeFault { node, how, at, done, takeover: 0, reshard: 0, after_lease: None }).into()
    }

    /// Waits until a node has recorded that its lease was lost, and has joined again.
    fn wait_until_back(&self, node: usize, since: i64) {
        until("the node records that its lease was lost", || {
            let recorded = |lost: &LostLease| lost.node == NAMES[node] && lost.at >= since;
            self.lost_leases().iter().any(recorded).then_some(())
        });
        self.wait_for_all();
    }

    /// Waits until nobody believes that the victim holds a job.
    fn watch_takeover(&self, victim: usize, (how, at): (FaultAction, i64)) -> NodeFault {
        let (done, begun) = (wall(), millis());
        let other = &self.nodes[(victim + 1) % NAMES.len()];
        until("its jobs are taken over", || {
            let jobs = other.json(&["job", "list"]);
            let held = jobs.as_array().expect("a list").iter().any(|job| job["owner"] == NAMES[victim]);
            (!held).then_some(())
        });
        let takeover = millis() - begun;
        NodeFault { node: NAMES[victim], how, at, done, takeover, reshard: takeover, after_lease: None }
    }

    /// The leases that nodes recorded as lost: on an engine each node has its own history.
    pub(super) fn lost_leases(&self) -> Vec<LostLease> {
        let mut all: Vec<_> =
            self.nodes.iter().flat_map(|node| LostLease::read(&node.json(&LOST_LEASES))).collect();
        all.sort_by(|a, b| (&a.node, a.at).cmp(&(&b.node, b.at)));
        all.dedup();
        all
    }

    /// Remembers what the histories say at this moment: on an engine each node has its own.
    pub(super) fn collect_history(&mut self) {
        for node in &self.nodes {
            for state in STATES {
                let rows = node.json(&["run", "list", "--state", state, "--limit", "1000000"]);
                remember(&mut self.verdicts, &rows);
            }
        }
    }
}

/// Does something to engines, as `cargo xtask engines` does; what it said.
fn engines(args: &[&str]) -> String {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let done = Command::new(cargo).args(["xtask", "engines"]).args(args).output().expect("cargo starts");
    assert!(done.status.success(), "{}", process::text(&done.stderr));
    process::text(&done.stdout)
}

/// What a URL says of where: an address, or several.
fn authority(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let hosts = rest.split('/').next().unwrap_or(rest);
    hosts.rsplit('@').next().unwrap_or(hosts)
}
