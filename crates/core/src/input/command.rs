//! The commands that a node accepts, and their one description: the API, its list of changes and the audit log are made
//! of it.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use super::declaration::Declaration;
use super::offer::Offer;
use super::precondition::Precondition;
use crate::calendar::Calendar;
use crate::ids::{
    CalendarName, JobName, LockName, Namespace, NodeName, Operation, PrincipalName, RequestId, RunId,
    SecretName, counted,
};
use crate::job::{JobFile, Occasion, RunParameters};
use crate::namespace::NamespaceSettings;
use crate::principal::{JobRights, Principal, PrincipalKind};
use crate::record::{Handover, PlannerKind, ProcessedItems, SealedSecret};
use crate::registry::Revision;
use crate::settings::Spread;
use crate::shards::ShardSet;
use crate::time::Wall;

/// The commands that a node accepts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Command {
    /// Do this if its object is as the caller wants it. Only a command that changes one object with a version takes that.
    If(Precondition, Box<Self>),
    /// Do this on jobs on which the caller has these rights, by their labels at the moment of the change. Around all others.
    Within(Box<JobRights>, Box<Self>),
    /// Create or replace jobs, each on its own; the same declaration twice has one effect (S1-86 … S1-88). The node parses
    /// them: if one is invalid, none is applied.
    Apply(Vec<JobFile>),
    /// The same for a caller that has compared the texts of declarations with the node's view, which is cheaper.
    Declare(Vec<Declaration>),
    /// Declare again what an earlier version of a job declared: its file, and that version.
    Rollback(Box<JobFile>, u64),
    /// Create or replace a calendar; the same declaration twice has one effect.
    Calendar(Box<Calendar>),
    /// Delete a calendar that no job names.
    DeleteCalendar(CalendarName),
    /// Create a user or an API token, or replace the version of it that the caller has read; 0 is none.
    Principal(Box<Principal>, u64),
    /// Delete a user or an API token.
    DeletePrincipal(PrincipalKind, PrincipalName),
    /// Note that a principal was used: the same but for its last use.
    PrincipalUsed(Box<Principal>),
    /// Create a namespace or replace its settings; the same settings twice have one effect.
    Namespace(Box<NamespaceSettings>),
    /// Set a secret, which is sealed for the version that follows the one that the caller has read.
    Secret(Box<SealedSecret>),
    /// Delete a secret.
    DeleteSecret(SecretName),
    /// Delete a namespace that holds no job, no calendar and no secret.
    DeleteNamespace(Namespace),
    /// Pause the job: it keeps its owner and runs only when triggered manually.
    Pause(JobName),
    /// Resume the job's schedule from now on.
    Resume(JobName),
    /// Enable the job: it may be owned and fires from now on.
    Enable(JobName),
    /// Disable the job: no node may own it.
    Disable(JobName),
    /// Delete the job.
    Delete(JobName),
    /// Make a job of an entry without a valid seal, as it was last written at this revision.
    Accept(JobName, Revision),
    /// Run the job once, now; the same id triggers one run.
    RunNow(JobName, RequestId),
    /// The same with parameters, or only for one node's shards of a sharded job.
    RunWith(JobName, RequestId, Box<RunOptions>),
    /// Make up for the fires of a span of the past; the same id is one backfill.
    Backfill(JobName, RequestId, Box<BackfillOptions>),
    /// Claim no further fire of a backfill; runs of it that are open go on.
    CancelBackfill(JobName, RequestId),
    /// Change one switch of a sharded job on one node.
    Switch(JobName, NodeName, NodeSwitch),
    /// Exclude all present nodes from a sharded job, each until it is restarted.
    Shutdown(JobName),
    /// Enable or disable these shards of a sharded job.
    Shards(JobName, ShardSet, bool),
    /// Look at all jobs again and claim the free ones without waiting for other nodes (S1-85).
    Claim,
    /// Drain this node: it releases each job after its run (S1-60).
    Drain(NodeName),
    /// End the drain: the node claims jobs again (S1-65).
    Undrain(NodeName),
    /// Cancel a run that this node executes, or is to start or to attempt again.
    Kill(RunId),
    /// Take a lock, or take it once more (S1-09).
    Lock(LockName),
    /// Release a lock, once for each time it was taken.
    Unlock(LockName),
    /// Accept an offer: another node has planned runs for this one; look at the plans of their jobs.
    Offer(Vec<Offer>),
    /// Claim an operation for this beat, for an embedder (S0-24).
    Beat(Operation),
    /// Claim the notification that a fire of a job is late or absent: the node that is answered `Done` sends it.
    Notify(JobName, Occasion, Wall),
    /// Change a setting of the whole cluster.
    Configure(ClusterSetting),
    /// Write the tree in the newest layout that a member knows, if all members know it.
    FinalizeUpgrade,
    /// Cordon this node: it keeps what it has and gets nothing new.
    Cordon(NodeName),
    /// End the cordon: the node gets new work again.
    Uncordon(NodeName),
    /// Mark a node as online again, whatever strikes it has (S0-52).
    Activate(NodeName),
    /// Record what this node processed of a job's data in the interval that is over, for embedders (S2-21).
    Count(JobName, ProcessedItems),
    /// Hand everything over before the process ends: finish what runs, claim nothing, then close the lease.
    Leave,
}

