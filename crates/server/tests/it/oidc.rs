//! Login by an OpenID Connect provider.

use std::path::Path;

use serde_json::json;

use crate::process::{ServerProcess, raw, run, text, until, write_private};
use crate::provider::{CLIENT, Lie, SECRET, TestProvider};

/// A node, a provider, and a browser between them.
struct Login {
    provider: TestProvider,
    node: ServerProcess,
    _folder: tempfile::TempDir,
}

/// What a browser has of a login that is under way.
struct UnderWay {
    /// The line of a request's head with its cookie.
    cookie: String,
    /// Where the provider has to be asked.
    url: String,
}

/// The flags for this provider, with the client's secret in a file.
fn flags(provider: &TestProvider, folder: &Path) -> Vec<String> {
    let secret = folder.join("secret");
    write_private(&secret, &format!("{SECRET}\n"));
    let secret = secret.display().to_string();
    let issuer = provider.issuer();
    ["--oidc-issuer", &issuer, "--oidc-client-id", CLIENT, "--oidc-client-secret-file", &secret]
        .map(str::to_owned)
        .to_vec()
}

fn serve(folder: &Path, name: &str, flags: &[String], more: &[&str]) -> ServerProcess {
    let flags: Vec<&str> = flags.iter().map(String::as_str).chain(more.iter().copied()).collect();
    ServerProcess::serve(folder, name, &flags)
}

/// The lines of an answer's head with this name.
fn header<'a>(answer: &'a str, name: &str) -> Vec<&'a str> {
    let head = answer.split("\r\n\r\n").next().unwrap_or_default();
    head.lines()
        .filter_map(|line| line.split_once(": "))
        .filter(|(n, _)| n.eq_ignore_ascii_case(name))
        .map(|(_, v)| v)
        .collect()
}

/// The line with which a browser sends back the cookie of this name.
fn cookie(answer: &str, name: &str) -> Option<String> {
    let set = header(answer, "set-cookie").into_iter().find(|line| line.starts_with(name))?;
    set.split(';').next().filter(|pair| !pair.ends_with('=')).map(|pair| format!("Cookie: {pair}"))
}

/// What a browser says of a page that another site's page opens.
const OPENED: &str = "Sec-Fetch-Site: cross-site\nSec-Fetch-Dest: document\nSec-Fetch-Mode: navigate";

impl Login {
    fn new(more: &[&str]) -> Self {
        let (provider, folder) = (TestProvider::start(), tempfile::tempdir().expect("a folder"));
        let roles = ["--group-role", "platform=admin,devs=author:team-a"];
        let node = serve(folder.path(), "a", &flags(&provider, folder.path()), &[&roles[..], more].concat());
        provider.state().redirects.push(format!("http://{}/login/oidc/callback", node.address));
        Self { provider, node, _folder: folder }
    }

    fn get(&self, path: &str, more: &str) -> (u16, String) {
        self.node.bare(&format!("GET {path} HTTP/1.1\nHost: {}\n{more}", self.node.address), b"")
    }

    /// The way to the provider.
    fn begin(&self) -> UnderWay {
        let (status, answer) = self.get("/login/oidc", "");
        assert_eq!(status, 303, "{answer}");
        let set = header(&answer, "set-cookie").concat();
        assert!(set.contains("HttpOnly") && set.contains("SameSite=Lax"), "{set}");
        UnderWay {
            cookie: cookie(&answer, "evenkeel-login").expect("a cookie"),
            url: header(&answer, "location").concat(),
        }
    }

    /// The path with which the provider sends the browser back.
    fn back(&self, under_way: &UnderWay) -> String {
        let target =
            under_way.url.strip_prefix(&format!("http://{}", self.provider.address)).expect("its address");
        let (status, answer) = raw(self.provider.address, &format!("GET {target} HTTP/1.1"), b"");
        assert_eq!(status, 302, "{answer}");
        let location = header(&answer, "location").concat();
        location.strip_prefix(&format!("http://{}", self.node.address)).expect("the node").to_owned()
    }

