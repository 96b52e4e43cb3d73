//! Jobs that are requests, from their file to `run logs`.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc;
use std::thread;

use crate::process::{ServerProcess, text};

/// A server that answers everything with this, and tells the heads that it was sent.
fn server(status: &'static str, body: &'static str) -> (SocketAddr, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let (tell, heads) = mpsc::channel();
    thread::spawn(move || {
        for wire in listener.incoming() {
            let mut wire = BufReader::new(wire.expect("a connection"));
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") && wire.read_line(&mut head).is_ok_and(|n| n > 0) {}
            // Not every test listens.
            let _ = tell.send(head);
            let answer = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
            wire.get_mut().write_all(answer.as_bytes()).expect("it is still there");
        }
    });
    (address, heads)
}

fn file(name: &str, address: SocketAddr) -> String {
    format!(
        "[[job]]\nname = \"{name}\"\n[job.http]\nurl = \"http://{address}/hook\"\nheaders = {{ X-Own = \"1\" }}\n"
    )
}

#[test]
fn a_request_is_declared_run_shown_and_read_like_a_command() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &["--http-allow", "10.0.0.0/8,127.0.0.1"]);
    let (good, heads) = server("200 OK", "priced\n");
    let (bad, _) = server("503 Service Unavailable", "come back later\n");
    node.fed(&["job", "apply", "-f", "-"], &(file("good", good) + &file("bad", bad)));
    let shown = node.ok(&["job", "show", "good"]);
    assert!(shown.contains(&format!("http://{good}/hook")), "{shown}");
    node.ok(&["job", "run", "good", "--request", "r"]);
    assert_eq!(node.ok(&["run", "wait", "good:ask-r:0"]), "succeeded: HTTP 200\n");
    assert_eq!(node.ok(&["run", "logs", "good:ask-r:0"]), "priced\n");
    let run = node.ok(&["run", "show", "good:ask-r:0"]);
    assert!(run.contains("HTTP 200"), "{run}");
    let head = heads.recv().expect("it was asked").to_ascii_lowercase();
    for line in
        ["get /hook http/1.1\r\n", "idempotency-key: good:ask-r:0\r\n", "x-own: 1\r\n", "evenkeel-fence: "]
    {
        assert!(head.contains(line), "{head}");
    }
    node.ok(&["job", "run", "bad", "--request", "r"]);
    let waited = node.cli(&["run", "wait", "bad:ask-r:0"]);
    assert_eq!((waited.status.code(), text(&waited.stdout).as_str()), (Some(1), "failed: HTTP 503\n"));
    assert_eq!(node.ok(&["run", "logs", "bad:ask-r:0"]), "come back later\n");
}

#[test]
fn a_node_that_was_told_nothing_reaches_no_neighbour() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    // Its own interface is the nearest neighbour of all.
    node.fed(&["job", "apply", "-f", "-"], &file("inward", node.address));
    node.ok(&["job", "run", "inward", "--request", "r"]);
    let waited = node.cli(&["run", "wait", "inward:ask-r:0"]);
    let said = text(&waited.stdout);
    assert_eq!(waited.status.code(), Some(1), "{said}");
    assert!(said.contains("may not be reached from this node: it is a loopback address"), "{said}");
    assert!(said.contains("--http-allow 127.0.0.1"), "{said}");
}
