//! `--plan`: what would come and go is shown, and nothing is done.

use std::collections::BTreeSet;

use serde_json::{Value, json};

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

/// The plan of a file; its exit code is 2 if something would change.
fn planned(node: &ServerProcess, file: &str) -> Value {
    let shown = node.fed(&["apply", "--plan", "-o", "json", "-f", "-"], file);
    assert!(matches!(shown.status.code(), Some(0 | 2)), "{}", text(&shown.stderr));
    serde_json::from_slice(&shown.stdout).expect("JSON")
}

/// The fires that a plan adds, or those that it drops.
fn fires<'a>(plan: &'a Value, job: &str, fate: &str) -> Vec<&'a str> {
    let plans = plan["jobs"].as_array().expect("a list");
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
    assert_eq!(plan["calendars"][0]["becomes"], "updated", "{plan}");
    let schedule = r#"schedule: ["at 2099-01-01T06:00:00Z","at 2099-01-02T06:00:00Z"] → ["at 2099-01-02T06:00:00Z","at 2099-01-03T06:00:00Z"]"#;
    let short = node.fed(&["apply", "--plan", "-f", "-"], AFTER);
    assert_eq!(short.status.code(), Some(2));
    let expected = format!(
        "plan: 1 to create, 1 to update, 0 to delete, 0 unchanged; 1 calendar to change, which 1 other job uses\n\
         ~ calendar freeze  updated; days: unset → [\"2099-02-01\"]\n\
         ~ report  updated; {schedule}; fires: 1 fewer, 1 more; next fire Fri 2099-01-02 06:00:00 +00:00 UTC\n\
         + clean  created; next fire Sun 2099-03-01 00:00:00 +00:00 UTC\n\
         ~ deploy  follows its calendar; calendar freeze changes; fires: 1 fewer; next fire Mon 2099-02-02 06:00:00 +00:00 UTC\n\
         nothing was changed: leave out --plan to do it\n"
    );
    assert_eq!(text(&short.stdout), expected);
    let shown = node.fed(&["job", "apply", "--plan", "-v", "-f", "-"], AFTER);
    let shown = text(&shown.stdout);
    assert!(shown.contains(&format!("2099-01-02 06:00:00 +00:00 UTC\n  {schedule}\n  - ")), "{shown}");
    assert!(shown.contains("1 fire stays as it is until"), "{shown}");
    assert!(shown.contains("UTC\n  + Sun 2099-03-01"), "{shown}");
    assert!(shown.ends_with("nothing was changed: leave out --plan to do it\n"), "{shown}");

    assert_eq!(node.json(&["job", "show", "report", "--details"])["version"], 1);
    assert_eq!(node.cli(&["job", "show", "clean"]).status.code(), Some(4));
    assert_eq!(node.json(&["calendar", "show", "freeze"])["version"], 1);

    let applied = node.fed(&["job", "apply", "-f", "-"], AFTER);
    assert!(applied.status.success(), "{}", text(&applied.stderr));
    let next = |job: &str| node.json(&["job", "next", job]);
    assert_eq!(next("report"), serde_json::json!(["2099-01-02T06:00:00.000Z", "2099-01-03T06:00:00.000Z"]));
    assert_eq!(next("deploy"), serde_json::json!(["2099-02-02T06:00:00.000Z"]));
    assert_eq!(planned(&node, AFTER)["jobs"][0]["becomes"], "unchanged");
    let same = node.fed(&["apply", "--plan", "-f", "-"], AFTER);
    let nothing = "plan: 0 to create, 0 to update, 0 to delete, 2 unchanged\nnothing to do\n";
    assert_eq!((same.status.code(), text(&same.stdout).as_str()), (Some(0), nothing));
}

