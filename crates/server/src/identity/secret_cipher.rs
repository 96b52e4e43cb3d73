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
pub(crate) struct SecretCipher(RandomizedNonceKey);

impl SecretCipher {
    /// The cipher with this key.
    pub(super) fn new(key: &[u8; 32]) -> Self {
        Self(RandomizedNonceKey::new(&AES_256_GCM, key).expect("the key has the length of the cipher"))
    }

    /// The same secret with this text, sealed; what it had there is replaced.
    ///
    /// # Errors
    /// The host has no source of randomness.
    pub(crate) fn seal(&self, secret: SealedSecret, text: &str) -> Result<SealedSecret, String> {
        let mut sealed = text.as_bytes().to_vec();
        let head = Aad::from(head(&secret.name, &secret));
        let nonce = self.0.seal_in_place_append_tag(head, &mut sealed);
        let nonce =
            nonce.map_err(|_| "the secret cannot be sealed: the host has no randomness".to_owned())?;
        sealed.splice(0..0, *nonce.as_ref());
        Ok(SealedSecret { sealed: format!("{WAY}{}", BASE64_STANDARD_NO_PAD.encode(sealed)), ..secret })
    }

    fn opened(&self, name: &SecretName, secret: &SealedSecret) -> Option<String> {
        let mut sealed = BASE64_STANDARD_NO_PAD.decode(secret.sealed.strip_prefix(WAY)?).ok()?;
        let (nonce, text) = sealed.split_first_chunk_mut::<NONCE_LEN>()?;
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let text = self.0.open_in_place(nonce, Aad::from(head(name, secret)), text).ok()?;
        String::from_utf8(text.to_vec()).ok()
    }
}

impl SecretOpener for SecretCipher {
    fn open(&self, name: &SecretName, secret: &SealedSecret) -> Option<String> {
        self.opened(name, secret)
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
        let cipher = SecretCipher::new(&[7; 32]);
        let sealed = cipher.seal(secret("team-a/db"), "hunter2\n").expect("it is sealed");
        assert!(!sealed.sealed.contains("hunter2") && !format!("{cipher:?}").contains('7'));
        let name: SecretName = "team-a/db".parse().expect("a name");
        assert_eq!(cipher.open(&name, &sealed).as_deref(), Some("hunter2\n"));
        let again = cipher.seal(secret("team-a/db"), "hunter2\n").expect("it is sealed");
        assert_ne!(sealed.sealed, again.sealed, "each seal has a nonce of its own");
        let other = SecretCipher::new(&[8; 32]);
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
}
