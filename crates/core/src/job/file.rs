//! The flat form of a job: as an operator writes it, and as the registry keeps it.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

use super::defaults::{is_default, is_one, is_yes, one, yes};
use super::{
    CatchUp, Dataflow, Delivery, Http, JobLabels, JobParameter, Limits, Notify, Overlap, Placement, Pool,
    Priority, Program, RESHARD_TIMEOUT, Retry, Work, written,
};
use crate::ids::{CalendarName, DEFAULT_NAMESPACE, JobName, Namespace, PoolName, WrittenName};
use crate::labels::NodeSelector;
use crate::registry::DurabilityClass;
use crate::schedule::Dst;
use crate::sharding_strategy::{NodeOrder, ShardingStrategy};

/// A job as an operator writes it and as the registry keeps it: every key, with its default. Nothing of it is checked yet:
/// [`Job::parse`](super::Job::parse) makes a [`Job`](super::Job) of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct JobFile {
    /// Its name, for ever.
    pub name: WrittenName<JobName>,
    /// The namespace of a name that is written alone. A declaration that was read has it in its name, and not here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<Namespace>,
    /// When it is due: cron in 5, 6 or 7 fields, `@daily` and kin, `@every 90s`, `at <moment>`; several rules one a
    /// line, or written as a list. Empty: only when triggered manually.
    #[serde(default, with = "written::rules", skip_serializing_if = "String::is_empty")]
    pub schedule: String,
    /// The IANA time zone in which the schedule is read; UTC when empty.
    #[serde(default, deserialize_with = "written::filled", skip_serializing_if = "String::is_empty")]
    pub timezone: String,
    /// What clock changes do to it; when absent each rule's own default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dst: Option<Dst>,
    /// The first moment at which it may be due, local to the zone where no offset is written.
    #[serde(default, deserialize_with = "written::filled", skip_serializing_if = "String::is_empty")]
    pub start_at: String,
    /// The moment from which on it is not due any more, written likewise.
    #[serde(default, deserialize_with = "written::filled", skip_serializing_if = "String::is_empty")]
    pub end_at: String,
    /// How far each fire may be moved, such as `5m`; the job's name and the moment decide.
    #[serde(default, deserialize_with = "written::filled", skip_serializing_if = "String::is_empty")]
    pub jitter: String,
    /// Calendars: it is not due at a moment that one of them holds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude_calendars: Vec<WrittenName<CalendarName>>,
    /// Calendars: it is due only at moments that all of them hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub require_calendars: Vec<WrittenName<CalendarName>>,
    /// How nodes are chosen for it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub placement: Placement,
    /// The node selector: conditions on node labels, such as `gpu`, `zone=eu|us`, `!spot` or `name=n1`, all of which
    /// must hold; every node is eligible when empty.
    #[serde(default, skip_serializing_if = "NodeSelector::is_everywhere")]
    pub node_selector: NodeSelector,
    /// Priority from 0 (lowest) to 9 (highest). Decides which waiting run gets the next free slot.
    #[serde(default, skip_serializing_if = "is_default")]
    pub priority: Priority,
    /// The pool that counts its runs with those of other jobs, and how many may execute at once; none when absent.
    #[serde(default, deserialize_with = "written::table_or_none", skip_serializing_if = "Option::is_none")]
    pub pool: Option<Pool<WrittenName<PoolName>>>,
    /// The number of shards of a fire.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub shards: u32,
    /// Parameter of each shard by index, as a list or as the text `0=a,1=b` (S2-18); a shard without one gets an empty
    /// text.
    #[serde(default, deserialize_with = "written::parameters", skip_serializing_if = "Vec::is_empty")]
    pub shard_parameters: Vec<String>,
    /// A text that every run gets, whatever its shard (S2-19).
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub parameter: String,
    /// The parameters that a manual run may be given, by name: each is a variable of the command.
    #[serde(default, deserialize_with = "written::entries", skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, JobParameter>,
    /// The sharding strategy of a sharded job.
    #[serde(default, skip_serializing_if = "is_default")]
    pub strategy: ShardingStrategy,
    /// The order in which nodes get shards.
    #[serde(default, skip_serializing_if = "is_default")]
    pub order: NodeOrder,
    /// Whether shards stay with the names of the nodes that got them first, when nodes come and go.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub sticky_shards: bool,
    /// Of the nodes on one host only the first by name takes part (S2-31).
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub one_per_host: bool,
    /// Whether the registry stores the running state. Without it no shard move waits for runs, and crashed runs are
    /// neither repeated nor reported (S2-20).
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub monitor_execution: bool,
    /// How much a node's clock may differ from the registry's, in seconds, before it fires none of this job (S2-25); a
    /// node's own limit holds anyway.
    #[serde(default, with = "written::span_or_none", skip_serializing_if = "Option::is_none")]
    pub max_clock_skew: Option<u64>,
    /// How long a reshard waits for running shards, in seconds; then it leaves them draining where they are.
    #[serde(default = "reshard_timeout", with = "written::span", skip_serializing_if = "is_usual")]
    pub reshard_timeout: u64,
    /// What becomes of a run whose outcome is unknown.
    #[serde(default, skip_serializing_if = "is_default")]
    pub delivery: Delivery,
    /// The durability class that the registry must have, or the job is refused. Any class when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_durability: Option<DurabilityClass>,
    /// The program to run and its arguments, or a text for the shell where `shell` is set. Exactly one of `command`,
    /// `function` and `http` is given.
    #[serde(default, skip_serializing_if = "Program::is_none")]
    pub command: Program,
    /// `command` is one text, which `/bin/sh` reads.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub shell: bool,
    /// The folder in which the command starts; that of the node when empty.
    #[serde(default, deserialize_with = "written::filled", skip_serializing_if = "String::is_empty")]
    pub directory: String,
    /// Variables that the command gets.
    #[serde(default, deserialize_with = "written::entries", skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// Names of the node's own variables that it gets as well, beside those that every command gets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inherit: Vec<String>,
    /// Variables that hold a secret, with the name of each secret.
    #[serde(default, deserialize_with = "written::entries", skip_serializing_if = "BTreeMap::is_empty")]
    pub secrets: BTreeMap<String, String>,
    /// Variables that hold the path of a file with a secret, with the name of each secret.
    #[serde(default, deserialize_with = "written::entries", skip_serializing_if = "BTreeMap::is_empty")]
    pub secret_files: BTreeMap<String, String>,
    /// The text on its standard input; nothing when empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stdin: String,
    /// The user it runs as, on nodes that run as root; that of the node when empty.
    #[serde(default, deserialize_with = "written::filled", skip_serializing_if = "String::is_empty")]
    pub user: String,
    /// How much of its host it may use.
    #[serde(default, deserialize_with = "written::table", skip_serializing_if = "is_default")]
    pub limits: Limits,
    /// The function to call that the embedding program registered under this name.
    #[serde(default, deserialize_with = "written::filled", skip_serializing_if = "String::is_empty")]
    pub function: String,
    /// How the function fetches, processes and counts data, where it is one that does (S2-21 … S2-24).
    #[serde(default, deserialize_with = "written::table_or_none", skip_serializing_if = "Option::is_none")]
    pub dataflow: Option<Dataflow>,
    /// The request to make.
    #[serde(default, deserialize_with = "written::table_or_none", skip_serializing_if = "Option::is_none")]
    pub http: Option<Box<Http>>,
    /// How long one attempt may take, in seconds; for ever when absent, or [`HTTP_TIMEOUT`](super::http::HTTP_TIMEOUT) for a request.
    #[serde(default, with = "written::span_or_none", skip_serializing_if = "Option::is_none")]
    pub timeout: Option<u64>,
    /// How long a run may take with all its attempts and the waits between them, in seconds; for ever when absent.
    #[serde(default, with = "written::span_or_none", skip_serializing_if = "Option::is_none")]
    pub run_timeout: Option<u64>,
    /// Whether a run that failed is attempted again.
    #[serde(default, deserialize_with = "written::table_or_none", skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// After how many runs in a row that ended badly the job is paused; never when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause_after_failures: Option<u32>,
    /// How late a fire may still start, in seconds; `max(60, lease + 5)` when absent.
    #[serde(default, with = "written::span_or_none", skip_serializing_if = "Option::is_none")]
    pub misfire_grace: Option<u64>,
    /// What becomes of fires older than the grace.
    #[serde(default, skip_serializing_if = "is_default")]
    pub catch_up: CatchUp,
    /// How old a caught-up fire may be, such as `6h`; any age when empty.
    #[serde(default, deserialize_with = "written::filled", skip_serializing_if = "String::is_empty")]
    pub catch_up_window: String,
    /// The span over which caught-up fires are spread, such as `10m`: one moment for each job. At once when empty.
    #[serde(default, deserialize_with = "written::filled", skip_serializing_if = "String::is_empty")]
    pub catch_up_spread: String,
    /// What becomes of fires that come due while a run of the job executes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub overlap: Overlap,
    /// Which events people are notified of, and by which notifiers; by the nodes' settings alone when absent.
    #[serde(default, deserialize_with = "written::table_or_none", skip_serializing_if = "Option::is_none")]
    pub notify: Option<Box<Notify>>,
    /// Whether its runs execute nothing: they are placed, claimed and recorded as those of any job.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub shadow: bool,
    /// Whether it is enabled. A disabled job has no owner and never fires.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub enabled: bool,
    /// Labels, by which jobs are listed and switched together.
    #[serde(default, skip_serializing_if = "JobLabels::is_empty")]
    pub labels: JobLabels,
    /// A description for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
}

