//! Secrets: planted wherever there can be one, and looked for in everything that a node says, writes and starts.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::mpsc;
use std::thread;

use crate::process::{PATIENCE, ServerProcess, evenkeel, text, until};
use crate::servers;

/// Each in a place of its own, so that whoever is found says where he comes from.
const REGISTRY: &str = "canary-registry-7f3a";
const HISTORY: &str = "canary-history-1b9c";
const KEY: &str = "canary-cluster-key-5d20";
const TOKEN: &str = "canary-http-token-8e41";
const BODY: &str = "canary-http-body-c66f";
const OPEN: &str = "canary-http-open-0a73";
const MAIL: &str = "canary-mail-93be";
const HOOK: &str = "canary-webhook-4fd8";
const PAGER: &str = "canary-pager-d81c";
const BEAT: &str = "canary-heartbeat-3ea9";
const VARIABLE: &str = "canary-variable-2c18";
const FILE: &str = "canary-file-b1f7";
const ROTATED: &str = "canary-rotated-60de";
const ALL: [&str; 13] =
    [REGISTRY, HISTORY, KEY, TOKEN, BODY, OPEN, MAIL, HOOK, PAGER, BEAT, VARIABLE, FILE, ROTATED];

/// A server that answers so, and tells what it was sent.
fn server(status: &'static str) -> (SocketAddr, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let (tell, heard) = mpsc::channel();
    thread::spawn(move || {
        for wire in listener.incoming() {
            let mut wire = BufReader::new(wire.expect("a connection"));
            let (mut head, mut length) = (String::new(), 0);
            while !head.ends_with("\r\n\r\n") {
                let mut line = String::new();
                if wire.read_line(&mut line).unwrap_or(0) == 0 {
                    break;
                }
                let said = line.to_ascii_lowercase();
                let said = said.strip_prefix("content-length:").and_then(|n| n.trim().parse().ok());
                length = said.unwrap_or(length);
                head.push_str(&line);
            }
            let mut body = vec![0; length];
            let _ = wire.read_exact(&mut body);
            // Not everybody listens.
            let sent = head + &text(&body);
            let _ = tell.send(sent.clone());
            // It repeats what it was sent, which is the run's output.
            let length = sent.len();
            let answer =
                format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{sent}");
            let _ = wire.get_mut().write_all(answer.as_bytes());
        }
    });
    (address, heard)
}

fn put(folder: &Path, name: &str, holds: &str, mode: u32) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, format!("{holds}\n")).expect("written");
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("its mode");
    path
}

/// Everything below a folder, but for these files, in which the secrets were planted.
fn files(folder: &Path, planted: &[PathBuf], found: &mut Vec<(String, Vec<u8>)>) {
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => files(&path, planted, found),
            Ok(kind) if kind.is_file() && !planted.contains(&path) => {
                found.push((path.display().to_string(), fs::read(&path).unwrap_or_default()));
            }
            _ => {}
        }
    }
}

/// The command lines of all processes, and the variables of those that belong to a run.
fn processes(found: &mut Vec<(String, Vec<u8>)>) -> usize {
    let mut runs = 0;
    for entry in fs::read_dir("/proc").expect("it is Linux").flatten() {
        if !entry.file_name().to_string_lossy().chars().all(|c| c.is_ascii_digit()) {
            continue;
        }
        let read = |what: &str| fs::read(entry.path().join(what)).unwrap_or_default();
        let (line, environment) = (read("cmdline"), read("environ"));
        // This test's own tools name no secret; other tests have secrets of their own.
        if text(&line).contains("3141.59") && text(&environment).contains("EVENKEEL_RUN=") {
            runs += 1;
            found.push((format!("the variables of {}", text(&line)), environment));
        }
        found.push(("a command line".to_owned(), line));
    }
    runs
}

fn keyed<'a>(args: &[&'a str], key: &'a str) -> Vec<&'a str> {
    [args, &["--cluster-key-file", key]].concat()
}

fn contains(haystack: &[u8], needle: &str) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle.as_bytes())
}

