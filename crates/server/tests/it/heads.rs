//! Requests are judged by their head: what is refused before a body is read, and in which words.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::process::{PATIENCE, ServerProcess, own_key_line, until, write_private};

const KEY: &str = "correct-horse-battery";

fn keyed(folder: &std::path::Path) -> ServerProcess {
    let key = folder.join("key");
    write_private(&key, KEY);
    ServerProcess::serve(folder, "a", &["--cluster-key-file", &key.display().to_string()])
}

/// Sends these bytes as they are; what comes until the connection ends.
fn sent(node: &ServerProcess, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(node.address).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream.write_all(bytes).expect("it reads");
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

/// What an answer says in the form of the API: status, code and message.
fn refusal(answer: &str) -> (u16, String, String) {
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    assert!(head.contains("content-type: application/problem+json"), "{answer}");
    let said: serde_json::Value = serde_json::from_str(body).unwrap_or_else(|e| panic!("{e}: {answer}"));
    let part = |name: &str| said[name].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned();
    assert!(said["status"] == status && !part("title").is_empty(), "{answer}");
    (status, part("code"), part("detail"))
}

/// The memory of a process, in MiB.
fn memory(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it lives");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("a line");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).expect("a number") / 1024
}

#[test]
fn who_is_not_let_in_is_refused_before_his_body_is_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = keyed(folder.path());
    let own = node.address;
    for (status, head) in [
        (401, format!("POST /api/v1/jobs/apply HTTP/1.1\r\nHost: {own}\r\n")),
        (401, format!("POST /peer/v1/offers HTTP/1.1\r\nHost: {own}\r\n")),
        (403, "POST /api/v1/jobs/apply HTTP/1.1\r\nHost: evil.example\r\n".to_owned()),
        (405, format!("POST / HTTP/1.1\r\nHost: {own}\r\n")),
        (404, format!("POST /nothing HTTP/1.1\r\nHost: {own}\r\n")),
    ] {
        let mut stream = TcpStream::connect(own).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let head = format!("{head}Content-Type: application/json\r\nContent-Length: 16777216\r\n\r\n");
        stream.write_all(head.as_bytes()).expect("it reads");
        // Nothing of the body is sent, and the answer comes all the same.
        let mut answer = [0; 4096];
        let n = stream.read(&mut answer).expect("an answer");
        let answer = String::from_utf8_lossy(&answer[..n]);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{head}: {answer}");
    }
    let whole = node.raw(
        &format!("POST /api/v1/jobs/apply HTTP/1.1\nHost: {own}\nContent-Type: application/json"),
        &vec![b' '; 16 << 20],
    );
    assert_eq!(whole.0, 401, "who sends all of it hears the answer too");
}

#[test]
fn bodies_of_callers_without_a_key_cost_no_memory() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = keyed(folder.path());
    let before = memory(node.pid());
    let head = format!(
        "POST /api/v1/jobs/apply HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: 16777216\r\n\r\n",
        node.address
    );
    let callers: Vec<_> = (0..60)
        .map(|_| {
            let mut stream = TcpStream::connect(node.address).expect("it listens");
            stream.write_all(head.as_bytes()).expect("it reads");
            // The last byte is kept back, so that each would be in memory at once.
            std::thread::spawn(move || {
                let _ = stream.write_all(&vec![b' '; (16 << 20) - 1]);
                stream
            })
        })
        .collect();
    let streams: Vec<TcpStream> = callers.into_iter().map(|caller| caller.join().expect("it ends")).collect();
    let now = memory(node.pid());
    assert!(now < before + 100, "{before} MiB became {now} MiB");
    drop(streams);
}

