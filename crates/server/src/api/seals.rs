//! Seals of principals: a code over a whole record, so that one that was written around Evenkeel is of no use.

use evenkeel_core::principal::{Principal, SecretDigest};

use crate::key::ClusterKey;

/// The same principal with its seal.
pub(super) fn sealed(principal: Principal, key: &ClusterKey) -> Principal {
    let seal = SecretDigest::new(key.sign(&text(&principal)));
    Principal { seal, ..principal }
}

/// Whether a node of this cluster has written the principal as it is.
pub(super) fn is_sealed(principal: &Principal, key: &ClusterKey) -> bool {
    key.signed(&text(principal), principal.seal.expose())
}

fn text(principal: &Principal) -> String {
    let bare = Principal { seal: SecretDigest::default(), ..principal.clone() };
    let fields = serde_json::to_string(&bare).expect("a principal is plain data");
    format!("evenkeel principal 1\n{fields}")
}
