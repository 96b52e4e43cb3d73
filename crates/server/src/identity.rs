//! The cluster's identity: the authority that signs the certificates of its nodes, and a secret that all nodes share.
//!
//! One file holds it. All nodes of a user on a host use the same file; a node of another host gets the identity with a
//! join token.

mod authority;
mod file;
mod secret_cipher;

use std::fmt;
use std::path::{Path, PathBuf};

use evenkeel::{NodeIdentity, SealKey, SealKeys};
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
const VERSION: u32 = 2;
/// The version in which there was one secret, of which the name was made.
const ONE_SECRET: u32 = 1;
/// The name of the file in the state folder.
const FILE: &str = "identity.json";

/// The identity of a cluster.
pub(crate) struct ClusterIdentity {
    /// The public name, which outlives the secrets.
    name: String,
    /// Nodes sign and seal with it.
    secret: ClusterSecret,
    /// Those that are valid, too, while a secret is replaced.
    other_secrets: Vec<ClusterSecret>,
    /// The step that was taken last on the way to a new authority and secret; `None` where none is under way.
    step: Option<RotationStep>,
    /// All of them are trusted; the first one signs.
    authorities: Vec<Authority>,
}

/// The secret that all nodes of a cluster share. It prints nothing.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct ClusterSecret([u8; 32]);

/// A step on the way to a new authority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RotationStep {
    /// Nodes trust a new authority and a new secret, too; the old ones sign.
    Trust,
    /// The new ones sign; the old ones are still trusted.
    Sign,
    /// The old ones are dropped.
    Finish,
}