#[test]
fn every_refusal_has_the_form_of_the_api_and_says_the_fix() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    let own = node.address;
    let request = |line: &str, more: &str, body: &str| {
        let (length, key) = (body.len(), own_key_line());
        format!(
            "{line}\r\nHost: {own}\r\n{key}\r\nConnection: close\r\nContent-Length: {length}\r\n{more}\r\n{body}"
        )
    };
    let json = "Content-Type: application/json\r\n";
    let apply = "POST /api/v1/jobs/apply HTTP/1.1";
    let many: String = (0..70).map(|n| format!("X-{n}: 1\r\n")).collect();
    for (asked, status, code) in [
        (request(apply, "", "{}"), 415, "not_json"),
        (request(apply, "Content-Type: text/plain\r\n", "{}"), 415, "not_json"),
        (request(apply, json, "{"), 400, "invalid"),
        (request(apply, json, "{\"jobs\":7}"), 400, "invalid"),
        (request("PUT /api/v1/jobs/apply HTTP/1.1", json, "{}"), 405, "wrong_method"),
        (request("DELETE /api/v1/health HTTP/1.1", "", ""), 405, "wrong_method"),
        (request("BREW /api/v1/jobs HTTP/1.1", "", ""), 405, "wrong_method"),
        (request("GET /peer/v1/offers HTTP/1.1", "", ""), 405, "wrong_method"),
        (request("GET /api/v1/nothing HTTP/1.1", "", ""), 404, "not_found"),
        (request("GET /api/v1 HTTP/1.1", "", ""), 404, "not_found"),
        (request("GET /nothing HTTP/1.1", "", ""), 404, "not_found"),
        (request("OPTIONS * HTTP/1.1", "", ""), 404, "not_found"),
        (request("GET /api/v1/jobs?limit=x HTTP/1.1", "", ""), 400, "invalid"),
        (request("GET /api/v1/jobs?limit=1&limit=2 HTTP/1.1", "", ""), 400, "invalid"),
        (request("GET /api/v1/jobs/%ff HTTP/1.1", "", ""), 400, "invalid"),
        (request("POST /api/v1/jobs/%ff/run HTTP/1.1", json, "{}"), 400, "invalid"),
        (request("GET /peer/v1/role HTTP/1.1", "", ""), 401, "unauthorized"),
        (request("GET /api/v1/jobs HTTP/1.1", &many, ""), 431, "too_large"),
        (
            request("GET /api/v1/jobs HTTP/1.1", &format!("X: {}\r\n", "x".repeat(1_000_000)), ""),
            431,
            "too_large",
        ),
        (request(&format!("GET /{} HTTP/1.1", "x".repeat(1_000_000)), "", ""), 0, "too_large"),
        (request("GET /api/v1/jobs HTTP/9.9", "", ""), 400, "invalid"),
        (request("GET  /api/v1/jobs HTTP/1.1", "", ""), 400, "invalid"),
        (request("GET /api/v1/jobs HTTP/1.1", "Host : h\r\n", ""), 400, "invalid"),
        (request("GET /api/v1/jobs HTTP/1.1", "X: 1\r\n folded\r\n", ""), 400, "invalid"),
        (request("POST /api/v1/jobs/x/run HTTP/1.1", json, &" ".repeat((1 << 20) + 1)), 413, "too_large"),
        (request(apply, json, &" ".repeat((16 << 20) + 1)), 413, "too_large"),
    ] {
        let answer = sent(&node, asked.as_bytes());
        assert!(!answer.starts_with("HTTP/1.1 200 "), "{asked}");
        let (got, said, message) = refusal(&answer);
        let line = asked.lines().next().unwrap_or_default().chars().take(80).collect::<String>();
        assert!((got == status || status == 0) && said == code && !message.is_empty(), "{line}: {answer}");
    }
}

#[test]
fn what_others_on_the_way_could_read_otherwise_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    let (own, end) = (node.address, format!("{}\r\nConnection: close\r\n\r\n", own_key_line()));
    let post = "POST /api/v1/jobs/claim HTTP/1.1\r\nContent-Type: application/json\r\n";
    for asked in [
        format!("GET /api/v1/jobs HTTP/1.1\r\nHost: {own}\r\nHost: {own}\r\n{end}"),
        format!("GET /api/v1/jobs HTTP/1.1\r\nHost: {own}\r\nHost: evil.example\r\n{end}"),
        format!("GET /api/v1/jobs HTTP/1.1\nHost: {own}\nConnection: close\n\n"),
        format!("GET /api/v1/jobs HTTP/1.1\r\nHost: {own}\nConnection: close\r\n\r\n"),
        format!("GET http://evil.example/api/v1/jobs HTTP/1.1\r\nHost: {own}\r\n{end}"),
        format!("GET http://{own}/api/v1/jobs HTTP/1.1\r\nHost: localhost\r\n{end}"),
        format!("GET https://{own}/api/v1/jobs HTTP/1.1\r\nHost: {own}\r\n{end}"),
        format!("GET http://{own}/api/v1/jobs HTTP/1.1\r\nHost: evil.example\r\n{end}"),
        format!("CONNECT evil.example:80 HTTP/1.1\r\nHost: {own}\r\n{end}"),
        format!("{post}Host: {own}\r\nContent-Length: 2\r\nContent-Length: 2\r\n{end}{{}}"),
        format!(
            "{post}Host: {own}\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n{end}2\r\n{{}}\r\n0\r\n\r\n"
        ),
    ] {
        let (status, _, message) = refusal(&sent(&node, asked.as_bytes()));
        assert!([400, 403].contains(&status) && !message.is_empty(), "{asked}: {status} {message}");
    }
    for asked in [
        format!("GET /api/v1/jobs HTTP/1.1\r\nHost: {own}\r\n{end}"),
        format!("GET http://{own}/api/v1/jobs HTTP/1.1\r\nHost: {own}\r\n{end}"),
        format!("{post}Host: {own}\r\nTransfer-Encoding: chunked\r\n{end}2\r\n{{}}\r\n0\r\n\r\n"),
    ] {
        let answer = sent(&node, asked.as_bytes());
        assert!(answer.starts_with("HTTP/1.1 200 "), "{asked}: {answer}");
    }
    // The second request of a connection is looked at as well as the first.
    let second = format!(
        "{post}Host: {own}\r\nContent-Length: 2\r\n\r\n{{}}GET /api/v1/jobs HTTP/1.1\nHost: {own}\nConnection: close\n\n"
    );
    assert!(sent(&node, second.as_bytes()).contains("ends with CR LF"));
}

