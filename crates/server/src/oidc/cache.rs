//! What the provider said last: its document and its keys, which are asked for again when they are old or a key is unknown.

use std::sync::Arc;

use evenkeel_core::time::{Millis, Mono};
use jsonwebtoken::jwk::Jwk;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::Mutex;

use super::document::ProviderDocument;
use super::transport::{OidcFault, ProviderClient};

/// How long a document and its keys are used before they are asked for again.
const FRESH: Millis = Millis::secs(3_600);
/// Unknown keys and failures make the node ask again no sooner than this.
const REST: Millis = Millis::secs(2);
/// The number of keys that are looked at.
const KEYS_MAX: usize = 64;

/// A provider's document and keys.
#[derive(Clone)]
pub(super) struct KnownProvider {
    pub(super) document: Arc<ProviderDocument>,
    pub(super) keys: Arc<Vec<Jwk>>,
    read: Mono,
}

/// What the provider said last.
#[derive(Default)]
pub(super) struct ProviderCache(Mutex<CacheState>);

#[derive(Default)]
struct CacheState {
    known: Option<KnownProvider>,
    failed: Option<(Mono, OidcFault)>,
}

/// How old an answer of the provider may be.
#[derive(Clone, Copy)]
pub(super) enum CacheUse {
    /// As old as answers usually may be.
    Usual,
    /// One read after this moment, if it is time to ask again: a key was unknown in what was read then.
    After(Mono),
}

/// The keys of a provider; those of an unknown kind are left out.
#[derive(Deserialize)]
struct KeySet {
    keys: Vec<Value>,
}

impl KnownProvider {
    /// When it was read.
    pub(super) fn read(&self) -> Mono {
        self.read
    }

    /// Whether it can be used without asking again.
    fn fits(&self, of: CacheUse, now: Mono) -> bool {
        let age = now - self.read;
        match of {
            CacheUse::Usual => age < FRESH,
            CacheUse::After(seen) => self.read > seen || age < REST,
        }
    }
}

impl ProviderCache {
    /// The provider's document and keys. Logins that come together wait for one answer.
    ///
    /// # Errors
    /// The provider does not answer, or its document makes no sense.
    pub(super) async fn get(
        &self,
        client: &Arc<ProviderClient>,
        issuer: &str,
        of: CacheUse,
    ) -> Result<KnownProvider, OidcFault> {
        let mut state = self.0.lock().await;
        let now = evenkeel::clock::now().mono;
        if let Some(known) = state.known.as_ref().filter(|known| known.fits(of, now)) {
            return Ok(known.clone());
        }
        if let Some((_, fault)) = state.failed.as_ref().filter(|(at, _)| now - *at < REST) {
            return Err(fault.clone());
        }
        match read(client, issuer).await {
            Ok(known) => {
                *state = CacheState { known: Some(known.clone()), failed: None };
                Ok(known)
            }
            Err(fault) => {
                tracing::warn!("the login provider {issuer} cannot be used: {fault}");
                state.failed = Some((evenkeel::clock::now().mono, fault.clone()));
                Err(fault)
            }
        }
    }
}

async fn read(client: &Arc<ProviderClient>, issuer: &str) -> Result<KnownProvider, OidcFault> {
    let address = ProviderDocument::address(issuer);
    let document: ProviderDocument = client.get(&address, None).await?;
    let document = document
        .checked(issuer)
        .map_err(|why| OidcFault::Unavailable(format!("the document at {address} cannot be used: {why}")))?;
    let set: KeySet = client.get(&document.jwks_uri, None).await?;
    let keys =
        set.keys.into_iter().filter_map(|key| serde_json::from_value(key).ok()).take(KEYS_MAX).collect();
    Ok(KnownProvider {
        document: Arc::new(document),
        keys: Arc::new(keys),
        read: evenkeel::clock::now().mono,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_key_makes_the_node_ask_again_but_not_all_the_time() {
        let known = |read| KnownProvider { document: Arc::default(), keys: Arc::default(), read: Mono(read) };
        assert!(known(0).fits(CacheUse::Usual, Mono(FRESH.0 - 1)));
        assert!(!known(0).fits(CacheUse::Usual, Mono(FRESH.0)));
        assert!(!known(0).fits(CacheUse::After(Mono(0)), Mono(REST.0)));
        assert!(known(0).fits(CacheUse::After(Mono(0)), Mono(REST.0 - 1)), "it was asked just now");
        assert!(known(1).fits(CacheUse::After(Mono(0)), Mono(REST.0 + 1)), "another login has asked");
    }
}
