//! Verbs of jobs and runs: declarations as files, runs that are followed, and jobs that a person makes,
//! edits and renames.

use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::process::{EVENKEEL, ServerProcess, text, until};

const JOBS: &str = r#"
[[job]]
name = "far"
schedule = ["0 3 * * *", "at 2099-01-01T00:00:00"]
timezone = "Europe/Berlin"
command = ["/bin/echo", "it's \"quoted\"", "two\nlines"]
labels = { team = "a" }
retry = { max_retries = 2, delay = "5s" }
enabled = false

[[job]]
name = "near"
command = ["/bin/true"]
"#;

fn node(folder: &std::path::Path) -> ServerProcess {
    ServerProcess::with_jobs(folder, JOBS, 1)
}

#[test]
fn a_shown_declaration_is_applied_as_unchanged_in_each_format() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = node(folder.path());
    for (format, file) in [("toml", "job.toml"), ("yaml", "job.yaml"), ("json", "job.json")] {
        let shown = node.ok(&["job", "show", "far", "-o", format]);
        assert!(!shown.contains("version"), "only the declaration: {shown}");
        let path = folder.path().join(file).display().to_string();
        std::fs::write(&path, &shown).expect("written");
        assert_eq!(node.ok(&["job", "apply", "-f", &path]), "unchanged  far\n1 unchanged\n", "{shown}");
    }
    let toml = node.ok(&["job", "show", "far", "-o", "toml"]);
    let applied = node.fed(&["job", "apply", "-f", "-"], &toml);
    assert_eq!(text(&applied.stdout), "unchanged  far\n1 unchanged\n");
    assert_eq!(node.json(&["job", "show", "far", "--details"])["version"], 1);
    assert_eq!(node.cli(&["job", "show", "far", "--details"]).status.code(), Some(2), "for programs only");
    let refused = node.cli(&["job", "delete", "far", "-o", "toml"]);
    assert_eq!(refused.status.code(), Some(2), "its answer is no declaration");
    assert_eq!(node.json(&["job", "list"]).as_array().map(Vec::len), Some(2), "nothing was deleted");
}

const RUNS: &str = r#"
[[job]]
name = "greets"
command = ["/bin/sh", "-c", "echo hello $WHO; sleep 0.3; echo $WHO is gone; test $WHO = world || exit 7"]
parameters = { WHO = { type = "string", default = "world" } }

[[job]]
name = "parts"
command = ["/bin/sh", "-c", "echo part $EVENKEEL_SHARD; test $EVENKEEL_SHARD != 1 || exit 4"]
placement = "sharded"
shards = 3

[[job]]
name = "again"
command = ["/bin/sh", "-c", "echo try $EVENKEEL_ATTEMPT; exit $EVENKEEL_ATTEMPT"]
retry = { max_retries = 1, delay = "1s" }

[[job]]
name = "long"
command = ["/bin/sh", "-c", "echo begun; sleep 60"]
"#;

#[test]
fn a_followed_run_prints_its_output_alone_and_ends_with_its_exit_code() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    assert!(node.fed(&["job", "apply", "-f", "-"], RUNS).status.success());
    let followed = |args: &[&str]| {
        let output = node.cli(&[&["job", "run"], args, &["--follow"]].concat());
        (output.status.code(), text(&output.stdout).to_owned(), text(&output.stderr).to_owned())
    };
    let (code, out, err) = followed(&["greets"]);
    assert_eq!((code, out.as_str()), (Some(0), "hello world\nworld is gone\n"), "{err}");
    assert!(err.contains("run greets:ask-") && err.contains("has ended: succeeded"), "{err}");
    let (code, out, err) = followed(&["greets", "--param", "WHO=you", "--request", "r", "-o", "json"]);
    assert_eq!((code, out.as_str()), (Some(7), "hello you\nyou is gone\n"), "{err}");
    let last: serde_json::Value = serde_json::from_str(err.lines().last().expect("an error")).expect("JSON");
    assert_eq!((&last["error"]["code"], &last["error"]["exit"]), (&"failed".into(), &7.into()));
    let (code, out, err) = followed(&["greets", "--request", "r"]);
    assert_eq!((code, out.as_str()), (Some(7), "hello you\nyou is gone\n"), "the same run: {err}");
    assert!(err.contains("no new run was requested"), "{err}");
    let (code, out, err) = followed(&["again"]);
    assert_eq!((code, out.as_str()), (Some(2), "try 1\ntry 2\n"), "all attempts: {err}");
    let (code, out, err) = followed(&["parts"]);
    assert_eq!(code, Some(4), "{err}");
    for shard in 0..3 {
        assert_eq!(out.matches(&format!("part {shard}\n")).count(), 1, "{out}");
        assert!(out.contains(&format!(":{shard} <==\n")), "{out}");
    }
    assert_eq!(followed(&["nope"]).0, Some(4), "there is no such job");
}

