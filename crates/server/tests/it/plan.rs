//! `--plan`: what would come and go is shown, and nothing is done.

use serde_json::Value;

use crate::process::{ServerProcess, text};

const BEFORE: &str = r#"
[[calendar]]
name = "freeze"

[[job]]
name = "report"
schedule = ["at 2099-01-01T06:00:00Z", "at 2099-01-02T06:00:00Z"]
command = ["/bin/true"]

[[job]]
name = "deploy"
schedule = ["at 2099-02-01T06:00:00Z", "at 2099-02-02T06:00:00Z"]
exclude_calendars = ["freeze"]
command = ["/bin/true"]
"#;

/// The report comes a day later, the freeze closes a day, and there is a job more.
const AFTER: &str = r#"
[[calendar]]
name = "freeze"
days = ["2099-02-01"]

[[job]]
name = "report"
schedule = ["at 2099-01-02T06:00:00Z", "at 2099-01-03T06:00:00Z"]
command = ["/bin/true"]

[[job]]
name = "clean"
schedule = "at 2099-03-01T00:00:00Z"
command = ["/bin/true"]
"#;

fn planned(node: &ServerProcess, file: &str) -> Value {
    let told = node.fed(&["job", "apply", "--plan", "-o", "json", "-f", "-"], file);
    assert!(told.status.success(), "{}", text(&told.stderr));
    serde_json::from_slice(&told.stdout).expect("JSON")
}

/// The fires that a plan adds, or those that it drops.
fn fires<'a>(plan: &'a Value, job: &str, fate: &str) -> Vec<&'a str> {
    let plans = plan.as_array().expect("a list");
    let plan = plans.iter().find(|plan| plan["name"] == job).expect("the job is planned");
    let changes = plan["changes"].as_array().expect("a list").iter();
    changes.filter(|change| change["fate"] == fate).filter_map(|change| change["due"].as_str()).collect()
}

#[test]
fn a_plan_shows_what_an_edit_does_to_fires_and_does_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    let applied = node.fed(&["job", "apply", "-f", "-"], BEFORE);
    assert!(applied.status.success(), "{}", text(&applied.stderr));

    let plan = planned(&node, AFTER);
    assert_eq!(fires(&plan, "report", "dropped"), ["2099-01-01T06:00:00.000Z"]);
    assert_eq!(fires(&plan, "report", "added"), ["2099-01-03T06:00:00.000Z"]);
    assert_eq!(fires(&plan, "clean", "added"), ["2099-03-01T00:00:00.000Z"]);
    assert_eq!(fires(&plan, "deploy", "dropped"), ["2099-02-01T06:00:00.000Z"], "its calendar changes");
    let told = node.fed(&["job", "apply", "--plan", "-f", "-"], AFTER);
    let told = text(&told.stdout);
    assert!(told.contains("report  updated: schedule\n  - "), "{told}");
    assert!(told.contains("1 fire stays as it is until"), "{told}");
    assert!(told.contains("clean  created\n  + "), "{told}");
    assert!(told.contains("deploy  is under a calendar that changes\n  - "), "{told}");
    assert!(told.ends_with("nothing was changed: leave out --plan to do it\n"), "{told}");

    assert_eq!(node.json(&["job", "show", "report"])["version"], 1);
    assert_eq!(node.cli(&["job", "show", "clean"]).status.code(), Some(4));
    assert_eq!(node.json(&["calendar", "show", "freeze"])["version"], 1);

    let applied = node.fed(&["job", "apply", "-f", "-"], AFTER);
    assert!(applied.status.success(), "{}", text(&applied.stderr));
    let next = |job: &str| node.json(&["job", "next", job]);
    assert_eq!(next("report"), serde_json::json!(["2099-01-02T06:00:00.000Z", "2099-01-03T06:00:00.000Z"]));
    assert_eq!(next("deploy"), serde_json::json!(["2099-02-02T06:00:00.000Z"]));
    assert_eq!(planned(&node, AFTER)[0]["becomes"], "unchanged");
}

#[test]
fn what_follows_runs_is_planned_as_if_they_took_no_time_and_the_plan_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    let plan = planned(&node, "[[job]]\nname = \"rests\"\nschedule = \"@after 10m\"\ncommand = [\"true\"]\n");
    let notes = plan[0]["notes"].to_string();
    assert!(notes.contains("shown as if runs took no time"), "{notes}");
    assert_eq!(fires(&plan, "rests", "added").len(), 10);
}

#[test]
fn a_plan_of_a_resume_shows_what_comes_and_one_of_a_paused_job_that_nothing_does() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    node.fed(&["job", "apply", "-f", "-"], BEFORE);
    node.ok(&["job", "pause", "report"]);
    let told = node.fed(&["job", "apply", "--plan", "-f", "-"], AFTER);
    let told = text(&told.stdout);
    assert!(told.contains("report  updated: schedule\n  it is paused: it fires only by hand"), "{told}");
    let told = node.ok(&["job", "resume", "report", "--plan"]);
    assert!(
        told.starts_with("report  resumed\n  + ") && told.contains("what was due before is not made up"),
        "{told}"
    );
    assert_eq!(node.json(&["job", "show", "report"])["paused"], true);
    let absent = node.cli(&["job", "resume", "nobody", "--plan"]);
    assert_eq!(absent.status.code(), Some(4));
    let refused = node.fed(
        &["job", "apply", "--plan", "-f", "-"],
        "[[job]]\nname = \"x\"\nschedule = \"@daily\"\nexclude_calendars = [\"none\"]\ncommand = [\"/bin/true\"]\n",
    );
    assert_eq!(refused.status.code(), Some(6));
    assert!(text(&refused.stderr).contains("there is no calendar none"), "{}", text(&refused.stderr));
}
