//! What of a fire is still to come or goes on, as the registry has it at this moment.

use evenkeel::{Handle, LanesError};
use evenkeel_core::effect::Verdict;
use evenkeel_core::job::{Placement, Spec};
use evenkeel_core::record::{Request, ShardLane, Sharding};
use evenkeel_core::schedule::Calendars;
use evenkeel_core::shards::ShardSet;
use evenkeel_core::time::Wall;
use evenkeel_core::view::JobView;
use evenkeel_core::words::{Fire, FireId, RunId, Shard};

use super::timed;

/// What the registry has of one fire.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OpenFire {
    /// The shards whose runs go on, wait, or are to come.
    pub(crate) shards: ShardSet,
    /// The shards that the fire is for, as far as that is known.
    pub(crate) wanted: ShardSet,
}

/// What is copied of a job under the look.
struct Seen {
    spec: Spec,
    calendars: Option<Calendars>,
    sharding: Sharding,
    request: Option<Request>,
}

/// Looks up a fire: which of its shards are open.
///
/// # Errors
/// The registry is out of reach, or the node has stopped.
pub(crate) async fn open(handle: &Handle, fire: &FireId) -> Result<OpenFire, LanesError> {
    let Some(seen) =
        handle.look(|node| node.view().find(&fire.job).and_then(|job| seen(node.view(), &job, fire)))
    else {
        return Ok(OpenFire::default());
    };
    match seen.spec.job.placement {
        Placement::Sharded | Placement::Broadcast => {
            let lanes = handle.lanes(&fire.job).await?;
            Ok(sharded(&seen, fire, lanes.values()))
        }
        Placement::Claimed => {
            let mut lanes = handle.claims(std::slice::from_ref(&fire.job)).await?;
            let lane = lanes.remove(&fire.job).unwrap_or_default();
            let told = lane.verdicts.iter().any(|verdict| is_of(verdict, fire));
            Ok(single(&seen, fire, lane.open_of(&fire.fire).is_some() || told, lane.watermark))
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
/// The registry is out of reach, or the node has stopped.
pub(crate) async fn is_open(handle: &Handle, run: &RunId) -> Result<bool, LanesError> {
    Ok(open(handle, &run.into()).await?.shards.contains(run.shard))
}

fn seen(view: &evenkeel_core::view::View, job: &JobView<'_>, fire: &FireId) -> Option<Seen> {
    let asked = job.asked().and_then(|known| known.value.as_ref());
    let request = asked.and_then(|asked| {
        let named = |request: &&Request| matches!(&fire.fire, Fire::Asked(id) if *id == request.id);
        asked.requests.iter().find(named).cloned()
    });
    let spec = timed(view, job)?;
    Some(Seen {
        calendars: view.calendars_of(&spec.job),
        sharding: job.sharding().cloned().unwrap_or_default(),
        request,
        spec,
    })
}

fn is_of(verdict: &Verdict, fire: &FireId) -> bool {
    FireId::from(&verdict.run) == *fire
}

impl Seen {
    /// Whether the fire is one that its job makes by schedule as it stands, so that it comes once its moment has.
    fn is_due(&self, due: Wall) -> bool {
        let spec = &self.spec;
        let schedule = spec.job.schedule_under(self.calendars.as_ref());
        spec.job.enabled && !spec.paused && due > spec.since && schedule.is_some_and(|s| s.has(due))
    }
}

/// A job without shards: it has one run a fire.
fn single(seen: &Seen, fire: &FireId, is_open: bool, watermark: Wall) -> OpenFire {
    let one = ShardSet::one(Shard(0));
    let comes = match &fire.fire {
        Fire::Asked(_) => seen.request.as_ref().is_some_and(|request| !request.taken),
        Fire::Due(due) => *due > watermark && seen.is_due(*due),
    };
    OpenFire { shards: if is_open || comes { one.clone() } else { ShardSet::empty() }, wanted: one }
}

fn sharded<'a>(seen: &Seen, fire: &FireId, lanes: impl Iterator<Item = &'a ShardLane>) -> OpenFire {
    let all = ShardSet::all(seen.sharding.cut.total_of(&seen.spec.job)).minus(&seen.spec.off);
    let (mut shards, mut passed) = (ShardSet::empty(), ShardSet::empty());
    let due = if let Fire::Due(due) = &fire.fire { *due } else { Wall::MIN };
    for lane in lanes {
        let open = lane.open.iter().filter(|open| open.fire == fire.fire);
        shards = open.fold(shards, |all, open| all.or(&open.shards));
        for verdict in lane.verdicts.iter().filter(|verdict| is_of(verdict, fire)) {
            shards = shards.or(&verdict.shards).or(&ShardSet::one(verdict.run.shard));
        }
        let groups = lane.groups.iter().filter(|group| group.watermark >= due);
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
                let own = seen.sharding.cut.portions.iter().filter(|portion| portion.holder.node == *node);
                own.fold(ShardSet::empty(), |all, portion| all.or(&portion.shards()))
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
    use evenkeel_core::job::{Job, Work};
    use evenkeel_core::record::{Group, OpenShards};

    use super::*;

    fn set(text: &str) -> ShardSet {
        text.parse().expect("shards")
    }

    fn seen_of(schedule: &str, request: Option<Request>) -> Seen {
        let work = Work::Command(vec!["/bin/true".into()]);
        let mut job = Job::new("j".parse().expect("a name"), schedule, work);
        (job.placement, job.shards) = (Placement::Sharded, 4);
        let spec = Spec { off: set("3"), ..Spec::new(job, 1, Wall(0)) };
        Seen { spec, calendars: Some(Calendars::default()), sharding: Sharding::default(), request }
    }

    fn lane(groups: &[(i64, &str)], open: &[(&str, &str)]) -> ShardLane {
        let group =
            |(watermark, shards): &(i64, &str)| Group { watermark: Wall(*watermark), shards: set(shards) };
        let open = open.iter().map(|(fire, shards)| {
            let fire: FireId = fire.parse().expect("a fire");
            OpenShards {
                fire: fire.fire,
                due: Wall(0),
                from: Wall(0),
                back: Wall(0),
                attempt: 1,
                seq: 1,
                total: 4,
                shards: set(shards),
                wait: None,
                began: None,
            }
        });
        ShardLane { groups: groups.iter().map(group).collect(), open: open.collect(), ..ShardLane::default() }
    }

    fn open_of(seen: &Seen, fire: &str, lanes: &[ShardLane]) -> (String, String) {
        let found = sharded(seen, &fire.parse().expect("a fire"), lanes.iter());
        (found.shards.to_string(), found.wanted.to_string())
    }

    fn told(open: &str, wanted: &str) -> (String, String) {
        (open.to_owned(), wanted.to_owned())
    }

    #[test]
    fn a_fire_by_schedule_is_open_while_a_shard_has_not_come_to_it_or_has_not_ended() {
        let seen = seen_of("@every 1s", None);
        assert_eq!(open_of(&seen, "j:5000", &[]), told("0-2", "0-2"), "nobody has come to it");
        let lanes =
            [lane(&[(5_000, "0-1")], &[("j:5000", "1")]), lane(&[(4_000, "2-3")], &[("j:4000", "2")])];
        assert_eq!(open_of(&seen, "j:5000", &lanes), told("1-2", "0-2"));
        let lanes = [lane(&[(5_000, "0-1"), (6_000, "2-3")], &[("j:6000", "2")])];
        assert_eq!(open_of(&seen, "j:5000", &lanes), told("", "0-2"));
        assert_eq!(open_of(&seen, "j:5001", &lanes), told("", ""), "no such fire");
        let mut paused = seen_of("@every 1s", None);
        paused.spec.paused = true;
        assert_eq!(open_of(&paused, "j:9000", &lanes), told("", ""), "it does not come");
    }

    #[test]
    fn a_fire_by_hand_is_open_until_all_shards_have_answered_and_ended() {
        let request = |taken, shards: &str| {
            let fire: FireId = "j:ask-r".parse().expect("a fire");
            let Fire::Asked(id) = fire.fire else { panic!("it was asked for") };
            let former = std::collections::BTreeSet::new();
            Some(Request {
                id,
                at: Wall(7),
                taken,
                node: None,
                shards: set(shards),
                former,
                taken_back: None,
            })
        };
        assert_eq!(open_of(&seen_of("", request(false, "")), "j:ask-r", &[]), told("0-2", "0-2"));
        let lanes = [lane(&[(7, "0-1")], &[("j:ask-r", "1")]), lane(&[(7, "2-3")], &[])];
        assert_eq!(open_of(&seen_of("", request(false, "0-1")), "j:ask-r", &lanes), told("1-2", "0-2"));
        assert_eq!(open_of(&seen_of("", request(true, "0-3")), "j:ask-r", &lanes), told("1", "0-2"));
        assert_eq!(open_of(&seen_of("", request(true, "0-3")), "j:ask-r", &[]), told("", "0-2"));
        assert_eq!(open_of(&seen_of("", None), "j:ask-r", &lanes), told("1", "1"), "it is forgotten");
    }
}