#[test]
fn ctrl_c_leaves_a_followed_run_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    assert!(node.fed(&["job", "apply", "-f", "-"], RUNS).status.success());
    let mut follow = node
        .client(&["job", "run", "long", "--request", "r", "--follow"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("evenkeel starts");
    let mut begun = [0; 6];
    follow.stdout.as_mut().expect("piped").read_exact(&mut begun).expect("it prints");
    assert_eq!(&begun, b"begun\n");
    let pid = follow.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().expect("kill starts").success());
    let ended = follow.wait_with_output().expect("it ends");
    assert_eq!(ended.status.code(), Some(130));
    let said = text(&ended.stderr);
    assert!(
        said.contains("run long:ask-r:0 goes on") && said.contains("evenkeel run kill long:ask-r:0"),
        "{said}"
    );
    assert_eq!(node.json(&["run", "running"])["running"], 1);
    node.ok(&["run", "kill", "long:ask-r:0"]);
}

#[test]
fn a_new_job_of_flags_is_declared_once_or_written_to_a_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    let refused = node.cli(&["job", "new", "j", "--sh", "true"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("--schedule or --manual"), "{}", text(&refused.stderr));
    let refused = node.cli(&["job", "new"]);
    let said = text(&refused.stderr);
    assert!(said.contains("NAME, and --schedule or --manual, and --command, --sh or --http"), "{said}");

    let words = ["--schedule", "0 3 * * *", "--timezone", "Europe/Berlin"];
    let made =
        node.ok(&[&["job", "new", "j"], &words[..], &["--command", "/bin/echo", "hi", "--", "-n"]].concat());
    assert_eq!(made, "job j is created\n");
    let declared = node.json(&["job", "show", "j"]);
    let expected = json!({
        "name": "j", "schedule": "0 3 * * *", "timezone": "Europe/Berlin", "command": ["/bin/echo", "hi", "-n"]
    });
    assert_eq!(declared["job"][0], expected);
    let again = node.cli(&["job", "new", "j", "--manual", "--sh", "true"]);
    assert_eq!(again.status.code(), Some(6), "{}", text(&again.stderr));
    assert!(text(&again.stderr).contains("evenkeel job edit j"), "{}", text(&again.stderr));
    assert_eq!(node.json(&["job", "show", "j"])["job"][0], expected, "it is as it was");
    let wrong = node.cli(&["job", "new", "k", "--schedule", "0 25 * * *", "--sh", "true"]);
    assert_eq!(wrong.status.code(), Some(5), "{}", text(&wrong.stderr));

    let file = folder.path().join("k.toml").display().to_string();
    node.ok(&["job", "new", "k", "--manual", "--http", "https://x.example/", "--file", &file]);
    assert_eq!(node.cli(&["job", "show", "k"]).status.code(), Some(4), "it is only written");
    let twice = node.cli(&["job", "new", "k", "--manual", "--sh", "true", "--file", &file]);
    assert_eq!(twice.status.code(), Some(1), "the file is there");
    assert_eq!(node.ok(&["job", "apply", "-f", &file]), "created    k\n1 created\n");
}

