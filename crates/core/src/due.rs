//! The next fire and the skipped fires of a job: grace and catch-up computed from times alone.

use serde::{Deserialize, Serialize};

use crate::schedule::Schedule;
use crate::time::{Millis, Wall};

/// A shorter span than this spreads nothing: a fire is claimed up to a second ahead.
const SPREAD_MIN: Millis = Millis::secs(2);

/// Why an at-most-once run is skipped after the registry went back in time.
pub const FORGOTTEN: &str = "history lost: it may have run, and delivery is at_most_once";

/// What becomes of fires older than the grace, after an outage or a pause of the whole cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CatchUp {
    /// None of them runs.
    Skip,
    /// Only the latest of them runs.
    #[default]
    Latest,
    /// All of them run, but no more than this many, the latest ones.
    All(u32),
}

/// A source of fires.
pub trait FireSource {
    /// The first fire strictly after `after`.
    fn next(&self, after: Wall) -> Option<Wall>;

    /// The last fire in `(after, until]`.
    fn latest(&self, after: Wall, until: Wall) -> Option<Wall>;
}

impl FireSource for Schedule {
    fn next(&self, after: Wall) -> Option<Wall> {
        self.next(after)
    }

    fn latest(&self, after: Wall, until: Wall) -> Option<Wall> {
        self.latest(after, until)
    }
}

/// The misfire policy: what becomes of late fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MisfirePolicy {
    /// The grace: up to this lateness fires start as if they were on time.
    pub grace: Millis,
    /// Which of the older ones are caught up.
    pub catch_up: CatchUp,
    /// How old a caught-up fire may be.
    pub age: Option<Millis>,
    /// Over which span caught-up fires are spread.
    pub spread: Option<CatchUpSpread>,
    /// Whether of the due fires only the latest is to start, even if all are within the grace.
    pub newest: bool,
    /// A fire due by this moment may have run though the registry lost that, and must not run twice.
    pub lost: Option<Wall>,
}

/// A span in which each job has one moment to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CatchUpSpread {
    /// The length of the span.
    pub span: Millis,
    /// The number that decides the job's moment in it.
    pub seed: u64,
}

/// The next fire of a job, and the skipped fires before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NextFire {
    /// When it is due; `None` when the schedule is over.
    pub due: Option<Wall>,
    /// The moment before which it must not start: its own, or the job's moment in the spread when it is caught up.
    pub from: Option<Wall>,
    /// When the answer changes, though nothing ran: a fire that waits for its moment in the spread gets too old, or has
    /// a younger one behind it.
    pub until: Option<Wall>,
    /// First and last of the fires skipped as too old.
    pub skipped: Option<(Wall, Wall)>,
}

/// The next fire after `floor` as of `now`: every fire within the grace, in order; of older ones what the policy says.
#[must_use]
pub fn next(schedule: &impl FireSource, floor: Wall, now: Wall, policy: &MisfirePolicy) -> NextFire {
    let Some(first) = schedule.next(floor) else { return NextFire::default() };
    if let Some(lost) = policy.lost.filter(|lost| *lost >= first) {
        let last = schedule.latest(floor, lost).unwrap_or(first);
        let rest = next(schedule, lost, now, &MisfirePolicy { lost: None, ..*policy });
        let skipped = Some((first, rest.skipped.map_or(last, |(_, last)| last)));
        return NextFire { skipped, ..rest };
    }
    let edge = now - policy.grace - Millis(1);
    let newest = if policy.newest { schedule.latest(floor, now) } else { None };
    if let Some(newest) = newest.filter(|newest| *newest > first.max(edge)) {
        let before = schedule.latest(floor, newest - Millis(1)).unwrap_or(first);
        let (due, skipped) = (Some(newest), Some((first, before)));
        return NextFire { due, from: due, skipped, until: None };
    }
    if first > edge {
        return NextFire { due: Some(first), from: Some(first), ..NextFire::default() };
    }
    let last = schedule.latest(floor, edge).unwrap_or(first);
    let due = match policy.catch_up {
        CatchUp::Skip => None,
        CatchUp::Latest => Some(last),
        CatchUp::All(n) => Some(oldest_kept(schedule, floor, last, n)),
    };
    let young = policy.age.map_or(Wall::MIN, |age| now - age);
    let due = due.and_then(|due| if due >= young { Some(due) } else { schedule.next(young - Millis(1)) });
    let Some(due) = due.filter(|due| *due <= last) else {
        let due = schedule.next(last);
        return NextFire { due, from: due, skipped: Some((first, last)), until: None };
    };
    let skipped = schedule.latest(floor, due - Millis(1)).map(|before| (first, before));
    let displaced = schedule.next(last).map(|next| next + policy.grace + Millis(1));
    let until = [displaced, policy.ends(due), policy.spread_changes_at(schedule, due, now)];
    let until = until.into_iter().flatten().min();
    NextFire { due: Some(due), from: Some(policy.spread_start(schedule, due, now)), until, skipped }
}

