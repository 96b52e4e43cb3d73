//! Bad input: each is refused with the fix, an exit code, and nothing half written.

use std::fs;
use std::net::TcpListener;

use serde_json::json;

use crate::process::{ServerProcess, evenkeel, run, text};

/// What is wrong with a job file, its exit code, and what the message must say.
const JOBS: &[(&str, &str)] = &[
    (
        "[[job]]\nname = \"a\"\ncommand = [\"x\"]\nshedule = \"@daily\"\n",
        ":4:1: unknown key \"shedule\" in job: did you mean \"schedule\"? It takes a schedule",
    ),
    ("[[jobs]]\nname = \"a\"\n", "unknown key \"jobs\": did you mean \"job\"?"),
    ("[[job]]\ncommand = [\"x\"]\n", "the key \"name\" of job is missing"),
    ("[[job]]\nname = \"a b\"\ncommand = [\"x\"]\n", ":2:8: job name \"a b\" is not allowed"),
    ("[[job]]\nname = \"../a\"\ncommand = [\"x\"]\n", "is not allowed"),
    ("[[job]]\nname = \"a\"\n", ":2: job a: it does nothing: give command"),
    ("[[job]]\nname = \"a\"\ncommand = [\"x\"]\nschedule = \"61 * * * *\"\n", "minute"),
    ("[[job]]\nname = \"a\"\ncommand = [\"x\"]\nschedule = \"0 0 30 2 *\"\n", "never fires"),
    (
        "[[job]]\nname = \"a\"\ncommand = [\"x\"]\nschedule = \"@daily\"\ntimezone = \"Mars/Olympus\"\n",
        "Mars/Olympus",
    ),
    ("[[job]]\nname = \"a\"\ncommand = [\"x\"]\nshards = 0\n", "shards is 0, allowed are 1 to"),
    (
        "[[job]]\nname = \"a\"\ncommand = [\"x\"]\nshards = 4000000000\n",
        "shards is 4000000000, allowed are 1 to",
    ),
    ("[[job]]\nname = \"a\"\ncommand = [\"x\"]\nshards = 5000000000\n", ":4:10: "),
    ("[[job]]\nname = \"a\"\ncommand = [\"x\"]\ntimeout = \"0s\"\n", "timeout is 0"),
    ("[[job]]\nname = \"a\"\ncommand = 7\n", ":3:11: command takes the program and its arguments as a list"),
    ("[[job]]\nname = \"a\"\ncommand = \"x\"\n", ":3: job a: command is a text, which only a shell reads"),
    (
        "[[job]]\nname = \"a\"\ncommand = [\"x\"]\n[[job]]\nname = \"a\"\ncommand = [\"y\"]\n",
        "already declared at",
    ),
    ("[[job]]\nname = \"ok\"\ncommand = [\"x\"]\n[[job]]\nname = \"b\"\n", ":5: job b: it does nothing"),
    (
        "[[job]]\nname = \"a\"\ncommand = [\"x\"]\nshards = 2\n",
        "shards is for sharded jobs: set placement = \"sharded\"",
    ),
    (
        "[[job]]\nname = \"a\"\ncommand = [\"x\"]\nmonitor_execution = false\n",
        "monitor_execution is for sharded jobs",
    ),
    (
        "[[job]]\nname = \"a\"\ncommand = [\"x\"]\nplacement = \"spread\"\n",
        ":4:13: placement is \"spread\": it takes \"claimed\", \"sharded\", \"broadcast\" or \"dispatched\"",
    ),
    (
        "[[job]]\nname = \"a\"\ncommand = [\"x\"]\nplacement = \"sharded\"\nstrategy = \"even\"\n",
        ":5:12: strategy is \"even\": it takes \"average\", \"odd_even\" or \"rotate\"",
    ),
    (
        "[[job]]\nname = \"a\"\nshard_parameters = \"0:x\"\n",
        ":3:20: shard_parameters: \"0:x\" is not shard=parameter",
    ),
    (
        "[[job]]\nname = \"a\"\nshard_parameters = \"1=x,1=y\"\n",
        ":3:20: shard_parameters: shard 1 is named twice",
    ),
    (
        "[[job]]\nname = \"a\"\nshard_parameters = 7\n",
        "parameters takes a list of texts, or a text as \"0=north,1=south\", not the number 7",
    ),
    (
        "[[job]]\nname = \"a\"\ncommand = [\"x\"]\nplacement = \"sharded\"\nshards = 3\nshard_parameters = \"3=x\"\n",
        "shard_parameters has one for shard 3, but the last shard is 2",
    ),
    (
        "[[job]]\nname = \"a\"\ncommand = [\"x\"]\nplacement = \"sharded\"\nmonitor_execution = false\ndelivery = \"at_least_once\"\n",
        "which takes monitor_execution = true",
    ),
    (
        "[[job]]\nname = \"a\"\nhttp = { method = \"GET\" }\n",
        "the key \"url\" of http is missing: it takes an address",
    ),
    (
        "[[job]]\nname = \"a\"\n[job.http]\nurl = \"http://h/\"\nbody = \"\"\"\nrun\n {{tokn}}\"\"\"\n",
        ":5: job a: http.body, line 2, column 2: there is no such fact of a run: use one of job, namespace, run",
    ),
    (
        "[[job]]\nname = \"a\"\nhttp = { url = \"http://h/\" }\ncommand = [\"x\"]\n",
        "give one of command, function",
    ),
    ("[[job]]\nname = \"a\"\nhttp = { url = \"file:///etc/passwd\" }\n", "write http://HOST/PATH"),
    (
        "[[job]]\nname = \"a\"\nhttp = { url = \"http://h/\", headers = { Evenkeel-Fence = \"9\" } }\n",
        "it is set for every run and never the job's own",
    ),
    (
        "[[job]]\nname = \"a\"\nhttp = { url = \"http://h/\", success = [\"2xx\"] }\n",
        "write 404 or \"200-299\"",
    ),
    ("[job]\nname = \"a\"\n", ":1:1: job takes a list: write [[job]], with two brackets"),
    (
        "[[job]]\nname = \"a\"\ncommand = [\"x\"]\nretry = 3\n",
        ":4:9: retry takes a table, as { max_retries = 3, delay = \"10s\" }",
    ),
    (
        "[[job]]\nname = \"a\"\ncommand = [\"x\"]\nschedule = \"\"\n",
        ":4:12: schedule is empty: write when the job is due",
    ),
    (
        "[[job]]\nname = \"a\"\ncommand = [\"x\"]\nschedule = \"@daily\"\ntimezone = \"\"\n",
        ": timezone is empty",
    ),
    ("[[job]\n", ":1:"),
    ("", "holds no job"),
];

