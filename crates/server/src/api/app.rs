//! The state that every handler shares.

use std::collections::BTreeSet;
use std::sync::Arc;

use evenkeel::Handle;
use evenkeel_core::ids::NotifierName;
use tokio::sync::watch;

use super::access_policy::AccessPolicy;
use super::console_feed::ConsoleFeed;
use super::declared_texts::ValidTexts;
use super::denials::DenialLog;
use super::search::SearchLimiter;
use crate::peer::{PeerHttpClient, PeerServer};
use crate::upgrade::UpgradeHandle;

/// The state that every handler shares.
#[derive(Clone)]
pub(crate) struct App {
    pub(crate) handle: Handle,
    pub(crate) access: Arc<AccessPolicy>,
    pub(crate) live: Arc<ConsoleFeed>,
    /// Denied callers, counted so that they cannot fill the audit log.
    pub(crate) denials: Arc<DenialLog>,
    /// The client that calls other nodes.
    pub(crate) line: PeerHttpClient,
    /// The state of the server side for calls of other nodes.
    pub(crate) peer_server: Arc<PeerServer>,
    /// The declarations that need no further check.
    pub(crate) declared: Arc<ValidTexts>,
    /// The notifiers of this node that jobs may use.
    pub(crate) notifiers: Arc<BTreeSet<NotifierName>>,
    /// The limit of concurrent searches through output.
    pub(crate) searches: SearchLimiter,
    /// Takes requests to upgrade this node.
    pub(crate) upgrades: UpgradeHandle,
    /// Whether the process ends; endless responses end then too.
    pub(crate) ending: watch::Receiver<bool>,
}
