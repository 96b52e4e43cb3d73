//! What a declaration may not say: the checks of single keys, and of keys that exclude each other.

use alloc::format;
use alloc::string::{String, ToString};

use super::dataflow::{Dataflow, FETCH_MAX, INTERVAL_MAX, THREADS_MAX};
use super::http::Http;
use super::limits::Limits;
use super::notify::Notify;
use super::overlap::{CONCURRENT_RUNS_MAX, Overlap, QUEUE_MAX};
use super::pool::AT_MOST_MAX;
use super::program::{LaunchSettings, OWN, Program};
use super::retry::Backoff;
use super::{Job, Placement};
use crate::due::CatchUp;

impl Job {
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
        Ok(())
    }

    /// Refuses combinations that fires counted from the end of the run before do not allow.
    pub(super) fn validate_follows_runs(&self) -> Result<(), String> {
        if !self.schedule().ok().flatten().is_some_and(|schedule| schedule.follows_runs()) {
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

    pub(super) fn validate_overlap(&self) -> Result<(), String> {
        if self.overlap != Overlap::Forbid && self.placement.is_sharded() {
            return Err(
                "overlap is for jobs that are not sharded: leave it out; what a shard misses while it \
                        runs is settled as catch_up says"
                    .into(),
            );
        }
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
        if pool.limit == 0 || pool.limit > AT_MOST_MAX {
            return Err(format!(
                "pool.limit is {}, allowed are 1 to {AT_MOST_MAX}: a job that is not to run is disabled",
                pool.limit
            ));
        }
        match self.monitor_execution {
            true => Ok(()),
            false => Err("a pool counts the runs that go on, which takes monitor_execution = true".into()),
        }
    }

    /// The launch settings of its command.
    #[must_use]
    pub fn launch_settings(&self) -> LaunchSettings {
        LaunchSettings {
            directory: self.directory.clone(),
            environment: self.environment.clone(),
            inherit: self.inherit.clone(),
            stdin: self.stdin.clone(),
            user: self.user.clone(),
            limits: self.limits.clone(),
            dataflow: self.dataflow,
        }
    }

    pub(super) fn validate_program(&self) -> Result<(), String> {
        match (self.command.is_none(), self.function.is_empty(), self.http.is_none()) {
            (true, true, true) => {
                return Err("it does nothing: give command = [program, arguments…], function or http".into());
            }
            (false, true, true) => self.validate_command()?,
            (true, false, true) => self.validate_no_program("calls a function")?,
            (true, true, false) => {
                self.validate_no_program("makes a request")?;
                self.validate_http()?;
            }
            _ => return Err("give one of command, function and http, not more".into()),
        }
        let texts = self.command.texts().chain(&self.shard_parameters).chain([&self.parameter]);
        if texts.into_iter().any(|text| text.contains('\0')) {
            return Err("command or parameters hold a NUL character, which no program can be given".into());
        }
        Ok(())
    }

    /// Refuses fields of a process in a job without one.
    fn validate_no_program(&self, does: &str) -> Result<(), String> {
        let fields = [
            ("shell", !self.shell),
            ("directory", self.directory.is_empty()),
            ("environment", self.environment.is_empty()),
            ("inherit", self.inherit.is_empty()),
            ("stdin", self.stdin.is_empty()),
            ("user", self.user.is_empty()),
            ("limits", self.limits == Limits::default()),
        ];
        match fields.into_iter().find(|(_, absent)| !absent) {
            Some((field, _)) => Err(format!("{field} is for commands: leave it out of a job that {does}")),
            None => Ok(()),
        }
    }

    fn validate_command(&self) -> Result<(), String> {
        match (&self.command, self.shell) {
            (Program::Line(_), false) => {
                return Err(
                    "command is a text, which only a shell reads: write it as a list of the program and its \
                            arguments, or set shell = true"
                        .into(),
                );
            }
            (Program::Argv(_), true) => {
                return Err(
                    "shell = true takes command as one text: write command = \"…\", or leave shell out"
                        .into(),
                );
            }
            (Program::Line(line), true) if line.trim().is_empty() => {
                return Err("command says nothing to the shell".into());
            }
            (Program::Argv(argv), false) if argv.first().is_some_and(|program| program.trim().is_empty()) => {
                return Err("command names no program".into());
            }
            _ => {}
        }
        if !self.directory.is_empty() && !self.directory.starts_with('/') || self.directory.contains('\0') {
            return Err(format!(
                "directory is {:?}: write the whole path, which begins with /",
                self.directory
            ));
        }
        if self.user.contains(['\0', ':', '/', ' ', '\t', '\n']) {
            return Err(format!("user is {:?}, which is no user's name", self.user));
        }
        self.limits.read()?;
        self.validate_environment()
    }

    fn validate_environment(&self) -> Result<(), String> {
        let names = self.environment.keys().map(|name| ("environment", name));
        for (field, name) in names.chain(self.inherit.iter().map(|name| ("inherit", name))) {
            if name.is_empty() || name.contains(['=', '\0']) {
                return Err(format!(
                    "{field} names {name:?}: a variable's name is not empty and holds no = and no NUL"
                ));
            }
            if name.starts_with(OWN) {
                return Err(format!(
                    "{field} names {name}: variables that begin with {OWN} are set for every run and never the node's own"
                ));
            }
        }
        if let Some(name) = self.inherit.iter().find(|name| self.environment.contains_key(*name)) {
            return Err(format!("environment and inherit both name {name}: once is enough"));
        }
        match self.environment.iter().find(|(_, value)| value.contains('\0')) {
            Some((name, _)) => {
                Err(format!("environment gives {name} a NUL character, which no program can be given"))
            }
            None => Ok(()),
        }
    }

    /// The retry settings of its runs; `None` when they are not attempted again.
    #[must_use]
    pub fn backoff(&self) -> Option<Backoff> {
        self.retry.as_ref()?.read().ok()
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
