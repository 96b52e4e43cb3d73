//! A repository of job files and a cluster: plan, apply, drift, prune and rollback, as a pipeline does them.

use std::path::Path;
use std::process::Output;

use serde_json::{Value, json};

use crate::process::{ServerProcess, text};

const DEFAULTS: &str = r#"
[variables]
env = "dev"
image = {}

[defaults]
timezone = "Europe/Berlin"
exclude_calendars = ["freeze"]

[template.container]
command = ["podman", "run", "{{image}}"]
environment = { ENV = "{{env}}" }
"#;
const CALENDARS: &str = "[[calendar]]\nname = \"freeze\"\ndays = [\"12-24..12-26\"]\n";
const REPORT: &str = "job:\n- {name: report, template: container, schedule: '0 5 * * *', timeout: 10m}\n";
const CLEAN: &str = r#"{"job": [{"name": "clean", "template": "container", "schedule": "0 3 * * *"}]}"#;

/// The folder of a repository, and what its pipeline says in each command.
struct Repository<'a> {
    node: &'a ServerProcess,
    folder: &'a Path,
}

impl Repository<'_> {
    fn write(&self, files: &[(&str, &str)]) {
        for (name, text) in files {
            std::fs::write(self.folder.join(name), text).expect("written");
        }
    }

    fn apply(&self, more: &[&str]) -> Output {
        let folder = self.folder.to_str().expect("a text");
        let args = [
            "apply",
            "-f",
            folder,
            "--owner",
            "shop",
            "--prune",
            "--var",
            "env=prod",
            "--var",
            "image=shop:7",
        ];
        self.node.cli(&[&args[..], more].concat())
    }

    /// The lines of a plan that has this exit code.
    fn plan(&self, exit: i32) -> String {
        let done = self.apply(&["--plan"]);
        assert_eq!(done.status.code(), Some(exit), "{}{}", text(&done.stdout), text(&done.stderr));
        text(&done.stdout)
    }

    fn merged(&self) -> String {
        let done = self.apply(&["--wait"]);
        assert!(done.status.success(), "{}{}", text(&done.stdout), text(&done.stderr));
        assert!(self.plan(0).ends_with("nothing to do\n"), "what was applied is as planned");
        text(&done.stdout)
    }
}

fn names(node: &ServerProcess) -> Vec<String> {
    let jobs = node.json(&["job", "list"]);
    let name = |job: &Value| job["name"].as_str().map(ToOwned::to_owned);
    jobs.as_array().expect("a list").iter().filter_map(name).collect()
}

/// Declares a job through the API, as another program does.
fn put(node: &ServerProcess, job: &Value) {
    let name = job["name"].as_str().expect("a name");
    let head =
        format!("PUT /api/v1/jobs/{name} HTTP/1.1\nHost: {}\nContent-Type: application/json", node.address);
    let (status, answer) = node.raw(&head, job.to_string().as_bytes());
    assert_eq!(status, 200, "{answer}");
}

/// The declaration of a job.
fn declared(node: &ServerProcess, name: &str) -> Value {
    let head = format!("GET /api/v1/jobs/{name} HTTP/1.1\nHost: {}", node.address);
    let (status, answer) = node.raw(&head, b"");
    assert_eq!(status, 200, "{answer}");
    let body = answer.split_once("\r\n\r\n").expect("a body").1;
    serde_json::from_str::<Value>(body).expect("JSON")["job"].clone()
}

