//! `--plan`: shows which fires a change of jobs or calendars would add, drop or repeat, and sends no change.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use evenkeel_core::calendar::Calendar;
use evenkeel_core::ids::CalendarName;
use evenkeel_core::job::{Job, SwitchPosition};
use evenkeel_core::schedule::{CalendarFilter, EditEffect, Schedule, ScheduleEdit};
use evenkeel_core::time::Wall;
use jiff::tz::TimeZone;
use serde::Serialize;
use serde_json::Value;

use crate::api_types::{CalendarDetail, JobDetail, SwitchRow, moment};
use crate::client::{ApiClient, ConnectArgs, escape};
use crate::exit::{CliError, ExitKind};
use crate::files::Declarations;
use crate::output::{self, OutputFormat};
use crate::zones;

/// The maximum number of changed fires shown for a job.
const SHOWN: usize = 10;

/// The planned change of a job.
#[derive(Debug, Serialize)]
struct JobPlan {
    name: String,
    /// `created`, `updated`, `unchanged`, `resumed`, `enabled`; or `calendar` for a job that uses a changed calendar.
    becomes: &'static str,
    /// The fields that would change.
    fields: Vec<String>,
    /// The fires that would change.
    changes: Vec<FireChange>,
    /// Whether there may be more of them.
    more: bool,
    /// The number of unchanged fires, up to `until`.
    kept: usize,
    until: Option<String>,
    /// The operators' switches that the change keeps.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    switches: Vec<SwitchRow>,
    /// The operators' switches that the change ends.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ended: Vec<SwitchRow>,
    /// Further notes.
    notes: Vec<String>,
}

/// A fire that would be added or dropped.
#[derive(Debug, Serialize)]
struct FireChange {
    due: String,
    /// `added`, `dropped` or `repeats`.
    fate: &'static str,
    /// The past fire that it repeats.
    #[serde(skip_serializing_if = "Option::is_none")]
    of: Option<String>,
}

/// A change of a job that can be previewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PlannableChange {
    /// The pause of the job ends.
    Resumed,
    /// The job is enabled again.
    Enabled,
}

/// Shows the effect of applying a file.
///
/// # Errors
/// No node answers, or the file does not match what is declared already.
pub(super) fn file(declared: &Declarations, reach: &ConnectArgs) -> Result<(), CliError> {
    let mut writer = Preview::open(reach)?;
    let mut changed = BTreeSet::new();
    for calendar in &declared.calendars {
        let old = writer.calendar(&calendar.name)?;
        if old.as_ref().is_some_and(|old| old.calendar != *calendar) {
            changed.extend(old.map(|old| old.jobs).unwrap_or_default());
        }
    }
    writer.coming = declared.calendars.iter().map(|it| (it.name.clone(), it.clone())).collect();
    let mut plans = Vec::new();
    for job in &declared.jobs {
        changed.remove(job.name.as_str());
        plans.push(writer.apply(job)?);
    }
    for name in changed {
        let Some(found) = writer.job(&name)? else { continue };
        let plan = writer.compare(Some(&found), &found.job, "calendar")?;
        plans.push(plan);
    }
    show(&plans, reach)
}

/// Shows the effect of resuming or enabling a job.
///
/// # Errors
/// No node answers, or there is no such job.
pub(super) fn turn(name: &str, turn: PlannableChange, reach: &ConnectArgs) -> Result<(), CliError> {
    let mut writer = Preview::open(reach)?;
    let found: JobDetail = writer.client.get(&format!("/jobs/{}", escape(name)))?;
    let mut turned = JobDetail { job: current_job(&found), ..found.clone() };
    let becomes = match turn {
        PlannableChange::Resumed => {
            turned.paused = false;
            "resumed"
        }
        PlannableChange::Enabled => {
            turned.job = turned.job.with_enabled(SwitchPosition::On);
            "enabled"
        }
    };
    let (old, new) = (
        writer.fires(&current_job(&found), found.paused, false)?,
        writer.fires(&turned.job, turned.paused, false)?,
    );
    let mut plan = writer.plan(name, becomes, (old.as_ref(), new.as_ref()));
    if old.is_none() && new.is_some() {
        plan.notes.push("what was due before is not made up".to_owned());
    }
    if new.is_none() {
        plan.notes.push(silent(&turned.job, turned.paused));
    }
    show(&[plan], reach)
}

/// The present declarations, as far as fetched, and the planned ones.
struct Preview {
    client: ApiClient,
    now: Wall,
    standing: BTreeMap<CalendarName, Option<CalendarDetail>>,
    coming: BTreeMap<CalendarName, Calendar>,
}

