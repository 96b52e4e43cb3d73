//! Several nodes on one host: one registry, any of them answers for all.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use crate::process::{EVENKEEL, STATE_HOME, ServerProcess, evenkeel, text, until};

const SLOW: &str =
    "[[job]]\nname = \"slow\"\ncommand = [\"/bin/sh\", \"-c\", \"echo begun; exec sleep 3600\"]\n";

/// Two nodes and a run that is under way on the first one.
fn two(folder: &Path) -> (ServerProcess, ServerProcess, String) {
    let first = ServerProcess::serve(folder, "a", &[]);
    assert!(first.fed(&["job", "apply", "-f", "-"], SLOW).status.success());
    until("a holds it", || (first.json(&["job", "list"])[0]["owner"] == "a").then_some(()));
    let second = ServerProcess::serve(folder, "b", &[]);
    until("both see both", || {
        let two = |node: &ServerProcess| node.json(&["node", "list"]).as_array().map(Vec::len) == Some(2);
        (two(&first) && two(&second)).then_some(())
    });
    let run = first.json(&["job", "run", "slow"])["run"].as_str().expect("a run").to_owned();
    until("it runs", || {
        let runs = second.json(&["run", "list", "--state", "running"]);
        (runs[0]["node"] == "a").then_some(())
    });
    (first, second, run)
}

/// proves: S0-05
#[test]
fn a_node_on_another_registry_is_no_member_and_gets_no_work() {
    let [folder, elsewhere] = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
    let (member, stranger) =
        (ServerProcess::serve(folder.path(), "a", &[]), ServerProcess::serve(elsewhere.path(), "b", &[]));
    assert!(member.fed(&["job", "apply", "-f", "-"], SLOW).status.success());
    until("a holds it", || (member.json(&["job", "list"])[0]["owner"] == "a").then_some(()));
    let names = |node: &ServerProcess| -> Vec<String> {
        let rows = node.json(&["node", "list"]);
        rows.as_array().expect("a list").iter().map(|row| row["name"].to_string()).collect()
    };
    assert_eq!((names(&member), names(&stranger)), (vec!["\"a\"".into()], vec!["\"b\"".into()]));
    assert_eq!(stranger.json(&["job", "list"]), serde_json::json!([]));
}

/// proves: S0-07, S0-20
#[test]
fn any_node_answers_for_a_run_of_another_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let (first, second, run) = two(folder.path());
    assert_ne!(first.address.port(), second.address.port());
    until("its output is read through the other node", || {
        (text(&second.cli(&["run", "logs", &run]).stdout) == "begun\n").then_some(())
    });
    let mut following = second.client(&["run", "logs", "--follow", &run]);
    let following = following.stdout(Stdio::piped()).spawn().expect("evenkeel starts");
    second.ok(&["run", "kill", &run]);
    let output = following.wait_with_output().expect("it ends with the run");
    assert!(output.status.success());
    assert_eq!(text(&output.stdout), "begun\n");
    let waited = second.cli(&["run", "wait", &run]);
    assert!(text(&waited.stdout).starts_with("killed"), "{}", text(&waited.stdout));
    let again = second.cli(&["run", "kill", &run]);
    assert_eq!(again.status.code(), Some(6), "{}", text(&again.stderr));
}

#[test]
fn a_polite_end_hands_over_at_once_and_a_second_signal_does_not_wait() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = ServerProcess::serve(folder.path(), "a", &[]);
    let idle = SLOW.replace("slow", "idle");
    assert!(first.fed(&["job", "apply", "-f", "-"], &idle).status.success());
    until("a holds it", || (first.json(&["job", "list"])[0]["owner"] == "a").then_some(()));
    let second = ServerProcess::serve(folder.path(), "b", &[]);
    first.signal("TERM");
    assert_eq!(first.end(), 0);
    until("b took it over", || (second.json(&["job", "list"])[0]["owner"] == "b").then_some(()));
    until("a has left", || (second.living().len() == 1).then_some(()));

    let run = second.json(&["job", "run", "idle"])["run"].as_str().expect("a run").to_owned();
    until("it runs", || {
        (second.json(&["run", "show", &run])["attempts"][0]["state"] == "running").then_some(())
    });
    second.signal("TERM");
    until("it hands over and waits for the run", || {
        let (status, answer) =
            second.raw(&format!("GET /api/v1/ready HTTP/1.1\nHost: {}", second.address), b"");
        (status == 503 && answer.contains("leaving")).then_some(())
    });
    second.signal("TERM");
    assert_eq!(second.end(), 0);
}

