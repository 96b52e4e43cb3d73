//! A certificate that the operator gives for people and proxies, read again when its files change.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::sign::CertifiedKey;

use crate::bounded;
use crate::file_version::{FileVersion, version};

/// The size limit of a file, far above any real one.
const BYTES_MAX: u64 = 1024 * 1024;

/// The files of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CertificateFiles {
    /// The certificate and those between it and its authority, in PEM.
    pub(crate) certificate: PathBuf,
    /// Its key, in PEM.
    pub(crate) key: PathBuf,
}

/// A certificate that was given, as it was read last.
pub(super) struct GivenCertificate {
    files: CertificateFiles,
    current: Mutex<(Arc<CertifiedKey>, [FileVersion; 2])>,
}

impl CertificateFiles {
    /// Reads the certificate and its key.
    ///
    /// # Errors
    /// A file cannot be read, or the two do not fit; the text says which.
    fn read(&self) -> Result<Arc<CertifiedKey>, String> {
        let unreadable =
            |path: &Path, why: &dyn std::fmt::Display| format!("{}: cannot be read: {why}", path.display());
        let text = |path: &Path| bounded::bytes(path, BYTES_MAX).map_err(|e| unreadable(path, &e));
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text(&self.certificate)?).collect();
        let chain = chain.map_err(|e| unreadable(&self.certificate, &e))?;
        if chain.is_empty() {
            return Err(unreadable(&self.certificate, &"there is no certificate in it"));
        }
        let key = PrivateKeyDer::from_pem_slice(&text(&self.key)?);
        let key = key.map_err(|_| unreadable(&self.key, &"there is no private key in it"))?;
        let key = aws_lc_rs::sign::any_supported_type(&key).map_err(|e| unreadable(&self.key, &e))?;
        let certified = CertifiedKey::new(chain, key);
        certified.keys_match().map_err(|e| {
            format!("{} and {} do not fit: {e}", self.certificate.display(), self.key.display())
        })?;
        Ok(Arc::new(certified))
    }

    fn versions(&self) -> [FileVersion; 2] {
        [&self.certificate, &self.key].map(|path| version(path))
    }
}

impl GivenCertificate {
    /// The certificate in these files.
    ///
    /// # Errors
    /// A file cannot be read, or the two do not fit; the text says which.
    pub(super) fn open(files: CertificateFiles) -> Result<Self, String> {
        // Before they are read: what changes meanwhile is read again.
        let versions = files.versions();
        let current = Mutex::new((files.read()?, versions));
        Ok(Self { files, current })
    }

    pub(super) fn current(&self) -> Arc<CertifiedKey> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    /// Reads the files again if they have changed. What cannot be used leaves everything as it is.
    pub(super) fn refresh(&self) {
        let versions = self.files.versions();
        if self.current.lock().unwrap_or_else(PoisonError::into_inner).1 == versions {
            return;
        }
        let read = self.files.read();
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        current.1 = versions;
        match read {
            Ok(certificate) => {
                current.0 = certificate;
                tracing::info!("the certificate in {} is used from now on", self.files.certificate.display());
            }
            Err(why) => tracing::error!("the certificate of before stays in use: {why}"),
        }
    }
}

/// Whether a certificate is for this host name or address.
pub(super) fn is_for(certificate: &CertifiedKey, host: &str) -> bool {
    let leaf = certificate.cert.first().and_then(|leaf| webpki::EndEntityCert::try_from(leaf).ok());
    let name = ServerName::try_from(host.trim_matches(['[', ']'])).ok();
    leaf.zip(name).is_some_and(|(leaf, name)| leaf.verify_is_valid_for_subject_name(&name).is_ok())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::identity::{ClusterIdentity, LeafNames};

    /// Files with a certificate for this name.
    fn files(folder: &Path, host: &str) -> CertificateFiles {
        let files = CertificateFiles { certificate: folder.join("cert.pem"), key: folder.join("key.pem") };
        let made = rcgen::generate_simple_self_signed(vec![host.to_owned()]).expect("a certificate");
        fs::write(&files.certificate, made.cert.pem()).expect("written");
        fs::write(&files.key, made.signing_key.serialize_pem()).expect("written");
        files
    }

    #[test]
    fn files_that_change_are_read_again_and_bad_ones_change_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let given = GivenCertificate::open(files(folder.path(), "a.example")).expect("a certificate");
        assert!(is_for(&given.current(), "a.example") && !is_for(&given.current(), "b.example"));
        let first = given.current();
        given.refresh();
        assert!(Arc::ptr_eq(&first, &given.current()), "nothing has changed");
        let second = files(folder.path(), "b.example");
        given.refresh();
        assert!(is_for(&given.current(), "b.example"), "it is read again");
        fs::write(&second.key, "no key").expect("written");
        given.refresh();
        assert!(is_for(&given.current(), "b.example"), "the one of before stays");
        fs::remove_file(&second.key).expect("removed");
        given.refresh();
        assert!(is_for(&given.current(), "b.example"), "the one of before stays");
        files(folder.path(), "c.example");
        given.refresh();
        assert!(is_for(&given.current(), "c.example"), "good ones are read again");
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let (folder, other) =
            (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
        let own = files(folder.path(), "a.example");
        let mixed = CertificateFiles { key: files(other.path(), "a.example").key, ..own.clone() };
        assert!(GivenCertificate::open(mixed).err().is_some_and(|why| why.contains("do not fit")));
        let swapped = CertificateFiles { certificate: own.key.clone(), key: own.certificate };
        assert!(
            GivenCertificate::open(swapped).err().is_some_and(|why| why.contains("no certificate in it"))
        );
    }

    #[test]
    fn addresses_are_names_too() {
        let now = evenkeel::clock::now().wall;
        let identity = ClusterIdentity::create(now).expect("an identity");
        let hosts = ["10.0.0.7", "[2001:db8::1]", "n1.example"].map(ToOwned::to_owned).to_vec();
        let leaf = identity.issue(&LeafNames { life: None, hosts }, now).expect("a certificate");
        for known in ["10.0.0.7", "2001:db8::1", "[2001:db8::1]", "n1.example"] {
            assert!(is_for(&leaf, known), "{known}");
        }
        assert!(!is_for(&leaf, "10.0.0.8") && !is_for(&leaf, "example"));
    }
}