impl Preview {
    fn open(reach: &ConnectArgs) -> Result<Self, CliError> {
        let client = reach.client()?;
        Ok(Self { client, now: zones::now(), standing: BTreeMap::new(), coming: BTreeMap::new() })
    }

    fn job(&self, name: &str) -> Result<Option<JobDetail>, CliError> {
        found(self.client.get(&format!("/jobs/{}", escape(name))))
    }

    fn calendar(&mut self, name: &CalendarName) -> Result<Option<CalendarDetail>, CliError> {
        if let Some(known) = self.standing.get(name) {
            return Ok(known.clone());
        }
        let asked = found(self.client.get(&format!("/calendars/{}", escape(name.as_str()))))?;
        self.standing.insert(name.clone(), asked.clone());
        Ok(asked)
    }

    fn apply(&mut self, job: &Job) -> Result<JobPlan, CliError> {
        let found = self.job(job.name.as_str())?;
        let becomes = match &found {
            None => "created",
            Some(found) if found.job == *job => "unchanged",
            Some(_) => "updated",
        };
        self.compare(found.as_ref(), job, becomes)
    }

    fn compare(
        &mut self,
        found: Option<&JobDetail>,
        job: &Job,
        becomes: &'static str,
    ) -> Result<JobPlan, CliError> {
        let paused = found.is_some_and(|found| found.paused);
        let old = match found {
            Some(found) => self.fires(&current_job(found), paused, false)?,
            None => None,
        };
        // An operator's switch stays, unless the file changes that field.
        let (job, declared) = (&planned_job(found, job), job);
        let new = self.fires(job, paused, true)?;
        let mut plan = self.plan(job.name.as_str(), becomes, (old.as_ref(), new.as_ref()));
        if let Some(found) = found {
            plan.fields = fields(&found.job, declared);
            (plan.ended, plan.switches) = ended_and_left(found, declared);
        }
        if new.is_none() {
            plan.notes.push(silent(job, paused));
        }
        // A node compares the text of the schedule: another text of the same fires is a change.
        let is_rewritten = found.is_some_and(|found| current_job(found).schedule != job.schedule);
        if old.is_some() && (old != new || is_rewritten) {
            plan.notes.push("what is late by then and has not run is given up".to_owned());
        }
        Ok(plan)
    }

    fn plan(
        &self,
        name: &str,
        becomes: &'static str,
        (old, new): (Option<&Schedule>, Option<&Schedule>),
    ) -> JobPlan {
        let edit = ScheduleEdit::of(old, new, self.now, SHOWN);
        let changed = |(due, fate): &(Wall, EditEffect)| FireChange {
            due: moment(*due),
            fate: match fate {
                EditEffect::Added => "added",
                EditEffect::Dropped => "dropped",
                EditEffect::Repeats(_) => "repeats",
            },
            of: if let EditEffect::Repeats(past) = fate { Some(moment(*past)) } else { None },
        };
        JobPlan {
            name: name.to_owned(),
            becomes,
            fields: Vec::new(),
            more: edit.changes.len() == SHOWN,
            changes: edit.changes.iter().map(changed).collect(),
            kept: edit.kept,
            until: edit.until.map(moment),
            switches: Vec::new(),
            ended: Vec::new(),
            notes: match old.into_iter().chain(new).any(Schedule::follows_runs) {
                true => {
                    vec!["`@after` counts from the end of each run: shown as if runs took no time".to_owned()]
                }
                false => Vec::new(),
            },
        }
    }

    /// A declaration's schedule, with the present or the planned calendars; `None` if it has only manual runs.
    fn fires(&mut self, job: &Job, paused: bool, coming: bool) -> Result<Option<Schedule>, CliError> {
        let mut list = |names: &[CalendarName]| -> Result<Option<Vec<_>>, CliError> {
            let mut read = Vec::new();
            for name in names {
                let found = match self.coming.get(name).filter(|_| coming) {
                    Some(calendar) => Some(calendar.clone()),
                    None => self.calendar(name)?.map(|found| found.calendar),
                };
                let Some(calendar) = found else {
                    // Without one of its calendars a present job never fires, and a new one is refused.
                    return if coming { Err(missing(job, name)) } else { Ok(None) };
                };
                let times = calendar.read().map_err(|e| CliError::invalid(e.to_string()))?;
                read.push((name.clone(), Arc::new(times)));
            }
            Ok(Some(read))
        };
        let (Some(except), Some(only)) = (list(job.exclude_calendars())?, list(job.require_calendars())?)
        else {
            return Ok(None);
        };
        let schedule = job.schedule_with_calendars(Some(&CalendarFilter::new(except, only)));
        Ok(schedule.filter(|_| job.enabled && !paused))
    }
}

