//! What declarations of jobs and calendars, or switches, would change: worked out of copies of the view, and nothing is sent.

mod parts;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use evenkeel::Handle;
use evenkeel_core::calendar::{Calendar, LocalTimes};
use evenkeel_core::cluster::control::fixed_placement;
use evenkeel_core::ids::{CalendarName, JobName, Namespace};
use evenkeel_core::job::{Job, Spec, SwitchPosition};
use evenkeel_core::registry::DurabilityClass;
use evenkeel_core::schedule::{CalendarFilter, EditLimits, Schedule, ScheduleEdit};
use evenkeel_core::time::Wall;
use evenkeel_core::view::View;

use super::lookup::LOOK;
use super::{no_job, no_namespace, switches};
use crate::zones;
use evenkeel_client::types::{
    PlanAnswer, PlanEffect, PlanRefusal, PlanRow, PlannedCalendar, SwitchRow, moment, zone,
};
use parts::{fires, fits, is_namespace, planned_fire, silent, values, warnings};

/// The maximum number of changed fires shown for a job.
const SHOWN: usize = 10;
/// The number of fires that one plan compares, which takes about a second; from then on only a few of each further schedule.
const COMPARED: usize = 1_000_000;
const FEW: usize = 2 * SHOWN;

/// What is planned.
#[derive(Debug, Default)]
pub(crate) struct PlanRequest {
    /// The jobs that would be declared.
    pub(crate) jobs: Vec<Job>,
    /// The calendars that would be declared before them.
    pub(crate) calendars: Vec<Calendar>,
    /// The jobs that would be resumed.
    pub(crate) resume: Vec<JobName>,
    /// The jobs that would be enabled.
    pub(crate) enable: Vec<JobName>,
    /// The jobs that would be deleted after everything else.
    pub(crate) delete: Vec<JobName>,
    /// What is refused already, because it is invalid.
    pub(crate) refused: Vec<PlanRefusal>,
}

/// A job as it is now.
struct StandingJob {
    spec: Spec,
    switches: Vec<SwitchRow>,
    /// Its calendars, unless one of them is missing.
    calendars: Option<CalendarFilter>,
}

/// What is copied for one planned job while the node waits.
struct PlanSnapshot {
    standing: Option<StandingJob>,
    /// The calendars that it would have, or the first one that would be missing.
    planned: Result<CalendarFilter, CalendarName>,
    /// Whether its namespace exists.
    has_namespace: bool,
    /// Whether a living node may run the planned job.
    fits: bool,
    /// How many more jobs its namespace takes, if it has a limit.
    room: Option<usize>,
}

/// Works out a plan.
struct ChangePlanner<'a> {
    handle: &'a Handle,
    now: Wall,
    class: DurabilityClass,
    /// The calendars that would be declared.
    coming: BTreeMap<CalendarName, Arc<LocalTimes>>,
    /// Those of them that are new or have other lines.
    changed: BTreeSet<CalendarName>,
    /// What was compared already: many jobs have equal schedules.
    edits: BTreeMap<(Option<Schedule>, Option<Schedule>), Arc<ScheduleEdit>>,
    compared: usize,
    /// The number of jobs that would be created, by namespace.
    created: BTreeMap<String, usize>,
    answer: PlanAnswer,
}

/// What the request would change. `sees` says whether the caller may see what is in a namespace.
pub(crate) fn plan(handle: &Handle, request: PlanRequest, sees: impl Fn(&str) -> bool) -> PlanAnswer {
    let PlanRequest { jobs, calendars, resume, enable, delete, refused } = request;
    let mut planner = ChangePlanner {
        handle,
        now: zones::now(),
        class: handle.with_node(|node| node.local().settings().class),
        coming: BTreeMap::new(),
        changed: BTreeSet::new(),
        edits: BTreeMap::new(),
        compared: 0,
        created: BTreeMap::new(),
        answer: PlanAnswer { refused, ..PlanAnswer::default() },
    };
    let mut users = planner.declare_calendars(&calendars);
    for some in jobs.chunks(LOOK) {
        let seen = planner.look(some.iter().map(|job| (&job.name, Some(job))));
        for (job, seen) in some.iter().zip(seen) {
            users.remove(&job.name);
            planner.declare(job, seen);
        }
    }
    let (seen, hidden): (Vec<JobName>, Vec<JobName>) =
        users.into_iter().partition(|job| sees(job.namespace()));
    planner.answer.elsewhere = hidden.len();
    for some in seen.chunks(LOOK) {
        for seen in planner.look(some.iter().map(|name| (name, None))) {
            planner.follow_calendar(seen);
        }
    }
    resume.iter().for_each(|name| planner.switch(name, PlanEffect::Resumed));
    enable.iter().for_each(|name| planner.switch(name, PlanEffect::Enabled));
    delete.iter().for_each(|name| planner.delete(name));
    planner.answer
}

