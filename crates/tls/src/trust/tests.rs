//! A server that shows a certificate which signed itself, and clients that list this one or another one.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread::JoinHandle;

use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::*;
use crate::{agent, explain};

/// A certificate that signed itself, as `openssl req -x509` makes them, with its key.
struct SelfSigned {
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
}

impl SelfSigned {
    /// For this name, until the end of this year.
    fn made(name: &str, last_year: i32) -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.not_after = rcgen::date_time_ymd(last_year, 12, 31);
        let certificate = params.self_signed(&key).expect("a certificate").der().clone();
        Self { certificate, key: PrivateKeyDer::try_from(key.serialize_der()).expect("a key") }
    }

    fn localhost() -> Self {
        Self::made("localhost", 4000)
    }

    /// Answers one caller over TLS; its address and its end.
    fn serve(&self) -> (String, JoinHandle<()>) {
        let builder = ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
        let builder = builder.expect("TLS").with_no_client_auth();
        let config = builder.with_single_cert(vec![self.certificate.clone()], self.key.clone_key());
        let config = Arc::new(config.expect("they fit"));
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let end = std::thread::spawn(move || {
            let (caller, _) = listener.accept().expect("a caller");
            let mut stream = StreamOwned::new(ServerConnection::new(config).expect("TLS"), caller);
            // A caller that does not trust it hangs up.
            let mut asked = [0; 4096];
            let _ = stream.read(&mut asked);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n17");
        });
        (format!("https://localhost:{port}"), end)
    }
}

/// What a client that lists these certificates gets of this server.
fn ask(server: &SelfSigned, listed: &[&SelfSigned]) -> Result<String, String> {
    let (address, end) = server.serve();
    let mut trust = ServerTrust::default();
    for known in listed {
        trust.list(known.certificate.clone()).expect("a certificate");
    }
    let config = ureq::Agent::config_builder().proxy(None).build();
    let answer = agent(config, trust.client_config().expect("TLS")).get(&address).call();
    let body = answer.and_then(|mut answer| answer.body_mut().read_to_string());
    end.join().expect("it ended");
    body.map_err(|e| match e {
        ureq::Error::Rustls(e) => explain(&e),
        e => format!("another error: {e}"),
    })
}

#[test]
fn a_listed_certificate_that_signed_itself_is_trusted() {
    let own = SelfSigned::localhost();
    assert_eq!(ask(&own, &[&own]).as_deref(), Ok("17"));
    assert_eq!(ask(&own, &[&SelfSigned::localhost(), &own]).as_deref(), Ok("17"), "among others");
}

#[test]
fn it_is_not_trusted_where_another_one_is_listed_or_none_is() {
    let own = SelfSigned::localhost();
    let itself = Err("its certificate signed itself, and is not trusted here".to_owned());
    assert_eq!(ask(&own, &[&SelfSigned::localhost()]), itself);
    assert_eq!(ask(&own, &[]), itself);
}

#[test]
fn its_name_and_its_times_are_verified_all_the_same() {
    let named = SelfSigned::made("elsewhere", 4000);
    let says = "its certificate is not for localhost, but for elsewhere";
    assert_eq!(ask(&named, &[&named]), Err(says.to_owned()));
    let old = SelfSigned::made("localhost", 2020);
    let refused = ask(&old, &[&old]).expect_err("it is old");
    assert!(refused.contains("has expired"), "{refused}");
}
