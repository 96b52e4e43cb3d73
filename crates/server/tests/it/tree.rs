//! `evenkeel cluster view` against living nodes.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use crate::process::{ServerProcess, text, until};

const SPLIT: &str = r#"
[[job]]
name = "split"
placement = "sharded"
shards = 3
delivery = "at_least_once"
command = ["/bin/sleep", "3600"]

[[job]]
name = "plain"
command = ["/bin/true"]
"#;

/// The entries of a job's tree by their path below the job.
fn tree(node: &ServerProcess, form: &str) -> BTreeMap<String, (String, String)> {
    let found = node.json(&["cluster", "view", "--as", form, "--job", "split"]);
    let word = |entry: &Value, field: &str| entry[field].as_str().expect("a text").to_owned();
    let entries = found.as_array().expect("a list").iter();
    let below = entries.map(|entry| (word(entry, "path"), (word(entry, "kind"), word(entry, "value"))));
    below.map(|(path, rest)| (path.replacen("/evenkeel/split/", "", 1), rest)).collect()
}

fn entry_value(tree: &BTreeMap<String, (String, String)>, path: &str) -> Option<String> {
    tree.get(path).map(|(_, value)| value.clone())
}

fn two(folder: &Path) -> (ServerProcess, ServerProcess) {
    let first = ServerProcess::serve(folder, "a", &["--advertise", "127.0.0.2:7700"]);
    assert!(first.fed(&["job", "apply", "-f", "-"], SPLIT).status.success());
    until("a leads", || entry_value(&tree(&first, "elasticjob-1"), "leader/election/host"));
    let second = ServerProcess::serve(folder, "b", &["--advertise", "127.0.0.3:7700"]);
    until("b is known", || entry_value(&tree(&first, "elasticjob-1"), "servers/127.0.0.3/status"));
    (first, second)
}

/// proves: S2-11, S2-13, S2-56, S3-09
#[test]
fn a_living_job_is_shown_in_either_form_by_any_node() {
    let folder = tempfile::tempdir().expect("a folder");
    let (first, second) = two(folder.path());
    let before = tree(&first, "elasticjob-1");
    assert_eq!(entry_value(&before, "leader/election/host").as_deref(), Some("127.0.0.2"));
    assert_eq!(before["leader/sharding/necessary"].0, "persistent");
    assert_eq!(before["servers/127.0.0.2/status"], ("ephemeral".into(), "READY".into()));
    assert!(!before.contains_key("execution"), "nothing was cut yet");

    first.ok(&["job", "run", "split"]);
    let after = until("all shards run", || {
        let tree = tree(&second, "elasticjob-1");
        (0..3).all(|shard| tree.contains_key(&format!("execution/{shard}/running"))).then_some(tree)
    });
    assert_eq!(entry_value(&after, "servers/127.0.0.2/sharding").as_deref(), Some("0,2"));
    assert_eq!(entry_value(&after, "servers/127.0.0.3/sharding").as_deref(), Some("1"));
    assert_eq!(entry_value(&after, "servers/127.0.0.3/status").as_deref(), Some("RUNNING"));
    assert!(!after.contains_key("leader/sharding/necessary"));
    for part in ["config", "execution", "leader", "servers"] {
        assert!(after.contains_key(part), "{part}");
    }

    let later = tree(&second, "elasticjob-3");
    let leader = entry_value(&later, "leader/election/instance").expect("a leader");
    let number = leader.strip_prefix("127.0.0.2@-@").expect("address and number");
    assert!(number.parse::<u64>().is_ok(), "{leader}");
    assert_eq!(entry_value(&later, "sharding/2/instance"), Some(leader.clone()));
    assert_eq!(entry_value(&later, "sharding/2/running"), Some(leader.clone()));
    assert!(later.contains_key(&format!("instances/{leader}")));
    assert!(entry_value(&later, "sharding/1/running").is_some_and(|id| id.starts_with("127.0.0.3@-@")));

    switches_are_shown(&first, &second);

    let shown = first.ok(&["cluster", "view", "--as", "elasticjob-1"]);
    assert!(shown.starts_with("/evenkeel/split  [P] = ''\n/evenkeel/split/config  [P] = ''\n"), "{shown}");
    assert!(!shown.contains("plain"), "only sharded jobs have a tree");

    let more = SPLIT.replace("shards = 3", "shards = 5");
    assert!(first.fed(&["job", "apply", "-f", "-"], &more).status.success());
    let marked = until("the number is seen to have changed", || {
        let tree = tree(&second, "elasticjob-1");
        let both = ["leader/execution/necessary", "leader/sharding/necessary"];
        both.iter().all(|path| tree.contains_key(*path)).then_some(tree)
    });
    assert!(!marked.contains_key("execution/3"), "not before the next cut");
}

