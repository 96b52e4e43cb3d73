//! `pause_after_failures`: after how many runs in a row that ended badly a job is paused.

use alloc::format;
use alloc::string::String;

use super::JobFile;

/// The most runs in a row that may end badly before a job is paused.
const MOST: u32 = 1_000;

impl JobFile {
    pub(super) fn validate_pause_after_failures(&self) -> Result<(), String> {
        match self.pause_after_failures {
            None => Ok(()),
            Some(n) if n == 0 || n > MOST => {
                Err(format!("pause_after_failures is {n}, allowed are 1 to {MOST}: leave it out to never pause the job"))
            }
            Some(_) if !self.monitor_execution => Err(
                "pause_after_failures takes monitor_execution = true: without it the outcome of a run is unknown".into(),
            ),
            Some(_) if self.schedule.is_empty() => {
                Err("pause_after_failures pauses a schedule, and the schedule is empty: give schedule, or leave it out".into())
            }
            Some(_) => Ok(()),
        }
    }
}
