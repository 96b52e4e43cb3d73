//! The changes of counts that a batch makes.

use std::collections::BTreeMap;

use evenkeel_core::ids::JobName;
use evenkeel_core::schedule::Schedule;
use evenkeel_core::time::Wall;

use super::counts::CountDelta;
use super::{CLUSTER, DAY, hour_of};

/// The most fires of one skipped span that are counted, so that a span of years does not hold up the writer.
const SPAN_MAX: usize = 100_000;

/// The changes of one day: by job, and for each job by hour of the day.
pub(super) type DayChanges<'a> = BTreeMap<&'a JobName, Vec<(u8, CountDelta)>>;

/// The changes by job and hour.
#[derive(Debug, Default)]
pub(in crate::history) struct CountChanges {
    hours: BTreeMap<(i64, JobName), CountDelta>,
}

impl CountChanges {
    /// Adds a change for a fire of this job that was due at this moment.
    pub(in crate::history) fn add(&mut self, job: &JobName, due: Wall, delta: &CountDelta) {
        self.add_hour(job, hour_of(due), delta);
    }

    /// Adds a change in this hour.
    pub(in crate::history) fn add_hour(&mut self, job: &JobName, hour: i64, delta: &CountDelta) {
        self.hours.entry((hour, job.clone())).or_default().add(delta);
    }

    /// How many changes there are.
    pub(super) fn len(&self) -> usize {
        self.hours.len()
    }

    /// The changes as text; `None` if there are none.
    pub(super) fn encode(&self) -> Option<String> {
        let mut hours: BTreeMap<i64, Vec<(&JobName, &CountDelta)>> = BTreeMap::new();
        for ((hour, job), delta) in self.hours.iter().filter(|(_, delta)| !delta.is_zero()) {
            hours.entry(*hour).or_default().push((job, delta));
        }
        // Plain data can always be written.
        Some(hours).filter(|hours| !hours.is_empty()).and_then(|hours| serde_json::to_string(&hours).ok())
    }

    /// Adds what [`encode`](Self::encode) wrote; `None` for anything else.
    pub(super) fn decode(&mut self, text: &str) -> Option<()> {
        let hours: BTreeMap<i64, Vec<(JobName, CountDelta)>> = serde_json::from_str(text).ok()?;
        for (hour, jobs) in hours {
            for (job, delta) in jobs {
                self.hours.entry((hour, job)).or_default().add(&delta);
            }
        }
        Some(())
    }

    /// The changes of each day.
    pub(super) fn by_day(&self) -> BTreeMap<i64, DayChanges<'_>> {
        let mut days: BTreeMap<i64, DayChanges<'_>> = BTreeMap::new();
        for ((hour, job), delta) in self.hours.iter().filter(|(_, delta)| !delta.is_zero()) {
            let of_day = u8::try_from(hour.rem_euclid(DAY)).unwrap_or_default();
            days.entry(hour.div_euclid(DAY)).or_default().entry(job).or_default().push((of_day, *delta));
        }
        days
    }

    /// The changes by namespace and hour, and those of the whole cluster.
    pub(super) fn by_namespace(&self) -> BTreeMap<(&str, i64), CountDelta> {
        let mut all: BTreeMap<(&str, i64), CountDelta> = BTreeMap::new();
        for ((hour, job), delta) in self.hours.iter().filter(|(_, delta)| !delta.is_zero()) {
            for namespace in [CLUSTER, job.namespace()] {
                all.entry((namespace, *hour)).or_default().add(delta);
            }
        }
        all
    }
}

/// How many fires a schedule has from one fire to another, by the hours in which they are due.
pub(in crate::history) fn fires_by_hour(
    schedule: Option<&Schedule>,
    (from, to): (Wall, Wall),
) -> Vec<(i64, i64)> {
    let Some(schedule) = schedule.filter(|_| from < to) else { return vec![(hour_of(to), 1)] };
    let mut hours: BTreeMap<i64, i64> = BTreeMap::new();
    let following = std::iter::successors(Some(from), |due| schedule.next(*due).filter(|next| next > due));
    for due in following.take_while(|due| *due <= to).take(SPAN_MAX) {
        *hours.entry(hour_of(due)).or_default() += 1;
    }
    hours.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use evenkeel_core::time::Millis;

    use super::*;

    #[test]
    fn changes_are_read_back_as_written() {
        let mut tally = CountChanges::default();
        assert_eq!(tally.encode(), None);
        let job: JobName = "team/j".parse().unwrap();
        tally.add_hour(&job, 7, &CountDelta::of(0, 3));
        tally.add_hour(&job, 8, &CountDelta::of(1, -2));
        let text = tally.encode().unwrap();
        assert_eq!(text, r#"{"7":[["team/j",[3,0,0,0,0,0,0,0]]],"8":[["team/j",[0,-2,0,0,0,0,0,0]]]}"#);
        let mut twice = CountChanges::default();
        assert_eq!([twice.decode(&text), twice.decode(&text), twice.decode("x")], [Some(()), Some(()), None]);
        assert!(twice.encode().unwrap().contains("[6,0") && twice.len() == 2);
    }

    #[test]
    fn a_span_counts_each_of_its_fires_in_its_hour() {
        let schedule = Schedule::parse("@every 20m", "UTC").unwrap();
        let hour = Millis::secs(3_600).0;
        let span = (Wall(10 * hour), Wall(11 * hour + hour / 3));
        assert_eq!(fires_by_hour(Some(&schedule), span), [(10, 3), (11, 2)]);
        assert_eq!(fires_by_hour(None, span), [(11, 1)], "without a schedule the span is one fire");
        assert_eq!(fires_by_hour(Some(&schedule), (span.1, span.1)), [(11, 1)]);
    }
}
