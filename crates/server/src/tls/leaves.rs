//! The certificates of this node: each life has its own, issued in memory and renewed without restart.

use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use evenkeel_core::ids::Member;
use evenkeel_core::time::{Millis, Wall};
use rustls::SignatureScheme;
use rustls::client::ResolvesClientCert;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::sync::SetOnce;

use super::given::{self, GivenCertificate};
use super::{NodeLife, PEER_HOST};
use crate::identity::{ClusterIdentity, LeafCertificate, LeafNames};

/// A certificate is issued anew after this time, long before it ends.
const RENEW: Millis = Millis::secs(24 * 3_600);

/// Issues the certificates of this node.
pub(super) struct LeafSource {
    identity: RwLock<Arc<ClusterIdentity>>,
    /// The names by which callers reach this node.
    hosts: Vec<String>,
    /// What people and proxies see.
    given: Option<GivenCertificate>,
    node: SetOnce<Box<dyn Fn() -> PresentNode + Send + Sync>>,
    latest: Mutex<Option<IssuedLeaf>>,
}

/// What a node knows of itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct PresentNode {
    /// The cluster's id.
    pub(crate) cluster: Option<String>,
    /// Its present life.
    pub(crate) member: Option<Member>,
}

struct IssuedLeaf {
    life: Option<NodeLife>,
    at: Wall,
    certificate: LeafCertificate,
}

impl LeafSource {
    pub(super) fn new(
        identity: Arc<ClusterIdentity>,
        hosts: Vec<String>,
        given: Option<GivenCertificate>,
    ) -> Self {
        let hosts = hosts.into_iter().chain([PEER_HOST.to_owned()]).collect();
        let (node, latest) = (SetOnce::new(), Mutex::new(None));
        Self { identity: RwLock::new(identity), hosts, given, node, latest }
    }

    pub(super) fn is_given_certificate(&self) -> bool {
        self.given.is_some()
    }

    pub(super) fn refresh_given(&self) {
        self.given.iter().for_each(GivenCertificate::refresh);
    }

    /// Issues by this identity from now on.
    pub(super) fn change_identity(&self, identity: Arc<ClusterIdentity>) {
        *self.identity.write().unwrap_or_else(PoisonError::into_inner) = identity;
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// The given certificate, if a caller that asks for this host name is to see it. A caller that asks for an address sends
    /// no name.
    fn given_for(&self, host: Option<&str>) -> Option<LeafCertificate> {
        let given = self.given.as_ref()?.current();
        let shown = match host {
            Some(PEER_HOST) => false,
            Some(host) => given::is_for(&given, host) || !self.hosts.iter().any(|own| own == host),
            None => self.hosts.iter().any(|own| {
                let ip = own.trim_matches(['[', ']']).parse::<IpAddr>();
                ip.is_ok_and(|ip| !ip.is_loopback()) && given::is_for(&given, own)
            }),
        };
        shown.then_some(given)
    }

    pub(super) fn follow(&self, node: impl Fn() -> PresentNode + Send + Sync + 'static) {
        // It is set once, at the start.
        let _ = self.node.set(Box::new(node));
    }

    /// Waits until it is known which node this is for.
    pub(super) async fn is_followed(&self) {
        self.node.wait().await;
    }

    pub(super) fn identity(&self) -> Arc<ClusterIdentity> {
        self.identity.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn cluster(&self) -> Option<String> {
        self.node.get().and_then(|node| node().cluster)
    }

    /// The present life of this node; `None` while it has none.
    fn life(&self) -> Option<NodeLife> {
        let PresentNode { cluster, member } = self.node.get().map(|node| node())?;
        Some(NodeLife { cluster: cluster?, member: member? })
    }

    /// The certificate of this life.
    fn leaf(&self, life: Option<NodeLife>) -> Option<LeafCertificate> {
        let now = evenkeel::clock::now().wall;
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        // A clock that is set back makes a certificate anew, too.
        let fresh = |leaf: &&IssuedLeaf| leaf.life == life && leaf.at <= now && now < leaf.at + RENEW;
        if let Some(leaf) = latest.as_ref().filter(fresh) {
            return Some(leaf.certificate.clone());
        }
        let names = LeafNames { life: life.as_ref().map(ToString::to_string), hosts: self.hosts.clone() };
        let issued = self.identity().issue(&names, now);
        let certificate =
            issued.inspect_err(|why| tracing::error!("no certificate can be issued: {why}")).ok()?;
        *latest = Some(IssuedLeaf { life, at: now, certificate: certificate.clone() });
        Some(certificate)
    }
}

impl fmt::Debug for LeafSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LeafSource")
    }
}

impl ResolvesServerCert for LeafSource {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.given_for(hello.server_name()).or_else(|| self.leaf(self.life()))
    }
}

/// The certificate that a life of this node shows to others.
pub(super) struct ClientLeaf {
    source: Arc<LeafSource>,
    life: NodeLife,
}

impl ClientLeaf {
    pub(super) fn new(source: Arc<LeafSource>, life: NodeLife) -> Self {
        Self { source, life }
    }
}

impl fmt::Debug for ClientLeaf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClientLeaf({})", self.life)
    }
}

impl ResolvesClientCert for ClientLeaf {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.source.leaf(Some(self.life.clone()))
    }

    fn has_certs(&self) -> bool {
        true
    }
}
