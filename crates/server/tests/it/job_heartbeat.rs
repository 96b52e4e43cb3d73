//! Heartbeats of jobs, as their monitor gets them.

use crate::collector::server;
use crate::process::{PATIENCE, ServerProcess};

#[test]
fn a_monitor_gets_a_request_after_each_success_and_none_after_a_failure() {
    let folder = tempfile::tempdir().expect("a folder");
    let (monitor, requests) = server();
    let node = ServerProcess::serve(folder.path(), "a", &["--http-allow", "127.0.0.1"]);
    let job = |name: &str, program: &str, more: &str| {
        format!(
            "[[job]]\nname = \"{name}\"\ncommand = [\"/bin/sh\", \"-c\", \"{program}\"]\n\
             notify = {{ heartbeat = \"http://{monitor}/ping/{name}\" }}\n{more}\n"
        )
    };
    let marks = folder.path().join("once");
    let once = format!("test -e {0} || {{ touch {0}; exit 1; }}", marks.display());
    let jobs = job("bad", "exit 1", "")
        + &job("good", "true", "")
        + &job("second", &once, "retry = { max_retries = 1, delay = \"1s\" }");
    let applied = node.fed(&["job", "apply", "-f", "-"], &jobs);
    assert!(applied.status.success(), "{}", String::from_utf8_lossy(&applied.stderr));
    for (name, is_good) in [("bad", false), ("second", true), ("good", true)] {
        let run = node.json(&["job", "run", name])["run"].as_str().expect("a run").to_owned();
        assert_eq!(node.cli(&["run", "wait", &run]).status.success(), is_good, "{name}");
    }
    let mut asked: Vec<String> = Vec::new();
    while asked.len() < 2 {
        let (head, _) = requests.recv_timeout(PATIENCE).expect("a heartbeat");
        asked.push(head.lines().next().expect("a line").to_owned());
    }
    asked.sort();
    assert_eq!(asked, ["GET /ping/good HTTP/1.1", "GET /ping/second HTTP/1.1"]);
    assert!(requests.try_recv().is_err(), "a third heartbeat");
}
