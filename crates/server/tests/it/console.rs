//! The console without a browser: readable as it comes, and its stream says what changed.

use serde_json::{Value, json};

use crate::live::LiveStream;
use crate::process::{ServerProcess, until};

#[test]
fn the_stream_shows_a_new_job_and_its_run_by_itself() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    let mut live = LiveStream::of(&node);
    assert_eq!(live.next()["jobs"], json!({}));
    let job = "[[job]]\nname = \"hand\"\ncommand = [\"/bin/true\"]\n";
    assert!(node.fed(&["job", "apply", "-f", "-"], job).status.success());
    until("the job is in the document", || (live.next()["jobs"]["hand"]["name"] == "hand").then_some(()));
    node.ok(&["job", "run", "hand"]);
    until("its run is in the document", || {
        let runs = live.next()["runs"].as_object()?;
        runs.values().any(|run| run["state"] == "succeeded").then_some(())
    });
}

#[test]
fn a_job_beyond_the_first_page_is_found_by_its_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    let declare = |name: String| format!("[[job]]\nname = \"{name}\"\ncommand = [\"/bin/true\"]\n");
    let names = (0..410).map(|n| format!("job-{n:03}")).chain(["nightly", "the-Night"].map(String::from));
    let jobs: String = names.map(declare).collect();
    assert!(node.fed(&["job", "apply", "-f", "-"], &jobs).status.success());

    let page = |path: &str| node.raw(&format!("GET {path} HTTP/1.1\nHost: {}", node.address), b"").1;
    let has = |page: &str, job: &str| page.contains(&format!(r#"<td class="name">{job}</td>"#));
    assert!(has(&page("/plain"), "job-000") && !has(&page("/plain"), "nightly"));
    assert!(page("/plain").contains("form-action 'self'"), "a browser without script sends the form");
    let found = page("/plain?find=%20NIGHT");
    assert!(has(&found, "nightly") && has(&found, "the-Night") && !has(&found, "job-000"));
    let none = |page: &str| page.contains(r#"<p class="empty" id="none-found">"#);
    assert!(none(&page("/plain?find=%3Cdawn%3E")) && !none(&found) && !none(&page("/plain")));
    assert!(!page("/plain?find=%3Cdawn%3E").contains("<dawn>"));

    let rows = |args: &[&str]| -> Vec<String> {
        let rows = node.json(&[&["job", "list"], args].concat());
        let names = rows.as_array().expect("rows").iter().map(|row| row["name"].as_str().expect("a name"));
        names.map(String::from).collect()
    };
    assert_eq!(rows(&["--find", "night"]), ["nightly", "the-Night"]);
    assert_eq!(rows(&[]).len(), 412);
    assert!(node.ok(&["job", "list", "--find", "dawn"]).contains("no job's name holds \"dawn\""));

    // A page that holds all that is found is the last one, however many others come after it.
    let list = |query: &str| -> Value {
        let (_, answer) =
            node.raw(&format!("GET /api/v1/jobs?{query} HTTP/1.1\nHost: {}", node.address), b"");
        serde_json::from_str(answer.split_once("\r\n\r\n").expect("a body").1).expect("it is JSON")
    };
    assert_eq!(list("limit=1&find=b-000")["after"], Value::Null);
    let first = list("limit=1&find=night");
    assert_eq!(
        (&first["jobs"][0]["name"], first["jobs"].as_array().map(Vec::len)),
        (&"nightly".into(), Some(1))
    );
    let second =
        list(&format!("limit=1&find=night&after={}", first["after"].as_str().expect("there is one more")));
    assert_eq!((&second["jobs"][0]["name"], &second["after"]), (&"the-Night".into(), &Value::Null));
}

#[test]
fn the_jobs_that_are_due_soonest_are_listed_first_and_those_without_a_fire_last() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    let declare = |name: &str, key: &str| {
        format!(
            "[[job]]\nname = \"{name}\"\ncommand = [\"/bin/true\"]\nlabels = {{ kind = \"test\" }}\n{key}"
        )
    };
    let jobs = [
        declare("a-year", "schedule = \"0 0 1 1 *\"\n"),
        declare("by-request", ""),
        declare("minute", "schedule = \"* * * * *\"\n"),
        declare("off", "schedule = \"* * * * *\"\nenabled = false\n"),
        declare("two-years", "schedule = \"at 2199-01-01T00:00:00Z\"\n"),
    ];
    assert!(node.fed(&["job", "apply", "-f", "-"], &jobs.concat()).status.success());
    let list = |query: &str| -> (u16, Value) {
        let (status, answer) =
            node.raw(&format!("GET /api/v1/jobs?{query} HTTP/1.1\nHost: {}", node.address), b"");
        let body = answer.split_once("\r\n\r\n").expect("a body").1;
        (status, serde_json::from_str(body).expect("it is JSON"))
    };
    let names = |query: &str| -> Vec<String> {
        let (status, page) = list(query);
        assert_eq!((status, &page["after"]), (200, &Value::Null), "{page}");
        let rows = page["jobs"].as_array().expect("rows").iter();
        rows.map(|row| row["name"].as_str().expect("a name").to_owned()).collect()
    };
    assert_eq!(names("sort=next"), ["minute", "a-year", "two-years", "by-request", "off"]);
    assert_eq!(names("sort=next&limit=2&label=kind=test"), ["minute", "a-year"]);
    assert_eq!(names("sort=next&find=year"), ["a-year", "two-years"]);
    assert_eq!(names("sort=name")[0], "a-year");
    assert_eq!(list("sort=next").1["total"], 5);
    for (wrong, said) in [("sort=next&after=a-year", "one page"), ("sort=nxt", "did you mean \"next\"")] {
        let (status, problem) = list(wrong);
        assert_eq!(status, 400);
        assert!(problem["detail"].as_str().is_some_and(|detail| detail.contains(said)), "{problem}");
    }
}

#[test]
fn calendars_and_how_many_jobs_name_them_are_shown() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    let mut live = LiveStream::of(&node);
    assert_eq!(live.next()["calendars"], json!({}));
    let page = || node.raw(&format!("GET /plain HTTP/1.1\nHost: {}", node.address), b"").1;
    assert!(page().contains("No calendars yet."), "{}", page());
    let declared = "[[calendar]]\nname = \"office\"\nwindows = [\"mon-fri 09:00..17:00\"]\n\
                    description = \"<b>open</b>\"\n[[job]]\nname = \"x\"\nschedule = \"0 * * * *\"\n\
                    require_calendars = [\"office\"]\ncommand = [\"/bin/true\"]\n";
    assert!(node.fed(&["job", "apply", "-f", "-"], declared).status.success());
    until("it is in the document, and so is the number of jobs that name it", || {
        let office = &live.next()["calendars"]["office"];
        (office["name"] == "office" && (&office["jobs"], &office["version"]) == (&1.into(), &1.into()))
            .then_some(())
    });
    let page = page();
    assert!(page.contains("office") && page.contains("&lt;b&gt;open") && !page.contains("<b>open"), "{page}");
}

