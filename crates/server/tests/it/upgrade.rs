//! A node goes on in the program that is in its file now, and its runs go on with it.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::process::{EVENKEEL, SHORT_LEASE, ServerProcess, text, until};

/// A run that says its number, goes on until a file is there, says it again and ends with 3.
const LONG: &str = "echo before $$; while [ ! -e \"$0\" ]; do sleep 0.05; done; echo after $$; exit 3";

/// A program that is installed somewhere, and a node that was started from there.
struct InstalledProgram {
    folder: tempfile::TempDir,
    node: ServerProcess,
}

/// Puts a build where the program is, as installers do: beside it first, then in its place.
fn install(folder: &Path) -> PathBuf {
    let (new, program) = (folder.join("evenkeel.new"), folder.join("evenkeel"));
    copy_program(&new);
    fs::rename(new, &program).expect("it is renamed");
    program
}

/// Copies the program by another process. A file that this one writes may be open in a child that another test has just
/// forked, and then cannot be executed.
fn copy_program(to: &Path) {
    let copied = Command::new("cp").arg(EVENKEEL).arg(to).status();
    assert!(copied.expect("cp runs").success());
}

fn command(folder: &Path, more: &[&str]) -> Command {
    let told = ServerProcess::command(folder, "a", more);
    let mut command = Command::new(folder.join("evenkeel"));
    let variables = told.get_envs().filter_map(|(name, value)| Some((name, value?)));
    command.args(told.get_args()).env_clear().envs(variables).current_dir(folder);
    command
}

impl InstalledProgram {
    fn new(more: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        install(folder.path());
        let node = ServerProcess::start(&mut command(folder.path(), more));
        Self { folder, node }
    }

    /// Starts the long run; its id and the number of its process.
    fn long(&self) -> (String, u32) {
        let go = self.folder.path().join("go").display().to_string();
        let jobs = format!("[[job]]\nname = \"long\"\ncommand = [\"/bin/sh\", \"-c\", '{LONG}', \"{go}\"]\n");
        assert!(self.node.fed(&["job", "apply", "-f", "-"], &jobs).status.success());
        let run = self.node.json(&["job", "run", "long"])["run"].as_str().expect("a run").to_owned();
        let pid = until("it runs", || self.output(&run).trim().strip_prefix("before ")?.parse().ok());
        (run, pid)
    }

    fn output(&self, run: &str) -> String {
        text(&self.node.cli(&["run", "logs", run]).stdout)
    }

    /// Lets the long run end.
    fn go(&self) {
        fs::write(self.folder.path().join("go"), "").expect("a file");
    }

    fn state(&self, run: &str) -> Option<String> {
        let output = self.node.cli(&["run", "show", run, "-o", "json"]);
        let shown: Value = serde_json::from_slice(&output.stdout).ok()?;
        let attempts = shown["attempts"].as_array()?;
        assert!(attempts.len() <= 1, "{shown}");
        attempts.first()?["state"].as_str().map(str::to_owned)
    }

    fn ends(&self, run: &str) -> String {
        until("it ends", || self.state(run).filter(|state| state != "running"))
    }

    fn kinds(&self) -> Vec<String> {
        let events = self.node.json(&["event", "list"]);
        let events = events.as_array().expect("a list").iter();
        events.filter_map(|event| event["kind"].as_str().map(str::to_owned)).collect()
    }
}

fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

#[test]
fn a_command_goes_on_over_an_upgrade_and_fires_are_neither_lost_nor_doubled() {
    let it = InstalledProgram::new(&[]);
    let tick = "[[job]]\nname = \"tick\"\nschedule = \"@every 1s\"\ncommand = [\"/bin/true\"]\n";
    assert!(it.node.fed(&["job", "apply", "-f", "-"], tick).status.success());
    let (run, pid) = it.long();
    // Twice: the second time the guard is one that this program did not start.
    for _ in 0..2 {
        install(it.folder.path());
        let said = it.node.ok(&["node", "upgrade", "a"]);
        assert!(said.contains("went on in a new program"), "{said}");
        let exe = fs::read_link(format!("/proc/{}/exe", it.node.pid())).expect("it lives");
        assert!(!exe.display().to_string().ends_with("(deleted)"), "{exe:?} is the old one");
        assert!(is_alive(pid), "its command goes on");
        assert_eq!(it.state(&run).as_deref(), Some("running"));
    }
    it.go();
    assert_eq!(it.ends(&run), "failed");
    assert_eq!(it.output(&run), format!("before {pid}\nafter {pid}\n"));
    let shown = it.node.json(&["run", "show", &run]);
    assert_eq!(shown["attempts"][0]["reason"], "exit code 3", "{shown}");
    let count = |kind: &str| it.kinds().iter().filter(|told| *told == kind).count();
    assert_eq!((count("joined"), count("upgraded"), count("lease_lost")), (1, 2, 0), "{:?}", it.kinds());

    let dues = until("fires after the upgrade", || {
        let runs = it.node.json(&["run", "list", "--job", "tick"]);
        let runs = runs.as_array().expect("a list").clone();
        (runs.len() > 5 && runs.iter().all(|run| run["state"] == "succeeded")).then_some(runs)
    });
    let mut dues: Vec<i64> = dues.iter().map(|run| due(run["run"].as_str().expect("a run"))).collect();
    dues.sort_unstable();
    let each: Vec<i64> = (0..dues.len() as i64).map(|n| dues[0] + n * 1000).collect();
    assert_eq!(dues, each, "one fire each second");
}

