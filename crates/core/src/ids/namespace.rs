//! Namespaces: the part of a name before `/`, and names as people write them.

use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;
use core::str::FromStr;
use serde::{Deserialize, Serialize};

use super::{CalendarName, IdError, JobName, NAME_MAX, Namespace, PoolName, SecretName, check_name};

/// The longest name of a namespace in bytes.
pub const NAMESPACE_MAX: usize = 63;
/// The namespace of every name that names none.
pub const DEFAULT_NAMESPACE: &str = "default";

impl Namespace {
    /// Whether names are written without it.
    #[must_use]
    pub fn is_default(&self) -> bool {
        self.as_str() == DEFAULT_NAMESPACE
    }
}

impl Default for Namespace {
    fn default() -> Self {
        Self(DEFAULT_NAMESPACE.into())
    }
}

/// A name that is unique in its namespace. Its one text is `team-a/backup`, or `backup` in the namespace `default`.
pub trait Namespaced: FromStr<Err = IdError> + Clone {
    /// The name with its namespace, as it is kept everywhere.
    fn full(&self) -> &str;

    /// Its namespace.
    fn namespace(&self) -> &str {
        self.full().split_once('/').map_or(DEFAULT_NAMESPACE, |(namespace, _)| namespace)
    }

    /// The name inside its namespace.
    fn local(&self) -> &str {
        self.full().split_once('/').map_or(self.full(), |(_, local)| local)
    }
}

macro_rules! namespaced {
    ($($t:ident),*) => {$(
        impl Namespaced for $t {
            fn full(&self) -> &str {
                self.as_str()
            }
        }

        impl $t {
            /// Its namespace; `default` for a name without one.
            #[must_use]
            pub fn namespace(&self) -> &str {
                Namespaced::namespace(self)
            }

            /// The name inside its namespace.
            #[must_use]
            pub fn local(&self) -> &str {
                Namespaced::local(self)
            }

            /// The name as one part of a path: `team-a+backup`. No name holds the sign, so no two names share a part.
            #[must_use]
            pub fn path_part(&self) -> String {
                self.as_str().replace('/', "+")
            }
        }
    )*};
}

namespaced!(JobName, CalendarName, PoolName, SecretName);

/// A valid text, with at most one namespace before `/`, and without `default/`.
pub(super) fn check_namespaced<'a>(what: &str, text: &'a str) -> Result<&'a str, IdError> {
    let Some((namespace, local)) = text.split_once('/') else {
        check_name(what, text, NAME_MAX)?;
        return Ok(text);
    };
    check_name("namespace", namespace, NAMESPACE_MAX)?;
    check_name(what, local, NAME_MAX)?;
    if text.len() > NAME_MAX {
        return Err(IdError::new(format!(
            "{what} {text:?} has {} bytes with its namespace, allowed are {NAME_MAX}",
            text.len()
        )));
    }
    Ok(if namespace == DEFAULT_NAMESPACE { local } else { text })
}

/// A name as people write it: alone, or with its namespace in front. A name that is written alone belongs to the
/// namespace in which it is read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String", bound = "N: Namespaced")]
pub struct WrittenName<N> {
    name: N,
    /// It was written without a namespace.
    alone: bool,
}

impl<N: Namespaced> WrittenName<N> {
    /// How a name is written where it is read in this namespace: alone if both are `default`, else with its namespace.
    #[must_use]
    pub fn read_in(namespace: &str, name: N) -> Self {
        let alone = namespace == DEFAULT_NAMESPACE && name.namespace() == DEFAULT_NAMESPACE;
        Self { name, alone }
    }

    /// A name that is written with its namespace, also with `default`.
    #[must_use]
    pub fn full(name: N) -> Self {
        Self { name, alone: false }
    }

    /// Whether it was written without a namespace.
    #[must_use]
    pub fn is_alone(&self) -> bool {
        self.alone
    }

    /// The name as written; one that was written alone is in `default`.
    #[must_use]
    pub fn name(&self) -> &N {
        &self.name
    }

    /// The same, without a copy.
    #[must_use]
    pub fn into_name(self) -> N {
        self.name
    }

    /// Writes the namespace into a name that is written alone: `written` stands beside the name in the same declaration, and
    /// `other` holds where it says nothing.
    ///
    /// # Errors
    /// The name and `written` contradict each other, or the name is too long with the namespace before it.
    pub fn move_into(
        &mut self,
        written: Option<&Namespace>,
        other: Option<&Namespace>,
    ) -> Result<(), IdError> {
        let Some(namespace) = written.or(other) else { return Ok(()) };
        let own = self.name.namespace();
        if self.alone {
            *self = Self::full(self.resolve(namespace.as_str())?);
        } else if written.is_some() && namespace.as_str() != own {
            return Err(IdError::new(format!(
                "namespace is {namespace}, and the name {self} is in the namespace {own}: leave one of them out"
            )));
        }
        Ok(())
    }

