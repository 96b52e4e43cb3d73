//! Manual runs with parameters, on real nodes.

use serde_json::{Value, json};

use crate::process::{ServerProcess, text};

const JOB: &str = r#"
[[job]]
name = "j"
command = "echo \"$day $region\"; test $day != 2026-01-01"
shell = true

[job.parameters.day]
type = "date"
description = "the day to import"

[job.parameters.region]
default = "eu"
allowed = ["eu", "us"]
"#;

fn apply(node: &ServerProcess, jobs: &str) -> (bool, String) {
    let applied = node.fed(&["job", "apply", "-f", "-"], jobs);
    (applied.status.success(), text(&applied.stderr))
}

/// Runs the job with these values and waits for its end; returns its output.
fn ran(node: &ServerProcess, arguments: &[&str]) -> (String, String) {
    let answer = node.json(&[&["job", "run", "j"], arguments].concat());
    let run = answer["run"].as_str().expect("a run").to_owned();
    node.cli(&["run", "wait", &run]);
    let log = node.ok(&["run", "logs", &run]).trim().to_owned();
    (run, log)
}

/// proves: I24
#[test]
fn a_run_gets_checked_values_that_are_shown_audited_and_kept_for_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    let (applied, why) = apply(&node, JOB);
    assert!(applied, "{why}");
    let (run, log) = ran(&node, &["--request", "first", "--param", "day=2026-01-31"]);
    assert_eq!(log, "2026-01-31 eu");
    assert_eq!(ran(&node, &["--param", "day=2026-02-28", "--param", "region=us"]).1, "2026-02-28 us");
    let shown = node.json(&["run", "show", &run]);
    assert_eq!(shown["parameters"], json!({ "day": "2026-01-31", "region": "eu" }));
    let table = node.ok(&["run", "show", &run]);
    assert!(table.contains(r#"parameters: day="2026-01-31", region="eu""#), "{table}");
    let audit = node.ok(&["audit", "--job", "j", "-o", "json"]);
    assert!(audit.contains(r#"request first, with day=\"2026-01-31\""#), "{audit}");

    // The same request again is the same run, whatever it says.
    let again = node.json(&["job", "run", "j", "--request", "first", "--param", "day=2026-03-01"]);
    assert_eq!((again["run"].as_str(), again["applied"].as_str()), (Some(run.as_str()), Some("unchanged")));
    // A restart has the values of the run, also where the job has other defaults by then.
    let edited = JOB.replace("default = \"eu\"", "default = \"us\"");
    assert!(apply(&node, &edited).0);
    let restarted = node.json(&["run", "restart", &run]);
    let restarted = restarted["run"].as_str().expect("a run");
    node.ok(&["run", "wait", restarted]);
    assert_eq!(node.ok(&["run", "logs", restarted]).trim(), "2026-01-31 eu");
    assert_eq!(node.json(&["run", "show", restarted])["parameters"]["region"], "eu");
}

#[test]
fn values_and_declarations_that_are_wrong_are_refused_with_the_fix() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    assert!(apply(&node, JOB).0);
    for (arguments, why) in [
        (&[][..], "job j needs the parameter day, a day, as 2026-01-31: give it, as `--param day=VALUE`"),
        (&["--param", "dya=2026-01-31"], "job j has no parameter \"dya\": did you mean \"day\"?"),
        (&["--param", "nothing-like-it=1"], "it has day, region"),
        (&["--param", "day=yesterday"], "it takes a day, as 2026-01-31"),
        (&["--param", "day=2026-01-31", "--param", "region=asia"], "allowed are \"eu\", \"us\""),
        (&["--param", "day"], "write the parameter's name, = and its value"),
        (&["--param", "day=2026-01-31", "--param", "day=2026-01-31"], "is given twice"),
    ] {
        let refused = node.cli(&[&["job", "run", "j"], arguments].concat());
        let said = text(&refused.stderr);
        assert!(!refused.status.success() && said.contains(why), "{arguments:?}: {said}");
    }
    let body = |parameters: Value| json!({ "parameters": parameters }).to_string();
    for (parameters, why) in [
        (json!({ "day": 1.5 }), "a text, a whole number, true or false"),
        (json!(["day"]), "parameters"),
        (json!({ "day": "2026-01-31", "region": "x".repeat(5_000) }), "allowed are"),
    ] {
        let head = format!(
            "POST /api/v1/jobs/j/run HTTP/1.1\nHost: {}\nContent-Type: application/json",
            node.address
        );
        let (status, said) = node.raw(&head, body(parameters).as_bytes());
        assert!(status == 400 && said.contains(why), "{status} {said}");
    }
    assert_eq!(node.json(&["run", "list"]), json!([]), "nothing ran");
    let (schedule, list) =
        ("name = \"j\"\nschedule = \"@daily\"", "[[job]]\nname = \"k\"\nparameters = [\"a\"]\n");
    for (job, why) in [
        (
            JOB.replace("name = \"j\"", schedule).as_str(),
            "parameters.day has no default, which a fire of the schedule needs",
        ),
        (&JOB.replace("type = \"date\"", "type = \"dat\""), "did you mean \"date\"?"),
        (&JOB.replace("allowed = [", "alowed = ["), "did you mean \"allowed\"?"),
        (list, "a text for each shard is in shard_parameters"),
    ] {
        let (applied, said) = apply(&node, job);
        assert!(!applied && said.contains(why), "{said}");
    }
}