impl MisfirePolicy {
    /// How many fires may be caught up.
    #[must_use]
    pub fn most(&self) -> u32 {
        match self.catch_up {
            CatchUp::Skip => 0,
            CatchUp::Latest => 1,
            CatchUp::All(n) => n,
        }
    }

    /// When a fire gets too old to be caught up; `None` for never.
    #[must_use]
    pub fn ends(&self, due: Wall) -> Option<Wall> {
        self.age.map(|age| due + age.max(self.grace) + Millis(1))
    }

    /// When a caught-up fire may get another moment in the spread, though nothing ran: the next one that comes due may
    /// lie nearer to the one after it. `None` when it has no such moment.
    #[must_use]
    pub fn spread_changes_at(&self, schedule: &impl FireSource, due: Wall, now: Wall) -> Option<Wall> {
        self.spread.filter(|_| due < now - self.grace)?;
        schedule.next(now)
    }

    /// When a due fire may start as of `now`: at its moment, or at the job's moment in the spread when it is caught up.
    ///
    /// These moments lie on the clock, one in each span, so nothing is remembered between them. The span is reduced
    /// until catching up all fires takes less than the time between two: the next ones would wait for ever otherwise.
    #[must_use]
    pub fn spread_start(&self, schedule: &impl FireSource, due: Wall, now: Wall) -> Wall {
        let Some(spread) = self.spread.filter(|_| due < now - self.grace) else { return due };
        let before = schedule.latest(due - Millis(1), now).unwrap_or(due);
        let room =
            schedule.next(now).map_or(i64::MAX, |next| (next - before).0 / (i64::from(self.most()) + 1));
        let span = spread.span.0.min(room);
        if span < SPREAD_MIN.0 {
            return now;
        }
        let phase = (spread.seed % span.unsigned_abs()).cast_signed();
        Wall(((now.0 - phase).div_euclid(span) + 1) * span + phase)
    }
}

