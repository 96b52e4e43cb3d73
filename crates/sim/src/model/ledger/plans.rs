//! Checks a dispatched job's plan: what one commit may change in it.

use evenkeel_core::effect::VerdictState;
use evenkeel_core::ids::{Member, Operation};
use evenkeel_core::job::Delivery;
use evenkeel_core::keys;
use evenkeel_core::record::{Attempt, BeatRecord, Plan, decode};
use evenkeel_core::store::Store;
use evenkeel_core::view::DISPATCH;

use super::super::names::job;
use super::{FireLedger, LedgerViolation, named, require};

/// The plan of the job as the registry has it.
pub(in super::super) fn plan(store: &Store) -> Option<Plan> {
    let found = store.read(&[keys::plan(&job())]);
    found.first().and_then(|change| decode(&change.entry.as_ref()?.value))
}

/// The holder of the beat in which runs are planned.
pub(in super::super) fn beat(store: &Store) -> Option<BeatRecord> {
    let operation: Operation = DISPATCH.parse().ok()?;
    let found = store.read(&[keys::beat(&operation)]);
    found.first().and_then(|change| decode(&change.entry.as_ref()?.value))
}

/// Whether a member is present.
pub(in super::super) fn present(store: &Store, member: &Member) -> bool {
    store.read(&[keys::node(member)]).iter().any(|change| change.entry.is_some())
}

/// A beat changes hands only with its number, or from a dead member.
pub(in super::super) fn judge_beat(before: &Store, after: &Store) -> Result<(), LedgerViolation> {
    let (Some(old), Some(new)) = (beat(before), beat(after)) else { return Ok(()) };
    let same = old == new;
    let next = new.beat > old.beat || (new.beat == old.beat && !present(before, &old.holder));
    require(same || (next && new.seq > old.seq), "one holder a beat (I11)", || {
        format!("beat {} of {} goes to {} as beat {}", old.beat, old.holder, new.holder, new.beat)
    })
}

impl FireLedger {
    /// Checks a plan written by `by`, which could trust its lease up to `trust`. `plans` says whether it is the
    /// planner, `gone` which members of the old plan are absent.
    pub(in super::super) fn plan(
        &mut self,
        old: Option<&Plan>,
        new: &Plan,
        by: &Member,
        (trust, plans): (i64, bool),
        gone: impl Fn(&Member) -> bool,
    ) -> Result<(), LedgerViolation> {
        let empty = Plan::default();
        let old = old.unwrap_or(&empty);
        require(new.seq > old.seq, "seq rises (I1)", || format!("seq goes from {} to {}", old.seq, new.seq))?;
        self.plan_watermark(old, new)?;
        let of = |plan: &Plan, run: &Attempt| plan.runs.iter().find(|r| r.fire == run.fire).cloned();
        for run in &old.runs {
            let told = new.verdicts.iter().any(|v| v.due == run.due && v.attempt == run.attempt);
            match of(new, run) {
                None => self.left(run, new, told)?,
                Some(now) if now.attempt != run.attempt => {
                    let next =
                        now.attempt == run.attempt + 1 && self.delivery == Delivery::AtLeastOnce && told;
                    require(next, "attempts count up (I20)", || {
                        format!("{} attempt {}", named(now.due.0), now.attempt)
                    })?;
                    require(run.by == *by || gone(&run.by), "only the dead are replaced (I19)", || {
                        format!("{} of {} is attempted anew by {by}", named(now.due.0), run.by)
                    })?;
                }
                Some(now) if now.by != run.by => {
                    let takes = now.by == *by && now.planned_for() == Some(&run.by);
                    require((plans || takes) && !run.is_claimed(), "an accepted run stays (I42)", || {
                        format!("{} goes from {} to {}", named(now.due.0), run.by, now.by)
                    })?;
                }
                Some(_) => {}
            }
        }
        for run in &new.runs {
            let before = of(old, run);
            let fresh = before.is_none();
            require(!fresh || plans, "only the planner plans (I42)", || {
                format!("{by} plans {}", named(run.due.0))
            })?;
            require(!fresh || !self.started(run.due.0), "a fire is claimed once (I14)", || {
                format!("{} is planned again after it started", named(run.due.0))
            })?;
            // A node whose run was ended may accept the next attempt in the commit that records the end.
            if run.is_claimed() && before.is_none_or(|r| !r.is_claimed() || r.attempt != run.attempt) {
                self.accepted(run, by, trust)?;
            }
        }
        let accepted = new.runs.iter().filter(|run| run.is_claimed()).count();
        require(accepted <= 1, "no overlap (I15)", || format!("{accepted} runs are accepted at once"))?;
        self.lose(new)
    }

    fn accepted(&mut self, run: &Attempt, by: &Member, trust: i64) -> Result<(), LedgerViolation> {
        let due = run.due.0;
        require(run.by == *by, "only its node accepts a run (I14)", || {
            format!("{by} accepts {} for {}", named(due), run.by)
        })?;
        require(self.due.contains(&due), "no phantom fires (I18)", || {
            format!("{} is on no schedule", named(due))
        })?;
        if due >= trust {
            self.hopeless.insert(due);
        } else {
            self.hopeless.remove(&due);
        }
        Ok(())
    }

    /// Checks a run that leaves the plan: it ended, was given up with a verdict, or never began and may be planned.
    fn left(&self, run: &Attempt, new: &Plan, told: bool) -> Result<(), LedgerViolation> {
        let due = run.due.0;
        let ended = self.ends.contains(&(due, run.attempt));
        let back = new.watermark < run.due && new.reached < run.due;
        let skipped = new.verdicts.iter().any(|v| v.from.0 <= due && due <= v.due.0);
        let unbegun = !self.started(due) && (back || skipped || !run.is_claimed());
        require(ended || told || unbegun, "a run is closed by its end (I22)", || {
            format!("{} attempt {} leaves the plan and its end is not recorded", named(due), run.attempt)
        })
    }

    fn plan_watermark(&self, old: &Plan, new: &Plan) -> Result<(), LedgerViolation> {
        let (from, to) = (old.watermark.0, new.watermark.0);
        let told = |due: i64| {
            new.verdicts.iter().any(|v| v.from.0 <= due && due <= v.due.0)
                || new.runs.iter().any(|run| run.due.0 == due)
                || self.started(due)
        };
        let silent = self.due.iter().find(|due| from < **due && **due <= to && !told(**due));
        require(silent.is_none(), "no fire passed in silence (I16)", || {
            format!("the plan passes {}", silent.map(|due| named(*due)).unwrap_or_default())
        })?;
        let below = |due: &i64| to < *due && *due <= from && self.started(*due) && new.reached.0 < *due;
        let back = self.due.iter().find(|due| below(due));
        require(back.is_none(), "watermark grows (I14)", || {
            format!("it falls behind {}, which started", back.map(|due| named(*due)).unwrap_or_default())
        })
    }

    fn lose(&mut self, new: &Plan) -> Result<(), LedgerViolation> {
        for verdict in new.verdicts.iter().filter(|v| v.state == VerdictState::Lost) {
            let due = verdict.due.0;
            let doubt = self.starts.contains(&(due, verdict.attempt)) || !self.hopeless.contains(&due);
            require(doubt, "lost only in doubt", || {
                format!("{} is given up though no node could have started it", named(due))
            })?;
            self.lost.insert(due);
        }
        Ok(())
    }
}
