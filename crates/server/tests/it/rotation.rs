//! Every key and certificate is replaced while nodes work and programs call them: no request fails, and no fire is lost.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::process::{ServerProcess, evenkeel, raw, text, until, write_private};

const OLD_KEY: &str = "correct-horse-battery-staple";
const NEW_KEY: &str = "another-pony-without-a-cable";
/// Between two requests of a program: there is more to do on this machine.
const PACE: Duration = Duration::from_millis(20);

/// Two nodes with an identity, a key and a certificate of their own.
struct TwoNodes {
    folder: tempfile::TempDir,
    nodes: Vec<ServerProcess>,
}

impl TwoNodes {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let pair = Self { folder, nodes: Vec::new() };
        pair.write_keys(&[OLD_KEY]);
        pair.give_certificate();
        let nodes = ["a", "b"].map(|name| {
            let log = File::create(pair.path(&format!("{name}.log"))).expect("a log");
            let [key, identity, certificate, private] =
                ["key", "identity.json", "cert.pem", "key.pem"].map(|file| pair.shown(file));
            let more = [
                ["--cluster-key-file", &key],
                ["--identity", &identity],
                ["--tls-cert", &certificate],
                ["--tls-key", &private],
            ];
            let more: Vec<&str> = more.iter().flatten().copied().collect();
            let mut command = ServerProcess::command(pair.folder.path(), name, &more);
            ServerProcess::start(command.env("EVENKEEL_LOG", "info").stderr(log))
        });
        Self { nodes: nodes.into(), ..pair }
    }

    fn path(&self, file: &str) -> PathBuf {
        self.folder.path().join(file)
    }

    fn shown(&self, file: &str) -> String {
        self.path(file).display().to_string()
    }

    /// Replaces the file of the key as a whole, as an administrator's tool does.
    fn write_keys(&self, keys: &[&str]) {
        let draft = self.path("key.draft");
        write_private(&draft, &(keys.join("\n") + "\n"));
        fs::rename(&draft, self.path("key")).expect("replaced");
    }

    fn give_certificate(&self) {
        let made =
            rcgen::generate_simple_self_signed(vec!["jobs.example".to_owned()]).expect("a certificate");
        fs::write(self.path("key.pem"), made.signing_key.serialize_pem()).expect("written");
        fs::write(self.path("cert.pem"), made.cert.pem()).expect("written");
    }

    /// Lets both nodes look at their files, and waits until each has logged one more line with this text.
    fn refresh(&self, said: &str, times: usize) {
        for (node, log) in self.nodes.iter().zip(["a.log", "b.log"]) {
            node.signal("HUP");
            until(said, || {
                let log = fs::read_to_string(self.path(log)).expect("a log");
                (log.matches(said).count() >= times).then_some(())
            });
        }
    }

    fn step(&self, step: &str, more: &[&str]) -> String {
        let identity = self.shown("identity.json");
        let fixed = ["cluster", "rotate-identity", "--step", step, "--identity", &identity];
        let output = evenkeel(&[&fixed, more].concat()).output().expect("evenkeel starts");
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    }

    fn ok(&self, args: &[&str]) -> String {
        self.nodes[0].ok(&[args, &["--cluster-key-file", &self.shown("key")]].concat())
    }
}

/// A program that asks both nodes again and again, with the credential that it has at the moment.
struct LoadCaller {
    credential: Arc<Mutex<String>>,
    asked: Arc<AtomicUsize>,
}

impl LoadCaller {
    fn new<'a>(
        scope: &'a std::thread::Scope<'a, '_>,
        credential: String,
        (addresses, over): (&'a [SocketAddr], &'a AtomicBool),
        failures: &'a Mutex<Vec<String>>,
    ) -> Self {
        let caller = Self { credential: Arc::new(Mutex::new(credential)), asked: Arc::default() };
        let (credential, asked) = (caller.credential.clone(), caller.asked.clone());
        scope.spawn(move || {
            for address in addresses.iter().cycle().take_while(|_| !over.load(Ordering::Relaxed)) {
                let shown = credential.lock().expect("unlocked").clone();
                let head = format!("GET /api/v1/jobs?namespace=default HTTP/1.1\nHost: {address}\n{shown}");
                let (status, answer) = raw(*address, &head, b"");
                if status != 200 {
                    failures.lock().expect("unlocked").push(format!("{shown}: {answer}"));
                }
                asked.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(PACE);
            }
        });
        caller
    }

    /// Waits until it has asked both nodes once more.
    fn goes_on(&self) {
        let before = self.asked.load(Ordering::Relaxed);
        until("the program asks", || (self.asked.load(Ordering::Relaxed) > before + 2).then_some(()));
    }

    fn change_to(&self, credential: String) {
        *self.credential.lock().expect("unlocked") = credential;
        self.goes_on();
    }
}

fn bearer(text: &str) -> String {
    format!("Authorization: Bearer {}", text.trim())
}

/// Logs ann in on the first node, and returns the line with her session.
fn session(pair: &TwoNodes) -> String {
    let address = pair.nodes[0].address;
    let head = format!(
        "POST /login HTTP/1.1\nHost: {address}\nOrigin: http://{address}\nContent-Type: application/x-www-form-urlencoded"
    );
    let (status, answer) = raw(address, &head, b"name=ann&key=correct+horse+battery");
    assert_eq!(status, 200, "{answer}");
    let cookie = answer.lines().find_map(|line| line.strip_prefix("set-cookie: ")).expect("a cookie");
    let value = cookie.split_once('=').and_then(|(_, rest)| rest.split(';').next()).expect("a value");
    // Each node looks for the cookie of its own port.
    let named = pair.nodes.iter().map(|node| format!("evenkeel-session-{}={value}", node.address.port()));
    format!("Cookie: {}", named.collect::<Vec<_>>().join("; "))
}

