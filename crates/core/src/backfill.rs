//! What a backfill of a job would be: its moments and how many runs may go on at once. A dry run shows it, and the request
//! keeps it.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::ids::RequestId;
use crate::input::{BackfillOptions, Refusal};
use crate::job::{Job, RunParameters};
use crate::record::Backfill;
use crate::schedule::Schedule;
use crate::time::{Millis, Wall};

/// The most fires of one backfill. Their moments are in one entry of the registry, about 14 bytes each.
pub const BACKFILL_FIRES_MAX: usize = 1_000;

/// The fires of a backfill, as they are when it is requested now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackfillPlan {
    /// The moments that its runs stand for, in their order.
    pub dues: Vec<Wall>,
    /// How many of its runs may be open at once.
    pub max_parallel: u32,
    /// The parameters of its runs, with the defaults of now.
    pub parameters: RunParameters,
    /// What of the request has no effect, for people.
    pub warnings: Vec<String>,
}

impl BackfillPlan {
    /// The backfill of a job with this schedule.
    ///
    /// # Errors
    /// The job or the request has none; the text says why.
    pub fn of(
        job: &Job,
        schedule: Option<&Schedule>,
        id: &RequestId,
        options: &BackfillOptions,
        now: Wall,
    ) -> Result<Self, (Refusal, String)> {
        let name = &job.name;
        if job.placement.is_sharded() {
            let kind = if job.placement.is_broadcast() { "broadcast" } else { "sharded" };
            let text = format!("job {name} is {kind}: only claimed and dispatched jobs can be backfilled");
            return Err((Refusal::Conflict, text));
        }
        let schedule = schedule.filter(|schedule| !schedule.follows_runs()).ok_or_else(|| {
            let text = format!(
                "job {name} has no due moments in the past: it has no schedule, one that follows its runs (@after), or \
                 a calendar that is missing"
            );
            (Refusal::Conflict, text)
        })?;
        check_span(options, now).map_err(|wrong| (Refusal::Invalid, wrong))?;
        let dues = fires(schedule, options).map_err(|wrong| (Refusal::Invalid, wrong))?;
        let fits = dues.last().is_none_or(|due| Backfill::fire(id, *due).is_some());
        if !fits {
            return Err((
                Refusal::Invalid,
                format!("the id {id} is too long for a backfill: use 100 at most"),
            ));
        }
        let parameters =
            job.run_parameters(&options.parameters).map_err(|wrong| (Refusal::Invalid, wrong))?;
        let (max_parallel, warnings) = parallel(job, options.max_parallel);
        Ok(Self { dues, max_parallel, parameters, warnings })
    }
}

fn check_span(options: &BackfillOptions, now: Wall) -> Result<(), String> {
    match options {
        _ if options.from >= options.to => Err("from is not before to: a backfill has a span of time".into()),
        _ if options.to > now => Err("to is in the future: the schedule itself fires from now on".into()),
        _ if options.max_parallel == 0 => Err("max_parallel is 0, and is at least 1".into()),
        _ => Ok(()),
    }
}

/// The moments of the schedule in the span, which has its beginning and not its end.
fn fires(schedule: &Schedule, options: &BackfillOptions) -> Result<Vec<Wall>, String> {
    let mut dues = Vec::new();
    let mut after = options.from - Millis(1);
    while let Some(due) = schedule.next(after).filter(|due| *due < options.to) {
        if dues.len() == BACKFILL_FIRES_MAX {
            return Err(format!(
                "the span has more than {BACKFILL_FIRES_MAX} fires: make several backfills of it, one after the other"
            ));
        }
        dues.push(due);
        after = due;
    }
    if dues.is_empty() {
        return Err("the span has no fire of the schedule: `evenkeel job next` shows when it is due".into());
    }
    Ok(dues)
}

/// How many runs may be open at once, and a warning where that is fewer than wanted.
fn parallel(job: &Job, wanted: u32) -> (u32, Vec<String>) {
    let most = u32::try_from(job.overlap.max_concurrent_runs()).unwrap_or(u32::MAX);
    let warning = (wanted > most).then(|| {
        format!(
            "max_parallel is {wanted}, and overlap of job {} lets {most} run at once: so {most} are",
            job.name
        )
    });
    (wanted.min(most), warning.into_iter().collect())
}
