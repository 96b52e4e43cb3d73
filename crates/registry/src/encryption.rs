//! Reads the PEM files that an engine's URL names for encryption.

use std::path::Path;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use crate::{EngineUrl, RegistryError};

/// Certificates and a key, as PEM.
pub(crate) struct PemBundle {
    /// The trusted certificates; `None` for those that this host trusts.
    pub(crate) ca: Option<Vec<u8>>,
    /// The client certificate and its key, if the server requires one.
    pub(crate) identity: Option<(Vec<u8>, Vec<u8>)>,
}

/// Reads the files for encryption; `None` without encryption.
///
/// # Errors
/// [`RegistryError::Refused`] for options that exclude each other and for a file that cannot be read.
pub(crate) fn read_pems(url: &EngineUrl) -> Result<Option<PemBundle>, RegistryError> {
    let Some(tls) = url.tls()? else { return Ok(None) };
    let read = |path: &Path| {
        std::fs::read(path).map_err(|error| {
            url.refusal(&format!("names the file {}, which cannot be read: {error}", path.display()))
        })
    };
    let ca = tls.ca.as_deref().map(read).transpose()?;
    // Clients use the process's provider. If the program has installed one already, that one stays.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let identity = match &tls.identity {
        Some((cert, key)) => {
            let (cert_pem, key_pem) = (read(cert)?, read(key)?);
            check_key_pair(&cert_pem, &key_pem).map_err(|why| {
                let (cert, key) = (cert.display(), key.display());
                url.refusal(&format!("has a certificate {cert} with a key {key} that cannot be used: {why}"))
            })?;
            Some((cert_pem, key_pem))
        }
        None => None,
    };
    Ok(Some(PemBundle { ca, identity }))
}

/// Checks a certificate and its key: clients report a mismatch late, and some as if the server were out of reach.
fn check_key_pair(cert: &[u8], key: &[u8]) -> Result<(), String> {
    let certs: Vec<_> = CertificateDer::pem_slice_iter(cert)
        .collect::<Result<_, _>>()
        .map_err(|error| format!("the certificate is no PEM: {error}"))?;
    if certs.is_empty() {
        return Err("there is no certificate in its file".into());
    }
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| format!("the key is no PEM: {error}"))?;
    let config = ClientConfig::builder().with_root_certificates(RootCertStore::empty());
    config.with_client_auth_cert(certs, key).map(drop).map_err(|error| error.to_string())
}
