//! Decides which servers a request trusts.

use std::sync::{Arc, OnceLock};

use evenkeel_core::job::Http;
use evenkeel_tls::{ServerTrust, client_config, provider};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};

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
            return client_config(Arc::new(InsecureCertVerifier(provider()))).map_err(unusable);
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
        let mut trust = ServerTrust::default();
        for certificate in CertificateDer::pem_slice_iter(&text) {
            let certificate = certificate.map_err(|e| fail(&e))?;
            trust.list(certificate).map_err(|e| fail(&e))?;
        }
        if trust.is_empty() {
            return Err(fail(&"it holds no certificate: it must be PEM"));
        }
        trust.client_config().map_err(unusable)
    }
}

/// Trusts the certificates that the host trusts.
fn of_host() -> Result<Arc<ClientConfig>, String> {
    let mut trust = ServerTrust::default();
    trust.add_authorities(rustls_native_certs::load_native_certs().certs);
    if trust.is_empty() {
        return Err(
            "this host has no certificates to trust: install its ca-certificates, or say http.ca".into()
        );
    }
    trust.client_config().map_err(unusable)
}

fn unusable(why: rustls::Error) -> String {
    format!("TLS cannot be spoken: {why}")
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