/// An editor that does what these lines of the shell do to the file `$1`.
fn editor(folder: &std::path::Path, lines: &str) -> String {
    let path = folder.join("editor");
    std::fs::write(&path, format!("#!/bin/sh\n{lines}\n")).expect("written");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).expect("a mode");
    path.display().to_string()
}

#[test]
fn an_edited_declaration_is_checked_planned_and_declared() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = node(folder.path());
    let drafts = folder.path().join("drafts");
    std::fs::create_dir(&drafts).expect("a folder");
    let edit = |lines: &str, args: &[&str]| {
        let mut command = node.client(&[&["job", "edit"], args].concat());
        command.env("EDITOR", editor(folder.path(), lines)).env_remove("VISUAL").env("TMPDIR", &drafts);
        let output = command.output().expect("evenkeel starts");
        (output.status.code(), text(&output.stdout).to_owned(), text(&output.stderr).to_owned())
    };
    let kept = || -> Vec<String> {
        let files = std::fs::read_dir(&drafts).expect("the folder");
        files
            .map(|it| std::fs::read_to_string(it.expect("a folder").path().join("job.toml")).expect("text"))
            .collect()
    };
    let forget = || {
        for file in std::fs::read_dir(&drafts).expect("the folder") {
            std::fs::remove_dir_all(file.expect("a folder").path()).expect("removed");
        }
    };
    let timezone = || node.json(&["job", "show", "far"])["job"][0]["timezone"].clone();

    let (code, out, err) = edit("stat -c %a \"$1\" >&2", &["far", "--yes"]);
    assert_eq!((code, out.as_str()), (Some(0), "nothing was edited, and nothing changes\n"), "{err}");
    assert!(err.contains("600"), "only its user reads it: {err}");
    assert_eq!(edit("true", &["far"]).0, Some(2), "no person can be asked");

    let (code, out, err) = edit("sed -i s,Europe/Berlin,Europe/Paris, \"$1\"", &["far", "--yes"]);
    assert_eq!(
        (code, out.as_str(), timezone()),
        (Some(0), "job far is updated\n", json!("Europe/Paris")),
        "{err}"
    );
    assert!(err.contains("timezone: \"Europe/Berlin\" → \"Europe/Paris\""), "the plan: {err}");

    // The first time it makes a mistake, the second time it finds the note and corrects it.
    let twice = "if grep -q 'unknown key' \"$1\"; then grep '^#!' \"$1\" >&2; sed -i 's,^timezoen,timezone,' \"$1\"; \
        else sed -i 's,^timezone.*,timezoen = \"UTC\",' \"$1\"; fi";
    let (code, _, err) = edit(twice, &["far", "--yes"]);
    assert_eq!((code, timezone()), (Some(0), json!("UTC")), "{err}");
    let noted = err.lines().find(|line| line.starts_with("#! line ")).expect("a note");
    assert!(noted.contains("unknown key \"timezoen\""), "{noted}");
    assert_eq!(kept(), [""; 0]);

    let (code, _, err) = edit("sed -i 's,^timezone.*,timezoen = 1,' \"$1\"", &["far", "--yes"]);
    assert_eq!((code, timezone()), (Some(5), json!("UTC")), "{err}");
    assert!(kept()[0].contains("timezoen = 1") && err.contains("kept in"), "{err}");
    forget();
    let (code, _, err) = edit("sed -i 's,\"far\",\"near\",' \"$1\"", &["far", "--yes"]);
    assert!(code == Some(5) && kept()[0].contains("evenkeel job rename far"), "{err}");
    forget();
    let (code, _, err) = edit("echo x >> \"$1\"; echo saved >&2", &["far", "--yes"]);
    assert_eq!((code, err.matches("saved").count()), (Some(5), 3), "it is not called for ever: {err}");
    forget();
    let (code, _, err) = edit("echo x >> \"$1\"; exit 3", &["far", "--yes"]);
    assert!(code == Some(1) && kept().len() == 1 && err.contains("the editor"), "{err}");
    forget();

    // While it is edited, another caller changes the job.
    let script = format!(
        "sed -i 's,^timezone.*,timezone = \"Asia/Tokyo\",' \"$1\"\n\
         printf '[[job]]\\nname = \"far\"\\ncommand = [\"/bin/true\"]\\n' | {EVENKEEL} job apply -f -"
    );
    let (code, _, err) = edit(&script, &["far", "--yes"]);
    assert_eq!((code, timezone()), (Some(6), Value::Null), "{err}");
    assert!(kept()[0].contains("Asia/Tokyo") && err.contains("evenkeel job apply -f"), "{err}");
}

