//! A registry for a measurement or a trial: made under a new name beside others, and removed again.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::memory::Memory;
use crate::url::{is_file, sqlite_path, unknown};
use crate::{EngineUrl, RegistryError, exists, open};

/// The beginning of every name.
const PREFIX: &str = "evenkeel_bench_";

/// How often to try to delete a folder in which a file was just closed.
const TRIES: u32 = 5;

/// A registry that this process made and may therefore remove. Nothing else can be removed: there is no way to get one
/// of these for a registry that exists.
#[must_use = "it stays until it is removed"]
pub struct TemporaryRegistry {
    url: String,
    place: TemporaryPlace,
}

enum TemporaryPlace {
    /// Its name, and the registry, which lives as long as somebody holds it.
    Memory(String, Arc<Memory>),
    /// A folder of its own.
    Folder(PathBuf),
    /// A namespace.
    Server(Box<EngineUrl>),
}

/// Without its URL, which may have a password in it.
impl std::fmt::Debug for TemporaryRegistry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TemporaryRegistry({})", crate::redacted(&self.url))
    }
}

impl TemporaryRegistry {
    /// Makes a registry at the engine of a URL, which itself is not touched: on a server a namespace of its own, and for
    /// SQLite a folder beside the file.
    ///
    /// # Errors
    /// The engine's, as of [`open`]; [`RegistryError::Refused`] if no folder can be made.
    pub async fn create(beside: &str) -> Result<Self, RegistryError> {
        Self::create_named(beside, &random_name()?).await
    }

    /// The same under this name.
    pub(crate) async fn create_named(beside: &str, name: &str) -> Result<Self, RegistryError> {
        let place = match beside.split_once(':') {
            Some(("memory", _)) => match Memory::new_named(name) {
                Some(memory) => TemporaryPlace::Memory(name.into(), memory),
                None => return Err(taken(beside, name)),
            },
            Some(("sqlite", rest)) if is_file(rest) => {
                let folder = sqlite_path(rest).parent().unwrap_or(Path::new("")).join(name);
                make_folder(&folder).map_err(|error| match error.kind() {
                    std::io::ErrorKind::AlreadyExists => taken(beside, name),
                    _ => RegistryError::Refused(format!(
                        "the folder {} cannot be made ({error}): name a registry in a folder that you may write to",
                        folder.display()
                    )),
                })?;
                TemporaryPlace::Folder(folder)
            }
            Some(("postgres" | "mysql" | "redis" | "etcd" | "zookeeper", _)) => {
                let url = with_namespace(beside, name)?;
                if is_taken(&url, &EngineUrl::parse(&url)?).await? {
                    return Err(taken(beside, name));
                }
                TemporaryPlace::Server(Box::new(EngineUrl::parse(&url)?))
            }
            _ => return Err(unknown(beside)),
        };
        let url = match &place {
            TemporaryPlace::Memory(name, _) => format!("memory:{name}"),
            TemporaryPlace::Folder(folder) => format!("sqlite:{}", folder.join("registry.db").display()),
            TemporaryPlace::Server(_) => with_namespace(beside, name)?,
        };
        let made = Self { url, place };
        match open(&made.url).await {
            Ok(_) => Ok(made),
            Err(error) => {
                // The engine's error says more than one about what is left of the attempt.
                let _ = made.remove().await;
                Err(error)
            }
        }
    }

    /// Its URL, with the password if the one that it was made beside has one.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Deletes it with all that is in it. Every other user must have left: one that connects later would make it again.
    ///
    /// # Errors
    /// The engine's; the text names what is left.
    pub async fn remove(self) -> Result<(), RegistryError> {
        let shown = crate::redacted(&self.url);
        let removed = match self.place {
            TemporaryPlace::Memory(name, memory) => {
                Memory::forget_name(&name);
                drop(memory);
                Ok(())
            }
            TemporaryPlace::Folder(folder) => delete_folder(&folder).await,
            TemporaryPlace::Server(url) => erase(&url).await,
        };
        removed.map_err(|error| {
            RegistryError::Unavailable(format!("the temporary registry {shown} is left behind: {error}"))
        })
    }
}

/// A name that no other process chooses.
pub(crate) fn random_name() -> Result<String, RegistryError> {
    let read = std::fs::read_to_string("/proc/sys/kernel/random/uuid");
    let read =
        read.map_err(|error| RegistryError::Unavailable(format!("this host gives no random name: {error}")))?;
    let digits = read.chars().filter(char::is_ascii_hexdigit).take(16);
    Ok(PREFIX.chars().chain(digits).collect())
}

fn taken(beside: &str, name: &str) -> RegistryError {
    let shown = crate::redacted(beside);
    RegistryError::Refused(format!("there exists {name} beside {shown}: it is left as it is; try again"))
}

