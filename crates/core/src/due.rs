//! Which fire comes next, and which ones are given up: grace and catch-up as a pure function of times.

use crate::job::CatchUp;
use crate::schedule::Schedule;
use crate::time::{Millis, Wall};

/// The next fire of a job, and the fires before it that nobody will run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Next {
    /// When it is due; `None` when the schedule is over.
    pub due: Option<Wall>,
    /// First and last of the fires given up as too old.
    pub skipped: Option<(Wall, Wall)>,
}

/// The next fire after `floor` as of `now`: every fire within the grace, in order; of older ones what `catch_up` says.
#[must_use]
pub fn next(schedule: &Schedule, floor: Wall, now: Wall, grace: Millis, catch_up: CatchUp) -> Next {
    let Some(first) = schedule.next(floor) else { return Next::default() };
    let edge = now - grace - Millis(1);
    if first > edge {
        return Next { due: Some(first), skipped: None };
    }
    let last = schedule.latest(floor, edge).unwrap_or(first);
    let due = match catch_up {
        CatchUp::Skip => None,
        CatchUp::Latest => Some(last),
        CatchUp::All(n) => Some(oldest_kept(schedule, floor, last, n)),
    };
    let Some(due) = due else {
        return Next { due: schedule.next(last), skipped: Some((first, last)) };
    };
    let skipped = schedule.latest(floor, due - Millis(1)).map(|before| (first, before));
    Next { due: Some(due), skipped }
}

/// The first of the last `n` fires in `(floor, last]`.
fn oldest_kept(schedule: &Schedule, floor: Wall, last: Wall, n: u32) -> Wall {
    let mut fires =
        core::iter::successors(schedule.next(floor), |t| schedule.next(*t)).take_while(|t| *t <= last);
    let first = fires.next().unwrap_or(last);
    if fires.take(n as usize).count() < n as usize {
        return first;
    }
    (1..n).fold(last, |t, _| schedule.latest(floor, t - Millis(1)).unwrap_or(t))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every_10s() -> Schedule {
        Schedule::parse("@every 10s", "").unwrap()
    }

    fn at(secs: i64) -> Wall {
        Wall(secs * 1000)
    }

    /// proves: I16, I23
    #[test]
    fn within_the_grace_every_fire_runs_in_order() {
        let next = |floor| super::next(&every_10s(), at(floor), at(100), Millis::secs(60), CatchUp::Latest);
        assert_eq!(next(40), Next { due: Some(at(50)), skipped: None });
        assert_eq!(next(30), Next { due: Some(at(40)), skipped: None });
        assert_eq!(next(95), Next { due: Some(at(100)), skipped: None });
    }

    /// proves: I16, I23
    #[test]
    fn of_older_fires_the_policy_keeps_some_and_names_the_rest() {
        let next = |floor, policy| super::next(&every_10s(), at(floor), at(1000), Millis::secs(60), policy);
        assert_eq!(next(0, CatchUp::Latest), Next { due: Some(at(930)), skipped: Some((at(10), at(920))) });
        assert_eq!(next(920, CatchUp::Latest), Next { due: Some(at(930)), skipped: None });
        assert_eq!(next(0, CatchUp::Skip), Next { due: Some(at(940)), skipped: Some((at(10), at(930))) });
        assert_eq!(next(0, CatchUp::All(3)), Next { due: Some(at(910)), skipped: Some((at(10), at(900))) });
        assert_eq!(next(900, CatchUp::All(3)), Next { due: Some(at(910)), skipped: None });
        assert_eq!(
            next(910, CatchUp::All(1)),
            Next { due: Some(at(930)), skipped: Some((at(920), at(920))) }
        );
    }
}
