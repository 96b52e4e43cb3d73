//! The first minute of a newcomer.

use crate::process::{Node, millis, until};

#[test]
fn five_seconds_after_the_start_the_demo_has_run_and_the_page_shows_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let begun = millis();
    let node = Node::dev(folder.path());
    let shown = until("the page shows a run", || {
        let (status, page) = node.raw(&format!("GET / HTTP/1.1\nHost: {}", node.address), b"");
        assert_eq!(status, 200);
        page.contains("data-state=\"succeeded\"").then_some(page)
    });
    let took = millis() - begun;
    assert!(took < 5_000, "it took {took} ms");
    assert!(shown.contains("demo-hello") && shown.contains("demo-date"), "both demo jobs are shown");
    assert!(node.banner.contains(&format!("console   http://{}/", node.address)), "{}", node.banner);
    assert!(folder.path().join("evenkeel-data").is_dir(), "the data folder is where the banner says");
}

#[test]
fn a_second_start_finds_what_the_first_one_left() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = Node::dev(folder.path());
    node.ok(&["job", "delete", "demo-date"]);
    let run = node.ok(&["job", "run", "demo-hello"]);
    let run = run.lines().next().expect("the run").to_owned();
    node.ok(&["run", "wait", &run]);
    node.signal("INT");
    assert_eq!(node.end(), 0);

    let node = Node::dev(folder.path());
    let jobs = node.json(&["job", "list"]);
    assert_eq!(jobs.as_array().map(Vec::len), Some(1), "a deleted demo job stays deleted: {jobs}");
    assert_eq!(node.ok(&["run", "logs", &run]).split(',').next(), Some("hello from dev"));
}
