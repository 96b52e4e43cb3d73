//! The settings of TLS, and what they make of a node.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use evenkeel::NodeIdentity;
use evenkeel_core::ids::NodeName;

use super::values::choice;
use crate::exit::CliError;
use crate::identity::ClusterIdentity;
use crate::join::{self, JoinToken};
use crate::listen::TlsMode;
use crate::tls::{CertificateFiles, NodeTls};

/// The settings of TLS as written.
pub(super) struct WrittenTls {
    pub(super) mode: Option<String>,
    pub(super) identity: Option<PathBuf>,
    pub(super) join: Option<String>,
    pub(super) certificate: Option<PathBuf>,
    pub(super) key: Option<PathBuf>,
}

/// The settings of TLS.
#[derive(Debug)]
pub(crate) struct TlsSettings {
    /// Which callers may do without it.
    pub(crate) mode: TlsMode,
    /// The file with the cluster's identity; `None` for the one in the user's state folder.
    identity: Option<PathBuf>,
    /// For the cluster's identity, if this host does not have it yet.
    join: Option<JoinToken>,
    /// What people and proxies see instead of the node's own certificate.
    given: Option<CertificateFiles>,
}

impl WrittenTls {
    /// Resolves the settings.
    ///
    /// # Errors
    /// One of them is invalid; the text has the fix.
    pub(super) fn resolve(self) -> Result<TlsSettings, CliError> {
        let modes = [("auto", TlsMode::Auto), ("on", TlsMode::On), ("off", TlsMode::Off)];
        let given = match (self.certificate, self.key) {
            (Some(certificate), Some(key)) => Some(CertificateFiles { certificate, key }),
            (None, None) => None,
            _ => return Err(CliError::usage("--tls-cert and --tls-key belong together: give both or none")),
        };
        Ok(TlsSettings {
            mode: choice("--tls", self.mode.as_deref(), modes, TlsMode::Auto)?,
            identity: self.identity,
            join: self.join.as_deref().map(JoinToken::read).transpose()?,
            given,
        })
    }
}

impl TlsSettings {
    /// The certificates of this node, by the cluster's identity: the host's, or that of the join token, or a new one if this
    /// is the first node. Returns the identity too, as far as the node itself needs it.
    ///
    /// # Errors
    /// The identity can be neither read nor made, or the node that made the token does not give it.
    pub(crate) async fn open(
        &self,
        node: &NodeName,
        address: SocketAddr,
        names: &[String],
    ) -> Result<(Arc<NodeTls>, NodeIdentity), CliError> {
        if self.mode == TlsMode::Off && !address.ip().is_loopback() {
            tracing::warn!(
                "--tls off: what callers beyond this host send and read, their keys too, is not encrypted"
            );
        }
        if let Some(token) = &self.join {
            join::join(token, node, self.identity.as_deref()).await?;
        }
        let (identity, path) = ClusterIdentity::open(self.identity.as_deref(), evenkeel::clock::now().wall)?;
        tracing::debug!("the cluster's identity is {} in {}", identity.id(), path.display());
        let here = ["localhost", "127.0.0.1", "[::1]"].map(ToOwned::to_owned);
        let mut hosts: Vec<String> = here.into_iter().chain(names.iter().cloned()).collect();
        hosts.sort_unstable();
        hosts.dedup();
        let tls = NodeTls::new(Arc::new(identity), hosts, self.given.clone())?;
        let own = tls.node_identity();
        Ok((Arc::new(tls.kept_in(path)), own))
    }
}