/// proves: S2-18
#[test]
fn a_wrong_job_file_is_refused_with_its_line_and_nothing_of_it_is_applied() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    for (input, says) in JOBS {
        let output = node.fed(&["job", "apply", "-f", "-"], input);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(5), "{input}: {said}");
        assert!(said.contains(says) && said.contains("standard input"), "{input}: {said}");
    }
    let jobs = folder.path().join("jobs");
    fs::create_dir(&jobs).expect("a folder");
    fs::write(jobs.join("1.toml"), "[[job]]\nname = \"first\"\ncommand = [\"x\"]\n").expect("written");
    fs::write(jobs.join("2.yaml"), "job:\n  - name: second\n    comand: [x]\n").expect("written");
    let output = node.cli(&["job", "apply", "-f", &jobs.display().to_string()]);
    let said = text(&output.stderr);
    assert!(
        said.contains("2.yaml:3:5: ")
            && said.contains("unknown key \"comand\" in job: did you mean \"command\"?"),
        "{said}"
    );
    assert_eq!(output.status.code(), Some(5));
    assert_eq!(node.json(&["job", "list"]), json!([]), "nothing is half applied");
}

#[test]
fn the_api_checks_for_itself() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    let head =
        format!("POST /api/v1/jobs/apply HTTP/1.1\nHost: {}\nContent-Type: application/json", node.address);
    for (body, says) in [
        ("", "the body makes no sense"),
        ("[]", "the body makes no sense"),
        (
            r#"{"jobs":[{"name":"a","command":["x"],"shedule":""}]}"#,
            r#"jobs[0].shedule, line 1, column 46: unknown key \"shedule\" in job: did you mean \"schedule\"?"#,
        ),
        (r#"{"jobs":[{"name":"a/b/c","command":["x"]}]}"#, "is not allowed"),
        (r#"{"jobs":[{"name":"ok","command":["x"]},{"name":"b"}]}"#, "nothing was applied"),
        (r#"{"jobs":[{"name":"a","command":["x\u0000"]}]}"#, "NUL"),
    ] {
        let (status, answer) = node.raw(&head, body.as_bytes());
        assert_eq!(status, 400, "{body}: {answer}");
        assert!(answer.contains(says), "{body}: {answer}");
    }
    let get = |path: &str| node.raw(&format!("GET /api/v1/{path} HTTP/1.1\nHost: {}", node.address), b"").0;
    for (path, status) in [
        ("jobs/nope", 404),
        ("jobs/no%2Fpe", 404),
        ("jobs/no%2Fpe%2Fthere", 400),
        ("jobs/%00", 400),
        ("jobs?limit=x", 400),
        ("jobs?limlt=1", 400),
        ("runs?state=ended", 400),
        ("runs/nope", 400),
        ("runs/nope:1:0", 404),
        ("runs/nope:1:0/logs", 404),
        ("runs/nope:1:0/wait", 404),
        ("jobs/nope/shards", 404),
        ("jobs/nope/shards?fold=perhaps", 400),
        ("nothing", 404),
    ] {
        assert_eq!(get(path), status, "{path}");
    }
    assert_eq!(node.json(&["job", "list"]), json!([]));
}

/// proves: S0-21
#[test]
fn a_port_in_use_ends_the_process_before_it_is_a_member() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = ServerProcess::serve(folder.path(), "a", &[]);
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port().to_string();
    let output =
        ServerProcess::command(folder.path(), "b", &["--port", &port]).output().expect("evenkeel starts");
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(said.contains("in use") && said.contains("--port"), "{said}");
    assert!(!folder.path().join("b").exists(), "its data folder was never touched");
    let nodes = first.json(&["node", "list"]);
    assert_eq!(nodes.as_array().map(Vec::len), Some(1), "{nodes}");
}

#[test]
fn a_node_that_cannot_live_says_why() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).display().to_string();
    fs::write(at("file"), "not a folder").expect("written");
    fs::write(at("other.db"), "this is no database at all, but a text that is long enough").expect("written");
    fs::write(at("odd.toml"), "name = \"a\"\nprot = 1\n").expect("written");
    let good = format!("sqlite:{}", at("registry.db"));
    let other = format!("sqlite:{}", at("other.db"));
    let nowhere = format!("sqlite:{}", at("file/registry.db"));
    for (registry, data, more, says) in [
        (good.as_str(), at("file/data"), vec![], "--data"),
        (&other, at("d1"), vec![], "other.db"),
        (&nowhere, at("d2"), vec![], "registry.db"),
        ("zookeper:host", at("d3"), vec![], "sqlite:"),
        (&good, at("d4"), vec!["--ttl", "1s"], "at least 2s and at most 1h"),
        (&good, at("d5"), vec!["--tolerance", "0"], "at least 1"),
        (&good, at("d6"), vec!["--config", "/nowhere.toml"], "cannot be read"),
        (
            &good,
            at("d7"),
            vec!["--history", "redis://u:hunter2@h/0"],
            "use sqlite:PATH, postgres://USER@HOST",
        ),
    ] {
        let args = ["serve", "--name", "a", "--port", "0", "--registry", registry, "--data", &data];
        let output = run(&[&args[..], &more[..]].concat());
        let said = text(&output.stderr);
        assert!(!output.status.success(), "{args:?}");
        assert!(said.contains(says), "{registry} {data} {more:?}: {said}");
    }
    let output = run(&["serve", "--config", &at("odd.toml"), "--registry", &good, "--data", &at("d8")]);
    assert!(
        text(&output.stderr).contains("odd.toml:2: unknown key \"prot\": did you mean \"port\"?"),
        "{}",
        text(&output.stderr)
    );
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(fs::read(at("other.db")).expect("read").len(), 58, "what is no registry stays as it was");
}

