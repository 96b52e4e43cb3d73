//! What the view and the registry have of jobs whose fires are reported.

use evenkeel::{Handle, Job, RunStateError};
use evenkeel_core::effect::Verdict;
use evenkeel_core::ids::{Fire, JobName, Member};
use evenkeel_core::job::{Placement, Spec};
use evenkeel_core::overdue::{self, FireRecords, FireStatus};
use evenkeel_core::record::Sharding;
use evenkeel_core::schedule::Schedule;
use evenkeel_core::shards::ShardSet;
use evenkeel_core::time::Wall;
use evenkeel_core::view::{JobView, View};

use super::JobSearch;
use super::lookup::LOOK;

/// A job whose fires are reported.
#[derive(Clone, Debug)]
pub(crate) struct ReportSubject {
    /// What is declared of it.
    pub(crate) spec: Spec,
    /// Fires up to this moment are ignored by now, also by changes of its calendars.
    pub(crate) since: Wall,
    /// When one of its calendars was changed last, if it has any.
    pub(crate) calendars_since: Option<Wall>,
    /// Whether it was ever switched on single nodes.
    pub(crate) switched_on_nodes: bool,
}

/// A page of jobs after this name, and the last one if there may be more.
pub(crate) fn report_subjects(
    handle: &Handle,
    search: JobSearch<'_>,
    job: Option<&JobName>,
    (after, limit): (Option<&JobName>, usize),
) -> (Vec<ReportSubject>, Option<JobName>) {
    if let Some(job) = job {
        let found = handle.with_node(|node| {
            let found = node.view().find(job).and_then(|job| subject(node.view(), &job, search));
            found.filter(|_| after.is_none())
        });
        return (found.into_iter().collect(), None);
    }
    let (mut found, mut last): (Vec<ReportSubject>, Option<JobName>) = (Vec::new(), after.cloned());
    loop {
        // A few in each look at the view, for which the node waits.
        let seen: Vec<(JobName, Option<ReportSubject>)> = handle.with_node(|node| {
            let view = node.view();
            let one = |job: JobView<'_>| (job.name().clone(), subject(view, &job, search));
            match search.namespace {
                Some(namespace) => view.page_in(namespace, last.as_ref(), LOOK).map(one).collect(),
                None => view.page(last.as_ref(), LOOK).map(one).collect(),
            }
        });
        let is_end = seen.len() < LOOK;
        for (name, subject) in seen {
            if subject.is_some() && found.len() >= limit {
                return (found, last);
            }
            found.extend(subject);
            last = Some(name);
        }
        if is_end {
            return (found, None);
        }
    }
}

fn subject(view: &View, job: &JobView<'_>, search: JobSearch<'_>) -> Option<ReportSubject> {
    let spec = job.spec()?;
    if search.namespace.is_some_and(|of| job.name().namespace() != of.as_str())
        || search.labels.is_some_and(|labels| !labels.fits(&spec.job.labels))
    {
        return None;
    }
    let calendars_since = spec.job.calendars().filter_map(|name| Some(view.calendar(name)?.since)).max();
    let switched_on_nodes = job.switched().next().is_some();
    Some(ReportSubject { since: view.since_of(&spec), calendars_since, switched_on_nodes, spec })
}

/// The schedule of a declaration with the present calendars: `None` for a job that only runs when it is asked to, or that is
/// never due as a calendar is missing.
pub(crate) fn schedule_of(handle: &Handle, job: &Job) -> Option<Schedule> {
    let calendars = handle.with_node(|node| node.view().calendars_of(job));
    job.schedule_with_calendars(calendars.as_ref())
}

/// The members that are online, as histories name them.
pub(crate) fn living_members(handle: &Handle) -> Vec<String> {
    handle.with_node(|node| node.view().members().map(|(member, _)| member.to_string()).collect())
}

/// The facts of a job that say what became of its fires in the registry.
struct FireFacts {
    placement: Placement,
    owner: Option<Member>,
    max_concurrent_runs: usize,
    sharding: Sharding,
    /// The shards that are not expected to fire.
    off: ShardSet,
    /// The members that do not fire the shards which they have.
    idle: Vec<Member>,
    living: Vec<Member>,
}

/// What the registry has of these fires of a job; fires that it does not know any more are finished.
///
/// # Errors
/// The registry is unreachable, or the node has stopped.
pub(crate) async fn fire_statuses(
    handle: &Handle,
    job: &JobName,
    fires: &[Wall],
    now: Wall,
) -> Result<Vec<FireStatus>, RunStateError> {
    let Some(facts) = handle.with_node(|node| Some(FireFacts::of(node.view(), &node.view().find(job)?)))
    else {
        return Ok(vec![FireStatus::Finished; fires.len()]);
    };
    let lives = |member: &Member| facts.living.contains(member);
    let judge = |records: FireRecords<'_>, verdicts: &[Verdict]| {
        let status = |fire: &Wall| match overdue::fire_status(*fire, now, records, &lives) {
            FireStatus::Finished if verdicts.iter().any(|verdict| covers(verdict, *fire)) => {
                FireStatus::Waiting("its outcome is being recorded".to_owned())
            }
            status => status,
        };
        fires.iter().map(status).collect()
    };
    let one = std::slice::from_ref(job);
    Ok(match facts.placement {
        Placement::Claimed => {
            let state = handle.claimed_run_states(one).await?.remove(job);
            let verdicts = state.as_ref().map(|state| state.verdicts.clone()).unwrap_or_default();
            let (owner, most) = (facts.owner.as_ref(), facts.max_concurrent_runs);
            judge(FireRecords::Claimed(state.as_ref(), owner, most), &verdicts)
        }
        Placement::Dispatched => {
            let plan = handle.plans(one).await?.remove(job);
            let verdicts = plan.as_ref().map(|plan| plan.verdicts.clone()).unwrap_or_default();
            judge(FireRecords::Planned(plan.as_ref()), &verdicts)
        }
        Placement::Sharded | Placement::Broadcast => {
            let states = handle.shard_run_states(job).await?;
            let idle =
                facts.idle.iter().filter_map(|member| states.get(member)).flat_map(|state| &state.groups);
            let off = idle.fold(facts.off.clone(), |all, group| all.or(&group.shards));
            let verdicts: Vec<Verdict> = states.values().flat_map(|state| state.verdicts.clone()).collect();
            judge(FireRecords::Sharded(&facts.sharding, &states, &off), &verdicts)
        }
    })
}

/// Whether a verdict that history has not acknowledged yet is about a fire.
fn covers(verdict: &Verdict, fire: Wall) -> bool {
    matches!(verdict.run.fire, Fire::Due(_)) && verdict.from <= fire && fire <= verdict.due
}

impl FireFacts {
    fn of(view: &View, job: &JobView<'_>) -> Self {
        let spec = job.spec();
        let sharding = job.sharding().cloned().unwrap_or_default();
        let is_idle = |member: &&Member| {
            let switches = job.switches(&member.node);
            switches.paused || switches.disabled || switches.shutdown == Some(member.incarnation)
        };
        let placement = spec.as_ref().map_or(Placement::Claimed, |spec| spec.job.placement.kind());
        Self {
            placement,
            owner: job.owner().cloned(),
            max_concurrent_runs: spec.as_ref().map_or(1, |spec| spec.job.overlap.max_concurrent_runs()),
            off: spec.map(|spec| spec.off).unwrap_or_default(),
            idle: sharding.run_states.iter().filter(is_idle).cloned().collect(),
            living: view.members().map(|(member, _)| member.clone()).collect(),
            sharding,
        }
    }
}
