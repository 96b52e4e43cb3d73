//! The first minute of a newcomer.

use crate::process::{ServerProcess, evenkeel, millis, run, text, until};

#[test]
fn after_the_start_the_demo_runs_and_the_page_shows_it() {
    first_run();
}

#[test]
#[ignore = "soak: it measures a time"]
fn five_seconds_after_the_start_the_demo_has_run_and_the_page_shows_it() {
    // A machine may stand still for a moment, but not each time.
    let took: Vec<i64> = (0..20).map(|_| first_run()).take_while(|took| *took >= 5_000).collect();
    assert!(took.len() < 20, "it took {took:?} ms");
}

/// How long it takes from the start until the page shows that a demo job has run, in milliseconds.
fn first_run() -> i64 {
    let folder = tempfile::tempdir().expect("a folder");
    let begun = millis();
    let node = ServerProcess::dev(folder.path());
    let shown = until("the page shows a run", || {
        let (status, page) = node.raw(&format!("GET /plain HTTP/1.1\nHost: {}", node.address), b"");
        assert_eq!(status, 200);
        page.contains("data-state=\"succeeded\"").then_some(page)
    });
    let took = millis() - begun;
    assert!(shown.contains("demo-hello") && shown.contains("demo-date"), "both demo jobs are shown");
    assert!(
        node.banner.contains(&format!("console   http://{}/login?code=", node.address)),
        "{}",
        node.banner
    );
    assert!(folder.path().join("evenkeel-data").is_dir(), "the data folder is where the banner says");
    took
}

#[test]
fn a_second_start_finds_what_the_first_one_left() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::dev(folder.path());
    node.ok(&["job", "delete", "demo-date"]);
    let run = node.ok(&["job", "run", "demo-hello"]);
    let run = run.lines().next().expect("the run").to_owned();
    node.ok(&["run", "wait", &run]);
    node.signal("INT");
    assert_eq!(node.end(), 0);

    let node = ServerProcess::dev(folder.path());
    let jobs = node.json(&["job", "list"]);
    assert_eq!(jobs.as_array().map(Vec::len), Some(1), "a deleted demo job stays deleted: {jobs}");
    assert_eq!(node.ok(&["run", "logs", &run]).split(',').next(), Some("hello from dev"));
}

#[test]
fn a_folder_or_port_that_cannot_be_had_is_said_with_the_fix() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    std::fs::write(&file, "not a folder").expect("written");
    let output = run(&["dev", "--port", "0", "--data", &file.join("data").display().to_string()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("choose another --data"), "{}", text(&output.stderr));

    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port().to_string();
    let output =
        evenkeel(&["dev", "--port", &port]).current_dir(folder.path()).output().expect("evenkeel starts");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("choose another --port"), "{}", text(&output.stderr));

    let output = evenkeel(&["dev", "--port", "0", "--http-allow", "lan"])
        .current_dir(folder.path())
        .output()
        .expect("evenkeel starts");
    assert_ne!(output.status.code(), Some(0));
    let said = text(&output.stderr);
    assert!(said.contains("--http-allow: \"lan\" is no network"), "{said}");
}

#[test]
fn a_request_to_this_host_is_made_once_its_network_is_allowed() {
    let folder = tempfile::tempdir().expect("a folder");
    for (flags, state) in [(&[][..], "failed"), (&["--http-allow", "127.0.0.1"][..], "succeeded")] {
        let node = ServerProcess::dev_with(folder.path(), flags);
        let url = format!("http://{}/", node.address);
        let job = format!("[[job]]\nname = \"self\"\nhttp = {{ url = \"{url}\" }}\n");
        let applied = node.fed(&["job", "apply", "-f", "-"], &job);
        assert!(applied.status.success(), "{}", text(&applied.stderr));
        let run = node.ok(&["job", "run", "self"]);
        let run = run.lines().next().expect("the run").to_owned();
        node.cli(&["run", "wait", &run]);
        let shown = node.json(&["run", "show", &run]);
        assert_eq!(shown["attempts"][0]["state"], state, "{shown}");
        node.signal("INT");
        assert_eq!(node.end(), 0);
    }
}