/// Switches b and a shard of it, each way, and finds that in its place.
fn switches_are_shown(first: &ServerProcess, second: &ServerProcess) {
    let is = |path: &str| {
        let form = if path.starts_with("sharding/") { "elasticjob-3" } else { "elasticjob-1" };
        tree(second, form).contains_key(path)
    };
    for (on, off, path) in [
        (["job", "pause"], ["job", "resume"], "servers/127.0.0.3/paused"),
        (["job", "disable"], ["job", "enable"], "servers/127.0.0.3/disabled"),
    ] {
        for (verb, set) in [(on, true), (off, false)] {
            first.ok(&[&verb[..], &["split", "--node", "b"]].concat());
            until(path, || (is(path) == set).then_some(()));
            assert!(!is(&path.replace("0.3", "0.2")), "the other node is left alone");
        }
    }
    for (verb, set) in [("disable", true), ("enable", false)] {
        first.ok(&["shard", verb, "split", "1"]);
        until("the shard is switched", || (is("sharding/1/disabled") == set).then_some(()));
    }
}

#[test]
fn what_has_no_tree_is_refused_with_what_has() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    let nothing = node.ok(&["cluster", "view", "--as", "elasticjob-3"]);
    assert_eq!(nothing, "no job is sharded\n");
    assert!(node.fed(&["job", "apply", "-f", "-"], SPLIT).status.success());
    for (code, form, job) in [
        (2, "zk", "split"),
        (4, "elasticjob-1", "nobody"),
        (6, "elasticjob-1", "plain"),
        (0, "elasticjob-3", "split"),
    ] {
        let output = node.cli(&["cluster", "view", "--as", form, "--job", job]);
        assert_eq!(output.status.code(), Some(code), "{form} {job}: {}", text(&output.stderr));
        if code == 2 {
            let said = text(&output.stderr);
            assert!(said.contains("elasticjob-1") && said.contains("elasticjob-3"), "{said}");
        }
    }
    let host = node.address;
    let (status, said) = node.raw(&format!("GET /api/v1/cluster/view?as=zk HTTP/1.1\nHost: {host}"), b"");
    assert!(status == 400 && said.contains("use one of elasticjob-1, elasticjob-3"), "{status} {said}");
    let (status, said) = node.raw(&format!("GET /api/v1/cluster/view HTTP/1.1\nHost: {host}"), b"");
    assert!(status == 400 && said.contains("use one of elasticjob-1, elasticjob-3"), "{status} {said}");
}

#[test]
fn all_sharded_jobs_are_shown_however_many_there_are() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    let job =
        |n: u32| SPLIT.replace("split", &format!("split-{n:02}")).replace("plain", &format!("plain-{n:02}"));
    let jobs: String = (0..45).map(job).collect();
    assert!(node.fed(&["job", "apply", "-f", "-"], &jobs).status.success());
    let found = node.json(&["cluster", "view", "--as", "elasticjob-3"]);
    let paths = found.as_array().expect("a list").iter().filter_map(|entry| entry["path"].as_str());
    let roots: Vec<&str> = paths.filter(|path| path.matches('/').count() == 2).collect();
    let wanted: Vec<String> = (0..45).map(|n| format!("/evenkeel/split-{n:02}")).collect();
    assert_eq!(roots, wanted);
}

/// The entries of the whole cluster by their path.
fn whole(node: &ServerProcess, args: &[&str]) -> BTreeMap<String, (String, String)> {
    let found = node.json(&[&["cluster", "view"], args].concat());
    let word = |entry: &Value, field: &str| entry[field].as_str().expect("a text").to_owned();
    let entries = found.as_array().expect("a list").iter();
    entries.map(|entry| (word(entry, "path"), (word(entry, "kind"), word(entry, "value")))).collect()
}

