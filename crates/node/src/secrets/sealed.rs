//! The secrets that the registry keeps, sealed.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock, Weak};

use evenkeel_core::ids::{DEFAULT_NAMESPACE, SecretName};
use evenkeel_core::node::Node;
use evenkeel_core::record::SealedSecret;

use super::SecretText;

/// Opens the secrets that the registry keeps. The program around the node seals them and sends them as
/// [`Command::Secret`](evenkeel_core::input::Command::Secret).
pub trait SecretOpener: Send + Sync {
    /// The text of the secret in the entry of this name; `None` if no node of this cluster sealed it as it is, for this
    /// name and with this version.
    fn open(&self, name: &SecretName, secret: &SealedSecret) -> Option<String>;
}

/// The node as its driver and its handles share it.
pub(crate) type SharedNode = Arc<RwLock<Node>>;

/// The sealed secrets, as the node knows them now.
#[derive(Clone, Default)]
pub(super) struct SealedSecrets {
    node: Weak<RwLock<Node>>,
    opener: Option<Arc<dyn SecretOpener>>,
}

impl SealedSecrets {
    pub(super) fn new(opener: Option<Arc<dyn SecretOpener>>, node: &SharedNode) -> Self {
        Self { node: Arc::downgrade(node), opener }
    }

    /// Opens the secret of this name; `None` if there is none.
    ///
    /// # Errors
    /// It cannot be opened here. The text says the fix.
    pub(super) fn read(&self, namespace: &str, name: &str) -> Result<Option<SecretText>, String> {
        // The folder may have names that are none in the registry.
        let Some(name) = full_name(namespace, name) else { return Ok(None) };
        let found = self.node.upgrade().and_then(|node| {
            let node = node.read().unwrap_or_else(PoisonError::into_inner);
            node.view().secret(&name).cloned()
        });
        let Some(secret) = found else { return Ok(None) };
        let Some(opener) = &self.opener else {
            return Err(format!("the secret {name} is in the registry, and this program opens none of them"));
        };
        match opener.open(&name, &secret).and_then(SecretText::new) {
            Some(text) => Ok(Some(text)),
            None => {
                tracing::warn!(
                    "the secret {name} is not given to any run: no node of this cluster wrote its entry in the registry; set it anew"
                );
                Err(format!(
                    "the secret {name}: no node of this cluster wrote its entry in the registry, so it is not used: set it anew with \
                     `evenkeel secret set {name}`"
                ))
            }
        }
    }

    /// The other way to have a secret of this name.
    pub(super) fn hint(&self, namespace: &str, name: &str) -> String {
        let name = full_name(namespace, name).filter(|_| self.opener.is_some());
        name.map_or_else(String::new, |name| {
            format!(", or store it for all nodes with `evenkeel secret set {name}`")
        })
    }
}

fn full_name(namespace: &str, name: &str) -> Option<SecretName> {
    match namespace {
        DEFAULT_NAMESPACE => name.parse().ok(),
        _ => format!("{namespace}/{name}").parse().ok(),
    }
}

impl fmt::Debug for SealedSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SealedSecrets").finish_non_exhaustive()
    }
}

impl PartialEq for SealedSecrets {
    fn eq(&self, other: &Self) -> bool {
        self.node.ptr_eq(&other.node)
    }
}

impl Eq for SealedSecrets {}
