//! How answers are shown: formats, columns, times, again and again, completed by a shell, and in manual pages.

use std::io::Read;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::process::{EVENKEEL, ServerProcess, evenkeel, run, text, until};

const JOBS: &str = r#"
[[job]]
name = "far"
schedule = "at 2099-01-01T00:00:00"
command = ["/bin/true"]
labels = { team = "a" }

[[job]]
name = "fails"
command = ["/bin/sh", "-c", "echo oh; exit 3"]

[[job]]
name = "parts"
command = ["/bin/sh", "-c", "test $EVENKEEL_SHARD != 1"]
placement = "sharded"
shards = 3
"#;

fn node(folder: &std::path::Path) -> ServerProcess {
    ServerProcess::with_jobs(folder, JOBS, 3)
}

#[test]
fn a_list_is_the_same_in_every_format() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = node(folder.path());
    let rows = node.json(&["job", "list"]);
    let lines = node.ok(&["job", "list", "-o", "jsonl"]);
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(Value::Array(lines), rows);
    let yaml = node.ok(&["job", "list", "-o", "yaml"]);
    assert!(yaml.starts_with("- ") && yaml.contains("name: fails"), "{yaml}");
    assert_eq!(node.ok(&["job", "list", "-o", "name"]), "fails\nfar\nparts\n");
    assert_eq!(node.ok(&["jo", "li", "-o", "name", "--find", "fa"]), "fails\nfar\n", "words are shortened");
    let table = node.ok(&["job", "list"]);
    let wide = node.ok(&["job", "list", "-o", "wide"]);
    assert!(!table.contains("LABELS") && wide.contains("LABELS") && wide.contains("team=a"), "{wide}");
    let picked = node.ok(&["job", "list", "--columns", "labels,name", "--find", "far"]);
    assert_eq!(picked, "LABELS  NAME\nteam=a  far\n");
    let refused = node.cli(&["job", "list", "--columns", "nmae"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("there are name, schedule"), "{}", text(&refused.stderr));
    let iso = node.ok(&["job", "list", "--time", "iso", "--columns", "next", "--find", "far"]);
    assert_eq!(iso, "NEXT\n2099-01-01T00:00:00.000Z\n");
    for format in ["json", "jsonl", "yaml"] {
        let failed = node.cli(&["job", "show", "nope", "-o", format]);
        let said: Value = serde_json::from_slice(&failed.stderr).expect("one line of JSON");
        assert_eq!(said["error"]["code"], "not_found", "{format}");
    }
}

#[test]
fn a_run_is_shown_with_its_exit_code_and_a_fire_with_its_sum() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = node(folder.path());
    assert_eq!(node.cli(&["run", "logs", "fails"]).status.code(), Some(4), "it has no run yet");
    let run = node.ok(&["job", "run", "fails", "-o", "name"]);
    assert!(!node.cli(&["run", "wait", "fails"]).status.success(), "the latest run is {run}");
    until("the output is known", || (node.cli(&["run", "logs", "fails"]).stdout == b"oh\n").then_some(()));
    let shown = node.ok(&["run", "show", run.trim(), "--columns", "state,exit"]);
    assert_eq!(shown, "STATE   EXIT\nfailed  3\n");
    assert_eq!(node.ok(&["run", "show", "fails", "--columns", "run"]), format!("RUN\n{run}"));
    let logs = node.ok(&["job", "logs", "fails"]);
    assert_eq!(logs, format!("{}#1: oh\n", run.trim()), "without a text it is every line");
    let fire = node.ok(&["job", "run", "parts", "-o", "name"]);
    node.cli(&["run", "wait", fire.trim()]);
    let shown = node.ok(&["run", "show", fire.trim()]);
    assert!(
        shown.contains("as a whole failed, 2 of 3 shards succeeded: shards 1 failed (exit code 1)"),
        "{shown}"
    );
}

