//! The guard alone, spoken to in its own words by a test that plays the node.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use evenkeel::clock;
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::process::{lives, pids, signal, until};

pub(crate) const TESTS: &[(&str, fn())] = &[
    ("guard::a_program_runs_and_its_end_is_told", a_program_runs_and_its_end_is_told),
    ("guard::what_is_too_late_never_starts", what_is_too_late_never_starts),
    ("guard::a_program_that_is_not_there_is_a_failure", a_program_that_is_not_there_is_a_failure),
    ("guard::at_the_deadline_even_the_stubborn_end", at_the_deadline_even_the_stubborn_end),
    ("guard::without_its_node_it_ends_its_runs_and_itself", without_its_node_it_ends_its_runs_and_itself),
    ("guard::a_killed_guard_leaves_no_run", a_killed_guard_leaves_no_run),
    ("guard::what_a_run_leaves_behind_ends_with_it", what_a_run_leaves_behind_ends_with_it),
    ("guard::a_pipe_held_outside_the_group_delays_nothing", a_pipe_held_outside_the_group_delays_nothing),
    ("guard::output_is_kept_up_to_its_bound", output_is_kept_up_to_its_bound),
    ("guard::a_run_ends_at_its_timeout_or_when_told", a_run_ends_at_its_timeout_or_when_told),
    ("guard::a_node_that_reads_nothing_does_not_hold_it_up", a_node_that_reads_nothing_does_not_hold_it_up),
    ("guard::the_next_guard_waits_for_the_last_ones_runs", the_next_guard_waits_for_the_last_ones_runs),
];

/// What only the soak runs, since it measures a time.
pub(crate) const SOAK: &[(&str, fn())] = &[(
    "guard::the_stubborn_end_within_seconds_of_the_deadline",
    the_stubborn_end_within_seconds_of_the_deadline,
)];

/// A guard and the pipes to it.
pub(crate) struct TestGuard {
    pub(crate) process: Child,
    requests: Option<ChildStdin>,
    events: BufReader<ChildStdout>,
    data: PathBuf,
    runs: u32,
    /// Which limits of whole runs it cannot keep, and why.
    pub(crate) lacking: Option<String>,
}

impl TestGuard {
    fn spawn(data: &TempDir) -> Self {
        Self::spawn_with(data, |_| {})
    }

    fn spawn_with(data: &TempDir, change: impl FnOnce(&mut Command)) -> Self {
        let mut command = Command::new("/proc/self/exe");
        change(command.arg(data.path()));
        let mut process = command
            .env("EVENKEEL_ROLE", "guard")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let words = BufReader::new(process.stdout.take().unwrap());
        Self {
            requests: process.stdin.take(),
            process,
            events: words,
            data: data.path().to_path_buf(),
            runs: 0,
            lacking: None,
        }
    }

    /// A guard that trusts its node for a long time.
    pub(crate) fn start(data: &TempDir) -> Self {
        Self::start_with(data, |_| {})
    }

    /// The same of one that is started in another way.
    pub(crate) fn start_with(data: &TempDir, change: impl FnOnce(&mut Command)) -> Self {
        let mut guard = Self::spawn_with(data, change);
        guard.wait_ready();
        guard.trust(600_000, 600_000);
        guard
    }

    pub(crate) fn wait_ready(&mut self) {
        let word = self.receive();
        let lacking = &word["ready"]["lacking"];
        assert!(lacking.is_null() || lacking.is_string(), "{word}");
        self.lacking = lacking.as_str().map(str::to_owned);
    }

    pub(crate) fn trust(&mut self, until: i64, kill: i64) {
        let now = clock::now().mono.0;
        self.send(&json!({"trust": {"until": now + until, "kill": now + kill}}));
        assert_eq!(self.receive(), "trusted");
    }

    pub(crate) fn send(&mut self, order: &Value) {
        let orders = self.requests.as_mut().unwrap();
        writeln!(orders, "{order}").unwrap();
    }

