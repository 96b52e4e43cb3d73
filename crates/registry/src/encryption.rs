//! What encrypting the way to an engine needs, read from the files that its URL names.

use std::path::Path;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use crate::{EngineUrl, RegistryError};

/// Certificates and a key, as PEM.
pub(crate) struct PemBundle {
    /// Who vouches for the server; `None` for those this host trusts.
    pub(crate) ca: Option<Vec<u8>>,
    /// Our certificate and its key, where the server wants to see one.
    pub(crate) identity: Option<(Vec<u8>, Vec<u8>)>,
}

/// What was said of encryption; `None` without it.
///
/// # Errors
/// [`RegistryError::Refused`] for options that do not go together and for a file that cannot be read.
pub(crate) fn read_pems(url: &EngineUrl) -> Result<Option<PemBundle>, RegistryError> {
    let Some(tls) = url.tls()? else { return Ok(None) };
    let read = |path: &Path| {
        std::fs::read(path).map_err(|error| {
            url.refusal(&format!("names the file {}, which cannot be read: {error}", path.display()))
        })
    };
    let ca = tls.ca.as_deref().map(read).transpose()?;
    // Clients use the provider of the process. A provider that the program has installed already stays.
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

/// Clients tell of these when they connect, and not all so that it can be told from a server that is out of reach.
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
