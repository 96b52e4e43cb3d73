//! The node's port over TLS: which callers need it, which certificates they see, and whom the command line trusts.

use std::fs;
use std::path::Path;

use crate::forged::{self, ForgedAuthority, shared_identity};
use crate::process::{ServerProcess, evenkeel, run, text, until};

/// Health over TLS under this host name, whose certificate must be of this authority.
fn health(node: &ServerProcess, host: &str, authority: &str) -> Result<(u16, String), String> {
    let head = format!("GET /api/v1/health HTTP/1.1\nHost: {}", node.address);
    forged::ask((node.address, host), authority, None, (&head, b""))
}

#[test]
fn a_node_that_demands_tls_answers_nothing_else() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &["--tls", "on"]);
    assert!(node.banner.contains("answers at https://"), "{}", node.banner);
    for path in ["/api/v1/health", "/", "/api/v1/jobs"] {
        let (status, answer) = node.raw(&format!("GET {path} HTTP/1.1\nHost: {}", node.address), b"");
        assert!(status == 400 && answer.contains("write https:// before the address"), "{path}: {answer}");
    }
    assert_eq!(node.json(&["job", "list"]), serde_json::json!([]), "the command line speaks https");
    let own = ForgedAuthority::of(&shared_identity()).certificate;
    for host in ["127.0.0.1", "localhost", "node.evenkeel.internal"] {
        let (status, answer) = health(&node, host, &own).expect("an answer");
        assert!(status == 200 && answer.contains("member"), "{host}: {answer}");
    }
    assert!(health(&node, "evil.example", &own).is_err(), "it has no certificate for that name");
    let stranger = ForgedAuthority::stranger(&shared_identity()).certificate;
    assert!(health(&node, "localhost", &stranger).is_err(), "another authority has not signed it");
}

#[test]
fn a_caller_with_which_there_is_no_agreement_is_in_the_log() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    let mut command = ServerProcess::command(folder.path(), "a", &[]);
    let stderr = fs::File::create(&log).expect("a log");
    let node = ServerProcess::start(command.env("EVENKEEL_LOG", "warn").stderr(stderr));
    let stranger = ForgedAuthority::stranger(&shared_identity()).certificate;
    assert!(health(&node, "localhost", &stranger).is_err());
    until("the log says it", || {
        fs::read_to_string(&log).expect("a log").contains("do not agree on TLS").then_some(())
    });
}

#[test]
fn on_this_host_a_node_answers_both_and_without_tls_all() {
    let folder = tempfile::tempdir().expect("a folder");
    for mode in ["auto", "off"] {
        let node = ServerProcess::serve(folder.path(), mode, &["--tls", mode]);
        assert!(node.banner.contains("answers at http://"), "{}", node.banner);
        let plain = node.raw(&format!("GET /api/v1/health HTTP/1.1\nHost: {}", node.address), b"");
        assert_eq!(plain.0, 200);
        let own = ForgedAuthority::of(&shared_identity()).certificate;
        assert_eq!(health(&node, "localhost", &own).expect("an answer").0, 200);
    }
}

/// The command line of a host without the cluster's identity.
fn elsewhere(folder: &Path, args: &[&str]) -> (bool, String) {
    let output = evenkeel(args).env("XDG_STATE_HOME", folder).output().expect("evenkeel starts");
    (output.status.success(), text(&output.stdout) + &text(&output.stderr))
}

#[test]
fn the_command_line_trusts_the_cluster_or_a_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let key = folder.path().join("key");
    crate::process::write_private(&key, "correct-horse-battery-staple\n");
    let key = key.display().to_string();
    let node = ServerProcess::serve(folder.path(), "a", &["--tls", "on", "--cluster-key-file", &key]);
    let server = format!("https://{}", node.address);
    let ask = ["job", "list", "--server", &server, "--cluster-key-file", &key];
    let (done, said) = elsewhere(folder.path(), &ask);
    assert!(!done && said.contains("is signed by no authority that is trusted here"), "{said}");
    let ca = folder.path().join("ca.pem");
    fs::write(&ca, run(&["cluster", "ca"]).stdout).expect("written");
    let ca = ca.display().to_string();
    let (done, said) = elsewhere(folder.path(), &[&ask[..], &["--ca-file", &ca]].concat());
    assert!(done, "{said}");
    let (done, said) = elsewhere(folder.path(), &[&ask[..], &["--ca-file", &key]].concat());
    assert!(!done && said.contains("there is no certificate in it"), "{said}");
    node.ok(&["job", "list", "--cluster-key-file", &key]);
}