    pub(crate) fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.events.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|e| panic!("{line:?}: {e}"))
    }

    pub(crate) fn launch(&mut self, argv: &[&str], change: impl FnOnce(&mut Value)) -> String {
        self.runs += 1;
        let run = format!("j:{}:0", self.runs);
        let mut start = json!({
            "id": {"run": run, "attempt": 1},
            "argv": argv,
            "environment": {"DATA": self.data, "EVENKEEL_RUN": run, "EVENKEEL_ATTEMPT": "1"},
            "timeout": null,
            "not_after": clock::now().mono.0 + 60_000,
            "log": self.log(&run),
            "keep": 1_000_000,
        });
        change(&mut start);
        self.send(&json!({"start": start}));
        run
    }

    pub(crate) fn sh(&mut self, script: &str) -> String {
        self.launch(&["sh", "-c", script], |_| {})
    }

    pub(crate) fn log(&self, run: &str) -> PathBuf {
        self.data.join("logs").join(run)
    }

    pub(crate) fn output(&self, run: &str) -> String {
        std::fs::read_to_string(self.log(run)).unwrap()
    }

    /// The process group that a run got.
    pub(crate) fn started(&mut self) -> i32 {
        let word = self.receive();
        word["started"]["group"].as_i64().unwrap_or_else(|| panic!("{word}")) as i32
    }

    /// How the next run ended.
    pub(crate) fn ended(&mut self) -> Value {
        let mut word = self.receive();
        if word.get("started").is_some() {
            word = self.receive();
        }
        assert!(word.get("ended").is_some(), "{word}");
        word["ended"]["end"].take()
    }

    /// Its node is gone.
    pub(crate) fn leave(&mut self) {
        self.requests = None;
    }

    /// Closes the pipe, and waits for its end.
    pub(crate) fn end(&mut self) {
        self.requests = None;
        assert!(self.process.wait().unwrap().success());
    }

    pub(crate) fn pids(&self, n: usize) -> Vec<i32> {
        pids(&self.data.join("pids"), n)
    }
}

impl Drop for TestGuard {
    fn drop(&mut self) {
        self.requests = None;
        if self.process.wait().is_ok_and(|status| status.success()) {
            return;
        }
        // One that was killed left its cgroups, which the next one takes away.
        let mut next = Command::new("/proc/self/exe");
        next.arg(&self.data).env("EVENKEEL_ROLE", "guard").stdin(Stdio::null()).stdout(Stdio::null());
        let _ = next.status();
    }
}

pub(crate) fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn a_program_runs_and_its_end_is_told() {
    let data = folder();
    let mut guard = TestGuard::start(&data);
    let run = guard.sh("echo to stdout; echo to stderr >&2; echo ${EVENKEEL_ROLE-none}; cat; \
                        while ! test -e $DATA/go; do sleep 0.01; done; exit 3");
    // One that is over at once may be told by its end alone.
    assert!(guard.started() > 0);
    std::fs::write(data.path().join("go"), "").unwrap();
    let end = guard.ended();
    assert_eq!(
        (&end["code"], &end["reason"], &end["stopped"]),
        (&json!(3), &json!("exit code 3"), &Value::Null)
    );
    assert_eq!(guard.output(&run), "to stdout\nto stderr\nnone\n");
    assert_eq!(end["output"], guard.output(&run).len());
    guard.sh("kill -SEGV $$");
    let end = guard.ended();
    assert_eq!((&end["code"], &end["reason"]), (&Value::Null, &json!("ended by signal 11 (SEGV)")));
    guard.launch(&["true"], |_| {});
    assert_eq!(guard.ended()["code"], 0);
}

/// proves: I2, I4
fn what_is_too_late_never_starts() {
    let data = folder();
    let mut guard = TestGuard::start(&data);
    let script = ["sh", "-c", "touch $DATA/ran"];
    guard.launch(&script, |start| start["not_after"] = json!(clock::now().mono.0));
    assert_eq!(guard.receive()["not_started"]["id"], json!({"run": "j:1:0", "attempt": 1}));
    guard.trust(0, 100);
    guard.launch(&script, |_| {});
    assert_eq!(guard.receive()["not_started"]["id"]["run"], "j:2:0");
    assert!(!data.path().join("ran").exists());
    guard.trust(60_000, 60_000);
    guard.launch(&script, |_| {});
    assert_eq!(guard.ended()["code"], 0);
    assert!(data.path().join("ran").exists());
}

