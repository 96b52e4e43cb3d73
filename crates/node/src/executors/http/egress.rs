//! The egress policy of requests: only public addresses, unless the node's operator allows more.
//!
//! Otherwise anybody who may declare a job could read what this host and its neighbours show only to each other: an
//! interface without a password, or the credentials that a cloud gives to its machines.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// A network, as `10.0.0.0/8`, `fd00::/8`, or one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Network(IpNet);

impl Network {
    const fn v4(a: u8, b: u8, c: u8, d: u8, bits: u8) -> Self {
        Self(IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), bits)))
    }

    const fn v6(start: [u16; 4], bits: u8) -> Self {
        let [a, b, c, d] = start;
        Self(IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0), bits)))
    }

    const fn one_v6(address: Ipv6Addr) -> Self {
        Self(IpNet::V6(Ipv6Net::new_assert(address, 128)))
    }

    /// Whether the network contains the address.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.contains(&address)
    }

    /// Whether the network is one address.
    fn is_one(&self) -> bool {
        self.0.prefix_len() == self.0.max_prefix_len()
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("{text:?} is no network: write one as 10.0.0.0/8 or fd00::/8, or one address");
        let (address, bits) = text.split_once('/').map_or((text, None), |(at, bits)| (at, Some(bits)));
        // Not by the parser of `ipnet`, which takes 010.0.0.0 for 10.0.0.0, where others see an octal number.
        let address: IpAddr = address.parse().map_err(|_| bad())?;
        let network = match bits {
            Some(bits) => IpNet::new(address, bits.parse().map_err(|_| bad())?).map_err(|_| bad())?,
            None => IpNet::from(address),
        };
        match network.trunc() == network {
            true => Ok(Self(network)),
            false => Err(format!(
                "{text:?} is an address within a network: write {} for the network",
                network.trunc()
            )),
        }
    }
}

/// The metadata services of clouds, which give out secrets. No network allows these, only the exact address.
const METADATA: [IpAddr; 7] = [
    IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254)),
    IpAddr::V4(Ipv4Addr::new(169, 254, 170, 2)),
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
    IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V6(Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)),
];

/// The networks that are not public, by the registries of special addresses (RFC 6890 and its successors).
const SPECIAL: [(Network, &str); 27] = [
    (Network::v4(0, 0, 0, 0, 8), "this host"),
    (Network::v4(10, 0, 0, 0, 8), "private"),
    (Network::v4(100, 64, 0, 0, 10), "private"),
    (Network::v4(127, 0, 0, 0, 8), "loopback"),
    (Network::v4(169, 254, 0, 0, 16), "link-local"),
    (Network::v4(172, 16, 0, 0, 12), "private"),
    (Network::v4(192, 0, 0, 0, 24), "reserved"),
    (Network::v4(192, 0, 2, 0, 24), "reserved"),
    (Network::v4(192, 88, 99, 0, 24), "reserved"),
    (Network::v4(192, 168, 0, 0, 16), "private"),
    (Network::v4(198, 18, 0, 0, 15), "reserved"),
    (Network::v4(198, 51, 100, 0, 24), "reserved"),
    (Network::v4(203, 0, 113, 0, 24), "reserved"),
    (Network::v4(224, 0, 0, 0, 4), "multicast"),
    (Network::v4(240, 0, 0, 0, 4), "reserved"),
    (Network::one_v6(Ipv6Addr::UNSPECIFIED), "this host"),
    (Network::one_v6(Ipv6Addr::LOCALHOST), "loopback"),
    (Network::v6([0xfc00, 0, 0, 0], 7), "private"),
    (Network::v6([0xfe80, 0, 0, 0], 10), "link-local"),
    (Network::v6([0xff00, 0, 0, 0], 8), "multicast"),
    // Inside the public range: addresses that embed others, or that documentation uses.
    (Network::v6([0x2001, 0, 0, 0], 23), "reserved"),
    (Network::v6([0x2001, 0xdb8, 0, 0], 32), "reserved"),
    (Network::v6([0x2002, 0, 0, 0], 16), "reserved"),
    (Network::v6([0x3fff, 0, 0, 0], 20), "reserved"),
    // Everything that is not public unicast.
    (Network::v6([0, 0, 0, 0], 3), "reserved"),
    (Network::v6([0x4000, 0, 0, 0], 2), "reserved"),
    (Network::v6([0x8000, 0, 0, 0], 1), "reserved"),
];
/// The prefix of IPv4 addresses for an IPv6-to-IPv4 gateway: the embedded address is checked (RFC 6052).
const NAT64: Network = Network::v6([0x64, 0xff9b, 0, 0], 96);

/// The networks that requests of one node may reach.
#[derive(Clone, Debug, Default)]
pub(super) struct EgressPolicy(Vec<Network>);

impl EgressPolicy {
    /// Allows public addresses and these.
    pub(super) fn new(allowed: Vec<Network>) -> Self {
        Self(allowed)
    }

