//! Work under way: one attempt at the runs of a fire, from its claim to its end, whatever the placement of its job.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use serde::{Deserialize, Serialize};

use crate::ids::{Fire, Member, Shard};
use crate::job::RunParameters;
use crate::shards::ShardSet;
use crate::time::{Millis, Wall};

/// One attempt at the runs of a fire: one run of a job with one shard, or the runs of several shards that are at the
/// same point.
///
/// It is planned (`from` is absent; only dispatched jobs plan), or claimed and waits for its moment, or runs, or waits
/// (`wait`) to be claimed again.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Attempt {
    /// The fire.
    pub fire: Fire,
    /// The moment it stands for.
    pub due: Wall,
    /// The member that runs it, or is to run it.
    pub by: Member,
    /// The number of the attempt, counted from 1.
    pub attempt: u32,
    /// The `seq` of its record when this attempt was claimed: the lower part of its token.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub seq: u64,
    /// The start window, once it is claimed: it starts in `[from, from + 1 s]`; later only after another commit has moved
    /// `from` (law 2).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Wall>,
    /// The watermark before the claim, for withdrawing it; the earliest moment where no watermark moved.
    #[serde(default = "Attempt::no_watermark", skip_serializing_if = "Attempt::is_no_watermark")]
    pub back: Wall,
    /// Its shards that have not ended.
    #[serde(default = "Attempt::single", skip_serializing_if = "Attempt::is_single")]
    pub shards: ShardSet,
    /// The number of shards of the fire; a new number concerns the next fire only.
    #[serde(default = "Attempt::one", skip_serializing_if = "Attempt::is_one")]
    pub total: u32,
    /// Whether the attempt before failed, and this one is not claimed yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<RetryWait>,
    /// When the first attempt could start; `None` in the first itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began: Option<Wall>,
    /// The parameters that the manual run was given, with the defaults of that time; none of a fire of the schedule, which
    /// has the defaults.
    #[serde(default, skip_serializing_if = "RunParameters::is_empty")]
    pub parameters: RunParameters,
    /// How the planner chose its node; only dispatched jobs have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub choice: Option<Box<PlannedNode>>,
}

/// How the planner chose the node of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PlannedNode {
    /// How many free slots that node was expected to have when the run is due, without this run; below zero runs queue.
    #[serde(default)]
    pub free: i64,
    /// The node that it was planned for first, where that node had no slot when the run was due and another one took it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planned_for: Option<Member>,
}

impl Attempt {
    /// A first attempt at the one run of a fire, which this member is to run.
    #[must_use]
    pub fn first(fire: Fire, due: Wall, by: Member) -> Self {
        Self {
            fire,
            due,
            by,
            attempt: 1,
            seq: 0,
            from: None,
            back: Wall::MIN,
            shards: Self::single(),
            total: 1,
            wait: None,
            began: None,
            parameters: RunParameters::default(),
            choice: None,
        }
    }

    /// The same for a run with these parameters.
    #[must_use]
    pub fn with_parameters(self, parameters: RunParameters) -> Self {
        Self { parameters, ..self }
    }

    /// The next attempt after this one. It has no token and no start window before it is claimed.
    #[must_use]
    pub fn next(self) -> Self {
        let began = self.began();
        let choice = self.choice.map(|choice| PlannedNode { planned_for: None, ..*choice }.into());
        Self { attempt: self.attempt + 1, seq: 0, from: None, wait: None, began, choice, ..self }
    }

    /// Places it on a node that was expected to have this many free slots.
    pub fn place(&mut self, by: Member, free: i64) {
        self.by = by;
        self.choice = Some(PlannedNode { free, planned_for: None }.into());
    }

    /// The first moment of its start window; while it is not claimed, the end of its wait, or its due moment.
    #[must_use]
    pub fn starts_at(&self) -> Wall {
        self.wait.map(|wait| wait.until).or(self.from).unwrap_or(self.due)
    }

    /// When the first attempt could start, if one was claimed: the run's time counts from there.
    #[must_use]
    pub fn began(&self) -> Option<Wall> {
        self.began.or_else(|| self.from.filter(|_| self.wait.is_none()))
    }

    /// Whether its node has claimed it, so that it may be running.
    #[must_use]
    pub fn is_claimed(&self) -> bool {
        self.from.is_some() && self.wait.is_none()
    }

    /// All members that it names.
    pub(crate) fn members_mut(&mut self) -> impl Iterator<Item = &mut Member> {
        let planned_for = self.choice.as_mut().and_then(|choice| choice.planned_for.as_mut());
        core::iter::once(&mut self.by).chain(planned_for)
    }

    /// How many free slots its node was expected to have, by the plan.
    #[must_use]
    pub fn free(&self) -> i64 {
        self.choice.as_ref().map_or(0, |choice| choice.free)
    }

    /// The node that it was planned for first, where another one took it.
    #[must_use]
    pub fn planned_for(&self) -> Option<&Member> {
        self.choice.as_ref()?.planned_for.as_ref()
    }

    /// Why the planner chose its node, for people.
    #[must_use]
    pub fn why_chosen(&self) -> String {
        let chosen = &self.planned_for().unwrap_or(&self.by).node;
        let why = match (&self.fire, self.free()) {
            (Fire::Asked(_), _) => format!("{chosen} had the lowest load score"),
            (Fire::Due(_), free @ 1..) => {
                format!("{chosen} was to have the most free slots when it is due, {free}")
            }
            (Fire::Due(_), waiting) => format!(
                "no node was to have a free slot when it is due, and {chosen} the fewest runs waiting, {}",
                waiting.unsigned_abs()
            ),
        };
        match self.planned_for() {
            Some(_) => format!("{why}; when it was due {chosen} had none, and {} took it", self.by.node),
            None => why,
        }
    }

    fn no_watermark() -> Wall {
        Wall::MIN
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_no_watermark(back: &Wall) -> bool {
        *back == Wall::MIN
    }

    /// The shard of a job with one shard.
    #[must_use]
    pub fn single() -> ShardSet {
        ShardSet::one(Shard(0))
    }

    fn is_single(shards: &ShardSet) -> bool {
        shards.len() == 1 && shards.contains(Shard(0))
    }

    fn one() -> u32 {
        1
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_one(total: &u32) -> bool {
        *total == 1
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// How far a clock may be set back before a wait counts as over.
const SET_BACK: Millis = Millis::secs(60);

/// The wait between a failed attempt and the next one. Nothing of the run is executed during it, so a takeover leaves
/// no doubt; the next attempt takes another commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RetryWait {
    /// The moment from which on the run may be attempted again.
    pub until: Wall,
    /// The length of the wait when it began.
    pub length: Millis,
}

impl RetryWait {
    /// When it began.
    #[must_use]
    pub fn since(self) -> Wall {
        self.until - self.length
    }

    /// The moment to wait for; `None` when the wait is over, also where the clock was set back far.
    #[must_use]
    pub fn left(self, now: Wall) -> Option<Wall> {
        (now < self.until && self.until - now <= self.length + SET_BACK).then_some(self.until)
    }
}
