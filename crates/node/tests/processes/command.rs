//! How commands are started, and how their ends are told: real programs, each with what its job says.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;

use serde_json::{Value, json};

use crate::guard::{TestGuard, folder};
use crate::process::{lives, until};

pub(crate) const TESTS: &[(&str, fn())] = &[
    ("command::a_run_gets_few_of_its_nodes_variables", a_run_gets_few_of_its_nodes_variables),
    ("command::a_run_starts_in_its_directory", a_run_starts_in_its_directory),
    ("command::limits_are_the_runs_own", limits_are_the_runs_own),
    ("command::a_run_may_use_no_more_than_its_limits", a_run_may_use_no_more_than_its_limits),
    ("command::a_run_is_the_user_that_its_job_names", a_run_is_the_user_that_its_job_names),
    ("command::who_is_not_root_becomes_nobody_else", who_is_not_root_becomes_nobody_else),
    ("command::a_run_reads_what_its_job_says", a_run_reads_what_its_job_says),
];

/// A change that gives a start these settings.
fn setting(value: Value) -> impl FnOnce(&mut Value) {
    move |start| start["setting"] = value
}

fn variables(text: &str) -> BTreeMap<&str, &str> {
    text.lines().map(|line| line.split_once('=').unwrap_or_else(|| panic!("{line:?} in {text}"))).collect()
}

fn a_run_gets_few_of_its_nodes_variables() {
    let data = folder();
    let (path, home) = (std::env::var("PATH").unwrap(), std::env::var("HOME").unwrap());
    let own = [
        ("TZ", "Asia/Tokyo"),
        ("SECRET", "s"),
        ("ASKED", "a"),
        ("LD_LIBRARY_PATH", "/"),
        ("EVENKEEL_DATA", "/"),
    ];
    let mut guard = TestGuard::start_with(&data, |command| {
        command.envs(own);
    });
    let run = guard.launch(&["env"], |start| start["environment"] = json!({"EVENKEEL_RUN": "r"}));
    assert_eq!(guard.ended()["code"], 0);
    let output = guard.output(&run);
    let mut seen = variables(&output);
    for name in ["LANG", "LC_ALL", "LOGNAME", "USER"] {
        seen.remove(name);
    }
    let expected =
        [("EVENKEEL_RUN", "r"), ("HOME", home.as_str()), ("PATH", path.as_str()), ("TZ", "Asia/Tokyo")];
    assert_eq!(seen, BTreeMap::from(expected));
    // What it asks for, what it is given, and what it may not have whatever it asks for.
    let run = guard.launch(&["env"], |start| {
        start["setting"] = json!({"environment": {"TZ": "UTC", "PATH": "/bin:/usr/bin", "EVENKEEL_RUN": "x"},
                                  "inherit": ["ASKED", "ABSENT", "LD_LIBRARY_PATH", "EVENKEEL_DATA"]});
        start["environment"] = json!({"EVENKEEL_RUN": "r"});
    });
    assert_eq!(guard.ended()["code"], 0);
    let output = guard.output(&run);
    let seen = variables(&output);
    for (name, value) in [("TZ", "UTC"), ("PATH", "/bin:/usr/bin"), ("ASKED", "a"), ("LD_LIBRARY_PATH", "/")]
    {
        assert_eq!(seen.get(name), Some(&value), "{output}");
    }
    assert_eq!(seen.get("EVENKEEL_RUN"), Some(&"r"), "a run is told the truth");
    assert!(
        ["SECRET", "ABSENT", "EVENKEEL_DATA", "EVENKEEL_ROLE"].iter().all(|name| !seen.contains_key(name)),
        "{output}"
    );
}

fn a_run_starts_in_its_directory() {
    let data = folder();
    let mut guard = TestGuard::start(&data);
    let inside = data.path().canonicalize().unwrap();
    let run = guard.launch(&["pwd", "-P"], setting(json!({"directory": inside})));
    assert_eq!(guard.ended()["code"], 0);
    assert_eq!(guard.output(&run).trim(), inside.to_str().unwrap());
    for (directory, why) in [
        ("/nowhere", "no such directory: /nowhere: create it"),
        ("/dev/null", "cannot enter the directory /dev/null"),
    ] {
        guard.launch(&["true"], setting(json!({"directory": directory})));
        let end = guard.ended();
        assert!(end["reason"].as_str().unwrap().starts_with(why), "{end}");
        assert_eq!((&end["code"], &end["stopped"]), (&Value::Null, &Value::Null));
    }
}

