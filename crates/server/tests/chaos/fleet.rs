//! Three nodes on one registry, what is done to them, and what the registry and the history say meanwhile.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use evenkeel::AttemptState;
use evenkeel_core::record::{Assignment, ShardRunState, Sharding, decode};
use rusqlite::{Connection, OptionalExtension};
use serde_json::Value;

use crate::evidence::{FaultAction, LostLease, NodeFault};
use crate::process::{self, ServerProcess, millis, until};
use crate::witness::moment;
use crate::{FREEZE_MS, LEASE_MS, NAMES, shards::witness as sharded};

/// In what states history has what did not run to its end.
pub(crate) const STATES: [&str; 3] = ["lost", "skipped", "fenced"];

/// Rows of history by run and attempt.
pub(crate) type RunHistory = BTreeMap<(String, u64), Value>;

/// Three nodes on one registry.
pub(crate) struct ChaosFleet<'a> {
    folder: &'a Path,
    nodes: Vec<ServerProcess>,
    /// What history says of fires that did not run to their end, by run and attempt.
    pub(crate) verdicts: RunHistory,
}

impl<'a> ChaosFleet<'a> {
    pub(crate) fn start(folder: &'a Path) -> Self {
        let nodes = NAMES.iter().map(|name| serve(folder, name)).collect();
        let fleet = Self { folder, nodes, verdicts: BTreeMap::new() };
        fleet.wait_for_all();
        keep_verdicts(folder);
        fleet
    }

    pub(crate) fn apply(&self, file: &str) {
        let applied = self.nodes[0].fed(&["job", "apply", "-f", "-"], file);
        assert!(applied.status.success(), "{}", process::text(&applied.stderr));
    }

    fn wait_for_all(&self) {
        until("every node is a member and says so", || {
            let members = |node: &ServerProcess| node.json(&["node", "list"]).as_array().map(Vec::len);
            self.nodes.iter().all(|node| members(node) == Some(NAMES.len())).then_some(())
        });
    }

    pub(crate) fn kill(&mut self, victim: usize) -> NodeFault {
        let (at, lease) = (wall(), self.lease_end(victim));
        self.nodes[victim].signal("KILL");
        let fault = self.watch_takeover(victim, (FaultAction::Killed, at), lease);
        self.nodes[victim] = serve(self.folder, NAMES[victim]);
        self.wait_for_all();
        fault
    }

    pub(crate) fn freeze(&mut self, victim: usize) -> NodeFault {
        let at = wall();
        stop_at_rest(self.folder, &self.nodes[victim]);
        let (begun, lease) = (millis(), self.lease_end(victim));
        let fault = self.watch_takeover(victim, (FaultAction::Frozen, at), lease);
        settle(FREEZE_MS - (millis() - begun));
        self.nodes[victim].signal("CONT");
        until("the frozen node records that its lease was lost", || {
            let recorded = |lost: &LostLease| lost.node == NAMES[victim] && lost.at >= at;
            self.lost_leases().iter().any(recorded).then_some(())
        });
        self.wait_for_all();
        fault
    }

    /// Waits until nobody believes that the victim holds a job, and until its shards are others'.
    fn watch_takeover(&self, victim: usize, (how, at): (FaultAction, i64), lease: i64) -> NodeFault {
        let (done, begun) = (wall(), millis());
        let other = &self.nodes[(victim + 1) % NAMES.len()];
        until("its jobs are taken over", || {
            let jobs = other.json(&["job", "list"]);
            let held = jobs.as_array().expect("a list").iter().any(|job| job["owner"] == NAMES[victim]);
            (!held).then_some(())
        });
        let (takeover, after_lease) = (millis() - begun, Some(millis() - lease));
        until("its shards are cut anew", || self.has_no_assignment(victim).then_some(()));
        NodeFault { node: NAMES[victim], how, at, done, takeover, reshard: millis() - begun, after_lease }
    }

    /// When the lease of a node ends unless it is renewed, by the clock of [`millis`].
    fn lease_end(&self, node: usize) -> i64 {
        let ends = "SELECT max(ends) FROM lease JOIN entry ON owner = id WHERE key GLOB ?1";
        let key = format!("node/{}@*", NAMES[node]);
        self.registry_lines().query_row(ends, [key], |row| row.get(0)).expect("a member has a lease")
    }