#[test]
fn all_fires_that_failed_in_the_end_run_again_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    let flag = folder.path().join("healed").display().to_string();
    let jobs = format!(
        "[[job]]\nname = \"breaks\"\ncommand = [\"/bin/sh\", \"-c\", \"test -e {flag}\"]\n\
         [[job]]\nname = \"recovers\"\ncommand = [\"/bin/sh\", \"-c\", \"test $EVENKEEL_ATTEMPT = 2\"]\n\
         retry = {{ max_retries = 1, delay = \"1s\" }}\n"
    );
    assert!(node.fed(&["job", "apply", "-f", "-"], &jobs).status.success());
    for (job, request) in [("breaks", "r1"), ("breaks", "r2"), ("recovers", "r3")] {
        node.ok(&["job", "run", job, "--request", request]);
        node.cli(&["run", "wait", &format!("{job}:ask-{request}:0")]);
    }
    let retry = |more: &[&str]| {
        let words = ["run", "retry", "--failed", "--since", "1h", "-o", "json"];
        let output = node.cli(&[&words[..], more].concat());
        (output.status.code(), text(&output.stdout).to_owned(), text(&output.stderr).to_owned())
    };
    let runs = |out: &str| -> Vec<(String, Value)> {
        let rows: Vec<Value> = serde_json::from_str(out).expect("a list");
        let run = |row: &Value| (row["run"].as_str().expect("a run").to_owned(), row["applied"].clone());
        rows.iter().map(run).collect()
    };
    let both =
        |applied: Value| ["r1", "r2"].map(|request| (format!("breaks:ask-{request}:0"), applied.clone()));
    let (code, out, err) = retry(&["--dry-run"]);
    assert_eq!(code, Some(0), "{err}");
    assert_eq!(runs(&out), both(Value::Null), "not the run whose second attempt succeeded");
    assert_eq!(retry(&[]).0, Some(2), "no person can be asked");
    std::fs::write(&flag, "").expect("written");
    let (code, out, err) = retry(&["--yes", "--job", "breaks"]);
    assert_eq!((code, runs(&out)), (Some(0), both(json!("created")).to_vec()), "{err}");
    let (code, out, err) = retry(&["--yes"]);
    assert_eq!((code, runs(&out)), (Some(0), both(json!("unchanged")).to_vec()), "{err}");
    let runs = node.json(&["run", "list", "--job", "breaks"]);
    assert_eq!(runs.as_array().map(Vec::len), Some(4), "no fire ran again twice: {runs}");
    assert_eq!(node.cli(&["run", "retry", "breaks:ask-r1:0"]).status.code(), Some(0), "as restart does");
    assert_eq!(node.cli(&["run", "retry", "--failed"]).status.code(), Some(2), "of which span?");
}