#[test]
fn a_process_that_is_asked_again_while_it_goes_on_is_not_ended_by_that() {
    let it = InstalledProgram::new(&[]);
    let (run, pid) = it.long();
    // Whenever it begins anew there is a moment in which nobody hears signals yet.
    for _ in 0..500 {
        it.node.signal("USR2");
    }
    let upgraded = || it.kinds().iter().filter(|told| *told == "upgraded").count();
    until("a few upgrades", || (upgraded() >= 2).then_some(()));
    // Not asked of the node: while a thread of it calls `exec`, the first thread shows as a zombie. Its answers prove that it lives.
    assert!(is_alive(pid), "its command goes on");
    it.go();
    assert_eq!(it.ends(&run), "failed");
    assert_eq!(it.output(&run), format!("before {pid}\nafter {pid}\n"));
}

/// The moment in `tick:1763749200000:0`.
fn due(run: &str) -> i64 {
    run.split(':').nth(1).and_then(|due| due.parse().ok()).expect("a moment")
}

#[test]
fn a_program_that_cannot_go_on_is_refused_and_nothing_has_changed() {
    let it = InstalledProgram::new(&[]);
    let (run, pid) = it.long();
    let program = it.folder.path().join("evenkeel");
    let refused = |why: &str| {
        let output = it.node.cli(&["node", "upgrade", "a"]);
        assert_eq!(output.status.code(), Some(6), "{}", text(&output.stdout));
        assert!(text(&output.stderr).contains(why), "{}", text(&output.stderr));
    };
    fs::remove_file(&program).expect("it was there");
    refused("cannot be started");
    let accepts = |wire: u32| format!("{{\"version\":\"9.9.9\",\"baton\":[1],\"wire\":[{wire}]}}");
    for (body, why) in [
        ("echo nonsense".to_owned(), "does not say what it is"),
        (format!("echo '{}'", accepts(99)), "9.9.9, which cannot"),
    ] {
        fs::write(&program, format!("#!/bin/sh\n{body}\n")).expect("a file");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("it is ours");
        refused(why);
    }
    assert!(is_alive(pid));
    it.go();
    assert_eq!(it.ends(&run), "failed");
    assert_eq!(it.output(&run), format!("before {pid}\nafter {pid}\n"));
}

#[test]
fn a_program_that_says_it_can_and_then_ends_loses_its_runs_aloud() {
    let mut it = InstalledProgram::new(&[]);
    let (run, pid) = it.long();
    let program = it.folder.path().join("evenkeel");
    let liar = "#!/bin/sh\n[ \"$EVENKEEL_ROLE\" = upgrade ] && exec \"$(dirname \"$0\")/honest\"\nexit 1\n";
    copy_program(&it.folder.path().join("honest"));
    fs::write(it.folder.path().join("liar"), liar).expect("a file");
    fs::set_permissions(it.folder.path().join("liar"), fs::Permissions::from_mode(0o755))
        .expect("it is ours");
    fs::rename(it.folder.path().join("liar"), program).expect("it is renamed");
    it.node.signal("USR2");
    until("its guard ends the run", || (!is_alive(pid)).then_some(()));
    install(it.folder.path());
    it.node = ServerProcess::start(&mut command(it.folder.path(), &[]));
    let state = it.ends(&run);
    assert!(["lost", "fenced"].contains(&state.as_str()), "{state}");
}

