//! The door: an engine for a URL.

use std::path::Path;
use std::sync::Arc;

use crate::clock::HostClock;
use crate::memory::Memory;
use crate::sqlite::Sqlite;
use crate::{Registry, RegistryError};

const KNOWN: &str =
    "use sqlite:PATH (a file that the processes of this host share) or memory: (this process only)";

/// Opens the registry at a URL: `sqlite:PATH`, `memory:`, or `memory:NAME` to share one inside this process.
///
/// # Errors
/// [`RegistryError::Refused`] for a URL or a file that cannot be used, [`RegistryError::Unavailable`] when it may work
/// later.
pub async fn open(url: &str) -> Result<Arc<dyn Registry>, RegistryError> {
    let refused = |what: String| RegistryError::Refused(format!("registry {url:?} {what}: {KNOWN}"));
    match url.split_once(':') {
        Some(("memory", "")) => Ok(Arc::new(Memory::new(Arc::new(HostClock)))),
        Some(("memory", name)) => Ok(Memory::named(name)),
        Some(("sqlite", "" | ":memory:")) => Err(refused("names no file".into())),
        Some(("sqlite", rest)) => {
            // `sqlite:///var/x` is how others write `sqlite:/var/x`.
            let path = rest.strip_prefix("//").filter(|path| path.starts_with('/')).unwrap_or(rest);
            Ok(Arc::new(Sqlite::open(Path::new(path), Arc::new(HostClock)).await?))
        }
        Some((scheme, _)) => Err(refused(format!("has the unknown scheme {scheme:?}"))),
        None => Err(refused("has no scheme".into())),
    }
}
