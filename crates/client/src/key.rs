//! The cluster's key: people send it; nodes sign with it and never send it.

use std::fmt::Write;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The cluster's key, or another secret that signs.
#[derive(Clone)]
pub struct ClusterKey(String);

impl ClusterKey {
    /// A key with this text from its file.
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// The text of its file.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Compares in constant time, so that a caller cannot learn how much of a guess was right.
    pub fn is(&self, guess: &[u8]) -> bool {
        is_same(self.0.as_bytes(), guess)
    }

    /// The signature of a text, in hexadecimal digits.
    pub fn sign(&self, text: &str) -> String {
        hex(&self.mac(text).finalize().into_bytes())
    }

    /// Whether this is the signature of that text; compares in constant time.
    pub fn signed(&self, text: &str, signature: &str) -> bool {
        bytes(signature).is_some_and(|signature| self.mac(text).verify_slice(&signature).is_ok())
    }

    /// What a node answers to a caller that wants to know whether the node has this key before it sends it: the port is
    /// the one that the caller reached, so that a program on another port cannot pass a node's answer off as its own.
    pub fn proof(&self, port: u16, challenge: &str) -> String {
        self.sign(&format!("evenkeel proof 1\n{port}\n{challenge}"))
    }

    /// Whether this is the [`proof`](Self::proof).
    pub fn is_proof(&self, port: u16, challenge: &str, proof: &str) -> bool {
        self.signed(&format!("evenkeel proof 1\n{port}\n{challenge}"), proof)
    }

    fn mac(&self, text: &str) -> Hmac<Sha256> {
        let keyed = Hmac::<Sha256>::new_from_slice(self.0.as_bytes());
        keyed.expect("HMAC takes a key of any length").chain_update(text)
    }
}

/// Compares in constant time: the time depends on the length of `own` only.
pub fn is_same(own: &[u8], guess: &[u8]) -> bool {
    let differ =
        own.iter().zip(guess.iter().chain(std::iter::repeat(&0))).fold(0, |acc, (a, b)| acc | (a ^ b));
    std::hint::black_box(differ) == 0 && own.len() == guess.len()
}

/// Bytes as hexadecimal digits.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        // Writing to a text cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The bytes that hexadecimal digits stand for; `None` if these are none.
#[must_use]
pub fn bytes(hex: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> =
        hex.chars().map(|c| c.to_digit(16).and_then(|d| u8::try_from(d).ok())).collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    Some(digits.chunks(2).map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_only_itself() {
        let key = ClusterKey::new("0123456789abcdef".to_owned());
        assert!(key.is(b"0123456789abcdef"));
        for guess in
            [&b""[..], b"0123456789abcde", b"0123456789abcdef0", b"0123456789abcdeF", b"0123456789abcdef\0"]
        {
            assert!(!key.is(guess), "{guess:?}");
        }
    }

    /// The second test case of RFC 4231: it documents the format for other programs.
    #[test]
    fn a_signature_is_hmac_sha256() {
        let key = ClusterKey::new("Jefe".to_owned());
        let text = "what do ya want for nothing?";
        let signature = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        assert_eq!(key.sign(text), signature);
        assert!(key.signed(text, signature));
        for (text, signature) in [
            ("what do ya want for nothing!", signature),
            (text, ""),
            (text, "5b"),
            (text, "zz"),
            (text, signature.get(1..).expect("it is longer")),
            (text, signature.get(2..).expect("it is longer")),
            (text, "4bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"),
        ] {
            assert!(!key.signed(text, signature), "{signature}");
        }
        assert!(!ClusterKey::new("jefe".to_owned()).signed(text, signature));
    }
}
