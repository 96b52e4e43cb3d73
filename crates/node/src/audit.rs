//! The audit log's types: who requested which change, and the outcome (`docs/concepts/audit.md`).

use std::fmt;

use evenkeel_core::effect::Event;
use evenkeel_core::ids::{JobName, Namespace, NodeName, is_unseen};
use evenkeel_core::input::{ClusterSetting, Command, CommandObject};
use evenkeel_core::time::Wall;
use serde::{Deserialize, Serialize};

/// The most characters kept of what a requester claims, and of an object's name.
const CLAIMS_MAX: usize = 120;
/// The most jobs of one `apply` that an entry names.
const NAMED_MAX: usize = 20;

/// The detail of an upgrade that was allowed. The process that writes it is gone once the upgrade is done.
pub const UPGRADE_BEGINS: &str = "it begins: the event upgraded or not_upgraded says how it went";

/// What the deciding node has itself proved about a requester.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Proof {
    /// The requester has the cluster's key.
    Key,
    /// The requester is this user: by password, or by a session that began with one.
    User(String),
    /// The requester has this API token.
    Token(String),
    /// The OpenID Connect provider of the cluster vouches for this person. It is no user of the cluster, whatever its name.
    Oidc(String),
    /// A trusted proxy vouches for this person. It is no user of the cluster, whatever its name.
    Proxy(String),
    /// The requester is a process of this user of the node's own host, on the node's socket.
    Uid(u32),
    /// The requester is on the node's own host: in entries of earlier versions, whose nodes on loopback asked for no key.
    Local,
    /// The requester is the node's own process: the program that embeds it, or a signal to it.
    Process,
    /// The request is signed as a node's with the cluster's key. Which node, and for whom it asks, is only its claim.
    Node,
    /// Nothing: the requester was not let in.
    Nobody,
}

impl Proof {
    /// Those that name no principal, as programs and people write them.
    pub const WORDS: [&'static str; 5] = ["key", "local", "process", "node", "nobody"];

    pub(crate) fn parse(text: &str) -> Option<Self> {
        Some(match text.split_once(':') {
            Some(("user", name)) => Self::User(name.to_owned()),
            Some(("token", name)) => Self::Token(name.to_owned()),
            Some(("oidc", name)) => Self::Oidc(name.to_owned()),
            Some(("proxy", name)) => Self::Proxy(name.to_owned()),
            Some(("uid", number)) => Self::Uid(number.parse().ok()?),
            Some(_) => return None,
            None => match text {
                "key" => Self::Key,
                "local" => Self::Local,
                "process" => Self::Process,
                "node" => Self::Node,
                "nobody" => Self::Nobody,
                _ => return None,
            },
        })
    }

    /// Whether it names one principal.
    fn is_principal(&self) -> bool {
        matches!(self, Self::User(_) | Self::Token(_) | Self::Oidc(_) | Self::Proxy(_))
    }
}

/// As programs and people write it: `key`, `user:ann`, `token:ci` …
impl fmt::Display for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key => f.write_str("key"),
            Self::User(name) => write!(f, "user:{name}"),
            Self::Token(name) => write!(f, "token:{name}"),
            Self::Oidc(name) => write!(f, "oidc:{name}"),
            Self::Proxy(name) => write!(f, "proxy:{name}"),
            Self::Uid(number) => write!(f, "uid:{number}"),
            Self::Local => f.write_str("local"),
            Self::Process => f.write_str("process"),
            Self::Node => f.write_str("node"),
            Self::Nobody => f.write_str("nobody"),
        }
    }
}

impl From<Proof> for String {
    fn from(proof: Proof) -> Self {
        proof.to_string()
    }
}

impl TryFrom<String> for Proof {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).ok_or_else(|| format!("{text:?} is no proof of a requester"))
    }
}

/// The requester of a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requester {
    /// What was proved about the requester.
    pub proof: Proof,
    /// The address of the request. For a request forwarded `via` another node: that node's address, and what it claims
    /// of its caller. Empty within the process.
    pub from: String,
    /// What the requester claims to be, such as `root@host`. It is not proved.
    pub claims: String,
}

impl Requester {
    /// A requester with this proof, this address and this claim.
    #[must_use]
    pub fn new(proof: Proof, from: &str, claims: &str) -> Self {
        Self { proof, from: truncate(from), claims: truncate(claims) }
    }

    /// The name that is stored with a switch: the proved principal. The cluster's key proves none, so then it is what the
    /// requester claims, if anything.
    #[must_use]
    pub fn name(&self) -> String {
        match self.claims.as_str() {
            claims if !claims.is_empty() && !self.proof.is_principal() => claims.to_owned(),
            _ => self.proof.to_string(),
        }
    }

    /// The node's own process as the requester.
    #[must_use]
    pub fn process() -> Self {
        Self::new(Proof::Process, "", "")
    }
}

