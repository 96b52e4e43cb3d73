//! A folder of odd schedules: what a preview and a plan say of them, to be read by eye, and that the preview is what fires.

use serde_json::Value;

use crate::process::{ServerProcess, text, until};

/// A node with the odd schedules.
fn odd(folder: &std::path::Path) -> ServerProcess {
    let node = ServerProcess::serve(folder, "a", &[]);
    node.ok(&["job", "apply", "-f", &file("odd.toml")]);
    node
}

fn file(name: &str) -> String {
    format!("{}/tests/it/schedules/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn a_preview_says_what_is_odd_about_each() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = odd(folder.path());
    let jobs = node.json(&["job", "list"]);
    let mut shown = String::new();
    for job in jobs.as_array().expect("a list") {
        let [name, schedule, zone] =
            ["name", "schedule", "timezone"].map(|field| job[field].as_str().expect("a text"));
        let fires =
            node.ok(&["job", "next", name, "--count", "4", "--tz", zone, "--from", "2099-01-01T00:00:00Z"]);
        shown.push_str(&format!("{name}: {schedule} in {zone}\n{fires}\n"));
    }
    insta::assert_snapshot!("odd schedules", shown);
}

#[test]
fn a_plan_says_what_edits_of_them_do() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = odd(folder.path());
    let plan = node.cli(&["apply", "--plan", "-v", "-f", &file("edited.toml")]);
    insta::assert_snapshot!("plan of odd schedules", text(&plan.stdout));
}

/// proves: S1-47
#[test]
fn what_is_previewed_is_what_fires() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    let job = "[[job]]\nname = \"mixed\"\nschedule = [\"*/4 * * * * *\", \"@every 3s offset 1s\", \"H/5 * * * * *\"]\n\
               timezone = \"Asia/Kathmandu\"\ncommand = [\"true\"]\n";
    let applied = node.fed(&["job", "apply", "-f", "-"], job);
    assert!(applied.status.success(), "{}", text(&applied.stderr));
    let previewed = node.json(&["job", "next", "mixed", "--count", "6"]);
    let previewed: Vec<&str> =
        previewed.as_array().expect("a list").iter().filter_map(Value::as_str).collect();
    let last = previewed[5];
    let fired = until("the last of them has fired", || {
        let rows = node.json(&["run", "list", "--job", "mixed"]);
        let mut dues: Vec<String> =
            rows.as_array()?.iter().filter_map(|row| row["due"].as_str().map(str::to_owned)).collect();
        dues.sort_unstable();
        dues.iter().any(|due| due.as_str() >= last).then_some(dues)
    });
    let fired: Vec<&str> =
        fired.iter().map(String::as_str).filter(|due| (previewed[0]..=last).contains(due)).collect();
    assert_eq!(fired, previewed);
}
