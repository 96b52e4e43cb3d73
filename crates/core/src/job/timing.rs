//! The part of a spec that says when its job is due, decoded without the rest.
//!
//! A look at all jobs of a cluster decodes this part in a fraction of the time that whole declarations take. The keys are
//! those of [`JobFile`](super::JobFile), and their defaults are the same.

use alloc::string::String;
use alloc::vec::Vec;
use serde::Deserialize;

use super::defaults::{one, yes};
use super::{JobLabels, JobSchedule, Placement, times, written};
use crate::ids::{CalendarName, WrittenName};
use crate::schedule::Dst;
use crate::shards::ShardSet;

/// When a job is due, and whether operators let it fire.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct SpecTiming {
    /// The part of the declaration.
    pub job: JobTiming,
    /// Whether an operator has paused it, so that it runs only when triggered manually.
    #[serde(default)]
    pub paused: bool,
    /// Shards that an operator has disabled.
    #[serde(default)]
    pub off: ShardSet,
}

/// The part of a declaration that says when the job is due, and for how many runs.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct JobTiming {
    #[serde(default, with = "written::rules")]
    schedule: String,
    #[serde(default)]
    timezone: String,
    #[serde(default)]
    dst: Option<Dst>,
    #[serde(default)]
    start_at: String,
    #[serde(default)]
    end_at: String,
    #[serde(default)]
    jitter: String,
    #[serde(default)]
    exclude_calendars: Vec<WrittenName<CalendarName>>,
    #[serde(default)]
    require_calendars: Vec<WrittenName<CalendarName>>,
    /// How nodes are chosen for it.
    #[serde(default)]
    pub placement: Placement,
    /// The number of shards of a fire.
    #[serde(default = "one")]
    pub shards: u32,
    /// Whether it is enabled.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// Its labels.
    #[serde(default)]
    pub labels: JobLabels,
}

impl JobTiming {
    /// Its schedule; `None` for a job that runs only when triggered manually.
    #[must_use]
    pub fn into_schedule(self) -> Option<JobSchedule> {
        (!self.schedule.is_empty()).then(|| JobSchedule {
            rules: self.schedule,
            timezone: self.timezone,
            dst: self.dst,
            start_at: self.start_at,
            end_at: self.end_at,
            jitter: self.jitter,
            exclude_calendars: times::names(self.exclude_calendars),
            require_calendars: times::names(self.require_calendars),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Job, JobFile, Spec, Work};
    use crate::time::Wall;

    fn both(file: JobFile) -> (Spec, SpecTiming) {
        let spec = Spec::new(Job::parse(file).unwrap(), 1, Wall(0));
        let text = serde_json::to_string(&spec).unwrap();
        (spec, serde_json::from_str(&text).unwrap())
    }

    #[test]
    fn the_part_says_what_the_whole_says() {
        let plain = JobFile::new("team/j".parse().unwrap(), "@daily", Work::Function("f".into()));
        let all = JobFile {
            schedule: "0 5 * * *\n@hourly".into(),
            timezone: "Europe/Berlin".into(),
            dst: Some(Dst::Skip),
            start_at: "2026-01-01T00:00".into(),
            end_at: "2027-01-01T00:00".into(),
            jitter: "5m".into(),
            exclude_calendars: ["c".parse().unwrap(), "default/d".parse().unwrap()].into(),
            require_calendars: ["e".parse().unwrap()].into(),
            placement: Placement::Sharded,
            shards: 7,
            enabled: false,
            ..plain.clone()
        };
        let manual = JobFile { schedule: String::new(), ..plain.clone() };
        for file in [plain, all, manual] {
            let (spec, timing) = both(file);
            let JobTiming { placement, shards, enabled, ref labels, .. } = timing.job;
            assert_eq!(
                (placement, shards, enabled),
                (spec.job.placement.kind(), spec.job.placement.shards(), spec.job.enabled)
            );
            assert_eq!((labels, timing.paused), (&spec.job.labels, spec.paused));
            assert_eq!(timing.job.into_schedule(), spec.job.schedule);
        }
    }
}
