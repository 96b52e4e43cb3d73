//! Files and folders that are deleted, cut or written over while a node uses them: each is noticed, told, and what cannot go on ends.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::process::{EVENKEEL, SHORT_LEASE, ServerProcess, evenkeel, run, text, until};

const JOB: &str = "[[job]]\nname = \"j\"\nschedule = \"@every 1h\"\ncommand = [\"/bin/true\"]\n";

/// A node, and the file that has what it says.
fn serve(folder: &Path) -> (ServerProcess, std::path::PathBuf) {
    let said = folder.join("said");
    let mut command = ServerProcess::command(folder, "a", &SHORT_LEASE);
    let node =
        ServerProcess::start(command.current_dir(folder).stderr(fs::File::create(&said).expect("a file")));
    (node, said)
}

fn registry(folder: &Path) -> String {
    format!("sqlite:{}", folder.join("registry.db").display())
}

fn ends(folder: &Path, harm: impl FnOnce(), words: &[&str]) {
    let (node, said) = serve(folder);
    harm();
    assert_ne!(node.end(), 0, "it ends as one that cannot go on");
    let said = fs::read_to_string(said).expect("it is read");
    assert!(words.iter().all(|word| said.contains(word)), "{said}");
}

#[test]
fn a_node_whose_registry_file_is_cut_ends_and_says_what_to_do() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("registry.db");
    let cut = || fs::write(&path, "").expect("it is cut");
    ends(folder.path(), cut, &["was truncated or overwritten while in use", "restore it from a backup"]);
}

/// What a text has in backticks that begins with this.
fn commands<'a>(said: &'a str, begin: &[&str]) -> Vec<&'a str> {
    let quoted = said.split('`').skip(1).step_by(2);
    quoted.filter(|it| begin.iter().any(|begin| it.starts_with(begin))).collect()
}

#[test]
fn whoever_is_asked_about_a_harmed_registry_file_names_the_commands_that_bring_it_back() {
    let harms: [(&str, &[u8]); 2] = [("cut", b""), ("overwritten", &[7; 5_000])];
    for (how, bytes) in harms {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("registry.db");
        let (url, backup) = (registry(folder.path()), folder.path().join("b").display().to_string());
        let (node, said) = serve(folder.path());
        assert!(node.fed(&["job", "apply", "-f", "-"], JOB).status.success());
        assert!(run(&["cluster", "backup", "--registry", &url, &backup]).status.success());
        fs::write(&path, bytes).expect("it is harmed");
        assert_ne!(node.end(), 0, "it ends as one that cannot go on");

        let said = fs::read_to_string(said).expect("it is read");
        let known = ["mkdir", "evenkeel cluster restore"];
        let last = said.lines().last().expect("it says why");
        let named = commands(last, &known);
        let [away, restore] = named[..] else { panic!("{how}: {last}") };
        for verb in [
            &["cluster", "doctor", "--registry", &url][..],
            &["cluster", "backup", "--registry", &url, "-"],
            &["cluster", "restore", "--registry", &url, "--may-repeat-runs", &backup],
            &["serve", "--registry", &url, "--name", "a", "--data", "a", "--port", "0"],
        ] {
            let mut asked = evenkeel(verb);
            let told = text(&asked.current_dir(folder.path()).output().expect("evenkeel starts").stderr);
            assert_eq!(commands(&told, &known), named, "{how}: {verb:?}: {told}");
        }
        for command in [away, &restore.replace("FILE", &backup)] {
            let bin = Path::new(EVENKEEL).parent().expect("a folder").display().to_string();
            let mut shell = Command::new("sh");
            shell.args(["-c", command]).current_dir("/").env("PATH", format!("{bin}:/usr/bin:/bin"));
            let done = shell.output().expect("sh runs");
            assert!(done.status.success(), "{how}: {command}: {}", text(&done.stderr));
        }
        let (node, _) = serve(folder.path());
        assert_eq!(node.json(&["job", "list"])[0]["name"], "j", "{how}");
    }
}

