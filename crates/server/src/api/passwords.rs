//! Passwords of users: Argon2id, a few at a time, since each takes 19 MiB and some milliseconds.

use argon2::Argon2;
use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use evenkeel_core::principal::SecretDigest;
use tokio::sync::Semaphore;

use super::ApiError;

/// The number of passwords that are hashed at once.
const AT_ONCE: usize = 2;
/// The length limits of a password in bytes.
const LENGTHS: std::ops::RangeInclusive<usize> = 10..=512;

/// Hashes and compares passwords.
#[derive(Debug)]
pub(crate) struct PasswordHashing {
    turns: Semaphore,
}

impl Default for PasswordHashing {
    fn default() -> Self {
        Self { turns: Semaphore::new(AT_ONCE) }
    }
}

impl PasswordHashing {
    /// The digest of a new password.
    ///
    /// # Errors
    /// It is too short or too long, or the host has no source of randomness.
    pub(super) async fn hash(&self, password: String) -> Result<SecretDigest, ApiError> {
        if !LENGTHS.contains(&password.len()) {
            let (least, most) = (LENGTHS.start(), LENGTHS.end());
            return Err(ApiError::invalid(format!("a password has {least} to {most} bytes")));
        }
        let digest =
            move || Argon2::default().hash_password(password.as_bytes()).map(|hash| hash.to_string());
        let digest = self.compute(digest).await?.map_err(|e| ApiError::internal(e.to_string()))?;
        Ok(SecretDigest::new(digest))
    }

    /// Whether this is the password. A user that does not exist, or has no password, takes as long as any other: the time
    /// of a refusal says nothing about names.
    ///
    /// # Errors
    /// The comparison was cut short, as the process ends.
    pub(super) async fn is_right(
        &self,
        digest: Option<SecretDigest>,
        password: String,
    ) -> Result<bool, ApiError> {
        let known = digest.filter(|digest| !digest.expose().is_empty());
        let compare = move || match known {
            Some(digest) => PasswordHash::new(digest.expose())
                .is_ok_and(|hash| Argon2::default().verify_password(password.as_bytes(), &hash).is_ok()),
            None => {
                let _ = Argon2::default().hash_password(password.as_bytes());
                false
            }
        };
        self.compute(compare).await
    }

    async fn compute<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        let unable =
            |e: &dyn std::fmt::Display| ApiError::internal(format!("no password can be compared: {e}"));
        let _turn = self.turns.acquire().await.map_err(|e| unable(&e))?;
        tokio::task::spawn_blocking(work).await.map_err(|e| unable(&e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_password_is_only_itself() {
        let hashing = PasswordHashing::default();
        let digest = hashing.hash("correct horse".to_owned()).await.expect("it is long enough");
        assert!(digest.expose().starts_with("$argon2id$"), "{}", digest.expose());
        let again = hashing.hash("correct horse".to_owned()).await.expect("it is long enough");
        assert_ne!(digest, again, "each has its own salt");
        let is_right = async |digest: Option<&SecretDigest>, guess: &str| {
            hashing.is_right(digest.cloned(), guess.to_owned()).await.expect("it is compared")
        };
        assert!(is_right(Some(&digest), "correct horse").await);
        assert!(!is_right(Some(&digest), "correct horsf").await);
        assert!(!is_right(Some(&digest), "").await);
        assert!(!is_right(None, "correct horse").await);
        assert!(!is_right(Some(&SecretDigest::default()), "").await, "a user without a password");
        for bad in ["short", &"x".repeat(513)] {
            assert!(hashing.hash(bad.to_owned()).await.is_err(), "{bad}");
        }
    }
}