    /// The name that is meant in this namespace.
    ///
    /// # Errors
    /// The name is too long with the namespace before it.
    pub fn resolve(&self, namespace: &str) -> Result<N, IdError> {
        match self.alone && namespace != DEFAULT_NAMESPACE {
            true => format!("{namespace}/{}", self.name.full()).parse(),
            false => Ok(self.name.clone()),
        }
    }
}

impl<N: Namespaced> fmt::Display for WrittenName<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.alone && self.name.namespace() == DEFAULT_NAMESPACE {
            write!(f, "{DEFAULT_NAMESPACE}/")?;
        }
        f.write_str(self.name.full())
    }
}

impl<N: Namespaced> FromStr for WrittenName<N> {
    type Err = IdError;
    fn from_str(text: &str) -> Result<Self, IdError> {
        Ok(Self { name: text.parse()?, alone: !text.contains('/') })
    }
}

impl<N: Namespaced> TryFrom<String> for WrittenName<N> {
    type Error = IdError;
    fn try_from(text: String) -> Result<Self, IdError> {
        text.parse()
    }
}

impl<N: Namespaced> From<WrittenName<N>> for String {
    fn from(name: WrittenName<N>) -> Self {
        name.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(text: &str) -> JobName {
        text.parse().unwrap()
    }

    #[test]
    fn a_name_has_one_namespace_and_one_text() {
        let parts = |text: &str| {
            let name = job(text);
            (name.to_string(), name.namespace().to_string(), name.local().to_string())
        };
        let of = |text: &str, namespace: &str, local: &str| (text.into(), namespace.into(), local.into());
        assert_eq!(parts("backup"), of("backup", "default", "backup"));
        assert_eq!(parts("default/backup"), of("backup", "default", "backup"));
        assert_eq!(parts("team-a/backup"), of("team-a/backup", "team-a", "backup"));
        assert_eq!(job("default/backup"), job("backup"));
        assert_eq!(
            [job("team-a/backup").path_part(), job("backup").path_part()],
            ["team-a+backup", "backup"]
        );
        assert_ne!(job("team-a/backup"), job("backup"));
        for wrong in ["/a", "a/", "a/b/c", "a//b", "./a", "a/..", "../a", "a/-b", "é/a", "a/ b", "/"] {
            assert!(wrong.parse::<JobName>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_namespace_and_the_whole_have_their_own_limits() {
        let (longest, longer) = ("n".repeat(NAMESPACE_MAX), "n".repeat(NAMESPACE_MAX + 1));
        assert!(longest.parse::<Namespace>().is_ok() && longer.parse::<Namespace>().is_err());
        assert!(format!("{longest}/a").parse::<PoolName>().is_ok());
        let error = format!("{longer}/a").parse::<PoolName>().unwrap_err().to_string();
        assert!(error.contains("use 1 to 63"), "{error}");
        let fits = format!("{longest}/{}", "x".repeat(NAME_MAX - NAMESPACE_MAX - 1));
        assert!(fits.parse::<CalendarName>().is_ok());
        let error = format!("{fits}x").parse::<CalendarName>().unwrap_err().to_string();
        assert!(error.contains("129 bytes with its namespace, allowed are 128"), "{error}");
    }

    #[test]
    fn a_name_that_is_written_alone_belongs_to_the_namespace_that_reads_it() {
        let read = |text: &str, namespace: &str| {
            let written: WrittenName<JobName> = text.parse().unwrap();
            assert_eq!(written.to_string(), text, "it is written as it was read");
            written.resolve(namespace).unwrap().to_string()
        };
        assert_eq!(read("x", "a"), "a/x");
        assert_eq!(read("x", "default"), "x");
        assert_eq!(read("default/x", "a"), "x");
        assert_eq!(read("a/x", "a"), "a/x");
        assert_eq!(read("b/x", "a"), "b/x");
        let long: WrittenName<JobName> = "x".repeat(NAME_MAX).parse().unwrap();
        assert!(long.resolve("a").is_err() && long.resolve("default").is_ok());
    }

    #[test]
    fn a_name_is_written_so_that_it_is_read_back_in_its_namespace() {
        for namespace in ["default", "a"] {
            for name in ["x", "a/x", "b/x"].map(job) {
                let written = WrittenName::read_in(namespace, name.clone());
                let read: WrittenName<JobName> = written.to_string().parse().unwrap();
                assert_eq!(read, written);
                assert_eq!(read.resolve(namespace), Ok(name));
            }
        }
        assert_eq!(WrittenName::read_in("default", job("x")).to_string(), "x");
        assert_eq!(WrittenName::read_in("a", job("x")).to_string(), "default/x");
    }
}
