//! What a declaration may not say: the checks of single keys, and of keys that exclude each other.

use alloc::format;
use alloc::string::{String, ToString};

use super::dataflow::{Dataflow, FETCH_MAX, INTERVAL_MAX, THREADS_MAX};
use super::http::Http;
use super::notify::Notify;
use super::overlap::{CONCURRENT_RUNS_MAX, Overlap, QUEUE_MAX};
use super::span_text::SpanText;
use super::{CATCH_UP_MAX, JobError, JobFile, Placement, SPEC_BYTES_MAX};
use crate::due::CatchUp;
use crate::run_limit::RUN_LIMIT_MAX;
use crate::shards::SHARDS_MAX;

impl JobFile {
    /// Checks everything that can be checked without a registry, in bounded time.
    ///
    /// # Errors
    /// An invalid field: the error names it and says what is allowed.
    pub(super) fn validate(&self) -> Result<(), JobError> {
        let fail = |text: String| Err(JobError(format!("job {}: {text}", self.name)));
        if let Err(text) = self.validate_schedule_keys() {
            return fail(text);
        }
        if let Err(e) = self.read_schedule() {
            let place = e.span().map_or_else(String::new, |at| match at.line {
                0 => format!(" (at character {} of its schedule)", at.column + 1),
                n => format!(" (at character {} of its rule {})", at.column + 1, n + 1),
            });
            return fail(format!("{e}{place}"));
        }
        if self.shards == 0 || self.shards > SHARDS_MAX {
            return fail(format!("shards is {}, allowed are 1 to {SHARDS_MAX}", self.shards));
        }
        if let Err(text) = self
            .validate_calendars()
            .and_then(|()| self.validate_placement())
            .and_then(|()| self.validate_pool())
        {
            return fail(text);
        }
        if self.shard_parameters.len() > self.shards as usize {
            return fail(format!(
                "shard_parameters has one for shard {}, but the last shard is {}: raise shards or leave it out",
                self.shard_parameters.len() - 1,
                self.shards - 1
            ));
        }
        if let CatchUp::All(n) = self.catch_up
            && (n == 0 || n > CATCH_UP_MAX)
        {
            return fail(format!("catch_up.all is {n}, allowed are 1 to {CATCH_UP_MAX}"));
        }
        let spans = [("catch_up_spread", &self.catch_up_spread), ("catch_up_window", &self.catch_up_window)];
        if let Some(Err(e)) =
            spans.map(|(key, text)| SpanText::parse(key, text.clone())).into_iter().find(Result::is_err)
        {
            return fail(e.to_string());
        }
        let refined = !self.catch_up_window.is_empty() || !self.catch_up_spread.is_empty();
        if refined && self.catch_up == CatchUp::Skip {
            return fail(
                "catch_up_window and catch_up_spread are for jobs that make fires up: leave them out".into(),
            );
        }
        if self.timeout == Some(0) {
            return fail("timeout is 0 seconds: leave it out for none".to_string());
        }
        if let Err(text) = self
            .validate_spans()
            .and_then(|()| self.validate_run_timeout())
            .and_then(|()| self.validate_program())
            .and_then(|()| self.validate_parameters())
            .and_then(|()| self.validate_retry())
            .and_then(|()| self.validate_pause_after_failures())
            .and_then(|()| self.validate_overlap())
            .and_then(|()| self.validate_follows_runs())
            .and_then(|()| self.validate_dataflow())
            .and_then(|()| self.validate_notify())
        {
            return fail(text);
        }
        match serde_json::to_vec(self) {
            Ok(bytes) if bytes.len() <= SPEC_BYTES_MAX => Ok(()),
            _ => fail(format!("the declaration is larger than {SPEC_BYTES_MAX} bytes")),
        }
    }

    pub(super) fn validate_dataflow(&self) -> Result<(), String> {
        let Some(Dataflow { interval, threads, fetch, .. }) = self.dataflow else { return Ok(()) };
        if self.function.is_empty() {
            return Err(
                "dataflow is for functions that fetch and process: leave it out, or give function".into()
            );
        }
        let allowed = |field: &str, value: u64, max: u64| match value {
            0 => Err(format!("dataflow.{field} is 0, allowed are 1 to {max}")),
            value if value > max => Err(format!("dataflow.{field} is {value}, allowed are 1 to {max}")),
            _ => Ok(()),
        };
        allowed("interval", interval, INTERVAL_MAX)?;
        allowed("threads", threads.unwrap_or(1).into(), THREADS_MAX.into())?;
        allowed("fetch", fetch.into(), FETCH_MAX.into())
    }

