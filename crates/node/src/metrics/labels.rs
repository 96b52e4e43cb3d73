//! The labels of the metrics. Each has few values.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use evenkeel_core::ids::DEFAULT_NAMESPACE;
use prometheus_client::encoding::EncodeLabelSet;

/// So many namespaces have a value of their own; all further ones share [`OTHERS`].
const NAMESPACES_MAX: usize = 100;
/// The label of the other namespaces. No namespace can have it as its name.
const OTHERS: &str = "_other";

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct FireLabels {
    pub(super) namespace: String,
    pub(super) outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OutcomeLabels {
    pub(super) outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct EventLabels {
    pub(super) kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct CommitLabels {
    pub(super) kind: String,
    pub(super) outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct LeaseLabels {
    pub(super) outcome: &'static str,
}

impl LeaseLabels {
    pub(super) const OUTCOMES: [&str; 4] = ["opened", "renewed", "gone", "failed"];
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct NotificationLabels {
    pub(super) outcome: &'static str,
}

impl NotificationLabels {
    pub(super) const OUTCOMES: [&str; 3] = ["sent", "failed", "dropped"];
}

/// A fact of this node that does not change while it runs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct BuildLabels {
    pub(super) version: &'static str,
    pub(super) engine: &'static str,
}

/// The namespaces that have a label of their own, so that their number is bounded.
#[derive(Debug, Default)]
pub(super) struct NamespaceLimit(Mutex<BTreeSet<String>>);

impl NamespaceLimit {
    /// The label of a namespace.
    pub(super) fn label_of(&self, namespace: &str) -> String {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if namespace == DEFAULT_NAMESPACE || known.contains(namespace) {
            return namespace.to_owned();
        }
        if known.len() >= NAMESPACES_MAX {
            return OTHERS.to_owned();
        }
        known.insert(namespace.to_owned());
        namespace.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_namespaces_with_a_label_of_their_own_is_bounded() {
        let limit = NamespaceLimit::default();
        let labels: BTreeSet<String> = (0..1_000).map(|n| limit.label_of(&format!("team-{n}"))).collect();
        assert_eq!(labels.len(), NAMESPACES_MAX + 1);
        assert_eq!(limit.label_of("team-0"), "team-0");
        assert_eq!(
            (limit.label_of("team-999"), limit.label_of(DEFAULT_NAMESPACE)),
            (OTHERS.into(), "default".into())
        );
    }
}
