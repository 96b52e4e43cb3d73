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

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_core::time::Millis;

    async fn refused(url: &str) -> String {
        match open(url).await.map(drop) {
            Err(RegistryError::Refused(why)) => why,
            other => panic!("{url} should have been refused: {other:?}"),
        }
    }

    #[tokio::test]
    async fn what_is_not_known_is_refused_with_what_is() {
        for url in [
            "",
            "etcd://a:2379",
            "postgres://x",
            "/var/lib/registry.db",
            "sqlite:",
            "sqlite::memory:",
            "SQLITE:x",
        ] {
            let why = refused(url).await;
            assert!(why.contains("sqlite:PATH") && why.contains("memory:"), "{why}");
        }
    }

    #[tokio::test]
    async fn a_named_memory_is_shared_while_it_is_held_and_an_unnamed_never() {
        let first = open("memory:url-test").await.unwrap();
        let lease = first.open(Millis::secs(60)).await.unwrap().lease;
        let second = open("memory:url-test").await.unwrap();
        assert!(second.renew(lease).await.unwrap().is_some());
        assert!(open("memory:").await.unwrap().renew(lease).await.unwrap().is_none());
        drop((first, second));
        assert!(open("memory:url-test").await.unwrap().renew(lease).await.unwrap().is_none());
    }

    #[tokio::test]
    async fn a_path_may_be_written_with_slashes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r.db");
        for url in [format!("sqlite:{}", path.display()), format!("sqlite://{}", path.display())] {
            assert_eq!(open(&url).await.unwrap().facts().engine, "sqlite");
        }
        assert!(path.exists());
    }
}
