//! Names of nodes and jobs that there are not, and those that may be meant.

use evenkeel::Handle;
use evenkeel_core::words::{JobName, NodeName};

use super::LOOK;

/// How alike two names must be for one to be taken for the other, from 0 to 1.
const ALIKE: f64 = 0.6;
/// Among so many jobs the nearest name is looked for.
const NAMES_MAX: usize = 10_000;

/// That no living node has this name, and which one comes nearest.
#[must_use]
pub(crate) fn no_living<'a>(name: &str, living: impl Iterator<Item = &'a str>) -> String {
    let fix = match nearest(name, living) {
        Some(near) => format!("did you mean {near}? `evenkeel node list` shows all"),
        None => "see `evenkeel node list`".to_owned(),
    };
    format!("no living node is called {name}: {fix}")
}

/// The same of the nodes that live just now.
#[must_use]
pub(crate) fn no_node(handle: &Handle, name: &NodeName) -> String {
    let names = super::names(handle);
    no_living(name.as_str(), names.iter().map(NodeName::as_str))
}

/// That there is no job of this name, and which one comes nearest of the first ten thousand.
#[must_use]
pub(crate) fn no_job(handle: &Handle, name: &JobName) -> String {
    let mut names: Vec<JobName> = Vec::new();
    while names.len() < NAMES_MAX {
        // A few at each look, which the node waits for.
        let some: Vec<JobName> =
            handle.look(|node| node.view().page(names.last(), LOOK).map(|job| job.name().clone()).collect());
        let is_last = some.len() < LOOK;
        names.extend(some);
        if is_last {
            break;
        }
    }
    let fix = match nearest(name.as_str(), names.iter().map(JobName::as_str)) {
        Some(near) => format!("did you mean {near}? `evenkeel job list` shows all"),
        None => "see `evenkeel job list`".to_owned(),
    };
    format!("no job is called {name}: {fix}")
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
