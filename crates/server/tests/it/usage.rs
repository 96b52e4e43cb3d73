//! What holds for every verb: exit codes, errors for programs, flags before the verb, addresses, and names of nodes.

use std::collections::BTreeSet;
use std::net::TcpListener;

use serde_json::Value;

use crate::process::{ServerProcess, evenkeel, repository, run, text};

/// Every verb that talks to a node, with what it needs beside that.
const VERBS: &[&str] = &[
    "apply -f FILE",
    "export",
    "job apply -f FILE",
    "job new a --manual --sh true",
    "job edit a",
    "job list",
    "job show a",
    "job next a",
    "job logs a",
    "job run a",
    "job backfill a --from 1h",
    "job pause a",
    "job resume a",
    "job enable a",
    "job disable a",
    "job shutdown a",
    "job delete a",
    "job rename a b",
    "job history a",
    "job diff a",
    "job rollback a",
    "job claim",
    "job unsealed",
    "job accept a --revision 1",
    "calendar apply -f CALENDAR",
    "calendar list",
    "calendar show a",
    "calendar delete a",
    "shard list a",
    "shard enable a 0",
    "shard disable a 0",
    "run list",
    "run running",
    "run show a:1:0",
    "run logs a:1:0",
    "run wait a:1:0",
    "run kill a:1:0",
    "run restart a:1:0",
    "run retry a:1:0",
    "run delete a:1:0",
    "node list",
    "node least-loaded",
    "node load a",
    "node balance",
    "node drain a",
    "node undrain a",
    "node cordon a",
    "node uncordon a",
    "node upgrade a",
    "node activate a",
    "explain job a",
    "explain run a:1:0",
    "report",
    "top",
    "event list",
    "audit",
    "cluster status",
    "cluster view --as siatask",
    "cluster finalize-upgrade",
    "cluster join-token",
    "cluster settings",
    "namespace list",
    "namespace show a",
    "namespace create a",
    "namespace set a",
    "namespace delete a",
    "user list",
    "user show ann",
    "user create ann --role viewer",
    "user set ann --role none",
    "user logout ann",
    "user delete ann",
    "secret list",
    "secret set s --file CRONTAB",
    "secret delete s",
    "token list",
    "token create ci --role viewer",
    "token rotate ci",
    "token delete ci",
    "whoami",
    "console",
    "import crontab CRONTAB --user --timezone UTC",
    "import k8s-cronjob MANIFEST",
    "import systemd TIMER --timezone UTC",
    "import xxl-job XXL_ROWS --timezone UTC",
    "import elasticjob ELASTICJOB --timezone UTC",
    "import quartz QUARTZ --timezone UTC",
    "import github-actions WORKFLOW",
    "import anacron ANACRONTAB --timezone UTC",
];

/// The verbs that are one word.
const NOUNS_ALONE: [&str; 7] = ["apply", "export", "audit", "report", "top", "whoami", "console"];

const CRON_JOB: &str = r#"
apiVersion: batch/v1
kind: CronJob
metadata: {name: a}
spec:
  schedule: "0 5 * * *"
  jobTemplate:
    spec:
      template:
        spec: {containers: [{name: a, command: [/bin/true]}]}
"#;

