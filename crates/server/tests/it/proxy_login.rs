//! Login by the word of a trusted proxy.

use crate::process::{ServerProcess, write_private};

const ROLES: [&str; 4] =
    ["--proxy-groups-header", "X-Groups", "--group-role", "devs=author:team-a,ops=operator"];
const USER: [&str; 2] = ["--proxy-user-header", "X-User"];
const OWN_PAGE: &str = "Sec-Fetch-Site: same-origin";

fn ask(node: &ServerProcess, request: &str, more: &str) -> (u16, String) {
    let kind = if request.starts_with("GET") { "" } else { "\nContent-Type: application/json" };
    node.bare(&format!("{request} HTTP/1.1\nHost: {}\n{}{kind}", node.address, more.trim_end()), b"")
}

#[test]
fn a_person_comes_in_by_the_word_of_a_trusted_proxy_and_of_no_other_caller() {
    let folder = tempfile::tempdir().expect("a folder");
    let said = "X-User: ann\nX-Groups: devs, other";
    let whoami = |node: &ServerProcess, more: &str| ask(node, "GET /api/v1/whoami", more);
    for (flags, status) in [
        ([&USER[..], &ROLES, &["--trusted-proxy", "127.0.0.1/32"]].concat(), 200),
        ([&USER[..], &ROLES, &["--trusted-proxy", "10.0.0.0/8"]].concat(), 401),
        (vec!["--trusted-proxy", "127.0.0.1/32"], 401),
    ] {
        let node = ServerProcess::serve(folder.path(), "a", &flags);
        node.fed(&["user", "create", "ann", "--role", "admin"], "");
        let (got, answer) = whoami(&node, said);
        assert_eq!(got, status, "{flags:?}: {answer}");
        let (_, page) = ask(&node, "GET /plain", said);
        assert_eq!(page.contains("logged in as proxy:ann"), status == 200, "{flags:?}: {page}");
        if status != 200 {
            continue;
        }
        assert!(answer.contains(r#""who":"proxy:ann","roles":["author:team-a"]"#), "{answer}");
        assert_eq!(ask(&node, "GET /api/v1/users", said).0, 403, "the user of the same name is another one");
        for ambiguous in
            ["X-User: ann\nX-User: root", "X-User: ann root", "X-User: ann\nX-Groups: a\nX-Groups: ops"]
        {
            let (status, answer) = whoami(&node, ambiguous);
            assert!(status == 400 && answer.contains("makes no sense"), "{ambiguous}: {answer}");
        }
        assert_eq!(whoami(&node, "X-Groups: ops").0, 401, "groups without a person");
    }
}

#[test]
fn a_proxys_word_counts_less_than_a_key_and_changes_things_from_the_nodes_own_page_only() {
    let folder = tempfile::tempdir().expect("a folder");
    let key = folder.path().join("key");
    write_private(&key, "correct-horse-battery\n");
    let key = key.display().to_string();
    let flags =
        [&USER[..], &ROLES, &["--trusted-proxy", "127.0.0.1/32", "--cluster-key-file", &key]].concat();
    let node = ServerProcess::serve(folder.path(), "a", &flags);
    let said = "X-User: ann\nX-Groups: ops";
    let who = |more: &str| {
        let (status, answer) = ask(&node, "GET /api/v1/whoami", &format!("{said}\n{more}"));
        let who =
            answer.split(r#""who":""#).nth(1).and_then(|rest| rest.split('"').next()).unwrap_or_default();
        (status, who.to_owned())
    };
    assert_eq!(who(""), (200, "proxy:ann".to_owned()));
    assert_eq!(who("Authorization: Bearer correct-horse-battery"), (200, "key".to_owned()));
    assert_eq!(who("Authorization: Bearer incorrect-horse-battery").0, 401, "it does not fall back");
    let form = format!(
        "POST /login HTTP/1.1\nHost: {}\nContent-Type: application/x-www-form-urlencoded\n{OWN_PAGE}\n{said}",
        node.address
    );
    let (_, answer) = node.bare(&form, b"key=correct-horse-battery");
    let pair =
        answer.split("set-cookie: ").nth(1).and_then(|rest| rest.split(';').next()).expect("a session");
    assert_eq!(who(&format!("Cookie: {pair}")), (200, "key".to_owned()));
    assert_eq!(who(&format!("Cookie: {pair}0")), (200, "proxy:ann".to_owned()), "that is no session");

    let pause = |more: &str| ask(&node, "POST /api/v1/jobs/none/pause", &format!("{said}\n{more}")).0;
    for (more, status) in [
        ("", 403),
        ("Sec-Fetch-Site: cross-site", 403),
        ("Origin: http://evil.example", 403),
        (OWN_PAGE, 404),
    ] {
        assert_eq!(pause(more), status, "{more}");
    }
    let audit = node.json(&["audit", "--cluster-key-file", &key]);
    assert_eq!(audit[0]["who"], "proxy:ann", "{audit}");
}
