//! Decides which servers a request trusts.

use std::sync::{Arc, OnceLock};

use evenkeel_core::job::Http;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

/// The largest file of certificates that is read.
const FILE_MAX: u64 = 4 << 20;

/// The TLS configurations, read when the first request needs them.
#[derive(Default)]
pub(super) struct TlsConfigs {
    host: OnceLock<Result<Arc<ClientConfig>, String>>,
}

impl TlsConfigs {
    /// The TLS configuration of this request.
    pub(super) async fn of(&self, http: &Http) -> Result<Arc<ClientConfig>, String> {
        if !http.verify {
            return config(Arc::new(InsecureCertVerifier(Arc::new(aws_lc_rs::default_provider()))));
        }
        if http.ca.is_empty() {
            return self.host.get_or_init(of_host).clone();
        }
        let path = &http.ca;
        let fail = |why: &dyn std::fmt::Display| format!("http.ca {path}: {why}");
        let about = tokio::fs::metadata(path).await.map_err(|e| fail(&e))?;
        if !about.is_file() || about.len() > FILE_MAX {
            return Err(fail(&"it is no file of certificates"));
        }
        let text = tokio::fs::read(path).await.map_err(|e| fail(&e))?;
        let (mut roots, mut listed) = (RootCertStore::empty(), Vec::new());
        for certificate in CertificateDer::pem_slice_iter(&text) {
            let certificate = certificate.map_err(|e| fail(&e))?;
            roots.add(certificate.clone()).map_err(|e| fail(&e))?;
            listed.push(certificate);
        }
        if roots.is_empty() {
            return Err(fail(&"it holds no certificate: it must be PEM"));
        }
        trusting(roots, listed)
    }
}

/// Trusts the certificates that the host trusts.
fn of_host() -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        return Err(
            "this host has no certificates to trust: install its ca-certificates, or say http.ca".into()
        );
    }
    trusting(roots, Vec::new())
}

/// Trusts servers whose certificate one of the roots signed, and servers that present one of the listed certificates.
fn trusting(roots: RootCertStore, listed: Vec<CertificateDer<'static>>) -> Result<Arc<ClientConfig>, String> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
    let vouched = verifier.map_err(|e| format!("TLS cannot be spoken: {e}"))?;
    config(Arc::new(ListedCertVerifier { vouched, listed }))
}

fn config(verifier: Arc<dyn ServerCertVerifier>) -> Result<Arc<ClientConfig>, String> {
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
    let builder =
        builder.with_safe_default_protocol_versions().map_err(|e| format!("TLS cannot be spoken: {e}"))?;
    let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
    let mut config = builder.with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Verifies a server by the roots, and a self-signed certificate by comparing it with the listed ones.
///
/// `openssl req -x509` makes a certificate that is also a CA, and such a certificate is refused as a server's even if
/// it is a root. Its validity times, its name and the server's possession of its key are verified all the same.
#[derive(Debug)]
struct ListedCertVerifier {
    vouched: Arc<WebPkiServerVerifier>,
    listed: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for ListedCertVerifier {
    fn verify_server_cert(
        &self,
        server: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let refused = match self.vouched.verify_server_cert(server, between, name, ocsp, now) {
            Ok(verified) => return Ok(verified),
            Err(refused) => refused,
        };
        // The check of the times comes before this one. The error has no type of its own here, only its name.
        let as_server = match &refused {
            rustls::Error::InvalidCertificate(CertificateError::Other(why)) => {
                format!("{why:?}").contains("CaUsedAsEndEntity")
            }
            _ => false,
        };
        if !as_server || !self.listed.iter().any(|listed| listed == server) {
            return Err(refused);
        }
        verify_server_name(&ParsedCertificate::try_from(server)?, name)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.vouched.verify_tls12_signature(message, cert, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.vouched.verify_tls13_signature(message, cert, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.vouched.supported_verify_schemes()
    }
}

/// Accepts any server, for jobs with `verify = false`. The exchange stays secret from passive listeners only.
#[derive(Debug)]
struct InsecureCertVerifier(Arc<CryptoProvider>);

impl ServerCertVerifier for InsecureCertVerifier {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, cert, signed, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, cert, signed, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
