//! How a node of a new host gets the cluster's identity: it shows a join token to a node that made it.

mod token;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode, header};
use evenkeel_core::ids::NodeName;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use serde::{Deserialize, Serialize};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::api::message_of;
use crate::exit::{CliError, ExitKind};
use crate::identity::{ClusterIdentity, fingerprint};
use crate::tls::{self, PEER_HOST};
pub(crate) use token::{JoinToken, new_secret};

/// The path at which a node gives the identity.
pub(crate) const PATH: &str = "/api/v1/cluster/join";
/// The time limit of all of it.
const PATIENCE: Duration = Duration::from_secs(30);
/// The size limit of an identity.
const BYTES_MAX: usize = 256 * 1024;

/// What a node shows that wants the identity.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct JoinRequest {
    /// The token's secret.
    pub(crate) secret: String,
    /// The node that joins.
    pub(crate) node: NodeName,
}

/// Gets the cluster's identity by a token and stores it, unless this host has one.
///
/// # Errors
/// The node that made the token is not reached or refuses it, or the file cannot be made.
pub(crate) async fn join(
    token: &JoinToken,
    node: &NodeName,
    identity: Option<&Path>,
) -> Result<(), CliError> {
    let path = ClusterIdentity::path(identity)?;
    if path.exists() {
        tracing::info!("this host has a cluster's identity ({}): the join token is not used", path.display());
        return Ok(());
    }
    let asked = tokio::time::timeout(PATIENCE, redeem(token, node)).await;
    let text = asked.unwrap_or_else(|_| Err(failed(token, &format!("no answer within {PATIENCE:?}"))))?;
    let identity = ClusterIdentity::from_text(&text).map_err(|why| failed(token, &why))?;
    if !identity.trusted().any(|authority| fingerprint(authority) == token.authority) {
        return Err(failed(token, "its identity is not the one of the token"));
    }
    identity.store(&path)?;
    tracing::info!(
        "joined the cluster of the node at {}: its identity is in {}",
        token.address,
        path.display()
    );
    Ok(())
}

/// Shows the token to the node that made it; the identity as text.
async fn redeem(token: &JoinToken, node: &NodeName) -> Result<String, CliError> {
    let unreached = |e: &dyn std::fmt::Display| failed(token, &e.to_string());
    let tcp = TcpStream::connect(&token.address).await.map_err(|e| unreached(&e))?;
    let name = ServerName::try_from(PEER_HOST).map_err(|e| unreached(&e))?;
    let tls = TlsConnector::from(Arc::new(pinned(token).map_err(|e| unreached(&e))?));
    let stream = tls.connect(name, tcp).await.map_err(|e| unreached(&e))?;
    let (mut send, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|e| unreached(&e))?;
    let body = JoinRequest { secret: token.secret.clone(), node: node.clone() };
    let body = serde_json::to_vec(&body).map_err(|e| unreached(&e))?;
    let request = Request::post(PATH)
        .header(header::HOST, &token.address)
        .header(header::CONTENT_TYPE, "application/json")
        .body(Body::from(body))
        .map_err(|e| unreached(&e))?;
    let answered = async {
        let answer = send.send_request(request).await?;
        let (parts, body) = answer.into_parts();
        Ok::<_, hyper::Error>((parts.status, to_bytes(Body::new(body), BYTES_MAX).await))
    };
    let (status, body) = tokio::select! {
        answered = answered => answered.map_err(|e| unreached(&e))?,
        ended = connection => return Err(failed(token, &format!("the connection ended: {ended:?}"))),
    };
    let body = body.map_err(|e| unreached(&e))?;
    match status {
        StatusCode::OK => String::from_utf8(body.to_vec()).map_err(|e| unreached(&e)),
        status => Err(failed(token, &message_of(&body).unwrap_or_else(|| status.to_string()))),
    }
}

fn failed(token: &JoinToken, why: &str) -> CliError {
    CliError::new(
        ExitKind::Failed,
        format!("the node at {} did not give its cluster's identity: {why}", token.address),
    )
}

/// Settings that accept the authority with the token's fingerprint, and nothing else.
fn pinned(token: &JoinToken) -> Result<ClientConfig, rustls::Error> {
    let provider = tls::provider();
    let verifier = PinnedAuthority { authority: token.authority.clone(), provider: provider.clone() };
    let builder =
        ClientConfig::builder_with_provider(provider).with_protocol_versions(&[&rustls::version::TLS13])?;
    // It is safe as long as `PinnedAuthority` is: there is no authority yet that the default could trust.
    Ok(builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth())
}

/// Trusts the authority with this fingerprint, which the other side shows with its certificate.
#[derive(Debug)]
struct PinnedAuthority {
    authority: String,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for PinnedAuthority {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let pinned = others.iter().find(|other| fingerprint(other) == self.authority);
        let pinned = pinned.ok_or(rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer))?;
        let mut roots = RootCertStore::empty();
        roots.add(pinned.clone().into_owned())?;
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), self.provider.clone());
        let verifier = verifier.build().map_err(|e| rustls::Error::General(e.to_string()))?;
        verifier.verify_server_cert(leaf, others, name, ocsp, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
