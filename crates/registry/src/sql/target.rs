//! From a URL to the server that it names, and to that server's dialect.

use super::connection::SqlTarget;
use super::statement::SqlDialect;
use crate::{EngineUrl, RegistryError};

impl SqlTarget {
    /// The server at a URL, and the namespace there.
    ///
    /// # Errors
    /// [`RegistryError::Refused`] says how to fix the URL.
    pub fn from_url(url: &EngineUrl) -> Result<(Self, &str), RegistryError> {
        match url.scheme() {
            #[cfg(feature = "postgres")]
            "postgres" => crate::postgres::target(url),
            #[cfg(feature = "mysql")]
            "mysql" => crate::mysql::target(url),
            _ => Err(url.refusal("is no SQL server that this program knows: use postgres:// or mysql://")),
        }
    }

    /// The dialect of the server.
    #[must_use]
    pub fn dialect(&self) -> &'static SqlDialect {
        match self {
            #[cfg(feature = "postgres")]
            Self::Postgres(_) => &crate::postgres::SQL_DIALECT,
            #[cfg(feature = "mysql")]
            Self::MySql(_) => &crate::mysql::SQL_DIALECT,
        }
    }
}
