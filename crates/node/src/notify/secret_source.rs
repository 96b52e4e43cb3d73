//! Where a notifier's password or secret is read from.

use std::fmt;
use std::path::PathBuf;

/// The most bytes of a secret.
const SECRET_MAX: usize = 4096;

/// Where a password or a secret is read from each time that it is needed. It is stored nowhere else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretSource {
    /// The first line of this file.
    File(PathBuf),
    /// This environment variable of the node.
    Variable(String),
}

impl SecretSource {
    /// Reads it; `word` is what errors call it.
    pub(super) fn read(&self, word: &str) -> Result<String, String> {
        let text = match self {
            Self::File(path) => {
                let text = std::fs::read_to_string(path).map_err(|e| format!("the {word} file: {e}"))?;
                text.lines().next().unwrap_or_default().to_owned()
            }
            Self::Variable(name) => {
                std::env::var(name).map_err(|_| format!("the node has no variable {name} with the {word}"))?
            }
        };
        match text.len() {
            1..=SECRET_MAX => Ok(text),
            n => Err(format!("{self} has {n} bytes: 1 to {SECRET_MAX} are a {word}")),
        }
    }
}

impl fmt::Display for SecretSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "file {}", path.display()),
            Self::Variable(name) => write!(f, "variable {name}"),
        }
    }
}
