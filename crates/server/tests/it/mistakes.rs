//! Mistakes of people at the command line: what each is answered with, and with which exit code. The snapshot is read as a
//! person would read it: each answer says what is wrong and what to do.

use std::fmt::Write;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::process::{EVENKEEL, ServerProcess, evenkeel, text, write_private};

/// The command lines, without the program's name. A word with blanks is written as one here and quoted in the snapshot.
const MISTAKES: &[&[&str]] = &[
    // Words that are no command.
    &["jbo", "list"],
    &["job", "lst"],
    &["job", "l"],
    &["node", "label", "a", "zone=eu"],
    &["get", "jobs"],
    &["backfill", "nightly"],
    &["frobnicate"],
    // Flags and their values.
    &["job", "list", "--colour"],
    &["job", "list", "-o", "xml"],
    &["job", "list", "-o", "toml"],
    &["calendar", "list", "--columns", "name,colour"],
    &["job", "list", "-l", "team in billing"],
    &["job", "pause"],
    &["job", "pause", "nightly", "--all"],
    &["apply", "-f", "jobs.toml", "--wait", "5m"],
    &["run", "list", "--state", "sleeping"],
    &["run", "list", "--since", "yesterday"],
    &["run", "list", "--limit", "0"],
    &["run", "list", "--limit", "many"],
    &["job", "next", "--schedule", "@daily", "--from", "noon"],
    &["completion", "tcsh"],
    // Files.
    &["apply"],
    &["apply", "-f", "missing.toml"],
    &["apply", "-f", "empty"],
    &["apply", "-f", "jobs.txt"],
    &["apply", "-f", "noise.toml"],
    &["apply", "-f", "pod.yaml"],
    &["apply", "-f", "jobs.toml", "--prune"],
    &["apply", "-f", "hidden.json"],
    &["apply", "-f", "mute.toml"],
    &["import", "crontab", "missing"],
    &["import", "crontab", "pod.yaml"],
    &["import", "kubernetes", "jobs.toml"],
    &["import", "quartz", "pod.yaml"],
    // Schedules.
    &["job", "next", "--schedule", "61 * * * *"],
    &["job", "next", "--schedule", "* * * *"],
    &["job", "next", "--schedule", "hourly"],
    &["job", "next", "hourly"],
    &["job", "next", "@hourly"],
    &["job", "next", "0 5 * * *"],
    &["job", "next", "--schedule", "@daily", "--timezone", "Mars/Olympus"],
    // Names of what there is not.
    &["job", "show", "nihgtly"],
    &["job", "show", "a b"],
    &["job", "list", "-n", "nowhere"],
    &["calendar", "show", "holidays"],
    &["node", "drain", "nowhere"],
    &["token", "delete", "ci"],
    &["run", "logs", "nightly"],
    &["run", "logs", "nightly:1767225600000:0"],
    &["run", "show", "nightly:yesterday:0"],
    &["run", "kill", "12345"],
    // Parameters, and the state of things.
    &["job", "run", "nightly", "--param", "colour=red"],
    &["job", "run", "nightly", "--param", "day"],
    &["job", "backfill", "nightly", "--from", "2026-02-02T00:00:00Z", "--to", "2026-01-01T00:00:00Z"],
    &["job", "backfill", "nightly", "--from", "2026-02-30"],
    &["shard", "list", "nightly"],
    &["job", "rollback", "nightly", "--to", "9"],
    &["job", "delete", "-l", "team=billing"],
    &["job", "edit", "nightly", "--yes"],
    &["namespace", "delete", "default"],
    &["user", "create", "ann", "--role", "king"],
    &["secret", "set", "db-password"],
    // The way to a node.
    &["job", "list", "--server", "localhost"],
    &["job", "list", "--server", "http://127.0.0.1:1"],
    &["job", "list", "--server", "http://192.0.2.1:7700", "--cluster-key-file", "key"],
    &["job", "list", "--context", "production"],
    &["job", "list", "--cluster-key-file", "missing"],
    &["job", "list", "--cluster-key-file", "short"],
    &["job", "list", "--cluster-key-file", "open"],
    &["job", "list", "--cluster-key-file", "key"],
    &["job", "list", "--ca-file", "jobs.toml"],
    &["job", "list", "--server", "https://127.0.0.1:1", "--ca-file", "missing"],
    &["serve"],
    &["serve", "--name", "a b"],
];