#[test]
fn a_node_whose_data_folder_is_deleted_ends_and_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("a");
    let delete = || fs::rename(&data, folder.path().join("away")).expect("it is gone");
    ends(folder.path(), delete, &["data folder", "was deleted or replaced while in use"]);
    let node = ServerProcess::serve(folder.path(), "b", &[]);
    let events = node.json(&["event", "list", "--kind", "storage_failed"]);
    let why = events[0]["text"].as_str().expect("it is told");
    assert!(why.contains("data folder") && events[0]["node"] == "a", "{events}");
}

/// proves: S0-16
#[test]
fn changes_are_refused_while_the_history_is_damaged_and_the_node_says_why() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, said) = serve(folder.path());
    let ready = || node.raw(&format!("GET /api/v1/ready HTTP/1.1\nHost: {}", node.address), b"");
    assert_eq!(ready().0, 200);
    let history = |more: &str| folder.path().join(format!("registry.db-history{more}"));
    fs::write(history(""), [7_u8; 5_000]).expect("it is written over");
    let applied = node.fed(&["job", "apply", "-f", "-"], JOB);
    assert!(!applied.status.success(), "{}", text(&applied.stdout));
    assert!(text(&applied.stderr).contains("history"), "{}", text(&applied.stderr));
    assert!(node.json(&["job", "list"]).as_array().is_some_and(Vec::is_empty), "nothing was done");
    let (status, why) = until("it says so", || Some(ready()).filter(|(status, _)| *status != 200));
    assert_eq!(status, 503);
    assert!(
        why.contains("was truncated or overwritten while in use") && why.contains("move it away"),
        "{why}"
    );
    let listed = node.json(&["node", "list"]);
    assert!(listed[0]["history"].as_str().is_some_and(|why| why.contains("move it away")), "{listed}");
    assert!(node.ok(&["node", "list"]).contains("online, starts nothing"));

    for name in ["-wal", "-shm", ""] {
        fs::remove_file(history(name)).expect("it is removed");
    }
    until("it goes on", || (ready().0 == 200).then_some(()));
    let applied = node.fed(&["job", "apply", "-f", "-"], JOB);
    assert!(applied.status.success(), "{}", text(&applied.stderr));
    // The event and the outcome are written after the fact.
    until("the event is in the history", || {
        let events = node.json(&["event", "list", "--kind", "storage_failed"]);
        events[0]["text"].as_str().is_some_and(|why| why.contains("move it away")).then_some(())
    });
    until("the outcome is in the audit log", || {
        (node.json(&["audit", "--job", "j"])[0]["outcome"] == "applied").then_some(())
    });
    assert!(fs::read_to_string(said).expect("it is read").contains("no fire is claimed meanwhile"));
}

/// Without its data folder a node does not know that the member of its name is its own earlier life.
#[test]
fn a_killed_node_whose_data_folder_is_gone_joins_once_its_earlier_life_has_no_lease() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &["--ttl", "3s"]);
    node.lose_power();
    fs::remove_dir_all(folder.path().join("a")).expect("it is deleted");
    let said = folder.path().join("said");
    let mut again = ServerProcess::command(folder.path(), "a", &SHORT_LEASE);
    again.env("EVENKEEL_LOG", "warn").stderr(fs::File::create(&said).expect("a file"));
    let node = ServerProcess::start(again.current_dir(folder.path()));
    assert_eq!(node.living().len(), 1);
    let said = fs::read_to_string(said).expect("it is read");
    assert!(said.contains("a living node is already named a") && said.contains("earlier life"), "{said}");

    let (url, elsewhere) = (registry(folder.path()), tempfile::tempdir().expect("a folder"));
    let mut twin = ServerProcess::command(elsewhere.path(), "a", &["--ttl", "2s", "--registry", &url]);
    let refused = twin.output().expect("evenkeel starts");
    let why = text(&refused.stderr);
    assert!(refused.status.code() == Some(1) && why.contains("still was after 3 s: stop it"), "{why}");
    assert!(why.contains("--wait-for-name 2m"), "{why}");
}

