//! Messages for unknown names of nodes, jobs and calendars, with the nearest known name.

use std::collections::BTreeSet;

use evenkeel::Handle;
use evenkeel_core::ids::{CalendarName, JobName, Namespace, NodeName};
use evenkeel_core::input::{Command, CommandObject};

use super::lookup::{self, LOOK};

/// The minimum similarity of two names for a suggestion, from 0 to 1.
const ALIKE: f64 = 0.6;
/// The number of jobs among which the nearest name is searched.
const NAMES_MAX: usize = 10_000;

/// A message that there is no such name of this kind, with the nearest one and the verb that lists them all.
fn not_called<'a>(kind: &str, name: &str, known: impl Iterator<Item = &'a str>, list: &str) -> String {
    let fix = match nearest(name, known) {
        Some(near) => format!("did you mean {near}? `evenkeel {list}` shows all"),
        None => format!("see `evenkeel {list}`"),
    };
    format!("no {kind} is called {name}: {fix}")
}

/// A message that no node of this name is online, with the nearest name.
#[must_use]
pub(crate) fn no_living<'a>(name: &str, living: impl Iterator<Item = &'a str>) -> String {
    not_called("living node", name, living, "node list")
}

/// A message that no node of this name is online, switched or drained; `None` if one is.
#[must_use]
pub(crate) fn unknown_node(handle: &Handle, name: &str) -> Option<String> {
    let known = name.parse().is_ok_and(|name| lookup::is_known(handle, &name));
    let names = lookup::names(handle);
    (!known).then(|| no_living(name, names.iter().map(NodeName::as_str)))
}

/// The same for online nodes only.
#[must_use]
pub(crate) fn no_node(handle: &Handle, name: &NodeName) -> String {
    let names = lookup::names(handle);
    no_living(name.as_str(), names.iter().map(NodeName::as_str))
}

/// A message that there is no job of this name, with the nearest one of the first ten thousand.
#[must_use]
pub(crate) fn no_job(handle: &Handle, name: &JobName) -> String {
    if handle.with_node(|node| node.view().is_unsealed(name)) {
        return format!(
            "job {name} does not run: no node of this cluster wrote its entry in the registry; an administrator looks at it with \
             `evenkeel job unsealed`, and accepts or deletes it"
        );
    }
    let mut names: Vec<JobName> = Vec::new();
    while names.len() < NAMES_MAX {
        // A few in each look at the view, for which the node waits.
        let some: Vec<JobName> = handle
            .with_node(|node| node.view().page(names.last(), LOOK).map(|job| job.name().clone()).collect());
        let is_last = some.len() < LOOK;
        names.extend(some);
        if is_last {
            break;
        }
    }
    // The names of another namespace are not the caller's to see.
    let known = names.iter().filter(|known| known.namespace() == name.namespace());
    not_called("job", name.as_str(), known.map(JobName::as_str), "job list")
}

/// A message that there is no calendar of this name, with the nearest one.
#[must_use]
pub(crate) fn no_calendar(handle: &Handle, name: &CalendarName) -> String {
    let names: Vec<CalendarName> =
        handle.with_node(|node| node.view().calendars().map(|spec| spec.calendar.name.clone()).collect());
    let known = names.iter().filter(|known| known.namespace() == name.namespace());
    not_called("calendar", name.as_str(), known.map(CalendarName::as_str), "calendar list")
}

/// A message that there is no namespace of this name, with the nearest one.
#[must_use]
pub(crate) fn no_namespace(handle: &Handle, name: &Namespace) -> String {
    let declared: Vec<Namespace> =
        handle.with_node(|node| node.view().namespaces().map(|spec| spec.namespace.name.clone()).collect());
    let near = nearest(name.as_str(), declared.iter().map(Namespace::as_str));
    let fix = near.map_or_else(String::new, |near| format!("did you mean {near}? "));
    format!("there is no namespace {name}: {fix}create it with `evenkeel namespace create {name}`")
}

/// The objects that a change names, to report missing ones.
#[derive(Debug, Default)]
pub(crate) struct NamedObjects {
    job: Option<JobName>,
    node: Option<NodeName>,
    calendar: Option<CalendarName>,
    /// The namespaces in which it declares something.
    namespaces: BTreeSet<Namespace>,
}

impl NamedObjects {
    /// The objects that this command names.
    pub(crate) fn of(command: &Command) -> Self {
        let Some(described) = command.describe() else { return Self::default() };
        let mut named = Self { node: described.on_node.cloned(), ..Self::default() };
        match described.object {
            CommandObject::Job(name) => named.job = Some(name.clone()),
            CommandObject::Calendar(name) => named.calendar = Some(name.clone()),
            CommandObject::Namespace(name) => drop(named.namespaces.insert(name.clone())),
            CommandObject::Node(name) => named.node = name.cloned(),
            _ => {}
        }
        // What is declared need not exist, but its namespace must.
        let command = command.plain();
        let spaces: BTreeSet<&str> = match command {
            Command::Calendar(calendar) => [calendar.name.namespace()].into(),
            Command::Secret(secret) => [secret.name.namespace()].into(),
            _ => command.declared().map(JobName::namespace).collect(),
        };
        named.namespaces.extend(spaces.into_iter().filter_map(|name| name.parse().ok()));
        named
    }

    /// A message about the first missing object, with the nearest name; `None` if all exist.
    pub(crate) fn missing(&self, handle: &Handle) -> Option<String> {
        let unknown = |name: &&Namespace| handle.with_node(|node| !node.view().has_namespace(name));
        if let Some(name) = self.namespaces.iter().find(unknown) {
            return Some(no_namespace(handle, name));
        }
        let job = self.job.as_ref().filter(|job| !lookup::is_job(handle, job));
        let calendar = |name: &&CalendarName| handle.with_node(|node| node.view().calendar(name).is_none());
        let node = |name: &&NodeName| !lookup::names(handle).contains(*name);
        job.map(|job| no_job(handle, job))
            .or_else(|| self.calendar.as_ref().filter(calendar).map(|name| no_calendar(handle, name)))
            .or_else(|| self.node.as_ref().filter(node).map(|name| no_node(handle, name)))
    }
}

fn nearest<'a>(name: &str, living: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let rated = living.map(|known| (strsim::jaro_winkler(name, known), known));
    let best = rated.filter(|(alike, _)| *alike >= ALIKE).max_by(|a, b| a.0.total_cmp(&b.0));
    best.map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_told_where_one_is_near() {
        let living = ["n1", "n2", "worker-eu-1"];
        let said = |name: &str| no_living(name, living.into_iter());
        assert!(said("n99").contains("did you mean n"), "{}", said("n99"));
        assert!(said("worker-eu-l").contains("did you mean worker-eu-1?"));
        assert_eq!(said("zzz"), "no living node is called zzz: see `evenkeel node list`");
    }
}