fn a_program_that_is_not_there_is_a_failure() {
    let data = folder();
    let mut guard = TestGuard::start(&data);
    guard.launch(&["/nowhere/program"], |_| {});
    let end = guard.ended();
    assert_eq!((&end["reason"], &end["code"]), (&json!("no such program: /nowhere/program"), &Value::Null));
    guard.launch(&["/"], |_| {});
    assert_eq!(guard.ended()["reason"], "not allowed to run /");
}

/// Ignores TERM, in two processes.
const STUBBORN: &str = "trap '' TERM; sh -c 'echo $$ >> $DATA/pids; sleep 600; sleep 600' & \
                        echo $$ >> $DATA/pids; while :; do sleep 600; done";

/// proves: I2
fn at_the_deadline_even_the_stubborn_end() {
    end_the_stubborn();
}

/// proves: I2
fn the_stubborn_end_within_seconds_of_the_deadline() {
    // The machine can stall in some attempts, but not in all of them.
    let took: Vec<i64> = (0..20).map(|_| end_the_stubborn()).take_while(|took| *took >= 3_000).collect();
    assert!(took.len() < 20, "it took {took:?} ms");
}

/// Runs that end for nothing but a kill, under a guard that is to kill them after 500 ms; how long they go on, in ms.
fn end_the_stubborn() -> i64 {
    let data = folder();
    let mut guard = TestGuard::start(&data);
    guard.sh(STUBBORN);
    guard.started();
    guard.sh("sleep 600");
    let paused = guard.started();
    signal(paused, Signal::STOP);
    let stubborn = guard.pids(2);
    let now = clock::now().mono.0;
    guard.trust(200, 500);
    for _ in 0..2 {
        assert_eq!(guard.ended()["stopped"], "fenced");
    }
    let took = clock::now().mono.0 - now;
    assert!(took >= 500, "killed at the second deadline, not before: {took}");
    assert!(stubborn.into_iter().chain([paused]).all(|pid| !lives(pid)));
    took
}

/// proves: I2
fn without_its_node_it_ends_its_runs_and_itself() {
    let data = folder();
    let mut guard = TestGuard::start(&data);
    guard.sh(STUBBORN);
    let mut all = guard.pids(2);
    guard.sh("echo $$ >> $DATA/pids; sleep 600");
    all = guard.pids(all.len() + 1);
    guard.end();
    assert!(all.iter().all(|pid| !lives(*pid)), "it ends only after its runs have");
}

/// proves: I2
fn a_killed_guard_leaves_no_run() {
    let data = folder();
    let mut guard = TestGuard::start(&data);
    guard.sh("trap '' TERM; echo $$ >> $DATA/pids; while :; do sleep 600; done");
    let run = guard.pids(1)[0];
    guard.process.kill().unwrap();
    until("the kernel ends the run with its guard", || (!lives(run)).then_some(()));
}

fn what_a_run_leaves_behind_ends_with_it() {
    let data = folder();
    let mut guard = TestGuard::start(&data);
    guard.sh("(sh -c 'trap \"\" TERM; echo $$ >> $DATA/pids; sleep 600; sleep 600' &) ; \
              while ! test -s $DATA/pids; do sleep 0.01; done");
    let orphan = guard.pids(1)[0];
    let end = guard.ended();
    assert_eq!((&end["code"], &end["stopped"]), (&json!(0), &Value::Null), "the run itself succeeded");
    assert!(!lives(orphan));
}

fn a_pipe_held_outside_the_group_delays_nothing() {
    let data = folder();
    let mut guard = TestGuard::start(&data);
    let run = guard.sh("setsid sh -c 'echo $$ >> $DATA/pids; exec sleep 600' & \
                        while ! test -s $DATA/pids; do sleep 0.01; done; echo said");
    let daemon = guard.pids(1)[0];
    assert_eq!(guard.ended()["code"], 0);
    assert_eq!(guard.output(&run), "said\n");
    assert!(!lives(daemon), "who leaves the group does not leave the run");
}