#[test]
fn a_watch_shows_each_change_and_ends_well_when_it_is_interrupted() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = node(folder.path());
    let mut watch = node
        .client(&["job", "list", "--columns", "name,paused", "--find", "far", "--watch=1s"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("evenkeel starts");
    let mut out = watch.stdout.take().expect("piped");
    let mut take = |n: usize| {
        let mut piece = vec![0; n];
        out.read_exact(&mut piece).expect("it prints");
        text(&piece).to_owned()
    };
    let first = "NAME  PAUSED\nfar   -\n";
    assert_eq!(take(first.len()), first);
    node.ok(&["job", "pause", "far"]);
    let second = "\nNAME  PAUSED\nfar   yes\n";
    assert_eq!(take(second.len()), second, "what is the same is not shown again");
    let pid = watch.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().expect("kill starts").success());
    assert_eq!(watch.wait().expect("it ends").code(), Some(0));
    let nowhere = run(&["job", "list", "--watch", "--server", "http://127.0.0.1:1"]);
    assert_eq!(nowhere.status.code(), Some(3), "the first look fails");
}

#[test]
fn bash_completes_verbs_and_the_names_of_jobs() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = node(folder.path());
    let script = format!(
        r#"PATH="{}:$PATH"; source <(evenkeel completion bash)
        for words in "evenkeel job unp" "evenkeel job sho" "evenkeel job show fa" "evenkeel node drain a" "evenkeel run list --job pa"; do
            COMP_WORDS=($words); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); COMP_TYPE=9
            _clap_complete_evenkeel evenkeel "${{COMP_WORDS[-1]}}" "${{COMP_WORDS[-2]}}"
            echo "${{COMPREPLY[@]}}"
        done
        EVENKEEL_SERVER=http://127.0.0.1:1 _clap_complete_evenkeel evenkeel pa --job; echo "${{COMPREPLY[@]}}""#,
        std::path::Path::new(EVENKEEL).parent().expect("a folder").display()
    );
    let mut bash = Command::new("bash");
    // The key of this user's nodes, as the other trials have it.
    bash.env("XDG_STATE_HOME", crate::process::STATE_HOME);
    bash.env("EVENKEEL_SERVER", format!("http://{}", node.address));
    let said = bash.args(["-c", &script]).output().expect("bash starts");
    assert_eq!(text(&said.stdout), "\nshow\nfails far\na\nparts\n\n", "{}", text(&said.stderr));
    assert!(said.stderr.is_empty(), "{}", text(&said.stderr));
}

#[test]
fn every_verb_has_a_manual_page() {
    let folder = tempfile::tempdir().expect("a folder");
    let pages = folder.path().join("man");
    let written = evenkeel(&["docs", "man"]).arg(&pages).output().expect("evenkeel starts");
    assert!(written.status.success(), "{}", text(&written.stderr));
    let page = |name: &str| std::fs::read_to_string(pages.join(name)).expect("a page");
    let list = page("evenkeel-job-list.1");
    for part in [".TH evenkeel-job-list 1", ".SH NAME", ".SH OPTIONS", "\\-\\-columns", "\\-\\-watch"] {
        assert!(list.contains(part), "{part} is not in {list}");
    }
    assert!(page("evenkeel.1").contains("evenkeel\\-job(1)"));
    let reference = text(&run(&["docs", "cli"]).stdout).to_owned();
    let verbs = reference.lines().filter_map(|line| line.trim_start_matches('#').strip_prefix(" `evenkeel "));
    let verbs: Vec<&str> = verbs.filter_map(|verb| verb.strip_suffix('`')).collect();
    assert!(verbs.len() > 80);
    for verb in verbs {
        page(&format!("evenkeel-{}.1", verb.replace(' ', "-")));
    }
}