#[test]
fn a_request_that_declares_a_job_twice_is_refused_and_so_is_its_plan() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    let body = r#"{"jobs":[{"name":"j","command":["/bin/true"]},{"name":"i","command":["/bin/true"]},{"name":"j","command":["/bin/false"]}]}"#;
    for path in ["jobs/apply", "plan"] {
        let head =
            format!("POST /api/v1/{path} HTTP/1.1\nHost: {}\nContent-Type: application/json", node.address);
        let (status, answer) = node.raw(&head, body.as_bytes());
        assert!(status == 400 && answer.contains("job j is declared twice"), "{path}: {answer}");
    }
    assert_eq!(node.cli(&["job", "show", "i"]).status.code(), Some(4), "nothing was applied");
}

#[test]
fn what_follows_runs_is_planned_as_if_they_took_no_time_and_the_plan_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    let plan = planned(&node, "[[job]]\nname = \"rests\"\nschedule = \"@after 10m\"\ncommand = [\"true\"]\n");
    let notes = plan["jobs"][0]["notes"].to_string();
    assert!(notes.contains("shown as if runs took no time"), "{notes}");
    assert_eq!(fires(&plan, "rests", "added").len(), 10);
}

#[test]
fn a_plan_of_a_resume_shows_what_comes_and_one_of_a_paused_job_that_nothing_does() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    node.fed(&["job", "apply", "-f", "-"], BEFORE);
    node.ok(&["job", "pause", "report"]);
    let shown = node.fed(&["job", "apply", "--plan", "-v", "-f", "-"], AFTER);
    let shown = text(&shown.stdout);
    assert!(shown.contains("report  updated\n  schedule: ["), "{shown}");
    assert!(
        shown.contains("]\n  it is paused: until `job resume` it runs only when triggered manually"),
        "{shown}"
    );
    let shown = node.ok(&["job", "resume", "report", "--plan"]);
    assert!(
        shown.contains("~ report  resumed; next fire ")
            && shown.contains("\n  + ")
            && shown.contains("what was due before is not caught up"),
        "{shown}"
    );
    assert_eq!(node.json(&["job", "show", "report", "--details"])["paused"], true);
    let absent = node.cli(&["job", "resume", "nobody", "--plan"]);
    assert_eq!(absent.status.code(), Some(4));
    let refused = node.fed(
        &["job", "apply", "--plan", "-f", "-"],
        "[[job]]\nname = \"x\"\nschedule = \"@daily\"\nexclude_calendars = [\"none\"]\ncommand = [\"/bin/true\"]\n",
    );
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("there is no calendar none"), "{}", text(&refused.stderr));
}

/// Asks the API for a plan.
fn asked(node: &ServerProcess, body: &Value) -> (u16, Value) {
    let head = format!("POST /api/v1/plan HTTP/1.1\nHost: {}\nContent-Type: application/json", node.address);
    let (status, answer) = node.raw(&head, body.to_string().as_bytes());
    (status, serde_json::from_str(answer.split_once("\r\n\r\n").expect("a body").1).expect("JSON"))
}