/// A change that is requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditAction {
    /// A word: `apply`, `delete`, `run`, `drain` …
    pub verb: String,
    /// The object in words: `job backup`, `node n2`, `settings`.
    pub object: String,
    /// The job, if the change concerns one.
    pub job: Option<JobName>,
    /// The node that the change concerns, if any.
    pub about: Option<NodeName>,
    /// Details in words.
    pub what: String,
}

impl AuditAction {
    /// An action with this verb on this object.
    #[must_use]
    pub fn new(verb: &str, object: &str) -> Self {
        Self { verb: truncate(verb), object: truncate(object), job: None, about: None, what: String::new() }
    }

    /// The same action, about this job.
    #[must_use]
    pub fn of_job(self, job: Option<JobName>) -> Self {
        Self { job, ..self }
    }

    /// The same action, about this node.
    #[must_use]
    pub fn of_node(self, about: Option<NodeName>) -> Self {
        Self { about, ..self }
    }

    pub(crate) fn on_node(verb: &str, node: &NodeName) -> Self {
        Self::new(verb, &format!("node {node}")).of_node(Some(node.clone()))
    }

    fn with_detail(self, what: String) -> Self {
        Self { what, ..self }
    }

    /// The action that an event reports as done around the nodes; `None` for any other event.
    pub(crate) fn of_foreign_entry(event: &Event) -> Option<Self> {
        match event {
            Event::UnsealedJob(job) => {
                Some(Self::new("write", &CommandObject::Job(job).to_string()).of_job(Some(job.clone())))
            }
            Event::UnsealedPrincipal(kind, name) => {
                Some(Self::new("write", &CommandObject::Principal(*kind, name).to_string()))
            }
            _ => None,
        }
    }

    /// The action of a command that this node got; `None` for one that is not recorded ([`Command::describe`]).
    pub(crate) fn of(command: &Command, me: &NodeName) -> Option<Self> {
        let described = command.describe()?;
        let about = match described.object {
            CommandObject::Node(node) => Some(node.unwrap_or(me)),
            _ => described.on_node,
        };
        let job = match described.object {
            CommandObject::Job(name) => Some(name),
            CommandObject::Run(run) => Some(&run.job),
            _ => None,
        };
        let object = match described.object {
            CommandObject::Node(None) => format!("node {me}"),
            object => object.to_string(),
        };
        let action = Self::new(described.verb, &object).of_job(job.cloned()).of_node(about.cloned());
        Some(action.with_detail(detail(command)))
    }
}

/// What the verb and the object of a command do not say.
fn detail(command: &Command) -> String {
    let command = command.plain();
    match command {
        Command::Rollback(_, version) => format!("to version {version}"),
        Command::Apply(_) | Command::Declare(_) if command.declared().count() != 1 => {
            let more = if command.declared().count() > NAMED_MAX { " …" } else { "" };
            let names: Vec<_> = command.declared().take(NAMED_MAX).map(JobName::as_str).collect();
            format!("{}{more}", names.join(", "))
        }
        Command::RunNow(_, id) => format!("request {id}"),
        Command::RunWith(_, id, options) => {
            let node = options.node.as_ref().map(|node| format!(", on node {node} alone"));
            let given = Some(&options.parameters).filter(|given| !given.is_empty());
            let given = given.map(|given| format!(", with {given}"));
            truncate(&format!("request {id}{}{}", node.unwrap_or_default(), given.unwrap_or_default()))
        }
        Command::Backfill(_, id, options) => {
            let given = Some(&options.parameters).filter(|given| !given.is_empty());
            let given = given.map(|given| format!(", with {given}"));
            truncate(&format!(
                "{id}: fires from {} to {}, {} at once{}",
                options.from,
                options.to,
                options.max_parallel,
                given.unwrap_or_default()
            ))
        }
        Command::CancelBackfill(_, id) => id.to_string(),
        Command::Switch(_, node, _) => format!("on node {node} alone"),
        Command::Shards(_, shards, _) => truncate(&format!("shards {shards}")),
        Command::Configure(setting) => match setting {
            ClusterSetting::Planner(_) => "planner",
            ClusterSetting::Beat(_) => "beat",
            ClusterSetting::Strikes(_) => "strikes",
            ClusterSetting::Handover(_) => "handover",
            ClusterSetting::Spread(_) => "spread",
        }
        .to_owned(),
        _ => String::new(),
    }
}

/// The outcome of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditOutcome {
    /// It was requested; the outcome is not known yet.
    Asked,
    /// It was done.
    Applied,
    /// It was so already.
    Unchanged,
    /// It was refused; the text says why.
    Refused,
    /// The requester was not let in.
    Denied,
    /// It may have been done; the outcome cannot be determined.
    Unknown,
}

impl AuditOutcome {
    /// Every outcome, in the order of their numbers in the tables.
    pub const ALL: [Self; 6] =
        [Self::Asked, Self::Applied, Self::Unchanged, Self::Refused, Self::Denied, Self::Unknown];

