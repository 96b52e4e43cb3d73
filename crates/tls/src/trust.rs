//! The configuration of a client, and how it verifies a server.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

/// The one provider of cryptography.
#[must_use]
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

/// The certificates that a client trusts.
#[derive(Debug)]
pub struct ServerTrust {
    roots: RootCertStore,
    /// Certificates of servers themselves, each also a root.
    listed: Vec<CertificateDer<'static>>,
}

impl Default for ServerTrust {
    fn default() -> Self {
        Self { roots: RootCertStore::empty(), listed: Vec::new() }
    }
}

impl ServerTrust {
    /// Trusts the servers whose certificate this authority signed, and a server that shows this certificate itself.
    ///
    /// # Errors
    /// It is no valid certificate.
    pub fn list(&mut self, certificate: CertificateDer<'static>) -> Result<(), rustls::Error> {
        self.roots.add(certificate.clone())?;
        self.listed.push(certificate);
        Ok(())
    }

    /// Trusts the servers whose certificate one of these authorities signed. Certificates that cannot be read are left out:
    /// hosts have some.
    pub fn add_authorities(&mut self, certificates: impl IntoIterator<Item = CertificateDer<'static>>) {
        self.roots.add_parsable_certificates(certificates);
    }

    /// Whether it trusts no server at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.roots.is_empty()
    }

    /// The configuration of a client that trusts these servers.
    ///
    /// # Errors
    /// TLS cannot be spoken with this provider of cryptography.
    pub fn client_config(self) -> Result<Arc<ClientConfig>, rustls::Error> {
        if self.is_empty() {
            let builder =
                ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
            return Ok(with_http(builder.with_root_certificates(self.roots).with_no_client_auth()));
        }
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(self.roots), provider());
        let vouched = verifier.build().map_err(|e| rustls::Error::General(e.to_string()))?;
        client_config(Arc::new(ListedCertVerifier { vouched, listed: self.listed }))
    }
}

/// The configuration of a client that verifies servers in this way.
///
/// # Errors
/// TLS cannot be spoken with this provider of cryptography.
pub fn client_config(verifier: Arc<dyn ServerCertVerifier>) -> Result<Arc<ClientConfig>, rustls::Error> {
    let builder = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
    let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
    Ok(with_http(builder.with_no_client_auth()))
}

/// Offers HTTP/1.1, the one protocol that the clients speak.
fn with_http(mut config: ClientConfig) -> Arc<ClientConfig> {
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Arc::new(config)
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
        if !is_authority(&refused) || !self.listed.iter().any(|listed| listed == server) {
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

/// Whether a server was refused because its certificate is one of an authority. The check of the times comes before this one.
pub(crate) fn is_authority(refused: &rustls::Error) -> bool {
    match refused {
        // The error has no type of its own here, only its name.
        rustls::Error::InvalidCertificate(CertificateError::Other(why)) => {
            format!("{why:?}").contains("CaUsedAsEndEntity")
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests;