#[test]
fn what_is_applied_and_probably_not_meant_is_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = folder.path().join("settings.toml");
    fs::write(&settings, "[[notify]]\nname = \"oncall\"\ncommand = [\"/bin/true\"]\n").expect("written");
    let node = ServerProcess::serve(folder.path(), "a", &["--config", &settings.display().to_string()]);
    for (keys, says) in [
        ("schedule = \"at 2020-01-01T00:00:00\"", "job j is never due again"),
        ("schedule = \"0 0 9 1 1 ? 2021\"", "job j is never due again"),
        ("schedule = \"@daily\"\nend_at = \"2021-01-01\"", "job j is never due again"),
        ("schedule = \"0 0 9 * * 1-5\"", "is SUN-THU: write MON-FRI"),
        ("schedule = \"30 2 * * * *\"", "write `30 2 * * *` if five were meant"),
        (
            "notify = { to = [\"nobody\"] }",
            "notify.to nobody, a notifier that is none of oncall, those of node a",
        ),
        ("directory = \"/nonexistent\"", "names the directory /nonexistent, which is not on node a"),
        ("user = \"nobody-here\"", "names the user nobody-here, whom nobody knows on node a"),
    ] {
        let input = format!("[[job]]\nname = \"j\"\ncommand = [\"/bin/true\"]\n{keys}\n");
        let output = node.fed(&["job", "apply", "-f", "-"], &input);
        let said = text(&output.stderr);
        assert!(output.status.success(), "{keys}: {said}");
        assert!(said.contains(says), "{keys}: {said}");
    }
    let absent = "[[job]]\nname = \"j\"\ncommand = [\"/nonexistent/program\"]\n";
    let said = text(&node.fed(&["job", "apply", "-f", "-"], absent).stderr);
    assert!(said.contains("names the program /nonexistent/program, which is not on node a"), "{said}");
    let sound = "[[job]]\nname = \"j\"\nschedule = \"@daily\"\ncommand = [\"/bin/true\"]\nnotify = { to = [\"oncall\"] }\n";
    assert_eq!(text(&node.fed(&["job", "apply", "-f", "-"], sound).stderr), "");
}

