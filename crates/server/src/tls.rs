//! TLS on the node's port: the node's own certificates, and which certificates of other nodes it accepts.
//!
//! - [`life`]: the name of a node's life in a certificate.
//! - [`given`]: a certificate that the operator gives.
//! - [`leaves`]: chooses the certificate for a connection, and issues it anew in time.

mod given;
mod identity_file;
mod leaves;
mod life;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use evenkeel::{NodeIdentity, SealKeys, SecretOpener};
use evenkeel_core::ids::{Member, SecretName};
use evenkeel_core::record::SealedSecret;
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::CertificateDer;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{ClientConfig, RootCertStore, ServerConfig};

use crate::exit::{CliError, ExitKind};
use crate::identity::{ClusterIdentity, SecretCipher, fingerprint};
use crate::key::KeyRing;
pub(crate) use given::CertificateFiles;
use given::GivenCertificate;
use identity_file::IdentityFile;
pub(crate) use leaves::PresentNode;
use leaves::{ClientLeaf, LeafSource};
pub(crate) use life::NodeLife;

/// The host name that nodes use for each other in TLS, whatever the address: they are known by their lives.
pub(crate) const PEER_HOST: &str = "node.evenkeel.internal";

/// The TLS of one node.
pub(crate) struct NodeTls {
    leaves: Arc<LeafSource>,
    server: RwLock<Arc<ServerConfig>>,
    file: Option<IdentityFile>,
    /// The keys of seals, which the node shares.
    seals: SealKeys,
    /// The keys of sessions.
    sessions: Arc<KeyRing>,
    /// How often the identity has changed.
    changes: AtomicU64,
}

impl NodeTls {
    /// TLS with this identity, for callers that use these host names; they see the certificate in these files, if some are
    /// given.
    ///
    /// # Errors
    /// The certificates cannot be used.
    pub(crate) fn new(
        identity: Arc<ClusterIdentity>,
        hosts: Vec<String>,
        given: Option<CertificateFiles>,
    ) -> Result<Self, CliError> {
        let given = given.map(GivenCertificate::open).transpose().map_err(CliError::usage)?;
        let seals = identity.of_node().seals;
        let (first, others) = identity.session_keys();
        let sessions = Arc::new(KeyRing::new(first, others));
        let leaves = Arc::new(LeafSource::new(identity, hosts, given));
        let server = server_config_of(&leaves, &leaves.identity()).map_err(|why| unusable(&why))?;
        let (server, changes) = (RwLock::new(Arc::new(server)), AtomicU64::new(0));
        Ok(Self { leaves, server, file: None, seals, sessions, changes })
    }

    /// The same, which reads its identity again when this file changes.
    #[must_use]
    pub(crate) fn kept_in(self, file: PathBuf) -> Self {
        Self { file: Some(IdentityFile::new(file)), ..self }
    }

    /// Binds certificates to the lives of this node from now on, and sessions to its cluster: clusters of one user on one host
    /// may have the same identity.
    pub(crate) fn follow(&self, node: impl Fn() -> PresentNode + Send + Sync + 'static) {
        self.leaves.follow(node);
        let leaves = self.leaves.clone();
        self.sessions.bind(move || leaves.cluster().unwrap_or_default());
    }

    /// Waits for the node whose lives the certificates are for. A node may be a member, and call others, before the rest of
    /// its process knows it.
    pub(crate) async fn is_followed(&self) {
        self.leaves.is_followed().await;
    }

    /// Whether callers see a certificate that the operator gives.
    pub(crate) fn is_given_certificate(&self) -> bool {
        self.leaves.is_given_certificate()
    }

    /// Reads again what has changed in the files of certificates and of the identity.
    pub(crate) fn refresh(&self) {
        self.leaves.refresh_given();
        let Some(identity) = self.file.as_ref().and_then(|file| file.changed(&self.leaves.identity())) else {
            return;
        };
        let (trusted, before) = (identity.trusted().count(), self.authority());
        let server = server_config_of(&self.leaves, &identity);
        match server {
            Ok(server) => {
                let (first, others) = identity.seal_keys();
                self.seals.replace(first, others);
                let (first, others) = identity.session_keys();
                self.sessions.replace(first, others);
                self.leaves.change_identity(identity);
                *self.server.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(server);
                self.changes.fetch_add(1, Ordering::Relaxed);
                let signer = if self.authority() == before { "the same one" } else { "another one" };
                tracing::info!(
                    "the cluster's identity has changed: {trusted} trusted authorities, {signer} signs"
                );
            }
            Err(why) => tracing::error!("the cluster's identity of before stays in use: {why}"),
        }
    }

