//! The declaration of a job, and its validation.

mod calendars;
mod dataflow;
mod defaults;
mod failures;
pub mod http;
mod limits;
mod misfire;
mod notify;
mod overlap;
mod placement;
mod pool;
mod priority;
mod program;
mod retry;
mod run_timeout;
mod spec;
mod times;
mod validation;
mod written;

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use serde::{Deserialize, Serialize};

pub use crate::due::CatchUp;
use crate::ids::{CalendarName, JobName};
use crate::labels::NodeSelector;
use crate::registry::DurabilityClass;
use crate::schedule::Dst;
use crate::sharding_strategy::{NodeOrder, ShardingStrategy};
use crate::shards::SHARDS_MAX;

pub use dataflow::Dataflow;
use defaults::{is_default, is_one, is_yes, one, yes};
pub use http::Http;
pub use limits::{Cores, LimitValues, Limits, RunLimitValues, RunLimits};
pub use misfire::{MisfireSettings, default_grace};
pub use notify::{Notify, Occasion};
pub use overlap::Overlap;
pub use pool::Pool;
pub use priority::Priority;
pub use program::{LaunchSettings, Program, SHELL};
pub use retry::{Backoff, Retry};
pub use spec::{EnabledSwitch, OperatorSwitches, Spec, SwitchOrigin, SwitchPosition};

/// The longest list of fires that `catch_up = all(n)` catches up.
pub const CATCH_UP_MAX: u32 = 1_000;
/// How long a reshard waits for running shards when the job does not say, in seconds.
pub const RESHARD_TIMEOUT: u64 = 10;
/// The largest declaration in bytes; far below every engine's limit for a value.
pub const SPEC_BYTES_MAX: usize = 256 * 1024;

/// A job as declared: every field that an operator may write, with its default.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// Its name, for ever.
    pub name: JobName,
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
    pub exclude_calendars: Vec<CalendarName>,
    /// Calendars: it is due only at moments that all of them hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub require_calendars: Vec<CalendarName>,
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<Pool>,
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
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// Names of the node's own variables that it gets as well, beside those that every command gets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inherit: Vec<String>,
    /// The text on its standard input; nothing when empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stdin: String,
    /// The user it runs as, on nodes that run as root; that of the node when empty.
    #[serde(default, deserialize_with = "written::filled", skip_serializing_if = "String::is_empty")]
    pub user: String,
    /// How much of its host it may use.
    #[serde(default, skip_serializing_if = "is_default")]
    pub limits: Limits,
    /// The function to call that the embedding program registered under this name.
    #[serde(default, deserialize_with = "written::filled", skip_serializing_if = "String::is_empty")]
    pub function: String,
    /// How the function fetches, processes and counts data, where it is one that does (S2-21 … S2-24).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dataflow: Option<Dataflow>,
    /// The request to make.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<Box<Http>>,
    /// How long one attempt may take, in seconds; for ever when absent, or [`http::HTTP_TIMEOUT`] for a request.
    #[serde(default, with = "written::span_or_none", skip_serializing_if = "Option::is_none")]
    pub timeout: Option<u64>,
    /// How long a run may take with all its attempts and the waits between them, in seconds; for ever when absent.
    #[serde(default, with = "written::span_or_none", skip_serializing_if = "Option::is_none")]
    pub run_timeout: Option<u64>,
    /// Whether a run that failed is attempted again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notify: Option<Box<Notify>>,
    /// Whether it is enabled. A disabled job has no owner and never fires.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub enabled: bool,
    /// A description for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
}

/// How nodes are chosen for a job (plan §7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// Nodes claim the job up to their quota and fire it themselves (seed 001).
    #[default]
    Claimed,
    /// The job's leader assigns its shards to all nodes, and each fires its own (seeds 002 and 003).
    Sharded,
    /// Each node that takes part has one shard, so every fire runs once on each of them.
    Broadcast,
    /// The planner offers each run to the node with most free slots (seeds 000 and 004).
    Dispatched,
}

impl Placement {
    /// Whether the job's leader assigns its shards to nodes.
    #[must_use]
    pub fn is_sharded(self) -> bool {
        matches!(self, Self::Sharded | Self::Broadcast)
    }
}