#[test]
fn what_a_flag_names_is_looked_at_before_the_node_starts() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = ServerProcess::command(folder.path(), "a", &["--secrets", "/nonexistent"]);
    let output = command.output().expect("evenkeel starts");
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("--secrets /nonexistent: cannot be read"),
        "{}",
        text(&output.stderr)
    );
    let key = folder.path().join("key");
    let list = |text_of_key: &str, mode| {
        fs::write(&key, text_of_key).expect("written");
        fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(mode)).expect("it is ours");
        let key = key.display().to_string();
        let said = run(&["job", "list", "--server", "http://127.0.0.1:1", "--cluster-key-file", &key]);
        (said.status.code(), text(&said.stderr))
    };
    const GOOD: &str = "correct-horse-battery\n";
    for mode in [0o644, 0o622, 0o660] {
        let (code, open) = list(GOOD, mode);
        let expected = format!("others on this host can read or change it (mode {mode:o}): chmod 600");
        assert!(code == Some(2) && open.contains(&expected), "{open}");
    }
    for weak in [
        "short",
        "aaaaaaaaaaaaaaaaaaaaaaaaa",
        "0123456789abcdef",
        "abcabcabcabcabcabcabc",
        "two words of a key",
    ] {
        let (code, refused) = list(weak, 0o600);
        assert!(code == Some(2) && refused.contains("/dev/urandom"), "{weak}: {refused}");
    }
    for mode in [0o600, 0o440] {
        assert_eq!(list(GOOD, mode).0, Some(3), "the key is taken, and no node answers");
    }
}

#[test]
fn what_kubernetes_puts_into_the_environment_for_a_service_is_no_port() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = folder.path().join("settings.toml");
    fs::write(&settings, "port = 0\n").expect("written");
    let registry = format!("sqlite:{}", folder.path().join("registry.db").display());
    let data = folder.path().join("a").display().to_string();
    let config = settings.display().to_string();
    let mut command =
        evenkeel(&["serve", "--name", "a", "--registry", &registry, "--data", &data, "--config", &config]);
    let node = ServerProcess::start(command.env("EVENKEEL_PORT", "tcp://10.96.0.5:7700"));
    assert_ne!(node.address.port(), 7700, "the settings file says which");
}

#[test]
fn one_name_is_one_node_and_one_folder_one_process() {
    let folder = tempfile::tempdir().expect("a folder");
    let _first = ServerProcess::serve(folder.path(), "a", &[]);
    let output = ServerProcess::command(folder.path(), "a", &[]).output().expect("evenkeel starts");
    assert!(!output.status.success());
    assert!(text(&output.stderr).contains("--data"), "{}", text(&output.stderr));
}

#[test]
fn where_nobody_answers_the_message_says_how_to_start_a_node() {
    // No program listens on the first port.
    let output = run(&["job", "list", "--server", "http://127.0.0.1:1"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(text(&output.stderr).contains("evenkeel dev"), "{}", text(&output.stderr));
    let output = run(&["job", "list", "--server", "127.0.0.1:7700"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("http://HOST:PORT"), "{}", text(&output.stderr));
}

#[test]
fn a_file_that_is_no_text_is_a_mistake_in_the_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    let (jobs, crontab) = (folder.path().join("jobs.toml"), folder.path().join("crontab"));
    let absent = folder.path().join("absent.toml");
    for file in [&jobs, &crontab] {
        fs::write(file, b"# caf\xe9\n").expect("written");
    }
    for (verb, file, code) in [
        (&["job", "apply", "-f"][..], &jobs, 5),
        (&["import", "crontab", "--dry-run"], &crontab, 5),
        (&["job", "apply", "-f"], &absent, 2),
    ] {
        let said = node.cli(&[verb, &[file.to_str().expect("a path")]].concat());
        let why = text(&said.stderr);
        assert_eq!(said.status.code(), Some(code), "{verb:?}: {why}");
        assert_eq!(why.contains("it is not UTF-8: convert it with iconv first"), code == 5, "{why}");
    }
}
