//! The cluster's identity: the authority that signs the certificates of its nodes, and a secret that all nodes share.
//!
//! One file holds it. All nodes of a user on a host use the same file; a node of another host gets the identity with a
//! join token.

mod authority;
mod file;
mod secret_cipher;

use std::fmt;
use std::path::{Path, PathBuf};

use evenkeel_core::time::Wall;
use rustls::pki_types::CertificateDer;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::exit::{CliError, ExitKind};
use crate::key::{ClusterKey, digest, hex};
use crate::request;
use crate::state_folder::{state_folder, state_path};
use authority::{Authority, AuthorityRecord};
pub(crate) use authority::{LeafCertificate, LeafNames};
pub(crate) use secret_cipher::SecretCipher;

/// The version of the file.
const VERSION: u32 = 1;
/// The name of the file in the state folder.
const FILE: &str = "identity.json";

/// The identity of a cluster.
pub(crate) struct ClusterIdentity {
    secret: ClusterSecret,
    /// All of them are trusted; the first one signs.
    authorities: Vec<Authority>,
}

/// The secret that all nodes of a cluster share. It prints nothing.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct ClusterSecret([u8; 32]);

/// A step on the way to a new authority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum RotationStep {
    /// Nodes trust a new authority too; the old one signs.
    Trust,
    /// The new one signs; the old one is still trusted.
    Sign,
    /// The old one is dropped.
    Finish,
}

/// The identity as it is stored, and as a node that joins receives it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct IdentityRecord {
    version: u32,
    /// Hexadecimal digits.
    secret: String,
    authorities: Vec<AuthorityRecord>,
}

impl fmt::Debug for ClusterSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClusterSecret")
    }
}

impl fmt::Debug for ClusterIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterIdentity").field("id", &self.id()).finish_non_exhaustive()
    }
}

impl ClusterIdentity {
    /// A new identity.
    ///
    /// # Errors
    /// The host has no source of randomness, or no certificate can be made.
    pub(crate) fn create(now: Wall) -> Result<Self, CliError> {
        let secret = ClusterSecret(request::chance()?);
        Ok(Self { secret, authorities: vec![Authority::create(now)?] })
    }

    /// The path of an identity: this one, or the one of this user on this host. The file need not exist.
    ///
    /// # Errors
    /// The user has no home folder.
    pub(crate) fn path(named: Option<&Path>) -> Result<PathBuf, CliError> {
        match named {
            Some(path) => Ok(path.to_path_buf()),
            None => Ok(state_path()?.join(FILE)),
        }
    }

    /// Makes the file of this identity, unless there is one already.
    ///
    /// # Errors
    /// It cannot be made.
    pub(crate) fn store(&self, path: &Path) -> Result<(), CliError> {
        if state_path().is_ok_and(|folder| path.parent() == Some(&folder)) {
            state_folder()?;
        }
        file::create(path, &self.to_text()?)
    }

    /// The identity in this file, or in the user's state folder; made if there is none yet.
    ///
    /// # Errors
    /// The file cannot be read or made, is no identity, or others can read it.
    pub(crate) fn open(path: Option<&Path>, now: Wall) -> Result<(Self, PathBuf), CliError> {
        let path = Self::path(path)?;
        if !path.exists() {
            Self::create(now)?.store(&path)?;
        }
        Ok((Self::read(&path)?, path))
    }

    /// The identity in this file.
    ///
    /// # Errors
    /// The file cannot be read, is no identity, or others can read it.
    pub(crate) fn read(path: &Path) -> Result<Self, CliError> {
        let text = file::read(path)?;
        Self::from_text(&text).map_err(|why| {
            CliError::usage(format!(
                "the cluster's identity {}: {why}: restore the file, or join anew",
                path.display()
            ))
        })
    }

    /// The identity as text, with its secrets.
    ///
    /// # Errors
    /// It cannot be written as JSON, which cannot happen.
    pub(crate) fn to_text(&self) -> Result<String, CliError> {
        let record = IdentityRecord {
            version: VERSION,
            secret: hex(&self.secret.0),
            authorities: self.authorities.iter().map(Authority::record).collect(),
        };
        serde_json::to_string_pretty(&record)
            .map(|text| text + "\n")
            .map_err(|e| CliError::new(ExitKind::Failed, format!("the cluster's identity: {e}")))
    }

    /// Reads an identity.
    ///
    /// # Errors
    /// It is none; the text says why, without any part of it.
    pub(crate) fn from_text(text: &str) -> Result<Self, String> {
        // The message of the JSON library could quote a secret.
        let record: IdentityRecord =
            serde_json::from_str(text).map_err(|e| format!("it is no identity (line {})", e.line()))?;
        if record.version != VERSION {
            return Err(format!("it has version {}, this program knows {VERSION}", record.version));
        }
        let secret = secret_of(&record.secret).ok_or("its secret is not 64 hexadecimal digits")?;
        let authorities: Vec<Authority> =
            record.authorities.into_iter().map(Authority::from_record).collect::<Result<_, _>>()?;
        if authorities.is_empty() {
            return Err("it has no authority".to_owned());
        }
        Ok(Self { secret: ClusterSecret(secret), authorities })
    }

    /// The cipher of secrets in the registry. Its key is not the secret itself.
    pub(crate) fn secret_cipher(&self) -> SecretCipher {
        let key = Sha256::new().chain_update(b"evenkeel secrets 1\n").chain_update(self.secret.0).finalize();
        SecretCipher::new(&key.into())
    }