/// proves: I51
#[test]
fn an_upgrade_by_signal_is_in_the_audit_log_whether_it_is_done_or_not() {
    let it = InstalledProgram::new(&[]);
    let told = |outcome: &str| {
        let entries = it.node.json(&["audit"]);
        let entries = entries.as_array().expect("a list").clone();
        let is = |entry: &&Value| entry["verb"] == "upgrade" && entry["outcome"] == outcome;
        let found: Vec<Value> = entries.iter().filter(is).cloned().collect();
        assert!(found.iter().all(|entry| entry["who"] == "process" && entry["about"] == "a"), "{entries:?}");
        found
    };
    let program = it.folder.path().join("evenkeel");
    fs::remove_file(&program).expect("it was there");
    it.node.signal("USR2");
    let refused = until("the refusal is told", || Some(told("refused")).filter(|all| !all.is_empty()));
    assert!(
        refused[0]["what"].as_str().is_some_and(|what| what.contains("cannot be started")),
        "{refused:?}"
    );
    install(it.folder.path());
    it.node.signal("USR2");
    // Connections end with the old program, so it may take more than one question.
    let went_on = || text(&it.node.cli(&["event", "list"]).stdout).contains(" upgraded ");
    until("it goes on", || went_on().then_some(()));
    assert_eq!((told("applied").len(), told("refused").len()), (1, 1));
}

#[test]
fn a_node_that_is_killed_or_stopped_after_an_upgrade_has_its_runs_ended() {
    for (signal, states) in [("KILL", &["lost", "fenced"][..]), ("STOP", &["fenced"][..])] {
        let mut it = InstalledProgram::new(&SHORT_LEASE);
        let (run, pid) = it.long();
        it.node.ok(&["node", "upgrade", "a"]);
        it.node.signal(signal);
        until("its guard ends the run", || (!is_alive(pid)).then_some(()));
        match signal {
            "STOP" => it.node.signal("CONT"),
            _ => it.node = ServerProcess::start(&mut command(it.folder.path(), &[])),
        }
        let state = it.ends(&run);
        assert!(states.contains(&state.as_str()), "{signal}: {state}");
    }
}

#[test]
fn what_runs_inside_the_process_is_waited_for_and_named() {
    // Whoever connects waits for ever.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/", silent.local_addr().expect("it is bound"));
    let it = InstalledProgram::new(&["--http-allow", "127.0.0.1"]);
    let job = format!("[[job]]\nname = \"inside\"\nhttp = {{ url = \"{url}\" }}\n");
    assert!(it.node.fed(&["job", "apply", "-f", "-"], &job).status.success());
    let run = it.node.json(&["job", "run", "inside"])["run"].as_str().expect("a run").to_owned();
    until("it runs", || (it.state(&run).as_deref() == Some("running")).then_some(()));
    let output = it.node.cli(&["node", "upgrade", "a", "--wait", "100ms"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(6), "{said}");
    assert!(said.contains(&run) && said.contains("wait longer"), "{said}");
    assert_eq!(it.state(&run).as_deref(), Some("running"), "nothing has changed for it");
    it.node.ok(&["run", "kill", &run]);
    assert_eq!(it.ends(&run), "killed");
    it.node.ok(&["node", "upgrade", "a"]);
}

#[test]
fn a_program_that_goes_away_at_the_last_moment_leaves_everything_as_it_was() {
    let it = InstalledProgram::new(&[]);
    let (run, pid) = it.long();
    let (program, asked) = (it.folder.path().join("evenkeel"), it.folder.path().join("asked"));
    // It is asked by whoever takes the order, before the node looks for its moment, and while it rests.
    let script = format!(
        "#!/bin/sh\necho >> {asked}\nif [ $(wc -l < {asked}) -ge 3 ]; then rm {program}; fi\nexec {EVENKEEL} \"$@\"\n",
        asked = asked.display(),
        program = program.display()
    );
    let new = it.folder.path().join("evenkeel.new");
    fs::write(&new, script).expect("a file");
    fs::set_permissions(&new, fs::Permissions::from_mode(0o755)).expect("it is ours");
    fs::rename(&new, &program).expect("it is renamed");
    let output = it.node.cli(&["node", "upgrade", "a"]);
    let said = text(&output.stderr);
    assert!(!output.status.success() && said.contains("cannot be executed"), "{said}");
    assert!(is_alive(pid) && it.state(&run).as_deref() == Some("running"), "nothing has changed for it");
    let noted = it.node.ok(&["audit", "--node", "a"]);
    assert!(noted.contains("not_upgraded says how it went"), "{noted}");
    // The process is as it was: also the next one gets the guard, and hears of the run's end.
    install(it.folder.path());
    it.node.ok(&["node", "upgrade", "a"]);
    it.go();
    assert_eq!(it.ends(&run), "failed");
    assert_eq!(it.output(&run), format!("before {pid}\nafter {pid}\n"));
}