#[test]
fn a_context_says_where_the_node_is_and_gives_its_key_to_no_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = node(folder.path());
    let key = folder.path().join("key");
    crate::process::write_private(&key, "a-key-of-another-cluster\n");
    let cli = |args: &[&str]| {
        let mut command = evenkeel(args);
        command.env("XDG_CONFIG_HOME", folder.path());
        let output = command.output().expect("evenkeel starts");
        (output.status.code(), format!("{}{}", text(&output.stdout), text(&output.stderr)))
    };
    let server = format!("http://{}", node.address);
    assert_eq!(
        cli(&["context", "add", "trial", "--server", &server]).1,
        "context trial is added: it is used\n"
    );
    assert_eq!(cli(&["job", "list", "-o", "name"]), (Some(0), "fails\nfar\nparts\n".to_owned()));
    let key = key.display().to_string();
    let added =
        ["context", "add", "prod", "--server", "http://127.0.0.1:1", "--cluster-key-file", &key, "-n", "b"];
    assert_eq!(cli(&added).0, Some(0));
    assert_eq!(cli(&["job", "list", "--context", "prod"]).0, Some(3), "no node is there");
    assert_eq!(cli(&["--context", "prod", "job", "list"]).0, Some(3));
    let refused = cli(&["job", "list", "--context", "prdo"]);
    assert!(refused.0 == Some(2) && refused.1.contains("there are prod, trial"), "{}", refused.1);
    // With the context's key, the node would refuse this.
    let (code, said) = cli(&["job", "show", "far", "--context", "prod", "--server", &server]);
    assert!(code == Some(4) && said.contains("b/far"), "the namespace counts, and the key does not: {said}");
    assert_eq!(cli(&["context", "use", "prod"]).0, Some(0));
    assert_eq!(cli(&["job", "list"]).0, Some(3));
    let file = std::fs::read_to_string(folder.path().join("evenkeel/contexts.toml")).expect("a file");
    assert!(file.contains(&key) && !file.contains("a-key-of-another"), "{file}");
    let rows: Value = serde_json::from_str(&cli(&["context", "list", "-o", "json"]).1).expect("JSON");
    assert_eq!(
        (&rows[0]["name"], &rows[0]["current"], &rows[1]["current"]),
        (&"prod".into(), &true.into(), &false.into())
    );
    assert_eq!(cli(&["context", "remove", "prod"]).0, Some(0));
    assert_eq!(cli(&["job", "list", "--context", "trial", "-o", "name", "--find", "far"]).1, "far\n");
    let (code, said) = cli(&["dev", "--context", "trial"]);
    assert!(code == Some(2) && said.contains("leave it out"), "{said}");
}

#[test]
fn contexts_that_are_added_at_the_same_time_are_all_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let name = |n: u8| format!("c{n}");
    let added: Vec<_> = (0..8)
        .map(|n| {
            let mut command = evenkeel(&["context", "add", &name(n), "--server", "http://127.0.0.1:1"]);
            command.env("XDG_CONFIG_HOME", folder.path()).stdout(std::process::Stdio::null());
            command.spawn().expect("evenkeel starts")
        })
        .collect();
    for mut child in added {
        assert!(child.wait().expect("it ends").success());
    }
    let mut list = evenkeel(&["context", "list", "-o", "name"]);
    let listed = list.env("XDG_CONFIG_HOME", folder.path()).output().expect("evenkeel starts");
    assert_eq!(text(&listed.stdout).lines().collect::<Vec<_>>(), (0..8).map(name).collect::<Vec<_>>());
}

#[test]
fn settings_are_checked_before_a_node_is_started_with_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("node.toml");
    let data = folder.path().join("data");
    std::fs::write(&file, format!("name = \"a\"\ndata = \"{}\"\nslots = 4\n", data.display()))
        .expect("written");
    let file = file.display().to_string();
    let check = |more: &[&str]| {
        let mut command = evenkeel(&[&["config", "check", "--config", &file], more].concat());
        let output =
            command.env("EVENKEEL_REGISTRY", "etcd://u:sesame@h:2379").output().expect("evenkeel starts");
        (output.status.code(), text(&output.stdout).to_owned(), text(&output.stderr).to_owned())
    };
    let (code, shown, said) = check(&["--slots", "8", "-o", "jsonl"]);
    assert_eq!(code, Some(0), "{said}");
    let rows: Vec<Value> = shown.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let source = |name: &str| {
        let row = rows.iter().find(|row| row["name"] == name);
        row.and_then(|row| row["source"].as_str()).unwrap_or_default().to_owned()
    };
    assert_eq!(
        [source("name"), source("slots"), source("registry")],
        [file.as_str(), "--slots", "EVENKEEL_REGISTRY"]
    );
    assert!(!shown.contains("sesame"), "{shown}");
    assert!(!data.exists(), "nothing is started");
    let (code, shown, said) = check(&["--ttl", "1s"]);
    assert!(code == Some(2) && said.contains("--ttl") && shown.contains("SOURCE"), "{said}");
}