    /// The outcome as programs and people write it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Asked => "asked",
            Self::Applied => "applied",
            Self::Unchanged => "unchanged",
            Self::Refused => "refused",
            Self::Denied => "denied",
            Self::Unknown => "unknown",
        }
    }

    /// Whether the outcome is final.
    #[must_use]
    pub fn is_end(self) -> bool {
        !matches!(self, Self::Asked | Self::Unknown)
    }
}

impl fmt::Display for AuditOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One entry of the audit log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditRecord {
    /// Its position in the order in which history received entries.
    pub seq: u64,
    /// Its id, the same in every history.
    pub id: String,
    /// When the change was requested.
    pub at: Wall,
    /// The node that decided.
    pub node: String,
    /// The requester.
    pub asker: Requester,
    /// A word: `apply`, `delete`, `run`, `drain` …
    pub verb: String,
    /// The object in words.
    pub object: String,
    /// The job, if the change concerns one.
    pub job: Option<JobName>,
    /// The node that the change concerns, if any.
    pub about: Option<NodeName>,
    /// The outcome.
    pub outcome: AuditOutcome,
    /// The version before; `None` where there was none.
    pub before: Option<u64>,
    /// The version after.
    pub after: Option<u64>,
    /// What was changed, or why not, in words. Values appear only where they can hold no secret.
    pub what: String,
}

/// A filter of audit entries; the latest come first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditFilter {
    /// About this job only.
    pub job: Option<JobName>,
    /// Only about jobs of this namespace. A node of an earlier version refuses this filter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<Namespace>,
    /// Only about this node, or decided by it.
    pub node: Option<String>,
    /// Only of requesters with this proof or this claim.
    pub who: Option<String>,
    /// Only since this moment.
    pub since: Option<Wall>,
    /// Only up to this moment.
    pub until: Option<Wall>,
    /// At most this many.
    pub limit: u32,
    /// Only before this [`AuditRecord::seq`]: the last one of the page before.
    pub before: Option<u64>,
}

impl Default for AuditFilter {
    fn default() -> Self {
        Self {
            job: None,
            namespace: None,
            node: None,
            who: None,
            since: None,
            until: None,
            limit: 100,
            before: None,
        }
    }
}

/// Shortens a text to one line of bounded length.
fn truncate(text: &str) -> String {
    let plain = |c: char| if is_unseen(c) { '\u{fffd}' } else { c };
    text.chars().take(CLAIMS_MAX).map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_somebody_says_of_himself_is_one_short_line() {
        let said = format!("a\r\nb\u{202e}\u{200b}{}", "x".repeat(1_000));
        let asker = Requester::new(Proof::Nobody, "127.0.0.1", &said);
        assert!(asker.claims.starts_with("a\u{fffd}\u{fffd}b\u{fffd}\u{fffd}x"));
        assert_eq!(asker.claims.chars().count(), CLAIMS_MAX);
    }

    #[test]
    fn a_switch_is_of_the_proved_principal_and_not_of_a_claim() {
        let name = |proof, claims| Requester::new(proof, "10.0.0.7", claims).name();
        assert_eq!(name(Proof::User("ann".to_owned()), "root@h"), "user:ann");
        assert_eq!(name(Proof::Key, "root@h"), "root@h");
        assert_eq!(name(Proof::Key, ""), "key");
    }

    #[test]
    fn words_are_read_back_as_written() {
        for text in Proof::WORDS.into_iter().chain(["user:ann@example.org", "token:ci"]) {
            let proof = Proof::parse(text).unwrap();
            assert_eq!(proof.to_string(), text);
            assert_eq!(serde_json::to_value(&proof).unwrap(), text);
        }
        assert_eq!(Proof::parse("king:ann"), None);
        for outcome in AuditOutcome::ALL {
            assert_eq!(serde_json::to_value(outcome).unwrap(), outcome.as_str());
        }
    }

    #[test]
    fn many_jobs_are_one_deed_that_names_some() {
        let job = |n: u32| {
            evenkeel_core::job::JobFile::new(
                format!("j{n}").parse().unwrap(),
                "",
                evenkeel_core::job::Work::Function("f".into()),
            )
        };
        let me = "a".parse().unwrap();
        let one = AuditAction::of(&Command::Apply(vec![job(7)]), &me).unwrap();
        assert_eq!((one.object.as_str(), one.job), ("job j7", Some("j7".parse().unwrap())));
        let many = AuditAction::of(&Command::Apply((0..50).map(job).collect()), &me).unwrap();
        assert_eq!((many.object.as_str(), many.job), ("50 jobs", None));
        assert!(many.what.starts_with("j0, j1,") && many.what.ends_with(" …"), "{}", many.what);
        assert_eq!(AuditAction::of(&Command::Lock("l".parse().unwrap()), &me), None);
    }
}
