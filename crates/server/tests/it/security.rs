//! Who is let in: any web page can reach loopback, so the checks hold there too.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;

use crate::process::{STATE_HOME, ServerProcess, own_key_line, run, text, until, write_private};

const APPLY: &[u8] = br#"{"jobs":[{"name":"planted","command":["/bin/true"]}]}"#;

fn node(folder: &std::path::Path, more: &[&str]) -> ServerProcess {
    ServerProcess::serve(folder, "a", more)
}

#[test]
fn a_request_by_another_name_or_from_another_page_changes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = node(folder.path(), &[]);
    let own = node.address;
    let json = "Content-Type: application/json";
    for (status, head) in [
        (403, "Host: evil.example\nContent-Type: application/json".to_owned()),
        (403, format!("Host: localhost.evil.example:{}\n{json}", own.port())),
        (403, format!("Host: {own}\n{json}\nOrigin: http://evil.example")),
        (403, format!("Host: {own}\n{json}\nOrigin: null")),
        (403, format!("Host: {own}\n{json}\nOrigin: http://127.0.0.1:1")),
        (403, format!("Host: {own}\n{json}\nSec-Fetch-Site: cross-site")),
        (403, json.to_owned()),
        (415, format!("Host: {own}")),
        (415, format!("Host: {own}\nContent-Type: text/plain")),
        (415, format!("Host: {own}\nContent-Type: application/x-www-form-urlencoded")),
    ] {
        let (got, answer) = node.raw(&format!("POST /api/v1/jobs/apply HTTP/1.1\n{head}"), APPLY);
        let got = if got == 400 && head == json { 403 } else { got };
        assert_eq!(got, status, "{head}: {answer}");
    }
    for path in ["/", "/api/v1/jobs", "/api/v1/live"] {
        let (got, _) = node.raw(&format!("GET {path} HTTP/1.1\nHost: evil.example"), b"");
        assert_eq!(got, 403, "{path} is not shown to a rebound name");
    }
    assert_eq!(node.json(&["job", "list"]), serde_json::json!([]), "nothing was planted");
    let head = format!("POST /api/v1/jobs/apply HTTP/1.1\nHost: {own}\n{json}\nOrigin: http://{own}");
    assert_eq!(node.raw(&head, APPLY).0, 200, "the console's own page may");
}

#[test]
fn probes_are_answered_under_any_host_name_and_nothing_else_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = node(folder.path(), &[]);
    let challenge = "evenkeel-challenge: 00ff";
    for path in ["/api/v1/health", "/api/v1/ready"] {
        let get = |head: &str| node.bare(&format!("GET {path} {head}\n{challenge}"), b"");
        // A kubelet names the pod's address, and older probes name no host.
        for head in ["HTTP/1.1\nHost: 10.1.2.3:7700", "HTTP/1.1\nHost: evil.example", "HTTP/1.0"] {
            let (status, answer) = get(head);
            assert_eq!(status, 200, "{path} {head}: {answer}");
            assert!(answer.contains(r#""status":"member""#), "{answer}");
            assert!(!answer.contains("evenkeel-proof"), "only who names the node gets a proof: {answer}");
        }
        let own = get(&format!("HTTP/1.1\nHost: {}", node.address)).1;
        assert!(own.contains("evenkeel-proof"), "{own}");
        let two = format!("GET {path} HTTP/1.1\nHost: {}\nHost: evil.example", node.address);
        assert_eq!(node.bare(&two, b"").0, 400, "an ambiguous request");
    }
    let (status, _) = node.raw("GET /api/v1/jobs HTTP/1.1\nHost: 10.1.2.3:7700", b"");
    assert_eq!(status, 403);
}

#[test]
fn nothing_is_done_by_get() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = node(folder.path(), &[]);
    for path in ["jobs/apply", "jobs/claim", "jobs/x/run", "jobs/x/pause", "runs/x:1:0/kill", "nodes/a/drain"]
    {
        let (status, _) = node.raw(&format!("GET /api/v1/{path} HTTP/1.1\nHost: {}", node.address), b"");
        assert!([404, 405].contains(&status), "{path}: {status}");
    }
    assert_eq!(node.json(&["node", "list"])[0]["draining"], false);
}

