//! Who is let in: any web page can reach loopback, so the checks hold there too.

use crate::process::{ServerProcess, run, text, write_private};

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
    for path in ["/", "/console.js", "/console.css", "/favicon.ico", "/api/v1/health", "/nothing"] {
        let (_, answer) = node.raw(&format!("GET {path} HTTP/1.1\nHost: {}", node.address), b"");
        let (head, body) = answer.split_once("\r\n\r\n").expect("an answer");
        assert!(head.contains("x-content-type-options: nosniff"), "{path}: {head}");
        assert!(
            head.contains("content-security-policy: default-src 'none'; script-src 'self';"),
            "{path}: {head}"
        );
        if path == "/" {
            assert!(
                !body.contains("style=") && !body.contains("onclick") && !body.contains("<style"),
                "{body}"
            );
            assert_eq!(body.matches("<script").count(), 1);
            assert!(body.contains("<script src=\"/console.js\" type=\"module\"></script>"));
        }
    }
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
    write_private(&key, "correct-horse-battery\nsecond line\n");
    let key = key.display().to_string();
    let node = node(folder.path(), &["--cluster-key-file", &key]);
    let get =
        |path: &str, more: &str| node.raw(&format!("GET {path} HTTP/1.1\nHost: {}{more}", node.address), b"");
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
        status == 200 && page.contains("id=\"unlock\"") && !page.contains("<td"),
        "an empty page asks for the key"
    );

    let refused = node.cli(&["job", "list"]);
    assert_eq!(refused.status.code(), Some(8));
    assert!(text(&refused.stderr).contains("--cluster-key-file"), "{}", text(&refused.stderr));
    node.ok(&["job", "list", "--cluster-key-file", &key]);
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
