//! Seals secrets for the registry, and opens them: AES-256-GCM with a key that is made of the cluster's secret.

use std::fmt;

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use base64::Engine;
use base64::prelude::BASE64_STANDARD_NO_PAD;
use evenkeel::SecretOpener;
use evenkeel_core::ids::SecretName;
use evenkeel_core::record::SealedSecret;

/// What begins every sealed text: the way in which it is sealed.
const WAY: &str = "1:";

/// The cipher of the secrets of a cluster.
pub(crate) struct SecretCipher {
    /// Seals.
    first: RandomizedNonceKey,
    /// Opens what was sealed with another key, while the cluster's secret is replaced.
    others: Vec<RandomizedNonceKey>,
}

impl SecretCipher {
    /// The cipher that seals with the first key, and opens with all.
    pub(super) fn new(first: &[u8; 32], others: &[[u8; 32]]) -> Self {
        let key = |key: &[u8; 32]| {
            RandomizedNonceKey::new(&AES_256_GCM, key).expect("the key has the length of the cipher")
        };
        Self { first: key(first), others: others.iter().map(key).collect() }
    }

    /// The same secret with this text, sealed; what it had there is replaced.
    ///
    /// # Errors
    /// The host has no source of randomness.
    pub(crate) fn seal(&self, secret: SealedSecret, text: &str) -> Result<SealedSecret, String> {
        let mut sealed = text.as_bytes().to_vec();
        let head = Aad::from(head(&secret.name, &secret));
        let nonce = self.first.seal_in_place_append_tag(head, &mut sealed);
        let nonce =
            nonce.map_err(|_| "the secret cannot be sealed: the host has no randomness".to_owned())?;
        sealed.splice(0..0, *nonce.as_ref());
        Ok(SealedSecret { sealed: format!("{WAY}{}", BASE64_STANDARD_NO_PAD.encode(sealed)), ..secret })
    }

    /// The same secret sealed with the first key, if it is sealed with another one.
    ///
    /// # Errors
    /// The host has no source of randomness.
    pub(crate) fn sealed_anew(&self, secret: &SealedSecret) -> Result<Option<SealedSecret>, String> {
        let name = &secret.name;
        if opened(&self.first, name, secret).is_some() {
            return Ok(None);
        }
        self.open(name, secret).map(|text| self.seal(secret.clone(), &text)).transpose()
    }
}

fn opened(key: &RandomizedNonceKey, name: &SecretName, secret: &SealedSecret) -> Option<String> {
    let mut sealed = BASE64_STANDARD_NO_PAD.decode(secret.sealed.strip_prefix(WAY)?).ok()?;
    let (nonce, text) = sealed.split_first_chunk_mut::<NONCE_LEN>()?;
    let nonce = Nonce::assume_unique_for_key(*nonce);
    let text = key.open_in_place(nonce, Aad::from(head(name, secret)), text).ok()?;
    String::from_utf8(text.to_vec()).ok()
}

impl SecretOpener for SecretCipher {
    fn open(&self, name: &SecretName, secret: &SealedSecret) -> Option<String> {
        [&self.first].into_iter().chain(&self.others).find_map(|key| opened(key, name, secret))
    }
}

impl fmt::Debug for SecretCipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretCipher")
    }
}

/// What the seal covers besides the text: an entry is of no use under another name or with another version.
fn head(name: &SecretName, secret: &SealedSecret) -> Vec<u8> {
    let bare = SealedSecret { name: name.clone(), sealed: String::new(), ..secret.clone() };
    let fields = serde_json::to_string(&bare).expect("its fields are plain data");
    format!("evenkeel secret 1\n{fields}").into_bytes()
}

#[cfg(test)]
mod tests {
    use evenkeel_core::time::Wall;

    use super::*;

    fn secret(name: &str) -> SealedSecret {
        let name = name.parse().expect("a name");
        SealedSecret { name, sealed: String::new(), version: 3, since: Wall(5), by: "user:ann".to_owned() }
    }

    /// proves: I52
    #[test]
    fn a_sealed_secret_is_opened_as_it_is_and_in_no_other_place() {
        let cipher = SecretCipher::new(&[7; 32], &[]);
        let sealed = cipher.seal(secret("team-a/db"), "hunter2\n").expect("it is sealed");
        assert!(!sealed.sealed.contains("hunter2") && !format!("{cipher:?}").contains('7'));
        let name: SecretName = "team-a/db".parse().expect("a name");
        assert_eq!(cipher.open(&name, &sealed).as_deref(), Some("hunter2\n"));
        let again = cipher.seal(secret("team-a/db"), "hunter2\n").expect("it is sealed");
        assert_ne!(sealed.sealed, again.sealed, "each seal has a nonce of its own");
        let other = SecretCipher::new(&[8; 32], &[]);
        assert_eq!(other.open(&name, &sealed), None, "another cluster");
        let changed = |change: fn(&mut SealedSecret)| {
            let mut changed = sealed.clone();
            change(&mut changed);
            cipher.open(&name, &changed)
        };
        for other in ["team-b/db", "team-a/other", "db"] {
            assert_eq!(cipher.open(&other.parse().expect("a name"), &sealed), None, "{other}");
        }
        let changes: [fn(&mut SealedSecret); 6] = [
            |s| s.version = 4,
            |s| s.since = Wall(6),
            |s| s.by = "user:bob".to_owned(),
            |s| s.sealed = s.sealed.replacen("1:", "2:", 1),
            |s| s.sealed = s.sealed[..20].to_owned(),
            |s| s.sealed = String::new(),
        ];
        for (n, change) in changes.into_iter().enumerate() {
            assert_eq!(changed(change), None, "change {n}");
        }
        for at in WAY.len()..sealed.sealed.len() - 1 {
            let mut bytes = sealed.sealed.clone().into_bytes();
            bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
            let changed = SealedSecret { sealed: String::from_utf8(bytes).expect("text"), ..sealed.clone() };
            assert_eq!(cipher.open(&name, &changed), None, "a change at {at}");
        }
    }

    #[test]
    fn a_secret_is_sealed_anew_with_the_key_that_replaces_its_own() {
        let (old, new) = (SecretCipher::new(&[7; 32], &[]), SecretCipher::new(&[8; 32], &[]));
        let both = SecretCipher::new(&[8; 32], &[[7; 32]]);
        let sealed = old.seal(secret("db"), "hunter2").expect("it is sealed");
        let name = &sealed.name;
        assert_eq!(both.open(name, &sealed).as_deref(), Some("hunter2"));
        let anew = both.sealed_anew(&sealed).expect("randomness").expect("it had the former key");
        assert_eq!((new.open(name, &anew).as_deref(), old.open(name, &anew)), (Some("hunter2"), None));
        assert_eq!((anew.version, anew.since, &anew.by), (sealed.version, sealed.since, &sealed.by));
        assert_eq!(both.sealed_anew(&anew), Ok(None));
        assert_eq!(new.sealed_anew(&sealed), Ok(None), "it is another cluster's");
    }
}