    /// The leases that nodes recorded as lost.
    pub(crate) fn lost_leases(&self) -> Vec<LostLease> {
        LostLease::read(&self.nodes[0].json(&LOST_LEASES))
    }

    /// Drains a node until it has nothing left, and lets it come back.
    pub(crate) fn drain_for_a_while(&self, node: usize) {
        self.wait_for_assignments();
        let begun = millis();
        self.nodes[0].ok(&["node", "drain", NAMES[node]]);
        until("a drained node has no shares", || self.has_no_assignment(node).then_some(()));
        let drained = millis() - begun;
        self.nodes[0].ok(&["node", "undrain", NAMES[node]]);
        self.wait_for_assignments();
        println!("        {} drained after {drained} ms, back after {}", NAMES[node], millis() - begun);
    }

    /// Waits until the shares of every sharded job are cut for all nodes.
    pub(crate) fn wait_for_assignments(&self) {
        until("shares are cut for all nodes", || {
            let books = self.registry_lines();
            let cut = |job| {
                let names =
                    sharding(&books, &sharded::name(job)).filter(|table| table.reshard_pending.is_none());
                names.is_some_and(|table| table.shard_map.among.iter().map(|m| m.node.as_str()).eq(NAMES))
            };
            (0..sharded::JOBS.len()).all(cut).then_some(())
        });
    }

    /// Waits until a job is cut into so many shards.
    pub(crate) fn wait_for_total(&self, job: &str, total: u32) {
        until("the job is cut into its new number of shards", || {
            let table = sharding(&self.registry_lines(), job)?;
            (table.shard_map.total == total && table.reshard_pending.is_none()).then_some(())
        });
    }

    /// Up to which fire all shards of a job have surely begun, and which fire is claimed last.
    ///
    /// What is claimed and has not started may still be withdrawn, and claimed again.
    pub(crate) fn claimed(&self, job: &str) -> (i64, i64) {
        let mut books = self.registry_lines();
        let one = books.transaction().expect("a transaction");
        let table = sharding(&one, job).expect("a sharded job has a table");
        let run_state = |member| entry(&one, &format!("run/{job}/{member}"));
        let run_states = table.run_states.iter().map(|member| (member, run_state(member)));
        let (mut marks, mut backs) = (Vec::new(), Vec::new());
        for (member, run_state) in run_states {
            let run_state: Option<ShardRunState> = run_state;
            backs.extend(run_state.iter().flat_map(|run_state| &run_state.open).map(|open| open.back.0));
            let groups = table.run_state_of(member, run_state.as_ref()).groups;
            marks.extend(groups.iter().map(|group| group.watermark.0));
        }
        let newest = marks.iter().copied().max().expect("a job has shards");
        (marks.into_iter().chain(backs).min().unwrap_or(newest), newest)
    }

    fn has_no_assignment(&self, node: usize) -> bool {
        let books = self.registry_lines();
        (0..sharded::JOBS.len()).all(|job| {
            let table = sharding(&books, &sharded::name(job));
            table.is_some_and(|t| {
                t.shard_map.assignments.iter().all(|p| p.holder.node.as_str() != NAMES[node])
            })
        })
    }

    fn registry_lines(&self) -> Connection {
        books(self.folder)
    }

    /// What the history has about the fire of a complaint, and about those around it.
    pub(crate) fn rows_around(&self, complaint: &str) -> String {
        rows_around(&self.nodes[0], complaint)
    }

    /// Remembers what history says at this moment.
    pub(crate) fn collect_history(&mut self) {
        for state in STATES {
            let rows = self.nodes[0].json(&["run", "list", "--state", state, "--limit", "1000000"]);
            remember(&mut self.verdicts, &rows);
        }
    }
}

/// What a client asks for the leases that nodes recorded as lost.
pub(crate) const LOST_LEASES: [&str; 6] = ["event", "list", "--kind", "lease_lost", "--limit", "100000"];

/// The term of a lease as an argument.
pub(crate) fn ttl(ms: i64) -> String {
    format!("{}s", ms / 1_000)
}

