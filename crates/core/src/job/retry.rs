//! Retries: whether a failed run is attempted again, and after which delay.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

use crate::ids::{RunId, Shard};
use crate::outcome::{RunOutcome, StopReason};
use crate::schedule;
use crate::time::{Millis, SpanLimits, TimeSpan};

/// The most attempts that may follow the first one.
const TIMES_MAX: u32 = 100;
/// The delay of the second attempt where the job does not say.
const WAIT: Millis = Millis::secs(10);
/// The longest delay where the job does not say, unless the first one is longer.
const UP_TO: Millis = Millis::secs(600);
/// The shortest and the longest delay: a run that fails at once must not keep a node busy with failing.
const WAIT_LIMITS: SpanLimits = SpanLimits::new(Millis::secs(1), Millis::secs(24 * 3600));

/// Retries as declared.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retry {
    /// How many attempts may follow the first one.
    pub max_retries: u32,
    /// The delay of the second attempt, such as `10s`, which is the default; doubled for each later one.
    #[serde(default, deserialize_with = "super::written::filled", skip_serializing_if = "String::is_empty")]
    pub delay: String,
    /// The longest delay, such as `5m`; `10m` when empty.
    #[serde(default, deserialize_with = "super::written::filled", skip_serializing_if = "String::is_empty")]
    pub max_delay: String,
    /// The exit codes after which a command is attempted again; after any failure when empty.
    #[serde(default, deserialize_with = "super::written::some", skip_serializing_if = "Vec::is_empty")]
    pub exit_codes: Vec<u8>,
}

/// The retry settings as numbers: fixed for a run at its start, whatever becomes of its job's declaration.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Backoff {
    times: u32,
    first: Millis,
    most: Millis,
    codes: Vec<u8>,
}

impl Retry {
    /// Parses the settings.
    ///
    /// # Errors
    /// A field is invalid; the text says what is allowed.
    pub fn read(&self) -> Result<Backoff, String> {
        if self.max_retries == 0 || self.max_retries > TIMES_MAX {
            return Err(format!("retry.max_retries is {}, allowed are 1 to {TIMES_MAX}", self.max_retries));
        }
        let first = span("retry.delay", &self.delay)?.unwrap_or(WAIT);
        let most = span("retry.max_delay", &self.max_delay)?;
        if let Some(most) = most.filter(|most| *most < first) {
            return Err(format!("retry.max_delay is {most}, which is less than the first delay of {first}"));
        }
        if self.exit_codes.contains(&0) {
            return Err("retry.exit_codes has 0, with which commands succeed: leave it out".to_string());
        }
        let most = most.unwrap_or(UP_TO.max(first));
        Ok(Backoff { times: self.max_retries, first, most, codes: self.exit_codes.clone() })
    }
}

impl Backoff {
    /// The delay of the attempt that follows this one; `None` when none follows. A killed run is not attempted again,
    /// and one that ended because trust ran out goes by the job's delivery instead.
    ///
    /// A delay is shorter by up to half of it, by a hash of the run's name and attempt: so jobs that fail together do
    /// not come back together, and every node computes the same.
    #[must_use]
    pub fn delay_after(&self, run: &RunId, attempt: u32, ended: RunOutcome) -> Option<Millis> {
        let failed = match ended {
            RunOutcome::Failed(code) => {
                self.codes.is_empty() || code.is_some_and(|c| self.codes.contains(&c))
            }
            RunOutcome::Stopped(StopReason::TimedOut) => self.codes.is_empty(),
            RunOutcome::Succeeded
            | RunOutcome::Stopped(StopReason::Killed | StopReason::Fenced | StopReason::Replaced) => false,
        };
        if !failed || attempt > self.times {
            return None;
        }
        let full = (1..attempt).fold(self.first, |wait, _| Millis(wait.0 * 2).min(self.most));
        // Shards that fail together come back together: they wait in one entry.
        let whole = RunId { shard: Shard(0), ..run.clone() };
        let seed = schedule::seed(&format!("{whole} {attempt}"));
        let less = seed % (full.0.unsigned_abs() / 2 + 1);
        Some(full - Millis(less.cast_signed()))
    }
}

fn span(word: &str, text: &str) -> Result<Option<Millis>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let span = TimeSpan::parse(word, text, WAIT_LIMITS).map_err(|e| e.to_string())?;
    Ok(Some(span.millis()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{Fire, Shard};
    use crate::time::Wall;

    fn retry(times: u32, wait: &str, up_to: &str, codes: &[u8]) -> Result<Backoff, String> {
        Retry { max_retries: times, delay: wait.into(), max_delay: up_to.into(), exit_codes: codes.into() }
            .read()
    }

    fn run(job: &str) -> RunId {
        RunId { job: job.parse().unwrap(), fire: Fire::Due(Wall(1_000)), shard: Shard(0) }
    }

    #[test]
    fn waits_double_up_to_the_longest_and_are_shortened_by_half_at_most() {
        let backoff = retry(6, "10s", "1m", &[]).unwrap();
        let waits = |job: &str| -> Vec<Option<Millis>> {
            (1..=7)
                .map(|attempt| backoff.delay_after(&run(job), attempt, RunOutcome::Failed(Some(1))))
                .collect()
        };
        let full = [10, 20, 40, 60, 60, 60].map(Millis::secs);
        for (wait, full) in waits("j").iter().zip(full) {
            let wait = wait.unwrap();
            assert!(wait <= full && wait.0 * 2 >= full.0, "{wait} of {full}");
        }
        assert_eq!(waits("j")[6], None, "six may follow the first");
        assert_ne!(waits("j"), waits("k"), "jobs that fail together come back apart");
    }

    #[test]
    fn what_is_attempted_again() {
        let any = retry(1, "", "", &[]).unwrap();
        let some = retry(1, "", "", &[75, 111]).unwrap();
        let again = |backoff: &Backoff, ended| backoff.delay_after(&run("j"), 1, ended).is_some();
        for (ended, by_any, by_some) in [
            (RunOutcome::Succeeded, false, false),
            (RunOutcome::Failed(None), true, false),
            (RunOutcome::Failed(Some(1)), true, false),
            (RunOutcome::Failed(Some(75)), true, true),
            (RunOutcome::Stopped(StopReason::TimedOut), true, false),
            (RunOutcome::Stopped(StopReason::Killed), false, false),
            (RunOutcome::Stopped(StopReason::Fenced), false, false),
        ] {
            assert_eq!((again(&any, ended), again(&some, ended)), (by_any, by_some), "{ended:?}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_what_is_allowed() {
        for (wrong, word) in [
            (retry(0, "", "", &[]), "retry.max_retries is 0, allowed are 1 to 100"),
            (retry(101, "", "", &[]), "retry.max_retries"),
            (retry(1, "1ms", "", &[]), "retry.delay"),
            (retry(1, "2d", "", &[]), "retry.delay `2d`: the span must be at least 1s and at most 1d"),
            (retry(1, "soon", "", &[]), "retry.delay"),
            (retry(1, "30s", "20s", &[]), "retry.max_delay"),
            (retry(1, "", "5s", &[]), "retry.max_delay"),
            (retry(1, "", "", &[0]), "retry.exit_codes"),
        ] {
            let text = wrong.unwrap_err();
            assert!(text.contains(word), "{text}");
        }
        // A first delay that is longer than the default maximum is still one.
        let backoff = retry(2, "1h", "", &[]).unwrap();
        assert!(backoff.delay_after(&run("j"), 2, RunOutcome::Failed(None)).unwrap() >= Millis::secs(1_800));
    }
}