#[test]
fn the_page_loads_nothing_from_elsewhere_and_runs_nothing_inline() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = node(folder.path(), &[]);
    for path in ["/", "/plain", "/console.css", "/favicon.ico", "/api/v1/health", "/nothing"] {
        let (_, answer) = node.raw(&format!("GET {path} HTTP/1.1\nHost: {}", node.address), b"");
        let (head, body) = answer.split_once("\r\n\r\n").expect("an answer");
        assert!(head.contains("x-content-type-options: nosniff"), "{path}: {head}");
        assert!(
            head.contains("content-security-policy: default-src 'none'; script-src 'self';"),
            "{path}: {head}"
        );
        if path == "/" || path == "/plain" {
            assert!(
                !body.contains("style=") && !body.contains("onclick") && !body.contains("<style"),
                "{body}"
            );
            assert_eq!(body.matches("<script").count(), usize::from(path == "/"));
        }
    }
}

#[test]
fn the_files_of_the_console_are_kept_by_browsers_and_come_compressed() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = node(folder.path(), &[]);
    let get = |path: &str, more: &str| {
        let (status, answer) = node.bare(&format!("GET {path} HTTP/1.1\nHost: {}{more}", node.address), b"");
        (status, answer.split_once("\r\n\r\n").expect("an answer").0.to_owned())
    };
    let (_, page) = node.raw(&format!("GET / HTTP/1.1\nHost: {}", node.address), b"");
    let files: Vec<&str> = page.split('"').filter(|part| part.starts_with("assets/")).collect();
    assert_eq!(files.len(), 2, "a script and a style sheet: {page}");
    for file in files {
        let (status, head) = get(&format!("/{file}"), "\nAccept-Encoding: br, gzip");
        assert_eq!(status, 200, "anyone may load it: {head}");
        assert!(head.contains("cache-control: public, max-age=31536000, immutable"), "{head}");
        assert!(head.contains("content-encoding: gzip"), "{head}");
        assert!(!get(&format!("/{file}"), "").1.contains("content-encoding"));
    }
    let (status, head) = get("/assets/app-000000000000.js", "");
    assert!(status == 404 && head.contains("cache-control: no-cache"), "{head}");
    assert_eq!(get("/assets/..%2fCargo.toml", "").0, 404);
}

#[test]
fn a_body_without_end_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = node(folder.path(), &[]);
    let head =
        |path: &str| format!("POST {path} HTTP/1.1\nHost: {}\nContent-Type: application/json", node.address);
    let large = vec![b' '; (1 << 20) + 1];
    assert_eq!(node.raw(&head("/api/v1/jobs/x/run"), &large).0, 413);
    assert_eq!(
        node.raw(&head("/api/v1/jobs/apply"), &large).0,
        400,
        "apply may be larger, but it is no JSON"
    );
    let deep = format!("{{\"jobs\":{}", "[".repeat(200_000));
    assert_eq!(node.raw(&head("/api/v1/jobs/apply"), deep.as_bytes()).0, 400);
    assert_eq!(
        node.raw(&format!("GET /api/v1/health HTTP/1.1\nHost: {}", node.address), b"").0,
        200,
        "still well"
    );
}

#[test]
fn where_there_is_a_key_every_caller_shows_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let key = folder.path().join("key");
    write_private(&key, "correct-horse-battery\n\nnotes\n");
    let key = key.display().to_string();
    let node = node(folder.path(), &["--cluster-key-file", &key]);
    let get = |path: &str, more: &str| {
        node.bare(&format!("GET {path} HTTP/1.1\nHost: {}{more}", node.address), b"")
    };
    assert_eq!(get("/api/v1/health", "").0, 200);
    for path in [
        "/api/v1/jobs",
        "/api/v1/runs",
        "/api/v1/nodes",
        "/api/v1/events",
        "/api/v1/live",
        "/api/v1/jobs/x/next",
    ] {
        assert_eq!(get(path, "").0, 401, "{path}");
        assert_eq!(get(path, "\nAuthorization: Bearer correct-horse-batterx").0, 401, "{path}");
        assert_eq!(get(path, "\nAuthorization: Basic correct-horse-battery").0, 401, "{path}");
    }
    assert_eq!(get("/api/v1/jobs", "\nAuthorization: Bearer correct-horse-battery").0, 200);
    let (status, page) = get("/", "");
    assert!(
        status == 200 && page.contains("action=\"login\"") && !page.contains("<td"),
        "the page asks for the key"
    );

    let refused = node.cli(&["job", "list"]);
    assert_eq!(refused.status.code(), Some(8));
    assert!(text(&refused.stderr).contains("--cluster-key-file"), "{}", text(&refused.stderr));
    node.ok(&["job", "list", "--cluster-key-file", &key]);
}

