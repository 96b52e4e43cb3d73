//! A registry that forgets: a Redis that comes back with less than it had answered, under nodes with jobs; a file in whose
//! place a copy was put.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::process::{ServerProcess, until, until_told};
use crate::redis::{RedisPersistence, RedisProcess};

const NODES: [&str; 2] = ["a", "b"];
/// How late a fire may start, in seconds: more than it takes all nodes to stop and start, so that there is something to see.
const GRACE: i64 = 9;
/// How long a lease lasts.
const LEASE_MS: i64 = 6_000;

/// Notes each start: what for, when by the calendar, and under which token.
const SCRIPT: &str =
    r#"printf '%s %s %s %s\n' "$EVENKEEL_JOB" "$EVENKEEL_DUE" "$(date +%s%3N)" "$EVENKEEL_FENCE" >> "$0""#;

/// One start.
#[derive(Clone, Debug)]
struct RunStart {
    job: String,
    due: i64,
    at: i64,
    token: u64,
}

fn starts(log: &Path) -> Vec<RunStart> {
    let text = fs::read_to_string(log).unwrap_or_default();
    let parse = |line: &str| {
        let [job, due, at, token] = line.split(' ').collect::<Vec<_>>().try_into().ok()?;
        let due = due.parse::<jiff::Timestamp>().ok()?.as_millisecond();
        Some(RunStart { job: job.to_owned(), due, at: at.parse().ok()?, token: token.parse().ok()? })
    };
    text.lines().map(|line| parse(line).unwrap_or_else(|| panic!("a broken line: {line}"))).collect()
}

fn wall() -> i64 {
    evenkeel::clock::now().wall.0
}

/// Two of each delivery, due each second.
fn jobs(log: &Path) -> String {
    let mut file = String::new();
    for (nth, delivery) in ["at_least_once", "at_most_once"].into_iter().cycle().take(4).enumerate() {
        let argv =
            ["/bin/sh", "-c", SCRIPT, &log.display().to_string()].map(|arg| format!("{arg:?}")).join(", ");
        let name = format!("{delivery}-{nth}").replace('_', "-");
        write!(
            file,
            "[[job]]\nname = {name:?}\nschedule = \"* * * * * ?\"\nmisfire_grace = \"{GRACE}s\"\ncatch_up = \"skip\"\n\
             delivery = {delivery:?}\ncommand = [{argv}]\n"
        )
        .expect("a text takes everything");
    }
    file
}

struct RewindCluster {
    folder: tempfile::TempDir,
    redis: RedisProcess,
    nodes: Vec<ServerProcess>,
}

impl RewindCluster {
    fn start(keeps: RedisPersistence, ttl: &str) -> Option<Self> {
        let (folder, redis) = (tempfile::tempdir().expect("a folder"), RedisProcess::start(keeps)?);
        let mut cluster = Self { folder, redis, nodes: Vec::new() };
        cluster.serve(ttl);
        let applied = cluster.nodes[0].fed(&["job", "apply", "-f", "-"], &jobs(&cluster.log()));
        assert!(applied.status.success());
        cluster.wait_until_all_run(wall());
        Some(cluster)
    }

    fn log(&self) -> std::path::PathBuf {
        self.folder.path().join("starts.log")
    }

    fn serve(&mut self, ttl: &str) {
        for name in NODES {
            let more = ["--registry", &self.redis.url(), "--ttl", ttl];
            let mut command = ServerProcess::command(self.folder.path(), name, &more);
            let said = fs::File::create(self.output_file(name)).expect("a file");
            self.nodes.push(ServerProcess::start(command.current_dir(self.folder.path()).stderr(said)));
        }
    }

    fn output_file(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(format!("{name}.said"))
    }

    /// Until each job has started a fire that was due after a moment.
    fn wait_until_all_run(&self, after: i64) {
        let log = self.log();
        let count = || {
            let mut newest = BTreeMap::<String, i64>::new();
            for start in starts(&log) {
                let due = newest.entry(start.job).or_default();
                *due = start.due.max(*due);
            }
            newest.values().filter(|due| **due > after).count()
        };
        until_told("each job runs", || (count() == 4).then_some(()), || format!("{:?}", starts(&log).last()));
    }

