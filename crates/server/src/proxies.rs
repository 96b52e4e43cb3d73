//! The proxies whose word about their callers is believed.

use std::net::IpAddr;

use evenkeel::Network;

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
