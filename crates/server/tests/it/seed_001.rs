//! Section 5 of the claims' source, played by three real processes: quota and held jobs at each of its sixteen steps, with
//! tolerance 1 and first come, first served. Where the source leaves open who wins a job, the node of the source's own table
//! wins it: the job names that node until it is claimed.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;

use tempfile::TempDir;

use crate::process::{SHORT_LEASE, ServerProcess, until};

/// Nodes that share a registry, and how many jobs there are.
struct SeedCluster {
    folder: TempDir,
    nodes: BTreeMap<&'static str, ServerProcess>,
    jobs: usize,
}

impl SeedCluster {
    /// A alone, with the threshold of the source.
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut cluster = Self { folder, nodes: BTreeMap::new(), jobs: 0 };
        cluster.start("a", "10");
        let set = cluster.a().json(&["cluster", "settings", "--spread", "first_come"]);
        assert_eq!(set[0]["spread"], "first_come", "{set}");
        cluster
    }

    fn start(&mut self, name: &'static str, alarm: &str) {
        let more = [&["--alarm", alarm][..], &SHORT_LEASE].concat();
        let node = ServerProcess::serve(self.folder.path(), name, &more);
        self.nodes.insert(name, node);
        let all = self.nodes.len();
        until("it is a member", || (self.a().living().len() == all).then_some(()));
    }

    fn a(&self) -> &ServerProcess {
        &self.nodes["a"]
    }

    /// Adds jobs that a node wins. Their runs last until `go` is there.
    fn jobs(&mut self, count: usize, winner: &str) {
        let names: Vec<String> = (self.jobs..self.jobs + count).map(|n| format!("j{n:02}")).collect();
        self.jobs += count;
        let file = |nodes: &str| {
            let go = self.folder.path().join("go").display().to_string();
            names.iter().fold(String::new(), |mut file, name| {
                let _ = writeln!(
                    file,
                    "[[job]]\nname = \"{name}\"\n{nodes}shell = true\n\
                     command = \"while [ ! -e {go} ]; do sleep 0.1; done\""
                );
                file
            })
        };
        for nodes in [format!("node_selector = [\"name={winner}\"]\n"), String::new()] {
            let applied = self.a().fed(&["job", "apply", "-f", "-"], &file(&nodes));
            assert!(applied.status.success(), "{applied:?}");
            until("the winner has them", || {
                names.iter().all(|name| self.held_by(winner).contains(name)).then_some(())
            });
        }
    }

    fn held_by(&self, node: &str) -> Vec<String> {
        let jobs = self.a().json(&["job", "list"]);
        let mine = jobs.as_array().into_iter().flatten().filter(|job| job["owner"] == node);
        mine.filter_map(|job| Some(job["name"].as_str()?.to_owned())).collect()
    }

    /// Starts runs of so many jobs of a node, which keep it from releasing them.
    fn run(&self, node: &str, count: usize) {
        let names = self.held_by(node);
        for name in &names[..count] {
            self.a().ok(&["job", "run", name]);
        }
        until("they run", || {
            let runs = self.a().json(&["run", "list", "--state", "running"]);
            let mine = runs.as_array()?.iter().filter(|run| run["node"] == node).count();
            (mine == count).then_some(())
        });
    }

    fn drain(&self, node: &str) {
        self.a().ok(&["node", "drain", node, "--force"]);
    }

    fn undrain(&self, node: &str) {
        self.a().ok(&["node", "undrain", node]);
    }

    /// What each living node holds, and how many jobs it may hold.
    fn node_table(&self) -> BTreeMap<String, (u64, u64)> {
        let row = |node: serde_json::Value| {
            let number = |key: &str| node[key].as_u64().unwrap_or_default();
            (node["name"].as_str().unwrap_or_default().to_owned(), (number("held"), number("quota")))
        };
        self.a().living().into_iter().map(row).collect()
    }

    /// Waits until that is so.
    fn shows(&self, step: &str, wanted: &[(&str, u64, u64)]) {
        let wanted = wanted.iter().map(|(name, held, quota)| ((*name).to_owned(), (*held, *quota))).collect();
        until(step, || (self.node_table() == wanted).then_some(()));
    }

    /// Waits until the jobs of a node that is gone are shared by A and C, whoever comes first, and until whoever is above its
    /// threshold by them has raised the alarm.
    fn shard_table(&self, step: &str, quota: u64, most: u64) {
        let (a, c) = until(step, || {
            let table = self.node_table();
            let (a, c) = (*table.get("a")?, *table.get("c")?);
            let is_shared = a.0 + c.0 == 19 && (a.1, c.1) == (quota, quota);
            assert!(a.0 <= most && c.0 <= most, "{table:?}");
            is_shared.then_some((a.0, c.0))
        });
        if a > 10 {
            self.alarms("a", 1);
        }
        if c > 4 {
            self.alarms("c", 1);
        }
    }

    /// Waits until a node has raised the alarm so often.
    fn alarms(&self, node: &str, least: usize) {
        until("the alarm is told", || {
            let events = self.a().json(&["event", "list", "--kind", "alarm"]);
            let told = events.as_array()?.iter().filter(|event| event["node"] == node).count();
            (told >= least).then_some(())
        });
    }
}

