//! Three nodes on each real engine: jobs of all placements run each second while a node is killed, one is frozen past its
//! lease, one is cut off from the engine, and the engine itself is killed and started again.
//!
//! `cargo xtask engines up` brings the engines; where one is absent its trial is skipped, unless `REQUIRE=all`.

use std::path::Path;
use std::process::Command;

use crate::fleet::{STATES, Verdicts, remember, settle, wall};
use crate::peers::lateness::prompt_within;
use crate::process::{self, Node, millis, until};
use crate::shards::witness::Ticks;
use crate::verdict::{Case, Fault};
use crate::wire::Wire;
use crate::witness::{Roster, read};
use crate::{FREEZE_MS, NAMES, PROMISED_MS, alone, aloud, rounds};

/// One of each placement. The sharded ones have one shard.
const ROSTERS: [Roster; 3] = [
    Roster { prefix: "held-", jobs: 10, placement: "claimed", slow: ("brief", 3) },
    Roster { prefix: "sent-", jobs: 10, placement: "dispatched", slow: ("brief", 3) },
    Roster { prefix: "dealt-", jobs: 4, placement: "sharded", slow: ("brief", 3) },
];
/// The node whose wire to the engine is cut.
const WIRED: usize = 2;
/// How long everybody is left in peace between two faults.
const PEACE_MS: i64 = 2_000;
/// After so long whatever was late has been made up for, or never will be: the engine itself may have to come up again and
/// mend its files, every lease may have ended meanwhile, and then everybody joins and claims anew.
const PATIENCE_MS: i64 = 30_000;

#[test]
fn etcd_keeps_the_books() {
    trial("etcd");
}

#[test]
fn zookeeper_keeps_the_books() {
    trial("zookeeper");
}

#[test]
fn redis_keeps_the_books() {
    trial("redis");
}

#[test]
fn mysql_keeps_the_books() {
    trial("mysql");
}

#[test]
fn postgres_keeps_the_books() {
    trial("postgres");
}

fn trial(engine: &'static str) {
    let _machine = alone();
    let Ok(url) = std::env::var(format!("EVENKEEL_TEST_{}", engine.to_uppercase())) else {
        assert!(std::env::var("REQUIRE").as_deref() != Ok("all"), "{engine} is required and does not run");
        return aloud(&format!(
            "chaos: SKIPPED the trial on {engine}: bring it up with `cargo xtask engines up`"
        ));
    };
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("witness.log");
    let _ticks = Ticks::begin(&log);
    let mut cluster = Cluster::start(folder.path(), engine, &format!("{url}/chaos-{}", std::process::id()));
    cluster.apply(&log);
    let begun = wall();
    settle(2_000);
    cluster.wait_until_prompt(&log);
    let mut faults = Vec::new();
    for _ in 0..(rounds() / 10).max(1) {
        for fault in [Cluster::kill, Cluster::freeze, Cluster::cut, Cluster::restart_engine] {
            let found = fault(&mut cluster);
            cluster.wait_until_prompt(&log);
            println!("{engine}: {found:?}");
            faults.extend(found);
            settle(PEACE_MS);
            cluster.hear_history();
        }
    }
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
    let lines = read(&log).len();
    aloud(&format!(
        "chaos on {engine}: {} faults, {} s, {lines} witness lines, {} verdicts, slowest takeover {slowest} ms",
        faults.len(),
        (ended - begun) / 1_000,
        cluster.verdicts.len()
    ));
    assert!(complaints.is_empty(), "{} complaints:\n{}", complaints.len(), complaints.join("\n"));
}

fn read_of(log: &Path, roster: &Roster) -> Vec<crate::witness::Line> {
    let mut lines = read(log);
    lines.retain(|line| line.job.starts_with(roster.prefix));
    lines
}

/// Three nodes on one engine, one of them behind a wire.
struct Cluster<'a> {
    folder: &'a Path,
    engine: &'static str,
    url: String,
    wire: Wire,
    nodes: Vec<Node>,
    /// What the histories say of fires that did not run to their end.
    verdicts: Verdicts,
}

impl<'a> Cluster<'a> {
    fn start(folder: &'a Path, engine: &'static str, url: &str) -> Self {
        let wire = Wire::new();
        wire.lead_to(authority(url).parse().expect("the engine's address"));
        let mut cluster =
            Self { folder, engine, url: url.to_owned(), wire, nodes: Vec::new(), verdicts: Verdicts::new() };
        for node in 0..NAMES.len() {
            let served = cluster.serve(node);
            cluster.nodes.push(served);
        }
        cluster.wait_for_all();
        cluster
    }

    fn serve(&self, node: usize) -> Node {
        let wire = self.wire.address.to_string();
        let url =
            if node == WIRED { self.url.replacen(authority(&self.url), &wire, 1) } else { self.url.clone() };
        Node::serve(self.folder, NAMES[node], &["--registry", &url, "--ttl", "4s", "--slots", "100"])
    }

    fn apply(&self, log: &Path) {
        let file: String = ROSTERS.iter().map(|roster| roster.file(log)).collect();
        self.nodes[0].ok(&["cluster", "settings", "--beat", "3"]);
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

    fn cut(&mut self) -> Vec<Fault> {
        let begun = millis();
        self.wire.cut();
        let fault = self.watch_takeover(WIRED, "cut off");
        settle(FREEZE_MS - (millis() - begun));
        self.wire.lead_to(authority(&self.url).parse().expect("the engine's address"));
        self.wait_for_all();
        vec![fault]
    }

    /// The engine is killed and started again. Whoever could not renew in time ended its runs and said so.
    fn restart_engine(&mut self) -> Vec<Fault> {
        let at = wall();
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
        let done = Command::new(cargo).args(["xtask", "engines", "restart", self.engine]).output();
        let done = done.expect("cargo starts");
        assert!(done.status.success(), "{}", process::text(&done.stderr));
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

/// The address in a URL with one host.
fn authority(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let hosts = rest.split('/').next().unwrap_or(rest);
    hosts.rsplit('@').next().unwrap_or(hosts)
}
