//! Login by a provider that others have written.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::host;
use crate::process::{ServerProcess, raw, repository, text, write_private};

/// `oidc-provider` of npm, as a process.
struct RealProvider {
    child: Child,
    address: SocketAddr,
    /// It ends when it cannot print.
    _printed: BufReader<ChildStdout>,
}

impl RealProvider {
    /// Starts the one in this folder, for a client at this address; `None` where its port is in use.
    fn start(folder: &str, redirect: &str, secret: &str) -> Option<Self> {
        let port = host::free_ports(1)[0];
        let script = repository("crates/server/tests/it/oidc_provider.mjs");
        let mut command = Command::new("node");
        command.arg(script).args([folder, &port.to_string(), redirect, secret]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("node starts");
        let (mut printed, mut said) =
            (BufReader::new(child.stdout.take().expect("it is piped")), String::new());
        printed.read_line(&mut said).expect("it prints");
        if said == "ready\n" {
            return Some(Self {
                child,
                address: SocketAddr::from(([127, 0, 0, 1], port)),
                _printed: printed,
            });
        }
        child.wait().expect("it ends");
        None
    }
}

impl Drop for RealProvider {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A browser that keeps cookies, by host and port.
#[derive(Default)]
struct Browser(BTreeMap<SocketAddr, BTreeMap<String, String>>);

/// A page, and where it is.
struct Page {
    url: String,
    status: u16,
    answer: String,
}

impl Browser {
    /// Opens an address and follows where it leads; a form is sent with these fields.
    fn open(&mut self, url: &str, form: Option<&str>) -> Page {
        let (mut url, mut form) = (url.to_owned(), form.map(str::to_owned));
        loop {
            let rest = url.strip_prefix("http://").expect("plain http");
            let (address, path) = rest.split_once('/').expect("a path");
            let address: SocketAddr = address.parse().expect("an address");
            let jar = self.0.entry(address).or_default();
            let cookies: Vec<String> = jar.iter().map(|(name, value)| format!("{name}={value}")).collect();
            let kind = "Content-Type: application/x-www-form-urlencoded";
            let (method, more) = if form.is_some() { ("POST", kind) } else { ("GET", "Accept: text/html") };
            let head =
                format!("{method} /{path} HTTP/1.1\nHost: {address}\nCookie: {}\n{more}", cookies.join("; "));
            let (status, answer) = raw(address, &head, form.take().unwrap_or_default().as_bytes());
            for line in answer.split("\r\n\r\n").next().unwrap_or_default().lines() {
                let Some((name, value)) = line.split_once(": ") else { continue };
                if name.eq_ignore_ascii_case("set-cookie")
                    && let Some((name, value)) = value.split(';').next().and_then(|pair| pair.split_once('='))
                {
                    jar.insert(name.to_owned(), value.to_owned());
                }
            }
            let location = answer.lines().find_map(|line| {
                line.split_once(": ")
                    .filter(|(name, _)| name.eq_ignore_ascii_case("location"))
                    .map(|(_, to)| to)
            });
            match location {
                Some(to) if to.starts_with('/') => url = format!("http://{address}{to}"),
                Some(to) => url = to.to_owned(),
                None => return Page { url, status, answer },
            }
        }
    }

    /// Logs a person in at the provider and agrees to what it asks, until it sends the browser back.
    fn log_in(&mut self, node: SocketAddr, person: &str) -> Page {
        let mut page = self.open(&format!("http://{node}/login/oidc"), None);
        while !page.url.contains("/login/oidc/callback") {
            let action = page.answer.split("action=\"").nth(1).and_then(|rest| rest.split('"').next());
            let action =
                action.unwrap_or_else(|| panic!("no form at {}: {}", page.url, page.answer)).to_owned();
            let form = match page.answer.contains("name=\"login\"") {
                true => format!("prompt=login&login={person}&password=any"),
                false => "prompt=consent".to_owned(),
            };
            page = self.open(&action, Some(&form));
        }
        page
    }

    fn whoami(&mut self, node: SocketAddr) -> String {
        self.open(&format!("http://{node}/api/v1/whoami"), None).answer
    }
}

/// `cargo xtask soak login` installs the provider.
#[test]
#[ignore = "soak: it needs a provider from npm"]
fn people_log_in_by_a_provider_that_others_have_written() {
    let Ok(provider) = std::env::var("EVENKEEL_TEST_OIDC") else {
        return host::skip(
            "EVENKEEL_TEST_OIDC names no folder with oidc-provider: `cargo xtask soak login` does",
        );
    };
    let folder = tempfile::tempdir().expect("a folder");
    let secret = folder.path().join("secret");
    write_private(&secret, "a secret: with signs/+&\n");
    let secret_file = secret.display().to_string();
    let port = host::free_ports(1)[0].to_string();
    let redirect = format!("http://127.0.0.1:{port}/login/oidc/callback");
    let provider = (0..10).find_map(|_| RealProvider::start(&provider, &redirect, "a secret: with signs/+&"));
    let provider = provider.expect("a provider");
    let issuer = format!("http://{}", provider.address);
    let node = ServerProcess::serve(
        folder.path(),
        "a",
        &[
            ["--port", port.as_str()],
            ["--oidc-issuer", &issuer],
            ["--oidc-client-id", "jobs"],
            ["--oidc-client-secret-file", &secret_file],
            ["--oidc-user-claim", "preferred_username"],
            ["--group-role", "devs=author:team-a"],
        ]
        .concat(),
    );
    let mut ann = Browser::default();
    let page = ann.log_in(node.address, "ann");
    assert!(
        page.status == 200 && page.answer.contains("You are logged in as <strong>ann@here"),
        "{}",
        page.answer
    );
    let said = ann.whoami(node.address);
    assert!(said.contains(r#""who":"oidc:ann@here","roles":["author:team-a"]"#), "{said}");

    // A code is good once, and the provider that has a session asks no more.
    let again = ann.open(&page.url, None);
    assert_eq!(again.status, 400, "the browser has forgotten the login: {}", again.answer);
    let page = ann.log_in(node.address, "ann");
    assert_eq!(page.status, 200, "{}", page.answer);

    // A person that declines gets a page, and one without groups sees nothing.
    let mut bob = Browser::default();
    let form = bob.open(&format!("http://{}/login/oidc", node.address), None);
    let abort = format!("{}/abort", form.url.split('?').next().expect("an address"));
    let page = bob.open(&abort, None);
    assert!(page.status == 403 && page.answer.contains("(access_denied)"), "{}", page.answer);
    assert_eq!(bob.log_in(node.address, "bob").status, 200);
    let said = bob.whoami(node.address);
    assert!(said.contains(r#""who":"oidc:bob@here","roles":[]"#), "{said}");

    // Another client's secret is refused, with a page.
    drop(node);
    write_private(&secret, "another secret\n");
    let node = ServerProcess::serve(
        folder.path(),
        "b",
        &[
            ["--port", port.as_str()],
            ["--oidc-issuer", &issuer],
            ["--oidc-client-id", "jobs"],
            ["--oidc-client-secret-file", &secret_file],
        ]
        .concat(),
    );
    let page = Browser::default().log_in(node.address, "ann");
    assert!(page.status == 502 && page.answer.contains("cannot be used now"), "{}", page.answer);
    let log = text(&node.cli(&["audit"]).stdout);
    assert!(log.contains("oidc:ann@here") && !log.contains("secret"), "{log}");
}