/// The same URL with this namespace.
fn with_namespace(text: &str, namespace: &str) -> Result<String, RegistryError> {
    let url = EngineUrl::parse(text)?;
    let before = match url.scheme() {
        "postgres" | "mysql" => url.path_segments(["DATABASE"]).map(|_| 1)?,
        "redis" => url.path_segments(["DB"]).map(|_| 1)?,
        _ => url.path_segments([]).map(|_| 0)?,
    };
    let (scheme, rest) = text.split_once("://").ok_or_else(|| unknown(text))?;
    let (rest, options) = rest.split_once('?').map_or((rest, None), |(rest, options)| (rest, Some(options)));
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let kept = path.split('/').filter(|segment| !segment.is_empty()).take(before);
    let path = kept.chain([namespace]).map(|segment| format!("/{segment}")).collect::<String>();
    let options = options.map_or_else(String::new, |options| format!("?{options}"));
    Ok(format!("{scheme}://{authority}{path}{options}"))
}

/// Whether a server has a registry there.
async fn is_taken(text: &str, url: &EngineUrl) -> Result<bool, RegistryError> {
    match url.scheme() {
        #[cfg(feature = "redis")]
        "redis" => crate::redis::Redis::exists(url).await,
        #[cfg(feature = "etcd")]
        "etcd" => crate::etcd::Etcd::exists(url).await,
        #[cfg(feature = "zookeeper")]
        "zookeeper" => crate::zookeeper::Zookeeper::exists(url).await,
        "postgres" | "mysql" => exists(text).await,
        // Connecting says which engine is missing.
        _ => Ok(false),
    }
}

/// Deletes a registry on a server.
async fn erase(url: &EngineUrl) -> Result<(), RegistryError> {
    match url.scheme() {
        #[cfg(feature = "postgres")]
        "postgres" => crate::postgres::Postgres::erase(url).await,
        #[cfg(feature = "mysql")]
        "mysql" => crate::mysql::MySql::erase(url).await,
        #[cfg(feature = "redis")]
        "redis" => crate::redis::Redis::erase(url).await,
        #[cfg(feature = "etcd")]
        "etcd" => crate::etcd::Etcd::erase(url).await,
        #[cfg(feature = "zookeeper")]
        "zookeeper" => crate::zookeeper::Zookeeper::erase(url).await,
        // This program cannot have made anything there.
        _ => Ok(()),
    }
}

fn make_folder(folder: &Path) -> std::io::Result<()> {
    std::fs::DirBuilder::new().mode(0o700).create(folder)
}

async fn delete_folder(folder: &Path) -> Result<(), RegistryError> {
    let mut left = TRIES;
    loop {
        match std::fs::remove_dir_all(folder) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(_) if left > 0 => left -= 1,
            Err(error) => return Err(RegistryError::Unavailable(format!("{}: {error}", folder.display()))),
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_keeps_everything_but_its_namespace() {
        for (url, with) in [
            ("postgres://u:p%2F@h:1/db", "postgres://u:p%2F@h:1/db/x"),
            ("postgres://u@h/db/evenkeel?tls=on&ca=/a/b", "postgres://u@h/db/x?tls=on&ca=/a/b"),
            ("mysql://u@h/db/", "mysql://u@h/db/x"),
            ("redis://h/0/ns", "redis://h/0/x"),
            ("etcd://h1,h2:3/ns", "etcd://h1,h2:3/x"),
            ("zookeeper://h", "zookeeper://h/x"),
        ] {
            assert_eq!(with_namespace(url, "x").as_deref(), Ok(with));
        }
        for bad in ["postgres://u@h", "redis://h", "etcd://h/a/b"] {
            assert!(matches!(with_namespace(bad, "x"), Err(RegistryError::Refused(_))), "{bad}");
        }
    }

    #[tokio::test]
    async fn what_is_no_engine_is_refused_with_those_that_are() {
        for url in ["", "oracle://h/x", "sqlite:", "nothing"] {
            let refused = TemporaryRegistry::create(url).await;
            assert!(
                matches!(&refused, Err(RegistryError::Refused(why)) if why.contains("sqlite:PATH")),
                "{refused:?}"
            );
        }
        let folder = tempfile::tempdir().unwrap();
        let nowhere = format!("sqlite:{}", folder.path().join("no/such/file.db").display());
        assert!(matches!(TemporaryRegistry::create(&nowhere).await, Err(RegistryError::Refused(_))));
    }

    #[tokio::test]
    async fn names_are_valid_namespaces_and_never_the_same() {
        let (first, second) = (random_name().unwrap(), random_name().unwrap());
        assert_ne!(first, second);
        assert!(with_namespace(&format!("etcd://h/{first}"), &second).is_ok());
    }
}
