//! Logins that somebody else wants: by a page elsewhere, by a link, by guesses.

use serde_json::Value;

use crate::process::{ServerProcess, own_key_line};

/// A node with the users ann and bob, who have the same password.
struct Users {
    node: ServerProcess,
    _folder: tempfile::TempDir,
}

const PASSWORD: &str = "correct horse battery";
const OWN_PAGE: &str = "Sec-Fetch-Site: same-origin";
/// What a browser says of a page that another site's page opens.
const OPENED: &str = "Sec-Fetch-Site: cross-site\nSec-Fetch-Dest: document\nSec-Fetch-Mode: navigate";

impl Users {
    fn new(more: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let node = ServerProcess::serve(folder.path(), "a", more);
        for name in ["ann", "bob"] {
            let create = ["user", "create", name, "--role", "viewer", "--password-stdin"];
            assert!(node.fed(&create, PASSWORD).status.success());
        }
        Self { node, _folder: folder }
    }

    fn ask(&self, request: &str, more: &str, body: &str) -> (u16, String) {
        self.node.bare(&format!("{request} HTTP/1.1\nHost: {}\n{more}", self.node.address), body.as_bytes())
    }

    /// What the login form sends.
    fn send(&self, form: &str, more: &str) -> (u16, String) {
        self.ask("POST /login", &format!("Content-Type: application/x-www-form-urlencoded\n{more}"), form)
    }

    fn log_in(&self, name: &str, password: &str, more: &str) -> (u16, Option<String>) {
        let form = format!("name={name}&key={}", password.replace(' ', "+"));
        let (status, answer) = self.send(&form, &format!("{OWN_PAGE}\n{more}"));
        (status, session(&answer))
    }

    /// A login link of a session's owner.
    fn link(&self, session: &str) -> String {
        let more = format!("Content-Type: application/json\n{OWN_PAGE}\n{session}");
        let (status, answer) = self.ask("POST /api/v1/login-links", &more, "");
        assert_eq!(status, 200, "{answer}");
        let body = answer.split_once("\r\n\r\n").expect("a body").1;
        serde_json::from_str::<Value>(body).expect("JSON")["path"].as_str().expect("a path").to_owned()
    }

    fn who(&self, session: &str) -> String {
        self.ask("GET /api/v1/whoami", session, "").1
    }
}

/// The line with the session that an answer begins.
fn session(answer: &str) -> Option<String> {
    let set = answer.lines().find_map(|line| line.strip_prefix("set-cookie: evenkeel-session"))?;
    let pair = set.split(';').next().filter(|pair| !pair.ends_with('='))?;
    Some(format!("Cookie: evenkeel-session{pair}"))
}

#[test]
fn the_login_form_works_from_the_nodes_own_page_only() {
    let users = Users::new(&[]);
    let own = users.node.address;
    for (from, status) in [
        (String::new(), 403),
        ("Sec-Fetch-Site: none".to_owned(), 403),
        ("Sec-Fetch-Site: cross-site".to_owned(), 403),
        ("Sec-Fetch-Site: same-site".to_owned(), 403),
        ("Origin: http://evil.example".to_owned(), 403),
        ("Origin: null".to_owned(), 403),
        (format!("Origin: http://{own}"), 200),
        (OWN_PAGE.to_owned(), 200),
    ] {
        let (got, answer) = users.send("name=ann&key=correct+horse+battery", &from);
        assert_eq!((got, session(&answer).is_some()), (status, status == 200), "{from}: {answer}");
    }
}