/// proves: S1-34, S1-37
#[test]
fn a_living_cluster_is_shown_as_siatask_keeps_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &["--advertise", "127.0.0.2:7700", "--alarm", "7"]);
    let scheduler = "/evenkeel/Scheduler/127.0.0.2:7700";
    let says = |value: &str| ("ephemeral".to_owned(), value.to_owned());
    let before = whole(&node, &["--as", "siatask"]);
    assert_eq!(before[scheduler], says(r#"{"ALARM_JOB_NUM":7,"MAX_JOB_NUM":1,"MY_JOB_NUM":0}"#));
    let jobs = "[[job]]\nname = \"slow\"\ncommand = [\"/bin/sleep\", \"3600\"]\n\n\
                [[job]]\nname = \"idle\"\ncommand = [\"/bin/true\"]\n";
    assert!(node.fed(&["job", "apply", "-f", "-"], jobs).status.success());
    until("both are held", || {
        let tree = whole(&node, &["--as", "siatask"]);
        (tree[scheduler] == says(r#"{"ALARM_JOB_NUM":7,"MAX_JOB_NUM":3,"MY_JOB_NUM":2}"#)).then_some(())
    });
    node.ok(&["job", "run", "slow"]);
    let tree = until("it runs", || {
        let tree = whole(&node, &["--as", "siatask", "--job", "slow"]);
        (tree["/evenkeel/Job/default/slow"].1 == "running").then_some(tree)
    });
    assert_eq!(tree["/evenkeel/Job/default/slow/127.0.0.2:7700"], says(""));
    assert!(!tree.contains_key("/evenkeel/Job/default/idle"), "only that job's");
    node.ok(&["node", "drain", "a", "--force"]);
    until("it is to give them up", || {
        let tree = whole(&node, &["--as", "siatask"]);
        let idle_is_free = !tree.contains_key("/evenkeel/Job/default/idle/127.0.0.2:7700");
        let listed = tree.contains_key("/evenkeel/Offline/127.0.0.2:7700");
        let kept = tree.get("/evenkeel/JobTransfer/slow").is_some_and(|from| from.1 == "127.0.0.2:7700");
        (idle_is_free && listed && kept).then_some(())
    });
    assert_eq!(node.cli(&["cluster", "view", "--as", "siatask", "--job", "nobody"]).status.code(), Some(4));
}

#[test]
fn a_living_cluster_is_shown_in_the_tables_of_keeper_and_as_azkaban_keeps_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &["--advertise", "127.0.0.2:7700", "--slots", "5"]);
    let row = |tree: &BTreeMap<String, (String, String)>, path: &str| {
        serde_json::from_str::<Value>(&tree.get(path)?.1).ok()
    };
    let keeper = |path: &str| row(&whole(&node, &["--as", "keeper"]), path);
    let a = until("history knows when it joined", || {
        keeper("/evenkeel/nodes/127.0.0.2:7700").filter(|row| row["online_time"].is_string())
    });
    let wanted = serde_json::json!(["a", "127.0.0.2", 7700, "online", 5, 0]);
    let columns = ["name", "ip", "port", "status", "executors", "disconnection"].map(|name| a[name].clone());
    assert_eq!(Value::from(columns.to_vec()), wanted);
    let job = "[[job]]\nname = \"slow\"\nschedule = \"@every 1h\"\ncommand = [\"/bin/sleep\", \"3600\"]\n";
    assert!(node.fed(&["job", "apply", "-f", "-"], job).status.success());
    let run = node.json(&["job", "run", "slow"])["run"].as_str().expect("a run").to_owned();
    let task = format!("/evenkeel/tasks/{run}");
    let task = until("it runs", || keeper(&task).filter(|row| row["status"] == "executing"));
    assert_eq!((task["job"].as_str(), task["node"].as_str()), (Some("slow"), Some("127.0.0.2:7700")));

    let azkaban = |path: &str| row(&whole(&node, &["--as", "azkaban"]), path).expect("a row");
    assert_eq!(azkaban("/evenkeel/projects/slow")["version"], 1);
    assert_eq!(azkaban("/evenkeel/triggers/slow")["status"], "READY");
    assert_eq!(azkaban("/evenkeel/executors/127.0.0.2:7700")["active"], true);
    node.ok(&["job", "pause", "slow"]);
    until("its version has risen", || {
        let trigger = azkaban("/evenkeel/triggers/slow");
        (trigger["status"] == "PAUSED" && trigger["version"] == 2).then_some(())
    });
}
