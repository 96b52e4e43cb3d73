//! The client of the command line: which node it asks, and with which key.

use std::path::{Path, PathBuf};

use clap::Args;
use evenkeel_client::{ClientError, ClientErrorKind, ClientKey, ClientSettings, is_unencrypted};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::bounded;
use crate::exit::{CliError, ExitKind};
use crate::host;
use crate::identity::ClusterIdentity;
use crate::key::{ClusterKey, existing_own_key, read_key};
use crate::output::OutputFormat;
pub(crate) use evenkeel_client::{
    ApiClient, CHALLENGE, CLIENT, LEADER, OUTCOME_UNKNOWN, PROOF, escape, is_here,
};

/// The size limit of a file of certificates, far above any real one.
const CA_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// The advice if no node answers.
const START: &str = "start one with `evenkeel dev`, or say where it is with --server URL or EVENKEEL_SERVER";
/// The advice if a server is not trusted.
const TRUST: &str = "nothing was sent to it; name its certificate, or the one of its authority, with --ca-file or EVENKEEL_CA_FILE: \
                     `evenkeel cluster ca` on a host of the cluster prints the cluster's";

/// Where the node is, how to be let in, and how to print: every client verb takes these.
#[derive(Clone, Debug, Args)]
pub(crate) struct ConnectArgs {
    /// The address of any node, or unix:PATH for the socket of one on this host. Give several with commas or by repeating the flag; the first that answers gets the request
    #[arg(
        long,
        value_name = "URL",
        env = "EVENKEEL_SERVER",
        default_value = "http://127.0.0.1:7700",
        value_delimiter = ','
    )]
    pub(crate) server: Vec<String>,
    /// The file with the cluster's key; without it, a node of this user on this host is asked with the user's own key
    #[arg(long, value_name = "FILE", env = "EVENKEEL_CLUSTER_KEY_FILE")]
    pub(crate) cluster_key_file: Option<PathBuf>,
    /// A PEM file of trusted certificates: of authorities, or of a server that signed its own; by default those of the cluster's identity, if this host has it. What this host trusts is trusted too
    #[arg(long, value_name = "FILE", env = "EVENKEEL_CA_FILE")]
    pub(crate) ca_file: Option<PathBuf>,
    /// Send the key over http to other hosts too, where others can read it
    #[arg(long, env = "EVENKEEL_ALLOW_PLAIN_HTTP")]
    pub(crate) allow_plain_http: bool,
    /// The format of the answer
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    pub(crate) output: OutputFormat,
}

impl ConnectArgs {
    /// A client of the node at `--server`.
    ///
    /// # Errors
    /// The address is invalid, or the key cannot be read.
    pub(crate) fn client(&self) -> Result<ApiClient, CliError> {
        let bases = self.server.iter().map(|base| base.trim().trim_end_matches('/'));
        let servers: Vec<String> = bases.filter(|base| !base.is_empty()).map(ToOwned::to_owned).collect();
        let key = match (&self.cluster_key_file, existing_own_key()) {
            (Some(file), _) => ClientKey::Given(read_key(file)?),
            (None, Some(own)) => ClientKey::Own(ClusterKey::new(read_key(&own)?)),
            (None, None) => ClientKey::None,
        };
        if let ClientKey::Given(_) = key {
            servers.iter().try_for_each(|base| check_encrypted(base, self.allow_plain_http))?;
        }
        let authorities = match &self.ca_file {
            Some(path) => read_certificates("--ca-file", path)?,
            // A user who has no identity, or cannot read it, trusts what this host trusts.
            None => own_authorities().unwrap_or_default(),
        };
        let (allow_plain_http, caller) = (self.allow_plain_http, host::whoami());
        Ok(ApiClient::new(ClientSettings { servers, key, authorities, allow_plain_http, caller })?)
    }
}

impl From<ClientError> for CliError {
    fn from(error: ClientError) -> Self {
        let ClientError { kind, message } = error;
        match kind {
            ClientErrorKind::Settings => Self::usage(format!("--server: {message}")),
            ClientErrorKind::Unreachable => Self::new(ExitKind::Unreachable, format!("{message}\n{START}")),
            ClientErrorKind::Untrusted => Self::new(ExitKind::Denied, format!("{message}\n{TRUST}")),
            ClientErrorKind::Failed => Self::new(ExitKind::Failed, message),
            ClientErrorKind::NotFound => Self::new(ExitKind::NotFound, message),
            ClientErrorKind::Invalid => Self::invalid(message),
            ClientErrorKind::Conflict => Self::new(ExitKind::Conflict, message),
            ClientErrorKind::Unavailable => Self::new(ExitKind::Unavailable, message),
            ClientErrorKind::Denied => Self::new(ExitKind::Denied, message),
            ClientErrorKind::Unknown => Self::new(ExitKind::Unknown, message),
        }
    }
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
fn check_encrypted(base: &str, allow_plain_http: bool) -> Result<(), CliError> {
    match is_unencrypted(base) && !allow_plain_http {
        false => Ok(()),
        true => Err(CliError::usage(format!(
            "--server is {base:?}: the key would cross the network unencrypted: write https://, or allow it with \
             --allow-plain-http"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_crosses_no_network_unencrypted() {
        let refused = check_encrypted("http://10.0.0.7:7700", false).expect_err("it is unencrypted").message;
        assert!(refused.contains("https://") && refused.contains("--allow-plain-http"), "{refused}");
        assert!(check_encrypted("http://10.0.0.7:7700", true).is_ok());
        assert!(check_encrypted("https://10.0.0.7:7700", false).is_ok());
    }

    #[test]
    fn a_file_without_certificates_is_refused() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), "no certificate\n").expect("written");
        let refused = read_certificates("--ca-file", file.path()).expect_err("it has none").message;
        assert!(refused.contains("cluster ca"), "{refused}");
    }
}
