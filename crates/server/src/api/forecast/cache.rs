//! Keeps forecasts for as long as they are good.

use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel::Handle;
use evenkeel_core::ids::Namespace;
use evenkeel_core::schedule::ForecastWindow;
use evenkeel_core::time::{Millis, Mono, Wall};
use tokio::sync::Mutex;

use crate::api::error::ApiError;
use crate::api_types::{ForecastAnswer, ForecastStep};
use crate::queries::{self, ForecastScope};

/// How long an answer is good for: what is not declared, such as which nodes are eligible, may have changed.
const GOOD_FOR: Millis = Millis::secs(60);
/// How many answers are kept.
const KEPT: usize = 16;

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
pub(crate) struct ForecastCache(Mutex<BTreeMap<ForecastKey, KnownForecast>>);

impl ForecastCache {
    /// The forecast, made anew unless it is known and still good.
    pub(super) async fn get(
        &self,
        handle: &Handle,
        key: ForecastKey,
        scope: ForecastScope,
        window: ForecastWindow,
    ) -> Result<Arc<ForecastAnswer>, ApiError> {
        let mut known = self.0.lock().await;
        let (handle, step, made) = (handle.clone(), key.step, evenkeel::clock::now().mono);
        known.retain(|_, known| made - known.made < GOOD_FOR);
        let old = known.get(&key).map(|known| (known.version, known.answer.clone()));
        let work = move || {
            // First the version: what changes meanwhile makes the answer an old one.
            let version = handle.with_node(|node| node.view().timing_version());
            match old {
                Some((known, answer)) if known == version => (version, answer, false),
                _ => (version, Arc::new(queries::forecast(&handle, &scope, &window, step)), true),
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