    pub(super) fn validate_http(&self) -> Result<(), String> {
        self.http.as_deref().map_or(Ok(()), Http::validate)
    }

    pub(super) fn validate_notify(&self) -> Result<(), String> {
        let Some(notify) = &self.notify else { return Ok(()) };
        notify.check()?;
        let limited = !notify.late_after.is_empty() || !notify.absent_after.is_empty();
        if limited && self.schedule.is_empty() {
            return Err(
                "notify.late_after and absent_after are for jobs with a schedule: leave them out".to_string()
            );
        }
        if !notify.heartbeat.is_empty() && (self.shards > 1 || self.placement == Placement::Broadcast) {
            return Err(
                "notify.heartbeat is for jobs whose fire is one run: of several runs one alone says little, so leave it out"
                    .to_string(),
            );
        }
        Ok(())
    }

    /// Refuses combinations that fires counted from the end of the run before do not allow.
    pub(super) fn validate_follows_runs(&self) -> Result<(), String> {
        if !self.read_schedule().ok().flatten().is_some_and(|schedule| schedule.follows_runs()) {
            return Ok(());
        }
        if self.placement != Placement::Claimed {
            return Err(
                "`@after` counts from the runs that one node sees: set placement = \"claimed\"".into()
            );
        }
        if self.calendars().next().is_some() {
            return Err(
                "exclude_calendars and require_calendars leave moments of the clock out, and `@after` has none: leave them out"
                    .into(),
            );
        }
        if self.overlap != Overlap::Forbid {
            return Err(
                "no fire comes due while the run before goes on, as `@after` says: leave overlap out".into(),
            );
        }
        let limited = |notify: &Notify| !notify.late_after.is_empty() || !notify.absent_after.is_empty();
        if self.notify.as_deref().is_some_and(limited) {
            return Err(
                "notify.late_after and absent_after count from moments of the clock, and `@after` has \
                        none: leave them out"
                    .into(),
            );
        }
        Ok(())
    }

    /// Refuses an overlap setting of a job with shards.
    pub(super) fn validate_overlap_placement(&self) -> Result<(), String> {
        if self.overlap != Overlap::Forbid && self.placement.is_sharded() {
            return Err(
                "overlap is for jobs that are not sharded: leave it out; what a shard misses while it \
                        runs is settled as catch_up says"
                    .into(),
            );
        }
        Ok(())
    }

    pub(super) fn validate_overlap(&self) -> Result<(), String> {
        self.validate_overlap_placement()?;
        match self.overlap {
            Overlap::Queue(n) if n == 0 || n > QUEUE_MAX => {
                Err(format!("overlap.queue is {n}, allowed are 1 to {QUEUE_MAX}; \"skip\" lets nothing wait"))
            }
            Overlap::Queue(n) if self.catch_up != CatchUp::Latest => {
                Err(format!("overlap.queue says already that the latest {n} are made up: leave catch_up out"))
            }
            Overlap::Limit(n) if !(2..=CONCURRENT_RUNS_MAX).contains(&n) => Err(format!(
                "overlap.limit is {n}, allowed are 2 to {CONCURRENT_RUNS_MAX}; one at a time is \"forbid\""
            )),
            _ => Ok(()),
        }
    }

    pub(super) fn validate_pool(&self) -> Result<(), String> {
        let Some(pool) = &self.pool else { return Ok(()) };
        if pool.limit == 0 || pool.limit > RUN_LIMIT_MAX {
            return Err(format!(
                "pool.limit is {}, allowed are 1 to {RUN_LIMIT_MAX}: a job that is not to run is disabled",
                pool.limit
            ));
        }
        match self.monitor_execution {
            true => Ok(()),
            false => Err("a pool counts the runs that go on, which takes monitor_execution = true".into()),
        }
    }

    pub(super) fn validate_retry(&self) -> Result<(), String> {
        let Some(retry) = &self.retry else { return Ok(()) };
        retry.read()?;
        if !self.monitor_execution {
            return Err(
                "retry takes monitor_execution = true: without it no node learns how a run ends".into()
            );
        }
        if !retry.exit_codes.is_empty() && self.command.is_none() {
            return Err(
                "retry.exit_codes are exit codes of a command: leave them out for a function or a request"
                    .into(),
            );
        }
        Ok(())
    }
}
