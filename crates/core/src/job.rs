//! The declaration of a job, and its validation.

mod calendars;
mod convert;
mod dataflow;
mod defaults;
mod failures;
mod file;
pub mod http;
mod labels;
mod limits;
mod misfire;
mod namespace;
mod notify;
mod odd_characters;
mod overlap;
mod parameter_checks;
mod parameters;
mod parts;
mod placement;
mod pool;
mod priority;
mod program;
mod retry;
mod run_parameters;
mod run_timeout;
mod secrets;
mod span_text;
mod spec;
mod switch_position;
mod times;
mod timing;
mod valid;
mod validation;
mod variables;
mod work;
mod written;

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

pub use crate::due::CatchUp;

pub use dataflow::Dataflow;
pub use file::JobFile;
pub use http::Http;
pub use labels::{JobLabels, JobSelector};
pub use limits::{Cores, LimitValues, Limits, RunLimitValues, RunLimits};
pub use misfire::{MisfireSettings, default_grace};
pub use notify::{Notify, Occasion};
pub use overlap::Overlap;
pub use parameters::{JobParameter, PARAMETERS_MAX, ParameterType};
pub use parts::{JobMisfire, JobParts};
pub use placement::{JobPlacement, MemberSettings, ShardedPlacement};
pub use pool::Pool;
pub use priority::Priority;
pub use program::{LaunchSettings, Program, SHELL};
pub use retry::{Backoff, Retry};
pub use run_parameters::{ParameterValue, RUN_PARAMETERS_BYTES_MAX, RunParameters};
pub use secrets::{CommandSecrets, SECRETS_MAX};
pub use span_text::SpanText;
pub use spec::{EnabledSwitch, OperatorSwitches, Spec, SwitchOrigin};
pub use switch_position::SwitchPosition;
pub use times::JobSchedule;
pub use timing::{JobTiming, SpecTiming};
pub use valid::{Job, JobError};
pub use work::{CommandWork, FunctionWork, JobWork};

/// The longest list of fires that `catch_up = all(n)` catches up.
pub const CATCH_UP_MAX: u32 = 1_000;
/// How long a reshard waits for running shards when the job does not say, in seconds.
pub const RESHARD_TIMEOUT: u64 = 10;
/// The largest declaration in bytes; far below every engine's limit for a value.
pub const SPEC_BYTES_MAX: usize = 256 * 1024;

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

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::{String, ToString};

    use super::*;
    use crate::time::Millis;

    fn read(fields: &str) -> Result<JobFile, String> {
        let text = format!(r#"{{"name":"j","function":"f",{fields}}}"#);
        let file: JobFile = serde_json::from_str(&text).map_err(|e| e.to_string())?;
        Job::parse(file).map(|job| job.to_file()).map_err(|e| e.to_string())
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
        let late = Job::parse(read(r#""catch_up_window":"1h30m","catch_up_spread":"10m""#).unwrap())
            .unwrap()
            .misfire_settings();
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