#[test]
fn a_plan_has_old_and_new_values_and_names_everything_that_would_be_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    node.fed(&["job", "apply", "-f", "-"], BEFORE);
    let edited = json!({ "jobs": [
        { "name": "report", "schedule": "@daily", "command": ["/bin/true"], "timeout": "1m" },
        { "name": "deploy", "schedule": ["at 2099-02-01T06:00:00Z", "at 2099-02-02T06:00:00Z"],
          "exclude_calendars": ["freeze"], "command": ["/bin/true"] },
        { "name": "clean", "schedule": "at 2099-03-01T00:00:00Z", "command": ["/bin/true"] },
    ] });
    let (status, plan) = asked(&node, &edited);
    assert_eq!((status, &plan["refused"]), (200, &json!([])), "{plan}");
    let [report, deploy, clean] = plan["jobs"].as_array().expect("rows").as_slice() else { panic!("{plan}") };
    assert_eq!(report["fields"], json!(["schedule", "timeout"]));
    assert_eq!(report["values"]["timeout"], json!({ "old": null, "new": "1m" }));
    assert_eq!(report["values"]["schedule"]["new"], "@daily");
    assert_eq!((&deploy["becomes"], &clean["becomes"]), (&json!("unchanged"), &json!("created")));
    let totals = json!({ "created": 1, "updated": 1, "unchanged": 1, "switched": 0, "calendar": 0,
        "deleted": 0, "calendars": 0, "fires_added": 11, "fires_dropped": 0 });
    assert_eq!(plan["totals"], totals, "of the report's fires ten are shown, and none of them is far off");

    let wrong = json!({
        "jobs": [
            { "name": "report", "schedule": "@dayly", "command": ["/bin/true"] },
            { "name": "deploy", "schedule": "@daily", "placement": "sharded", "command": ["/bin/true"] },
            { "name": "nowhere/j", "command": ["/bin/true"] },
            { "name": "lost", "schedule": "@daily", "require_calendars": ["none"], "command": ["/bin/true"] },
            { "name": "clean", "schedule": "@daily", "command": ["/bin/true"] },
        ],
        "calendars": [{ "name": "odd", "days": ["13-13"] }],
        "resume": ["absent"],
    });
    let (status, plan) = asked(&node, &wrong);
    assert_eq!(status, 200, "{plan}");
    let refused: Vec<(&str, &str)> = plan["refused"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|row| (row["name"].as_str().expect("a name"), row["code"].as_str().expect("a code")))
        .collect();
    let expected = [
        ("report", "invalid"),
        ("odd", "invalid"),
        ("deploy", "conflict"),
        ("nowhere/j", "not_found"),
        ("lost", "conflict"),
        ("absent", "not_found"),
    ];
    assert_eq!(refused, expected, "{plan}");
    assert_eq!(plan["totals"]["created"], 1, "the others are planned");
    // The same file is refused by `apply`, which names the first.
    let (status, nothing) = asked(&node, &json!({}));
    assert_eq!((status, &nothing["code"]), (400, &json!("invalid")));
    let (status, unknown) = asked(&node, &json!({ "job": [] }));
    assert_eq!((status, &unknown["code"]), (400, &json!("invalid")));

    let entries = node.json(&["audit"]);
    let verbs: BTreeSet<&str> =
        entries.as_array().expect("entries").iter().filter_map(|entry| entry["verb"].as_str()).collect();
    assert_eq!(verbs, BTreeSet::from(["apply"]), "a question has no entry");
}

#[test]
fn a_plan_of_a_file_counts_new_jobs_against_the_limit_of_their_namespace() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    node.ok(&["namespace", "create", "team", "--jobs-max", "2"]);
    let job =
        |n: u32| json!({ "name": format!("team/j{n}"), "schedule": "@daily", "command": ["/bin/true"] });
    let (_, plan) = asked(&node, &json!({ "jobs": [job(0), job(1), job(2)] }));
    assert_eq!(
        (&plan["totals"]["created"], &plan["refused"][0]["name"]),
        (&json!(2), &json!("team/j2")),
        "{plan}"
    );
}

#[test]
fn a_plan_of_ten_thousand_jobs_is_one_request() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    let file = |hour: u32| {
        let mut file = String::new();
        for n in 0..10_000 {
            let rules =
                if n % 2 == 0 { format!("H {hour} * * *") } else { format!("{} {hour} * * *", n % 60) };
            file.push_str(&format!(
                "[[job]]\nname = \"j{n}\"\nschedule = \"{rules}\"\ncommand = [\"true\"]\n\n"
            ));
        }
        let path = folder.path().join(format!("{hour}.toml"));
        std::fs::write(&path, file).expect("written");
        path.to_str().expect("a text").to_owned()
    };
    node.ok(&["job", "apply", "-f", &file(4)]);
    let plan = node.cli(&["apply", "--plan", "-o", "json", "-f", &file(5)]);
    let plan: Value = serde_json::from_slice(&plan.stdout).expect("JSON");
    let rows = plan["jobs"].as_array().expect("rows");
    assert_eq!(rows.len(), 10_000);
    assert!(
        rows.iter()
            .all(|row| row["becomes"] == "updated" && row["changes"].as_array().map(Vec::len) == Some(10))
    );
    let metrics = node.raw(&format!("GET /metrics HTTP/1.1\nHost: {}", node.address), b"").1;
    let plans: Vec<&str> =
        metrics.lines().filter(|line| line.contains("_count") && line.contains("/api/v1/plan")).collect();
    let [plans] = plans.as_slice() else { panic!("{plans:?}") };
    assert!(plans.ends_with(" 1"), "{plans}");
    println!(
        "{}",
        metrics
            .lines()
            .filter(|line| line.contains("_sum") && line.contains("/api/v1/plan"))
            .collect::<String>()
    );
}