/// The cookie that an answer sets, as the browser sends it back.
fn cookie(answer: &str) -> String {
    let line = answer
        .lines()
        .find_map(|line| line.strip_prefix("set-cookie: "))
        .unwrap_or_else(|| panic!("{answer}"));
    let (pair, attributes) = line.split_once(';').expect("attributes");
    for attribute in ["Path=/", "HttpOnly", "SameSite=Strict"] {
        assert!(attributes.contains(attribute), "{line}");
    }
    format!("Cookie: {pair}")
}

#[test]
fn a_node_that_is_given_no_key_lets_its_user_in_and_no_other_user_of_the_host() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = node(folder.path(), &[]);
    assert_eq!(node.json(&["job", "list"]), serde_json::json!([]), "its user's command line finds the key");
    let key = std::path::Path::new(STATE_HOME).join("evenkeel/key");
    let mode =
        |path: &std::path::Path| std::fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    assert_eq!((mode(&key), mode(key.parent().expect("a folder"))), (0o600, 0o700));
    let get = |path: &str| node.bare(&format!("GET {path} HTTP/1.1\nHost: {}", node.address), b"");
    for path in ["/api/v1/jobs", "/api/v1/live", "/api/v1/audit", "/api/v1/cluster/view"] {
        assert_eq!(get(path).0, 401, "{path}");
    }
    assert!(!get("/").1.contains("<td"), "the page shows nothing");
    let head =
        format!("POST /api/v1/jobs/apply HTTP/1.1\nHost: {}\nContent-Type: application/json", node.address);
    assert_eq!(node.bare(&head, APPLY).0, 401);
    // Another user has another state folder, and no key in it.
    let elsewhere = folder.path().join("state");
    let other =
        node.client(&["job", "list"]).env("XDG_STATE_HOME", &elsewhere).output().expect("evenkeel starts");
    assert_eq!(other.status.code(), Some(8), "{}", text(&other.stderr));
    assert!(text(&other.stderr).contains("--cluster-key-file"), "{}", text(&other.stderr));
    let given = node.client(&["job", "list", "--cluster-key-file", &key.display().to_string()]);
    assert!({ given }.env("XDG_STATE_HOME", &elsewhere).output().expect("evenkeel starts").status.success());
}

/// A program that answers on a node's port while the node is down gets no key.
#[test]
fn the_command_line_sends_its_own_key_only_to_a_node_that_proves_to_have_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = node(folder.path(), &[]);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let real = node.address;
    // It asks the node for the proof and passes it on: the node proves itself for its own port only.
    let relay = std::thread::spawn(move || {
        let mut seen = String::new();
        for stream in listener.incoming().take(2) {
            let (mut stream, mut asked) = (stream.expect("a caller"), [0; 4096]);
            let n = stream.read(&mut asked).expect("a request");
            let request = String::from_utf8_lossy(&asked[..n]).into_owned();
            let mut to_node = std::net::TcpStream::connect(real).expect("it listens");
            let last = request.trim_end().to_owned() + "\r\nConnection: close\r\n\r\n";
            to_node.write_all(last.as_bytes()).expect("it reads");
            let mut answer = Vec::new();
            to_node.read_to_end(&mut answer).expect("an answer");
            seen.push_str(&request);
            seen.push_str(&String::from_utf8_lossy(&answer));
            stream.write_all(&answer).expect("it reads");
        }
        seen
    });
    let server = format!("http://127.0.0.1:{port}");
    let refused = run(&["job", "list", "--server", &server]);
    let said = text(&refused.stderr);
    assert!(refused.status.code() == Some(8) && said.contains("is not the one of that node"), "{said}");
    let seen = relay.join().expect("it ends").to_lowercase();
    assert!(seen.contains("evenkeel-challenge: ") && seen.contains("evenkeel-proof: "), "{seen}");
    assert!(!seen.lines().any(|line| line.starts_with("authorization:")), "{seen}");
}

