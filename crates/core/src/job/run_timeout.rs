//! The run timeout: the time that a run may take with all its attempts and the delays between them.

use alloc::format;
use alloc::string::String;

use super::span_text::whole_seconds;
use super::{JobFile, JobParts};
use crate::time::{Millis, Wall};

/// The longest span of whole seconds that a job may have, in seconds: 366 days, as spans are read.
const SPAN_MAX: u64 = 366 * 24 * 3_600;

impl JobParts {
    /// The time that is left at this moment for a run which began then; `None` where it has no limit. A run that began
    /// later than now did so by a clock that was ahead, and has all its time.
    #[must_use]
    pub fn time_left(&self, began: Wall, now: Wall) -> Option<Millis> {
        Some(began.min(now) + self.run_timeout? - now)
    }

    /// The time limit of an attempt that starts now, of a run that began then: its own, and no more than the run's.
    #[must_use]
    pub fn attempt_time(&self, began: Wall, now: Wall) -> Option<Millis> {
        let left = self.time_left(began, now).map(|left| left.max(Millis(1)));
        self.timeout.into_iter().chain(left).min()
    }

    /// Why a run that began then is not attempted again at this moment; `None` where it may be.
    #[must_use]
    pub fn time_is_over(&self, began: Wall, at: Wall) -> Option<String> {
        let over = self.time_left(began, at).is_some_and(|left| left <= Millis::ZERO);
        over.then(|| format!("its run_timeout of {} s is over", self.run_timeout.map_or(0, whole_seconds)))
    }
}

impl JobFile {
    /// Limits numbers that an embedding program gives to those that can be parsed.
    pub(super) fn validate_spans(&self) -> Result<(), String> {
        let spans = [
            ("timeout", self.timeout),
            ("run_timeout", self.run_timeout),
            ("misfire_grace", self.misfire_grace),
            ("max_clock_skew", self.max_clock_skew),
            ("reshard_timeout", Some(self.reshard_timeout)),
        ];
        match spans.into_iter().find(|(_, secs)| secs.is_some_and(|secs| secs > SPAN_MAX)) {
            Some((key, _)) => Err(format!("{key} is longer than 366 days, the longest span: lower it")),
            None => Ok(()),
        }
    }

    pub(super) fn validate_run_timeout(&self) -> Result<(), String> {
        let Some(run) = self.run_timeout else { return Ok(()) };
        if run == 0 {
            return Err("run_timeout is 0 seconds: leave it out for none".into());
        }
        match self.timeout.filter(|timeout| *timeout > run) {
            Some(timeout) => Err(format!(
                "run_timeout is {run} seconds, less than the timeout of one attempt, {timeout}: raise it or leave the timeout out"
            )),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;
    use crate::job::{Job, JobError, Work};

    fn parse(timeout: Option<u64>, run_timeout: Option<u64>) -> Result<Job, JobError> {
        let file = JobFile::new("j".parse().unwrap(), "", Work::Function("f".into()));
        Job::parse(JobFile { timeout, run_timeout, ..file })
    }

    fn job(timeout: Option<u64>, run_timeout: Option<u64>) -> Job {
        parse(timeout, run_timeout).unwrap()
    }

    #[test]
    fn an_attempt_gets_what_is_left_of_the_run() {
        let (began, at) = (Wall(0), |secs: i64| Wall(secs * 1000));
        let both = job(Some(4), Some(10));
        let times = [0, 5, 7, 9].map(|secs| both.attempt_time(began, at(secs)));
        assert_eq!(times, [4, 4, 3, 1].map(|secs| Some(Millis::secs(secs))));
        assert_eq!(both.time_is_over(began, at(9)), None);
        assert_eq!(both.time_is_over(began, at(10)).unwrap(), "its run_timeout of 10 s is over");
        assert_eq!(job(None, Some(10)).attempt_time(began, at(4)), Some(Millis::secs(6)));
        assert_eq!(job(None, Some(10)).attempt_time(began, Wall(-5_000)), Some(Millis::secs(10)));
        assert_eq!(job(Some(4), None).attempt_time(began, at(99)), Some(Millis::secs(4)));
        assert_eq!(job(None, None).attempt_time(began, at(99)), None);
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_the_fix() {
        let said = |timeout, run| parse(timeout, run).map(drop).map_err(|e| e.to_string());
        assert!(said(None, Some(0)).unwrap_err().contains("leave it out for none"));
        assert!(said(Some(11), Some(10)).unwrap_err().contains("raise it or leave the timeout out"));
        assert_eq!(said(Some(10), Some(10)), Ok(()));
    }
}