fn missing(job: &Job, name: &CalendarName) -> CliError {
    CliError::new(
        ExitKind::Conflict,
        format!("job {}: there is no calendar {name}: declare it in the same file or first", job.name),
    )
}

/// Why a job would not fire by its schedule.
fn silent(job: &Job, paused: bool) -> String {
    let why = match (job.enabled, paused, job.schedule.is_none()) {
        (false, ..) => "it is disabled: it does not fire",
        (_, true, _) => "it is paused: it fires only by hand until `job resume`",
        (.., true) => "it has no schedule: it fires only by hand",
        _ => "one of its calendars is missing: it does not fire",
    };
    why.to_owned()
}

/// The fields in which two declarations differ.
fn fields(old: &Job, new: &Job) -> Vec<String> {
    let told = |job: &Job| match serde_json::to_value(job) {
        Ok(Value::Object(fields)) => fields,
        _ => serde_json::Map::new(),
    };
    let (old, new) = (told(old), told(new));
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    names.into_iter().filter(|name| old.get(*name) != new.get(*name)).cloned().collect()
}

/// The declaration with the operators' switches: the effective job.
fn current_job(found: &JobDetail) -> Job {
    found.job.clone().with_enabled((!found.disabled).into())
}

/// The effective job after a file is applied, if operators may have switched it.
fn planned_job(found: Option<&JobDetail>, job: &Job) -> Job {
    let kept = found.filter(|found| found.job.enabled == job.enabled);
    job.clone().with_enabled(kept.map_or(job.enabled, |found| !found.disabled).into())
}

/// The operators' switches that a file ends, for it changes their field; and the switches that it keeps.
fn ended_and_left(found: &JobDetail, declared: &Job) -> (Vec<SwitchRow>, Vec<SwitchRow>) {
    let ended = |switch: &SwitchRow| {
        found.job.enabled != declared.enabled
            && switch.node.is_none()
            && ["enabled", "disabled"].contains(&switch.switch.as_str())
    };
    found.switches.iter().cloned().partition(ended)
}

/// Turns "not found" into `None`.
fn found<T>(asked: Result<T, CliError>) -> Result<Option<T>, CliError> {
    match asked {
        Ok(found) => Ok(Some(found)),
        Err(failure) if failure.exit == ExitKind::NotFound => Ok(None),
        Err(failure) => Err(failure),
    }
}

fn show(plans: &[JobPlan], reach: &ConnectArgs) -> Result<(), CliError> {
    if reach.output == OutputFormat::Json {
        return output::json(&plans);
    }
    let zone = TimeZone::system();
    for plan in plans {
        lines(plan, &zone).iter().try_for_each(|line| output::line(line))?;
    }
    output::line("nothing was changed: leave out --plan to do it")
}

/// A plan for people.
fn lines(plan: &JobPlan, zone: &TimeZone) -> Vec<String> {
    let fields = if plan.fields.is_empty() { String::new() } else { format!(": {}", plan.fields.join(", ")) };
    let becomes = if plan.becomes == "calendar" { "is under a calendar that changes" } else { plan.becomes };
    let mut lines = vec![format!("{}  {becomes}{fields}", plan.name)];
    for change in &plan.changes {
        let due = zones::for_people(&change.due, zone);
        lines.push(match (change.fate, &change.of) {
            ("dropped", _) => format!("  - {due}"),
            (_, Some(of)) => {
                format!("  + {due}  # again: it fired at this local time {}", zones::for_people(of, zone))
            }
            _ => format!("  + {due}"),
        });
    }
    if plan.more {
        lines.push("  and more after that".to_owned());
    }
    match (&plan.until, plan.kept) {
        (_, 1..) if plan.changes.is_empty() && plan.becomes != "unchanged" => {
            lines.push("  its fires stay as they are".to_owned());
        }
        (Some(until), 1..) if !plan.changes.is_empty() => {
            let stay = match plan.kept {
                1 => "1 fire stays as it is".to_owned(),
                n => format!("{n} fires stay as they are"),
            };
            lines.push(format!("  = {stay} until {}", zones::for_people(until, zone)));
        }
        _ => {}
    }
    lines.extend(plan.notes.iter().map(|note| format!("  {note}")));
    lines.extend(plan.switches.iter().map(|switch| format!("  {}", switch.left())));
    lines.extend(plan.ended.iter().map(|switch| format!("  {}", switch.ended())));
    lines
}