#[test]
fn a_gitops_day_goes_from_plan_to_apply_to_drift_to_prune_and_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    let files = folder.path().join("repository");
    std::fs::create_dir(&files).expect("a folder");
    let repository = Repository { node: &node, folder: &files };
    repository.write(&[("defaults.toml", DEFAULTS), ("calendars.toml", CALENDARS), ("report.yaml", REPORT)]);
    // A job of a person, and one of another owner.
    let other = "[[job]]\nname = \"pay\"\ncommand = [\"true\"]\n";
    assert!(node.fed(&["apply", "--owner", "payments", "-f", "-"], other).status.success());
    assert!(node.fed(&["apply", "-f", "-"], &other.replace("pay", "by-ann")).status.success());

    // The pipeline of a pull request shows the plan, and that of the main branch applies it.
    let plan = repository.plan(2);
    assert!(
        plan.starts_with("plan: 1 to create, 0 to update, 0 to delete, 0 unchanged; 1 calendar to change\n"),
        "{plan}"
    );
    assert!(
        plan.contains("+ calendar freeze  created\n+ report  created; calendar freeze changes; next fire "),
        "{plan}"
    );
    assert_eq!(names(&node), ["by-ann", "pay"], "a plan changes nothing");
    let applied = repository.merged();
    assert!(
        applied.contains("created    report\n1 created\n") && applied.ends_with("1 job owned\n"),
        "{applied}"
    );
    let report = declared(&node, "report");
    assert_eq!(report["labels"], json!({ "evenkeel.owner": "shop" }));
    assert_eq!((&report["command"][2], &report["environment"]["ENV"]), (&json!("shop:7"), &json!("prod")));
    assert_eq!(report["timezone"], "Europe/Berlin");

    // The job is edited in the cluster: the next plan shows that, and the next apply ends it.
    let mut edited = report.clone();
    edited["timeout"] = json!("20m");
    put(&node, &edited);
    assert!(repository.plan(2).contains("~ report  updated; timeout: \"20m\" → \"10m\"; next fire "));
    repository.merged();
    assert_eq!(declared(&node, "report"), report);

    // A job comes, and goes again: only what this owner applied is deleted.
    repository.write(&[("clean.json", CLEAN)]);
    repository.merged();
    std::fs::remove_file(files.join("clean.json")).expect("removed");
    let plan = repository.plan(2);
    assert!(plan.contains("0 to create, 0 to update, 1 to delete, 1 unchanged"), "{plan}");
    assert!(plan.contains("- clean  deleted; of the first changed fires 10 fewer\n"), "{plan}");
    assert_eq!(names(&node), ["by-ann", "clean", "pay", "report"]);
    let pruned = repository.merged();
    assert!(pruned.contains("deleted    clean\n"), "{pruned}");
    assert_eq!(names(&node), ["by-ann", "pay", "report"]);

    // The removal is reverted, as an operator may do at once; both ways mean the same.
    node.ok(&["job", "rollback", "clean", "--to", "1"]);
    assert!(repository.plan(2).contains("1 to delete"), "the repository does not have it yet");
    repository.write(&[("clean.json", CLEAN)]);
    assert!(repository.plan(0).ends_with("nothing to do\n"));

    // Without any file nothing is deleted, unless that is wanted.
    for name in ["clean.json", "report.yaml"] {
        std::fs::remove_file(files.join(name)).expect("removed");
    }
    let refused = repository.apply(&[]);
    assert_eq!(refused.status.code(), Some(5));
    assert!(text(&refused.stderr).contains("--allow-empty"), "{}", text(&refused.stderr));
    assert!(repository.apply(&["--allow-empty"]).status.success());
    assert_eq!(names(&node), ["by-ann", "pay"]);
}

#[test]
fn no_owner_replaces_or_prunes_what_another_one_applied() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    let job = |name: &str| format!("[[job]]\nname = \"{name}\"\ncommand = [\"true\"]\n");
    let apply = |file: &str, more: &[&str]| {
        let done = node.fed(&[&["apply", "-f", "-"], more].concat(), file);
        (done.status.code().unwrap_or(-1), text(&done.stderr))
    };
    assert_eq!(apply(&(job("x") + &job("y")), &["--owner", "a"]).0, 0);
    for (owner, why) in [
        (
            &["--owner", "b"][..],
            "job x is applied by owner a: say --owner a, or --take-over to apply it as owner b",
        ),
        (&[], "job x is applied by owner a: say --owner a, or --take-over to apply it without an owner"),
    ] {
        let (exit, said) = apply(&(job("new") + &job("x")), owner);
        assert!(exit == 6 && said.contains(why), "{exit} {said}");
        let (exit, _) = apply(&job("x"), &[owner, &["--plan"]].concat());
        assert_eq!(exit, 1);
    }
    assert_eq!(names(&node), ["x", "y"], "nothing of a refused file is applied");
    assert_eq!(apply(&job("x"), &["--owner", "b", "--take-over"]).0, 0);
    assert_eq!(declared(&node, "x")["labels"]["evenkeel.owner"], "b");
    assert_eq!(apply(&job("z"), &["--owner", "b", "--prune"]).0, 0);
    assert_eq!(names(&node), ["y", "z"], "x was b's, and y is a's");
    // A file may name its owner itself, and then no other.
    let own = job("y") + "labels = { \"evenkeel.owner\" = \"a\" }\n";
    assert_eq!(apply(&own, &[]).0, 0);
    let (exit, said) = apply(&own, &["--owner", "b"]);
    assert!(exit == 5 && said.contains("standard input:2: labels.evenkeel.owner is \"a\""), "{exit} {said}");
    // One namespace at a time.
    node.ok(&["namespace", "create", "team"]);
    let (exit, said) = apply(&(job("z") + &job("team/z")), &["--owner", "b", "--prune"]);
    assert!(exit == 5 && said.contains("job team/z is in team"), "{exit} {said}");
    assert_eq!(apply(&job("z"), &["-n", "team", "--owner", "b", "--prune"]).0, 0);
    assert_eq!(names(&node), ["y", "z"], "those of another namespace stay");
    for wrong in [&["--prune"][..], &["--owner", "a b"], &["--allow-empty"], &["--wait", "--plan"]] {
        assert!(matches!(apply(&job("z"), wrong).0, 1 | 2), "{wrong:?}");
    }
}

