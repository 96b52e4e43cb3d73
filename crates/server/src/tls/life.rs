//! The name of one life of a node in a certificate: `evenkeel://CLUSTER/node/NAME/INCARNATION`.

use std::fmt;
use std::str::FromStr;

use evenkeel_core::ids::Member;

/// A life of a node of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeLife {
    /// The cluster's id, as the registry has it.
    pub(crate) cluster: String,
    /// The node and its incarnation.
    pub(crate) member: Member,
}

impl fmt::Display for NodeLife {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cluster, member } = self;
        write!(f, "evenkeel://{cluster}/node/{}/{}", member.node, member.incarnation)
    }
}

impl FromStr for NodeLife {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut parts = text.strip_prefix("evenkeel://").ok_or(())?.split('/');
        let (Some(cluster), Some("node"), Some(node), Some(incarnation), None) =
            (parts.next(), parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(());
        };
        let node = node.parse().map_err(|_| ())?;
        let incarnation = incarnation.parse().map_err(|_| ())?;
        Ok(Self { cluster: cluster.to_owned(), member: Member { node, incarnation } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_life_is_read_as_it_was_written_and_nothing_else_is_one() {
        let life = NodeLife { cluster: "c-1".to_owned(), member: "n-1.example@7".parse().expect("a member") };
        assert_eq!(life.to_string(), "evenkeel://c-1/node/n-1.example/7");
        assert_eq!(life.to_string().parse(), Ok(life));
        for other in [
            "",
            "https://c/node/a/1",
            "evenkeel://c/node/a",
            "evenkeel://c/node/a/x",
            "evenkeel://c/node/a/1/2",
            "evenkeel://c/user/a/1",
            "evenkeel://c/node//1",
        ] {
            assert_eq!(other.parse::<NodeLife>(), Err(()), "{other}");
        }
    }
}