/// The node's settings file, and where the secrets were planted.
fn plant(folder: &Path, hook: SocketAddr) -> (PathBuf, Vec<PathBuf>) {
    let secrets = folder.join("secrets");
    fs::create_dir(&secrets).expect("a folder");
    let (mail, pager) = (put(folder, "mail", MAIL, 0o600), put(folder, "pager", PAGER, 0o600));
    let settings = format!(
        "[heartbeat]\nurl = \"http://{hook}/{BEAT}\"\nevery = \"1s\"\n\n\
         [[notify]]\non = [\"*\"]\nwebhook = \"http://{hook}/{HOOK}?token={HOOK}\"\n\n\
         [[notify]]\non = [\"*\"]\nwebhook = \"http://{hook}/v2/{HOOK}\"\nshape = \"pagerduty\"\nsecret_file = {:?}\n\n\
         [[notify]]\nname = \"ops\"\non = [\"*\"]\n\
         email = {{ to = [\"o@h\"], from = \"e@h\", server = \"smtp://127.0.0.1:1\", user = \"u\", password_file = {:?} }}\n",
        pager.display().to_string(),
        mail.display().to_string()
    );
    let settings_file = put(folder, "settings.toml", &settings, 0o600);
    let planted = vec![
        mail,
        pager,
        settings_file.clone(),
        put(folder, "key", KEY, 0o600),
        put(&secrets, "token", TOKEN, 0o600),
        put(&secrets, "body", BODY, 0o600),
        put(&secrets, "open", OPEN, 0o644),
        put(&secrets, "variable", VARIABLE, 0o600),
        put(&secrets, "file", FILE, 0o600),
        put(folder, "expected", VARIABLE, 0o600),
    ];
    (settings_file, planted)
}

fn jobs(good: SocketAddr, bad: SocketAddr) -> String {
    let http = |name: &str, url: &str, secret: &str| {
        format!(
            "[[job]]\nname = \"{name}\"\n[job.http]\nurl = \"{url}\"\nbody = '{{\"k\": {{{{secret:body | json}}}}}}'\n\
             headers = {{ Authorization = \"Bearer {{{{secret:{secret}}}}}\" }}\n"
        )
    };
    http("good", &format!("http://{good}/"), "token")
        + &http("bad", &format!("http://{bad}/"), "token")
        + &http("gone", "http://127.0.0.1:1/", "token")
        + &http("open", &format!("http://{good}/"), "open")
        + &http("none", &format!("http://{good}/"), "nowhere")
        + "[[job]]\nname = \"env\"\ncommand = [\"/usr/bin/env\"]\n\
           [[job]]\nname = \"given\"\nshell = true\nsecrets = { PASS = \"variable\" }\nsecret_files = { KEY = \"file\" }\n\
           command = '''test \"$PASS\" = \"$(cat expected)\" && echo as expected; echo $PASS; cat $KEY; cat $KEY >&2; env'''\n\
           [[job]]\nname = \"lacks\"\nsecrets = { PASS = \"nowhere\" }\ncommand = [\"/bin/true\"]\n\
           [[job]]\nname = \"long\"\nsecret_files = { KEY = \"file\" }\ncommand = [\"/bin/sleep\", \"3141.59\"]\n\
           [[job]]\nname = \"fails\"\ncommand = [\"/bin/false\"]\nnotify = { on = [\"failure\"], to = [\"ops\"] }\n"
}

/// proves: I52
#[test]
fn no_secret_is_in_what_a_node_says_writes_or_starts() {
    play(None);
}

/// The same with the registry and the history on a server, and their passwords in the addresses of both.
///
/// proves: I52
#[test]
fn no_secret_is_in_what_a_node_of_a_server_says_writes_or_starts() {
    if let Some(url) = servers::find("POSTGRES") {
        play(Some(&url));
    }
}

/// The address of a namespace that nobody has used, with this password in it.
fn with_password(url: &str, password: &str) -> String {
    let (before, host) = url.rsplit_once('@').expect("a user");
    let fresh = format!("{}-{}", evenkeel::clock::now().wall.0, std::process::id());
    format!("{before}:{password}@{host}/secrets{fresh}")
}

