//! Keeps forecasts for as long as they are good, and longer what is known of each job, so that the next one costs little.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, TryLockError};
use std::time::Duration;

use evenkeel::Handle;
use evenkeel_core::forecast::{ForecastGroups, ForecastScope};
use evenkeel_core::ids::Namespace;
use evenkeel_core::schedule::ForecastWindow;
use evenkeel_core::time::{Millis, Mono, Wall};
use tokio::sync::Mutex;

use crate::api::error::ApiError;
use crate::queries;
use evenkeel_client::types::{ForecastAnswer, ForecastStep};

/// How long an answer is good for: what is not declared, such as which nodes are eligible, may have changed.
const GOOD_FOR: Millis = Millis::secs(60);
/// How many answers are kept.
const KEPT: usize = 16;

/// How long what is known of jobs is remembered after the last forecast: some megabytes with 100,000 jobs.
const REMEMBERED: Duration = Duration::from_secs(300);

/// What a forecast is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ForecastKey {
    pub(super) namespace: Option<Namespace>,
    pub(super) label: Option<String>,
    pub(super) begin: Wall,
    pub(super) steps: usize,
    pub(super) step: ForecastStep,
}

/// A forecast that was made.
#[derive(Debug)]
struct KnownForecast {
    /// The declarations of which it was made.
    version: u64,
    made: Mono,
    answer: Arc<ForecastAnswer>,
}

/// The latest forecasts. One is made at a time, so that callers do not keep all processors busy.
#[derive(Debug, Default)]
pub(crate) struct ForecastCache {
    answers: Mutex<BTreeMap<ForecastKey, KnownForecast>>,
    jobs: Arc<std::sync::Mutex<RememberedJobs>>,
}

/// What the last forecast knew of each job.
#[derive(Debug, Default)]
struct RememberedJobs {
    groups: ForecastGroups,
    /// When it was asked for last; `None` while nothing is remembered.
    asked: Option<Mono>,
}

impl RememberedJobs {
    /// Forgets everything if no forecast was asked for since `asked`. Returns whether nothing is remembered.
    fn forget(&mut self, now: Mono) -> bool {
        let kept = Millis(i64::try_from(REMEMBERED.as_millis()).unwrap_or(i64::MAX));
        if self.asked.is_none_or(|asked| now - asked >= kept) {
            *self = Self::default();
        }
        self.asked.is_none()
    }
}

/// Forgets what is remembered when no forecast was asked for some time.
async fn forget(jobs: Arc<std::sync::Mutex<RememberedJobs>>) {
    loop {
        tokio::time::sleep(REMEMBERED).await;
        let now = evenkeel::clock::now().mono;
        let is_empty = match jobs.try_lock() {
            Ok(mut jobs) => jobs.forget(now),
            Err(TryLockError::Poisoned(jobs)) => jobs.into_inner().forget(now),
            // A forecast is being made.
            Err(TryLockError::WouldBlock) => false,
        };
        if is_empty {
            return;
        }
    }
}

impl ForecastCache {
    /// The forecast, made anew unless it is known and still good.
    pub(super) async fn get(
        &self,
        handle: &Handle,
        key: ForecastKey,
        scope: ForecastScope,
        window: ForecastWindow,
    ) -> Result<Arc<ForecastAnswer>, ApiError> {
        let mut known = self.answers.lock().await;
        let (handle, step, made) = (handle.clone(), key.step, evenkeel::clock::now().mono);
        known.retain(|_, known| made - known.made < GOOD_FOR);
        let old = known.get(&key).map(|known| (known.version, known.answer.clone()));
        let (jobs, runtime) = (self.jobs.clone(), tokio::runtime::Handle::current());
        let work = move || {
            // First the version: what changes meanwhile makes the answer an old one.
            let version = handle.with_node(|node| node.view().timing_version());
            match old {
                Some((known, answer)) if known == version => (version, answer, false),
                _ => {
                    let mut remembered = jobs.lock().unwrap_or_else(PoisonError::into_inner);
                    if remembered.asked.replace(made).is_none() {
                        runtime.spawn(forget(jobs.clone()));
                    }
                    let answer = queries::forecast(&handle, &mut remembered.groups, &scope, &window, step);
                    (version, Arc::new(answer), true)
                }
            }
        };
        let worked = tokio::task::spawn_blocking(work).await;
        let (version, answer, is_new) = worked.map_err(|e| ApiError::internal(e.to_string()))?;
        if is_new {
            if known.len() >= KEPT && !known.contains_key(&key) {
                let oldest = known.iter().min_by_key(|(_, known)| known.made).map(|(key, _)| key.clone());
                oldest.and_then(|oldest| known.remove(&oldest));
            }
            known.insert(key, KnownForecast { version, made, answer: answer.clone() });
        }
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_of_jobs_is_forgotten_some_time_after_the_last_forecast() {
        let asked = Mono(7);
        let kept = asked + Millis::secs(300);
        let mut jobs = RememberedJobs { asked: Some(asked), ..RememberedJobs::default() };
        assert!(!jobs.forget(kept - Millis(1)));
        assert_eq!(jobs.asked, Some(asked));
        assert!(jobs.forget(kept));
        assert_eq!(jobs.asked, None);
    }
}
