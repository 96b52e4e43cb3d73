//! Ids as types: names, numbers, and how each is written and parsed.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use core::fmt;
use core::str::FromStr;
use serde::{Deserialize, Serialize};

use crate::characters;
use crate::time::Wall;

mod fire;
mod namespace;

pub use crate::characters::is_unseen;
pub use fire::FireId;
pub use namespace::{DEFAULT_NAMESPACE, NAMESPACE_MAX, Namespaced, WrittenName};

/// The longest name in bytes, with its namespace.
pub const NAME_MAX: usize = 128;

/// A text that is not a valid id. Its display says what is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdError(String);

impl IdError {
    pub(crate) fn new(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Display for IdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for IdError {}

/// Names become parts of keys, paths and file names, hence the narrow alphabet (reliability fault M3).
fn check_name<'a>(what: &str, text: &'a str, max: usize) -> Result<&'a str, IdError> {
    let mut bytes = text.bytes();
    let first = bytes.next().is_some_and(|b| b.is_ascii_alphanumeric());
    let rest = bytes.all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'));
    if first && rest && text.len() <= max {
        return Ok(text);
    }
    let shown: String = text.chars().take(40).collect();
    Err(IdError(format!(
        "{what} {shown:?} is not allowed: {}use 1 to {max} of A-Z a-z 0-9 . _ - and begin with a letter or a digit",
        hidden_part(text)
    )))
}

/// The beginning of a message about a name, where it holds a character that people do not see.
pub(crate) fn hidden_part(text: &str) -> String {
    characters::hidden(text).map_or_else(String::new, |c| format!("it holds {}; ", characters::describe(c)))
}

macro_rules! name {
    ($(#[$doc:meta])* $t:ident, $check:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $t(Arc<str>);

        impl $t {
            /// The name as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $t {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                let checked: Result<&str, IdError> = ($check)(text);
                Ok(Self(checked?.into()))
            }
        }

        impl TryFrom<String> for $t {
            type Error = IdError;
            fn try_from(text: String) -> Result<Self, IdError> {
                text.parse()
            }
        }

        impl From<$t> for String {
            fn from(name: $t) -> Self {
                name.0.to_string()
            }
        }

        impl fmt::Display for $t {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name!(
    /// The name of a node, chosen by its operator. Two lives of one node share it.
    NodeName,
    |text| check_name("node name", text, NAME_MAX)
);
name!(
    /// The name of a job; it never changes (S2-12).
    JobName,
    |text| namespace::check_namespaced("job name", text)
);
name!(
    /// The name of a calendar, by which jobs share it.
    CalendarName,
    |text| namespace::check_namespaced("calendar name", text)
);
name!(
    /// The name of a pool, which limits how many runs of its jobs execute at once.
    PoolName,
    |text| namespace::check_namespaced("pool name", text)
);
name!(
    /// The name of a secret that the registry keeps.
    SecretName,
    |text| namespace::check_namespaced("secret name", text)
);
name!(
    /// The name of a notifier, which the settings of nodes declare and jobs use.
    NotifierName,
    |text| check_name("notifier name", text, NAME_MAX)
);
name!(
    /// The id of a trigger (run now): sending it twice triggers one run (I24).
    RequestId,
    |text| check_name("request id", text, NAME_MAX)
);
name!(
    /// The name of a lock that an embedder takes (S1-09).
    LockName,
    |text| check_name("lock name", text, NAME_MAX)
);
name!(
    /// A cluster-wide operation of a beat (S0-26), such as `dispatch`; embedders may name their own.
    Operation,
    |text| check_name("operation", text, NAME_MAX)
);

name!(
    /// The name of a namespace, which owns jobs, calendars and pools: their names are unique inside it.
    Namespace,
    |text| check_name("namespace", text, NAMESPACE_MAX)
);

name!(
    /// The name of a user or of an API token. An e-mail address is one.
    PrincipalName,
    check_principal
);

fn check_principal(text: &str) -> Result<&str, IdError> {
    // The further signs are harmless in keys and paths, and never first.
    let plain: String = text.chars().map(|c| if matches!(c, '@' | '+') { '.' } else { c }).collect();
    match check_name("name", &plain, NAME_MAX) {
        Ok(_) => Ok(text),
        Err(_) => {
            let shown: String = text.chars().take(40).collect();
            Err(IdError(format!(
                "name {shown:?} is not allowed: use 1 to {NAME_MAX} of A-Z a-z 0-9 . _ - @ + and begin with a letter or a digit"
            )))
        }
    }
}

/// One life of a node: the lease it joined with. Never reused, so what an earlier life left behind is told apart.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Member {
    /// The name of the node.
    pub node: NodeName,
    /// The number of the life; equal to the number of its lease.
    pub incarnation: u64,
}

impl Member {
    /// An id that sorts before all others, for ranges.
    pub(crate) fn least() -> Self {
        Self { node: NodeName("".into()), incarnation: 0 }
    }
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.node, self.incarnation)
    }
}

