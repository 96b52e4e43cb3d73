//! From the flat form of a job to its parts, and back.

use alloc::format;
use alloc::string::{String, ToString};

use serde::{Serialize, Serializer};

use super::span_text::{SpanText, seconds, whole_seconds};
use super::{Job, JobError, JobFile, JobMisfire, JobParts, JobPlacement, JobSchedule, JobWork, Pool};
use crate::ids::WrittenName;

/// A declaration that the registry keeps: it was checked when it was applied. Only what the parts cannot hold is refused
/// here, not what [`Job::parse`] checks beside it, for two reasons. The view decodes a declaration each time a rule needs it,
/// and a schedule takes longer to parse than all the rest. And where a newer version wrote a schedule that this one cannot
/// read, the job is still known: it is shown and can be deleted, and it does not fire.
impl TryFrom<JobFile> for Job {
    type Error = JobError;

    fn try_from(file: JobFile) -> Result<Self, JobError> {
        let name = file.name.clone();
        JobParts::of(file).map(Self).map_err(|text| JobError(format!("job {name}: {text}")))
    }
}

impl Serialize for Job {
    fn serialize<S: Serializer>(&self, output: S) -> Result<S::Ok, S::Error> {
        self.to_file().serialize(output)
    }
}

impl JobParts {
    fn of(mut file: JobFile) -> Result<Self, String> {
        file.resolve()?;
        let placement = JobPlacement::of(&file)?;
        let work = JobWork::take(&mut file)?;
        file.validate_overlap_placement()?;
        if work.dataflow().is_none() {
            file.validate_dataflow()?;
        }
        let misfire = JobMisfire {
            grace: file.misfire_grace.map(seconds),
            catch_up: file.catch_up,
            spread: SpanText::parse("catch_up_spread", core::mem::take(&mut file.catch_up_spread))
                .map_err(|e| e.to_string())?,
            window: SpanText::parse("catch_up_window", core::mem::take(&mut file.catch_up_window))
                .map_err(|e| e.to_string())?,
        };
        Ok(Self {
            schedule: JobSchedule::take(&mut file)?,
            name: file.name.into_name(),
            placement,
            node_selector: file.node_selector,
            priority: file.priority,
            pool: file.pool.map(|Pool { name, limit }| Pool { name: name.into_name(), limit }),
            shard_parameters: file.shard_parameters,
            parameter: file.parameter,
            parameters: file.parameters,
            delivery: file.delivery,
            min_durability: file.min_durability,
            work,
            timeout: file.timeout.map(seconds),
            run_timeout: file.run_timeout.map(seconds),
            retry: file.retry,
            pause_after_failures: file.pause_after_failures,
            misfire,
            overlap: file.overlap,
            notify: file.notify,
            shadow: file.shadow,
            enabled: file.enabled,
            labels: file.labels,
            description: file.description,
        })
    }

    /// The declaration as it is written and kept.
    pub(super) fn to_file(&self) -> JobFile {
        // No key is forgotten: each part is named here.
        let Self {
            name,
            schedule,
            placement,
            node_selector,
            priority,
            pool,
            shard_parameters,
            parameter,
            parameters,
            delivery,
            min_durability,
            work,
            timeout,
            run_timeout,
            retry,
            pause_after_failures,
            misfire: JobMisfire { grace, catch_up, window, spread },
            overlap,
            notify,
            shadow,
            enabled,
            labels,
            description,
        } = self;
        let mut file = JobFile {
            node_selector: node_selector.clone(),
            priority: *priority,
            pool: pool.clone().map(|Pool { name: pool, limit }| Pool {
                name: WrittenName::read_in(name.namespace(), pool),
                limit,
            }),
            shard_parameters: shard_parameters.clone(),
            parameter: parameter.clone(),
            parameters: parameters.clone(),
            delivery: *delivery,
            min_durability: *min_durability,
            timeout: timeout.map(whole_seconds),
            run_timeout: run_timeout.map(whole_seconds),
            retry: retry.clone(),
            pause_after_failures: *pause_after_failures,
            misfire_grace: grace.map(whole_seconds),
            catch_up: *catch_up,
            catch_up_window: SpanText::text_of(window.as_ref()),
            catch_up_spread: SpanText::text_of(spread.as_ref()),
            overlap: *overlap,
            notify: notify.clone(),
            shadow: *shadow,
            enabled: *enabled,
            labels: labels.clone(),
            description: description.clone(),
            ..JobFile::empty(name.clone())
        };
        placement.write(&mut file);
        work.write(&mut file);
        if let Some(schedule) = schedule {
            schedule.write(&mut file);
        }
        file
    }
}