#[test]
fn a_renamed_job_has_its_declaration_and_switches_and_fires_under_one_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = node(folder.path());
    node.ok(&["job", "run", "near", "--follow"]);
    node.ok(&["job", "pause", "near"]);
    let declared = node.json(&["job", "show", "near"])["job"][0].clone();
    let said = node.ok(&["job", "rename", "near", "nearer"]);
    assert!(said.contains("job near is job nearer now") && said.contains("run list --job near"), "{said}");
    assert_eq!(node.ok(&["job", "list", "-o", "name"]), "far\nnearer\n");
    let mut expected = declared;
    expected["name"] = json!("nearer");
    let shown = node.json(&["job", "show", "nearer", "--details"]);
    assert_eq!(
        (&shown["job"], &shown["paused"], &shown["disabled"]),
        (&expected, &json!(true), &Value::Null)
    );
    assert_eq!(node.json(&["run", "list", "--job", "near"]).as_array().map(Vec::len), Some(1));

    // Disabled by its file, and disabled by an operator.
    node.ok(&["job", "rename", "far", "farther"]);
    assert_eq!(node.json(&["job", "show", "farther"])["job"][0]["enabled"], false);
    node.ok(&["job", "resume", "nearer"]);
    node.ok(&["job", "disable", "nearer"]);
    node.ok(&["job", "rename", "nearer", "near"]);
    let shown = node.json(&["job", "show", "near", "--details"]);
    assert_eq!((&shown["disabled"], &shown["paused"]), (&json!(true), &json!(false)), "{shown}");
    assert_eq!(shown["job"]["enabled"], Value::Null, "its file does not disable it");
    assert_eq!(shown["switches"].as_array().map(Vec::len), Some(1), "{shown}");

    assert_eq!(node.cli(&["job", "rename", "near", "farther"]).status.code(), Some(6), "there is such a job");
    assert_eq!(node.cli(&["job", "rename", "near", "near"]).status.code(), Some(6));
    assert_eq!(node.cli(&["job", "rename", "nope", "other"]).status.code(), Some(4));
    assert!(node.fed(&["job", "apply", "-f", "-"], RUNS).status.success());
    node.ok(&["job", "run", "long", "--request", "r"]);
    until("it runs", || (node.json(&["run", "running"])["running"] == 1).then_some(()));
    let busy = node.cli(&["job", "rename", "long", "longer"]);
    assert!(
        busy.status.code() == Some(6) && text(&busy.stderr).contains("run kill"),
        "{}",
        text(&busy.stderr)
    );
    assert_eq!(node.cli(&["job", "show", "longer"]).status.code(), Some(4), "nothing was declared");
    node.ok(&["run", "kill", "long:ask-r:0"]);
}

#[test]
fn a_list_of_jobs_says_how_each_ended_last_and_what_runs_and_waits() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    let other = ServerProcess::serve(folder.path(), "b", &[]);
    let more = "[[job]]\nname = \"elsewhere\"\ncommand = [\"/bin/false\"]\nnode_selector = [\"name=b\"]\n\
                [[job]]\nname = \"nowhere\"\ncommand = [\"/bin/true\"]\nnode_selector = [\"gpu\"]\n";
    assert!(node.fed(&["job", "apply", "-f", "-"], &format!("{RUNS}{more}")).status.success());
    node.ok(&["job", "run", "greets", "--follow"]);
    node.cli(&["job", "run", "elsewhere", "--follow"]);
    node.ok(&["job", "run", "long", "--request", "r"]);
    node.ok(&["job", "run", "nowhere"]);
    let columns = ["job", "list", "--columns", "name,last-outcome,running,waiting"];
    let expected = "NAME       LAST OUTCOME  RUNNING  WAITING\n\
                    again      -             0        0\n\
                    elsewhere  failed        0        0\n\
                    greets     succeeded     0        0\n\
                    long       -             1        0\n\
                    nowhere    -             0        1\n\
                    parts      -             0        0\n";
    for asked in [&node, &other] {
        let mut seen = String::new();
        until("the list says so", || {
            seen = asked.ok(&columns);
            (seen == expected).then_some(())
        });
        let rows = asked.json(&["job", "list", "--find", "elsewhere"]);
        assert_eq!(rows[0]["runs"]["last"]["state"], "failed");
        assert!(rows[0]["runs"]["last"]["run"].as_str().is_some_and(|run| run.starts_with("elsewhere:ask-")));
    }
    let head = |query: &str| format!("GET /api/v1/jobs{query} HTTP/1.1\nHost: {}", node.address);
    let (status, answer) = node.raw(&head("?find=long"), b"");
    assert!(status == 200 && !answer.contains("\"runs\""), "only where it is asked for: {answer}");
    assert_eq!(node.raw(&head("?with=all"), b"").0, 400);
    node.ok(&["run", "kill", "long:ask-r:0"]);
}