    /// The server dies and comes back with what was kept of it; every node notices, stops, and says why.
    fn lose(&mut self) {
        self.redis.kill();
        self.redis.go_back();
        self.redis.restart();
        for (node, name) in self.nodes.drain(..).zip(NODES) {
            assert_ne!(node.end(), 0, "{name} ends as one that cannot go on");
        }
        for name in NODES {
            let said = fs::read_to_string(self.output_file(name)).expect("it is read");
            assert!(said.contains("start this node again"), "{name} said: {said}");
        }
    }
}

/// proves: I1
#[test]
fn nodes_of_a_registry_that_lost_everything_stop_and_say_why() {
    let Some(mut cluster) = RewindCluster::start(RedisPersistence::Nothing, "15s") else { return };
    cluster.lose();
}

/// It came up from what it had saved some time ago.
///
/// proves: I1
#[test]
#[ignore = "soak: it waits for marks to get old, and for leases to end"]
fn after_a_loss_only_what_is_within_its_grace_runs_again_and_tokens_only_grow() {
    go_back(RedisPersistence::Nothing);
}

/// It keeps all that it answered, and somebody put a copy of its files back.
///
/// proves: I1
#[test]
#[ignore = "soak: it waits for marks to get old, and for leases to end"]
fn after_a_copy_was_put_back_only_what_is_within_its_grace_runs_again_and_tokens_only_grow() {
    go_back(RedisPersistence::All);
}

/// Who waits until others have noticed may be told to end, and somebody else waits anew.
///
/// proves: I1
#[test]
fn a_node_that_waits_for_others_to_notice_ends_at_once_when_it_is_told_to() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, said) = (folder.path(), folder.path().join("said"));
    let node = ServerProcess::serve(path, "a", &[]);
    node.signal("TERM");
    assert_eq!(node.end(), 0);
    for part in ["registry.db", "registry.db-wal"].map(|name| path.join(name)).iter().filter(|it| it.exists())
    {
        fs::copy(part, path.join("copy")).expect("copied");
        fs::rename(path.join("copy"), part).expect("put in its place");
    }
    let log = || fs::File::create(&said).expect("a file");
    let told = || fs::read_to_string(&said).expect("what it said");
    let command = |ttl| {
        let mut command = ServerProcess::command(path, "a", &["--ttl", ttl]);
        command.current_dir(path).env("EVENKEEL_LOG", "warn").stderr(log());
        command
    };
    let mut child = command("600s").stdout(Stdio::null()).spawn().expect("it starts");
    until_told("it waits", || told().contains("waiting 600s").then_some(()), told);
    let sent = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
    assert!(sent.expect("kill runs").success());
    let status = until("it ends", || child.try_wait().expect("it is ours"));
    assert!(status.success(), "{status}: {}", told());
    // It has written nothing: whoever comes next waits as well, and then works.
    let node = ServerProcess::start(&mut command("10s"));
    assert!(told().contains("waiting 10s"), "{}", told());
    assert!(node.ok(&["node", "list"]).contains("online"));
}

/// The file is as it was, and nobody was there when it became so: only what a node saw of it in its last life tells. The same
/// copy may be put back twice.
///
/// proves: I1
#[test]
#[ignore = "soak: it waits for leases to end"]
fn a_file_that_was_put_back_as_it_was_begins_a_new_generation_each_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, log, said) = (folder.path(), folder.path().join("starts.log"), folder.path().join("said"));
    let serve = || {
        let mut command = ServerProcess::command(path, "a", &["--ttl", &lease()]);
        let err = fs::File::create(&said).expect("a file");
        ServerProcess::start(command.current_dir(path).env("EVENKEEL_LOG", "warn").stderr(err))
    };
    let run_on = |after: i64| {
        let newest = || starts(&log).iter().filter(|start| start.due > after).count();
        until_told("jobs run", || (newest() >= 8).then_some(()), || format!("{:?}", starts(&log).last()));
    };
    let end = |node: ServerProcess| {
        node.signal("TERM");
        assert_eq!(node.end(), 0);
    };
    let node = serve();
    assert!(node.fed(&["job", "apply", "-f", "-"], &jobs(&log)).status.success());
    run_on(wall());
    end(node);
    let parts = ["registry.db", "registry.db-wal"].map(|name| path.join(name));
    let copy: Vec<_> = parts.iter().map(|part| fs::read(part).unwrap_or_default()).collect();
    let node = serve();
    run_on(wall());
    end(node);
    for _ in 0..2 {
        let before = starts(&log);
        let highest = before.iter().map(|start| start.token).max().expect("some ran");
        for (part, content) in parts.iter().zip(&copy) {
            // Into the same file, and not another one in its place, which SQLite's engine tells by itself.
            fs::write(part, content).expect("put back");
        }
        let node = serve();
        run_on(wall());
        end(node);
        let told = fs::read_to_string(&said).expect("what it said");
        assert!(told.contains("gone back in time"), "{told}");
        let after = &starts(&log)[before.len()..];
        let lowest = after.iter().map(|start| start.token).min().expect("some run again");
        assert!(lowest > highest, "a token of before is not below {lowest}: {highest}");
        let twice = |start: &&RunStart| before.iter().any(|it| (&it.job, it.due) == (&start.job, start.due));
        let twice: Vec<_> = after.iter().filter(twice).filter(|it| it.job.starts_with("at-most")).collect();
        assert!(twice.is_empty(), "to run at most once: {twice:?}");
    }
}

