//! Nodes that die and freeze under load, and a witness that does not ask them what happened.
//!
//! Three nodes share one SQLite file and run 50 jobs each second, some for two leases. In each round one node is killed
//! or frozen for longer than its lease. The jobs themselves write down when they run; [`verdict`] compares that with
//! every second that was due. `EVENKEEL_CHAOS_ROUNDS` sets the rounds (10), half of them kills.

#[expect(dead_code, reason = "shared with the other tests, which use all of it")]
#[path = "../it/process.rs"]
mod process;
mod verdict;
mod witness;

use std::path::Path;

use process::{Node, millis, until};
use verdict::Fault;

/// The nodes' lease.
const LEASE_MS: i64 = 4_000;
/// How long a frozen node sleeps: well past its lease.
const FREEZE_MS: i64 = 6_500;
/// A takeover is promised within lease + 1 s; what a busy machine may add before we call it broken.
const SLACK_MS: i64 = 3_000;
const NAMES: [&str; 3] = ["n1", "n2", "n3"];

/// proves: S1-03, S1-75, S1-89, I14, I15, I16, I18, I19, I20, I21, I22
#[test]
fn nothing_is_lost_and_nothing_doubled() {
    let rounds = std::env::var("EVENKEEL_CHAOS_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(10);
    let folder = tempfile::tempdir().expect("a folder");
    let mut fleet = Fleet::start(folder.path());
    let log = folder.path().join("witness.log");
    fleet.apply(&witness::jobs(&log));
    let begun = wall();
    settle(3_000);
    let mut faults = Vec::new();
    for round in 0..rounds {
        let victim = round % NAMES.len();
        let fault = if round % 2 == 0 { fleet.kill(victim) } else { fleet.freeze(victim) };
        println!("round {round}: {fault:?}");
        assert!(fault.takeover <= LEASE_MS + 1_000 + SLACK_MS, "taken over too late: {fault:?}");
        faults.push(fault);
        settle(1_000);
    }
    let ended = wall();
    // The longest run and the fires that queued behind it are through by then, or they never will be.
    let check = || verdict::Case::gather(&log, &fleet.history(), begun, ended, &faults).judge();
    let mut complaints = check();
    let patience = millis() + 60_000;
    while !complaints.is_empty() && millis() < patience {
        settle(1_000);
        complaints = check();
    }
    assert!(complaints.is_empty(), "{} complaints:\n{}", complaints.len(), complaints.join("\n"));
    let slowest = faults.iter().map(|f| f.takeover).max().unwrap_or(0);
    let lines = std::fs::read_to_string(&log).map(|text| text.lines().count()).unwrap_or(0);
    println!(
        "{rounds} rounds, {} s, {lines} witness lines, slowest takeover {slowest} ms",
        (ended - begun) / 1000
    );
}

/// Three nodes on one registry.
struct Fleet<'a> {
    folder: &'a Path,
    nodes: Vec<Node>,
}

impl<'a> Fleet<'a> {
    fn start(folder: &'a Path) -> Self {
        let fleet = Self { folder, nodes: NAMES.iter().map(|name| serve(folder, name)).collect() };
        fleet.wait_for_all();
        fleet
    }

    fn apply(&self, file: &str) {
        let applied = self.nodes[0].fed(&["job", "apply", "-f", "-"], file);
        assert!(applied.status.success(), "{}", process::text(&applied.stderr));
    }

    fn wait_for_all(&self) {
        until("every node is a member and says so", || {
            let members = |node: &Node| node.json(&["node", "list"]).as_array().map(Vec::len);
            self.nodes.iter().all(|node| members(node) == Some(NAMES.len())).then_some(())
        });
    }

    fn kill(&mut self, victim: usize) -> Fault {
        self.nodes[victim].signal("KILL");
        let fault = self.watch_takeover(victim, "killed");
        self.nodes[victim] = serve(self.folder, NAMES[victim]);
        self.wait_for_all();
        fault
    }

    fn freeze(&mut self, victim: usize) -> Fault {
        self.stop_at_rest(victim);
        let begun = millis();
        let fault = self.watch_takeover(victim, "frozen");
        settle(FREEZE_MS - (millis() - begun));
        self.nodes[victim].signal("CONT");
        self.wait_for_all();
        fault
    }

    /// Stops a node between two of its transactions. SQLite's lock is the process's: one that is stopped inside a write
    /// transaction keeps everybody waiting until it goes on, which is another story (docs/concepts/registry.md).
    fn stop_at_rest(&self, victim: usize) {
        let books = rusqlite::Connection::open(self.folder.join("registry.db")).expect("the file opens");
        // Others write too, but none of them for so long.
        books.busy_timeout(std::time::Duration::from_millis(500)).expect("a timeout");
        until("the node is stopped while it writes nothing", || {
            self.nodes[victim].signal("STOP");
            if books.execute_batch("BEGIN IMMEDIATE; ROLLBACK").is_err() {
                self.nodes[victim].signal("CONT");
                return None;
            }
            Some(())
        });
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
        Fault { node: NAMES[victim], how, at, takeover: millis() - begun }
    }

    fn history(&self) -> serde_json::Value {
        self.nodes[0].json(&["run", "list", "--limit", "1000000"])
    }
}

fn serve(folder: &Path, name: &str) -> Node {
    Node::serve(folder, name, &["--ttl", "4s", "--slots", "200"])
}

fn wall() -> i64 {
    evenkeel::clock::now().wall.0
}

/// Lets real time pass: the faults of this test are about time.
fn settle(ms: i64) {
    std::thread::sleep(std::time::Duration::from_millis(u64::try_from(ms).unwrap_or(0)));
}