/// proves: S0-04
#[test]
fn a_node_from_another_folder_is_warned_about() {
    let folder = tempfile::tempdir().expect("a folder");
    let _first = ServerProcess::serve(folder.path(), "a", &[]);
    // Linked, not copied: a file that was just written may still be open in a child of another test.
    let elsewhere =
        tempfile::tempdir_in(Path::new(EVENKEEL).parent().expect("its folder")).expect("a folder");
    let copy = elsewhere.path().join("evenkeel");
    fs::hard_link(EVENKEEL, &copy).expect("a link");
    let log = folder.path().join("b.log");
    let mut moved = std::process::Command::new(&copy);
    moved
        .args(ServerProcess::command(folder.path(), "b", &[]).get_args())
        .env_clear()
        .env("EVENKEEL_COMMAND_USERS", "any")
        .env("XDG_STATE_HOME", STATE_HOME)
        .stderr(fs::File::create(&log).expect("a file"));
    let _second = ServerProcess::start(&mut moved);
    until("it is said", || {
        let said = fs::read_to_string(&log).ok()?;
        (said.contains("node a is installed in") && said.contains("same folder")).then_some(())
    });
}

#[test]
fn settings_come_from_the_file_the_environment_and_flags_in_this_order() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).display().to_string();
    let file = format!(
        "registry = \"sqlite:{}\"\nname = \"from-file\"\nport = 0\ndata = \"{}\"\nttl = \"30s\"\nalarm = 7\ntolerance = 3\n",
        at("registry.db"),
        at("data")
    );
    fs::write(at("settings.toml"), file).expect("written");
    let mut command = evenkeel(&["serve", "--config", &at("settings.toml"), "--name", "from-flag"]);
    let node = ServerProcess::start(command.env("EVENKEEL_NAME", "from-env").env("EVENKEEL_ALARM", "8"));
    let row = until("it is a member", || node.json(&["node", "list"]).get(0).cloned());
    assert_eq!((row["name"].as_str(), row["alarm"].as_u64()), (Some("from-flag"), Some(8)));
}

/// proves: S0-07, S0-09, S0-18
#[test]
fn three_nodes_of_one_host_find_each_other_by_the_registry_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = ServerProcess::serve(folder.path(), "a", &[]);
    let jobs: String = (0..9).map(|n| SLOW.replace("slow", &format!("idle-{n}"))).collect();
    assert!(first.fed(&["job", "apply", "-f", "-"], &jobs).status.success());
    let owns = |node: &str| {
        let jobs = first.json(&["job", "list"]);
        jobs.as_array()?.iter().find(|job| job["owner"] == node)?["name"].as_str().map(str::to_owned)
    };
    until("a holds some", || owns("a"));
    // Nothing that a node is told names another one: the registry is all they have in common.
    let second = ServerProcess::serve(folder.path(), "b", &[]);
    let third = ServerProcess::serve(folder.path(), "c", &[]);
    let jobs = ["a", "b", "c"].map(|node| until("each has work", || owns(node)));
    let nodes = [&first, &second, &third];
    for node in nodes {
        until("it sees all three", || (node.json(&["node", "list"]).as_array()?.len() == 3).then_some(()));
    }
    for (job, next) in jobs.iter().zip([&second, &third, &first]) {
        let run = next.json(&["job", "run", job])["run"].as_str().expect("a run").to_owned();
        until("its output is read through another node", || {
            (text(&next.cli(&["run", "logs", &run]).stdout) == "begun\n").then_some(())
        });
        next.ok(&["run", "kill", &run]);
    }
}
