//! The parts of a plan's rows: which fires count, which keys differ, and what a person should look at.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_core::job::Job;
use evenkeel_core::schedule::{CalendarFilter, EditEffect, Schedule};
use evenkeel_core::time::Wall;
use evenkeel_core::view::View;
use serde::Serialize;
use serde_json::{Map, Value};

use evenkeel_client::types::{FieldEdit, PlannedFire, moment};

pub(super) fn is_namespace(view: &View, name: &str) -> bool {
    name.parse().is_ok_and(|name| view.has_namespace(&name))
}

/// When a job fires by its schedule; `None` if it does not.
pub(super) fn fires(job: &Job, calendars: Option<&CalendarFilter>, paused: bool) -> Option<Schedule> {
    let fires = job.enabled && !paused;
    fires.then(|| job.schedule_with_calendars(calendars)).flatten()
}

/// Why a job would not fire by its schedule.
pub(super) fn silent(job: &Job, paused: bool) -> &'static str {
    match (job.enabled, paused, job.schedule.is_none()) {
        (false, ..) => "it is disabled: it does not fire",
        (_, true, _) => "it is paused: until `job resume` it runs only when triggered manually",
        (.., true) => "it has no schedule: it runs only when triggered manually",
        _ => "one of its calendars is missing: it never fires",
    }
}

pub(super) fn planned_fire((due, effect): &(Wall, EditEffect)) -> PlannedFire {
    let (fate, of) = match effect {
        EditEffect::Added => ("added", None),
        EditEffect::Dropped => (PlannedFire::DROPPED, None),
        EditEffect::Repeats(past) => ("repeats", Some(moment(*past))),
    };
    PlannedFire { due: moment(*due), fate: fate.to_owned(), of }
}

/// The keys in which two declarations differ, with their values. A caller that may see the job sees all of them: a declaration names
/// secrets and holds none.
pub(super) fn values<T: Serialize>(old: &T, new: &T) -> BTreeMap<String, FieldEdit> {
    let keys = |declared: &T| match serde_json::to_value(declared) {
        Ok(Value::Object(keys)) => keys,
        _ => Map::new(),
    };
    let (mut old, mut new) = (keys(old), keys(new));
    let names: BTreeSet<String> = old.keys().chain(new.keys()).cloned().collect();
    let edit = |name: String| {
        let edit = FieldEdit {
            old: old.remove(&name).unwrap_or_default(),
            new: new.remove(&name).unwrap_or_default(),
        };
        (edit.old != edit.new).then_some((name, edit))
    };
    names.into_iter().filter_map(edit).collect()
}

/// What needs a person once the job has these fires: no living node may run it, or it never fires again.
pub(super) fn warnings(job: &Job, fits: bool, fires: Option<&Schedule>, next: Option<Wall>) -> Vec<String> {
    let mut warnings = Vec::new();
    if job.enabled && !fits {
        warnings.push(format!(
            "unschedulable: no living node fits {}; start one with these labels, or change the job",
            job.node_selector
        ));
    }
    if fires.is_some() && next.is_none() {
        warnings.push(
            "never fires again: its schedule names no moment from now on; it has only manual runs".to_owned(),
        );
    }
    warnings
}

/// Whether a living node may run the job.
pub(super) fn fits(view: &View, job: &Job) -> bool {
    view.members().any(|(member, state)| job.node_selector.fits(&member.node, &state.info.labels))
}