fn play(server_url: Option<&str>) {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let ((good, heard), (bad, _)) = (server("200 OK"), server("503 Service Unavailable"));
    let (hook, hooked) = server("500 Internal Server Error");
    let (settings, planted) = plant(at, hook);
    let mut found: Vec<(String, Vec<u8>)> = Vec::new();
    let path = |name: &str| at.join(name).display().to_string();
    let (key, secrets, log) = (path("key"), path("secrets"), at.join("stderr"));
    let more =
        ["--config", &settings.display().to_string(), "--cluster-key-file", &key, "--secrets", &secrets];
    let more = [&more[..], &["--http-allow", "127.0.0.1"]].concat();
    let data = path("a");
    let mut command = match server_url {
        None => ServerProcess::command(at, "a", &more),
        Some(url) => {
            let given = ["serve", "--name", "a", "--data", &data, "--port", "0", "--ttl", "30s"];
            let mut command = evenkeel(&[&given[..], &more].concat());
            command.env("EVENKEEL_REGISTRY", with_password(url, REGISTRY));
            command.env("EVENKEEL_HISTORY", with_password(url, HISTORY));
            command
        }
    };
    command.current_dir(at).env("EVENKEEL_LOG", "trace").stderr(fs::File::create(&log).expect("a file"));
    // Beside what the node needs there may be more that it does not.
    if server_url.is_none() {
        command.env("EVENKEEL_REGISTRY_PASSWORD", REGISTRY).env("EVENKEEL_HISTORY_PASSWORD", HISTORY);
    }
    let node = ServerProcess::start(&mut command);

    let note = |found: &mut Vec<(String, Vec<u8>)>, args: &[&str]| {
        let said = node.cli(&keyed(args, &key));
        found.push((args.join(" "), [said.stdout, said.stderr].concat()));
    };
    let applied = node.fed(&keyed(&["job", "apply", "-f", "-"], &key), &jobs(good, bad));
    assert!(applied.status.success());
    let warned = text(&applied.stderr);
    assert!(warned.contains("job lacks cannot run on node a: the secret nowhere: "), "{warned}");
    assert!(
        warned.contains("job open cannot run on node a: the secret open: ") && !warned.contains("job given"),
        "{warned}"
    );
    found.push(("what apply says".to_owned(), [applied.stdout, applied.stderr].concat()));
    let names = ["good", "bad", "gone", "open", "none", "env", "given", "lacks", "fails"];
    for name in names {
        note(&mut found, &["job", "run", name, "--request", "r"]);
        let run = format!("{name}:ask-r:0");
        note(&mut found, &["run", "wait", &run]);
        for args in [
            &["run", "show", &run][..],
            &["run", "logs", &run],
            &["explain", "run", &run],
            &["explain", "job", name],
            &["job", "show", name, "-o", "json"],
        ] {
            note(&mut found, args);
        }
    }
    // They do go where they are meant to go, or nothing here would say anything.
    let sent = heard.recv().expect("it was asked");
    assert!(
        sent.contains(&format!("Bearer {TOKEN}")) && sent.contains(&format!("{{\"k\": \"{BODY}\"}}")),
        "{sent}"
    );
    let mut missing = vec![HOOK, PAGER, BEAT];
    while !missing.is_empty() {
        let sent = hooked.recv_timeout(PATIENCE).expect("a notification and a heartbeat are sent");
        missing.retain(|secret| !sent.contains(secret));
    }
    let says = |name: &str, what: &str| {
        let shown = node.ok(&keyed(&["run", "show", &format!("{name}:ask-r:0")], &key));
        assert!(shown.contains(what), "{shown}");
    };
    says("open", "chmod 600");
    says("none", "--secrets");
    says("lacks", "secrets, PASS: the secret nowhere: ");
    says("lacks", "failed");
    let output = |run: &str| node.ok(&keyed(&["run", "logs", run], &key));
    let repeated = output("good:ask-r:0");
    assert!(
        repeated.contains("authorization: Bearer ***") && repeated.contains("{\"k\": \"***\"}"),
        "{repeated}"
    );
    let given = output("given:ask-r:0");
    assert!(given.starts_with("as expected\n***\n***\n***\n") && given.contains("PASS=***\n"), "{given}");
    // A new value counts from the next run on.
    put(&at.join("secrets"), "variable", ROTATED, 0o600);
    put(at, "expected", ROTATED, 0o600);
    note(&mut found, &["job", "run", "given", "--request", "rotated"]);
    note(&mut found, &["run", "wait", "given:ask-rotated:0"]);
    let given = output("given:ask-rotated:0");
    assert!(given.starts_with("as expected\n***\n"), "{given}");
    found.push(("the output".to_owned(), given.into_bytes()));
    assert!(node.ok(&keyed(&["run", "logs", "env:ask-r:0"], &key)).contains("EVENKEEL_RUN=env:ask-r:0"));
    until("both notifiers have failed", || {
        let events = node.ok(&keyed(&["event", "list", "--kind", "notify_failed", "--limit", "100"], &key));
        (events.contains("webhook") && events.contains("email")).then_some(())
    });

    note(&mut found, &["job", "run", "long", "--request", "r"]);
    until("a run is under way, and was looked at", || {
        let mut looked = Vec::new();
        (processes(&mut looked) > 0).then(|| found.append(&mut looked))
    });
    for args in [
        &["job", "list"][..],
        &["node", "list", "-o", "json"],
        &["event", "list", "--limit", "1000"],
        &["audit", "-o", "json", "--limit", "1000"],
        &["cluster", "settings"],
        &["cluster", "view", "--as", "siatask"],
        &["job", "pause", "nobody"],
        &["run", "kill", "long:ask-r:0"],
    ] {
        note(&mut found, args);
    }
    for (head, body) in [
        ("GET / HTTP/1.1", ""),
        ("GET /api/v1/health HTTP/1.1", ""),
        ("POST /api/v1/jobs/apply HTTP/1.1\nContent-Type: application/json", "{"),
        (
            "POST /api/v1/jobs/good/run HTTP/1.1\nContent-Type: application/json\nAuthorization: Bearer wrong",
            "",
        ),
    ] {
        let answer = node.raw(&format!("{head}\nHost: {}", node.address), body.as_bytes()).1;
        found.push((head.to_owned(), answer.into_bytes()));
    }
    // A refusal is answered and written down.
    let url = format!("http://u:{HOOK}@127.0.0.1:1/");
    let body = format!("{{\"jobs\":[{{\"name\":\"x\",\"http\":{{\"url\":\"{url}\"}}}}]}}");
    let head = format!(
        "POST /api/v1/jobs/apply HTTP/1.1\nHost: {}\nContent-Type: application/json\nAuthorization: Bearer {KEY}",
        node.address
    );
    let refused = node.raw(&head, body.as_bytes()).1;
    assert!(refused.contains("it holds a user or a password"), "{refused}");
    found.push(("a refusal".to_owned(), refused.into_bytes()));
    beside_the_node(at, &mut found);
    node.signal("TERM");
    assert_eq!(node.end(), 0);
    assert!(fs::metadata(&log).expect("its log").len() > 10_000, "it said all it can");
    files(at, &planted, &mut found);
    let is_history = |(name, _): &(String, Vec<u8>)| name.ends_with("-history");
    assert!(server_url.is_some() || found.iter().any(is_history), "its history is among them");
    for canary in ALL {
        for (place, holds) in &found {
            let line = || {
                let all = text(holds);
                all.lines()
                    .find(|line| line.contains(canary))
                    .unwrap_or_default()
                    .chars()
                    .take(600)
                    .collect::<String>()
            };
            assert!(!contains(holds, canary), "{canary} is in {place}: {}", line());
        }
    }
}

