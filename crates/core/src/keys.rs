//! The keys of the registry tree: one function builds each, and one parses all. Keys are spelt nowhere else.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;

use crate::ids::{
    CalendarName, JobName, LockName, Member, Namespace, Namespaced, NodeName, Operation, PrincipalName,
    SecretName,
};
use crate::principal::PrincipalKind;
use crate::run_limit::RunLimit;

/// The address of one entry. Many parts share it, so a copy is cheap.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<str>);

impl Key {
    /// Takes a key as an engine stored it.
    #[must_use]
    pub fn from_stored(text: impl Into<String>) -> Self {
        Self(text.into().into())
    }

    /// The key as an engine stores it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether every node receives changes of this key. Run states are hot: written at each fire by their owner alone,
    /// and read only at a takeover. So are loads: written by each node once a beat, and read by the planner alone.
    #[must_use]
    pub fn is_cold(&self) -> bool {
        !HOT_ROOTS.iter().any(|root| self.0.starts_with(root))
    }

    /// Whether nodes seal entries of this key: declarations of jobs, users and API tokens, which decide what runs and who
    /// is let in.
    #[must_use]
    pub fn has_seal(&self) -> bool {
        let job = || self.0.starts_with("job/") && self.0.ends_with("/spec");
        job() || self.0.starts_with("user/") || self.0.starts_with("token/")
    }

