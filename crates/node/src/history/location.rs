//! The location of history: a file on this host, or a database that all nodes share.

use std::fmt;
use std::path::{Path, PathBuf};

use evenkeel_registry::sql::SqlTarget;
use evenkeel_registry::{EngineUrl, UrlPurpose};

use super::dialect::{self, HistoryDialect};

/// How error messages name the history's URL.
const HISTORY: UrlPurpose = UrlPurpose { noun: "history", password: "EVENKEEL_HISTORY_PASSWORD" };

/// The location of history.
#[derive(Clone)]
pub(crate) enum HistoryLocation {
    /// A file.
    File(PathBuf),
    /// Tables on a server.
    Server(Box<HistoryServer>),
}

/// A database on a server, and the names of its tables.
#[derive(Clone)]
pub(crate) struct HistoryServer {
    pub(super) target: SqlTarget,
    pub(super) dialect: &'static HistoryDialect,
    /// The prefix of each table's name.
    pub(super) prefix: String,
    /// Its kind, and its URL without its password.
    pub(super) label: String,
    /// Its URL without its password.
    url: String,
}

impl HistoryLocation {
    /// The location by the setting `url`; by default beside the registry's file, shared by the nodes of
    /// the host, or else in the data folder.
    ///
    /// # Errors
    /// The URL is invalid; the text says how to write one and holds no password.
    pub(crate) fn of(url: Option<&str>, registry: &str, data: &Path) -> Result<Self, String> {
        let Some(url) = url else {
            return Ok(Self::File(match registry.strip_prefix("sqlite:") {
                Some(registry) => PathBuf::from(format!("{registry}-history")),
                None => data.join("history"),
            }));
        };
        match url.split_once(':') {
            Some(("sqlite", path)) if !path.is_empty() => Ok(Self::File(PathBuf::from(path))),
            Some(("postgres" | "mysql", _)) => {
                HistoryServer::of(url).map(|server| Self::Server(Box::new(server)))
            }
            _ => Err(format!(
                "history {:?} is not known: use sqlite:PATH, postgres://USER@HOST/DATABASE or mysql://USER@HOST/DATABASE",
                evenkeel_registry::redacted(url)
            )),
        }
    }

    /// Whether every node with the same setting uses the same history.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self, Self::Server(_))
    }
}

impl HistoryServer {
    fn of(url: &str) -> Result<Self, String> {
        let url = EngineUrl::parse_for(HISTORY, url).map_err(|e| e.to_string())?;
        let (target, namespace) = SqlTarget::from_url(&url).map_err(|e| e.to_string())?;
        let dialect = dialect::of(&target);
        let prefix = format!("{namespace}_");
        Ok(Self { target, dialect, prefix, label: url.label(), url: url.to_string() })
    }
}

impl fmt::Display for HistoryLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Server(server) => f.write_str(&server.url),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn location(url: Option<&str>, registry: &str) -> Result<String, String> {
        HistoryLocation::of(url, registry, Path::new("/data")).map(|place| place.to_string())
    }

    #[test]
    fn history_lies_beside_the_registry_unless_told_otherwise() {
        assert_eq!(location(None, "sqlite:/r/books"), Ok("/r/books-history".into()));
        assert_eq!(location(None, "memory:"), Ok("/data/history".into()));
        assert_eq!(location(None, "postgres://u@h/d"), Ok("/data/history".into()));
        assert_eq!(location(Some("sqlite:/h"), "sqlite:/r"), Ok("/h".into()));
        for unknown in ["sqlite:", "redis://h/0", "/h", "oracle:x"] {
            let why = location(Some(unknown), "sqlite:/r").unwrap_err();
            assert!(why.contains("use sqlite:PATH, postgres://"), "{why}");
        }
    }

    #[test]
    fn a_database_is_named_without_its_password() {
        let url = "postgres://u:hunter2@h/db/blue";
        let Ok(shared) = HistoryLocation::of(Some(url), "sqlite:/r", Path::new("/")) else {
            panic!("it is known")
        };
        assert!(shared.is_shared());
        assert_eq!(shared.to_string(), "postgres://u:***@h/db/blue");
        for wrong in [
            "mysql://u:hunter2@h",
            "postgres://:hunter2@h/db",
            "mysql:u:hunter2@h/db",
            "redis://u:hunter2@h/0",
        ] {
            let why = location(Some(wrong), "sqlite:/r").unwrap_err();
            assert!(why.starts_with("history ") && !why.contains("hunter2"), "{why}");
        }
    }
}
