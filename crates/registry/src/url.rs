//! Opens the engine for a URL.

mod engine;

use std::path::Path;
use std::sync::Arc;

use crate::clock::HostClock;
use crate::file_integrity::is_truncated;
use crate::memory::Memory;
use crate::sqlite::Sqlite;
use crate::{Registry, RegistryError};

pub use engine::{EngineAddress, EngineUrl, Exposure, PASSWORD, TlsFiles, UrlPurpose};

const KNOWN: &str = "use sqlite:PATH (a file that the processes of this host share), memory: (this process only), \
                     postgres://USER@HOST/DATABASE, mysql://USER@HOST/DATABASE, redis://HOST/DB, etcd://HOST,HOST,HOST or \
                     zookeeper://HOST,HOST,HOST, each with /NAMESPACE behind it where clusters share an engine";

/// Opens the registry at a URL: `sqlite:PATH`, `memory:`, `memory:NAME` to share one inside this process, or one of the
/// engines that [`EngineUrl`] names.
///
/// # Errors
/// [`RegistryError::Refused`] for a URL or an engine that cannot be used, [`RegistryError::Unavailable`] when it may
/// work later.
pub async fn open(url: &str) -> Result<Arc<dyn Registry>, RegistryError> {
    match url.split_once(':') {
        Some(("memory", "")) => Ok(Arc::new(Memory::new(Arc::new(HostClock)))),
        Some(("memory", name)) => Ok(Memory::named(name)),
        Some(("sqlite", rest)) if is_file(rest) => {
            Ok(Arc::new(Sqlite::open(sqlite_path(rest), Arc::new(HostClock)).await?))
        }
        Some(("postgres" | "mysql" | "redis" | "etcd" | "zookeeper", _)) => {
            connect(&EngineUrl::parse(url)?).await
        }
        _ => Err(unknown(url)),
    }
}

/// The refusal of a URL that names no engine.
pub(crate) fn unknown(url: &str) -> RegistryError {
    let what = match url.split_once(':') {
        Some(("sqlite", _)) => "names no file".to_owned(),
        Some((scheme, _)) => format!("has the unknown scheme {scheme:?}"),
        None => "has no scheme".to_owned(),
    };
    RegistryError::Refused(format!("registry {:?} {what}: {KNOWN}", engine::redacted(url)))
}

/// Whether the text after `sqlite:` names a file.
pub(crate) fn is_file(rest: &str) -> bool {
    !["", ":memory:"].contains(&rest)
}

/// Checks whether there is a registry at a URL. Creates nothing; for engines where the check would have to write, the
/// answer is yes.
///
/// # Errors
/// Same as [`open`].
pub async fn exists(url: &str) -> Result<bool, RegistryError> {
    match url.split_once(':') {
        Some(("sqlite", rest)) if is_file(rest) => {
            // An empty file is one without tables yet, or a truncated one.
            let path = sqlite_path(rest);
            Ok(is_truncated(path) || std::fs::metadata(path).is_ok_and(|found| found.len() > 0))
        }
        #[cfg(feature = "postgres")]
        Some(("postgres", _)) => crate::postgres::Postgres::exists(&EngineUrl::parse(url)?).await,
        #[cfg(feature = "mysql")]
        Some(("mysql", _)) => crate::mysql::MySql::exists(&EngineUrl::parse(url)?).await,
        _ => Ok(true),
    }
}

/// The exposure of the engine at a URL; `None` for one in a file or in this process.
///
/// # Errors
/// [`RegistryError::Refused`] for an invalid URL.
pub fn exposure(url: &str) -> Result<Option<Exposure>, RegistryError> {
    match url.split_once(':') {
        Some(("postgres" | "mysql" | "redis" | "etcd" | "zookeeper", _)) => {
            EngineUrl::parse(url)?.exposure().map(Some)
        }
        _ => Ok(None),
    }
}

/// The path after `sqlite:`: `sqlite:///var/x` is how others write `sqlite:/var/x`.
pub(crate) fn sqlite_path(rest: &str) -> &Path {
    Path::new(rest.strip_prefix("//").filter(|path| path.starts_with('/')).unwrap_or(rest))
}

/// A registry's URL without its password, fit to be shown and stored.
#[must_use]
pub fn redacted(url: &str) -> String {
    match url.split_once(':') {
        // A path may contain anything.
        Some(("sqlite" | "memory", _)) => url.to_owned(),
        _ => engine::redacted(url),
    }
}