/// What becomes of a run of which it is unknown whether it started or ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Delivery {
    /// The run is recorded as lost, and not repeated.
    #[default]
    AtMostOnce,
    /// It is attempted again, with the same idempotency key and a higher token.
    AtLeastOnce,
}

/// The action of a run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Work {
    /// Runs a program with these arguments; no shell reads them.
    Command(Vec<String>),
    /// Calls a function that the embedding program registered under this name.
    Function(String),
    /// Makes a request.
    Http(Box<Http>),
}

/// An invalid declaration. Its display says the field and the fix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobError(String);

impl fmt::Display for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for JobError {}

fn reshard_timeout() -> u64 {
    RESHARD_TIMEOUT
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_usual(secs: &u64) -> bool {
    *secs == RESHARD_TIMEOUT
}

impl Job {
    /// A job with every default, for embedders and tests.
    #[must_use]
    pub fn new(name: JobName, schedule: &str, work: Work) -> Self {
        let mut job = Self {
            name,
            schedule: schedule.to_string(),
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
            enabled: true,
            description: String::new(),
        };
        match work {
            Work::Command(argv) => job.command = Program::Argv(argv),
            Work::Function(function) => job.function = function,
            Work::Http(http) => job.http = Some(http),
        }
        job
    }

    /// Whether every fire runs once on each node.
    #[must_use]
    pub fn is_broadcast(&self) -> bool {
        self.placement == Placement::Broadcast
    }

    /// The action of its runs.
    #[must_use]
    pub fn work(&self) -> Work {
        match (&self.http, self.function.as_str()) {
            (Some(http), _) => Work::Http(http.clone()),
            (None, "") => Work::Command(self.command.argv()),
            (None, name) => Work::Function(name.to_string()),
        }
    }

    /// Refuses the job where its required durability is above the class of this registry.
    ///
    /// # Errors
    /// The job asks for more, and the error says what to do.
    pub fn suits(&self, class: DurabilityClass) -> Result<(), JobError> {
        let Some(asked) = self.min_durability.filter(|asked| *asked > class) else { return Ok(()) };
        Err(JobError(format!(
            "job {}: it asks for min_durability = \"{asked:?}\", and this cluster's registry is of class {class:?}: see \
             `evenkeel cluster doctor` for what would make it better, or let the job ask for less",
            self.name
        )))
    }

    /// Checks everything that can be checked without a registry, in bounded time.
    ///
    /// # Errors
    /// An invalid field: the error names it and says what is allowed.
    pub fn validate(&self) -> Result<(), JobError> {
        let fail = |text: String| Err(JobError(format!("job {}: {text}", self.name)));
        if let Some(key) = self.moot_without_schedule() {
            return fail(format!(
                "{key} says how a schedule is read, and the schedule is empty: give schedule, or leave {key} out"
            ));
        }
        if let Err(e) = self.schedule() {
            let place = e.span().map_or_else(String::new, |at| match at.line {
                0 => format!(" (at character {} of its schedule)", at.column + 1),
                n => format!(" (at character {} of its rule {})", at.column + 1, n + 1),
            });
            return fail(format!("{e}{place}"));
        }
        if self.shards == 0 || self.shards > SHARDS_MAX {
            return fail(format!("shards is {}, allowed are 1 to {SHARDS_MAX}", self.shards));
        }
        if let Err(text) = self
            .validate_calendars()
            .and_then(|()| self.validate_placement())
            .and_then(|()| self.validate_pool())
        {
            return fail(text);
        }
        if self.shard_parameters.len() > self.shards as usize {
            return fail(format!(
                "shard_parameters has one for shard {}, but the last shard is {}: raise shards or leave it out",
                self.shard_parameters.len() - 1,
                self.shards - 1
            ));
        }
        if let CatchUp::All(n) = self.catch_up
            && (n == 0 || n > CATCH_UP_MAX)
        {
            return fail(format!("catch_up.all is {n}, allowed are 1 to {CATCH_UP_MAX}"));
        }
        if let Err(e) = self.misfire_settings() {
            return fail(e.to_string());
        }
        let refined = !self.catch_up_window.is_empty() || !self.catch_up_spread.is_empty();
        if refined && self.catch_up == CatchUp::Skip {
            return fail(
                "catch_up_window and catch_up_spread are for jobs that make fires up: leave them out".into(),
            );
        }
        if self.timeout == Some(0) {
            return fail("timeout is 0 seconds: leave it out for none".to_string());
        }
        if let Err(text) = self
            .validate_spans()
            .and_then(|()| self.validate_run_timeout())
            .and_then(|()| self.validate_program())
            .and_then(|()| self.validate_retry())
            .and_then(|()| self.validate_pause_after_failures())
            .and_then(|()| self.validate_overlap())
            .and_then(|()| self.validate_follows_runs())
            .and_then(|()| self.validate_dataflow())
            .and_then(|()| self.validate_notify())
        {
            return fail(text);
        }
        match serde_json::to_vec(self) {
            Ok(bytes) if bytes.len() <= SPEC_BYTES_MAX => Ok(()),
            _ => fail(format!("the declaration is larger than {SPEC_BYTES_MAX} bytes")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Millis;

    fn read(fields: &str) -> Result<Job, String> {
        let text = format!(r#"{{"name":"j","function":"f",{fields}}}"#);
        let job: Job = serde_json::from_str(&text).map_err(|e| e.to_string())?;
        job.validate().map(|()| job).map_err(|e| e.to_string())
    }

    /// proves: S2-18
    #[test]
    fn parameters_are_a_list_or_the_sources_own_text() {
        let sharded = |parameters: &str| {
            read(&format!(r#""placement":"sharded","shards":3,"shard_parameters":{parameters}"#))
        };
        let list = sharded(r#"["a","b"]"#).unwrap();
        assert_eq!(sharded(r#""0=a,1=b""#).unwrap(), list);
        assert_eq!(sharded(r#"" 1 = b , 0=a""#).unwrap(), list);
        assert_eq!(sharded(r#""2=c""#).unwrap().shard_parameters, ["", "", "c"]);
        for wrong in [r#""a""#, r#""0=a=b""#, r#""x=a""#, r#""0=a,0=b""#, r#""-1=a""#, r#""999999999=a""#] {
            assert!(sharded(wrong).unwrap_err().contains("shard_parameters"), "{wrong}");
        }
        let beyond = sharded(r#""3=d""#).unwrap_err();
        assert!(beyond.contains("has one for shard 3, but the last shard is 2"), "{beyond}");
        assert!(sharded("7").unwrap_err().contains("expected a list of texts"), "a number is neither");
    }

    /// proves: S2-26
    #[test]
    fn what_is_for_sharded_jobs_is_refused_elsewhere_and_failover_needs_monitoring() {
        for field in [
            r#""shards":2"#,
            r#""strategy":"rotate""#,
            r#""monitor_execution":false"#,
            r#""reshard_timeout":"5s""#,
        ] {
            assert!(read(field).unwrap_err().contains("is for sharded jobs"), "{field}");
        }
        let both = read(r#""placement":"sharded","monitor_execution":false,"delivery":"at_least_once""#);
        assert!(both.unwrap_err().contains("takes monitor_execution = true"));
        assert!(read(r#""placement":"sharded","monitor_execution":false"#).is_ok());
    }

    /// proves: I23
    #[test]
    fn spans_of_late_fires_are_read_and_go_with_making_up() {
        let late =
            read(r#""catch_up_window":"1h30m","catch_up_spread":"10m""#).unwrap().misfire_settings().unwrap();
        assert_eq!(
            (late.age, late.spread.map(|turns| turns.span)),
            (Some(Millis(5_400_000)), Some(Millis(600_000)))
        );
        let wrong = read(r#""catch_up_window":"6""#).unwrap_err();
        assert!(wrong.contains("catch_up_window") && wrong.contains("write numbers with a unit"), "{wrong}");
        let moot = read(r#""catch_up":"skip","catch_up_spread":"10m""#).unwrap_err();
        assert!(moot.contains("leave them out"), "{moot}");
    }
}
