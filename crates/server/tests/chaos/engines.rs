//! Three nodes on each real engine: jobs of all placements run each second while a node is killed, one is frozen past its
//! lease, one is cut off from the engine, first so that it is told and then so that it hears nothing at all, and the engine itself
//! is killed and started again; and while every node in turn is asked to leave and started again. Of an engine of three members
//! any one may die.
//!
//! `cargo xtask engines up` brings the engines; where one is absent its trial is skipped, unless `REQUIRE=all`. Those of
//! three members are brought by `cargo xtask engines up --quorum`, and skipped without it.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::fleet::{STATES, Verdicts, remember, settle, wall};
use crate::peers::lateness::{self, prompt_within};
use crate::process::{self, Node, millis, until};
use crate::shards::witness::Ticks;
use crate::verdict::{Case, Fault};
use crate::wire::Wire;
use crate::witness::{Roster, moment, read};
use crate::{FREEZE_MS, LEASE_MS, NAMES, PROMISED_MS, alone, aloud, pulse, times};

/// One of each placement. The sharded ones have one shard.
const ROSTERS: [Roster; 3] = [
    Roster { prefix: "held-", jobs: 10, placement: "claimed", slow: ("brief", 3) },
    Roster { prefix: "sent-", jobs: 10, placement: "dispatched", slow: ("brief", 3) },
    Roster { prefix: "dealt-", jobs: 4, placement: "sharded", slow: ("brief", 3) },
];
/// How often dispatched jobs are planned, in seconds.
const BEAT_S: i64 = 3;
/// The node whose wire to the engine is cut.
const WIRED: usize = 2;
/// The lease on an engine of three members. While they elect a leader nobody can renew, and a node that could not for as long as a
/// short lease ends its runs, though its lease goes on.
const QUORUM_LEASE_MS: i64 = 8_000;
/// How long a member is missed: longer than that.
const MISSED_MS: i64 = 10_500;
/// How long everybody is left in peace between two faults.
const PEACE_MS: i64 = 2_000;
/// After so long whatever was late has been made up for, or never will be: the engine itself may have to come up again and
/// mend its files, every lease may have ended meanwhile, and then everybody joins and claims anew.
const PATIENCE_MS: i64 = 30_000;

/// All that the nodes can be put on.
const ENGINES: [&str; 5] = ["redis", "postgres", "mysql", "etcd", "zookeeper"];

#[test]
fn etcd_keeps_the_books() {
    trial("etcd", Cluster::suffer);
}

#[test]
fn zookeeper_keeps_the_books() {
    trial("zookeeper", Cluster::suffer);
}

#[test]
fn redis_keeps_the_books() {
    trial("redis", Cluster::suffer);
}

#[test]
fn mysql_keeps_the_books() {
    trial("mysql", Cluster::suffer);
}

#[test]
fn postgres_keeps_the_books() {
    trial("postgres", Cluster::suffer);
}

/// As when an operator brings a new version to all nodes: no fault, so nothing excuses a fire that is lost or doubled, nor one
/// as late as when a node dies, whose lease must end first.
#[test]
fn every_node_is_restarted_in_turn_and_nobody_notices() {
    for engine in ENGINES {
        let Some(latest) = trial(engine, Cluster::roll) else { continue };
        assert!(latest < LEASE_MS, "{engine}: a fire started {latest} ms late");
    }
}

/// Each member of an etcd dies once, so each node loses the one that it talks to and goes on with the others. Nobody's lease
/// ends, so nothing is excused.
#[test]
fn the_death_of_any_member_of_an_etcd_quorum_is_survived() {
    trial("etcd-quorum", Cluster::lose_members);
}

/// The same for a ZooKeeper.
#[test]
fn the_death_of_any_member_of_a_zookeeper_quorum_is_survived() {
    trial("zookeeper-quorum", Cluster::lose_members);
}

/// What is done to a cluster; what of that excuses a fire that is lost.
type Play = fn(&mut Cluster, &Path) -> Vec<Fault>;

