//! The log of a node as JSON.

use std::fs::{self, File};

use serde_json::Value;

use crate::process::{ServerProcess, evenkeel, text};

/// The lines of a log, each of which is JSON with the keys that all have.
fn json_lines(log: &str) -> Vec<Value> {
    let lines: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
        .collect();
    for line in &lines {
        for key in ["timestamp", "level", "message", "target"] {
            assert!(line[key].is_string(), "{key}: {line}");
        }
        let at = line["timestamp"].as_str().unwrap_or_default();
        assert!(at.starts_with("20") && at.contains('T') && at.ends_with('Z'), "{line}");
        let level = line["level"].as_str().unwrap_or_default();
        assert!(["TRACE", "DEBUG", "INFO", "WARN", "ERROR"].contains(&level), "{line}");
    }
    lines
}

#[test]
fn the_log_is_json_where_a_flag_the_environment_or_the_file_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let (settings, log) = (folder.path().join("settings.toml"), folder.path().join("log"));
    fs::write(&settings, "log_format = \"json\"\n").expect("written");
    let settings = settings.display().to_string();
    let mut command = ServerProcess::command(folder.path(), "a", &["--config", &settings]);
    command.current_dir(folder.path()).env("EVENKEEL_LOG", "info,evenkeel=debug");
    let node = ServerProcess::start(command.stderr(File::create(&log).expect("a file")));
    let jobs = "[[job]]\nname = \"j\"\ncommand = [\"/bin/sh\", \"-c\", \"echo $TRACEPARENT; exit 3\"]\n";
    assert!(node.fed(&["job", "apply", "-f", "-"], jobs).status.success());
    let run = node.json(&["job", "run", "j"])["run"].as_str().expect("a run").to_owned();
    assert!(!node.cli(&["run", "wait", &run]).status.success());
    let context = node.ok(&["run", "logs", &run]);
    // A guard that dies is a warning, and a guard that cannot open its runs' output says so itself.
    fs::remove_dir_all(folder.path().join("a/logs")).expect("removed");
    fs::write(folder.path().join("a/logs"), "in the way").expect("written");
    let second = node.json(&["job", "run", "j"])["run"].as_str().expect("a run").to_owned();
    assert!(!node.cli(&["run", "wait", &second]).status.success());
    node.signal("TERM");
    assert_eq!(node.end(), 0);
    let lines = json_lines(&fs::read_to_string(&log).expect("the log"));
    let ended =
        lines.iter().find(|line| line["run"] == *run && line["outcome"] == "failed").expect("its end");
    let ids = ["trace_id", "span_id"].map(|key| ended[key].as_str().expect(key).to_owned());
    assert_eq!(context.trim(), format!("00-{}-{}-01", ids[0], ids[1]));
    assert!(lines.iter().any(|line| line["target"] == "evenkeel::guard"), "{lines:?}");
    // The flag wins over the file, and a node that cannot start says why in the same format.
    let data = folder.path().join("b").display().to_string();
    let given = ["serve", "--registry", "nothing:", "--name", "b", "--data", &data, "--port", "0"];
    for (more, is_json) in [
        (vec!["--log-format", "json"], true),
        (vec!["--config", &settings], true),
        (vec!["--config", &settings, "--log-format", "text"], false),
        (vec![], false),
    ] {
        let refused = evenkeel(&[&given[..], &more].concat()).output().expect("evenkeel starts");
        assert!(!refused.status.success());
        let said = text(&refused.stderr);
        assert!(said.contains("nothing"), "{said}");
        match is_json {
            true => assert_eq!(json_lines(&said).last().expect("a line")["level"], "ERROR", "{said}"),
            false => assert!(said.lines().all(|line| !line.starts_with('{')), "{said}"),
        }
    }
    let unknown =
        evenkeel(&[&given[..], &["--log-format", "xml"]].concat()).output().expect("evenkeel starts");
    assert!(text(&unknown.stderr).contains("--log-format is \"xml\": write text or json"));
}
