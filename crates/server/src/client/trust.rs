//! Which servers the client trusts, and where it sends its key.

use std::net::IpAddr;
use std::path::Path;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use ureq::http::Uri;
use ureq::tls::{Certificate, RootCerts, TlsConfig, TlsProvider};

use crate::bounded;
use crate::exit::CliError;
use crate::identity::ClusterIdentity;
use crate::tls;

/// The size limit of a file of certificates, far above any real one.
const CA_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// The settings of TLS: an authority of this file, or else of the cluster whose identity this host has, is accepted; and
/// those that this host trusts, if the user has named such a server.
///
/// # Errors
/// The file cannot be read, or has no certificate.
pub(super) fn trusting(ca_file: Option<&Path>, bases: &[String]) -> Result<TlsConfig, CliError> {
    let mut roots = match ca_file {
        Some(path) => read_certificates("--ca-file", path)?,
        // A user who has no identity, or cannot read it, trusts what this host trusts.
        None => own_authorities().unwrap_or_default(),
    };
    // Reading them takes a while, and a leader that a node of this host names is of this host's cluster.
    if bases.iter().any(|base| base.starts_with("https://")) {
        roots.extend(rustls_native_certs::load_native_certs().certs);
    }
    let roots: Vec<_> = roots.iter().map(|der| Certificate::from_der(der).to_owned()).collect();
    Ok(TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .unversioned_rustls_crypto_provider(tls::provider())
        .root_certs(RootCerts::from(roots))
        .build())
}

/// Reads the certificates in the file of a flag.
///
/// # Errors
/// The file cannot be read, or has no certificate.
pub(crate) fn read_certificates(flag: &str, path: &Path) -> Result<Vec<CertificateDer<'static>>, CliError> {
    let shown = format!("{flag} {}", path.display());
    let text = bounded::bytes(path, CA_BYTES_MAX).map_err(|e| CliError::unreadable(&shown, e))?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        _ => Err(CliError::usage(format!(
            "{shown}: there is no certificate in it: it must be in PEM, as `evenkeel cluster ca` on a host of the cluster prints the cluster's"
        ))),
    }
}

fn own_authorities() -> Option<Vec<CertificateDer<'static>>> {
    let named = std::env::var_os("EVENKEEL_IDENTITY").filter(|path| !path.is_empty());
    let path = ClusterIdentity::path(named.as_deref().map(Path::new)).ok()?;
    Some(ClusterIdentity::read(&path).ok()?.trusted().cloned().collect())
}

/// Refuses an address to which the key would go unencrypted over a network.
///
/// # Errors
/// The key must not be sent there.
pub(super) fn check_encrypted(base: &str, allow_plain_http: bool) -> Result<(), CliError> {
    if allow_plain_http || !base.starts_with("http://") || is_here(base) {
        return Ok(());
    }
    Err(CliError::usage(format!(
        "--server is {base:?}: the key would cross the network unencrypted: write https://, or allow it with \
         --allow-plain-http"
    )))
}

/// Whether an address is on this host.
pub(crate) fn is_here(base: &str) -> bool {
    let Ok(uri) = base.parse::<Uri>() else { return false };
    let host = uri.host().unwrap_or_default();
    let ip = host.trim_matches(['[', ']']).parse::<IpAddr>();
    ip.is_ok_and(|ip| ip.to_canonical().is_loopback()) || host.eq_ignore_ascii_case("localhost")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_crosses_no_network_unencrypted() {
        for allowed in [
            "http://127.0.0.1:7700",
            "http://localhost:1",
            "http://[::1]:1",
            "http://127.9.9.9",
            "https://10.0.0.7:7700",
            "https://evil.example",
        ] {
            assert!(check_encrypted(allowed, false).is_ok(), "{allowed}");
        }
        for other in [
            "http://10.0.0.7:7700",
            "http://localhost.evil.example",
            "http://127.0.0.1@evil.example",
            "http://[2001:db8::1]:1",
            "http://",
        ] {
            let refused = check_encrypted(other, false).expect_err("it is unencrypted").message;
            assert!(refused.contains("https://") && refused.contains("--allow-plain-http"), "{refused}");
            assert!(check_encrypted(other, true).is_ok(), "{other}");
        }
    }

    #[test]
    fn a_file_without_certificates_is_refused() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), "no certificate\n").expect("written");
        let refused = trusting(Some(file.path()), &[]).expect_err("it has none").message;
        assert!(refused.contains("cluster ca"), "{refused}");
    }
}
