//! What came from elsewhere and is printed: no terminal obeys it.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::{fs, thread};

use crate::process::{ServerProcess, evenkeel, text};

/// Sets a title, clears the screen and turns the rest around, in 7 and in 8 bits.
const HOSTILE: &str = "a\u{1b}]0;owned\u{7}\u{9b}2J\u{202e}\rz";
const SHOWN: &str = "a\\x1b]0;owned\\x07\\x9b2J\\u{202e}\\x0dz";

fn job(name: &str) -> String {
    let hostile: String = HOSTILE.bytes().map(|byte| format!("\\\\{byte:03o}")).collect();
    format!("[[job]]\nname = {name:?}\ncommand = [\"/usr/bin/printf\", \"{hostile}\\n\\tnext\\n\"]\n")
}

#[test]
fn no_output_of_a_job_moves_the_cursor_unless_it_is_asked_for_raw() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    assert!(node.fed(&["job", "apply", "-f", "-"], &job("loud")).status.success());
    node.ok(&["job", "run", "loud", "--request", "r"]);
    node.ok(&["run", "wait", "loud:ask-r:0"]);
    let run = "loud:ask-r:0";
    let shown = format!("{SHOWN}\n\tnext\n");
    assert_eq!(node.ok(&["run", "logs", run]), shown);
    assert_eq!(node.ok(&["run", "logs", run, "--follow"]), shown);
    assert_eq!(node.ok(&["run", "logs", run, "--grep", "owned"]), format!("{SHOWN}\n"));
    assert_eq!(node.ok(&["run", "logs", run, "--raw"]), format!("{HOSTILE}\n\tnext\n"));
    let searched = ["job", "logs", "loud", "--grep", "owned"];
    assert_eq!(node.ok(&searched), format!("{run}#1: {SHOWN}\n"));
    assert_eq!(node.ok(&[&searched[..], &["--raw"]].concat()), format!("{run}#1: {HOSTILE}\n"));
    let file = folder.path().join("saved");
    node.ok(&["run", "logs", run, "--save", &file.display().to_string()]);
    assert_eq!(fs::read_to_string(&file).expect("saved"), format!("{HOSTILE}\n\tnext\n"));
    assert_eq!(fs::metadata(&file).expect("saved").permissions().mode() & 0o777, 0o600);
}

#[test]
fn no_text_of_a_declaration_or_of_a_server_moves_the_cursor() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    let quoted = serde_json::to_string(HOSTILE).expect("text");
    let job = format!(r#"{{"jobs":[{{"name":"a","command":["x"],"description":{quoted}}}]}}"#);
    let calendar = format!(r#"{{"name":"c","description":{quoted}}}"#);
    for (request, body) in [("POST /api/v1/jobs/apply", &job), ("PUT /api/v1/calendars/c", &calendar)] {
        let head = format!("{request} HTTP/1.1\nHost: {}\nContent-Type: application/json", node.address);
        let (status, answer) = node.raw(&head, body.as_bytes());
        assert!([200, 400].contains(&status), "{answer}");
    }
    let is_safe = |said: &str| !said.contains(['\u{1b}', '\u{7}', '\u{9b}', '\u{202e}', '\r', '\u{7f}']);
    for verb in [
        &["job", "show", "a"][..],
        &["job", "list"],
        &["calendar", "show", "c"],
        &["calendar", "list"],
        &["explain", "job", "a"],
        &["event", "list"],
        &["audit"],
    ] {
        for output in ["table", "json"] {
            let said = node.cli(&[verb, &["-o", output]].concat());
            let (out, err) = (text(&said.stdout), text(&said.stderr));
            assert!(is_safe(&out) && is_safe(&err), "{verb:?} {output}: {out:?} {err:?}");
        }
    }
    let (listener, answer) = (TcpListener::bind("127.0.0.1:0").expect("a port"), HOSTILE);
    let address = listener.local_addr().expect("bound");
    let liar = thread::spawn(move || {
        for body in [
            serde_json::json!({ "code": "conflict", "detail": answer }),
            serde_json::json!({ "run": answer, "asked": answer, "applied": "created", "warnings": [answer] }),
        ] {
            loop {
                let (mut caller, _) = listener.accept().expect("a caller");
                let mut request = [0; 4096];
                let length = caller.read(&mut request).expect("a request");
                // First it is asked whether it lives.
                let is_health = text(&request[..length]).contains("/health");
                let refuses = !is_health && !body["detail"].is_null();
                let (said, status) = (
                    if is_health { "{}".to_owned() } else { body.to_string() },
                    if refuses { 409 } else { 200 },
                );
                let head = format!(
                    "HTTP/1.1 {status} x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
                    said.len()
                );
                caller.write_all((head + &said).as_bytes()).expect("it listens");
                if !is_health {
                    break;
                }
            }
        }
    });
    for code in [Some(6), Some(0)] {
        let mut command = evenkeel(&["job", "run", "a"]);
        let said = command.env("EVENKEEL_SERVER", format!("http://{address}")).output().expect("it starts");
        let (out, err) = (text(&said.stdout), text(&said.stderr));
        assert_eq!(said.status.code(), code, "{err}");
        assert!(is_safe(&out) && is_safe(&err) && (out + &err).contains("owned"), "{said:?}");
    }
    liar.join().expect("it was asked");
}