#[test]
fn a_wait_ends_when_jobs_are_owned_and_fails_where_no_node_fits() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    let job = |name: &str, more: &str| {
        format!("[[job]]\nname = \"{name}\"\nschedule = \"@daily\"\ncommand = [\"true\"]\n{more}\n")
    };
    let file = job("one", "")
        + &job("off", "enabled = false")
        + &job("all", "placement = \"sharded\"\nshards = 2")
        + &job("planned", "placement = \"dispatched\"");
    let done = node.fed(&["apply", "-f", "-", "--wait=2m"], &file);
    assert!(done.status.success(), "{}", text(&done.stderr));
    assert!(text(&done.stdout).ends_with("3 jobs owned\n"), "{}", text(&done.stdout));
    let done =
        node.fed(&["apply", "-f", "-", "--wait"], &(file + &job("picky", "node_selector = [\"gpu\"]")));
    assert_eq!(done.status.code(), Some(7));
    assert!(
        text(&done.stderr).contains("unschedulable, for no online node fits: job picky"),
        "{}",
        text(&done.stderr)
    );
}

/// Jobs of every kind, with about every key.
const WHOLE: &str = r#"
[[calendar]]
name = "freeze"
days = ["12-24"]
windows = ["mon-fri 22:00..06:00"]
description = "no deploys"

[[calendar]]
name = "office"
weekdays = ["mon-fri"]

[[job]]
name = "claimed"
schedule = ["0 5 * * *", "at 2099-01-01T06:00:00"]
timezone = "Europe/Berlin"
dst = "once"
start_at = "2026-01-01T00:00:00"
end_at = "2099-12-31T23:59:59"
jitter = "5m"
exclude_calendars = ["freeze"]
require_calendars = ["office"]
node_selector = ["zone=eu|us", "!spot"]
priority = 7
pool = { name = "db", limit = 3 }
parameter = "p\n\"{{x}}\" \\ ü"
delivery = "at_least_once"
min_durability = "C"
shell = true
command = "echo '1' | cat"
directory = "/tmp"
inherit = ["SSH_AUTH_SOCK"]
stdin = "a\nb\n"
timeout = "90s"
run_timeout = "1h"
retry = { max_retries = 3, delay = "10s", max_delay = "1m", exit_codes = [75] }
pause_after_failures = 5
misfire_grace = "5m"
catch_up = { all = 3 }
catch_up_window = "6h"
catch_up_spread = "10m"
overlap = { limit = 2 }
enabled = false
description = "yes"
notify = { on = ["failure", "late"], to = ["oncall"], late_after = "10m" }
labels = { team = "billing", "evenkeel.owner" = "shop" }
environment = { LANG = "de_DE.UTF-8", N = "007", EMPTY = "" }
secrets = { DB_PASSWORD = "db-password" }
secret_files = { KEY_FILE = "ssh-key" }
limits = { cpu = "10m", memory = "512M", files = 64, together = { memory = "1G", cores = 1.5 } }

