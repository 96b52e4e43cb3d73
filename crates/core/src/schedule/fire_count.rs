//! Counts the fires of a schedule by steps of time, without a look at each of them where a minute has many.

use alloc::vec::Vec;

use super::bounds::moved_by;
use super::name_hash::{NameHash, is_spread};
use super::rule::ScheduleRule;
use super::{Schedule, ScheduleRules};
use crate::time::{Millis, Wall};

/// The shortest step.
const MINUTE: Millis = Millis::secs(60);

/// Equal steps of time, in which fires are counted. Each begins at a whole minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForecastWindow {
    begin: Wall,
    step: Millis,
    steps: usize,
}

/// How much work counting may take, in fires that are looked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CountBudget(u64);

/// A fire that a jitter may move into another step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MovableFire {
    due: Wall,
    /// The number of seconds that it may be moved by, none among them.
    room: u64,
}

/// The name of a job, as far as it decides how far its fires are moved.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpreadName(NameHash);

impl ForecastWindow {
    /// So many steps, of which the first has this moment. A step is a number of whole minutes, and one at least.
    #[must_use]
    pub fn new(from: Wall, minutes: u32, steps: usize) -> Self {
        let step = Millis(MINUTE.0 * i64::from(minutes.max(1)));
        Self { begin: from - Millis(from.0.rem_euclid(step.0)), step, steps }
    }

    /// The first moment.
    #[must_use]
    pub fn begin(&self) -> Wall {
        self.begin
    }

    /// How many steps there are.
    #[must_use]
    pub fn steps(&self) -> usize {
        self.steps
    }

    /// The first moment of a step.
    #[must_use]
    pub fn at(&self, step: usize) -> Wall {
        self.begin + Millis(self.step.0.saturating_mul(i64::try_from(step).unwrap_or(i64::MAX)))
    }

    /// The step that has this moment, if there is one.
    pub(crate) fn step_of(&self, at: Wall) -> Option<usize> {
        let step = usize::try_from((at - self.begin).0.div_euclid(self.step.0)).ok()?;
        (step < self.steps).then_some(step)
    }

    /// One step alone.
    pub(crate) fn only(&self, step: usize) -> Self {
        Self { begin: self.at(step), step: self.step, steps: 1 }
    }

    /// The first moment after all steps.
    fn end(&self) -> Wall {
        self.at(self.steps)
    }
}

impl CountBudget {
    /// So many fires may be looked for.
    pub(crate) fn new(fires: u64) -> Self {
        Self(fires)
    }

    /// Takes some of it; `None` when it is used up.
    pub(crate) fn spend(&mut self, fires: u64) -> Option<()> {
        let left = self.0.checked_sub(fires);
        self.0 = left.unwrap_or(0);
        left.map(|_| ())
    }
}

impl SpreadName {
    /// The name of a job.
    pub(crate) fn of(name: &str) -> Self {
        Self(NameHash::of(name))
    }
}

impl MovableFire {
    /// When the job of this name has it.
    pub(crate) fn of(self, SpreadName(name): SpreadName) -> Wall {
        self.due + moved_by(name, self.due, self.room)
    }

    /// When it is named.
    pub(super) fn due(self) -> Wall {
        self.due
    }

    /// The number of seconds that it may be moved by, none among them.
    pub(super) fn room(self) -> u64 {
        self.room
    }

    /// So many seconds after it is named.
    pub(super) fn after(self, seconds: u64) -> Wall {
        self.due + Millis::secs(i64::try_from(seconds).unwrap_or(i64::MAX))
    }

    /// The step that has it, whatever the job's name; `None` where the name decides.
    fn step_of_all(self, window: &ForecastWindow) -> Option<Option<usize>> {
        let last = self.after(self.room.saturating_sub(1));
        let steps = (window.step_of(self.due), window.step_of(last));
        let apart = steps.0 != steps.1 || self.due < window.begin && last >= window.end();
        (!apart).then_some(steps.0)
    }
}

impl Schedule {
    /// Whether rules of this text may mean something else for a job of another name.
    pub(crate) fn is_spread(rules: &str) -> bool {
        is_spread(rules)
    }