#[test]
fn a_plan_exits_with_1_at_every_error_so_that_2_means_changes_only() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("job.toml");
    std::fs::write(&file, "[[job]]\nname = \"a\"\nfunction = \"f\"\n").expect("written");
    let (file, nowhere) = (file.display().to_string(), "http://127.0.0.1:1");
    for line in [
        format!("apply --plan -f {file} --server {nowhere}"),
        format!("job apply --plan -f {file} --server {nowhere}"),
        format!("apply --plan -f {file} --server h:1"),
        "apply --plan -f /nowhere".to_owned(),
        "apply --plan".to_owned(),
        format!("apply --plan -f {file} --colour"),
        format!("-o json apply -f {file} --plan --colour"),
        format!("-o json --namespace a/b apply -f {file} --plan"),
        format!("apply -f {file} --plan -o json --server {nowhere}"),
    ] {
        let shown = crate::process::run(&line.split(' ').collect::<Vec<_>>());
        assert_eq!(shown.status.code(), Some(1), "{line}: {}", text(&shown.stderr));
        if line.contains("json") {
            let error: Value = serde_json::from_slice(&shown.stderr).expect("one line of JSON");
            assert_eq!(error["error"]["exit"], 1, "{line}: {error}");
        }
    }
    let help = crate::process::run(&["apply", "--plan", "--help"]);
    assert_eq!(help.status.code(), Some(0));
}

#[test]
fn a_plan_says_which_jobs_have_no_node_and_which_never_fire_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    let file = "[[job]]\nname = \"picky\"\nschedule = \"30 2 * * *\"\ntimezone = \"Asia/Tokyo\"\nnode_selector = [\"gpu\"]\n\
                command = [\"true\"]\n[[job]]\nname = \"over\"\nschedule = \"at 2001-01-01T00:00:00Z\"\ncommand = [\"true\"]\n";
    let shown = node.fed(&["apply", "--plan", "-f", "-"], file);
    let shown = text(&shown.stdout);
    let line =
        |name: &str| shown.lines().find(|line| line.starts_with(&format!("+ {name} "))).expect("its line");
    assert!(
        line("picky").contains(" 02:30:00 +09:00 JST; WARNING: unschedulable: no living node fits gpu"),
        "{shown}"
    );
    assert!(line("over").contains("WARNING: never fires again"), "{shown}");
    let plan = planned(&node, file);
    assert_eq!(plan["jobs"][0]["timezone"], "Asia/Tokyo");
    assert_eq!(plan["jobs"][1]["next"], Value::Null);
}

#[test]
fn a_plan_of_deletions_shows_the_fires_that_go() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    node.fed(&["apply", "-f", "-"], BEFORE);
    let (status, plan) = asked(&node, &json!({ "delete": ["report", "none"] }));
    assert_eq!((status, &plan["totals"]["deleted"]), (200, &json!(1)), "{plan}");
    assert_eq!(
        (&plan["jobs"][0]["becomes"], &plan["totals"]["fires_dropped"]),
        (&json!("deleted"), &json!(2))
    );
    assert_eq!(plan["refused"][0]["name"], "none");
    let both = json!({ "delete": ["x"], "jobs": [{ "name": "x", "command": ["/bin/true"] }] });
    assert_eq!(asked(&node, &both).0, 400);
}