#[test]
fn a_page_from_elsewhere_may_not_even_ask() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    let get = |path: &str, more: &str| {
        node.raw(&format!("GET {path} HTTP/1.1\nHost: {}\n{more}", node.address), b"").0
    };
    for path in ["/api/v1/jobs", "/api/v1/jobs/x/logs?grep=aa", "/api/v1/audit", "/api/v1/health", "/?find=x"]
    {
        for more in [
            "Sec-Fetch-Site: cross-site\nSec-Fetch-Mode: no-cors\nSec-Fetch-Dest: image",
            "Sec-Fetch-Site: same-site\nSec-Fetch-Mode: no-cors\nSec-Fetch-Dest: empty",
            "Sec-Fetch-Site: cross-site\nSec-Fetch-Mode: navigate\nSec-Fetch-Dest: iframe",
            "Origin: http://evil.example",
            "Origin: null",
        ] {
            assert_eq!(get(path, more), 403, "{path} {more}");
        }
    }
    let leads = "Sec-Fetch-Site: cross-site\nSec-Fetch-Mode: navigate\nSec-Fetch-Dest: document";
    assert_eq!(get("/", leads), 200, "a link may lead to the console");
    assert_eq!(get("/api/v1/jobs", leads), 403);
    for own in ["Sec-Fetch-Site: same-origin", "Sec-Fetch-Site: none", "Accept: */*"] {
        assert_eq!(get("/api/v1/jobs", own), 200, "{own}");
        assert_eq!(get("/console.css", own), 200, "{own}");
    }
}

/// The order in which connections give way is tested without sockets; this shows that they do.
#[test]
fn idle_connections_keep_nobody_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    let silent: Vec<TcpStream> =
        (0..400).map(|_| TcpStream::connect(node.address).expect("it listens")).collect();
    let half: Vec<TcpStream> = (0..400)
        .map(|_| {
            let mut stream = TcpStream::connect(node.address).expect("it listens");
            let _ = stream.write_all(b"GET /api/v1/jobs HTTP/1.1\r\n");
            stream
        })
        .collect();
    assert_eq!(node.json(&["job", "list"]), serde_json::json!([]));
    let open = || std::fs::read_dir(format!("/proc/{}/fd", node.pid())).expect("it lives").count();
    until("most of them are closed again", || (open() < 500).then_some(()));
    drop((silent, half));
}

#[test]
fn requests_that_go_on_for_ever_leave_room_for_health() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    let key = own_key_line();
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: {}\r\n{key}\r\n\r\n", node.address);
    let readers: Vec<TcpStream> = (0..256)
        .map(|_| {
            let mut stream = TcpStream::connect(node.address).expect("it listens");
            stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
            stream.write_all(get("/api/v1/live").as_bytes()).expect("it reads");
            stream.read_exact(&mut [0; 1]).expect("an answer");
            stream
        })
        .collect();
    let close = "Connection: close\r\n\r\n";
    let asked = |path: &str| sent(&node, get(path).replace("\r\n\r\n", &format!("\r\n{close}")).as_bytes());
    let (status, code, message) = refusal(&asked("/api/v1/jobs"));
    assert_eq!((status, code.as_str()), (503, "unavailable"), "{message}");
    assert!(asked("/api/v1/health").starts_with("HTTP/1.1 200 "));
    assert!(asked("/peer/v1/role").starts_with("HTTP/1.1 401 "), "a node with a certificate would be let in");
    drop(readers);
    until("the others are let in again", || asked("/api/v1/jobs").starts_with("HTTP/1.1 200 ").then_some(()));
}