    /// Whether a jitter moves its fires, by the name of the job.
    pub(crate) fn is_jittered(&self) -> bool {
        self.bounds.as_ref().is_some_and(|bounds| bounds.moves())
    }

    /// The same schedule of a job without a name: equal for all jobs whose fires differ by a jitter only.
    pub(crate) fn nameless(mut self) -> Self {
        if self.is_jittered() {
            self.bounds = self.bounds.map(|bounds| bounds.nameless().into());
        }
        self
    }

    /// Adds the number of fires in each step, as far as the name of the job does not decide which step that is, and returns the
    /// others. `None` when the budget is used up.
    pub(crate) fn count(
        &self,
        window: &ForecastWindow,
        budget: &mut CountBudget,
        mut add: impl FnMut(usize, u64),
    ) -> Option<Vec<MovableFire>> {
        if self.is_jittered() {
            return self.count_movable(window, budget, add);
        }
        if let (ScheduleRules::One(ScheduleRule::Every(period, phase)), None) = (&self.rules, &self.calendars)
        {
            self.count_periods(window, (*period, *phase), add);
            return Some(Vec::new());
        }
        let mut next = self.next(window.begin - Millis(1));
        while let Some(due) = next.filter(|due| *due < window.end()) {
            budget.spend(1)?;
            let (fires, after) = self.minute(due).unwrap_or((1, due));
            if let Some(step) = window.step_of(due) {
                add(step, fires);
            }
            next = self.next(after);
        }
        Some(Vec::new())
    }

    /// Counts the fires of one period, by their number alone.
    fn count_periods(
        &self,
        window: &ForecastWindow,
        (period, phase): (i64, i64),
        mut add: impl FnMut(usize, u64),
    ) {
        // How many periods have begun before a moment.
        let begun = |at: Wall| (at.0 - phase - 1).div_euclid(period);
        for step in 0..window.steps {
            let span = (window.at(step), window.at(step + 1));
            let (from, until) = self.bounds.as_ref().map_or(span, |bounds| bounds.clip(span));
            if from < until
                && let Ok(fires @ 1..) = u64::try_from(begun(until) - begun(from))
            {
                add(step, fires);
            }
        }
    }

    /// The number of fires in the minute that begins with the one at `due`, and the last of them. `None` where that is not
    /// known without a look at each.
    fn minute(&self, due: Wall) -> Option<(u64, Wall)> {
        let ScheduleRules::One(ScheduleRule::Cron(fields, _)) = &self.rules else { return None };
        let count = fields.seconds.count_ones();
        let minute = due - Millis(due.0.rem_euclid(MINUTE.0));
        let second = |bit: u32| minute + Millis::secs(i64::from(bit));
        if count < 2 || second(fields.seconds.trailing_zeros()) != due {
            return None;
        }
        // A clock change or a calendar may leave fires of this minute out, and then the last one, too.
        let last = second(63 - fields.seconds.leading_zeros());
        let whole = self.next(last - Millis(1)) == Some(last);
        whole.then_some((u64::from(count), last))
    }

    /// Counts the fires that a jitter leaves in one step, and collects the others.
    fn count_movable(
        &self,
        window: &ForecastWindow,
        budget: &mut CountBudget,
        mut add: impl FnMut(usize, u64),
    ) -> Option<Vec<MovableFire>> {
        let Some(bounds) = &self.bounds else { return Some(Vec::new()) };
        let mut movable = Vec::new();
        let next = |after| bounds.unmoved(after, |after| self.named(after), |after| self.ruled(after));
        let mut found = next(window.begin - bounds.jitter() - Millis(1));
        while let Some((due, room)) = found.filter(|(due, _)| *due < window.end()) {
            budget.spend(2)?;
            let fire = MovableFire { due, room };
            match fire.step_of_all(window) {
                Some(step) => step.into_iter().for_each(|step| add(step, 1)),
                None => movable.push(fire),
            }
            found = next(due);
        }
        Some(movable)
    }
}