/// What is special about a manual run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RunOptions {
    /// The only node that runs its shards of a sharded job; all nodes when absent.
    pub node: Option<NodeName>,
    /// The parameters that are given. They are checked against the declaration that the job has when the request is written,
    /// in the same commit.
    pub parameters: RunParameters,
}

/// Which fires a backfill runs, and how.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BackfillOptions {
    /// The first moment of the span.
    pub from: Wall,
    /// The first moment after the span; none that is to come.
    pub to: Wall,
    /// How many of its runs may be open at once, at least 1; never more than the overlap policy of the job allows.
    pub max_parallel: u32,
    /// The parameters of its runs. They are checked where the request is written.
    pub parameters: RunParameters,
}

/// A setting of the whole cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClusterSetting {
    /// The planner of dispatched jobs: a new node each beat, or the leader.
    Planner(PlannerKind),
    /// The length of a beat in seconds, 1 to 3,600.
    Beat(u32),
    /// How many strikes make a node offline, 1 to 100.
    Strikes(u32),
    /// The wait of a new serving leader.
    Handover(Handover),
    /// How free jobs are spread over nodes.
    Spread(Spread),
}

/// A switch of a sharded job on one node. Each has its own way back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NodeSwitch {
    /// Whether the node fires its shards only when triggered manually; kept through restarts (S2-38).
    Paused(bool),
    /// Whether the node is excluded from the job; kept through restarts (S2-34).
    Disabled(bool),
    /// The node is excluded until it is restarted (S2-39).
    Shutdown,
}

/// A verb on a kind of object, in the words of the API and of the audit log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CommandKind {
    /// The verb.
    pub verb: &'static str,
    /// The kind of object that is changed.
    pub object: ObjectKind,
}

/// A kind of object that a command changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ObjectKind {
    /// Several jobs.
    Jobs,
    /// A job.
    Job,
    /// A calendar.
    Calendar,
    /// A namespace.
    Namespace,
    /// A run.
    Run,
    /// A node.
    Node,
    /// The settings of the cluster.
    Settings,
    /// The layout of the registry's tree.
    Layout,
    /// The console.
    Console,
    /// A user.
    User,
    /// An API token.
    Token,
    /// A secret.
    Secret,
}

/// What a command does, to which object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandDescription<'a> {
    /// The verb.
    pub verb: &'static str,
    /// The object that is changed.
    pub object: CommandObject<'a>,
    /// The only node on which the object is changed; `None` for a change on all nodes.
    pub on_node: Option<&'a NodeName>,
}