#[test]
fn what_people_write_stays_text() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    let job = "[[job]]\nname = \"x\"\ncommand = [\"<script>alert(1)</script>\"]\n";
    assert!(node.fed(&["job", "apply", "-f", "-"], job).status.success());
    let run = node.json(&["job", "run", "x"])["run"].as_str().expect("a run").to_owned();
    assert_eq!(node.cli(&["run", "wait", &run]).status.code(), Some(1), "there is no such program");
    let (status, page) = node.raw(&format!("GET /plain HTTP/1.1\nHost: {}", node.address), b"");
    assert_eq!(status, 200);
    assert!(!page.contains("<script>"), "{page}");
    assert!(page.contains("data-state=\"failed\""), "{page}");
}

#[test]
fn a_job_that_no_node_fits_says_so_where_its_next_fire_would_stand() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    let job = "[[job]]\nname = \"far\"\nnode_selector = [\"gpu\"]\nschedule = [\"0 1 * * *\", \"0 2 * * *\"]\n\
               command = [\"/bin/true\"]\n";
    assert!(node.fed(&["job", "apply", "-f", "-"], job).status.success());
    let (_, page) = node.raw(&format!("GET /plain HTTP/1.1\nHost: {}", node.address), b"");
    assert!(page.contains("no node fits"), "{page}");
    assert!(page.contains("<code>0 1 * * *</code> <code>0 2 * * *</code>"), "each rule is whole: {page}");
    let mut live = LiveStream::of(&node);
    assert_eq!(live.next()["jobs"]["far"]["unschedulable"], true);
}

#[test]
fn what_is_disabled_says_so_and_runs_of_sharded_jobs_lead_to_their_shards() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    let jobs = "[[job]]\nname = \"off\"\nschedule = \"0 1 * * *\"\nenabled = false\ncommand = [\"/bin/true\"]\n\
                [[job]]\nname = \"cut\"\nplacement = \"sharded\"\nshards = 2\ncommand = [\"/bin/true\"]\n";
    assert!(node.fed(&["job", "apply", "-f", "-"], jobs).status.success());
    let listed = node.ok(&["job", "list"]);
    assert!(listed.lines().any(|line| line.starts_with("off ") && line.contains(" disabled ")), "{listed}");
    node.ok(&["job", "run", "cut"]);
    let mut live = LiveStream::of(&node);
    until("both shards have run", || {
        let document = live.next();
        let runs = document["runs"].as_object()?;
        assert_eq!(document["sharded"], if runs.is_empty() { json!({}) } else { json!({ "cut": true }) });
        (runs.len() == 2).then_some(())
    });
    let (_, page) = node.raw(&format!("GET /plain HTTP/1.1\nHost: {}", node.address), b"");
    assert!(page.contains("data-state=\"disabled\""), "{page}");
    assert!(page.contains("<a href=\"plain?job=cut#job\">cut</a> <small>shard 1</small>"), "{page}");
}
