//! How many fires are due in the next hours, of all jobs together.

use serde_json::{Value, json};

use crate::process::{ServerProcess, text};

const FILE: &str = r#"
[[calendar]]
name = "freeze"
windows = ["10:00..11:00"]

[[job]]
name = "five"
schedule = "5 * * * *"
command = ["true"]
labels = { team = "a" }

[[job]]
name = "shards"
schedule = "5 */2 * * *"
placement = "sharded"
shards = 4
command = ["true"]

[[job]]
name = "often"
schedule = "*/10 0 12 * * ?"
command = ["true"]
labels = { team = "b" }

[[job]]
name = "closed"
schedule = "30 9-11 * * *"
exclude_calendars = ["freeze"]
command = ["true"]

[[job]]
name = "off"
schedule = "@hourly"
enabled = false
command = ["true"]

[[job]]
name = "manual"
command = ["true"]

[[job]]
name = "rests"
schedule = "@after 5m"
command = ["true"]

[[job]]
name = "elsewhere"
schedule = "@hourly"
node_selector = ["gpu"]
command = ["true"]
"#;

fn forecast(node: &ServerProcess, query: &str) -> (u16, Value) {
    let head = format!("GET /api/v1/forecast?{query} HTTP/1.1\nHost: {}", node.address);
    let (status, answer) = node.raw(&head, b"");
    (status, serde_json::from_str(answer.split_once("\r\n\r\n").expect("a body").1).expect("JSON"))
}

#[test]
fn fires_of_all_jobs_are_counted_by_minute_and_by_hour() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    let applied = node.fed(&["job", "apply", "-f", "-"], FILE);
    assert!(applied.status.success(), "{}", text(&applied.stderr));
    let day = "since=2099-03-01T00:00:42Z";
    let (status, minutes) = forecast(&node, day);
    assert_eq!(
        (status, &minutes["begin"], &minutes["step"]),
        (200, &json!("2099-03-01T00:00:00.000Z"), &json!("minute"))
    );
    let fires = minutes["fires"].as_array().expect("counts");
    assert_eq!((fires.len(), &fires[5], &fires[65], &fires[720]), (1_440, &json!(2), &json!(1), &json!(6)));
    assert_eq!(
        (&minutes["runs"][5], &minutes["runs"][65]),
        (&json!(5), &json!(1)),
        "a fire has a run for each shard"
    );
    assert_eq!(
        (&fires[570], &fires[630], &fires[690]),
        (&json!(1), &json!(0), &json!(1)),
        "a calendar closes ten o'clock"
    );
    assert_eq!(minutes["total"], 24 + 12 + 6 + 2);
    assert_eq!(
        minutes["peaks"][0],
        json!({ "at": "2099-03-01T12:00:00.000Z", "fires": 6, "runs": 6, "jobs": 1, "names": ["often"] })
    );
    assert_eq!(minutes["peaks"][1]["names"], json!(["five", "shards"]));
    assert_eq!(minutes["quietest"], json!({ "at": "2099-03-01T00:00:00.000Z", "fires": 0 }));
    let others = ["jobs", "inactive", "manual", "unpredictable", "uncounted"].map(|key| minutes[key].clone());
    assert_eq!(others, [json!(4), json!(1), json!(1), json!(2), json!(0)]);

    let (_, hours) = forecast(&node, &format!("{day}&step=hour&hours=2"));
    assert_eq!((&hours["fires"], &hours["runs"]), (&json!([2, 1]), &json!([5, 1])));
    let (_, labelled) = forecast(&node, &format!("{day}&label=team%3Da"));
    assert_eq!((&labelled["total"], &labelled["jobs"]), (&json!(24), &json!(1)));

    // A change is seen at once.
    node.ok(&["job", "pause", "five"]);
    let (_, paused) = forecast(&node, day);
    assert_eq!((&paused["total"], &paused["inactive"]), (&json!(20), &json!(2)));
    assert_eq!(forecast(&node, day).1, paused);

    for wrong in ["hours=0", "hours=49", "step=day", "since=soon", "label=%3D", "n=5"] {
        assert_eq!(forecast(&node, wrong).0, 400, "{wrong}");
    }
    assert_eq!(forecast(&node, "namespace=none").0, 404);
    let (_, now) = forecast(&node, "hours=1");
    assert_eq!(now["fires"].as_array().map(Vec::len), Some(60));
}

#[test]
fn a_caller_sees_the_fires_of_its_own_namespace_only() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    for team in ["blue", "red"] {
        node.ok(&["namespace", "create", team]);
        let job = format!("[[job]]\nname = \"{team}/j\"\nschedule = \"@hourly\"\ncommand = [\"true\"]\n");
        assert!(node.fed(&["job", "apply", "-f", "-"], &job).status.success());
    }
    let token = node.ok(&["token", "create", "t", "--role", "viewer:blue"]);
    let own = format!(
        "GET /api/v1/forecast HTTP/1.1\nHost: {}\nAuthorization: Bearer {}",
        node.address,
        token.trim()
    );
    let (status, answer) = node.raw(&own, b"");
    assert!(status == 200 && answer.contains("blue/j") && !answer.contains("red/j"), "{answer}");
    let (_, all) = forecast(&node, "");
    assert_eq!((&all["jobs"], &all["peaks"][0]["names"]), (&json!(2), &json!(["blue/j", "red/j"])));
}