/// The object that a command changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandObject<'a> {
    /// So many jobs, not one.
    Jobs(usize),
    /// A job.
    Job(&'a JobName),
    /// A calendar.
    Calendar(&'a CalendarName),
    /// A namespace.
    Namespace(&'a Namespace),
    /// A run.
    Run(&'a RunId),
    /// A node; `None` for the node that gets the command.
    Node(Option<&'a NodeName>),
    /// The settings of the cluster.
    Settings,
    /// The layout of the registry's tree.
    Layout,
    /// A user or an API token.
    Principal(PrincipalKind, &'a PrincipalName),
    /// A secret.
    Secret(&'a SecretName),
}

impl CommandKind {
    /// Jobs are declared.
    pub const APPLY_JOBS: Self = Self::new("apply", ObjectKind::Jobs);
    /// A job is declared.
    pub const APPLY_JOB: Self = Self::new("apply", ObjectKind::Job);
    /// An earlier version of a job is declared again.
    pub const ROLLBACK: Self = Self::new("rollback", ObjectKind::Job);
    /// A job is deleted.
    pub const DELETE_JOB: Self = Self::new("delete", ObjectKind::Job);
    /// An entry without a valid seal becomes a job.
    pub const ACCEPT_JOB: Self = Self::new("accept", ObjectKind::Job);
    /// A job is triggered.
    pub const RUN: Self = Self::new("run", ObjectKind::Job);
    /// Runs are requested for the fires of a span of the past.
    pub const BACKFILL: Self = Self::new("backfill", ObjectKind::Job);
    /// A backfill is ended.
    pub const CANCEL_BACKFILL: Self = Self::new("cancel-backfill", ObjectKind::Job);
    /// A calendar is declared.
    pub const APPLY_CALENDAR: Self = Self::new("apply", ObjectKind::Calendar);
    /// A calendar is deleted.
    pub const DELETE_CALENDAR: Self = Self::new("delete", ObjectKind::Calendar);
    /// A user is created or changed.
    pub const APPLY_USER: Self = Self::new("apply", ObjectKind::User);
    /// A user is deleted.
    pub const DELETE_USER: Self = Self::new("delete", ObjectKind::User);
    /// A token is created or changed.
    pub const APPLY_TOKEN: Self = Self::new("apply", ObjectKind::Token);
    /// A token is deleted.
    pub const DELETE_TOKEN: Self = Self::new("delete", ObjectKind::Token);
    /// A namespace is declared.
    pub const APPLY_NAMESPACE: Self = Self::new("apply", ObjectKind::Namespace);
    /// A namespace is deleted.
    pub const DELETE_NAMESPACE: Self = Self::new("delete", ObjectKind::Namespace);
    /// A secret is set.
    pub const SET_SECRET: Self = Self::new("set", ObjectKind::Secret);
    /// A secret is deleted.
    pub const DELETE_SECRET: Self = Self::new("delete", ObjectKind::Secret);
    /// A run is cancelled.
    pub const KILL: Self = Self::new("kill", ObjectKind::Run);
    /// A node claims the free jobs.
    pub const CLAIM: Self = Self::new("claim", ObjectKind::Node);
    /// A setting of the cluster is changed.
    pub const CONFIGURE: Self = Self::new("set", ObjectKind::Settings);
    /// The layout is raised.
    pub const FINALIZE_UPGRADE: Self = Self::new("finalize-upgrade", ObjectKind::Layout);
    /// The output of a run is deleted. This and what follows is no [`Command`]: the process around the node does it.
    pub const FORGET: Self = Self::new("forget", ObjectKind::Run);
    /// A run is triggered once more.
    pub const RESTART: Self = Self::new("restart", ObjectKind::Run);
    /// A token is made with which another host gets the cluster's identity.
    pub const JOIN_TOKEN: Self = Self::new("join-token", ObjectKind::Node);
    /// Another host gets the cluster's identity.
    pub const JOIN: Self = Self::new("join", ObjectKind::Node);
    /// All sessions of a user are ended.
    pub const LOG_OUT: Self = Self::new("logout", ObjectKind::User);
    /// A user changes its own password.
    pub const PASSWORD: Self = Self::new("password", ObjectKind::User);
    /// A token gets another secret.
    pub const ROTATE_TOKEN: Self = Self::new("rotate", ObjectKind::Token);
    /// A one-time link to the console is given.
    pub const LOGIN_LINK: Self = Self::new("link", ObjectKind::Console);
    /// A node's process continues in another program.
    pub const UPGRADE: Self = Self::new("upgrade", ObjectKind::Node);

    /// A verb on a kind of object.
    #[must_use]
    pub const fn new(verb: &'static str, object: ObjectKind) -> Self {
        Self { verb, object }
    }
}

impl ObjectKind {
    /// The kind in one word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Jobs => "jobs",
            Self::Job => "job",
            Self::Calendar => "calendar",
            Self::Namespace => "namespace",
            Self::Run => "run",
            Self::Node => "node",
            Self::Settings => "settings",
            Self::Layout => "layout",
            Self::Console => "console",
            Self::User => PrincipalKind::User.as_str(),
            Self::Token => PrincipalKind::Token.as_str(),
            Self::Secret => "secret",
        }
    }
}

impl CommandObject<'_> {
    /// Whether the object has a version that rises with each change.
    #[must_use]
    pub fn has_version(&self) -> bool {
        match self {
            Self::Job(_) | Self::Calendar(_) | Self::Namespace(_) | Self::Principal(..) | Self::Secret(_) => {
                true
            }
            Self::Jobs(_) | Self::Run(_) | Self::Node(_) | Self::Settings | Self::Layout => false,
        }
    }
}

impl CommandDescription<'_> {
    /// Whether only the leader may do it, where one leads the cluster (S4-33): it changes what is declared.
    #[must_use]
    pub fn needs_leader(&self) -> bool {
        matches!(
            self.object,
            CommandObject::Jobs(_)
                | CommandObject::Job(_)
                | CommandObject::Calendar(_)
                | CommandObject::Namespace(_)
        )
    }
}

/// The object in words: `job backup`, `node n2`, `settings`.
impl fmt::Display for CommandObject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Jobs(jobs) => f.write_str(&counted(*jobs, "job")),
            Self::Job(name) => write!(f, "job {name}"),
            Self::Calendar(name) => write!(f, "calendar {name}"),
            Self::Namespace(name) => write!(f, "namespace {name}"),
            Self::Run(run) => write!(f, "run {run}"),
            Self::Node(Some(name)) => write!(f, "node {name}"),
            Self::Node(None) => f.write_str("node"),
            Self::Settings => f.write_str(ObjectKind::Settings.as_str()),
            Self::Layout => f.write_str(ObjectKind::Layout.as_str()),
            Self::Principal(kind, name) => write!(f, "{} {name}", kind.as_str()),
            Self::Secret(name) => write!(f, "secret {name}"),
        }
    }
}