/// Files of other schedulers: the word that stands for one, its name and its text.
const IMPORTS: [(&str, &str, &str); 6] = [
    ("TIMER", "a.timer", "[Timer]\nOnCalendar=daily\n"),
    ("XXL_ROWS", "rows.json", r#"[{"id": 1, "glue_type": "GLUE_SHELL", "glue_source": "date"}]"#),
    ("ELASTICJOB", "config.yaml", "{jobName: a, props: {script.command.line: /bin/true}}\n"),
    (
        "QUARTZ",
        "quartz.xml",
        "<job-scheduling-data><schedule><job><name>a</name><job-class>org.quartz.jobs.NativeJob</job-class><durability>true</durability>\
         <job-data-map><entry><key>command</key><value>true</value></entry></job-data-map></job></schedule></job-scheduling-data>",
    ),
    ("WORKFLOW", "a.yml", "{on: {schedule: [{cron: '0 5 * * *'}]}, jobs: {a: {steps: [{run: date}]}}}\n"),
    ("ANACRONTAB", "anacrontab", "1 5 a true\n"),
];

/// The error that a program reads: its code and exit code.
fn error(stderr: &[u8]) -> (String, i64, String) {
    let last = text(stderr).lines().last().unwrap_or_default().to_owned();
    let said: Value = serde_json::from_str(&last).unwrap_or_else(|_| panic!("no JSON: {}", text(stderr)));
    let error = &said["error"];
    let part = |key: &str| error[key].as_str().unwrap_or_default().to_owned();
    (part("code"), error["exit"].as_i64().unwrap_or(-1), part("message"))
}

#[test]
fn every_verb_has_the_same_exit_codes_and_says_them_to_programs() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, what: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, what).expect("written");
        path.display().to_string()
    };
    let job = file("job.toml", "[[job]]\nname = \"a\"\ncommand = [\"/bin/true\"]\n");
    let calendar = file("calendar.toml", "[[calendar]]\nname = \"a\"\ndays = [\"2026-01-01\"]\n");
    let crontab = file("crontab", "0 5 * * * /bin/true\n");
    let manifest = file("cronjob.yaml", CRON_JOB);
    let imports: std::collections::BTreeMap<&str, String> =
        IMPORTS.iter().map(|(word, name, what)| (*word, file(name, what))).collect();
    file("a.service", "[Service]\nExecStart=/bin/true\n");
    // No program listens on the first port.
    let nowhere = "http://127.0.0.1:1";
    let documented = std::fs::read_to_string(repository("docs/cli.md")).expect("the reference");
    let mut known = BTreeSet::new();
    for verb in VERBS {
        let words: Vec<&str> = verb.split(' ').collect();
        let words: Vec<&str> = words
            .into_iter()
            .map(|word| match word {
                "FILE" => job.as_str(),
                "CALENDAR" => &calendar,
                "CRONTAB" => &crontab,
                "MANIFEST" => &manifest,
                word => imports.get(word).map_or(word, String::as_str),
            })
            .collect();
        let name = words[..if NOUNS_ALONE.contains(&words[0]) { 1 } else { 2 }].join(" ");
        assert!(documented.contains(&format!("`evenkeel {name}`\n")), "{name} is not in the reference");
        known.insert(name);
        let told = |more: &[&str]| {
            let output = run(&[&words[..], more].concat());
            (output.status.code().unwrap_or(-1), error(&output.stderr), output.stdout)
        };
        let (code, (word, exit, why), stdout) = told(&["-o", "json", "--server", nowhere]);
        assert_eq!((code, word.as_str(), exit), (3, "unreachable", 3), "{verb}: {why}");
        assert!(why.contains(nowhere) && stdout.is_empty(), "{verb}: {why}");
        let (code, (word, exit, why), _) = told(&["-o", "json", "--server", "h:1"]);
        assert_eq!((code, word.as_str(), exit), (2, "usage", 2), "{verb}: {why}");
        let (code, (word, exit, why), _) = told(&["-o", "json", "--cluster-key-file", "/nowhere/key"]);
        assert_eq!((code, word.as_str(), exit), (2, "usage", 2), "{verb}: {why}");
        assert!(why.contains("/nowhere/key: cannot be read"), "{verb}: {why}");
        let (code, (word, exit, why), _) = told(&["-o", "json", "--colour"]);
        assert_eq!((code, word.as_str(), exit), (2, "usage", 2), "{verb}: {why}");
        let before = run(&[&["--server", nowhere, "-o", "json"], &words[..]].concat());
        assert_eq!(before.status.code(), Some(3), "{verb}: {}", text(&before.stderr));
    }
    // A verb that takes --server is told of above.
    let all = documented.split("\n## What every verb takes").nth(1).expect("a chapter");
    // `bench` starts nodes of its own, and asks none.
    let client = |name: &str| !["dev", "serve"].contains(&name) && !name.starts_with("bench ");
    let leaves = all.lines().filter_map(|line| line.strip_prefix("### `evenkeel ")?.strip_suffix('`'));
    let own = [
        "cluster doctor",
        "cluster backup",
        "cluster restore",
        "cluster move",
        "cluster ca",
        "cluster rotate-identity",
        "context add",
        "context use",
        "context list",
        "context show",
        "context remove",
        "config check",
    ];
    let leaves = leaves.filter(|name| client(name) && !own.contains(name)).map(ToOwned::to_owned);
    let documented: BTreeSet<String> = leaves.chain(NOUNS_ALONE.map(ToOwned::to_owned)).collect();
    assert_eq!(known, documented);
}

