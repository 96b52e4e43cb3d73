//! A backfill: runs of a job for the fires of a span of the past.

use alloc::format;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

use super::{Attempt, TriggerRecord};
use crate::ids::{Fire, RequestId};
use crate::job::RunParameters;
use crate::time::Wall;

/// How many backfills of a job are remembered, and so may go on at once.
pub const BACKFILLS_MAX: usize = 4;

/// One backfill of a job. A fire of it is claimed in the commit that raises `next`, so it is claimed once.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Backfill {
    /// Its id, chosen by the caller.
    pub id: RequestId,
    /// When it was requested.
    pub at: Wall,
    /// The moments that its runs stand for, in their order. They were computed at the request: no later change of the
    /// schedule changes them.
    pub dues: Vec<Wall>,
    /// How many of these have been claimed, or will not be since the backfill was cancelled.
    pub next: u32,
    /// How many of its runs may be open at once.
    pub max_parallel: u32,
    /// The parameters of its runs, until the last is claimed.
    #[serde(default, skip_serializing_if = "RunParameters::is_empty")]
    pub parameters: RunParameters,
    /// When it was cancelled, and with how many fires claimed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancelled: Option<(Wall, u32)>,
}

/// The fire of a manual run, or the next one of a backfill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestedFire {
    /// Its fire.
    pub(crate) fire: Fire,
    /// The moment that it stands for: of a manual run that of the request.
    pub(crate) due: Wall,
    /// When it was requested.
    pub(crate) at: Wall,
    /// Its parameters.
    pub(crate) parameters: RunParameters,
}

impl Backfill {
    /// The fire that stands for this moment. Its name follows from the backfill and the moment, so each node that claims it gives
    /// it the same one. `None` where the id of the backfill is too long for that.
    #[must_use]
    pub fn fire_of(&self, due: Wall) -> Option<Fire> {
        Self::fire(&self.id, due)
    }

    /// The fire of a backfill of this id that stands for a moment.
    #[must_use]
    pub fn fire(id: &RequestId, due: Wall) -> Option<Fire> {
        format!("{id}.{}", due.0).parse().ok().map(Fire::Asked)
    }

    /// Which of its fires this is, counted from 0.
    #[must_use]
    pub fn position(&self, fire: &Fire) -> Option<usize> {
        let Fire::Asked(id) = fire else { return None };
        let due = id.as_str().strip_prefix(self.id.as_str())?.strip_prefix('.')?;
        let due: i64 = due.parse().ok()?;
        // A number may be written in more ways than one.
        self.dues.binary_search(&Wall(due)).ok().filter(|_| self.fire_of(Wall(due)).as_ref() == Some(fire))
    }

    /// Whether this is one of its fires and no node has claimed it yet; none will of one that was cancelled.
    #[must_use]
    pub fn awaits(&self, fire: &Fire) -> bool {
        self.position(fire).is_some_and(|position| position >= self.next as usize)
    }

    /// Whether this is one of its fires that was claimed or is to be.
    #[must_use]
    pub fn expects(&self, fire: &Fire) -> bool {
        self.position(fire)
            .is_some_and(|position| position < self.claimed() || position >= self.next as usize)
    }

    /// How many fires have been claimed.
    #[must_use]
    pub fn claimed(&self) -> usize {
        self.cancelled.map_or(self.next, |(_, claimed)| claimed) as usize
    }

    /// How many fires are still to be claimed.
    #[must_use]
    pub fn left(&self) -> usize {
        self.dues.len().saturating_sub(self.next as usize)
    }

    /// Ends it: no further fire is claimed, and open runs go on.
    pub(crate) fn cancel(&mut self, now: Wall) {
        if self.left() > 0 {
            self.cancelled = Some((now, self.next));
            self.next = u32::try_from(self.dues.len()).unwrap_or(u32::MAX);
            self.parameters = RunParameters::default();
        }
    }

    fn has_room(&self, open: &[Attempt]) -> bool {
        let own = open.iter().filter(|attempt| self.position(&attempt.fire).is_some()).count();
        own < self.max_parallel as usize
    }
}

impl TriggerRecord {
    /// Takes the next fire of the oldest backfill that may have one more open run beside these attempts.
    pub(crate) fn take_backfill_fire(&mut self, open: &[Attempt]) -> Option<RequestedFire> {
        let backfill = self.backfills.iter_mut().find(|one| one.left() > 0 && one.has_room(open))?;
        let due = *backfill.dues.get(backfill.next as usize)?;
        let fire = backfill.fire_of(due)?;
        backfill.next += 1;
        let parameters = match backfill.left() {
            0 => core::mem::take(&mut backfill.parameters),
            _ => backfill.parameters.clone(),
        };
        Some(RequestedFire { fire, due, at: backfill.at, parameters })
    }

    /// The backfill of which this fire is one.
    #[must_use]
    pub fn backfill_of(&self, fire: &Fire) -> Option<&Backfill> {
        self.backfills.iter().find(|backfill| backfill.position(fire).is_some())
    }

    /// Whether a fire was requested, and no node has claimed it for all that are to run it.
    #[must_use]
    pub fn awaits(&self, fire: &Fire) -> bool {
        let Fire::Asked(id) = fire else { return false };
        self.requests.iter().any(|request| request.id == *id && !request.taken)
            || self.backfills.iter().any(|backfill| backfill.awaits(fire))
    }
}

impl Fire {
    /// Whether it is one of a backfill that stands for this moment: the name of such a fire ends in it.
    #[must_use]
    pub fn makes_up_for(&self, due: Wall) -> bool {
        let Self::Asked(id) = self else { return false };
        id.as_str().rsplit_once('.').is_some_and(|(_, end)| end == format!("{}", due.0))
    }
}
