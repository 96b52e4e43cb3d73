//! Warnings about a job that was just declared: it has no eligible node, is never due again, or uses something that
//! this node lacks.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use evenkeel::Handle;
use evenkeel_core::ids::{JobName, NodeName, NotifierName};
use evenkeel_core::input::ApplyResult;
use evenkeel_core::job::{CommandWork, Job, JobWork};
use evenkeel_core::schedule::Schedule;
use evenkeel_core::time::Wall;
use evenkeel_core::view::{JobView, View};

use super::lookup::LOOK;
use crate::{host, zones};
use evenkeel_client::types::{ApplyAnswer, ApplyRow, SwitchRow};

/// A declared job as the view has it.
struct DeclaredJob {
    switches: Vec<SwitchRow>,
    unschedulable: Option<String>,
    job: Job,
    /// Its schedule, if the view has it parsed.
    schedule: Option<Schedule>,
    /// Whether this node may run it.
    own: bool,
}

/// What this node found out about its host for one answer.
#[derive(Default)]
struct HostFacts {
    users: Option<Vec<String>>,
    /// Whether there is something at a path.
    paths: BTreeMap<String, bool>,
}

/// The answer to declarations that had these results and ended these switches.
pub(crate) fn apply_answer(
    handle: &Handle,
    applied: Vec<(JobName, ApplyResult)>,
    ended: &BTreeMap<JobName, SwitchRow>,
    notifiers: &BTreeSet<NotifierName>,
) -> ApplyAnswer {
    let mut answer = ApplyAnswer::default();
    let mut host = HostFacts::default();
    let now = zones::now();
    for some in applied.chunks(LOOK) {
        let seen: Vec<_> = handle.with_node(|node| {
            some.iter().map(|(name, _)| declared_job(node.view(), name, handle.name())).collect()
        });
        for ((name, applied), seen) in some.iter().zip(seen) {
            let ends = ended.get(name).filter(|_| *applied == ApplyResult::Updated);
            let mut row = ApplyRow {
                applied: *applied,
                ended: ends.cloned().into_iter().collect(),
                name: name.clone(),
                switches: Vec::new(),
            };
            if let Some(mut seen) = seen {
                row.switches = std::mem::take(&mut seen.switches);
                answer.warnings.extend(seen.unschedulable.take());
                answer.warnings.extend(schedule_warnings(handle, &seen, now));
                let doubts = seen.job.work.doubts().into_iter();
                answer.warnings.extend(doubts.map(|doubt| format!("job {name}: {doubt}")));
                if seen.own {
                    answer.warnings.extend(lacking(handle, &seen.job, notifiers, &mut host));
                }
            }
            answer.jobs.push(row);
        }
    }
    answer
}

fn declared_job(view: &View, name: &JobName, own: &NodeName) -> Option<DeclaredJob> {
    let found = view.find(name)?;
    let spec = found.spec()?;
    Some(DeclaredJob {
        switches: if found.is_switched() { super::switches::of(view, &found, &spec) } else { Vec::new() },
        unschedulable: without_node(view, &found),
        schedule: found.job_terms().and_then(|terms| terms.schedule.clone()),
        own: view.members().any(|(member, _)| member.node == *own && found.fits(member)),
        job: spec.job,
    })
}

/// Warnings about the schedule of a job.
fn schedule_warnings(handle: &Handle, seen: &DeclaredJob, now: Wall) -> Vec<String> {
    let job = &seen.job;
    if job.schedule.is_none() {
        return Vec::new();
    }
    let (over, doubts) = match &seen.schedule {
        Some(schedule) => (never_again(job, schedule, now), schedule.doubts(job.rules())),
        None => {
            let under_calendars = super::lookup::schedule(handle, &job.name).flatten();
            let plain = job.schedule().ok().flatten();
            let over = under_calendars.and_then(|schedule| never_again(job, &schedule, now));
            (over, plain.map_or_else(Vec::new, |schedule| schedule.doubts(job.rules())))
        }
    };
    over.into_iter().chain(doubts.into_iter().map(|doubt| format!("job {}: {doubt}", job.name))).collect()
}

impl HostFacts {
    /// Whether there is nothing at a path that is given.
    fn lacks(&mut self, path: &str) -> bool {
        if path.is_empty() {
            return false;
        }
        if let Some(there) = self.paths.get(path) {
            return !there;
        }
        let there = Path::new(path).exists();
        self.paths.insert(path.to_owned(), there);
        !there
    }

    /// Whether the host has no user of this name, as far as it says.
    fn lacks_user(&mut self, user: &str) -> bool {
        let users = self.users.get_or_insert_with(host::users);
        !users.is_empty() && !users.iter().any(|known| known == user) && !host::is_user(user)
    }
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
fn never_again(job: &Job, schedule: &Schedule, now: Wall) -> Option<String> {
    let name = &job.name;
    let over = job.enabled && schedule.next(now).is_none();
    over.then(|| {
        format!(
            "job {name} is never due again: its schedule names no moment from now on; it has only manual runs"
        )
    })
}

/// Warnings about notifiers and other things that this node lacks and the job uses, if the job may run on it.
fn lacking(
    handle: &Handle,
    job: &Job,
    notifiers: &BTreeSet<NotifierName>,
    host: &mut HostFacts,
) -> Vec<String> {
    let mut lacking = Vec::new();
    let mut lacks = |key: &str, what: &str, why: &str| {
        let (name, node) = (&job.name, handle.name());
        lacking.push(format!("job {name} names {key} {what}, {why} node {node}"));
    };
    match &job.work {
        JobWork::Command(command) => {
            let CommandWork { program, directory, user, .. } = &**command;
            let argv = program.argv();
            if let Some(program) = argv.first().filter(|path| path.starts_with('/') && host.lacks(path)) {
                lacks("the program", program, "which is not on");
            }
            if host.lacks(directory) {
                lacks("the directory", directory, "which is not on");
            }
            if !user.is_empty() && host.lacks_user(user) {
                lacks("the user", user, "whom nobody knows on");
            }
        }
        JobWork::Http(http) if host.lacks(&http.ca) => lacks("http.ca", &http.ca, "which is not on"),
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
    let secrets = handle.missing_secrets(job).into_iter();
    let unread = secrets.map(|why| format!("job {} cannot run on node {}: {why}", job.name, handle.name()));
    lacking.extend(unread);
    lacking
}
