//! Why a server is not trusted, in plain words.

use std::io;

use rustls::{AlertDescription, CertificateError, InvalidMessage};

use crate::trust::is_authority;

/// The fault that TLS found, if it is the reason of this error.
#[must_use]
pub fn tls_error(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}

/// Why the two sides do not agree on TLS, as the end of a sentence about the server.
#[must_use]
pub fn explain(error: &rustls::Error) -> String {
    use CertificateError as Cert;
    if is_authority(error) {
        return "its certificate signed itself, and is not trusted here".into();
    }
    let certificate = match error {
        rustls::Error::InvalidCertificate(certificate) => certificate,
        rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            return "it does not speak TLS: it may be an http:// address".into();
        }
        rustls::Error::AlertReceived(AlertDescription::UnrecognisedName) => {
            return "it has no certificate for that name".into();
        }
        error => return error.to_string(),
    };
    match certificate {
        Cert::UnknownIssuer | Cert::BadSignature => {
            "its certificate is signed by no authority that is trusted here".into()
        }
        Cert::Expired | Cert::ExpiredContext { .. } => {
            "its certificate has expired: renew it, or set this host's clock right".into()
        }
        Cert::NotValidYet | Cert::NotValidYetContext { .. } => {
            "its certificate is not valid yet: set this host's clock right".into()
        }
        Cert::NotValidForNameContext { expected, presented } if presented.is_empty() => {
            format!("its certificate is not for {}: it names no host", expected.to_str())
        }
        Cert::NotValidForNameContext { expected, presented } => {
            let names: Vec<_> = presented.iter().map(|name| bare(name)).collect();
            format!("its certificate is not for {}, but for {}", expected.to_str(), names.join(", "))
        }
        Cert::NotValidForName => "its certificate is for another name".into(),
        Cert::Revoked => "its certificate was revoked".into(),
        certificate => format!("its certificate is not accepted: {certificate}"),
    }
}

/// The name alone: rustls gives it with its kind, as `DnsName("localhost")`.
fn bare(name: &str) -> &str {
    let inner = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')'));
    inner.unwrap_or(name).trim_matches('"')
}
