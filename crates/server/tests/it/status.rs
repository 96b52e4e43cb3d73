//! `cluster status`: the cluster on one page.

use crate::process::{ServerProcess, text, until};

const JOBS: &str = r#"
[[job]]
name = "long"
schedule = "0 0 1 1 *"
command = ["sleep", "3600"]

[[job]]
name = "soon"
schedule = "@every 1h"
command = ["true"]

[[job]]
name = "nowhere"
schedule = "@every 1h"
command = ["true"]
node_selector = ["gpu"]
"#;

#[test]
fn the_cluster_is_on_one_page_and_the_exit_code_says_how_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    assert!(node.fed(&["job", "apply", "-f", "-"], JOBS).status.success());
    let page = until("the job that no node fits needs a person", || {
        let page = node.ok(&["cluster", "status"]);
        page.contains("unschedulable").then_some(page)
    });
    for part in
        ["ok, 1 of 1 nodes online", "sqlite", "last day", "next hour  1 fire of", "lateness", "nowhere"]
    {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(!page.contains('\u{1b}'), "a pipe has no colours: {page}");
    let whole = node.json(&["cluster", "status"]);
    assert_eq!(whole["verdict"], "ok", "{whole}");
    for key in ["health", "nodes", "attention", "settings", "last_day", "next_hour"] {
        assert!(whole[key].is_object(), "{key}: {whole}");
    }
    let other = ServerProcess::serve(folder.path(), "b", &["--ttl", "10m"]);
    until("both are online", || (node.living().len() == 2).then_some(()));
    other.signal("STOP");
    let said = until("the silent node is missed", || {
        let said = node.cli(&["cluster", "status"]);
        (!said.status.success()).then_some(said)
    });
    other.signal("CONT");
    assert_eq!(said.status.code(), Some(1), "{}", text(&said.stderr));
    assert!(
        text(&said.stdout).contains("degraded") && text(&said.stdout).contains("b: "),
        "{}",
        text(&said.stdout)
    );
}
