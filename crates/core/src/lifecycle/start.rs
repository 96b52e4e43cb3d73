//! Starting: the one act that the registry cannot refuse. It happens only within a second of the moment named in the
//! claim, and later only after another commit has moved that moment (law 2).

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use super::{JobRuns, START_WINDOW};
use crate::effect::Run;
use crate::ids::{Fire, Shard, Token};
use crate::job::Job;
use crate::record::Attempt;
use crate::rule_context::{RuleAction, RuleOutput};
use crate::time::{Millis, Mono, Wall};

/// What an attempt that has not started may do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StartReadiness {
    /// Nothing: its moment has not come, or the time is unknown. The job is looked at again.
    NotYet,
    /// Its start window is over, or was named by a clock that was off, or its wait for a retry is over: a commit gives it a
    /// new window first.
    Confirm,
    /// It may start, until this moment of our own clock.
    Start(Mono),
}

/// The moment before which a fire must not start. A manual run may start by now at the latest, whatever the clock of
/// the trigger showed.
pub(crate) fn moment(fire: &Fire, due: Wall, now: Wall) -> Wall {
    if matches!(fire, Fire::Asked(_)) { due.min(now) } else { due }
}

/// Whether a claim names a moment far ahead that is not its due one: a clock that was off made it at a takeover.
pub(crate) fn is_misdated(from: Wall, due: Wall, now: Wall) -> bool {
    from > due && from > now + START_WINDOW
}

impl JobRuns<'_> {
    /// The moment before which an attempt must not start.
    pub(crate) fn moment(&self, attempt: &Attempt) -> Wall {
        moment(&attempt.fire, attempt.due, self.ctx.now.wall)
    }

    /// What an attempt that has not started may do now.
    pub(crate) fn readiness(&self, attempt: &Attempt, out: &mut RuleOutput) -> StartReadiness {
        let (now, from) = (self.ctx.now, attempt.starts_at());
        let anew = match attempt.wait {
            Some(wait) => wait.left(now.wall).is_none(),
            None => is_misdated(from, self.moment(attempt), now.wall),
        };
        if now.wall < from && !anew {
            out.add(RuleAction::JobAt(self.job.id, from));
            return StartReadiness::NotYet;
        }
        if self.terms.is_some() && !self.clock_agrees(out) {
            return StartReadiness::NotYet;
        }
        let latest = from + START_WINDOW;
        if anew || now.wall > latest {
            return StartReadiness::Confirm;
        }
        StartReadiness::Start(self.ctx.lease.until().min(now.mono + (latest - now.wall)))
    }

    /// The attempt with a start window that begins now, or when it is due. One that waited is claimed with that, under
    /// this number. After a failure it is past due; one that was set aside may not be: its node may have died before.
    pub(crate) fn confirmed(&self, attempt: &Attempt, seq: u64) -> Attempt {
        let now = self.ctx.now.wall;
        let from = Some(now.max(self.moment(attempt)));
        match attempt.wait {
            Some(wait) if wait.length > Millis::ZERO => {
                Attempt { from: Some(now), seq, wait: None, ..attempt.clone() }
            }
            Some(_) => Attempt { from, seq, wait: None, ..attempt.clone() },
            None => Attempt { from, ..attempt.clone() },
        }
    }

    /// An attempt at the run of one shard, as its executor gets it.
    pub(crate) fn run(&self, attempt: &Attempt, shard: Shard, job: &Job, not_after: Mono) -> Run {
        let parameters = job.with_defaults(&attempt.parameters);
        let mut setting = job.work.launch_settings();
        // A variable that the job has had since the run was requested counts: the author of the job gives it.
        let inherited = |name: &str| setting.inherit.iter().any(|known| known == name);
        let given = parameters.iter().filter(|(name, _)| job.work.command().is_some() && !inherited(name));
        let given: Vec<(String, String)> = given.map(|(name, value)| (name.into(), value.into())).collect();
        for (name, value) in given {
            setting.environment.entry(name).or_insert(value);
        }
        let began = attempt.began().unwrap_or_else(|| attempt.starts_at());
        Run {
            id: self.run_id(&attempt.fire, shard),
            due: attempt.due,
            priority: job.priority,
            again: None,
            shards: attempt.total,
            parameter: job.shard_parameters.get(shard.0 as usize).cloned().unwrap_or_default(),
            job_parameter: job.parameter.clone(),
            attempt: attempt.attempt,
            token: Token::new(self.ctx.local.settings.generation, attempt.seq),
            sent: self.backfill_text(attempt),
            work: job.work.action(),
            shadow: job.shadow,
            setting: setting.into(),
            parameters,
            retry: job.backoff().map(Box::new),
            timeout: job.attempt_time(began, self.ctx.now.wall),
            not_after,
        }
    }
}