    /// How often the identity has changed: connections are made anew then.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    /// The settings for a connection of a caller.
    pub(crate) fn server(&self) -> Arc<ServerConfig> {
        self.server.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The settings for connections of this life of the node to others, and the cluster's id.
    ///
    /// # Errors
    /// The cluster is not known yet, or the identity's certificates cannot be used.
    pub(crate) fn client(&self, from: &Member) -> Result<(ClientConfig, String), String> {
        let cluster = self.leaves.cluster().ok_or("this node has not read the cluster's entry yet")?;
        let own = NodeLife { cluster: cluster.clone(), member: from.clone() };
        let verifier = WebPkiServerVerifier::builder_with_provider(self.roots()?, provider());
        let verifier = verifier.build().map_err(|e| e.to_string())?;
        let builder = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13]);
        let mut config = builder
            .map_err(|e| e.to_string())?
            .with_webpki_verifier(verifier)
            .with_client_cert_resolver(Arc::new(ClientLeaf::new(self.leaves.clone(), own)));
        // Each connection proves both sides anew.
        config.resumption = Resumption::disabled();
        Ok((config, cluster))
    }

    /// The fingerprint of the authority that signs.
    pub(crate) fn authority(&self) -> String {
        self.leaves.identity().trusted().next().map(|authority| fingerprint(authority)).unwrap_or_default()
    }

    /// The cluster's identity as text, with its secrets.
    ///
    /// # Errors
    /// It cannot be written as JSON, which cannot happen.
    pub(crate) fn identity_text(&self) -> Result<String, CliError> {
        self.leaves.identity().to_text()
    }

    /// The identity as far as the node itself needs it: it follows the changes of this one.
    pub(crate) fn node_identity(&self) -> NodeIdentity {
        NodeIdentity { name: self.leaves.identity().id().to_owned(), seals: self.seals.clone() }
    }

    /// The keys with which nodes of this cluster sign sessions. They follow the changes of the identity.
    pub(crate) fn sessions(&self) -> Arc<KeyRing> {
        self.sessions.clone()
    }

    /// The cipher of the secrets that the registry keeps.
    pub(crate) fn secret_cipher(&self) -> SecretCipher {
        self.leaves.identity().secret_cipher()
    }

    /// The same for a node, which only opens them. It follows the changes of the identity.
    pub(crate) fn secret_opener(&self) -> Arc<dyn SecretOpener> {
        Arc::new(PresentCipher(self.leaves.clone()))
    }

    /// The id of this node's cluster, as soon as it is known.
    pub(crate) fn cluster(&self) -> Option<String> {
        self.leaves.cluster()
    }

    fn roots(&self) -> Result<Arc<RootCertStore>, String> {
        roots(&self.leaves.identity())
    }
}

/// The cipher of the identity that is in use at the moment.
struct PresentCipher(Arc<LeafSource>);

impl SecretOpener for PresentCipher {
    fn open(&self, name: &SecretName, secret: &SealedSecret) -> Option<String> {
        self.0.identity().secret_cipher().open(name, secret)
    }
}

/// The one provider of cryptography in this program.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

fn roots(identity: &ClusterIdentity) -> Result<Arc<RootCertStore>, String> {
    let mut roots = RootCertStore::empty();
    for certificate in identity.trusted() {
        roots.add(certificate.clone()).map_err(|e| e.to_string())?;
    }
    Ok(Arc::new(roots))
}

/// The settings for callers, of whom those are nodes that this identity's authorities have signed.
fn server_config_of(leaves: &Arc<LeafSource>, identity: &ClusterIdentity) -> Result<ServerConfig, String> {
    // A node shows a certificate, a browser has none.
    let verifier =
        WebPkiClientVerifier::builder_with_provider(roots(identity)?, provider()).allow_unauthenticated();
    let verifier = verifier.build().map_err(|e| e.to_string())?;
    let builder = ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
    let mut config = builder
        .map_err(|e| e.to_string())?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(leaves.clone());
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // A session that goes on would not look at the certificate of a node again.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}

/// The life of the node that a verified certificate was issued to.
pub(crate) fn life_of(certificate: &CertificateDer<'_>) -> Option<NodeLife> {
    let certificate = webpki::EndEntityCert::try_from(certificate).ok()?;
    certificate.valid_uri_names().find_map(|name| name.parse().ok())
}

fn unusable(why: &str) -> CliError {
    CliError::new(ExitKind::Failed, format!("the cluster's identity cannot be used: {why}"))
}