    /// Whether the entry is deleted some time after its member: the run states of a sharded job are. Other entries
    /// without a lease stay for ever.
    #[must_use]
    pub fn is_of_a_member(&self) -> bool {
        let run_state = self.0.strip_prefix(RUN_ROOT);
        run_state.is_some_and(|rest| !rest.ends_with("/claim") && !rest.ends_with("/plan"))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The prefixes of the keys of hot entries, and of no others, in their order.
pub const HOT_ROOTS: [&str; 2] = [LOAD_ROOT, RUN_ROOT];
/// The prefix of the keys of loads.
const LOAD_ROOT: &str = "load/";
/// The prefix of the keys of run states and plans.
const RUN_ROOT: &str = "run/";

/// The prefix of the keys of namespaces.
const NAMESPACE_ROOT: &str = "namespace/";

/// Keys that every fire uses are built without the formatting machinery.
fn spelt(parts: &[&str]) -> Key {
    Key(parts.concat().into())
}

/// A member: present exactly while its lease lives.
#[must_use]
pub fn node(member: &Member) -> Key {
    Key(format!("node/{member}").into())
}

/// The declaration of a job.
#[must_use]
pub fn spec(job: &JobName) -> Key {
    spelt(&["job/", job.as_str(), "/spec"])
}

/// The owner of a job.
#[must_use]
pub fn assignment(job: &JobName) -> Key {
    spelt(&["job/", job.as_str(), "/assignment"])
}

/// Triggers of a job, kept after they were handled.
#[must_use]
pub fn triggers(job: &JobName) -> Key {
    spelt(&["job/", job.as_str(), "/triggers"])
}

/// A claimed job's watermark and open fires. It belongs to the job and passes from owner to owner with the assignment.
#[must_use]
pub fn run_state(job: &JobName) -> Key {
    spelt(&[RUN_ROOT, job.as_str(), "/claim"])
}

/// A sharded job's state on one member: the shards it answers for and their runs. Written only by that member,
/// and after its end by the members that settle it.
#[must_use]
pub fn shard_run_state(job: &JobName, member: &Member) -> Key {
    Key(format!("run/{job}/{member}").into())
}

/// The plan of a dispatched job: its planned and running runs.
#[must_use]
pub fn plan(job: &JobName) -> Key {
    spelt(&[RUN_ROOT, job.as_str(), "/plan"])
}

/// The node that does an operation in this beat.
#[must_use]
pub fn beat(operation: &Operation) -> Key {
    Key(format!("beat/{operation}").into())
}

/// The load of a node.
#[must_use]
pub fn load(node: &NodeName) -> Key {
    Key(format!("{LOAD_ROOT}{node}").into())
}

/// The items that a node processed of a job in its latest interval.
#[must_use]
pub fn count(node: &NodeName, job: &JobName) -> Key {
    Key(format!("count/{node}/{job}").into())
}

/// How often one node could not be reached by another.
#[must_use]
pub fn strike(node: &NodeName, observer: &NodeName) -> Key {
    Key(format!("strike/{node}/{observer}").into())
}

/// Whether a node is marked as offline.
#[must_use]
pub fn offline(node: &NodeName) -> Key {
    Key(format!("offline/{node}").into())
}

/// The serving leader.
#[must_use]
pub fn serving() -> Key {
    Key("serving".into())
}

/// The settings of the whole cluster.
#[must_use]
pub fn settings() -> Key {
    Key("settings".into())
}

/// The switches of one job on one node.
#[must_use]
pub fn switches(node: &NodeName, job: &JobName) -> Key {
    Key(format!("intent/{node}/{job}").into())
}

/// The intent to drain a node.
#[must_use]
pub fn intent(node: &NodeName) -> Key {
    Key(format!("intent/{node}").into())
}

/// A lock of an embedder.
#[must_use]
pub fn lock(name: &LockName) -> Key {
    Key(format!("lock/{name}").into())
}

/// The last fires of a job that people were notified of as late or absent.
#[must_use]
pub fn notifications(job: &JobName) -> Key {
    Key(format!("notified/{job}").into())
}

/// The cluster's own facts: its id, the layout's version, the generation.
#[must_use]
pub fn cluster() -> Key {
    Key("cluster".into())
}

/// The permits of a pool, or of a namespace that limits its runs.
#[must_use]
pub fn permits(limit: &RunLimit) -> Key {
    match limit {
        RunLimit::Pool(name) => Key(format!("pool/{name}").into()),
        RunLimit::Namespace(name) => Key(format!("permits/{name}").into()),
    }
}

/// A calendar that jobs share.
#[must_use]
pub fn calendar(name: &CalendarName) -> Key {
    Key(format!("calendar/{name}").into())
}

/// A secret.
#[must_use]
pub fn secret(name: &SecretName) -> Key {
    Key(format!("secret/{name}").into())
}

/// A user or an API token.
#[must_use]
pub fn principal(kind: PrincipalKind, name: &PrincipalName) -> Key {
    Key(format!("{}/{name}", kind.as_str()).into())
}

/// A namespace of jobs, calendars and pools.
#[must_use]
pub fn namespace(name: &Namespace) -> Key {
    spelt(&[NAMESPACE_ROOT, name.as_str()])
}

/// Whether this is the key of a namespace.
pub(crate) fn is_namespace(key: &Key) -> bool {
    key.0.starts_with(NAMESPACE_ROOT)
}

/// The address of an entry as a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParsedKey {
    /// See [`node`].
    Node(Member),
    /// See [`spec`].
    Spec(JobName),
    /// See [`assignment`].
    Assignment(JobName),
    /// See [`triggers`].
    Triggers(JobName),
    /// See [`run_state`].
    RunState(JobName),
    /// See [`shard_run_state`].
    ShardRunState(JobName, Member),
    /// See [`switches`].
    Switches(NodeName, JobName),
    /// See [`intent`].
    Intent(NodeName),
    /// See [`lock`].
    Lock(LockName),
    /// See [`plan`].
    Plan(JobName),
    /// See [`beat`].
    Beat(Operation),
    /// See [`load`].
    Load(NodeName),
    /// See [`count`].
    Count(NodeName, JobName),
    /// See [`strike`]: the node, and the observer.
    Strike(NodeName, NodeName),
    /// See [`offline`].
    Offline(NodeName),
    /// See [`serving`].
    Serving,
    /// See [`settings`].
    Settings,
    /// See [`cluster`].
    Cluster,
    /// See [`calendar`].
    Calendar(CalendarName),
    /// See [`permits`].
    Permits(RunLimit),
    /// See [`namespace`].
    Namespace(Namespace),
    /// See [`secret`].
    Secret(SecretName),
    /// See [`notifications`].
    Notifications(JobName),
    /// See [`principal`].
    Principal(PrincipalKind, PrincipalName),
}

/// Parses a key. `None` for keys of other layouts, which are left alone.
#[must_use]
pub fn parse(key: &Key) -> Option<ParsedKey> {
    let Some((root, rest)) = key.0.split_once('/') else {
        return match key.as_str() {
            "serving" => Some(ParsedKey::Serving),
            "settings" => Some(ParsedKey::Settings),
            "cluster" => Some(ParsedKey::Cluster),
            _ => None,
        };
    };
    Some(match root {
        "node" => ParsedKey::Node(rest.parse().ok()?),
        "job" => match rest.rsplit_once('/')? {
            (job, "spec") => ParsedKey::Spec(canonical(job)?),
            (job, "assignment") => ParsedKey::Assignment(canonical(job)?),
            (job, "triggers") => ParsedKey::Triggers(canonical(job)?),
            _ => return None,
        },
        "run" => match rest.rsplit_once('/')? {
            (job, "claim") => ParsedKey::RunState(canonical(job)?),
            (job, "plan") => ParsedKey::Plan(canonical(job)?),
            (job, member) => ParsedKey::ShardRunState(canonical(job)?, member.parse().ok()?),
        },
        "intent" => match rest.split_once('/') {
            Some((node, job)) => ParsedKey::Switches(node.parse().ok()?, canonical(job)?),
            None => ParsedKey::Intent(rest.parse().ok()?),
        },
        "count" => {
            let (node, job) = rest.split_once('/')?;
            ParsedKey::Count(node.parse().ok()?, canonical(job)?)
        }
        "strike" => {
            let (node, observer) = rest.split_once('/')?;
            ParsedKey::Strike(node.parse().ok()?, observer.parse().ok()?)
        }
        "user" => ParsedKey::Principal(PrincipalKind::User, rest.parse().ok()?),
        "token" => ParsedKey::Principal(PrincipalKind::Token, rest.parse().ok()?),
        "lock" => ParsedKey::Lock(rest.parse().ok()?),
        "beat" => ParsedKey::Beat(rest.parse().ok()?),
        "load" => ParsedKey::Load(rest.parse().ok()?),
        "offline" => ParsedKey::Offline(rest.parse().ok()?),
        "calendar" => ParsedKey::Calendar(canonical(rest)?),
        "pool" => ParsedKey::Permits(RunLimit::Pool(canonical(rest)?)),
        "permits" => ParsedKey::Permits(RunLimit::Namespace(rest.parse().ok()?)),
        "secret" => ParsedKey::Secret(canonical(rest)?),
        "namespace" => ParsedKey::Namespace(rest.parse().ok()?),
        "notified" => ParsedKey::Notifications(canonical(rest)?),
        _ => return None,
    })
}

/// A name that is spelt as this version spells it, so that no two keys mean one entry: without `default/`.
fn canonical<N: Namespaced>(text: &str) -> Option<N> {
    text.parse().ok().filter(|name: &N| name.full() == text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_read_back() {
        // The second would be mistaken for the first if parts were only counted from the left, and so on.
        for job in ["j.1", "team-a/j.1", "spec/spec", "claim", "plan/claim", "claim/plan"] {
            reads_every_key_back(&job.parse().unwrap());
        }
        assert!(HOT_ROOTS.is_sorted());
    }

    fn reads_every_key_back(job: &JobName) {
        let member: Member = "a@7".parse().unwrap();
        let (pool, inside) =
            (RunLimit::Pool("n/p".parse().unwrap()), RunLimit::Namespace("n".parse().unwrap()));
        for (key, parsed) in [
            (node(&member), ParsedKey::Node(member.clone())),
            (spec(job), ParsedKey::Spec(job.clone())),
            (assignment(job), ParsedKey::Assignment(job.clone())),
            (triggers(job), ParsedKey::Triggers(job.clone())),
            (run_state(job), ParsedKey::RunState(job.clone())),
            (shard_run_state(job, &member), ParsedKey::ShardRunState(job.clone(), member.clone())),
            (switches(&member.node, job), ParsedKey::Switches(member.node.clone(), job.clone())),
            (intent(&member.node), ParsedKey::Intent(member.node.clone())),
            (lock(&"l".parse().unwrap()), ParsedKey::Lock("l".parse().unwrap())),
            (plan(job), ParsedKey::Plan(job.clone())),
            (beat(&"dispatch".parse().unwrap()), ParsedKey::Beat("dispatch".parse().unwrap())),
            (load(&member.node), ParsedKey::Load(member.node.clone())),
            (count(&member.node, job), ParsedKey::Count(member.node.clone(), job.clone())),
            (
                strike(&member.node, &"b".parse().unwrap()),
                ParsedKey::Strike(member.node.clone(), "b".parse().unwrap()),
            ),
            (offline(&member.node), ParsedKey::Offline(member.node.clone())),
            (serving(), ParsedKey::Serving),
            (settings(), ParsedKey::Settings),
            (cluster(), ParsedKey::Cluster),
            (calendar(&"n/c".parse().unwrap()), ParsedKey::Calendar("n/c".parse().unwrap())),
            (permits(&pool), ParsedKey::Permits(pool.clone())),
            (permits(&inside), ParsedKey::Permits(inside.clone())),
            (namespace(&"n".parse().unwrap()), ParsedKey::Namespace("n".parse().unwrap())),
            (secret(&"n/s".parse().unwrap()), ParsedKey::Secret("n/s".parse().unwrap())),
            (notifications(job), ParsedKey::Notifications(job.clone())),
            (
                principal(PrincipalKind::User, &"ann@example.org".parse().unwrap()),
                ParsedKey::Principal(PrincipalKind::User, "ann@example.org".parse().unwrap()),
            ),
            (
                principal(PrincipalKind::Token, &"ci".parse().unwrap()),
                ParsedKey::Principal(PrincipalKind::Token, "ci".parse().unwrap()),
            ),
        ] {
            assert_eq!(key.is_of_a_member(), matches!(parsed, ParsedKey::ShardRunState(..)), "{key}");
            assert_eq!(parse(&key), Some(parsed), "{key}");
        }
        assert!(!run_state(job).is_cold() && !plan(job).is_cold() && assignment(job).is_cold());
        assert!(!load(&member.node).is_cold() && node(&member).is_cold());
    }

    #[test]
    fn foreign_keys_are_left_alone() {
        for text in [
            "",
            "node",
            "node/x",
            "job/a",
            "job/a/spec/x",
            "job/../spec",
            "run/a/b",
            "cluster/x",
            "calendar",
            "job/a/b/c/spec",
            "job/default/a/spec",
            "run/default/a/claim",
            "run/a/b/c",
            "pool/default/p",
            "calendar/a/b/c",
            "secret/default/s",
            "intent/n/default/j",
            "count/n/a/b/c",
            "serving/x",
            "lock/a/b",
            "job//spec",
        ] {
            assert_eq!(parse(&Key::from_stored(text)), None, "{text}");
        }
    }
}