fn reshard_timeout() -> u64 {
    RESHARD_TIMEOUT
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_usual(secs: &u64) -> bool {
    *secs == RESHARD_TIMEOUT
}

impl JobFile {
    /// A job with every default, for embedders and tests.
    #[must_use]
    pub fn new(name: JobName, schedule: &str, work: Work) -> Self {
        let mut job = Self { schedule: schedule.to_string(), ..Self::empty(name) };
        match work {
            Work::Command(argv) => job.command = Program::Argv(argv),
            Work::Function(function) => job.function = function,
            Work::Http(http) => job.http = Some(http),
        }
        job
    }

    /// A job with every default, which does nothing yet.
    pub(super) fn empty(name: JobName) -> Self {
        Self {
            name: WrittenName::read_in(DEFAULT_NAMESPACE, name),
            namespace: None,
            schedule: String::new(),
            timezone: String::new(),
            dst: None,
            start_at: String::new(),
            end_at: String::new(),
            jitter: String::new(),
            exclude_calendars: Vec::new(),
            require_calendars: Vec::new(),
            placement: Placement::default(),
            node_selector: NodeSelector::default(),
            priority: Priority::default(),
            pool: None,
            shards: 1,
            shard_parameters: Vec::new(),
            parameter: String::new(),
            parameters: BTreeMap::new(),
            strategy: ShardingStrategy::default(),
            order: NodeOrder::default(),
            sticky_shards: false,
            one_per_host: false,
            monitor_execution: true,
            max_clock_skew: None,
            reshard_timeout: RESHARD_TIMEOUT,
            delivery: Delivery::default(),
            min_durability: None,
            command: Program::default(),
            shell: false,
            directory: String::new(),
            environment: BTreeMap::new(),
            inherit: Vec::new(),
            secrets: BTreeMap::new(),
            secret_files: BTreeMap::new(),
            stdin: String::new(),
            user: String::new(),
            limits: Limits::default(),
            function: String::new(),
            dataflow: None,
            http: None,
            timeout: None,
            run_timeout: None,
            retry: None,
            pause_after_failures: None,
            misfire_grace: None,
            catch_up: CatchUp::default(),
            catch_up_window: String::new(),
            catch_up_spread: String::new(),
            overlap: Overlap::default(),
            notify: None,
            shadow: false,
            enabled: true,
            labels: JobLabels::default(),
            description: String::new(),
        }
    }
}
