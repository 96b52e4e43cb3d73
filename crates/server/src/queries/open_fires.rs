//! Reads from the registry which runs of a fire are open: running, waiting or still to come.

use evenkeel::{Handle, RunStateError};
use evenkeel_core::effect::Verdict;
use evenkeel_core::ids::{Fire, FireId, RunId, Shard};
use evenkeel_core::job::{Placement, Spec};
use evenkeel_core::record::{ShardRunState, Sharding, TriggerRequest};
use evenkeel_core::schedule::CalendarFilter;
use evenkeel_core::shards::ShardSet;
use evenkeel_core::time::Wall;
use evenkeel_core::view::JobView;

use super::lookup::timed;

/// The registry's data about one fire.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OpenFire {
    /// The shards whose runs go on, wait, or are to come.
    pub(crate) shards: ShardSet,
    /// The shards that the fire is for, if known.
    pub(crate) wanted: ShardSet,
}

/// The copy of a job made during the look at the view.
struct OpenFireSource {
    spec: Spec,
    calendars: Option<CalendarFilter>,
    sharding: Sharding,
    request: Option<TriggerRequest>,
    /// Whether it was requested, and no node has claimed it for all that are to run it.
    awaited: bool,
}

/// Reads a fire: which of its shards are open.
///
/// # Errors
/// The registry is unreachable, or the node has stopped.
pub(crate) async fn open(handle: &Handle, fire: &FireId) -> Result<OpenFire, RunStateError> {
    let Some(seen) = handle.with_node(|node| {
        node.view().find(&fire.job).and_then(|job| open_fire_source(node.view(), &job, fire))
    }) else {
        return Ok(OpenFire::default());
    };
    match seen.spec.job.placement.kind() {
        Placement::Sharded | Placement::Broadcast => {
            let run_states = handle.shard_run_states(&fire.job).await?;
            Ok(sharded(&seen, fire, run_states.values()))
        }
        Placement::Claimed => {
            let mut run_states = handle.claimed_run_states(std::slice::from_ref(&fire.job)).await?;
            let run_state = run_states.remove(&fire.job).unwrap_or_default();
            let told = run_state.verdicts.iter().any(|verdict| is_of(verdict, fire));
            Ok(single(&seen, fire, run_state.open_of(&fire.fire).is_some() || told, run_state.watermark))
        }
        Placement::Dispatched => {
            let mut plans = handle.plans(std::slice::from_ref(&fire.job)).await?;
            let plan = plans.remove(&fire.job).unwrap_or_default();
            let planned = plan.runs.iter().any(|planned| planned.fire == fire.fire);
            let told = plan.verdicts.iter().any(|verdict| is_of(verdict, fire));
            Ok(single(&seen, fire, planned || told, plan.watermark))
        }
    }
}

/// Whether a run goes on, waits, or is to come.
///
/// # Errors
/// The registry is unreachable, or the node has stopped.
pub(crate) async fn is_open(handle: &Handle, run: &RunId) -> Result<bool, RunStateError> {
    Ok(open(handle, &run.into()).await?.shards.contains(run.shard))
}

fn open_fire_source(
    view: &evenkeel_core::view::View,
    job: &JobView<'_>,
    fire: &FireId,
) -> Option<OpenFireSource> {
    let asked = job.triggers().and_then(|known| known.value.as_ref());
    let request = asked.and_then(|asked| {
        let named = |request: &&TriggerRequest| matches!(&fire.fire, Fire::Asked(id) if *id == request.id);
        asked.requests.iter().find(named).cloned()
    });
    let spec = timed(view, job)?;
    Some(OpenFireSource {
        calendars: view.calendars_of(&spec.job),
        sharding: job.sharding().cloned().unwrap_or_default(),
        awaited: asked.is_some_and(|asked| asked.awaits(&fire.fire)),
        request,
        spec,
    })
}

fn is_of(verdict: &Verdict, fire: &FireId) -> bool {
    FireId::from(&verdict.run) == *fire
}

impl OpenFireSource {
    /// Whether the present schedule of the job has this fire, so that it comes when due.
    fn is_due(&self, due: Wall) -> bool {
        let spec = &self.spec;
        let schedule = spec.job.schedule_with_calendars(self.calendars.as_ref());
        spec.job.enabled && !spec.paused && due > spec.since && schedule.is_some_and(|s| s.has(due))
    }
}

/// The fire of a job without shards, which has one run a fire.
fn single(seen: &OpenFireSource, fire: &FireId, is_open: bool, watermark: Wall) -> OpenFire {
    let one = ShardSet::one(Shard(0));
    let comes = match &fire.fire {
        Fire::Asked(_) => seen.awaited,
        Fire::Due(due) => *due > watermark && seen.is_due(*due),
    };
    OpenFire { shards: if is_open || comes { one.clone() } else { ShardSet::empty() }, wanted: one }
}