/// An earlier life whose lease has a longer term than the new one: its name is waited for as long as is said.
#[test]
fn a_node_waits_for_its_name_as_long_as_it_is_given() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &["--ttl", "8s"]);
    node.lose_power();
    fs::remove_dir_all(folder.path().join("a")).expect("it is deleted");
    let given = ["--ttl", "2s", "--wait-for-name", "1m"];
    let node = ServerProcess::start(&mut ServerProcess::command(folder.path(), "a", &given));
    assert_eq!(node.living().len(), 1);
}

#[test]
fn other_nodes_say_of_a_node_whose_history_takes_no_entries_that_it_starts_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let history = |name: &str| folder.path().join(format!("{name}.db"));
    let serve = |name: &str, more: &[&str]| {
        let place = format!("sqlite:{}", history(name).display());
        ServerProcess::serve(folder.path(), name, &[&["--history", &place], more].concat())
    };
    let (a, b) = (serve("a", &["--label", "gpu"]), serve("b", &[]));
    let job = "[[job]]\nname = \"j\"\nschedule = \"@every 1h\"\nnode_selector = [\"gpu\"]\ncommand = [\"/bin/true\"]\n";
    assert!(b.fed(&["job", "apply", "-f", "-"], job).status.success());
    assert!(!b.ok(&["explain", "job", "j"]).contains("starts nothing"));
    fs::write(history("a"), [7_u8; 5_000]).expect("it is written over");
    assert!(!a.cli(&["job", "pause", "j"]).status.success(), "a change is what it cannot write down");
    until("the explanation says so", || {
        b.ok(&["explain", "job", "j"]).contains("node a starts nothing: history").then_some(())
    });
    let listed = b.cli(&["node", "list"]);
    assert!(text(&listed.stderr).contains("node a starts nothing and refuses changes: history"));
    let nodes = b.json(&["node", "list"]);
    assert!(nodes[0]["history"].is_string() && nodes[1]["history"].is_null(), "{nodes}");
}

/// Whether a change was sent to the registry decides what is said of it.
#[test]
fn a_change_that_a_locked_registry_may_make_later_is_unknown_and_one_that_was_not_sent_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, _) = serve(folder.path());
    assert!(node.fed(&["job", "apply", "-f", "-"], JOB).status.success());
    let registry = rusqlite::Connection::open(folder.path().join("registry.db")).expect("it is opened");
    registry.execute_batch("BEGIN IMMEDIATE").expect("it is locked");
    let of = |verb: &str| {
        let entries = node.json(&["audit", "--job", "j"]);
        let found = entries.as_array().expect("a list").iter().find(|entry| entry["verb"] == verb).cloned();
        found.map(|entry| entry["outcome"].as_str().unwrap_or_default().to_owned()).expect("an entry")
    };
    let sent = node.cli(&["job", "disable", "j"]);
    let said = text(&sent.stderr);
    assert_eq!(sent.status.code(), Some(9), "{said}");
    assert!(said.contains("not known whether this was done") && said.contains("`evenkeel audit`"), "{said}");
    assert_eq!(of("disable"), "unknown");
    let late = node.cli(&["job", "pause", "j"]);
    assert_eq!(late.status.code(), Some(7), "{}", text(&late.stderr));
    assert_eq!(of("pause"), "refused");
    registry.execute_batch("COMMIT").expect("it is free again");
    let outcome = until("it is known", || Some(of("disable")).filter(|outcome| outcome != "unknown"));
    let listed = until("the node is back", || {
        node.json(&["node", "list"]).get(0)?;
        node.json(&["job", "list"]).get(0).cloned()
    });
    assert_eq!(outcome == "applied", listed["disabled"] == true, "{outcome}: {listed}");
    assert_eq!(listed["paused"], false);
}
