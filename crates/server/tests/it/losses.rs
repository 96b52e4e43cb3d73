//! A registry that forgets: a Redis that comes back with less than it had answered, under nodes with jobs; a file in whose
//! place a copy was put.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::host::{free_ports, skip};
use crate::process::{Node, until, until_told};

const NODES: [&str; 2] = ["a", "b"];
/// How late a fire may start, in seconds: more than it takes all nodes to stop and start, so that there is something to see.
const GRACE: i64 = 4;
/// How long the runs go on whose marks are lost: longer than the grace, so that not all of them may run again.
const LOST_MS: i64 = 11_000;
/// How long a lease lasts.
const LEASE_MS: i64 = 2_000;
/// How late a start may be noted, on a busy machine.
const SLACK_MS: i64 = 3_000;

/// Notes each start: what for, when by the calendar, and under which token.
const SCRIPT: &str =
    r#"printf '%s %s %s %s\n' "$EVENKEEL_JOB" "$EVENKEEL_DUE" "$(date +%s%3N)" "$EVENKEEL_FENCE" >> "$0""#;

/// What a Redis keeps by itself.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keeps {
    Nothing,
    All,
}

/// A Redis. Killed when it is dropped.
struct Redis {
    /// Its files in `now`, and what they were in `then`.
    folder: tempfile::TempDir,
    keeps: Keeps,
    port: u16,
    child: Option<Child>,
}

impl Redis {
    /// Starts one; `None`, said aloud, where there is none.
    fn start(keeps: Keeps) -> Option<Self> {
        if Command::new("redis-server").arg("--version").output().is_err() {
            skip("there is no redis-server: `cargo xtask engines install`");
            return None;
        }
        let port = free_ports(1)[0];
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join("now")).expect("a folder");
        let mut redis = Self { folder, keeps, port, child: None };
        redis.again();
        Some(redis)
    }

    fn again(&mut self) {
        let mut command = Command::new("redis-server");
        command.args(["--bind", "127.0.0.1", "--save", "", "--port", &self.port.to_string(), "--dir"]);
        command.arg(self.folder.path().join("now"));
        if self.keeps == Keeps::All {
            command.args(["--appendonly", "yes", "--appendfsync", "always"]);
        }
        let child = command.stdout(Stdio::null()).spawn();
        self.child = Some(child.expect("the server starts"));
        until("it answers", || (self.say("PING")? == "PONG").then_some(()));
    }

    /// Kills it at once.
    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("it can be killed");
            child.wait().expect("it ends");
        }
    }

    /// Has a copy made of what it holds now.
    fn keep(&self) {
        if self.keeps == Keeps::Nothing {
            assert_eq!(self.say("SAVE").as_deref(), Some("OK"));
        }
        let copied = Command::new("cp").args(["-a", "now", "then"]).current_dir(self.folder.path()).status();
        assert!(copied.expect("cp runs").success());
    }

    /// Puts the copy, if there is one, in the place of its files.
    fn go_back(&self) {
        let [now, then] = ["now", "then"].map(|name| self.folder.path().join(name));
        if then.exists() {
            fs::remove_dir_all(&now).expect("removed");
            fs::rename(then, now).expect("moved");
        }
    }

    /// One word to it, and the first line of its answer.
    fn say(&self, word: &str) -> Option<String> {
        use std::io::{BufRead, BufReader, Write};
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        stream.write_all(format!("{word}\r\n").as_bytes()).ok()?;
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).ok()?;
        Some(line.trim_start_matches('+').trim().to_owned())
    }

    fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/0", self.port)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.kill();
    }
}

/// One start.
#[derive(Clone, Debug)]
struct Start {
    job: String,
    due: i64,
    at: i64,
    token: u64,
}

fn starts(log: &Path) -> Vec<Start> {
    let text = fs::read_to_string(log).unwrap_or_default();
    let parse = |line: &str| {
        let [job, due, at, token] = line.split(' ').collect::<Vec<_>>().try_into().ok()?;
        let due = due.parse::<jiff::Timestamp>().ok()?.as_millisecond();
        Some(Start { job: job.to_owned(), due, at: at.parse().ok()?, token: token.parse().ok()? })
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
            "[[job]]\nname = {name:?}\nschedule = \"* * * * * ?\"\ngrace = {GRACE}\ncatch_up = \"skip\"\n\
             delivery = {delivery:?}\ncommand = [{argv}]\n"
        )
        .expect("a text takes everything");
    }
    file
}

struct Cluster {
    folder: tempfile::TempDir,
    redis: Redis,
    nodes: Vec<Node>,
}