    /// Checks whether an address may be connected to; if not, says what it is.
    pub(super) fn check(&self, address: IpAddr) -> Result<(), &'static str> {
        // ::ffff:127.0.0.1 is 127.0.0.1.
        let address = address.to_canonical();
        if let IpAddr::V6(carrier) = address
            && NAT64.contains(address)
        {
            let [.., a, b, c, d] = carrier.octets();
            return self.check(Ipv4Addr::new(a, b, c, d).into());
        }
        if METADATA.contains(&address) {
            let named = self.0.iter().any(|network| network.is_one() && network.contains(address));
            return if named { Ok(()) } else { Err("cloud metadata") };
        }
        if self.0.iter().any(|network| network.contains(address)) {
            return Ok(());
        }
        let special = SPECIAL.iter().find(|(network, _)| network.contains(address));
        special.map_or(Ok(()), |(_, kind)| Err(kind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn egress(allowed: &[&str]) -> EgressPolicy {
        EgressPolicy::new(allowed.iter().map(|text| text.parse().unwrap()).collect())
    }

    fn check(egress: &EgressPolicy, address: &str) -> Result<(), &'static str> {
        egress.check(address.parse().unwrap())
    }

    #[test]
    fn only_public_addresses_are_open() {
        let egress = egress(&[]);
        for public in
            ["1.1.1.1", "8.8.8.8", "172.15.0.1", "172.32.0.1", "2606:4700::1111", "64:ff9b::808:808"]
        {
            assert_eq!(check(&egress, public), Ok(()), "{public}");
        }
        for (closed, kind) in [
            ("127.0.0.1", "loopback"),
            ("127.8.9.1", "loopback"),
            ("::1", "loopback"),
            ("::ffff:127.0.0.1", "loopback"),
            ("64:ff9b::7f00:1", "loopback"),
            ("0.0.0.0", "this host"),
            ("::", "this host"),
            ("10.1.2.3", "private"),
            ("172.16.0.1", "private"),
            ("172.31.255.255", "private"),
            ("192.168.1.1", "private"),
            ("100.64.0.1", "private"),
            ("fd12::1", "private"),
            ("169.254.0.1", "link-local"),
            ("fe80::1", "link-local"),
            ("169.254.169.254", "cloud metadata"),
            ("::ffff:169.254.169.254", "cloud metadata"),
            ("168.63.129.16", "cloud metadata"),
            ("fd00:ec2::254", "cloud metadata"),
            ("224.0.0.1", "multicast"),
            ("ff02::1", "multicast"),
            ("255.255.255.255", "reserved"),
            ("::127.0.0.1", "reserved"),
            ("2002:7f00:1::", "reserved"),
            ("2001::1", "reserved"),
            ("4000::1", "reserved"),
            ("8000::1", "reserved"),
            ("fec0::1", "reserved"),
        ] {
            assert_eq!(check(&egress, closed), Err(kind), "{closed}");
        }
    }

    #[test]
    fn what_is_allowed_is_open_and_no_more_of_it() {
        let egress = egress(&["10.0.0.0/8", "127.0.0.1", "fd00::/8", "169.254.0.0/16"]);
        for open in
            ["10.255.0.1", "127.0.0.1", "::ffff:127.0.0.1", "fd12::1", "169.254.1.1", "64:ff9b::a00:1"]
        {
            assert_eq!(check(&egress, open), Ok(()), "{open}");
        }
        for closed in ["127.0.0.2", "::1", "192.168.1.1", "fc00::1", "169.254.169.254", "fd00:ec2::254"] {
            assert!(check(&egress, closed).is_err(), "{closed}");
        }
        let all = self::egress(&["0.0.0.0/0", "::/0"]);
        assert_eq!((check(&all, "127.0.0.1"), check(&all, "::1")), (Ok(()), Ok(())));
        assert_eq!(check(&all, "169.254.169.254"), Err("cloud metadata"));
        assert_eq!(check(&self::egress(&["169.254.169.254"]), "169.254.169.254"), Ok(()));
    }

    #[test]
    fn networks_are_read_or_refused_with_the_fix() {
        for text in ["10.0.0.0/8", "0.0.0.0/0", "127.0.0.1/32", "fd00::/8", "::1/128", "::/0"] {
            assert_eq!(text.parse::<Network>().unwrap().to_string(), text);
        }
        assert_eq!("10.0.0.7".parse::<Network>().unwrap().to_string(), "10.0.0.7/32");
        for (text, says) in [
            ("", "is no network"),
            ("localhost", "is no network"),
            ("10.0.0.0/33", "is no network"),
            ("10.0.0.0/-1", "is no network"),
            ("10.0.0.0/", "is no network"),
            ("010.0.0.0/8", "is no network"),
            ("10.0.0.0/8/8", "is no network"),
            ("::/129", "is no network"),
            ("10.0.0.7/8", "write 10.0.0.0/8 for the network"),
            ("fd00::1/8", "write fd00::/8 for the network"),
        ] {
            let said = text.parse::<Network>().unwrap_err();
            assert!(said.contains(says), "{text}: {said}");
        }
    }
}
