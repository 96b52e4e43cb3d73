//! How commands are started, and how their ends are told: real programs, each with what its job says.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::guard::{Guard, folder};

pub(crate) const TESTS: &[(&str, fn())] = &[
    ("command::a_run_gets_few_of_its_nodes_variables", a_run_gets_few_of_its_nodes_variables),
    ("command::a_run_starts_in_its_directory", a_run_starts_in_its_directory),
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
    let mut guard = Guard::start_with(&data, &own);
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
    let mut guard = Guard::start(&data);
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
    let mut guard = Guard::start(&data);
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
