//! Webhooks over TLS, against a listener with a certificate of the test's own CA.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::*;

/// Makes `ca.pem`, and `server.pem` with `server.key` for `localhost`; `false`, with a message, without `openssl`.
fn made_certificates(folder: &Path) -> bool {
    let script = "
        openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=ca -keyout ca.key -out ca.pem &&
        openssl req -newkey rsa:2048 -nodes -subj /CN=localhost -keyout server.key -out server.csr &&
        printf 'subjectAltName=DNS:localhost,IP:127.0.0.1' > names &&
        openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names \
            -out server.pem";
    let made = Command::new("sh").args(["-ec", script]).current_dir(folder).output();
    let is_made = made.as_ref().is_ok_and(|made| made.status.success());
    if !is_made {
        let mut terminal = std::io::stderr();
        let _ = writeln!(terminal, "SKIPPED: openssl makes no certificates: {made:?}");
    }
    is_made
}

/// A listener that answers every client that completes the handshake; the requests come out.
fn tls_listener(folder: &Path) -> (String, Receiver<String>) {
    let chain = CertificateDer::pem_file_iter(folder.join("server.pem")).unwrap();
    let chain = chain.collect::<Result<Vec<_>, _>>().unwrap();
    let key = PrivateKeyDer::from_pem_file(folder.join("server.key")).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    let config = Arc::new(config);
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://127.0.0.1:{}/hook", socket.local_addr().unwrap().port());
    let (heard, posts) = channel();
    thread::spawn(move || {
        for stream in socket.incoming() {
            let secured = ServerConnection::new(config.clone()).unwrap();
            let mut reader = BufReader::new(StreamOwned::new(secured, stream.unwrap()));
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).is_ok_and(|read| read > 0) {}
            if head.is_empty() {
                continue;
            }
            // Before the answer: a test that has seen the answer's effect finds the request here.
            let wanted = heard.send(head).is_ok();
            let answer = b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n";
            let _ = reader.get_mut().write_all(answer);
            if !wanted {
                return;
            }
        }
    });
    (url, posts)
}

#[test]
fn a_webhook_speaks_tls_with_those_whom_the_host_trusts_and_with_nobody_else() {
    let folder = tempfile::tempdir().unwrap();
    if !made_certificates(folder.path()) {
        return;
    }
    let (url, posts) = tls_listener(folder.path());
    let message = Message::of(Wall(1_000), "a", &ALARM.report());
    let root = CertificateDer::from_pem_file(folder.path().join("ca.pem")).unwrap();
    let hook = Webhook::plain(url).unwrap();
    send::post(&hook, &message, PATIENCE, || vec![root]).unwrap();
    let head = posts.recv_timeout(PATIENCE).unwrap();
    assert!(head.starts_with("POST /hook HTTP/1.1"), "{head}");
    // No CA that this host trusts has signed it.
    let refused = send::send(&NotifyChannel::Webhook(Box::new(hook)), &message, PATIENCE).unwrap_err();
    assert!(refused.to_lowercase().contains("certificate"), "{refused}");
    assert!(posts.try_recv().is_err(), "it was told nothing");
}