impl FromStr for Member {
    type Err = IdError;
    fn from_str(text: &str) -> Result<Self, IdError> {
        let parts = text.split_once('@').and_then(|(n, i)| Some((n.parse().ok()?, i.parse().ok()?)));
        let (node, incarnation) =
            parts.ok_or_else(|| IdError(format!("member {text:?} is not name@number")))?;
        Ok(Self { node, incarnation })
    }
}

impl TryFrom<String> for Member {
    type Error = IdError;
    fn try_from(text: String) -> Result<Self, IdError> {
        text.parse()
    }
}

impl From<Member> for String {
    fn from(member: Member) -> Self {
        member.to_string()
    }
}

/// A shard's index, from 0 to the job's number of shards − 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Shard(pub u32);

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The cause of a run: a moment of the job's schedule, or a manual trigger.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Fire {
    /// The schedule was due at this moment.
    #[serde(rename = "due")]
    Due(Wall),
    /// A trigger with this id.
    #[serde(rename = "ask")]
    Asked(RequestId),
}

impl Fire {
    /// The first fire in order.
    pub(crate) const FIRST: Self = Self::Due(Wall::MIN);
}

/// The execution of one fire on one shard. It exists once, whichever node computes it.
///
/// Written `job:1763749200000:0` (due moment in ms) or `job:ask-<request id>:0`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RunId {
    /// The job.
    pub job: JobName,
    /// The fire.
    pub fire: Fire,
    /// The shard.
    pub shard: Shard,
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.fire {
            Fire::Due(at) => write!(f, "{}:{}:{}", self.job, at.0, self.shard),
            Fire::Asked(id) => write!(f, "{}:ask-{id}:{}", self.job, self.shard),
        }
    }
}

impl FromStr for RunId {
    type Err = IdError;
    fn from_str(text: &str) -> Result<Self, IdError> {
        let bad = || {
            IdError(format!(
                "{text:?} is no id of a run: write it as lists of runs show it, such as nightly:1767225600000:0"
            ))
        };
        let mut parts = text.split(':');
        let (Some(job), Some(fire), Some(shard), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(bad());
        };
        let fire = match fire.strip_prefix("ask-") {
            Some(id) => Fire::Asked(id.parse()?),
            None => Fire::Due(Wall(fire.parse().map_err(|_| bad())?)),
        };
        Ok(Self { job: job.parse()?, fire, shard: Shard(shard.parse().map_err(|_| bad())?) })
    }
}

impl TryFrom<String> for RunId {
    type Error = IdError;
    fn try_from(text: String) -> Result<Self, IdError> {
        text.parse()
    }
}

impl From<RunId> for String {
    fn from(run: RunId) -> Self {
        run.to_string()
    }
}

/// The fencing token of a run: a system that the run writes to refuses a token lower than it has seen (I1, I2).
///
/// The registry's generation and the job's count of claims, packed so that comparing the numbers compares both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Token(pub u64);

impl Token {
    const SEQ_BITS: u32 = 48;

    /// Packs the generation (how often the registry may have gone back in time) over the job's `seq`.
    #[must_use]
    pub fn new(generation: u16, seq: u64) -> Self {
        Self((u64::from(generation) << Self::SEQ_BITS) | (seq & ((1 << Self::SEQ_BITS) - 1)))
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A count with its noun, in words: `1 job`, `3 jobs`.
#[must_use]
pub fn counted(n: usize, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_narrow() {
        for good in ["a", "0", "A.b_c-9", &"x".repeat(128)] {
            assert!(good.parse::<JobName>().is_ok(), "{good}");
        }
        for bad in ["", ".a", "-a", "a/b/c", "a b", "a\0", "ä", "a:b", "a@b", &"x".repeat(129)] {
            assert!(bad.parse::<JobName>().is_err(), "{bad}");
        }
        for alone in ["a/b", "default/b"] {
            assert!(alone.parse::<NodeName>().is_err() && alone.parse::<LockName>().is_err(), "{alone}");
        }
    }

    #[test]
    fn runs_and_members_are_read_back_as_written() {
        for text in ["backup:1763749200000:0", "a:ask-2026.x:7", "team-a/backup:1763749200000:0"] {
            assert_eq!(text.parse::<RunId>().map(|r| r.to_string()), Ok(text.into()));
        }
        assert_eq!("n-1@77".parse::<Member>().map(|m| m.to_string()), Ok("n-1@77".into()));
        for bad in ["a:b", "a:1:0:0", "a:1:x", "a::0", "a:ask-:0"] {
            assert!(bad.parse::<RunId>().is_err(), "{bad}");
        }
    }

    /// proves: I1
    #[test]
    fn a_later_generation_beats_every_seq_of_an_earlier_one() {
        assert!(Token::new(2, 1) > Token::new(1, u64::MAX));
        assert!(Token::new(1, 8) > Token::new(1, 7));
    }
}