#[test]
fn a_browser_logs_in_once_by_a_link_or_by_the_key_and_out_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = node(folder.path(), &[]);
    let own = node.address;
    let get = |path: &str, more: &str| node.bare(&format!("GET {path} HTTP/1.1\nHost: {own}\n{more}"), b"");
    let url = node.ok(&["console"]);
    let path = url.trim().strip_prefix(&format!("http://{own}")).expect("a link to the node").to_owned();
    assert_eq!(
        node.bare(&format!("HEAD {path} HTTP/1.1\nHost: {own}"), b"").0,
        200,
        "a look at it does not use it up"
    );
    let (status, answer) = get(&path, "");
    let session = cookie(&answer);
    assert_eq!((status, get("/api/v1/jobs", &session).0), (200, 200), "{answer}");
    assert!(get("/plain", &session).1.contains("Log out"));
    assert_eq!(get(&path, "").0, 401, "a link is good once");
    assert_eq!(get("/login?code=00112233445566778899aabbccddeeff", "").0, 401);
    assert_eq!(get("/api/v1/jobs", &session.replace("=key:", "=kex:")).0, 401, "it is signed");

    let post = |path: &str, more: &str, body: &str| {
        node.bare(&format!("POST {path} HTTP/1.1\nHost: {own}\n{more}"), body.as_bytes())
    };
    let form = "Content-Type: application/x-www-form-urlencoded\nSec-Fetch-Site: same-origin";
    let key = own_key_line().replace("Authorization: Bearer ", "");
    let (status, answer) = post("/login", form, &format!("key={key}"));
    assert_eq!((status, get("/api/v1/jobs", &cookie(&answer)).0), (200, 200));
    let (status, answer) = post("/login", form, "key=incorrect-horse-battery");
    assert!(status == 401 && answer.contains("role=\"alert\"") && !answer.contains("set-cookie"), "{answer}");
    assert_eq!(post("/login", &format!("{form}\nOrigin: http://evil.example"), &format!("key={key}")).0, 403);

    // A session changes things from the node's own page only.
    let json = "Content-Type: application/json";
    let change = |more: &str| post("/api/v1/jobs/claim", &format!("{json}\n{session}{more}"), "{}").0;
    assert_eq!(change(""), 403, "a browser that does not say which page asks");
    assert_eq!(change("\nSec-Fetch-Site: cross-site"), 403);
    assert_eq!(change("\nOrigin: http://evil.example"), 403);
    assert_eq!(change("\nSec-Fetch-Site: same-origin"), 200);
    assert_eq!(change(&format!("\nOrigin: http://{own}")), 200);

    let (status, answer) = post("/logout", &format!("{form}\n{session}"), "");
    assert!(status == 303 && cookie(&answer).ends_with('='), "{answer}");
    let logins = node.json(&["audit"]);
    let logins = logins.as_array().expect("entries").iter().filter(|entry| entry["verb"] == "login").count();
    assert_eq!(logins, 2, "each session is in the audit log");
}

#[test]
fn a_bind_beyond_loopback_needs_a_key() {
    let folder = tempfile::tempdir().expect("a folder");
    let registry = format!("sqlite:{}", folder.path().join("r.db").display());
    let data = folder.path().join("a").display().to_string();
    let args = [
        "serve",
        "--registry",
        &registry,
        "--name",
        "a",
        "--data",
        &data,
        "--port",
        "0",
        "--listen",
        "0.0.0.0",
    ];
    let output = run(&args);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--cluster-key-file"), "{}", text(&output.stderr));
    assert!(!folder.path().join("r.db").exists(), "nothing was written");
    let short = folder.path().join("key");
    write_private(&short, "short\n");
    let output = run(&[&args[..], &["--cluster-key-file", &short.display().to_string()]].concat());
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("16 or more"), "{}", text(&output.stderr));
}

/// The status of a change that is asked for with these headers, and the rest of the answer.
fn ordered(node: &ServerProcess, headers: &str) -> (u16, String) {
    let head = format!("POST /api/v1/jobs/nobody/pause HTTP/1.1\nContent-Type: application/json\n{headers}");
    node.raw(&head, b"")
}

/// From where the audit log has the latest change.
fn latest_caller(node: &ServerProcess) -> String {
    until("it is in the audit log", || {
        let log = node.json(&["audit", "--limit", "1"]);
        log[0]["from"].as_str().map(str::to_owned)
    })
}