/// proves: S1-67, S1-68, S1-69, S1-70, S1-71, S1-72, S1-73, S1-74, S1-77, S1-78, S1-82
#[test]
fn two_nodes_and_a_third_hold_what_the_source_says() {
    let mut cluster = SeedCluster::new();
    cluster.jobs(9, "a");
    cluster.shows("S1-67", &[("a", 9, 10)]);
    cluster.jobs(1, "a");
    cluster.shows("S1-68", &[("a", 10, 11)]);
    cluster.jobs(1, "a");
    cluster.shows("S1-69", &[("a", 11, 12)]);
    cluster.alarms("a", 1);
    cluster.start("b", "8");
    cluster.shows("S1-70", &[("a", 11, 12), ("b", 0, 12)]);
    cluster.jobs(1, "b");
    cluster.shows("S1-71", &[("a", 11, 13), ("b", 1, 13)]);
    cluster.jobs(1, "a");
    cluster.shows("S1-72", &[("a", 12, 14), ("b", 1, 14)]);
    cluster.run("a", 7);
    cluster.drain("a");
    cluster.shows("S1-73, the jobs that do not run are released", &[("a", 7, 14), ("b", 6, 14)]);
    cluster.undrain("a");
    cluster.shows("S1-73", &[("a", 7, 14), ("b", 6, 14)]);
    cluster.jobs(3, "a");
    cluster.jobs(2, "b");
    cluster.shows("S1-74", &[("a", 10, 19), ("b", 8, 19)]);
    cluster.jobs(1, "b");
    cluster.shows("S1-77", &[("a", 10, 20), ("b", 9, 20)]);
    cluster.alarms("b", 1);
    cluster.start("c", "4");
    cluster.shows("S1-78", &[("a", 10, 10), ("b", 9, 10), ("c", 0, 10)]);
    cluster.jobs(1, "c");
    cluster.jobs(1, "a");
    cluster.shows("S1-82", &[("a", 11, 11), ("b", 9, 11), ("c", 1, 11)]);
    fs::write(cluster.folder.path().join("go"), "").expect("the runs may end");
}

/// proves: S1-75, S1-76
#[test]
fn one_of_two_nodes_takes_all_that_the_other_held() {
    for in_order in [true, false] {
        let mut cluster = SeedCluster::new();
        cluster.jobs(10, "a");
        cluster.start("b", "8");
        cluster.jobs(8, "b");
        cluster.shows("S1-74", &[("a", 10, 19), ("b", 8, 19)]);
        if !in_order {
            // The jobs are free before A hears that B is gone.
            cluster.drain("b");
            cluster.shows("S1-76, B is still there", &[("a", 18, 19), ("b", 0, 19)]);
        }
        drop(cluster.nodes.remove("b"));
        cluster.shows(if in_order { "S1-75" } else { "S1-76" }, &[("a", 18, 19)]);
        cluster.alarms("a", 1);
    }
}

/// proves: S1-79, S1-80, S1-81
#[test]
fn two_of_three_nodes_share_what_the_third_held() {
    for in_order in [true, false] {
        let mut cluster = SeedCluster::new();
        cluster.jobs(10, "a");
        cluster.start("b", "8");
        cluster.jobs(9, "b");
        cluster.start("c", "4");
        cluster.shows("S1-78", &[("a", 10, 10), ("b", 9, 10), ("c", 0, 10)]);
        cluster.run("a", 9);
        cluster.run("b", 7);
        cluster.drain("a");
        cluster.drain("b");
        cluster.shows("S1-79, released to C", &[("a", 9, 10), ("b", 7, 10), ("c", 3, 10)]);
        cluster.undrain("a");
        cluster.undrain("b");
        fs::write(cluster.folder.path().join("go"), "").expect("the runs may end");
        until("the runs have ended", || {
            (cluster.a().json(&["run", "running"])["running"] == 0).then_some(())
        });
        cluster.shows("S1-79", &[("a", 9, 10), ("b", 7, 10), ("c", 3, 10)]);
        if in_order {
            drop(cluster.nodes.remove("b"));
            cluster.shard_table("S1-80", 20, 19);
        } else {
            // With B still counted the quota is 10, and nobody holds more.
            cluster.drain("b");
            cluster.shard_table("S1-81", 10, 10);
        }
    }
}
