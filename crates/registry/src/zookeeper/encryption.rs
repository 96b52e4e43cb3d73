//! The encryption options of ZooKeeper's client.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::{CertificateDer, ServerName};
use zookeeper_client::{Error, TlsOptions};

use crate::encryption::{PemBundle, read_pems};
use crate::{EngineUrl, RegistryError};

/// The client's options of encryption; `None` without it.
pub(super) fn options(url: &EngineUrl) -> Result<Option<TlsOptions>, RegistryError> {
    let Some(PemBundle { ca, identity }) = read_pems(url)? else { return Ok(None) };
    for host in url.addresses() {
        if host.port.is_none() {
            return Err(url.refusal(&format!(
                "is to be encrypted and says no port for {}: write its secureClientPort, as in {}:2281",
                host.name, host.name
            )));
        }
        // The client would panic.
        if ServerName::try_from(host.name.as_str()).is_err() {
            return Err(url.refusal(&format!(
                "is to be encrypted, and no certificate can be for {:?}: write its name or address in full",
                host.name
            )));
        }
    }
    let ca = match ca {
        Some(ca) => text(&ca),
        None => trusted_here(url)?,
    };
    let unusable =
        |error: Error| url.refusal(&format!("has certificates or a key that cannot be used: {error}"));
    let mut options = TlsOptions::new().with_pem_ca(&ca).map_err(unusable)?;
    if let Some((cert, key)) = identity {
        options = options.with_pem_identity(&text(&cert), &text(&key)).map_err(unusable)?;
    }
    Ok(Some(options))
}

/// The text of a PEM file; around its blocks it may have any encoding.
fn text(pem: &[u8]) -> String {
    String::from_utf8_lossy(pem).into_owned()
}

/// The certificates that this host trusts.
fn trusted_here(url: &EngineUrl) -> Result<String, RegistryError> {
    let found = rustls_native_certs::load_native_certs().certs;
    if found.is_empty() {
        return Err(url.refusal(
            "is to be encrypted, and this host trusts nobody: install ca-certificates, or say ca=FILE",
        ));
    }
    Ok(found.iter().map(pem).collect())
}

fn pem(certificate: &CertificateDer<'_>) -> String {
    format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", STANDARD.encode(certificate))
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::pem::PemObject as _;

    use super::*;

    /// A self-signed certificate whose key was thrown away.
    const SOMEBODY: &str = "\
-----BEGIN CERTIFICATE-----
MIIBcjCCARegAwIBAgIUUoKMR0OGJxADaF/uJbwUtbaC6PwwCgYIKoZIzj0EAwIw
DTELMAkGA1UEAwwCY2EwIBcNMjYxMTI0MDIyNTE1WhgPMjEyNjEwMzEwMjI1MTVa
MA0xCzAJBgNVBAMMAmNhMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEIcqXuToR
IFW6gg1a0hdNHu6apGiFeqCb2NfKGedmdEBXzfFlSaM38dLi4cVBqq+nuflFoNX0
U8tv//70lvNkYaNTMFEwHQYDVR0OBBYEFHekIr6rWiAwIRIaupnrBXcpew/0MB8G
A1UdIwQYMBaAFHekIr6rWiAwIRIaupnrBXcpew/0MA8GA1UdEwEB/wQFMAMBAf8w
CgYIKoZIzj0EAwIDSQAwRgIhAK9dvZ5LhZwh+X1xQpKQngpTy13J0xnuF3lZvdrB
zeoUAiEA0navv84KO+xXxLIPM0XCw87IAzr9WVT6h5G9d0B2QUc=
-----END CERTIFICATE-----
";

    #[test]
    fn whom_the_host_trusts_the_client_is_told_as_it_reads_it() {
        let somebody = CertificateDer::from_pem_slice(SOMEBODY.as_bytes()).unwrap();
        let told = pem(&somebody);
        assert_eq!(CertificateDer::from_pem_slice(told.as_bytes()).unwrap(), somebody);
        assert!(TlsOptions::new().with_pem_ca(&told).is_ok());
    }
}