/// Says how late the latest fire started, in milliseconds, but for what the machine stood still; `None` when it was skipped.
fn trial(engine: &'static str, play: Play) -> Option<i64> {
    let _machine = alone();
    let Ok(url) = std::env::var(format!("EVENKEEL_TEST_{}", engine.to_uppercase().replace('-', "_"))) else {
        let flag = if engine.ends_with("quorum") { " --quorum" } else { "" };
        let required = std::env::var("REQUIRE").as_deref() == Ok("all") && flag.is_empty();
        assert!(!required, "{engine} is required and does not run");
        aloud(&format!(
            "chaos: SKIPPED the trial on {engine}: bring it up with `cargo xtask engines up{flag}`"
        ));
        return None;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("witness.log");
    let _ticks = Ticks::begin(&log);
    let namespace = format!("chaos-{}-{}", std::process::id(), wall());
    let mut cluster = Cluster::start(folder.path(), engine, &format!("{url}/{namespace}"));
    cluster.apply(&log);
    let begun = wall();
    settle(2_000);
    cluster.wait_until_prompt(&log);
    let faults = play(&mut cluster, &log);
    let ended = wall();
    let mut check = || {
        cluster.hear_history();
        let judged = |roster| {
            Case::gather(roster, read_of(&log, roster), cluster.verdicts.values(), begun, ended, &faults)
                .judge()
        };
        ROSTERS.iter().flat_map(judged).collect::<Vec<_>>()
    };
    let mut complaints = check();
    let patience = millis() + 60_000;
    while !complaints.is_empty() && millis() < patience {
        settle(1_000);
        complaints = check();
    }
    let slowest = faults.iter().map(|fault| fault.takeover).max().unwrap_or(0);
    let lines = read(&log);
    let (measured, _) = lateness::judge(&lines, &[], (begun, ended), |_, _| 0);
    aloud(&format!(
        "chaos on {engine}: {} faults, {} s, {} witness lines, {} verdicts, slowest takeover {slowest} ms, \
         latest start {} ms",
        faults.len(),
        (ended - begun) / 1_000,
        lines.len(),
        cluster.verdicts.len(),
        measured.in_peace
    ));
    assert!(
        complaints.is_empty(),
        "{} complaints:\n{}\n{}",
        complaints.len(),
        complaints.join("\n"),
        complaints.iter().take(5).map(|what| cluster.told_of(what)).collect::<String>()
    );
    let latest = measured.in_peace - pulse::slack(begun, ended);
    assert!(latest < late_max(engine), "{engine}: a fire started {latest} ms late");
    Some(latest)
}

/// No fire, of whichever placement, starts later than a takeover and a beat take, and what the engine needs on top: ZooKeeper two ticks, an
/// etcd that was started again the term of each lease, a server that is polled its poll.
fn late_max(engine: &str) -> i64 {
    let more = match engine {
        "zookeeper" | "zookeeper-quorum" => 500,
        "etcd" | "etcd-quorum" => LEASE_MS,
        _ => 100,
    };
    PROMISED_MS + 1_000 * BEAT_S + more
}

fn read_of(log: &Path, roster: &Roster) -> Vec<crate::witness::Line> {
    let mut lines = read(log);
    lines.retain(|line| line.job.starts_with(roster.prefix));
    lines
}

/// Three nodes on one engine, one of them behind a wire.
struct Cluster {
    folder: PathBuf,
    engine: &'static str,
    url: String,
    wire: Wire,
    nodes: Vec<Node>,
    /// What the histories say of fires that did not run to their end.
    verdicts: Verdicts,
}

impl Cluster {
    fn start(folder: &Path, engine: &'static str, url: &str) -> Self {
        let wire = Wire::new();
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
            verdicts: Verdicts::new(),
        };
        for node in 0..NAMES.len() {
            let served = cluster.serve(node);
            cluster.nodes.push(served);
        }
        cluster.wait_for_all();
        cluster
    }

    fn serve(&self, node: usize) -> Node {
        let url = self.url_for(node);
        let ttl = if authority(&url).contains(',') { QUORUM_LEASE_MS } else { LEASE_MS };
        let ttl = format!("{}s", ttl / 1_000);
        Node::serve(&self.folder, NAMES[node], &["--registry", &url, "--ttl", &ttl, "--slots", "100"])
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

    fn apply(&self, log: &Path) {
        let file: String = ROSTERS.iter().map(|roster| roster.file(log)).collect();
        self.nodes[0].ok(&["cluster", "settings", "--beat", &BEAT_S.to_string()]);
        let applied = self.nodes[0].fed(&["job", "apply", "-f", "-"], &file);
        assert!(applied.status.success(), "{}", process::text(&applied.stderr));
    }

    fn wait_for_all(&self) {
        until("every node is a member and says so", || {
            let members = |node: &Node| node.json(&["node", "list"]).as_array().map(Vec::len);
            self.nodes.iter().all(|node| members(node) == Some(NAMES.len())).then_some(())
        });
    }

    fn wait_until_prompt(&self, log: &Path) {
        for roster in &ROSTERS {
            if let Err(late) = prompt_within(PATIENCE_MS, log, roster) {
                self.tell();
                panic!("{}: after {PATIENCE_MS} ms still late: {late:?}", self.engine);
            }
        }
    }

    /// Says what each node thinks, for whoever looks for the cause.
    fn tell(&self) {
        for node in &self.nodes {
            for asked in [["node", "list"], ["job", "list"], ["event", "list"]] {
                println!("{asked:?} at {}: {}", node.address, node.json(&asked));
            }
        }
    }

    /// A node is killed, one is frozen, one is cut off in two ways, the engine is killed.
    fn suffer(&mut self, log: &Path) -> Vec<Fault> {
        let mut faults = Vec::new();
        for _ in 0..times(1) {
            for fault in [Self::kill, Self::freeze, Self::cut, Self::silence, Self::restart_engine] {
                let found = fault(self);
                self.wait_until_prompt(log);
                println!("{}: {found:?}", self.engine);
                faults.extend(found);
                settle(PEACE_MS);
                self.hear_history();
            }
        }
        faults
    }

    /// Each node in turn is asked to leave and started again when it has.
    fn roll(&mut self, log: &Path) -> Vec<Fault> {
        for _ in 0..times(1) {
            for (node, name) in NAMES.iter().enumerate() {
                self.hear_history();
                let leaving = self.nodes.remove(node);
                leaving.signal("TERM");
                assert_eq!(leaving.end(), 0, "{name} leaves without a complaint");
                let back = self.serve(node);
                self.nodes.insert(node, back);
                self.wait_for_all();
                self.wait_until_prompt(log);
                settle(PEACE_MS);
            }
        }
        Vec::new()
    }

    /// Each member of the engine in turn is killed, missed for longer than a lease lasts, and started again.
    fn lose_members(&mut self, log: &Path) -> Vec<Fault> {
        let lives = self.lives();
        for _ in 0..times(1) {
            for member in 0..3 {
                let status = engines(&["status", self.engine]);
                let pids: Vec<_> = status.split_whitespace().skip(2).collect();
                assert_eq!(pids.len(), 3, "all members live: {status}");
                let killed = Command::new("kill").args(["-KILL", pids[member]]).status();
                assert!(killed.expect("kill runs").success());
                settle(MISSED_MS);
                self.wait_until_prompt(log);
                assert_eq!(self.lives(), lives, "no node's lease ends");
                engines(&["up", self.engine]);
                settle(PEACE_MS);
                self.hear_history();
            }
        }
        Vec::new()
    }

    /// What the histories tell of the fire that a complaint is about, and of those around it.
    fn told_of(&self, complaint: &str) -> String {
        let Some((job, rest)) = complaint.split_once(" due ") else { return String::new() };
        let due: i64 = rest.split(':').next().and_then(|due| due.parse().ok()).unwrap_or(0);
        let rows = self.nodes[0].json(&["run", "list", "--job", job, "--limit", "1000000"]);
        let is_near = |row: &&Value| {
            let moment = moment(row["due"].as_str().expect("a due time")).expect("a time");
            (moment - due).abs() <= 2_000
        };
        let near = rows.as_array().expect("a list").iter().filter(is_near);
        near.map(|row| format!("{row}\n")).collect()
    }

    /// When each node joined, by its own history: another life has another moment.
    fn lives(&self) -> Vec<String> {
        let joined = |(node, name): (&Node, &str)| {
            let all = node.json(&["node", "list"]);
            let own = all.as_array().expect("a list").iter().find(|row| row["name"] == name);
            own.and_then(|row| row["joined"].as_str()).expect("a node knows when it joined").to_owned()
        };
        self.nodes.iter().zip(NAMES).map(joined).collect()
    }

    fn kill(&mut self) -> Vec<Fault> {
        self.nodes[0].signal("KILL");
        let fault = self.watch_takeover(0, "killed");
        self.nodes[0] = self.serve(0);
        self.wait_for_all();
        vec![fault]
    }

    fn freeze(&mut self) -> Vec<Fault> {
        let begun = millis();
        self.nodes[1].signal("STOP");
        let fault = self.watch_takeover(1, "frozen");
        settle(FREEZE_MS - (millis() - begun));
        self.nodes[1].signal("CONT");
        self.wait_for_all();
        vec![fault]
    }

    /// Its connections end, and new ones at once.
    fn cut(&mut self) -> Vec<Fault> {
        let begun = millis();
        self.wire.cut();
        self.mend("cut off", begun)
    }

    /// Its connections stay, and nothing passes; what it sent meanwhile arrives late.
    fn silence(&mut self) -> Vec<Fault> {
        let begun = millis();
        self.wire.silence();
        self.mend("silenced", begun)
    }

    /// Waits until the node behind the wire was missed, and lets it come back.
    fn mend(&mut self, how: &'static str, begun: i64) -> Vec<Fault> {
        let fault = self.watch_takeover(WIRED, how);
        settle(FREEZE_MS - (millis() - begun));
        self.wire.lead_to(authority(&self.url).parse().expect("the engine's address"));
        self.wait_for_all();
        vec![fault]
    }

    /// The engine is killed and started again. Whoever could not renew in time ended its runs and said so.
    fn restart_engine(&mut self) -> Vec<Fault> {
        let at = wall();
        engines(&["restart", self.engine]);
        self.wait_for_all();
        NAMES.map(|node| Fault { node, how: "engine killed", at, takeover: 0, recut: 0 }).into()
    }

    /// Waits until nobody believes that the victim holds a job.
    fn watch_takeover(&self, victim: usize, how: &'static str) -> Fault {
        let (at, begun) = (wall(), millis());
        let other = &self.nodes[(victim + 1) % NAMES.len()];
        until("its jobs are taken over", || {
            let jobs = other.json(&["job", "list"]);
            let held = jobs.as_array().expect("a list").iter().any(|job| job["owner"] == NAMES[victim]);
            (!held).then_some(())
        });
        let takeover = millis() - begun;
        let fault = Fault { node: NAMES[victim], how, at, takeover, recut: takeover };
        assert!(fault.in_time(takeover, PROMISED_MS), "taken over too late: {fault:?}");
        fault
    }

    /// Remembers what the histories say at this moment: on an engine each node has its own.
    fn hear_history(&mut self) {
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