#[test]
fn a_file_that_cannot_be_read_is_one_exit_code_whatever_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let registry = format!("sqlite:{}", folder.path().join("r.db").display());
    for line in [
        "job apply -f /nowhere",
        "apply -f /nowhere",
        "calendar apply -f /nowhere",
        "import crontab /nowhere --user --timezone UTC",
        "import k8s-cronjob /nowhere",
        "import systemd /nowhere --timezone UTC",
        "import quartz /nowhere --timezone UTC",
        "job list --cluster-key-file /nowhere",
        "serve --config /nowhere",
        "cluster doctor --config /nowhere",
        "cluster move --config /nowhere --to memory:",
        &format!("cluster restore /nowhere --registry {registry}"),
    ] {
        let output = run(&line.split(' ').collect::<Vec<_>>());
        let why = text(&output.stderr);
        assert!(
            output.status.code() == Some(2) && why.contains("/nowhere"),
            "{line}: {:?} {why}",
            output.status
        );
        assert!(why.contains("cannot be read"), "{line}: {why}");
    }
}

#[test]
fn warnings_and_errors_are_json_for_programs_and_words_for_people() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "n1", &[]);
    let told = node.cli(&["-o", "json", "job", "show", "nobody"]);
    assert_eq!(error(&told.stderr).0, "not_found");
    let told = node.cli(&["job", "show", "nobody"]);
    assert!(text(&told.stderr).starts_with("evenkeel: no job is called nobody"), "{}", text(&told.stderr));
    let told = node.cli(&["node", "list", "-o", "json"]);
    let warned: Value = serde_json::from_slice(&told.stderr).expect("one line of JSON");
    assert!(warned["warning"].as_str().is_some_and(|text| text.starts_with("there is 1 node")), "{warned}");
    let told = run(&["--server", "http://127.0.0.1:1", "docs", "cli"]);
    assert_eq!(told.status.code(), Some(2));
    assert!(text(&told.stderr).contains("leave it out"), "{}", text(&told.stderr));
}

#[test]
fn the_next_address_is_asked_where_one_is_frozen_or_gone() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "n1", &[]);
    // The system takes its connections, and nobody reads them.
    let frozen = TcpListener::bind("127.0.0.1:0").expect("a port");
    let frozen = frozen.local_addr().expect("bound").to_string();
    let server = format!("http://127.0.0.1:1,http://{frozen},http://{}", node.address);
    let told = evenkeel(&["node", "list", "-o", "json"]).env("EVENKEEL_SERVER", &server).output();
    let told = told.expect("evenkeel starts");
    let nodes: Value =
        serde_json::from_slice(&told.stdout).unwrap_or_else(|_| panic!("{}", text(&told.stderr)));
    assert_eq!(nodes[0]["name"], "n1");
}

#[test]
fn a_node_answers_to_the_names_that_it_is_told_and_to_no_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let names = ["--allowed-host", "Jobs.example.org,balancer", "--allowed-host", "10.9.8.7"];
    let node = ServerProcess::serve(folder.path(), "n1", &names);
    let ask = |host: &str| node.raw(&format!("GET /api/v1/jobs HTTP/1.1\nHost: {host}"), b"");
    for host in ["jobs.example.org", "JOBS.example.org:443", "jobs.example.org.", "balancer:7700", "10.9.8.7"]
    {
        assert_eq!(ask(host).0, 200, "{host}");
    }
    for host in
        ["example.org", "x.jobs.example.org", "jobs.example.org.evil.example", "balancer2", "10.9.8.8"]
    {
        let (status, answer) = ask(host);
        assert!(status == 403 && answer.contains(&format!("--allowed-host {host}")), "{host}: {answer}");
    }
    // A page that a balancer with encryption serves is the node's own; one of another name is not.
    let change = |origin: &str| {
        let head = format!(
            "POST /api/v1/jobs/claim HTTP/1.1\nHost: jobs.example.org\nOrigin: {origin}\nContent-Type: application/json"
        );
        node.raw(&head, b"{}").0
    };
    assert_eq!(change("https://jobs.example.org"), 200);
    assert_eq!(change("http://jobs.example.org"), 200);
    for other in ["https://evil.example", "https://balancer", "null", "ftp://jobs.example.org"] {
        assert_eq!(change(other), 403, "{other}");
    }
}