#[test]
fn a_link_that_may_come_from_somebody_else_says_as_whom_it_logs_in_and_asks() {
    let users = Users::new(&[]);
    let [ann, bob] = ["ann", "bob"].map(|name| users.log_in(name, PASSWORD, "").1.expect("a session"));
    let link = users.link(&ann);
    let code = link.split_once('=').expect("a code").1.to_owned();
    for (more, says) in [
        (OPENED.to_owned(), "This link logs you in as <strong>the user ann</strong>"),
        (
            format!("Sec-Fetch-Site: same-site\n{}", OPENED.lines().nth(1).expect("a line")),
            "This link logs you in",
        ),
        (format!("Sec-Fetch-Site: none\n{bob}"), "You are logged in as <strong>the user bob</strong>"),
        (bob.clone(), "You are logged in as <strong>the user bob</strong>"),
    ] {
        let (status, answer) = users.ask(&format!("GET {link}"), &more, "");
        assert!(status == 200 && answer.contains(says) && session(&answer).is_none(), "{more}: {answer}");
    }
    // The page's button, and no other site's.
    let form = format!("code={code}");
    assert_eq!(users.send(&form, "Sec-Fetch-Site: cross-site").0, 403);
    let (status, answer) = users.send(&form, &format!("{OWN_PAGE}\n{bob}"));
    assert!(status == 200 && answer.contains("You are logged in as <strong>the user ann"), "{answer}");
    assert!(users.who(&session(&answer).expect("a session")).contains("user:ann"));
    assert_eq!(users.send(&form, OWN_PAGE).0, 401, "a link is good once");
    // Without another session a link that a person opens needs no answer, nor does one of the same user.
    for more in [String::new(), "Sec-Fetch-Site: none".to_owned(), format!("Sec-Fetch-Site: none\n{ann}")] {
        let (status, answer) = users.ask(&format!("GET {}", users.link(&ann)), &more, "");
        assert!(status == 200 && session(&answer).is_some(), "{more}: {answer}");
    }
    let (_, page) = users.ask("GET /plain", &ann, "");
    assert!(page.contains("logged in as user:ann"), "{page}");
}

#[test]
fn a_link_of_a_user_that_may_come_in_no_more_begins_no_session() {
    let users = Users::new(&[]);
    for end in [
        vec!["user", "logout", "ann"],
        vec!["user", "set", "ann", "--disabled", "true"],
        vec!["user", "delete", "bob"],
    ] {
        let name = end[2];
        let own = users.log_in(name, PASSWORD, "").1.expect("a session");
        let link = users.link(&own);
        users.node.ok(&end);
        let (status, answer) = users.ask(&format!("GET {link}"), "", "");
        assert!(
            status == 401 && session(&answer).is_none() && answer.contains("good no more"),
            "{end:?}: {answer}"
        );
    }
    let more = format!("Content-Type: application/json\n{}", own_key_line());
    for body in ["{\"lasts\": \"1d\"}", "[1]", "x"] {
        assert_eq!(users.ask("POST /api/v1/login-links", &more, body).0, 400, "{body}");
    }
    assert_eq!(users.ask("POST /api/v1/login-links", &more, "{}").0, 200);
}

#[test]
fn guesses_of_one_users_password_are_slowed_from_however_many_addresses_they_come() {
    let users = Users::new(&["--trusted-proxy", "127.0.0.1/32"]);
    let from = |n: usize| format!("X-Forwarded-For: 192.0.2.{n}");
    let own = users.log_in("ann", PASSWORD, &from(200)).1.expect("a session");
    let guesses: Vec<u16> = (0..30).map(|n| users.log_in("ann", "wrong horse battery", &from(n)).0).collect();
    let slowed = guesses.iter().filter(|status| **status == 429).count();
    assert!(guesses[..10].iter().all(|status| *status == 401) && slowed > 0, "{guesses:?}");
    assert_eq!(users.log_in("ann", PASSWORD, &from(100)).0, 429, "the right one from elsewhere waits too");
    assert_eq!(
        users.log_in("ann", PASSWORD, &from(200)).0,
        200,
        "from where the user logged in before it does not"
    );
    assert_eq!(users.log_in("bob", PASSWORD, &from(100)).0, 200, "nor does another user");

    // What was tried is in the audit log, as what the caller claims; a name that is none may be a password.
    users.log_in("correct horse battery", "x", &from(101));
    let log = users.node.json(&["audit", "--who", "nobody"]);
    assert!(log[1]["claims"].as_str().is_some_and(|claims| claims.starts_with("user ann")), "{log}");
    assert!(!log.to_string().contains("horse"), "{log}");

    // A stolen session finds out no password either.
    let more = format!("Content-Type: application/json\n{OWN_PAGE}\n{own}\n{}", from(102));
    let body = r#"{"old": "wrong horse battery", "new": "staple staple"}"#;
    let tries: Vec<u16> = (0..12).map(|_| users.ask("POST /api/v1/whoami/password", &more, body).0).collect();
    assert_eq!(tries.last(), Some(&429), "{tries:?}");
}