fn sharded<'a>(
    seen: &OpenFireSource,
    fire: &FireId,
    run_states: impl Iterator<Item = &'a ShardRunState>,
) -> OpenFire {
    let all = ShardSet::all(seen.sharding.shard_map.total_of(&seen.spec.job)).minus(&seen.spec.off);
    let (mut shards, mut passed) = (ShardSet::empty(), ShardSet::empty());
    let due = if let Fire::Due(due) = &fire.fire { *due } else { Wall::MIN };
    for run_state in run_states {
        let open = run_state.open.iter().filter(|open| open.fire == fire.fire);
        shards = open.fold(shards, |all, open| all.or(&open.shards));
        for verdict in run_state.verdicts.iter().filter(|verdict| is_of(verdict, fire)) {
            shards = shards.or(&verdict.shards).or(&ShardSet::one(verdict.run.shard));
        }
        let groups = run_state.groups.iter().filter(|group| group.watermark >= due);
        passed = groups.fold(passed, |all, group| all.or(&group.shards));
    }
    let wanted = match (&fire.fire, &seen.request) {
        (Fire::Due(due), _) if seen.is_due(*due) => {
            shards = shards.or(&all.minus(&passed));
            all
        }
        (Fire::Due(_), _) | (_, None) => shards.clone(),
        (_, Some(request)) => {
            let of_node = request.node.as_ref().map(|node| {
                let own = seen
                    .sharding
                    .shard_map
                    .assignments
                    .iter()
                    .filter(|assignment| assignment.holder.node == *node);
                own.fold(ShardSet::empty(), |all, assignment| all.or(&assignment.shards()))
            });
            let asked = of_node.map_or_else(|| all.clone(), |own| own.and(&all));
            if request.taken {
                request.shards.minus(&seen.spec.off)
            } else {
                shards = shards.or(&asked.minus(&request.shards));
                asked.or(&request.shards.minus(&seen.spec.off))
            }
        }
    };
    OpenFire { shards, wanted }
}

#[cfg(test)]
mod tests {
    use evenkeel_core::job::{Job, JobFile, Work};
    use evenkeel_core::record::{Attempt, ShardGroup};

    use super::*;

    fn set(text: &str) -> ShardSet {
        text.parse().expect("shards")
    }

    fn source_of(schedule: &str, request: Option<TriggerRequest>) -> OpenFireSource {
        let work = Work::Command(vec!["/bin/true".into()]);
        let mut job = JobFile::new("j".parse().expect("a name"), schedule, work);
        (job.placement, job.shards) = (Placement::Sharded, 4);
        let spec = Spec { off: set("3"), ..Spec::new(Job::parse(job).expect("a valid job"), 1, Wall(0)) };
        OpenFireSource {
            spec,
            calendars: Some(CalendarFilter::default()),
            sharding: Sharding::default(),
            awaited: request.as_ref().is_some_and(|request| !request.taken),
            request,
        }
    }

    fn run_state(groups: &[(i64, &str)], open: &[(&str, &str)]) -> ShardRunState {
        let group = |(watermark, shards): &(i64, &str)| ShardGroup {
            watermark: Wall(*watermark),
            shards: set(shards),
        };
        let open = open.iter().map(|(fire, shards)| {
            let fire: FireId = fire.parse().expect("a fire");
            Attempt {
                from: Some(Wall(0)),
                seq: 1,
                total: 4,
                shards: set(shards),
                ..Attempt::first(fire.fire, Wall(0), "n@1".parse().expect("a member"))
            }
        });
        ShardRunState {
            groups: groups.iter().map(group).collect(),
            open: open.collect(),
            ..ShardRunState::default()
        }
    }

    fn open_of(seen: &OpenFireSource, fire: &str, run_states: &[ShardRunState]) -> (String, String) {
        let found = sharded(seen, &fire.parse().expect("a fire"), run_states.iter());
        (found.shards.to_string(), found.wanted.to_string())
    }

    fn reported_reason(open: &str, wanted: &str) -> (String, String) {
        (open.to_owned(), wanted.to_owned())
    }

    #[test]
    fn a_fire_by_schedule_is_open_while_a_shard_has_not_come_to_it_or_has_not_ended() {
        let seen = source_of("@every 1s", None);
        assert_eq!(open_of(&seen, "j:5000", &[]), reported_reason("0-2", "0-2"), "nobody has come to it");
        let run_states = [
            run_state(&[(5_000, "0-1")], &[("j:5000", "1")]),
            run_state(&[(4_000, "2-3")], &[("j:4000", "2")]),
        ];
        assert_eq!(open_of(&seen, "j:5000", &run_states), reported_reason("1-2", "0-2"));
        let run_states = [run_state(&[(5_000, "0-1"), (6_000, "2-3")], &[("j:6000", "2")])];
        assert_eq!(open_of(&seen, "j:5000", &run_states), reported_reason("", "0-2"));
        assert_eq!(open_of(&seen, "j:5001", &run_states), reported_reason("", ""), "no such fire");
        let mut paused = source_of("@every 1s", None);
        paused.spec.paused = true;
        assert_eq!(open_of(&paused, "j:9000", &run_states), reported_reason("", ""), "it does not come");
    }

    #[test]
    fn a_fire_by_hand_is_open_until_all_shards_have_answered_and_ended() {
        let request = |taken, shards: &str| {
            let fire: FireId = "j:ask-r".parse().expect("a fire");
            let Fire::Asked(id) = fire.fire else { panic!("it was asked for") };
            let former = std::collections::BTreeSet::new();
            Some(TriggerRequest {
                id,
                at: Wall(7),
                taken,
                node: None,
                shards: set(shards),
                former,
                parameters: evenkeel_core::job::RunParameters::default(),
                taken_back: None,
            })
        };
        assert_eq!(
            open_of(&source_of("", request(false, "")), "j:ask-r", &[]),
            reported_reason("0-2", "0-2")
        );
        let run_states = [run_state(&[(7, "0-1")], &[("j:ask-r", "1")]), run_state(&[(7, "2-3")], &[])];
        assert_eq!(
            open_of(&source_of("", request(false, "0-1")), "j:ask-r", &run_states),
            reported_reason("1-2", "0-2")
        );
        assert_eq!(
            open_of(&source_of("", request(true, "0-3")), "j:ask-r", &run_states),
            reported_reason("1", "0-2")
        );
        assert_eq!(open_of(&source_of("", request(true, "0-3")), "j:ask-r", &[]), reported_reason("", "0-2"));
        assert_eq!(
            open_of(&source_of("", None), "j:ask-r", &run_states),
            reported_reason("1", "1"),
            "it is forgotten"
        );
    }
}