    /// The key with which nodes sign what only they write, such as sessions. It is not the secret itself.
    pub(crate) fn seals(&self) -> ClusterKey {
        let secret = hex(&self.secret.0);
        ClusterKey::new(digest(format!("evenkeel seals 1\n{secret}").as_bytes()))
    }

    /// The public name of the identity, which the cluster's registry has too. It outlives the authorities.
    pub(crate) fn id(&self) -> String {
        let mut digest = Sha256::new_with_prefix(b"evenkeel identity 1\n");
        digest.update(self.secret.0);
        hex(&digest.finalize()[..16])
    }

    /// The certificates of the authorities that are trusted; the first one signs.
    pub(crate) fn trusted(&self) -> impl Iterator<Item = &CertificateDer<'static>> {
        self.authorities.iter().map(|authority| &authority.certificate)
    }

    /// The certificates of all authorities, in PEM.
    pub(crate) fn certificates(&self) -> String {
        self.authorities.iter().map(|authority| authority.pem.as_str()).collect()
    }

    /// The same identity one step further on the way to a new authority. Each step is safe while nodes have this one or the
    /// one before.
    ///
    /// # Errors
    /// It is not at that step, or no authority can be made.
    pub(crate) fn rotated(mut self, step: RotationStep, now: Wall) -> Result<Self, CliError> {
        let wrong = |why: &str| Err(CliError::new(ExitKind::Conflict, why));
        match (step, self.authorities.len()) {
            (RotationStep::Trust, 1) => self.authorities.push(Authority::create(now)?),
            (RotationStep::Trust, _) => {
                return wrong("a new authority is trusted already: go on with --step sign");
            }
            (RotationStep::Sign, 2) => self.authorities.swap(0, 1),
            (RotationStep::Finish, 2) => self.authorities.truncate(1),
            (RotationStep::Sign | RotationStep::Finish, _) => {
                return wrong("there is one authority: begin with --step trust");
            }
        }
        Ok(self)
    }

    /// Replaces the file by this identity.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn replace(&self, path: &Path) -> Result<(), CliError> {
        file::replace(path, &self.to_text()?)
    }

    /// Issues a certificate with these names.
    ///
    /// # Errors
    /// A name cannot be in a certificate, or the key cannot sign.
    pub(crate) fn issue(&self, names: &LeafNames, now: Wall) -> Result<LeafCertificate, String> {
        let signer = self.authorities.first().ok_or("it has no authority")?;
        signer.issue(names, now)
    }
}

/// The fingerprint of a certificate: the hexadecimal digits of its SHA-256.
pub(crate) fn fingerprint(certificate: &CertificateDer<'_>) -> String {
    hex(&Sha256::digest(certificate))
}

fn secret_of(text: &str) -> Option<[u8; 32]> {
    let bytes = crate::key::bytes(text)?;
    bytes.try_into().ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const NOW: Wall = Wall(1_763_749_200_000);

    #[test]
    fn nodes_that_start_at_once_have_one_identity() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("identity.json");
        let ids: Vec<String> = std::thread::scope(|scope| {
            let open = || ClusterIdentity::open(Some(&path), NOW).expect("an identity").0.id();
            let opened: Vec<_> = (0..8).map(|_| scope.spawn(open)).collect();
            opened.into_iter().map(|id| id.join().expect("it ends")).collect()
        });
        assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1, "nothing else is left");
        let mode = std::fs::metadata(&path).expect("a file").permissions().mode() & 0o777;
        assert_eq!(mode, 0o600);
    }

    #[test]
    fn what_is_written_is_read_and_nothing_shows_the_secret() {
        let identity = ClusterIdentity::create(NOW).expect("an identity");
        let text = identity.to_text().expect("text");
        let read = ClusterIdentity::from_text(&text).expect("it is one");
        assert_eq!((read.id(), read.secret.clone()), (identity.id(), identity.secret.clone()));
        assert_eq!(read.trusted().collect::<Vec<_>>(), identity.trusted().collect::<Vec<_>>());
        let shown = format!("{identity:?} {:?}", identity.secret);
        assert!(!shown.contains(&hex(&identity.secret.0)), "{shown}");
        assert_ne!(ClusterIdentity::create(NOW).expect("another").id(), identity.id());
    }

    #[test]
    fn what_is_no_identity_is_refused_without_its_secrets() {
        let text = ClusterIdentity::create(NOW).expect("an identity").to_text().expect("text");
        let secret = text.split('"').find(|part| part.len() == 64).expect("its secret").to_owned();
        for (broken, why) in [
            (text.replace("\"version\": 1", "\"version\": 2"), "this program knows 1"),
            (text.replace(&secret, &secret[2..]), "64 hexadecimal digits"),
            (text.replace("BEGIN PRIVATE", "BEGIN OTHER"), "key"),
            (text.replace("BEGIN CERT", "BEGIN OTHER"), "certificate"),
            (text.replace("\"secret\"", "\"other\""), "no identity"),
            (text[..text.len() - 9].to_owned(), "no identity"),
        ] {
            let refused = ClusterIdentity::from_text(&broken).expect_err(why);
            assert!(refused.contains(why) && !refused.contains(&secret), "{refused}");
        }
    }

    #[test]
    fn a_file_that_others_can_read_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("identity.json");
        ClusterIdentity::open(Some(&path), NOW).expect("an identity");
        let mut mode = std::fs::metadata(&path).expect("a file").permissions();
        mode.set_mode(0o640);
        std::fs::set_permissions(&path, mode).expect("changed");
        let refused = ClusterIdentity::open(Some(&path), NOW).expect_err("others can read it");
        assert!(refused.message.contains("mode 640") && refused.message.contains("chmod 600"), "{refused}");
    }
}