const JOBS: &str = r#"
[[job]]
name = "nightly"
schedule = "@daily"
command = ["/bin/true"]
labels = { team = "billing" }
parameters = { day = { type = "string", default = "today" } }
"#;

/// The files that the command lines name, and an editor while whose work another caller changes the job.
fn write_files(folder: &Path) {
    let write = |name: &str, text: &[u8]| fs::write(folder.join(name), text).expect("written");
    write("jobs.toml", JOBS.as_bytes());
    write("jobs.txt", JOBS.as_bytes());
    write("changed.toml", JOBS.replace("@daily", "@weekly").as_bytes());
    write("noise.toml", b"\xff\xfe\x00[[job]]");
    write("pod.yaml", b"kind: Pod\n");
    write("mute.toml", b"[[job]]\nname = \"mute\"\ncommand = [\"/bin/true\"]\nnotify = {}\n");
    write("hidden.json", br#"{"job": [{"name": "hidden", "command": ["\u200b/bin/true"]}]}"#);
    fs::create_dir(folder.join("empty")).expect("a folder");
    write_private(&folder.join("key"), "another-key-than-the-node-has\n");
    write_private(&folder.join("short"), "short\n");
    write("open", b"another-key-than-the-node-has\n");
    let mode = |name: &str, mode| fs::set_permissions(folder.join(name), fs::Permissions::from_mode(mode));
    mode("open", 0o644).expect("its mode is set");
    write(
        "editor",
        format!("#!/bin/sh\nsed -i s/@daily/@hourly/ \"$1\"\nexec {EVENKEEL} apply -f changed.toml\n")
            .as_bytes(),
    );
    mode("editor", 0o755).expect("its mode is set");
}

/// A word as it is typed in a shell.
fn typed(word: &str) -> String {
    if word.contains([' ', '*']) { format!("'{word}'") } else { word.to_owned() }
}

/// Without the plan of an edit, which has dates, and without the name of the folder in which its text is kept.
fn masked(said: &str) -> String {
    let lines =
        said.lines().filter(|line| !line.starts_with("evenkeel: ~") && !line.starts_with("evenkeel:   "));
    let text = lines.collect::<Vec<_>>().join("\n");
    let mut pieces = text.split("DIR/evenkeel-");
    let first = pieces.next().unwrap_or_default().to_owned();
    pieces.fold(first, |text, piece| {
        let rest = piece.trim_start_matches(|c: char| c.is_ascii_alphanumeric());
        format!("{text}DIR/evenkeel-ID{rest}")
    })
}

#[test]
fn each_mistake_is_answered_with_what_is_wrong_and_the_fix() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    write_files(folder.path());
    node.ok(&["apply", "-f", &folder.path().join("jobs.toml").display().to_string()]);
    let port = node.address.port().to_string();
    let editor = folder.path().join("editor").display().to_string();
    let mut all = String::new();
    for words in MISTAKES {
        let mut command = evenkeel(words);
        command.current_dir(folder.path()).env("EDITOR", &editor).env("TMPDIR", folder.path());
        // A port that the node has chosen is the one thing that differs from a node where it is by default.
        command.env("EVENKEEL_SERVER", format!("http://{}", node.address));
        let output = command.output().expect("evenkeel starts");
        let line: Vec<_> = words.iter().map(|word| typed(word)).collect();
        let code = output.status.code().expect("it ends by itself");
        assert!(code > 0, "{line:?} is a mistake: {}", text(&output.stdout));
        let said = text(&output.stderr).replace(&port, "PORT").replace(" --server <URL>", "");
        let said = masked(&said.replace(&folder.path().display().to_string(), "DIR"));
        // Words of the program's own making are for its authors.
        for jargon in ["os error", "serde", "panicked", "Err(", "None", "Some(", "expected value", "variant"]
        {
            assert!(!said.contains(jargon), "{line:?}: {said}");
        }
        writeln!(all, "$ evenkeel {}\n[{code}] {}\n", line.join(" "), said.trim_end()).expect("written");
    }
    insta::assert_snapshot!("mistakes", all);
}
