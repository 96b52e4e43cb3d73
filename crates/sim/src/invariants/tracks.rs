//! The checker's track of one job: every claimed fire, every attempt, every physical start and end.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_core::ids::{Fire, Member, NodeName, RequestId, Shard, Token};
use evenkeel_core::input::RunOutcome;
use evenkeel_core::job::{Delivery, Placement, Retry, Spec};
use evenkeel_core::labels::NodeSelector;
use evenkeel_core::record::{Assignment, Plan, RunState};
use evenkeel_core::run_limit::RunLimit;
use evenkeel_core::schedule::Schedule;
use evenkeel_core::time::{Millis, Wall};

use super::sharding::ShardedJobTrack;

/// The checker's knowledge of a job.
#[derive(Clone, Debug, Default)]
pub(crate) struct JobTrack {
    /// The present declaration, as the registry has it except for `since`, which a calendar may put later; `None` while
    /// there is none.
    pub spec: Option<Spec>,
    /// The time up to which fires are ignored, by the declaration alone.
    pub since: Wall,
    /// Counts changes of the declaration and of the calendars that it uses.
    pub edition: u64,
    pub schedule: Option<Schedule>,
    /// The version of the last declaration.
    pub version: u64,
    pub placement: Placement,
    /// The delivery guarantee, also of a job that was deleted; the workload never changes it.
    pub delivery: Delivery,
    /// Whether its runs are unmonitored, also of a job that was deleted; the workload never changes that either.
    pub unmonitored: bool,
    /// The retry policy, also of a job that was deleted; nor does the workload change that.
    pub retry: Option<Retry>,
    /// How many runs may go on at once, by each limit that its runs count in; nor that.
    pub limits: BTreeMap<RunLimit, u32>,
    /// When a run of it last started, in the world's time, and on which node.
    pub started: Option<(i64, NodeName)>,
    /// The latest node selectors of earlier declarations, and until when they applied, in the world's time.
    pub nodes: Vec<(i64, NodeSelector)>,
    pub assignment: Assignment,
    pub run_state: Option<RunState>,
    /// The plan of a dispatched job.
    pub plan: Option<Plan>,
    /// When the job was last deleted, in the world's time.
    pub deleted: Option<i64>,
    /// Since when the job is unchanged: created, switched or given another declaration.
    pub changed: i64,
    pub fires: BTreeMap<Fire, FireTrack>,
    /// First and last of the fires that history has as given up; not of a sharded job.
    pub given_up: Vec<(Wall, Wall)>,
    /// The runs that physically go on: their attempts and nodes.
    pub running: BTreeMap<Fire, (u32, NodeName)>,
    /// The highest token that physically started; with concurrent runs, of each fire.
    pub tokens: BTreeMap<Option<Fire>, Token>,
    /// Lost members whose claim on this job was taken over.
    pub rescued: BTreeSet<Member>,
    /// The requested cancellations.
    pub cancels: CancelRequests,
    /// The shards of a sharded job.
    pub sharding: ShardedJobTrack,
    /// Up to when due fires may be forgotten, since the registry was rewound.
    pub lost: Option<Wall>,
    /// Requests that were in the registry, and since when.
    pub requested: BTreeMap<RequestId, i64>,
}

/// The checker's knowledge of a fire.
#[derive(Clone, Debug, Default)]
pub(crate) struct FireTrack {
    /// Claimed and not withdrawn.
    pub claimed: bool,
    /// How many concurrent runs the job allowed when it was claimed.
    pub concurrent: usize,
    pub attempts: BTreeMap<u32, AttemptTrack>,
    /// Why it closed.
    pub closed: Option<FireClosure>,
}

/// The checker's knowledge of an attempt.
#[derive(Clone, Debug)]
pub(crate) struct AttemptTrack {
    pub by: Member,
    pub started: Option<i64>,
    pub ended: Option<RunOutcome>,
    /// When it ended.
    pub over: Option<i64>,
}

impl AttemptTrack {
    pub(crate) fn of(by: &Member) -> Self {
        Self { by: by.clone(), started: None, ended: None, over: None }
    }
}

/// The reason of a fire's close.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FireClosure {
    /// Its last attempt ended and was closed.
    Finished,
    /// Its last attempt is recorded as lost.
    Lost,
    /// It was dropped with its job.
    Dropped,
}

/// The requested and the reported cancellations of a job.
#[derive(Clone, Debug, Default)]
pub(crate) struct CancelRequests {
    pub(super) requested: BTreeSet<(Fire, Shard)>,
    pub(super) reported: BTreeSet<(Fire, Shard)>,
}

impl JobTrack {
    /// Whether the job is sharded, or was until it was deleted; the workload never changes its placement.
    pub(crate) fn is_sharded(&self) -> bool {
        self.placement.is_sharded()
    }

    /// Whether the job is dispatched, or was until it was deleted.
    pub(crate) fn is_dispatched(&self) -> bool {
        self.placement == Placement::Dispatched
    }

    pub(crate) fn attempt(&mut self, fire: &Fire, attempt: u32) -> Option<&mut AttemptTrack> {
        self.fires.get_mut(fire)?.attempts.get_mut(&attempt)
    }

    /// Whether the job exists, enabled and not paused.
    pub(crate) fn fires_by_schedule(&self) -> bool {
        self.spec.as_ref().is_some_and(|s| s.job.enabled && !s.paused)
    }

    /// Whether no change of the declaration, or of a calendar, ever withdrew a fire.
    pub(crate) fn stands(&self, fire: &Fire) -> bool {
        let Fire::Due(due) = *fire else { return true };
        let since = self.spec.as_ref().map_or(Wall::MAX, |spec| spec.since);
        let next = || self.schedule.as_ref().and_then(|schedule| schedule.next(due - Millis(1)));
        due > since && next() == Some(due)
    }

    /// The misfire grace of the job.
    pub(crate) fn grace(&self, ttl: Millis) -> Millis {
        let own = self.spec.as_ref().and_then(|s| s.job.misfire.grace);
        own.unwrap_or_else(|| evenkeel_core::job::default_grace(ttl))
    }

    /// Whether the age of a fire allows a first claim with a start at this moment.
    pub(crate) fn is_young_enough(&self, fire: &Fire, from: Wall, ttl: Millis) -> bool {
        let age = self.spec.as_ref().and_then(|s| s.job.misfire_settings().age);
        let (Fire::Due(due), Some(age)) = (fire, age) else { return true };
        // It is claimed up to a second before it starts.
        from - *due <= age.max(self.grace(ttl)) + Millis::secs(1)
    }

    /// How long caught-up fires may delay the next fire.
    pub(crate) fn spread(&self) -> i64 {
        let late = self.spec.as_ref().map(|s| s.job.misfire_settings()).map(|late| late.policy(Millis::ZERO));
        let turns = late.and_then(|policy| Some(policy.spread?.span.0 * i64::from(policy.most())));
        turns.unwrap_or(0)
    }

    /// Whether the schedule has a fire at exactly this moment. Periods are checked by simple arithmetic as well.
    pub(crate) fn is_due_at(&self, due: Wall) -> bool {
        let Some(schedule) = &self.schedule else { return false };
        let text = self.spec.as_ref().map_or("", |s| s.job.rules());
        let period =
            text.strip_prefix("@every ").and_then(|p| p.strip_suffix('s')).and_then(|p| p.parse().ok());
        let divides = period.is_none_or(|secs: i64| due.0 % (secs * 1000) == 0);
        divides && schedule.next(due - Millis(1)) == Some(due)
    }
}
