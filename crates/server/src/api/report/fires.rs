//! The fires that the schedules of a job had in a span.

use evenkeel::{Handle, Job};
use evenkeel_core::schedule::Schedule;
use evenkeel_core::time::{Millis, Wall};

use super::timeline::DeclaredSegment;
use crate::queries;

/// Fires of the schedule while none was expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct IdleFires {
    pub(super) first: Wall,
    pub(super) last: Wall,
    pub(super) fires: u64,
    pub(super) why: String,
}

/// The fires of a job in a span.
#[derive(Clone, Debug, Default)]
pub(super) struct DueFires {
    /// Those that were expected, in order, each with the number of shards that were declared; 0 where that varies.
    pub(super) fires: Vec<(Wall, u32)>,
    /// Those while none was expected.
    pub(super) idle: Vec<IdleFires>,
    /// How many are not due yet.
    pub(super) to_come: u64,
    /// Where the next look begins, if there are more fires than one looks at.
    pub(super) next_since: Option<Wall>,
    /// What is to be known about parts of the span without fires, in words.
    pub(super) notes: Vec<String>,
}

impl DueFires {
    /// Finds the fires of these segments, at most so many.
    pub(super) fn of(handle: &Handle, segments: &[DeclaredSegment], now: Wall, most: usize) -> Self {
        let mut due = Self::default();
        let mut left = most;
        for segment in segments {
            let Some(job) = &segment.job else {
                due.notes.extend(segment.idle.clone());
                continue;
            };
            let Some(schedule) = queries::schedule_of(handle, job) else {
                due.note("it has no schedule: it runs when it is asked to".to_owned());
                continue;
            };
            if schedule.follows_runs() {
                due.note("its fires follow its runs, so none is expected by the clock".to_owned());
                continue;
            }
            if !due.add(segment, (&schedule, job), now, &mut left) {
                break;
            }
        }
        due
    }

    fn note(&mut self, text: String) {
        if !self.notes.contains(&text) {
            self.notes.push(text);
        }
    }

    /// Adds the fires of a segment. Returns whether all were looked at.
    fn add(
        &mut self,
        segment: &DeclaredSegment,
        (schedule, job): (&Schedule, &Job),
        now: Wall,
        left: &mut usize,
    ) -> bool {
        let shards = if job.placement.is_broadcast() { 0 } else { job.placement.shards() };
        let mut idle: Option<IdleFires> = None;
        let mut next = schedule.next(segment.after);
        while let Some(at) = next.filter(|at| *at <= segment.until) {
            let Some(fewer) = left.checked_sub(1) else {
                self.next_since = Some(at);
                break;
            };
            *left = fewer;
            match &segment.idle {
                _ if at > now => self.to_come += 1,
                None => self.fires.push((at, shards)),
                Some(why) => {
                    let idle = idle.get_or_insert_with(|| IdleFires {
                        first: at,
                        last: at,
                        fires: 0,
                        why: why.clone(),
                    });
                    (idle.last, idle.fires) = (at, idle.fires + 1);
                }
            }
            next = schedule.next(at);
        }
        self.idle.extend(idle);
        self.next_since.is_none()
    }

    /// The end of what was looked at.
    pub(super) fn end(&self, until: Wall) -> Wall {
        self.next_since.unwrap_or(until)
    }

    /// The last moment of a fire that was due; `None` without any.
    pub(super) fn has(&self, at: Wall) -> bool {
        self.fires.binary_search_by_key(&at, |(due, _)| *due).is_ok()
    }
}

/// The changes of the schedule within a span, in words.
pub(super) fn changes(segments: &[DeclaredSegment]) -> Vec<String> {
    let of = |pair: &[DeclaredSegment]| {
        let (before, after) = (pair[0].job.as_ref()?, pair[1].job.as_ref()?);
        let times = |job: &Job| (job.rules().to_owned(), job.timezone().to_owned());
        let at = pair[0].until;
        (times(before) != times(after))
            .then(|| format!("its schedule changed at {at} from {:?} to {:?}", before.rules(), after.rules()))
    };
    segments.windows(2).filter_map(of).collect()
}

/// How long after its moment the record of a fire may still be on its way.
pub(super) const ON_ITS_WAY: Millis = Millis::secs(10);
