//! Warnings about a job that was just declared: it has no eligible node, is never due again, or uses something that
//! this node lacks.

use std::collections::BTreeSet;
use std::path::Path;

use evenkeel::Handle;
use evenkeel_core::ids::{JobName, NotifierName};
use evenkeel_core::job::{CommandWork, Job, JobWork};
use evenkeel_core::view::{JobView, View};

use crate::{host, zones};

/// All warnings about a job, a sentence each.
pub(crate) fn warnings(handle: &Handle, name: &JobName, notifiers: &BTreeSet<NotifierName>) -> Vec<String> {
    let seen = handle.with_node(|node| {
        let view = node.view();
        let found = view.find(name)?;
        let job = found.spec()?.job;
        let nobody = without_node(view, &found);
        let own = view.members().any(|(member, _)| member.node == *handle.name() && found.fits(member));
        Some((job, nobody, own))
    });
    let Some((job, nobody, own)) = seen else { return Vec::new() };
    let mut warnings: Vec<String> = nobody.into_iter().collect();
    warnings.extend(never_again(handle, name, &job));
    let doubts = job.schedule().ok().flatten().map_or_else(Vec::new, |schedule| schedule.doubts());
    warnings.extend(doubts.into_iter().map(|doubt| format!("job {name}: {doubt}")));
    if own {
        warnings.extend(lacking(handle, &job, notifiers));
    }
    warnings
}

/// A warning that no online node matches a job's node selector.
pub(super) fn is_unschedulable(handle: &Handle, name: &JobName) -> Option<String> {
    handle.with_node(|node| without_node(node.view(), &node.view().find(name)?))
}

fn without_node(view: &View, job: &JobView<'_>) -> Option<String> {
    let text =
        || format!("no living node fits job {}, which is for {}", job.name(), view.nodes_named(job.group()));
    view.is_unschedulable(job.group()).then(text)
}

/// A warning that the last fire is past. That is no mistake: the file was right once, and must stay applicable.
fn never_again(handle: &Handle, name: &JobName, job: &Job) -> Option<String> {
    let schedule = super::lookup::schedule(handle, name)??;
    let over = job.enabled && schedule.next(zones::now()).is_none();
    over.then(|| {
        format!(
            "job {name} is never due again: its schedule names no moment from now on; it runs only by hand"
        )
    })
}

/// Warnings about notifiers and other things that this node lacks and the job uses, if the job may run on it.
fn lacking(handle: &Handle, job: &Job, notifiers: &BTreeSet<NotifierName>) -> Vec<String> {
    let mut lacking = Vec::new();
    let mut lacks = |key: &str, what: &str, why: &str| {
        let (name, node) = (&job.name, handle.name());
        lacking.push(format!("job {name} names {key} {what}, {why} node {node}"));
    };
    let unreadable = |path: &str| !path.is_empty() && !Path::new(path).exists();
    match &job.work {
        JobWork::Command(command) => {
            let CommandWork { program, directory, user, .. } = &**command;
            let argv = program.argv();
            if let Some(program) = argv.first().filter(|path| path.starts_with('/') && unreadable(path)) {
                lacks("the program", program, "which is not on");
            }
            if unreadable(directory) {
                lacks("the directory", directory, "which is not on");
            }
            let users = host::users();
            if !user.is_empty() && !users.is_empty() && !users.contains(user) && !host::is_user(user) {
                lacks("the user", user, "whom nobody knows on");
            }
        }
        JobWork::Http(http) if unreadable(&http.ca) => lacks("http.ca", &http.ca, "which is not on"),
        JobWork::Http(_) | JobWork::Function(_) => {}
    }
    for notifier in job.notify.iter().flat_map(|notify| &notify.to).filter(|to| !notifiers.contains(*to)) {
        let known: Vec<&str> = notifiers.iter().map(NotifierName::as_str).collect();
        let why = match known.as_slice() {
            [] => "a notifier that nothing in the settings is called on".to_owned(),
            known => format!("a notifier that is none of {}, those of", known.join(", ")),
        };
        lacks("notify.to", notifier.as_str(), &why);
    }
    lacking
}