/// The first of the last `n` fires in `(floor, last]`.
fn oldest_kept(schedule: &impl FireSource, floor: Wall, last: Wall, n: u32) -> Wall {
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

    fn policy(catch_up: CatchUp) -> MisfirePolicy {
        MisfirePolicy {
            grace: Millis::secs(60),
            catch_up,
            age: None,
            spread: None,
            newest: false,
            lost: None,
        }
    }

    /// What is due, and what is skipped before.
    fn due_and_skipped(floor: i64, policy: &MisfirePolicy) -> (Option<Wall>, Option<(Wall, Wall)>) {
        let next = next(&every_10s(), at(floor), at(1000), policy);
        assert_eq!(next.from, next.due, "without a spread nothing waits");
        (next.due, next.skipped)
    }

    /// proves: I16, I23
    #[test]
    fn within_the_grace_every_fire_runs_in_order() {
        let next = |floor| super::next(&every_10s(), at(floor), at(100), &policy(CatchUp::Latest));
        for (floor, due) in [(40, 50), (30, 40), (95, 100)] {
            assert_eq!(
                next(floor),
                NextFire { due: Some(at(due)), from: Some(at(due)), ..NextFire::default() }
            );
        }
    }

    /// proves: I1, I16
    #[test]
    fn what_may_have_run_is_given_up_whatever_the_policy_says_of_the_rest() {
        let told = |floor, lost, catch_up| {
            due_and_skipped(floor, &MisfirePolicy { lost: Some(at(lost)), ..policy(catch_up) })
        };
        assert_eq!(told(900, 899, CatchUp::Latest), (Some(at(930)), Some((at(910), at(920)))));
        assert_eq!(told(900, 925, CatchUp::All(9)), (Some(at(930)), Some((at(910), at(920)))));
        assert_eq!(told(900, 905, CatchUp::Skip), (Some(at(940)), Some((at(910), at(930)))));
        assert_eq!(told(900, 910, CatchUp::Skip), (Some(at(940)), Some((at(910), at(930)))));
        assert_eq!(told(980, 1000, CatchUp::All(9)), (Some(at(1010)), Some((at(990), at(1000)))));
        let over = Schedule::parse("at 1970-01-01T00:15:00", "").unwrap();
        let lost = MisfirePolicy { lost: Some(at(950)), ..policy(CatchUp::Latest) };
        let next = next(&over, at(0), at(1000), &lost);
        assert_eq!((next.due, next.skipped), (None, Some((at(900), at(900)))));
    }

    /// proves: I16, I23
    #[test]
    fn of_older_fires_the_policy_keeps_some_and_names_the_rest() {
        let told = |floor, catch_up| due_and_skipped(floor, &policy(catch_up));
        assert_eq!(told(0, CatchUp::Latest), (Some(at(930)), Some((at(10), at(920)))));
        assert_eq!(told(920, CatchUp::Latest), (Some(at(930)), None));
        assert_eq!(told(0, CatchUp::Skip), (Some(at(940)), Some((at(10), at(930)))));
        assert_eq!(told(0, CatchUp::All(3)), (Some(at(910)), Some((at(10), at(900)))));
        assert_eq!(told(900, CatchUp::All(3)), (Some(at(910)), None));
        assert_eq!(told(910, CatchUp::All(1)), (Some(at(930)), Some((at(920), at(920)))));
    }

    /// proves: I23
    #[test]
    fn what_is_older_than_the_age_is_not_made_up() {
        let told = |floor, catch_up, age| {
            due_and_skipped(floor, &MisfirePolicy { age: Some(Millis::secs(age)), ..policy(catch_up) })
        };
        assert_eq!(told(0, CatchUp::All(9), 90), (Some(at(910)), Some((at(10), at(900)))));
        assert_eq!(told(0, CatchUp::All(2), 90), (Some(at(920)), Some((at(10), at(910)))));
        assert_eq!(told(0, CatchUp::Latest, 70), (Some(at(930)), Some((at(10), at(920)))));
        assert_eq!(told(0, CatchUp::Latest, 69), (Some(at(940)), Some((at(10), at(930)))), "none is kept");
        assert_eq!(told(0, CatchUp::All(9), 5), (Some(at(940)), Some((at(10), at(930)))));
    }

    /// Every day at six, caught up in one of ten minutes.
    fn daily(seed: u64, catch_up: CatchUp) -> (Schedule, MisfirePolicy) {
        let spread = Some(CatchUpSpread { span: Millis::secs(600), seed });
        (Schedule::parse("0 6 * * *", "").unwrap(), MisfirePolicy { spread, ..policy(catch_up) })
    }

    /// proves: I23
    #[test]
    fn what_is_made_up_waits_for_its_jobs_turn_and_each_job_has_another() {
        let now = at(86_400 * 3 + 7 * 3600);
        let mut turns = alloc::collections::BTreeSet::new();
        for seed in 0..600 {
            let (schedule, policy) = daily(seed * 1000, CatchUp::Latest);
            let found = next(&schedule, at(0), now, &policy);
            let turn = found.from.unwrap();
            assert_eq!(found.due, Some(at(86_400 * 3 + 6 * 3600)));
            assert!(turn > now && turn <= now + Millis::secs(600));
            // A second look before that moment finds the same one.
            let again = next(&schedule, at(0), turn - Millis(1), &policy);
            assert_eq!((again.from, again.due), (Some(turn), found.due));
            turns.insert(turn);
        }
        assert_eq!(turns.len(), 600);
    }

    /// proves: I16, I23
    #[test]
    fn a_turn_stands_until_a_fire_that_leaves_less_room_for_it() {
        // Three seconds before the next, and then long nothing.
        let schedule = Schedule::parse("0,3 30 * * * *", "").unwrap();
        let spread = Some(CatchUpSpread { span: Millis::secs(1200), seed: 299_000 });
        let policy = MisfirePolicy { spread, ..policy(CatchUp::Latest) };
        let (due, now) = (at(3600 + 1803), at(7200 + 1799));
        let found = next(&schedule, at(0), now, &policy);
        assert_eq!((found.due, found.until), (Some(due), Some(at(7200 + 1800))));
        assert!(found.from > found.until, "{found:?}");
        let then = next(&schedule, at(0), at(7200 + 1800), &policy);
        assert_eq!((then.due, then.from), (Some(due), Some(at(7200 + 1800))));
    }

    /// proves: I16, I23
    #[test]
    fn making_up_takes_less_than_the_time_between_two_fires() {
        for (text, span, count) in [("@every 10m", 600, 5), ("@every 60s", 86_400, 3), ("@hourly", 900, 24)] {
            let schedule = Schedule::parse(text, "").unwrap();
            let spread = Some(CatchUpSpread { span: Millis::secs(span), seed: 0x5eed });
            let policy = MisfirePolicy { spread, ..policy(CatchUp::All(count)) };
            let begun = at(1_000_000);
            let (mut floor, mut now, mut made_up) = (at(0), begun, 0);
            loop {
                let found = next(&schedule, floor, now, &policy);
                let due = found.due.unwrap();
                if due >= begun - policy.grace {
                    break;
                }
                assert!(found.from > Some(now), "one a turn");
                (floor, now, made_up) = (due, found.from.unwrap(), made_up + 1);
            }
            assert_eq!(made_up, count, "{text}");
            let fire = schedule.next(begun).unwrap();
            assert!(now - begun < schedule.next(fire).unwrap() - fire, "{text}: {now}");
        }
    }

    #[test]
    fn what_comes_every_second_is_made_up_at_once() {
        let schedule = Schedule::parse("@every 1s", "").unwrap();
        let (_, policy) = daily(7, CatchUp::Latest);
        let found = next(&schedule, at(0), at(1000), &policy);
        assert_eq!((found.due, found.from), (Some(at(939)), Some(at(1000))));
    }
}
