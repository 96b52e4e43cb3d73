//! The parts of a valid job.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use super::span_text::SpanText;
use super::{
    Backoff, CatchUp, Delivery, JobLabels, JobParameter, JobPlacement, JobSchedule, JobWork, Notify, Overlap,
    Pool, Priority, Retry, SwitchPosition,
};
use crate::ids::JobName;
use crate::labels::NodeSelector;
use crate::registry::DurabilityClass;
use crate::time::Millis;

/// What a [`Job`](super::Job) consists of, in types that hold no combination of keys which excludes itself.
///
/// Texts of which the registry keeps the spelling are kept with what they mean: [`SpanText`]. The schedule alone stays a
/// text, see [`JobSchedule`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct JobParts {
    /// Its name, for ever.
    pub name: JobName,
    /// When it is due; `None` for a job that runs only when triggered manually.
    pub schedule: Option<JobSchedule>,
    /// How nodes are chosen for it.
    pub placement: JobPlacement,
    /// The node selector: the conditions on node labels that all must hold.
    pub node_selector: NodeSelector,
    /// Which waiting run gets the next free slot.
    pub priority: Priority,
    /// The pool that counts its runs with those of other jobs.
    pub pool: Option<Pool>,
    /// The parameter of each shard by index (S2-18), of a job without shards that of its one run. A broadcast job has
    /// none.
    pub shard_parameters: Vec<String>,
    /// A text that every run gets, whatever its shard (S2-19).
    pub parameter: String,
    /// The parameters that a manual run may be given, by name.
    pub parameters: BTreeMap<String, JobParameter>,
    /// What becomes of a run whose outcome is unknown.
    pub delivery: Delivery,
    /// The durability class that the registry must have.
    pub min_durability: Option<DurabilityClass>,
    /// What its runs do.
    pub work: JobWork,
    /// How long one attempt may take.
    pub timeout: Option<Millis>,
    /// How long a run may take with all its attempts and the waits between them.
    pub run_timeout: Option<Millis>,
    /// Whether a run that failed is attempted again.
    pub retry: Option<Retry>,
    /// After how many runs in a row that ended badly the job is paused.
    pub pause_after_failures: Option<u32>,
    /// What becomes of late fires.
    pub misfire: JobMisfire,
    /// What becomes of fires that come due while a run of the job executes; `Forbid` for a job with shards.
    pub overlap: Overlap,
    /// Which events people are notified of, and by which notifiers.
    pub notify: Option<Box<Notify>>,
    /// Whether its runs execute nothing: they are placed, claimed and recorded as those of any job.
    pub shadow: bool,
    /// Whether it is enabled. A disabled job has no owner and never fires.
    pub enabled: bool,
    /// Labels, by which jobs are listed and switched together.
    pub labels: JobLabels,
    /// A description for people.
    pub description: String,
}

/// What becomes of late fires, as a job declares it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct JobMisfire {
    /// How late a fire may still start; `max(60 s, lease + 5 s)` when absent.
    pub grace: Option<Millis>,
    /// Which older fires are caught up.
    pub catch_up: CatchUp,
    /// How old a caught-up fire may be; any age when absent.
    pub window: Option<SpanText>,
    /// The span over which caught-up fires are spread; at once when absent.
    pub spread: Option<SpanText>,
}

impl JobParts {
    /// The position of its enabled switch.
    #[must_use]
    pub fn position(&self) -> SwitchPosition {
        self.enabled.into()
    }

    /// The retry settings of its runs; `None` when they are not attempted again.
    #[must_use]
    pub fn backoff(&self) -> Option<Backoff> {
        self.retry.as_ref()?.read().ok()
    }
}