impl ChangePlanner<'_> {
    /// Takes the calendars that would be declared, and returns the jobs that use one which would change.
    fn declare_calendars(&mut self, calendars: &[Calendar]) -> BTreeSet<JobName> {
        let mut users = BTreeSet::new();
        for calendar in calendars {
            let name = &calendar.name;
            let Ok(times) =
                calendar.read().map_err(|e| self.refuse("calendar", name, "invalid", e.to_string()))
            else {
                continue;
            };
            self.coming.insert(name.clone(), Arc::new(times));
            let (old, known) = self.handle.with_node(|node| {
                let view = node.view();
                let old = view.calendar(name).map(|known| known.calendar.clone());
                if old.as_ref() != Some(calendar) {
                    let live = view.jobs_under(name).filter(|job| job.is_live());
                    users.extend(live.map(|job| job.name().clone()));
                }
                (old, is_namespace(view, name.namespace()))
            });
            if !known {
                self.refuse_namespace("calendar", name, name.namespace());
                continue;
            }
            let becomes = match &old {
                None => PlanEffect::Created,
                Some(old) if old == calendar => PlanEffect::Unchanged,
                Some(_) => PlanEffect::Updated,
            };
            if becomes != PlanEffect::Unchanged {
                self.changed.insert(name.clone());
            }
            let values = old.map_or_else(BTreeMap::new, |old| values(&old, calendar));
            self.answer.push_calendar(PlannedCalendar { name: name.to_string(), becomes, values });
        }
        users
    }

    /// Copies what is known of some jobs. The calendars of one that is not declared anew are those of its present declaration.
    fn look<'b>(&self, jobs: impl Iterator<Item = (&'b JobName, Option<&'b Job>)>) -> Vec<PlanSnapshot> {
        self.handle.with_node(|node| {
            let view = node.view();
            let snapshot = |(name, job): (&JobName, Option<&Job>)| {
                let standing = view.find(name).and_then(|found| {
                    let spec = found.spec()?;
                    let switched = found.is_switched();
                    Some(StandingJob {
                        switches: if switched { switches::of(view, &found, &spec) } else { Vec::new() },
                        calendars: view.calendars_of(&spec.job),
                        spec,
                    })
                });
                let coming = job.or(standing.as_ref().map(|standing| &standing.spec.job));
                let namespace = name.namespace().parse::<Namespace>().ok();
                let limit = namespace.as_ref().and_then(|name| view.namespace(name)?.namespace.jobs_max);
                let room = |max: u32| {
                    let jobs = namespace.as_ref().map_or(0, |namespace| view.jobs_in(namespace));
                    (max as usize).saturating_sub(jobs)
                };
                PlanSnapshot {
                    planned: coming.map_or(Ok(CalendarFilter::default()), |job| self.calendars(view, job)),
                    fits: coming.is_some_and(|job| fits(view, job)),
                    standing,
                    has_namespace: is_namespace(view, name.namespace()),
                    room: limit.map(room),
                }
            };
            jobs.map(snapshot).collect()
        })
    }

    /// The calendars that a job would have, or the first one that would be missing.
    fn calendars(&self, view: &View, job: &Job) -> Result<CalendarFilter, CalendarName> {
        let times = |name: &CalendarName| {
            let times = self.coming.get(name).or_else(|| view.times_of(name)).cloned();
            times.map(|times| (name.clone(), times)).ok_or_else(|| name.clone())
        };
        let list = |names: &[CalendarName]| names.iter().map(times).collect::<Result<Vec<_>, _>>();
        Ok(CalendarFilter::new(list(job.exclude_calendars())?, list(job.require_calendars())?))
    }

    /// Plans a declaration.
    fn declare(&mut self, job: &Job, seen: PlanSnapshot) {
        let PlanSnapshot { standing, planned, has_namespace, fits, room } = seen;
        let name = &job.name;
        if let Err(wrong) = job.suits(self.class) {
            return self.refuse("job", name, "invalid", wrong.to_string());
        }
        if !has_namespace {
            return self.refuse_namespace("job", name, name.namespace());
        }
        if let Some(text) = standing.as_ref().and_then(|found| fixed_placement(&found.spec.job, job)) {
            return self.refuse("job", name, "conflict", text);
        }
        let planned = match planned {
            Ok(planned) => planned,
            Err(missing) => {
                let text = format!(
                    "job {name}: there is no calendar {missing}: declare it in the same file or first"
                );
                return self.refuse("job", name, "conflict", text);
            }
        };
        let Some(found) = standing else {
            let created = self.created.entry(name.namespace().to_owned()).or_default();
            *created += 1;
            if room.is_some_and(|room| *created > room) {
                let text =
                    format!("job {name}: its namespace {} is full: raise its jobs_max", name.namespace());
                return self.refuse("job", name, "conflict", text);
            }
            let new = fires(job, Some(&planned), false);
            let row = self.row(PlanEffect::Created, (None, new), (job, false), fits);
            return self.answer.push(row);
        };
        let becomes = if found.spec.declares(job) { PlanEffect::Unchanged } else { PlanEffect::Updated };
        self.compare(&found, job, becomes, (&planned, fits));
    }

    /// Plans what a calendar's change does to a job that is not declared anew.
    fn follow_calendar(&mut self, seen: PlanSnapshot) {
        let (Some(found), Ok(planned)) = (seen.standing, seen.planned) else { return };
        self.compare(&found, &found.spec.declared(), PlanEffect::Calendar, (&planned, seen.fits));
    }

    /// Compares a job as it is with its declaration.
    fn compare(
        &mut self,
        found: &StandingJob,
        job: &Job,
        becomes: PlanEffect,
        (planned, fits): (&CalendarFilter, bool),
    ) {
        let StandingJob { spec, switches, calendars } = found;
        let old = fires(&spec.job, calendars.as_ref(), spec.paused);
        // An operator's switch stays, unless the file changes that field.
        let (effective, _) = spec.redeclared(job);
        let new = fires(&effective, Some(planned), spec.paused);
        // A node compares the text of the schedule: another text of the same fires is a change.
        let is_rewritten = spec.job.schedule != effective.schedule;
        let gives_up = old.is_some() && (old != new || is_rewritten);
        let mut row = self.row(becomes, (old, new), (&effective, spec.paused), fits);
        if gives_up {
            row.notes.push("what is late by then and has not run is given up".to_owned());
        }
        if becomes == PlanEffect::Updated {
            row.values = values(&spec.declared(), job);
            row.fields = row.values.keys().cloned().collect();
        }
        let changes_enabled = job.enabled != spec.is_declared_enabled();
        let ends = |switch: &SwitchRow| {
            changes_enabled
                && switch.node.is_none()
                && ["enabled", "disabled"].contains(&switch.switch.as_str())
        };
        (row.ended, row.switches) = switches.iter().cloned().partition(ends);
        self.answer.push(row);
    }

    /// Plans the resumption of a job, or that it is enabled.
    fn switch(&mut self, name: &JobName, becomes: PlanEffect) {
        let Some((StandingJob { spec, calendars, .. }, fits)) = self.standing(name) else { return };
        let (job, paused) = match becomes {
            PlanEffect::Resumed => (spec.job.clone(), false),
            _ => (spec.job.clone().with_enabled(SwitchPosition::On), spec.paused),
        };
        let old = fires(&spec.job, calendars.as_ref(), spec.paused);
        let new = fires(&job, calendars.as_ref(), paused);
        let begins = old.is_none() && new.is_some();
        let mut row = self.row(becomes, (old, new), (&job, paused), fits);
        if begins {
            row.notes.push("what was due before is not caught up".to_owned());
        }
        self.answer.push(row);
    }

    /// Plans that a job is deleted.
    fn delete(&mut self, name: &JobName) {
        let Some((StandingJob { spec, calendars, .. }, _)) = self.standing(name) else { return };
        let old = fires(&spec.job, calendars.as_ref(), spec.paused);
        let mut row = self.row(PlanEffect::Deleted, (old, None), (&spec.job, spec.paused), true);
        // It does not stay, so nothing is said of what it does.
        row.notes.clear();
        self.answer.push(row);
    }

    /// A job that is not declared anew, and whether a living node may run it; refused if there is none.
    fn standing(&mut self, name: &JobName) -> Option<(StandingJob, bool)> {
        let seen = self.look(std::iter::once((name, None))).pop();
        let found = seen.and_then(|seen| Some((seen.standing?, seen.fits)));
        if found.is_none() {
            self.refuse("job", name, "not_found", no_job(self.handle, name));
        }
        found
    }

    /// The row of a job whose fires are `old` and would be `new`, as the job in this state.
    fn row(
        &mut self,
        becomes: PlanEffect,
        (old, new): (Option<Schedule>, Option<Schedule>),
        (job, paused): (&Job, bool),
        fits: bool,
    ) -> PlanRow {
        let follows = old.iter().chain(&new).any(Schedule::follows_runs);
        let mut notes = Vec::new();
        if follows {
            notes.push("`@after` counts from the end of each run: shown as if runs took no time".to_owned());
        }
        if new.is_none() {
            notes.push(silent(job, paused).to_owned());
        }
        let next = new.as_ref().and_then(|schedule| schedule.next(self.now));
        let warnings = warnings(job, fits, new.as_ref(), next);
        let calendars = job.exclude_calendars().iter().chain(job.require_calendars());
        let calendars: BTreeSet<_> = calendars.filter(|name| self.changed.contains(*name)).collect();
        let calendars = calendars.into_iter().map(ToString::to_string).collect();
        let edit = self.edit((old, new), next);
        PlanRow {
            name: job.name.to_string(),
            becomes,
            fields: Vec::new(),
            values: BTreeMap::new(),
            more: edit.changes.len() == SHOWN,
            changes: edit.changes.iter().map(planned_fire).collect(),
            kept: edit.kept,
            until: edit.until.map(moment),
            next: next.map(moment),
            timezone: zone(job.timezone()),
            calendars,
            warnings,
            switches: Vec::new(),
            ended: Vec::new(),
            notes,
        }
    }

    /// The difference of two schedules. Of equal ones only the next fire counts.
    fn edit(
        &mut self,
        (old, new): (Option<Schedule>, Option<Schedule>),
        until: Option<Wall>,
    ) -> Arc<ScheduleEdit> {
        if old == new {
            return Arc::new(ScheduleEdit { changes: Vec::new(), kept: usize::from(until.is_some()), until });
        }
        let pair = (old, new);
        if let Some(known) = self.edits.get(&pair) {
            return known.clone();
        }
        let usual = EditLimits::changes(SHOWN);
        let left = COMPARED.saturating_sub(self.compared).max(FEW);
        let limits = EditLimits { compared: usual.compared.min(left), ..usual };
        let edit = Arc::new(ScheduleEdit::within(pair.0.as_ref(), pair.1.as_ref(), self.now, limits));
        self.compared += edit.kept + edit.changes.len();
        self.edits.insert(pair, edit.clone());
        edit
    }

    fn refuse(&mut self, kind: &str, name: &impl ToString, code: &str, detail: String) {
        let (kind, code) = (kind.to_owned(), code.to_owned());
        self.answer.refused.push(PlanRefusal { kind, name: name.to_string(), code, detail });
    }

    fn refuse_namespace(&mut self, kind: &str, name: &impl ToString, namespace: &str) {
        let known = namespace.parse().map(|namespace| no_namespace(self.handle, &namespace));
        let text = known.unwrap_or_else(|e| e.to_string());
        self.refuse(kind, name, "not_found", text);
    }
}
