//! The state that every handler shares.

use std::collections::BTreeSet;
use std::sync::Arc;

use evenkeel::Handle;
use evenkeel_core::ids::NotifierName;
use tokio::sync::watch;

use super::access_policy::AccessPolicy;
use super::console_feed::LiveFeeds;
use super::declared_texts::ValidTexts;
use super::denials::DenialLog;
use super::forecast::ForecastCache;
use super::http_metrics::HttpMetrics;
use super::join_tokens::JoinTokens;
use super::plan::PlanLimiter;
use super::search::SearchLimiter;
use crate::listen::TlsMode;
use crate::oidc::OidcProvider;
use crate::peer::PeerHttpClient;
use crate::tls::NodeTls;
use crate::upgrade::UpgradeHandle;

/// The state that every handler shares.
#[derive(Clone)]
pub(crate) struct App {
    pub(crate) handle: Handle,
    pub(crate) access: Arc<AccessPolicy>,
    /// The provider by which people log in, if there is one.
    pub(crate) oidc: Option<Arc<OidcProvider>>,
    /// The feeds of the console.
    pub(crate) live: Arc<LiveFeeds>,
    /// What the HTTP interface measures.
    pub(crate) http_metrics: Arc<HttpMetrics>,
    /// Denied callers, counted so that they cannot fill the audit log.
    pub(crate) denials: Arc<DenialLog>,
    /// The client that calls other nodes.
    pub(crate) line: PeerHttpClient,
    /// The certificates of this node, and which ones of others it accepts.
    pub(crate) tls: Arc<NodeTls>,
    /// Which callers may do without TLS, here and so probably at other nodes.
    pub(crate) tls_mode: TlsMode,
    /// The join tokens that this process has made.
    pub(crate) joins: Arc<JoinTokens>,
    /// The declarations that need no further check.
    pub(crate) declared: Arc<ValidTexts>,
    /// The notifiers of this node that jobs may use.
    pub(crate) notifiers: Arc<BTreeSet<NotifierName>>,
    /// The latest forecasts of fires.
    pub(crate) forecasts: Arc<ForecastCache>,
    /// The limit of concurrent plans.
    pub(crate) plans: PlanLimiter,
    /// The limit of concurrent searches through output.
    pub(crate) searches: SearchLimiter,
    /// Takes requests to upgrade this node.
    pub(crate) upgrades: UpgradeHandle,
    /// Whether the process ends; endless responses end then too.
    pub(crate) ending: watch::Receiver<bool>,
}

impl App {
    /// What the login page calls the provider, if there is one.
    pub(crate) fn provider_label(&self) -> Option<&str> {
        self.oidc.as_ref().map(|provider| provider.settings().label.as_str())
    }
}