/// The jobs of the test with this description: one that a node claims and one that nodes offer to each other.
fn jobs(folder: &Path, description: &str) -> PathBuf {
    // Each run needs a secret that the registry keeps.
    let job = |name: &str, placement: &str| {
        format!(
            "[[job]]\nname = \"{name}\"\nschedule = \"@every 1s\"\ncommand = [\"/bin/sh\", \"-c\", \"test $DB = hunter2\"]\n\
             placement = \"{placement}\"\ndescription = \"{description}\"\nsecrets = {{ DB = \"db\" }}\n"
        )
    };
    let file = folder.join("jobs.toml");
    fs::write(&file, job("claimed", "claimed") + &job("dispatched", "dispatched")).expect("written");
    file
}

#[test]
fn no_request_fails_and_no_fire_is_lost_while_every_key_and_certificate_is_replaced() {
    let pair = TwoNodes::new();
    let apply = |description: &str| {
        let file = jobs(pair.folder.path(), description).display().to_string();
        let applied = pair.ok(&["job", "apply", "-f", &file]);
        assert!(applied.contains("claimed"), "{applied}");
    };
    let key = pair.shown("key");
    let set = pair.nodes[0].fed(&["secret", "set", "db", "--cluster-key-file", &key], "hunter2");
    assert!(set.status.success(), "{}", text(&set.stderr));
    apply("before");
    let user = ["user", "create", "ann", "--role", "viewer", "--password-stdin", "--cluster-key-file"];
    let made = pair.nodes[0].fed(&[&user[..], &[&pair.shown("key")]].concat(), "correct horse battery");
    assert!(made.status.success(), "{}", text(&made.stderr));
    let token = pair.ok(&["token", "create", "ci", "--role", "viewer"]);
    fs::copy(pair.path("identity.json"), pair.path("former.json")).expect("copied");
    let (addresses, over) =
        (pair.nodes.iter().map(|node| node.address).collect::<Vec<_>>(), AtomicBool::new(false));
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        let caller = |credential| LoadCaller::new(scope, credential, (&addresses, &over), &failures);
        let [key, ci, ann] = [bearer(OLD_KEY), bearer(&token), session(&pair)].map(caller);
        // A panic must end the programs, too.
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            pair.write_keys(&[OLD_KEY, NEW_KEY]);
            pair.refresh("two keys are accepted", 1);
            key.change_to(bearer(NEW_KEY));
            pair.write_keys(&[NEW_KEY]);
            pair.refresh("one key is accepted", 1);

            let rotated = pair.ok(&["token", "rotate", "ci", "--overlap", "1h"]);
            ci.goes_on();
            ci.change_to(bearer(&rotated));

            pair.give_certificate();
            pair.refresh("is used from now on", 1);

            let registry = format!("sqlite:{}", pair.shown("registry.db"));
            for (n, (step, more)) in
                [("trust", &[][..]), ("sign", &[]), ("finish", &["--registry", &registry])]
                    .into_iter()
                    .enumerate()
            {
                let said = pair.step(step, more);
                assert_eq!(said.contains("5 entries sealed with the new secret"), step == "finish", "{said}");
                pair.refresh("the cluster's identity has changed", n + 1);
                if step == "trust" {
                    // Its seal is of the old secret still; later edits have the new one.
                    apply("trusted");
                }
                [&key, &ci].iter().for_each(|caller| caller.goes_on());
                if step == "sign" {
                    // The session of before is good until the old secret is dropped.
                    ann.goes_on();
                    ann.change_to(session(&pair));
                }
            }
            ann.goes_on();
        }));
        over.store(true, Ordering::Relaxed);
        ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    assert_eq!(failures.into_inner().expect("unlocked"), Vec::<String>::new());
    assert!(pair.ok(&["job", "unsealed", "-o", "json"]).contains("\"jobs\": []"), "every entry is known");
    let [key, former] = ["key", "former.json"].map(|file| pair.shown(file));
    let late = ["--cluster-key-file", &key, "--identity", &former];
    let refused =
        ServerProcess::command(pair.folder.path(), "late", &late).output().expect("evenkeel starts");
    assert!(text(&refused.stderr).contains("before its secret was replaced"), "{}", text(&refused.stderr));
    for job in ["claimed", "dispatched"] {
        let runs = pair.ok(&["run", "list", "--job", job, "--limit", "1000", "-o", "json"]);
        let runs: serde_json::Value = serde_json::from_str(&runs).expect("JSON");
        let runs = runs.as_array().expect("a list");
        let mut dues: Vec<i64> = runs.iter().map(|run| due(run["run"].as_str().expect("a run"))).collect();
        dues.sort_unstable();
        let each: Vec<i64> = (0..dues.len() as i64).map(|n| dues[0] + n * 1_000).collect();
        assert_eq!(dues, each, "{job}: one fire each second");
        let bad: Vec<_> = runs
            .iter()
            .filter(|run| !["succeeded", "running"].contains(&run["state"].as_str().unwrap_or("")))
            .collect();
        assert!(bad.is_empty(), "{job}: {bad:?}");
    }
}

fn due(run: &str) -> i64 {
    run.split(':').nth(1).and_then(|due| due.parse().ok()).expect("a moment")
}