/// Connects to the engine of the scheme.
async fn connect(url: &EngineUrl) -> Result<Arc<dyn Registry>, RegistryError> {
    match url.scheme() {
        #[cfg(feature = "postgres")]
        "postgres" => Ok(Arc::new(crate::postgres::Postgres::connect(url).await?)),
        #[cfg(feature = "mysql")]
        "mysql" => Ok(Arc::new(crate::mysql::MySql::connect(url).await?)),
        #[cfg(feature = "zookeeper")]
        "zookeeper" => Ok(Arc::new(crate::zookeeper::Zookeeper::connect(url).await?)),
        #[cfg(feature = "redis")]
        "redis" => Ok(Arc::new(crate::redis::Redis::connect(url).await?)),
        #[cfg(feature = "etcd")]
        "etcd" => Ok(Arc::new(crate::etcd::Etcd::connect(url).await?)),
        scheme => Err(url.refusal(&format!(
            "needs the engine {scheme}, which this program was built without: build it with the feature {scheme}"
        ))),
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

    /// proves: S4-27, S4-28
    #[test]
    fn the_docs_say_of_each_engine_how_it_is_started_and_what_it_is_worth() {
        let page = include_str!("../../../docs/engines.md");
        for (engine, weakness) in [
            ("etcd", "What it promises"),
            ("ZooKeeper", "a majority of the ensemble"),
            ("Redis", "**One primary at a time.**"),
            ("PostgreSQL", "What it promises"),
            ("MySQL and MariaDB", "What it promises"),
        ] {
            let block = page.split("\n## ").find(|block| block.starts_with(engine)).expect(engine);
            for said in
                [weakness, "Install and start it safely", "What it promises", "evenkeel serve --registry"]
            {
                assert!(block.contains(said), "{engine}: {said}");
            }
        }
        let choice =
            page.split("\n## ").find(|block| block.starts_with("Choosing an engine")).expect("a choice");
        for said in [
            "| ZooKeeper, three or five servers | one or two of them | harder",
            "| Redis | nothing: a single point",
        ] {
            assert!(choice.contains(said), "{said}");
        }
    }

    #[test]
    fn what_is_shown_of_a_url_holds_no_password() {
        assert_eq!(redacted("sqlite:/a@b?c"), "sqlite:/a@b?c");
        let shown = redacted("postgres://u:secret@h/d?password=secret");
        assert!(shown.contains("h/d") && !shown.contains("secret"), "{shown}");
    }

    #[tokio::test]
    async fn what_is_not_known_is_refused_with_what_is() {
        for url in [
            "",
            "consul://a:2379",
            "/var/lib/registry.db",
            "sqlite:",
            "sqlite::memory:",
            "SQLITE:x",
            "oracle://user:hunter2@x/y",
        ] {
            let why = refused(url).await;
            assert!(why.contains("sqlite:PATH") && why.contains("postgres://"), "{why}");
            assert!(!why.contains("hunter2"), "{why}");
        }
    }

    #[test]
    fn how_an_engine_is_reached_is_told_by_its_url() {
        let told = |url: &str| {
            let Exposure { loopback, login, tls } = exposure(url).unwrap().expect("an engine");
            (loopback, login, tls)
        };
        // Without the environment's password, whatever it may be.
        assert_eq!(
            told("etcd://127.0.0.1,[::1]:2379,localhost"),
            (true, std::env::var(PASSWORD).is_ok(), false)
        );
        assert_eq!(told("redis://:pw@10.0.0.7/0"), (false, true, false));
        assert_eq!(told("etcd://u:pw@127.0.0.1,h2?tls=on"), (false, true, true), "one of them is elsewhere");
        assert!(told("zookeeper://h?tls=on&cert=c&key=k").1, "a certificate says who asks");
        assert_eq!(exposure("sqlite:/x").unwrap(), None);
        assert_eq!(exposure("memory:").unwrap(), None);
        assert!(exposure("etcd://h?tls=perhaps").is_err());
    }

    #[tokio::test]
    async fn what_is_looked_for_is_not_made() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r.db");
        let url = format!("sqlite:{}", path.display());
        assert!(!exists(&url).await.unwrap() && !path.exists());
        std::fs::write(&path, "").unwrap();
        assert!(!exists(&url).await.unwrap(), "nothing is in it");
        drop(open(&url).await.unwrap());
        assert!(exists(&url).await.unwrap());
        assert!(exists(&url.replace("sqlite:", "sqlite://")).await.unwrap());
        assert!(exists("memory:").await.unwrap());
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
