//! Several keys at a time, so that one can replace another without a moment in which neither is valid.

use std::fmt;
use std::sync::{OnceLock, PoisonError, RwLock};

use super::ClusterKey;

/// What signatures are bound to.
type Context = Box<dyn Fn() -> String + Send + Sync>;

/// Keys of which the first one signs, while all are valid.
pub(crate) struct KeyRing {
    keys: RwLock<Vec<ClusterKey>>,
    /// Signatures of another context are not valid.
    context: OnceLock<Context>,
}

impl fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyRing")
    }
}

impl KeyRing {
    /// A ring of these keys.
    pub(crate) fn new(first: ClusterKey, others: impl IntoIterator<Item = ClusterKey>) -> Self {
        Self { keys: RwLock::new([first].into_iter().chain(others).collect()), context: OnceLock::new() }
    }

    /// Replaces the keys.
    pub(crate) fn replace(&self, first: ClusterKey, others: impl IntoIterator<Item = ClusterKey>) {
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) =
            [first].into_iter().chain(others).collect();
    }

    /// Binds signatures to what this returns from now on: clusters may have the same keys.
    pub(crate) fn bind(&self, context: impl Fn() -> String + Send + Sync + 'static) {
        let _ = self.context.set(Box::new(context));
    }

    /// Which of the keys this is, by its signature of a text; `None` if it is none. Compares in constant time.
    pub(crate) fn signature_of(&self, guess: &[u8], text: &str) -> Option<String> {
        let text = self.bound(text);
        self.each(|key| key.is(guess).then(|| key.sign(&text))).into_iter().flatten().next()
    }

    /// The signature of a text, in hexadecimal digits.
    pub(crate) fn sign(&self, text: &str) -> String {
        self.signatures(text).into_iter().next().unwrap_or_default()
    }

    /// The signatures of a text by each of the keys.
    pub(crate) fn signatures(&self, text: &str) -> Vec<String> {
        let text = self.bound(text);
        self.each(|key| key.sign(&text))
    }

    /// Whether this is the signature of that text by one of the keys; compares in constant time.
    pub(crate) fn signed(&self, text: &str, signature: &str) -> bool {
        let text = self.bound(text);
        self.each(|key| key.signed(&text, signature)).into_iter().any(|is| is)
    }

    /// The proofs that this node has the keys, as [`ClusterKey::proof`], in one line.
    pub(crate) fn proofs(&self, port: u16, challenge: &str) -> String {
        self.each(|key| key.proof(port, challenge)).join(",")
    }

    fn bound(&self, text: &str) -> String {
        match self.context.get() {
            Some(context) => format!("{}\n{text}", context()),
            None => text.to_owned(),
        }
    }

    fn each<T>(&self, of: impl Fn(&ClusterKey) -> T) -> Vec<T> {
        self.keys.read().unwrap_or_else(PoisonError::into_inner).iter().map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> ClusterKey {
        ClusterKey::new(text.to_owned())
    }

    #[test]
    fn one_key_replaces_another_and_both_are_valid_meanwhile() {
        let ring = KeyRing::new(key("old"), []);
        let before = ring.sign("text");
        ring.replace(key("old"), [key("new")]);
        assert_eq!(ring.sign("text"), before, "the new one signs nothing yet");
        let known = |ring: &KeyRing, key: &[u8]| ring.signature_of(key, "text").is_some();
        assert_eq!(ring.signature_of(b"old", "text"), Some(before.clone()));
        assert!(known(&ring, b"new") && !known(&ring, b"other"));
        ring.replace(key("new"), [key("old")]);
        let after = ring.sign("text");
        assert!(after != before && ring.signed("text", &before) && ring.signed("text", &after));
        ring.replace(key("new"), []);
        assert!(!ring.signed("text", &before) && ring.signed("text", &after) && !known(&ring, b"old"));
    }

    #[test]
    fn a_signature_of_another_cluster_with_the_same_keys_is_not_valid() {
        let of = |cluster: &'static str| {
            let ring = KeyRing::new(key("same"), []);
            ring.bind(move || cluster.to_owned());
            ring
        };
        let signature = of("a").sign("text");
        assert!(of("a").signed("text", &signature) && !of("b").signed("text", &signature));
    }
}
