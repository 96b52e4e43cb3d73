//! Certificates as nodes have them, or as others would make them, and requests over TLS with them.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, SanType,
};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::Value;

use crate::process::{PATIENCE, STATE_HOME, text};

/// The authority of a cluster, as its identity has it.
pub(crate) struct ForgedAuthority {
    issuer: Issuer<'static, KeyPair>,
    /// In PEM.
    pub(crate) certificate: String,
}

/// A certificate with its key.
pub(crate) struct ForgedLeaf {
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
}

/// The identity that all nodes of the tests share.
pub(crate) fn shared_identity() -> PathBuf {
    Path::new(STATE_HOME).join("evenkeel/identity.json")
}

/// The id of the cluster whose registry is in this folder.
pub(crate) fn cluster_id(folder: &Path) -> String {
    let value: Vec<u8> = entry(folder, "SELECT value FROM entry WHERE key = 'cluster'");
    let record: Value = serde_json::from_slice(&value).expect("it is JSON");
    record["id"].as_str().expect("an id").to_owned()
}

/// What the registry in this folder says.
pub(crate) fn entry<T: rusqlite::types::FromSql>(folder: &Path, query: &str) -> T {
    let books = rusqlite::Connection::open(folder.join("registry.db")).expect("the registry");
    books.query_row(query, [], |row| row.get(0)).expect("an entry")
}

impl ForgedAuthority {
    /// The one in this file.
    pub(crate) fn of(identity: &Path) -> Self {
        let identity = fs::read_to_string(identity).expect("an identity");
        let identity: Value = serde_json::from_str(&identity).expect("it is JSON");
        let part = |name: &str| identity["authorities"][0][name].as_str().expect("a text").to_owned();
        let key = KeyPair::from_pem(&part("key")).expect("a key");
        Self { issuer: Issuer::new(authority(&part("name")), key), certificate: part("certificate") }
    }

    /// One that another person made, under the same name.
    pub(crate) fn stranger(identity: &Path) -> Self {
        let identity: Value =
            serde_json::from_str(&fs::read_to_string(identity).expect("an identity")).expect("it is JSON");
        let params = authority(identity["authorities"][0]["name"].as_str().expect("a name"));
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate").pem();
        Self { issuer: Issuer::new(params, key), certificate }
    }

    /// A certificate for this life of a node: `evenkeel://CLUSTER/node/NAME/INCARNATION`, from so many days ago until so
    /// many later.
    pub(crate) fn leaf(&self, life: &str, (from, until): (i64, i64)) -> ForgedLeaf {
        let day = |days: i64| {
            let now = evenkeel::clock::now().wall.0 / 1_000;
            time::OffsetDateTime::from_unix_timestamp(now + days * 24 * 3_600).expect("a date")
        };
        let mut params = CertificateParams::default();
        params.subject_alt_names = vec![SanType::URI(life.try_into().expect("a URI"))];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        (params.not_before, params.not_after) = (day(from), day(until));
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        let key = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
        ForgedLeaf { certificate: certificate.der().clone(), key }
    }
}

fn authority(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params
}

/// One request over TLS to a node under this host name, whose certificate must be of this authority; the status and the
/// rest, or why there is no answer.
pub(crate) fn ask(
    (address, host): (SocketAddr, &str),
    authority: &str,
    leaf: Option<&ForgedLeaf>,
    (head, body): (&str, &[u8]),
) -> Result<(u16, String), String> {
    let mut roots = RootCertStore::empty();
    let authority = CertificateDer::from_pem_slice(authority.as_bytes()).expect("a certificate");
    roots.add(authority).expect("an authority");
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
    let builder =
        builder.with_safe_default_protocol_versions().expect("versions").with_root_certificates(roots);
    let config = match leaf {
        Some(leaf) => builder.with_client_auth_cert(vec![leaf.certificate.clone()], leaf.key.clone_key()),
        None => Ok(builder.with_no_client_auth()),
    };
    let name = ServerName::try_from(host.to_owned()).expect("a host name");
    let tls = ClientConnection::new(Arc::new(config.expect("a certificate")), name).expect("settings");
    let stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream.set_write_timeout(Some(Duration::from_secs(60))).expect("a timeout");
    let mut stream = StreamOwned::new(tls, stream);
    let head = head.trim().lines().map(str::trim).collect::<Vec<_>>().join("\r\n");
    let head = format!("{head}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    stream.write_all(head.as_bytes()).map_err(|e| e.to_string())?;
    // A refusal may come, and the connection end, before the body is read.
    let _ = stream.write_all(body).and_then(|()| stream.flush());
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Err(e) if answer.is_empty() => return Err(e.to_string()),
        _ => {}
    }
    let answer = text(&answer);
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or("no answer")?;
    Ok((status, answer))
}