/// What works without a node, and what does not start.
fn beside_the_node(at: &Path, found: &mut Vec<(String, Vec<u8>)>) {
    let registry = format!("sqlite:{}", at.join("registry.db").display());
    let backup = at.join("backup").display().to_string();
    let data = at.join("other").display().to_string();
    let away = format!("postgres://u:{REGISTRY}@127.0.0.1:1/d");
    let past = format!("mysql://u:{HISTORY}@127.0.0.1:1/d");
    for (args, url, history) in [
        (&["cluster", "doctor"][..], registry.as_str(), ""),
        (&["cluster", "backup", &backup], &registry, ""),
        (&["cluster", "doctor"], &away, ""),
        (&["cluster", "backup", &backup], &away, ""),
        (&["serve", "--help"], &away, &past),
        (&["cluster", "doctor", "--help"], &away, &past),
        (&["serve", "--name", "b", "--data", &data, "--port", "0"], &away, ""),
        (&["serve", "--name", "b", "--data", &data, "--port", "0"], "memory:", &past),
        (&["serve", "--name", "b", "--data", &data, "--port", "0"], "redis://u:canary-registry-7f3a@h", ""),
    ] {
        let mut command = evenkeel(args);
        command.env("EVENKEEL_LOG", "trace").env("EVENKEEL_REGISTRY", url).stdin(Stdio::null());
        command.envs((!history.is_empty()).then_some(("EVENKEEL_HISTORY", history)));
        let said = command.output().expect("evenkeel starts");
        found.push((
            format!("{} with {}", args.join(" "), url.split(':').next().unwrap_or_default()),
            [said.stdout, said.stderr].concat(),
        ));
    }
}