#[test]
fn a_key_is_not_sent_unencrypted_to_another_host() {
    let folder = tempfile::tempdir().expect("a folder");
    let key = folder.path().join("key");
    crate::process::write_private(&key, "correct-horse-battery-staple\n");
    // An address for documentation: no host has it.
    let ask = ["job", "list", "--server", "http://192.0.2.1:7700", "--cluster-key-file"];
    let refused = run(&[&ask[..], &[&key.display().to_string()]].concat());
    let said = text(&refused.stderr);
    assert!(refused.status.code() == Some(2) && said.contains("--allow-plain-http"), "{said}");
}

/// Writes a certificate for this name, and returns it in PEM.
fn give(folder: &Path, host: &str) -> String {
    let made = rcgen::generate_simple_self_signed(vec![host.to_owned()]).expect("a certificate");
    fs::write(folder.join("key.pem"), made.signing_key.serialize_pem()).expect("written");
    fs::write(folder.join("cert.pem"), made.cert.pem()).expect("written");
    made.cert.pem()
}

#[test]
fn a_given_certificate_is_shown_to_people_and_read_again_when_it_changes() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = give(folder.path(), "jobs.example");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let files = ["--tls-cert", &path("cert.pem"), "--tls-key", &path("key.pem")];
    let node = ServerProcess::serve(folder.path(), "a", &files);
    let own = ForgedAuthority::of(&shared_identity()).certificate;
    assert_eq!(health(&node, "jobs.example", &first).expect("an answer").0, 200);
    for host in ["localhost", "node.evenkeel.internal"] {
        assert_eq!(health(&node, host, &own).expect("nodes see the node's own").0, 200, "{host}");
    }
    let second = give(folder.path(), "jobs.example");
    node.signal("HUP");
    until("the new one is shown", || health(&node, "jobs.example", &second).ok());
    fs::write(folder.path().join("key.pem"), "no key").expect("written");
    node.signal("HUP");
    assert_eq!(health(&node, "jobs.example", &second).expect("the one of before stays").0, 200);
    let refused = ServerProcess::command(folder.path(), "b", &files).output().expect("evenkeel starts");
    assert!(text(&refused.stderr).contains("there is no private key in it"), "{}", text(&refused.stderr));
}

/// Writes a certificate that signed itself, as `openssl req -x509` makes them, valid until the end of this year.
fn sign_itself(folder: &Path, name: &str, host: &str, last_year: i32) -> [String; 2] {
    let key = rcgen::KeyPair::generate().expect("a key");
    let mut params = rcgen::CertificateParams::new(vec![host.to_owned()]).expect("a name");
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    params.not_after = rcgen::date_time_ymd(last_year, 12, 31);
    let certificate = params.self_signed(&key).expect("a certificate");
    let files = ["cert", "key"].map(|kind| folder.join(format!("{name}.{kind}.pem")));
    fs::write(&files[0], certificate.pem()).expect("written");
    fs::write(&files[1], key.serialize_pem()).expect("written");
    files.map(|file| file.display().to_string())
}

#[test]
fn the_command_line_trusts_a_certificate_that_signed_itself_if_the_file_has_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let key = folder.path().join("key");
    crate::process::write_private(&key, "correct-horse-battery-staple\n");
    let key = key.display().to_string();
    let own = sign_itself(folder.path(), "own", "localhost", 4000);
    let other = sign_itself(folder.path(), "other", "localhost", 4000);
    let old = sign_itself(folder.path(), "old", "localhost", 2020);
    for (name, [cert, private], host, trusted, says) in [
        ("own", &own, "localhost", &own[0], None),
        (
            "other",
            &own,
            "localhost",
            &other[0],
            Some("its certificate signed itself, and is not trusted here"),
        ),
        ("old", &old, "localhost", &old[0], Some("its certificate has expired")),
    ] {
        let files = ["--tls", "on", "--cluster-key-file", &key, "--tls-cert", cert, "--tls-key", private];
        let node = ServerProcess::serve(folder.path(), name, &files);
        let server = format!("https://{host}:{}", node.address.port());
        let ask = ["job", "list", "--server", &server, "--cluster-key-file", &key, "--ca-file", trusted];
        let output = evenkeel(&ask).env("XDG_STATE_HOME", folder.path()).output().expect("evenkeel starts");
        let said = text(&output.stderr);
        match says {
            None => assert!(output.status.success(), "{name}: {said}"),
            Some(says) => {
                assert!(said.contains(says) && said.contains("--ca-file"), "{name}: {said}");
                assert_eq!(output.status.code(), Some(8), "{name}: {said}");
            }
        }
    }
}
