//! The proxies whose word about their callers is believed, and what they may say of them.

use std::net::IpAddr;

use axum::http::HeaderName;
use evenkeel::Network;

use crate::group_roles::GroupRoles;

/// The proxies that are believed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TrustedProxies(Vec<Network>);

impl TrustedProxies {
    /// The proxies in these networks.
    pub(crate) fn new(networks: Vec<Network>) -> Self {
        Self(networks)
    }

    /// Whether a proxy at this address is believed.
    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|network| network.contains(address))
    }
}

/// How trusted proxies say for whom they vouch.
#[derive(Clone, Debug)]
pub(crate) struct ProxyLogin {
    /// The header with a person's name, and the one with its groups.
    pub(crate) user: HeaderName,
    pub(crate) groups: Option<HeaderName>,
    pub(crate) roles: GroupRoles,
}
