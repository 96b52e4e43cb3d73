//! Certificates for servers that are spoken to with encryption.

use std::process::Command;

use crate::host::skip;

/// A folder of certificates that nobody else trusts.
pub(crate) struct Certificates(tempfile::TempDir);

impl Certificates {
    /// `cert.pem` with `key.pem` for `localhost`, `ca.pem` who vouches for it, and `stranger.pem` who does not; `None`, said
    /// aloud, without `openssl`.
    pub(crate) fn make() -> Option<Self> {
        let folder = tempfile::tempdir().expect("a folder");
        let script = "
            openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=ca -keyout ca.key -out ca.pem &&
            openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=stranger -keyout s.key -out stranger.pem &&
            openssl req -newkey rsa:2048 -nodes -subj /CN=localhost -keyout key.pem -out cert.csr &&
            printf 'subjectAltName=DNS:localhost,IP:127.0.0.1' > names &&
            openssl x509 -req -in cert.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names -out cert.pem";
        let made = Command::new("sh").args(["-ec", script]).current_dir(folder.path()).output();
        if made.as_ref().is_ok_and(|made| made.status.success()) {
            return Some(Self(folder));
        }
        skip(&format!("openssl makes no certificates: {made:?}"));
        None
    }

    pub(crate) fn at(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }
}