fn a_run_reads_what_its_job_says() {
    let data = folder();
    let mut guard = TestGuard::start(&data);
    // More than a pipe holds, and more than an argument may be.
    let text = "a line \u{e9}\n".repeat(20_000);
    let run = guard.launch(&["cat"], setting(json!({"stdin": text})));
    assert_eq!(guard.ended()["code"], 0);
    assert_eq!(guard.output(&run), text);
    // Who does not read it, or closes it, is not held up by it and holds nobody up.
    for script in ["exit 0", "exec <&-; exit 0", "head -c 1 > /dev/null"] {
        guard.launch(&["sh", "-c", script], setting(json!({"stdin": text})));
        assert_eq!(guard.ended()["code"], 0, "{script}");
    }
    let run = guard.launch(&["sh", "-c", "wc -c; cat /dev/stdin"], |_| {});
    assert_eq!(guard.ended()["code"], 0);
    assert_eq!(guard.output(&run).trim(), "0", "without a text there is nothing to read");
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn limits_are_the_runs_own() {
    let data = folder();
    let mut guard = TestGuard::start(&data);
    let limits = json!({"cpu": "1m30s", "memory": "512M", "files": 64, "processes": 5000});
    let limited = guard.launch(&["cat", "/proc/self/limits"], setting(json!({"limits": limits})));
    assert_eq!(guard.ended()["code"], 0);
    let said = guard.output(&limited);
    for (name, soft, hard) in [
        ("Max cpu time", "90", "95"),
        ("Max address space", "536870912", "536870912"),
        ("Max open files", "64", "64"),
        ("Max processes", "5000", "5000"),
    ] {
        let line = said.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        assert!(line.split_whitespace().take(2).eq([soft, hard]), "{name}{line}");
    }
    let free = guard.launch(&["cat", "/proc/self/limits"], |_| {});
    assert_eq!(guard.ended()["code"], 0);
    let own = std::fs::read_to_string("/proc/self/limits").unwrap();
    assert_eq!(guard.output(&free), own, "without limits it has those of its node");
}

fn a_run_may_use_no_more_than_its_limits() {
    let data = folder();
    let mut guard = TestGuard::start(&data);
    let mut sh = |script: &str, limits: Value| {
        let user = if is_root() { "nobody" } else { "" };
        let run = guard.launch(&["sh", "-c", script], setting(json!({"limits": limits, "user": user})));
        let end = guard.ended();
        (end, guard.output(&run))
    };
    let (end, _) = sh("while :; do :; done", json!({"cpu": "1s"}));
    assert_eq!(end["reason"], "ended by signal 24 (XCPU: its CPU time was used up, see limits.cpu)");
    let (end, said) = sh("head -c 200000000 /dev/zero | tail -c 100000000", json!({"memory": "64M"}));
    assert!(end["code"] == 1 && said.contains("memory exhausted"), "{end} {said}");
    let many = "tee /dev/null /dev/null /dev/null /dev/null /dev/null /dev/null /dev/null";
    let (end, said) = sh(many, json!({"files": 8}));
    assert!(end["code"] == 1 && said.contains("Too many open files"), "{end} {said}");
    let (end, said) = sh("sleep 0; echo forked", json!({"processes": 1}));
    assert!(end["code"] == 2 && !said.contains("forked"), "{end} {said}");
    let (end, _) = sh("true", json!({"cpu": "soon"}));
    assert!(
        end["reason"].as_str().unwrap().starts_with("limits.cpu"),
        "what cannot be read is no missing limit: {end}"
    );
}

fn a_run_is_the_user_that_its_job_names() {
    let data = folder();
    let mut guard = TestGuard::start(&data);
    guard.launch(&["true"], setting(json!({"user": "nobody-of-that-name"})));
    let reason = guard.ended()["reason"].to_string();
    assert!(reason.contains("no such user: nobody-of-that-name: create it on this node"), "{reason}");
    if !is_root() {
        return;
    }
    let script =
        "id -un; id -Gn; echo $HOME $USER $LOGNAME $MINE; cat /proc/1/environ > /dev/null || echo refused";
    let own = json!({"user": "nobody", "environment": {"MINE": "m"}});
    let run = guard.launch(&["sh", "-c", script], setting(own));
    assert_eq!(guard.ended()["code"], 0);
    let said = guard.output(&run);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!((lines[0], lines[1], lines.last().copied()), ("nobody", "nogroup", Some("refused")), "{said}");
    assert!(lines[2].ends_with(" nobody nobody m") && !lines[2].starts_with("/root"), "{said}");
    // It ends with its guard, as every run does.
    guard.launch(&["sleep", "600"], setting(json!({"user": "nobody"})));
    let run = guard.started();
    guard.process.kill().unwrap();
    until("the kernel ends the run with its guard", || (!lives(run)).then_some(()));
}

fn who_is_not_root_becomes_nobody_else() {
    let data = folder();
    std::fs::set_permissions(data.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let mut guard = TestGuard::start_with(&data, |command| {
        if is_root() {
            command.uid(65_534).gid(65_534);
        }
    });
    guard.launch(&["true"], setting(json!({"user": "root"})));
    let end = guard.ended();
    let expected = "user = \"root\" takes a node that runs as root, and this one does not: start it as root, or leave user out";
    assert_eq!((&end["reason"], &end["code"]), (&json!(expected), &Value::Null));
    guard.launch(&["true"], setting(json!({"limits": {"files": 999_999_999_u64}})));
    let reason = guard.ended()["reason"].to_string();
    assert!(
        reason.contains("limits.files cannot be set to 999999999") && reason.contains("own limit is"),
        "{reason}"
    );
}