/// Lets the history that the nodes share forget no attempt that was lost, fenced or skipped. It keeps a thousand attempts of a
/// job, and that is what a job of 50 shards makes in 20 s.
pub(crate) fn keep_verdicts(folder: &Path) {
    let history = Connection::open(folder.join("registry.db-history")).expect("the file opens");
    history.busy_timeout(Duration::from_secs(60)).expect("a timeout");
    let states = [AttemptState::Lost, AttemptState::Skipped, AttemptState::Fenced].map(|state| {
        let number = AttemptState::ALL.iter().position(|other| *other == state);
        number.expect("a state has a number").to_string()
    });
    let trigger = format!(
        "CREATE TRIGGER verdicts_stay BEFORE DELETE ON attempt WHEN OLD.state IN ({})
         BEGIN SELECT RAISE(IGNORE); END",
        states.join(", ")
    );
    history.execute_batch(&trigger).expect("the history's file takes a trigger");
}

/// The rows of history about the fire of a complaint, and about those within two seconds of it.
pub(crate) fn rows_around(node: &ServerProcess, complaint: &str) -> String {
    let words: Vec<&str> = complaint.split([' ', ':']).collect();
    let word_after = |name| words.iter().position(|word| *word == name).and_then(|at| words.get(at + 1));
    let Some(due) = word_after("due").and_then(|due| due.parse::<i64>().ok()) else { return String::new() };
    let shard = word_after("shard").and_then(|shard| shard.parse::<u64>().ok());
    let rows = node.json(&["run", "list", "--job", words[0], "--limit", "1000000"]);
    let is_near = |row: &&Value| {
        let near = moment(row["due"].as_str().expect("a due time")).expect("a time");
        (near - due).abs() <= 2_000 && shard.is_none_or(|shard| row["shard"] == shard)
    };
    rows.as_array().expect("a list").iter().filter(is_near).map(|row| format!("{row}\n")).collect()
}

/// Adds rows of history to those that are known.
pub(crate) fn remember(verdicts: &mut RunHistory, rows: &Value) {
    for row in rows.as_array().expect("a list") {
        let key = (row["run"].to_string(), row["attempt"].as_u64().unwrap_or(0));
        verdicts.insert(key, row.clone());
    }
}

/// Stops a node between two of its transactions. SQLite's lock is the process's: one that is stopped inside a write
/// transaction keeps everybody waiting until it goes on, which is another story (docs/concepts/registry.md).
pub(crate) fn stop_at_rest(folder: &Path, node: &ServerProcess) {
    let files = ["registry.db", "registry.db-history"].map(|name| {
        let file = Connection::open(folder.join(name)).expect("the file opens");
        // Others write too, but none of them for so long.
        file.busy_timeout(Duration::from_millis(500)).expect("a timeout");
        file
    });
    until("the node is stopped while it writes nothing", || {
        node.signal("STOP");
        if files.iter().any(|file| file.execute_batch("BEGIN IMMEDIATE; ROLLBACK").is_err()) {
            node.signal("CONT");
            return None;
        }
        Some(())
    });
}

/// The registry's file, to look into.
pub(crate) fn books(folder: &Path) -> Connection {
    let books = Connection::open(folder.join("registry.db")).expect("the file opens");
    books.busy_timeout(Duration::from_secs(5)).expect("a timeout");
    books
}

/// One entry of the registry.
pub(crate) fn entry<T: serde::de::DeserializeOwned>(books: &Connection, key: &str) -> Option<T> {
    let read = books.query_row("SELECT value FROM entry WHERE key = ?1", [key], |row| row.get(0));
    let value: Option<Vec<u8>> = read.optional().expect("the file is read");
    decode(&value?)
}

fn sharding(books: &Connection, job: &str) -> Option<Sharding> {
    entry::<Assignment>(books, &format!("job/{job}/assignment"))?.sharding.map(|table| *table)
}

fn serve(folder: &Path, name: &str) -> ServerProcess {
    ServerProcess::serve(folder, name, &["--ttl", &ttl(LEASE_MS), "--slots", "400"])
}

pub(crate) fn wall() -> i64 {
    evenkeel::clock::now().wall.0
}

/// Lets real time pass: the faults of this test are about time.
pub(crate) fn settle(ms: i64) {
    std::thread::sleep(Duration::from_millis(u64::try_from(ms).unwrap_or(0)));
}