/// The identity as it is stored, and as a node that joins receives it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct IdentityRecord {
    version: u32,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    name: String,
    /// Hexadecimal digits.
    secret: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    other_secrets: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    step: Option<RotationStep>,
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
        let (name, other_secrets) = (secret.name(), Vec::new());
        Ok(Self { name, secret, other_secrets, step: None, authorities: vec![Authority::create(now)?] })
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
            name: self.name.clone(),
            secret: hex(&self.secret.0),
            other_secrets: self.other_secrets.iter().map(|secret| hex(&secret.0)).collect(),
            step: self.step,
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
        if ![ONE_SECRET, VERSION].contains(&record.version) {
            return Err(format!("it has version {}, this program knows {VERSION}", record.version));
        }
        let read = |text: &String| secret_of(text).ok_or("its secret is not 64 hexadecimal digits");
        let secret = read(&record.secret)?;
        let other_secrets = record.other_secrets.iter().map(read).collect::<Result<_, _>>()?;
        let name = if record.version == ONE_SECRET { secret.name() } else { record.name };
        if name.is_empty() {
            return Err("it has no name".to_owned());
        }
        let authorities: Vec<Authority> =
            record.authorities.into_iter().map(Authority::from_record).collect::<Result<_, _>>()?;
        if authorities.is_empty() {
            return Err("it has no authority".to_owned());
        }
        Ok(Self { name, secret, other_secrets, step: record.step, authorities })
    }

    /// The cipher of secrets in the registry. Its keys are not the cluster's secrets themselves.
    pub(crate) fn secret_cipher(&self) -> SecretCipher {
        let key = |secret: &ClusterSecret| -> [u8; 32] {
            Sha256::new().chain_update(b"evenkeel secrets 1\n").chain_update(secret.0).finalize().into()
        };
        let others: Vec<_> = self.other_secrets.iter().map(key).collect();
        SecretCipher::new(&key(&self.secret), &others)
    }

    /// The key with which nodes sign what only they write, such as sessions, and the others that are valid. They are not the
    /// secrets themselves.
    pub(crate) fn session_keys(&self) -> (ClusterKey, Vec<ClusterKey>) {
        let key = |secret: &ClusterSecret| {
            ClusterKey::new(digest(format!("evenkeel seals 1\n{}", hex(&secret.0)).as_bytes()))
        };
        (key(&self.secret), self.other_secrets.iter().map(key).collect())
    }

    /// The key with which nodes seal declarations of jobs, users and tokens in the registry, and the others that are valid.
    pub(crate) fn seal_keys(&self) -> (SealKey, Vec<SealKey>) {
        let key = |secret: &ClusterSecret| {
            let digest = Sha256::new_with_prefix(b"evenkeel entry seals 1\n").chain_update(secret.0);
            SealKey::new(digest.finalize().into())
        };
        (key(&self.secret), self.other_secrets.iter().map(key).collect())
    }

    /// The identity as far as the node itself needs it.
    pub(crate) fn of_node(&self) -> NodeIdentity {
        let (first, others) = self.seal_keys();
        NodeIdentity { name: self.name.clone(), seals: SealKeys::new(first, others) }
    }

    /// The public name of the identity, which the cluster's registry has too. It outlives the authorities and the secrets.
    pub(crate) fn id(&self) -> &str {
        &self.name
    }

    /// The certificates of the authorities that are trusted; the first one signs.
    pub(crate) fn trusted(&self) -> impl Iterator<Item = &CertificateDer<'static>> {
        self.authorities.iter().map(|authority| &authority.certificate)
    }

    /// The certificates of all authorities, in PEM.
    pub(crate) fn certificates(&self) -> String {
        self.authorities.iter().map(|authority| authority.pem.as_str()).collect()
    }

    /// The same identity one step further on the way to a new authority and a new secret. Each step is safe while nodes have
    /// this one or the one before.
    ///
    /// # Errors
    /// It is not at that step, or no authority can be made.
    pub(crate) fn rotated(mut self, step: RotationStep, now: Wall) -> Result<Self, CliError> {
        use RotationStep::{Finish, Sign, Trust};
        match (step, self.step) {
            (Trust, None) if self.authorities.len() == 1 => {
                self.authorities.push(Authority::create(now)?);
                self.other_secrets.push(ClusterSecret(request::chance()?));
            }
            (Sign, Some(Trust)) => {
                self.authorities.swap(0, 1);
                self.other_secrets
                    .iter_mut()
                    .take(1)
                    .for_each(|other| std::mem::swap(other, &mut self.secret));
            }
            (Finish, Some(Sign)) => {
                self.authorities.truncate(1);
                self.other_secrets.clear();
            }
            (_, taken) => {
                let next = match taken {
                    None => "no step was taken yet: begin with --step trust",
                    Some(Trust) => "a new authority is trusted already: go on with --step sign",
                    Some(Sign | Finish) => "the new authority signs already: go on with --step finish",
                };
                return Err(CliError::new(ExitKind::Conflict, next));
            }
        }
        self.step = Some(step).filter(|step| *step != Finish);
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

impl ClusterSecret {
    /// The name of an identity that begins with this secret.
    fn name(&self) -> String {
        let mut digest = Sha256::new_with_prefix(b"evenkeel identity 1\n");
        digest.update(self.0);
        hex(&digest.finalize()[..16])
    }
}

fn secret_of(text: &str) -> Option<ClusterSecret> {
    let bytes = crate::key::bytes(text)?;
    bytes.try_into().ok().map(ClusterSecret)
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
            let open = || ClusterIdentity::open(Some(&path), NOW).expect("an identity").0.id().to_owned();
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
            (text.replace("\"version\": 2", "\"version\": 3"), "this program knows 2"),
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
    fn in_each_step_what_was_signed_and_sealed_before_is_still_valid() {
        let first = ClusterIdentity::create(NOW).expect("an identity");
        let key = evenkeel_core::keys::Key::from_stored("job/j/spec");
        let (name, old) = (first.id().to_owned(), first.seal_keys().0);
        let mut seals = vec![old.seal(&key, b"{}")];
        let mut now = first;
        for step in [RotationStep::Trust, RotationStep::Sign] {
            let text = now.to_text().expect("text");
            for other in [RotationStep::Trust, RotationStep::Sign, RotationStep::Finish] {
                let again = ClusterIdentity::from_text(&text).expect("it is one").rotated(other, NOW);
                assert_eq!(again.is_ok(), other == step, "{other:?} in place of {step:?}");
            }
            now = now.rotated(step, NOW).expect("the next step");
            now = ClusterIdentity::from_text(&now.to_text().expect("text")).expect("it is read back");
            let (signs, others) = now.seal_keys();
            seals.push(signs.seal(&key, b"{}"));
            let valid = |seal: &String| {
                others.iter().chain([&signs]).any(|known| known.is_seal(&key, b"{}", seal.as_bytes()))
            };
            assert!(seals.iter().all(valid), "{step:?}");
            assert_eq!((others.len(), now.session_keys().1.len(), now.id()), (1, 1, name.as_str()));
        }
        now = now.rotated(RotationStep::Finish, NOW).expect("the last step");
        let (signs, others) = now.seal_keys();
        assert!(signs.is_seal(&key, b"{}", seals[2].as_bytes()) && others.is_empty());
        assert!(!signs.is_seal(&key, b"{}", seals[0].as_bytes()), "the old secret is worth nothing");
        assert_eq!(now.id(), name);
    }

    #[test]
    fn an_identity_of_the_first_version_keeps_its_name() {
        let identity = ClusterIdentity::create(NOW).expect("an identity");
        let text = identity.to_text().expect("text");
        let line = format!("  \"name\": \"{}\",\n", identity.id());
        assert!(text.contains(&line), "{text}");
        let former = text.replace(&line, "").replace("\"version\": 2", "\"version\": 1");
        let read = ClusterIdentity::from_text(&former).expect("it is one");
        assert_eq!((read.id(), read.secret.clone()), (identity.id(), identity.secret.clone()));
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