#[test]
fn a_large_file_of_jobs_is_taken_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    let head =
        format!("POST /api/v1/jobs/apply HTTP/1.1\nHost: {}\nContent-Type: application/json", node.address);
    let body =
        format!("{{\"jobs\":[{{\"name\":\"a\",\"command\":[\"x\"]}}]{}}}", " ".repeat((16 << 20) - 100));
    let (status, answer) = node.raw(&head, body.as_bytes());
    assert_eq!(status, 200, "{answer}");
}

#[test]
#[ignore = "soak: a caller that does not read is cut off after 30 seconds"]
fn a_caller_that_reads_nothing_is_cut_off() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    let open = || {
        let files = std::fs::read_dir(format!("/proc/{}/fd", node.pid())).expect("it lives");
        let links = files.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
        links.filter(|link| link.to_string_lossy().starts_with("socket:")).count()
    };
    let before = open();
    let mut stream = TcpStream::connect(node.address).expect("it listens");
    stream.set_nonblocking(true).expect("a socket");
    let request = format!("GET /console.css HTTP/1.1\r\nHost: {}\r\n\r\n", node.address);
    until("it is taken", || (open() > before).then_some(()));
    until("it is closed, although it is still open here", || {
        // As many as the node takes: its answers fill what the system keeps for us.
        while stream.write(request.as_bytes()).is_ok() {}
        (open() <= before).then_some(())
    });
}

/// Calls of strangers, thousands at once: `n` connections, on each of which this is written as far as the node takes it.
fn flood(node: &ServerProcess, n: usize, bytes: &[u8]) -> Vec<TcpStream> {
    let call = |_| {
        let mut stream = TcpStream::connect(node.address).ok()?;
        stream.set_nonblocking(true).ok()?;
        // A connection that gave way to another one takes nothing.
        let _ = stream.write(bytes);
        Some(stream)
    };
    (0..n).filter_map(call).collect()
}

#[test]
#[ignore = "soak: opens thousands of connections at once"]
fn floods_of_strangers_cost_little_memory_and_leave_health_and_fires_alone() {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let raised = rustix::process::Rlimit { current: limit.maximum, ..limit };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, raised).expect("up to the hard limit");
    let folder = tempfile::tempdir().expect("a folder");
    let node = keyed(folder.path());
    let key = folder.path().join("key").display().to_string();
    let jobs = "[[job]]\nname = \"tick\"\nschedule = \"@every 1s\"\ncommand = [\"/bin/true\"]\n";
    assert!(node.fed(&["job", "apply", "-f", "-", "--cluster-key-file", &key], jobs).status.success());
    let ran = || node.json(&["run", "list", "--job", "tick", "--limit", "1000", "--cluster-key-file", &key]);
    until("it fires", || (!ran().as_array()?.is_empty()).then_some(()));
    let own = node.address;
    let page = format!("GET /console.css HTTP/1.1\r\nHost: {own}\r\n\r\n").repeat(20);
    let half = format!("GET /api/v1/jobs HTTP/1.1\r\nHost: {own}");
    let apply = format!(
        "POST /api/v1/jobs/apply HTTP/1.1\r\nHost: {own}\r\nContent-Type: application/json\r\nContent-Length: 16777216\r\n\r\n"
    );
    let bodies = [apply.as_bytes(), &vec![b' '; 1 << 20]].concat();
    // Handshakes that never end: the beginning of a record of 512 bytes, and of one that says it is as long as can be.
    let handshakes = [&[0x16, 3, 1, 2, 0, 1][..], &[&[0x16, 3, 1, 0x40, 0][..], &[1; 0x3ff0]].concat()];
    let before = memory(node.pid());
    let callers = [
        flood(&node, 1_030, page.as_bytes()),
        flood(&node, 5_000, half.as_bytes()),
        flood(&node, 120, &bodies),
        flood(&node, 2_000, handshakes[0]),
        flood(&node, 2_000, handshakes[1]),
    ];
    assert!(callers.iter().map(Vec::len).sum::<usize>() > 5_000, "the node takes them");
    let health = format!("GET /api/v1/health HTTP/1.1\r\nHost: {own}\r\nConnection: close\r\n\r\n");
    let fires = ran().as_array().map_or(0, Vec::len);
    until("five more fires have run", || {
        assert!(sent(&node, health.as_bytes()).starts_with("HTTP/1.1 200 "));
        let now = memory(node.pid());
        assert!(now <= before + 64, "{before} MiB became {now} MiB");
        (ran().as_array()?.len() >= fires + 5).then_some(())
    });
    let all = ran();
    let ended = all.as_array().into_iter().flatten().filter(|run| run["state"] != "running");
    assert!(ended.into_iter().all(|run| run["state"] == "succeeded"), "{all}");
    drop(callers);
}