impl Command {
    /// What the command does, to which object: the one place that has its verb.
    ///
    /// `None` for the internal work of programs and nodes, which changes nothing that a person would ask about: locks,
    /// beats, offers, counts, last uses of tokens, and which node sends a notification.
    #[must_use]
    pub fn describe(&self) -> Option<CommandDescription<'_>> {
        use CommandObject as O;
        let (verb, object) = match self {
            Self::If(_, command) | Self::Within(_, command) => return command.describe(),
            Self::Apply(_) | Self::Declare(_) => {
                let only = self.declared().next().filter(|_| self.declared().nth(1).is_none());
                (CommandKind::APPLY_JOBS.verb, only.map_or(O::Jobs(self.declared().count()), O::Job))
            }
            Self::Rollback(file, _) => (CommandKind::ROLLBACK.verb, O::Job(file.name.name())),
            Self::Calendar(calendar) => (CommandKind::APPLY_CALENDAR.verb, O::Calendar(&calendar.name)),
            Self::Principal(principal, _) => {
                (CommandKind::APPLY_USER.verb, O::Principal(principal.kind, &principal.name))
            }
            Self::DeletePrincipal(kind, name) => (CommandKind::DELETE_USER.verb, O::Principal(*kind, name)),
            Self::DeleteCalendar(name) => (CommandKind::DELETE_CALENDAR.verb, O::Calendar(name)),
            Self::Namespace(namespace) => (CommandKind::APPLY_NAMESPACE.verb, O::Namespace(&namespace.name)),
            Self::Secret(secret) => (CommandKind::SET_SECRET.verb, O::Secret(&secret.name)),
            Self::DeleteSecret(name) => (CommandKind::DELETE_SECRET.verb, O::Secret(name)),
            Self::DeleteNamespace(name) => (CommandKind::DELETE_NAMESPACE.verb, O::Namespace(name)),
            Self::Pause(job) | Self::Switch(job, _, NodeSwitch::Paused(true)) => ("pause", O::Job(job)),
            Self::Resume(job) | Self::Switch(job, _, NodeSwitch::Paused(false)) => ("resume", O::Job(job)),
            Self::Enable(job)
            | Self::Switch(job, _, NodeSwitch::Disabled(false))
            | Self::Shards(job, _, true) => ("enable", O::Job(job)),
            Self::Disable(job)
            | Self::Switch(job, _, NodeSwitch::Disabled(true))
            | Self::Shards(job, _, false) => ("disable", O::Job(job)),
            Self::Shutdown(job) | Self::Switch(job, _, NodeSwitch::Shutdown) => ("shutdown", O::Job(job)),
            Self::Delete(job) => (CommandKind::DELETE_JOB.verb, O::Job(job)),
            Self::Accept(job, _) => (CommandKind::ACCEPT_JOB.verb, O::Job(job)),
            Self::RunNow(job, _) | Self::RunWith(job, ..) => (CommandKind::RUN.verb, O::Job(job)),
            Self::Backfill(job, ..) => (CommandKind::BACKFILL.verb, O::Job(job)),
            Self::CancelBackfill(job, _) => (CommandKind::CANCEL_BACKFILL.verb, O::Job(job)),
            Self::Kill(run) => (CommandKind::KILL.verb, O::Run(run)),
            Self::Claim => (CommandKind::CLAIM.verb, O::Node(None)),
            Self::Leave => ("leave", O::Node(None)),
            Self::Drain(node) => ("drain", O::Node(Some(node))),
            Self::Undrain(node) => ("undrain", O::Node(Some(node))),
            Self::Cordon(node) => ("cordon", O::Node(Some(node))),
            Self::Uncordon(node) => ("uncordon", O::Node(Some(node))),
            Self::Activate(node) => ("activate", O::Node(Some(node))),
            Self::Configure(_) => (CommandKind::CONFIGURE.verb, O::Settings),
            Self::FinalizeUpgrade => (CommandKind::FINALIZE_UPGRADE.verb, O::Layout),
            Self::Lock(_)
            | Self::Unlock(_)
            | Self::Offer(_)
            | Self::Beat(_)
            | Self::Notify(..)
            | Self::PrincipalUsed(_)
            | Self::Count(..) => return None,
        };
        let on_node = match self {
            Self::RunWith(_, _, options) => options.node.as_ref(),
            Self::Switch(_, node, _) => Some(node),
            _ => None,
        };
        Some(CommandDescription { verb, object, on_node })
    }

    /// The command itself, without its conditions.
    #[must_use]
    pub fn plain(&self) -> &Self {
        match self {
            Self::If(_, command) | Self::Within(_, command) => command.plain(),
            command => command,
        }
    }

    /// The names of the jobs that it declares.
    pub fn declared(&self) -> impl Iterator<Item = &JobName> {
        let command = self.plain();
        let (files, declarations) = match command {
            Self::Apply(files) => (files.as_slice(), Default::default()),
            Self::Declare(declarations) => (Default::default(), declarations.as_slice()),
            Self::Rollback(file, _) => (core::slice::from_ref(&**file), Default::default()),
            _ => Default::default(),
        };
        files.iter().map(|file| file.name.name()).chain(declarations.iter().map(Declaration::name))
    }

    /// The version that a rollback declares again.
    #[must_use]
    pub fn restored(&self) -> Option<u64> {
        match self.plain() {
            Self::Rollback(_, version) => Some(*version),
            _ => None,
        }
    }

    /// The commands on a node, one for each verb that the API offers.
    #[must_use]
    pub fn on_node(node: &NodeName) -> Vec<Self> {
        [Self::Drain, Self::Undrain, Self::Cordon, Self::Uncordon, Self::Activate]
            .map(|command| command(node.clone()))
            .into()
    }

    /// The switches of a job, one for each verb that the API offers: on one node only, if one is named.
    #[must_use]
    pub fn on_job(job: &JobName, node: Option<&NodeName>) -> Vec<Self> {
        let Some(node) = node else {
            return [Self::Pause, Self::Resume, Self::Enable, Self::Disable, Self::Shutdown]
                .map(|command| command(job.clone()))
                .into();
        };
        use NodeSwitch::{Disabled, Paused, Shutdown};
        [Paused(true), Paused(false), Disabled(false), Disabled(true), Shutdown]
            .map(|switch| Self::Switch(job.clone(), node.clone(), switch))
            .into()
    }

    /// The switches of these shards of a job, one for each verb that the API offers.
    #[must_use]
    pub fn on_shards(job: &JobName, shards: &ShardSet) -> Vec<Self> {
        [true, false].map(|on| Self::Shards(job.clone(), shards.clone(), on)).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verbs(commands: &[Command]) -> Vec<&'static str> {
        commands.iter().filter_map(|command| Some(command.describe()?.verb)).collect()
    }

    #[test]
    fn each_verb_of_an_object_is_one_command() {
        let (job, node): (JobName, NodeName) = ("j".parse().unwrap(), "n".parse().unwrap());
        let all = verbs(&Command::on_job(&job, None));
        assert_eq!(all, ["pause", "resume", "enable", "disable", "shutdown"]);
        assert_eq!(verbs(&Command::on_job(&job, Some(&node))), all, "on one node as on all of them");
        assert_eq!(verbs(&Command::on_shards(&job, &ShardSet::all(2))), ["enable", "disable"]);
        assert_eq!(verbs(&Command::on_node(&node)), ["drain", "undrain", "cordon", "uncordon", "activate"]);
    }

    #[test]
    fn a_description_names_the_object_and_the_only_node() {
        let (job, node): (JobName, NodeName) = ("j".parse().unwrap(), "n".parse().unwrap());
        let alone = Command::Switch(job.clone(), node.clone(), NodeSwitch::Paused(true));
        let described = alone.describe().unwrap();
        assert_eq!((described.verb, alloc::format!("{}", described.object)), ("pause", "job j".into()));
        assert_eq!(described.on_node, Some(&node));
        assert!(described.needs_leader());
        let drain = Command::Drain(node);
        assert_eq!(alloc::format!("{}", drain.describe().unwrap().object), "node n");
        assert!(!drain.describe().unwrap().needs_leader());
        assert_eq!(Command::Lock("l".parse().unwrap()).describe(), None);
    }
}