[job.parameters]
day = { type = "date", default = "2026-01-01", description = "which day" }
n = { type = "integer", default = 3, allowed = [1, 2, 3] }

[[job]]
name = "sharded"
placement = "sharded"
schedule = "@every 90s"
shards = 3
shard_parameters = ["north", "", "south"]
strategy = "odd_even"
order = "descending"
sticky_shards = true
one_per_host = true
monitor_execution = false
max_clock_skew = "2s"
reshard_timeout = "3s"
catch_up = "skip"
command = ["/bin/true"]

[[job]]
name = "team/request"
placement = "dispatched"
overlap = "skip"
exclude_calendars = ["default/freeze"]
schedule = "0 6 * * *"
[job.http]
url = "https://shop.example/hook"
method = "POST"
headers = { Content-Type = "application/json" }
body = '{"a": {"b": 1}}'
success = ["200-299", 404]
redirects = 2
verify = false

[[job]]
name = "everywhere"
placement = "broadcast"
function = "sweep"
dataflow = { fetch = 50, threads = 4, streaming = true, interval = "5m" }
"#;

#[test]
fn no_job_file_of_a_folder_is_passed_over_and_pruned_therefore() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    let rec = folder.path().join("rec");
    std::fs::create_dir_all(rec.join("deep/er")).expect("a folder");
    let file = |name: &str| rec.join(name);
    let job = |name: &str| format!("[[job]]\nname = \"{name}\"\ncommand = [\"/bin/true\"]\n");
    std::fs::write(file("a.toml"), job("a")).expect("written");
    std::fs::write(file("deep/er/b.TOML"), job("b")).expect("written");
    std::fs::write(file(".c.toml"), job("c")).expect("written");
    let apply = || node.cli(&["apply", "-f", rec.to_str().expect("a text"), "--owner", "o", "--prune"]);
    assert!(apply().status.success());
    assert_eq!(names(&node), ["a", "b"], "hidden files are left alone");
    std::os::unix::fs::symlink("/no/such/file", file("d.toml")).expect("a link");
    let refused = apply();
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused.stderr));
    assert!(
        text(&refused.stderr).contains("d.toml: it is named like a job file"),
        "{}",
        text(&refused.stderr)
    );
    assert_eq!(names(&node), ["a", "b"]);
}

#[test]
fn what_is_exported_applies_as_nothing_to_do() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    node.ok(&["namespace", "create", "team"]);
    let applied = node.fed(&["apply", "-f", "-"], WHOLE);
    assert!(applied.status.success(), "{}", text(&applied.stderr));
    // A switch of an operator is no declaration.
    node.ok(&["job", "enable", "claimed"]);
    let nothing = |args: &[&str]| {
        let done = node.cli(&[&["apply", "--plan"], args].concat());
        let plan = text(&done.stdout);
        assert_eq!(done.status.code(), Some(0), "{args:?}: {plan}{}", text(&done.stderr));
        plan.lines().next().unwrap_or_default().to_owned()
    };
    for (format, ending) in [("table", "toml"), ("yaml", "yaml"), ("json", "json")] {
        let file = folder.path().join(format!("all.{ending}"));
        std::fs::write(&file, node.ok(&["export", "-A", "-o", format])).expect("written");
        let all = nothing(&["-f", file.to_str().expect("a text")]);
        assert_eq!(all, "plan: 0 to create, 0 to update, 0 to delete, 4 unchanged", "{format}");
        let into = folder.path().join(ending);
        let into = into.to_str().expect("a text");
        node.ok(&["export", "-A", "-o", format, "--dir", into]);
        assert_eq!(nothing(&["-f", into]), all, "the folders in it are read, too");
        assert!(Path::new(into).join(format!("team/job.request.{ending}")).is_file());
    }
    let own = node.ok(&["export"]);
    assert!(!own.contains("team/request") && own.contains("db-password"), "{own}");
    let labelled = node.ok(&["export", "-l", "team=billing"]);
    assert!(labelled.contains("\"claimed\"") && !labelled.contains("\"sharded\""), "{labelled}");
    let others = node.ok(&["export", "-l", "!team"]);
    assert!(!others.contains("[[calendar]]") && others.contains("\"sharded\""), "{others}");
    assert_eq!(node.cli(&["export", "--dir", "/proc/none"]).status.code(), Some(1));
}