    /// The whole login; the answer of the node.
    fn log_in(&self, from: &str) -> (u16, String) {
        let under_way = self.begin();
        self.get(&self.back(&under_way), &format!("{}\n{OPENED}{from}", under_way.cookie))
    }

    fn whoami(&self, session: &str) -> (u16, String) {
        self.get("/api/v1/whoami", session)
    }
}

/// Whether an answer begins a session.
fn has_session(answer: &str) -> bool {
    cookie(answer, "evenkeel-session").is_some()
}

#[test]
fn a_person_logs_in_by_a_provider_and_has_the_roles_of_its_groups() {
    let login = Login::new(&["--oidc-label", "Example <ID>"]);
    login.node.ok(&["user", "create", "s-1", "--role", "admin"]);
    let (_, page) = login.get("/login", "");
    assert!(
        page.contains("href=\"login/oidc\"") && page.contains("Log in with Example &lt;ID&gt;"),
        "{page}"
    );
    let (status, answer) = login.log_in("");
    assert!(status == 200 && answer.contains("You are logged in as <strong>s-1"), "{answer}");
    assert!(
        answer.contains("content=\"0;url=../../\"") && answer.contains("href=\"../../console.css\""),
        "{answer}"
    );
    assert!(
        header(&answer, "set-cookie")
            .iter()
            .any(|set| set.starts_with("evenkeel-login") && set.contains("Max-Age=0"))
    );
    let session = cookie(&answer, "evenkeel-session").expect("a session");
    let (status, said) = login.whoami(&session);
    assert!(status == 200 && said.contains(r#""who":"oidc:s-1","roles":["author:team-a"]"#), "{said}");
    assert_eq!(login.get("/api/v1/users", &session).0, 403, "the user of the same name is another one");
    let (_, page) = login.get("/plain", &session);
    assert!(page.contains("logged in as oidc:s-1"), "{page}");
    let audit = login.node.json(&["audit", "--who", "oidc:s-1"]);
    assert_eq!(audit[0]["verb"], "login", "{audit}");
    assert_eq!(audit[0]["what"], "sub s-1, roles author:team-a", "{audit}");

    // Its session changes things from the node's own page only, and it can end it.
    let post = |path: &str, more: &str| {
        let head =
            format!("POST {path} HTTP/1.1\nHost: {}\nContent-Type: application/json", login.node.address);
        login.node.bare(&format!("{head}\n{session}{more}"), b"{}").0
    };
    assert_eq!(post("/api/v1/jobs/team-a%2Fx/pause", ""), 403);
    assert_eq!(post("/api/v1/jobs/team-a%2Fx/pause", "\nSec-Fetch-Site: same-origin"), 404);
    assert_eq!(
        post("/api/v1/whoami/password", "\nSec-Fetch-Site: same-origin"),
        403,
        "it has no password here"
    );

    // Its groups count at the next login.
    login.provider.state().person = json!({ "sub": "s-1", "groups": "platform" });
    let (_, answer) = login.log_in("");
    let (_, said) = login.whoami(&cookie(&answer, "evenkeel-session").expect("a session"));
    assert!(said.contains(r#""roles":["admin"]"#), "{said}");
    login.provider.state().person = json!({ "sub": "s-2" });
    let (_, answer) = login.log_in("");
    let (_, page) = login.get("/", &cookie(&answer, "evenkeel-session").expect("a session"));
    assert!(page.contains("have no role yet") && page.contains("Log out"), "{page}");
}

#[test]
fn a_login_ends_in_the_browser_that_began_it_and_once() {
    let login = Login::new(&["--trusted-proxy", "127.0.0.1/32"]);
    let (own, other) = (login.begin(), login.begin());
    let (back, of_other) = (login.back(&own), login.back(&other));
    let refused = |path: &str, more: &str, status: u16| {
        let (got, answer) = login.get(path, more);
        assert!(
            got == status && answer.contains("role=\"alert\"") && !has_session(&answer),
            "{path} {more}: {answer}"
        );
    };
    // A page elsewhere that sends a browser here with its author's code does not log it in.
    refused(&of_other, &format!("{}\n{OPENED}", own.cookie), 400);
    refused(&back, OPENED, 400);
    refused(&back, &format!("{}x", own.cookie), 400);
    let state = |path: &str| {
        path.split(['?', '&']).find(|part| part.starts_with("state=")).expect("a state").to_owned()
    };
    let mixed = of_other.replace(&state(&of_other), &state(&back));
    refused(&mixed, &format!("{}\nX-Forwarded-For: 192.0.2.1", own.cookie), 401);
    refused(&back.replace("iss=http", "iss=https"), &own.cookie, 400);
    refused(back.split("&iss=").next().expect("a part"), &own.cookie, 400);
    refused(&back.replace("code=", "error=access_denied&other="), &own.cookie, 403);
    refused(&back.replace("code=", "error=%3Cscript%3E&other="), &own.cookie, 403);
    refused(back.split('?').next().expect("a path"), &own.cookie, 400);
    let (status, answer) = login.get(&back, &own.cookie);
    assert!(status == 200 && has_session(&answer), "the browser that began it: {answer}");
    refused(&back, &format!("{}\nX-Forwarded-For: 192.0.2.2", own.cookie), 401);
    let audit = login.node.json(&["audit", "--who", "nobody"]);
    assert!(audit.to_string().contains("/login/oidc/callback"), "wrong codes are in the audit log: {audit}");
}

#[test]
fn a_token_that_is_not_for_this_login_begins_no_session() {
    let login = Login::new(&["--trusted-proxy", "127.0.0.1/32"]);
    for (n, (lie, status)) in [
        (Lie::Nonce, 401),
        (Lie::Audience, 401),
        (Lie::Party, 401),
        (Lie::Issuer, 401),
        (Lie::Expired, 401),
        (Lie::NoSignature, 401),
        (Lie::PublicSecret, 401),
        (Lie::OtherKey, 401),
        (Lie::UnknownKey, 401),
        (Lie::NoToken, 502),
    ]
    .into_iter()
    .enumerate()
    {
        login.provider.state().lie = lie;
        let (got, answer) = login.log_in(&format!("\nX-Forwarded-For: 192.0.2.{n}"));
        assert!(got == status && !has_session(&answer) && answer.contains("Try again"), "{lie:?}: {answer}");
    }
    login.provider.state().lie = Lie::None;
    assert!(has_session(&login.log_in("").1));
    // Codes that are guessed lock the address out, as keys do.
    let under_way = login.begin();
    let guess = |n: usize| {
        let back = login.back(&under_way).replace("code=", &format!("code={n}-"));
        login.get(&back, &format!("{}\nX-Forwarded-For: 192.0.2.99", under_way.cookie)).0
    };
    let tries: Vec<u16> = (0..7).map(guess).collect();
    assert_eq!(tries, [401, 401, 401, 401, 401, 401, 429]);
}

#[test]
fn a_new_key_of_the_provider_is_learned_and_an_unknown_one_asked_for_seldom() {
    let login = Login::new(&["--trusted-proxy", "127.0.0.1/32"]);
    assert!(has_session(&login.log_in("").1));
    login.provider.state().rotate();
    until("the new key is known", || has_session(&login.log_in("").1).then_some(()));
    let reads =
        |login: &Login| login.provider.state().asked.iter().filter(|path| path.ends_with("/keys")).count();
    let before = reads(&login);
    login.provider.state().lie = Lie::UnknownKey;
    for n in 0..20 {
        login.log_in(&format!("\nX-Forwarded-For: 192.0.2.{n}"));
    }
    let asked = reads(&login) - before;
    assert!(asked < 20, "{asked}");
}

#[test]
fn a_provider_that_fails_gets_a_page_and_no_session() {
    let login = Login::new(&[]);
    let under_way = login.begin();
    let back = login.back(&under_way);
    for lie in [Lie::Closes, Lie::Fails, Lie::NoJson, Lie::Endless] {
        login.provider.state().lie = lie;
        let (status, answer) = login.get(&back, &under_way.cookie);
        assert!(
            status == 502 && answer.contains("the node&#39;s log says why") | answer.contains("node's log"),
            "{lie:?}: {answer}"
        );
        assert!(!has_session(&answer) && answer.contains("href=\"../../login\""), "{answer}");
    }
    login.provider.state().lie = Lie::None;
    assert!(has_session(&login.log_in("").1), "it goes on when the provider does");
    for lie in [Lie::Closes, Lie::Fails, Lie::NoJson, Lie::Endless, Lie::OtherDocument, Lie::PlainToken] {
        let login = Login::new(&[]);
        login.provider.state().lie = lie;
        let (status, answer) = login.get("/login/oidc", "");
        assert!(status == 502 && answer.contains("href=\"../login\""), "{lie:?}: {answer}");
        assert_eq!(login.get("/api/v1/health", "").0, 200);
    }
}

#[test]
fn what_a_token_lacks_is_asked_for_and_believed_of_the_same_person_only() {
    let login = Login::new(&["--oidc-user-claim", "email"]);
    login.provider.state().groups_apart = true;
    login.provider.state().person =
        json!({ "sub": "s-1", "email": "ann@example.org", "email_verified": true, "groups": ["devs"] });
    let (_, answer) = login.log_in("");
    let session = cookie(&answer, "evenkeel-session").expect("a session");
    let (_, said) = login.whoami(&session);
    assert!(said.contains(r#""who":"oidc:ann@example.org","roles":["author:team-a"]"#), "{said}");
    login.provider.state().lie = Lie::OtherPerson;
    assert_eq!(login.log_in("").0, 401);
    login.provider.state().lie = Lie::None;
    login.provider.state().person["email_verified"] = json!(false);
    let (status, answer) = login.log_in("");
    assert!(status == 403 && answer.contains("not say that the email address is verified"), "{answer}");
}

#[test]
fn a_login_goes_on_at_another_node_behind_a_proxy() {
    let (provider, folder) = (TestProvider::start(), tempfile::tempdir().expect("a folder"));
    let more =
        ["--trusted-proxy", "127.0.0.1/32", "--allowed-host", "jobs.example", "--group-role", "*=viewer"];
    let flags = flags(&provider, folder.path());
    let [a, b] = ["a", "b"].map(|name| serve(folder.path(), name, &flags, &more));
    provider.state().redirects.push("https://jobs.example/login/oidc/callback".to_owned());
    let said = "Host: upstream\nX-Forwarded-Host: jobs.example\nX-Forwarded-Proto: https\nX-Forwarded-For: 192.0.2.7";
    let (status, answer) = a.bare(&format!("GET /login/oidc HTTP/1.1\n{said}"), b"");
    assert_eq!(status, 303, "{answer}");
    assert!(header(&answer, "set-cookie").iter().all(|set| set.ends_with("; Secure")), "{answer}");
    let (location, own) =
        (header(&answer, "location").concat(), cookie(&answer, "evenkeel-login").expect("a cookie"));
    let target = location.strip_prefix(&format!("http://{}", provider.address)).expect("its address");
    let (_, answer) = raw(provider.address, &format!("GET {target} HTTP/1.1"), b"");
    let back = header(&answer, "location").concat();
    let back = back.strip_prefix("https://jobs.example").expect("the proxy").to_owned();
    let (status, answer) = b.bare(&format!("GET {back} HTTP/1.1\n{said}\n{own}\n{OPENED}"), b"");
    assert_eq!(status, 200, "{answer}");
    let set = header(&answer, "set-cookie");
    assert!(set.len() == 2 && set.iter().all(|set| set.ends_with("; Secure")), "{set:?}");
    let session = cookie(&answer, "evenkeel-session").expect("a session");
    let jobs =
        |node: &ServerProcess| node.bare(&format!("GET /api/v1/jobs HTTP/1.1\n{said}\n{session}"), b"").0;
    assert_eq!((jobs(&a), jobs(&b)), (200, 200));
    drop(a);

    // A node with other roles for groups, or without the provider, does not go by the roles in the session.
    let other = [&more[..4], &["--group-role", "*=operator"]].concat();
    assert_eq!(jobs(&serve(folder.path(), "c", &flags, &other)), 401);
    assert_eq!(jobs(&ServerProcess::serve(folder.path(), "d", &more[..4])), 401);
}

#[test]
fn a_public_client_has_no_secret_and_an_address_of_its_own_if_it_is_given_one() {
    let (provider, folder) = (TestProvider::start(), tempfile::tempdir().expect("a folder"));
    provider.state().confidential = false;
    let redirect = "https://tools.example/jobs/login/oidc/callback";
    let more = ["--oidc-redirect-url", redirect];
    let node = serve(folder.path(), "a", &flags(&provider, folder.path())[..4], &more);
    provider.state().redirects.push(redirect.to_owned());
    let get = |path: &str, more: &str| {
        node.bare(&format!("GET {path} HTTP/1.1\nHost: {}\n{more}", node.address), b"")
    };
    let (_, answer) = get("/login/oidc", "");
    let (location, own) =
        (header(&answer, "location").concat(), cookie(&answer, "evenkeel-login").expect("a cookie"));
    let target = location.strip_prefix(&format!("http://{}", provider.address)).expect("its address");
    let (_, answer) = raw(provider.address, &format!("GET {target} HTTP/1.1"), b"");
    let back = header(&answer, "location").concat();
    let back = back.strip_prefix("https://tools.example/jobs").expect("the proxy").to_owned();
    assert!(has_session(&get(&back, &own).1));
}

#[test]
fn a_login_without_settings_does_not_exist_and_wrong_settings_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    for path in ["/login/oidc", "/login/oidc/callback?code=a&state=b"] {
        assert_eq!(node.bare(&format!("GET {path} HTTP/1.1\nHost: {}", node.address), b"").0, 404);
    }
    assert!(
        !node.bare(&format!("GET /login HTTP/1.1\nHost: {}", node.address), b"").1.contains("login/oidc")
    );
    let open = folder.path().join("open");
    std::fs::write(&open, "secret\n").expect("written");
    let open = open.display().to_string();
    let both = ["--oidc-issuer", "https://id.example", "--oidc-client-id", "jobs"];
    for (more, says) in [
        (vec!["--oidc-issuer", "https://id.example"], "--oidc-client-id"),
        (vec!["--oidc-client-id", "jobs"], "--oidc-issuer"),
        (vec!["--oidc-scopes", "openid"], "--oidc-issuer"),
        (vec!["--group-role", "a=admin"], "--oidc-issuer"),
        (vec!["--proxy-user-header", "X-User"], "--trusted-proxy"),
        (vec!["--proxy-groups-header", "X-Groups"], "--proxy-user-header"),
        (vec!["--proxy-user-header", "Cookie", "--trusted-proxy", "127.0.0.1"], "no other meaning"),
        (vec!["--proxy-user-header", "X User", "--trusted-proxy", "127.0.0.1"], "no other meaning"),
        (vec!["--oidc-issuer", "http://id.example", "--oidc-client-id", "jobs"], "https"),
        ([&both[..], &["--group-role", "a=king"]].concat(), "king"),
        ([&both[..], &["--oidc-scopes", "profile"]].concat(), "openid"),
        ([&both[..], &["--oidc-session", "8d"]].concat(), "--oidc-session"),
        ([&both[..], &["--oidc-redirect-url", "https://jobs.example/"]].concat(), "/login/oidc/callback"),
        ([&both[..], &["--oidc-client-secret-file", &open]].concat(), "chmod 600"),
        ([&both[..], &["--oidc-ca-file", &open]].concat(), "no certificate"),
    ] {
        let data = folder.path().join("b").display().to_string();
        let args = ["serve", "--name", "b", "--data", &data, "--registry", "memory:", "--port", "0"];
        let output = run(&[&args[..], &more].concat());
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(says), "{more:?}: {said}");
    }
}