impl Cluster {
    fn start(keeps: Keeps) -> Option<Self> {
        let (folder, redis) = (tempfile::tempdir().expect("a folder"), Redis::start(keeps)?);
        let mut cluster = Self { folder, redis, nodes: Vec::new() };
        cluster.serve();
        let applied = cluster.nodes[0].fed(&["job", "apply", "-f", "-"], &jobs(&cluster.log()));
        assert!(applied.status.success());
        cluster.wait_until_all_run(wall());
        Some(cluster)
    }

    fn log(&self) -> std::path::PathBuf {
        self.folder.path().join("starts.log")
    }

    fn serve(&mut self) {
        for name in NODES {
            let ttl = format!("{}s", LEASE_MS / 1_000);
            let more = ["--registry", &self.redis.url(), "--ttl", &ttl];
            let mut command = Node::command(self.folder.path(), name, &more);
            let said = fs::File::create(self.said(name)).expect("a file");
            self.nodes.push(Node::start(command.current_dir(self.folder.path()).stderr(said)));
        }
    }

    fn said(&self, name: &str) -> std::path::PathBuf {
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
        self.redis.again();
        for (node, name) in self.nodes.drain(..).zip(NODES) {
            assert_ne!(node.end(), 0, "{name} ends as one that cannot go on");
        }
        for name in NODES {
            let said = fs::read_to_string(self.said(name)).expect("it is read");
            assert!(said.contains("start this node again"), "{name} said: {said}");
        }
    }
}

/// proves: I1
#[test]
fn nodes_of_a_registry_that_lost_everything_stop_and_say_why() {
    let Some(mut cluster) = Cluster::start(Keeps::Nothing) else { return };
    cluster.lose();
}

/// It came up from what it had saved some time ago.
///
/// proves: I1
#[test]
fn after_a_loss_only_what_is_within_its_grace_runs_again_and_tokens_only_grow() {
    go_back(Keeps::Nothing);
}

/// It keeps all that it answered, and somebody put a copy of its files back.
///
/// proves: I1
#[test]
fn after_a_copy_was_put_back_only_what_is_within_its_grace_runs_again_and_tokens_only_grow() {
    go_back(Keeps::All);
}

/// Who waits until others have noticed may be told to end, and somebody else waits anew.
///
/// proves: I1
#[test]
fn a_node_that_waits_for_others_to_notice_ends_at_once_when_it_is_told_to() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, said) = (folder.path(), folder.path().join("said"));
    let node = Node::serve(path, "a", &[]);
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
        let mut command = Node::command(path, "a", &["--ttl", ttl]);
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
    let node = Node::start(&mut command("2s"));
    assert!(told().contains("waiting 2s"), "{}", told());
    assert!(node.ok(&["node", "list"]).contains("online"));
}

/// The file is as it was, and nobody was there when it became so: only what a node saw of it in its last life tells. The same
/// copy may be put back twice.
///
/// proves: I1
#[test]
fn a_file_that_was_put_back_as_it_was_begins_a_new_generation_each_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, log, said) = (folder.path(), folder.path().join("starts.log"), folder.path().join("said"));
    let serve = || {
        let mut command = Node::command(path, "a", &["--ttl", "2s"]);
        let err = fs::File::create(&said).expect("a file");
        Node::start(command.current_dir(path).env("EVENKEEL_LOG", "warn").stderr(err))
    };
    let run_on = |after: i64| {
        let newest = || starts(&log).iter().filter(|start| start.due > after).count();
        until_told("jobs run", || (newest() >= 8).then_some(()), || format!("{:?}", starts(&log).last()));
    };
    let end = |node: Node| {
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
        let twice = |start: &&Start| before.iter().any(|it| (&it.job, it.due) == (&start.job, start.due));
        let twice: Vec<_> = after.iter().filter(twice).filter(|it| it.job.starts_with("at-most")).collect();
        assert!(twice.is_empty(), "to run at most once: {twice:?}");
    }
}

fn go_back(keeps: Keeps) {
    let Some(mut cluster) = Cluster::start(keeps) else { return };
    cluster.redis.keep();
    let saved = wall();
    cluster.wait_until_all_run(saved + LOST_MS);
    cluster.lose();
    let before = starts(&cluster.log());
    let back = wall();
    cluster.serve();
    cluster.wait_until_all_run(back + 2_000);
    let all = starts(&cluster.log());
    let (mut fires, mut again) = (BTreeMap::<_, Vec<&Start>>::new(), 0);
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
            assert!(*due >= saved - SLACK_MS, "its mark was on the disk: {second:?}, saved {saved}");
            // One that was open in the copy is attempted again, however old it is by now; it was claimed at most a second ahead.
            let was_open = job.starts_with("at-least-once") && *due <= saved + 1_000;
            let in_time = second.at <= due + GRACE * 1_000 + SLACK_MS;
            assert!(was_open || in_time, "older than its grace: {second:?}, saved {saved}");
        }
    }
    // Of those whose marks were lost, some are older than their grace by now. A machine that is too slow to show any that
    // runs again shows nothing wrong either.
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