#[test]
fn a_named_proxy_is_believed_and_nobody_else() {
    let folder = tempfile::tempdir().expect("a folder");
    let said = "Host: upstream.internal\nX-Forwarded-For: 203.0.113.1, 192.0.2.7\nX-Forwarded-Host: jobs.example\n\
                X-Forwarded-Proto: https";
    let names = ["--allowed-host", "jobs.example"];
    let more = [&names[..], &["--trusted-proxy", "127.0.0.1/32"]].concat();
    let node = ServerProcess::serve(folder.path(), "a", &more);
    assert_eq!(ordered(&node, said).0, 404, "the job is unknown, the host is not");
    assert_eq!(latest_caller(&node), "192.0.2.7");
    for (origin, status) in [
        ("https://jobs.example", 404),
        ("http://jobs.example", 403),
        ("https://upstream.internal", 403),
        ("https://evil.example", 403),
    ] {
        assert_eq!(ordered(&node, &format!("{said}\nOrigin: {origin}")).0, status, "{origin}");
    }
    let (status, answer) = ordered(&node, &said.replace("jobs.example", "evil.example"));
    assert!(status == 403 && answer.contains("--allowed-host evil.example"), "{answer}");
    let (status, answer) = ordered(&node, &said.replace("192.0.2.7", "unknown"));
    assert!(status == 400 && answer.contains("correct the proxy's settings"), "{answer}");
    let wrong = |from: &str| {
        let head = format!("{}\nAuthorization: Bearer wrong", said.replace("192.0.2.7", from));
        ordered(&node, &head).0
    };
    let tries: Vec<u16> = (0..7).map(|_| wrong("192.0.2.8")).collect();
    assert_eq!(tries.last(), Some(&429), "the caller behind the proxy is locked out: {tries:?}");
    assert_eq!(wrong("192.0.2.9"), 401, "another one is not");
    let cookies = |proto: &str| -> Vec<String> {
        let link = node.ok(&["console"]);
        let path = link.trim().strip_prefix(&format!("http://{}", node.address)).expect("a link").to_owned();
        let head = said.replace("https", proto);
        let (_, answer) = node.bare(&format!("GET {path} HTTP/1.1\n{head}"), b"");
        answer.lines().filter_map(|line| line.strip_prefix("set-cookie: ")).map(str::to_owned).collect()
    };
    let [encrypted, plain] = ["https", "http"].map(cookies);
    assert!(encrypted.len() == 1 && encrypted[0].ends_with("; Secure"), "{encrypted:?}");
    assert!(plain.len() == 1 && !plain[0].contains("Secure"), "{plain:?}");
    drop(node);

    let node = ServerProcess::serve(folder.path(), "a", &names);
    assert_eq!(ordered(&node, said).0, 403, "it goes by the Host header");
    let own = said.replace("upstream.internal", &node.address.to_string());
    assert_eq!(ordered(&node, &own).0, 404);
    assert_eq!(latest_caller(&node), "127.0.0.1");
}

#[test]
fn pages_of_named_origins_may_use_a_node_with_its_key() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &["--allowed-origin", "https://tools.example"]);
    let own = node.address;
    let allows = "access-control-allow-origin: https://tools.example";
    let from_page = format!("Host: {own}\nOrigin: https://tools.example\nSec-Fetch-Site: cross-site");
    let (status, answer) = ordered(&node, &from_page);
    assert!(status == 404 && answer.contains(allows), "{answer}");
    let asks = format!("OPTIONS /api/v1/jobs HTTP/1.1\n{from_page}\nAccess-Control-Request-Method: POST");
    let (status, answer) = node.raw(&asks, b"");
    assert!(status == 204 && answer.contains(allows) && answer.contains("authorization"), "{answer}");
    for other in ["https://evil.example", "http://tools.example", "https://tools.example:444", "null"] {
        let (status, answer) = ordered(&node, &from_page.replace("https://tools.example", other));
        assert!(status == 403 && !answer.contains("access-control"), "{other}: {answer}");
    }
    let keyless = format!("{from_page}\nAuthorization: Basic none");
    assert_eq!(ordered(&node, &keyless).0, 401, "a page needs the key");
}