/// proves: I48
fn output_is_kept_up_to_its_bound() {
    let data = folder();
    let mut guard = TestGuard::start(&data);
    let run = guard.launch(&["sh", "-c", "head -c 50000000 /dev/zero"], |start| start["keep"] = json!(1000));
    let end = guard.ended();
    assert_eq!((&end["code"], &end["output"]), (&json!(0), &json!(1000)), "the run is not held up");
    let kept = guard.output(&run);
    let mark = "\n[49999000 bytes in the middle are not kept]\n";
    assert_eq!(kept, format!("{0}{mark}{0}", "\0".repeat(500)));
    let exact = guard.launch(&["printf", "12345"], |start| start["keep"] = json!(5));
    assert_eq!(guard.ended()["output"], 5);
    assert_eq!(guard.output(&exact), "12345");
    // Faster than it may come: the burst is kept, the rest is counted, and the run is not held up.
    let begun = clock::now().mono.0;
    let fast =
        guard.launch(&["sh", "-c", "head -c 5000 /dev/zero; exit 3"], |start| start["rate"] = json!(100));
    assert_eq!(guard.ended()["code"], 3);
    let since = usize::try_from((clock::now().mono.0 - begun) / 10).unwrap();
    let said = guard.output(&fast);
    let kept = said.matches('\0').count();
    // As much again is kept of the end.
    assert!((2_000..=2_000 + since).contains(&kept), "ten seconds' worth, and what came meanwhile: {kept}");
    let notes = said.matches(" bytes came faster than 100 a second and are not kept]\n").count();
    assert!(notes == 1 || (notes > 1 && since > 100), "{said:?}");
    assert!(
        kept > 2_000
            || said
                == format!(
                    "{0}\n[3000 bytes came faster than 100 a second and are not kept]\n{0}",
                    "\0".repeat(1000)
                ),
        "{said:?}"
    );
    // A run whose output can be kept nowhere still runs.
    guard.launch(&["printf", "12345"], |start| start["log"] = json!("/proc/nowhere/log"));
    assert_eq!(guard.ended()["code"], 0);
}

fn a_run_ends_at_its_timeout_or_when_told() {
    let data = folder();
    let mut guard = TestGuard::start(&data);
    guard.launch(&["sleep", "600"], |start| start["timeout"] = json!(100));
    assert_eq!(guard.ended()["stopped"], "timed_out");
    let run = guard.sh("trap 'echo asked; exit 0' TERM; echo $$ >> $DATA/pids; while :; do sleep 0.01; done");
    let group = guard.pids(1)[0];
    assert_eq!(guard.started(), group);
    guard.send(&json!({"stop": {"run": run, "reason": "killed"}}));
    let end = guard.ended();
    assert_eq!((&end["stopped"], &end["code"]), (&json!("killed"), &json!(0)));
    assert!(guard.output(&run).ends_with("asked\n"));
    guard.send(&json!({"stop": {"run": run, "reason": "killed"}}));
    guard.launch(&["true"], |_| {});
    assert_eq!(guard.ended()["code"], 0, "a run that is over is nothing to stop");
}

/// proves: I2
fn a_node_that_reads_nothing_does_not_hold_it_up() {
    let data = folder();
    let mut guard = TestGuard::start(&data);
    guard.sh("echo $$ >> $DATA/pids; sleep 600");
    let run = guard.pids(1)[0];
    // More words than the pipe holds.
    for _ in 0..800 {
        guard.launch(&["true"], |start| start["not_after"] = json!(0));
        guard.send(&json!({"stop": {"run": "x:1:0", "reason": "killed"}}));
    }
    let now = clock::now().mono.0;
    guard.send(&json!({"trust": {"until": now, "kill": now}}));
    until("the run ends at the deadline", || (!lives(run)).then_some(()));
}

/// proves: I2
fn the_next_guard_waits_for_the_last_ones_runs() {
    let data = folder();
    let mut first = TestGuard::start(&data);
    first.sh(STUBBORN);
    let all = first.pids(2);
    let mut second = TestGuard::spawn(&data);
    first.requests = None;
    second.wait_ready();
    assert!(all.iter().all(|pid| !lives(*pid)));
    // A guard that waits goes when its node does.
    let mut third = TestGuard::spawn(&data);
    third.requests = None;
    assert!(third.process.wait().unwrap().success());
}