fn go_back(keeps: RedisPersistence) {
    let Some(mut cluster) = RewindCluster::start(keeps, &lease()) else { return };
    let saving = wall();
    cluster.redis.keep();
    let saved = wall();
    // Some marks are lost of fires that are older than their grace by the time the nodes are back, whatever the machine does.
    let is_old = |start: &RunStart| start.due > saved + 1_000 && start.due + GRACE * 1_000 < wall();
    until("old marks are lost", || starts(&cluster.log()).iter().any(is_old).then_some(()));
    cluster.lose();
    let before = starts(&cluster.log());
    let back = wall();
    cluster.serve(&lease());
    cluster.wait_until_all_run(back + 2_000);
    let all = starts(&cluster.log());
    let (mut fires, mut again) = (BTreeMap::<_, Vec<&RunStart>>::new(), 0);
    for start in &all {
        fires.entry((&start.job, start.due)).or_default().push(start);
    }
    for ((job, due), starts) in &fires {
        let [first, rest @ ..] = &starts[..] else { continue };
        assert!(rest.len() <= 1, "{job} due {due} ran {} times", starts.len());
        for second in rest {
            again += 1;
            assert!(
                job.starts_with("at-least-once"),
                "twice, and it is to run at most once: {first:?}, {second:?}"
            );
            assert!(second.at >= back, "twice before the loss: {first:?}, {second:?}");
            assert!(*due >= newest_saved(&before, job, saving), "its mark was on the disk: {second:?}");
            // One that was open in the copy is attempted again, however old it is by now; it was claimed at most a second ahead.
            let was_open = *due <= saved + 1_000;
            // No node starts anything before the lease of those that were there has ended.
            let in_time = due + GRACE * 1_000 >= back + LEASE_MS;
            assert!(was_open || in_time, "older than its grace: {second:?}, saved {saved}, back {back}");
        }
    }
    let lost = before.iter().filter(|start| start.due > saved).count();
    assert!(lost > again, "all of {lost} ran again");
    println!("{again} of {lost} whose marks were lost ran again");
    let highest = before.iter().map(|start| start.token).max().expect("some ran");
    // Those that were there could have gone on for as long as a lease lasts, had they not noticed.
    let first = all[before.len()..].iter().map(|start| start.at).min().expect("some run again");
    assert!(first >= back + LEASE_MS, "the first start was {} ms after the registry was back", first - back);
    let lowest = all[before.len()..].iter().map(|start| start.token).min().expect("some run again");
    assert!(lowest > highest, "a token of before the loss is not below {lowest}: {highest}");
}

/// The newest fire of a job that had begun by this moment. Each fire is claimed before it begins, and the claim closes the
/// fire before it; so a copy of the registry that was made later has the end of every earlier fire.
fn newest_saved(starts: &[RunStart], job: &str, saving: i64) -> i64 {
    let begun = starts.iter().filter(|start| start.job == job && start.at < saving);
    begun.map(|start| start.due).max().unwrap_or(i64::MIN)
}

fn lease() -> String {
    format!("{}s", LEASE_MS / 1_000)
}
