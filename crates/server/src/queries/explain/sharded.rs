//! Explains why the shards of a job are on their nodes.

use std::collections::BTreeMap;

use evenkeel_core::ids::{Fire, Member, RunId, Shard, counted};
use evenkeel_core::record::{Attempt, ShardRunState, Sharding};
use evenkeel_core::shards::ShardSet;
use evenkeel_core::time::Wall;

use super::context::{ExplainContext, KnownLimit, WaitingRun, serialized};
use evenkeel_client::types::{ExplanationRow, moment};

pub(super) fn explain(
    known: &ExplainContext,
    run_states: &BTreeMap<Member, ShardRunState>,
    explanation: &mut ExplanationRow,
) {
    let sharding = known.sharding.clone().unwrap_or_default();
    leader(known, &sharding, explanation);
    explain_reshard(&sharding, known.spec.job.placement.is_broadcast(), explanation);
    if let Some(mark) = &sharding.reshard_pending {
        let why = serialized(&mark.why);
        explanation.fact("reshard_pending", &why);
        let since = moment(mark.since);
        let text =
            format!("since {since} ({why}): no fire is claimed until the leader has resharded the job");
        explanation.point("reshard_pending", "sharding", text);
    }
    for assignment in &sharding.shard_map.assignments {
        let own = assignment.groups.iter().fold(ShardSet::empty(), |all, group| all.or(&group.shards));
        let run_state = run_states.get(&assignment.holder);
        explanation.point(
            "assignment",
            "sharding",
            format!("{} has shards {own}{}", assignment.holder, shard_activity(known, run_state)),
        );
    }
    let off = &known.spec.off;
    if !off.is_empty() {
        explanation.fact("off", off);
        explanation.point("off", "", format!("shards {off} are switched off"));
    }
    let groups = run_states.values().flat_map(|run_state| &run_state.groups);
    let settled = groups.map(|group| group.watermark).min();
    known.explain_schedule(settled, explanation);
    let (rule, now) = now(known, &sharding, run_states, settled.unwrap_or(Wall::MIN));
    explanation.point("now", rule, &*now);
    let leader = sharding.leader.as_ref().map_or("no node", |leader| leader.node.as_str());
    explanation.says = format!("led by {leader}; {now}");
}

/// The maximum number of shards of one fire that are listed one by one.
const SHARDS_LISTED: usize = 20;

fn leader(known: &ExplainContext, sharding: &Sharding, explanation: &mut ExplanationRow) {
    explanation.fact("leader", sharding.leader.as_ref().map(ToString::to_string));
    let says = match &sharding.leader {
        Some(leader) if known.lives(leader) => format!("{leader} leads by place epoch {}", known.epoch),
        Some(leader) => format!("{leader} led and is gone: the first node that notices stands for it"),
        None => "no node: one that takes part will be elected".to_owned(),
    };
    explanation.point("leader", "election", says);
}

fn explain_reshard(sharding: &Sharding, broadcast: bool, explanation: &mut ExplanationRow) {
    let shard_map = &sharding.shard_map;
    explanation.fact("reshard", shard_map.number);
    if shard_map.number == 0 {
        return explanation.point(
            "reshard",
            "sharding",
            "the shards have no assignment yet: they get one before the first fire",
        );
    }
    let among: Vec<&str> = shard_map.among.iter().map(|member| member.node.as_str()).collect();
    let (total, way, number) = (shard_map.total, serialized(&shard_map.strategy), shard_map.number);
    let text = match broadcast {
        true => format!("epoch {number} gave one shard to each of {}", among.join(", ")),
        false => {
            let shards = counted(total as usize, "shard");
            format!("epoch {number} cut {shards} by {way} for {}", among.join(", "))
        }
    };
    explanation.point("reshard", "sharding", text);
    if !shard_map.draining.is_empty() {
        let text =
            format!("shards {} ran too long to be waited for and stayed where they run", shard_map.draining);
        explanation.point("draining", "sharding", text);
    }
}

/// What a member does with its shards.
fn shard_activity(known: &ExplainContext, run_state: Option<&ShardRunState>) -> String {
    let Some(run_state) = run_state.filter(|run_state| !run_state.open.is_empty()) else {
        return String::new();
    };
    let open = run_state.open.iter().map(|open| {
        let verb = match open.wait {
            Some(_) => "will try again",
            None if open.starts_at() <= known.now => "runs",
            None => "will run",
        };
        format!("{verb} {} of the fire of {}", open.shards, moment(open.due))
    });
    format!(": {}", open.collect::<Vec<_>>().join(", "))
}

/// The state of open shards whose nodes are online.
fn under_way(known: &ExplainContext, open: &[(&Member, &Attempt)]) -> (&'static str, String) {
    let (mut going, mut waiting, mut full) = (ShardSet::empty(), ShardSet::empty(), None);
    for (member, open) in open {
        for shard in open.shards.iter() {
            let run = RunId { job: known.job().name.clone(), fire: open.fire.clone(), shard };
            let wants = open.wait.is_none() && open.starts_at() <= known.now;
            let awaited = known.permit_of(&run, member).filter(|_| wants);
            full = full.or(awaited);
            if awaited.is_some() { &mut waiting } else { &mut going }.insert(shard);
        }
    }
    match full {
        None => ("firing", format!("shards {going} are under way")),
        Some(KnownLimit { limit, .. }) if going.is_empty() => {
            ("pools", format!("shards {waiting} wait for permits of {limit}"))
        }
        Some(KnownLimit { limit, .. }) => {
            ("pools", format!("shards {going} are under way, {waiting} wait for permits of {limit}"))
        }
    }
}

/// The waiting runs of the job: shards that wait for a permit each, requests and fires as a whole.
pub(super) fn waiting(
    known: &ExplainContext,
    run_states: &BTreeMap<Member, ShardRunState>,
) -> Vec<WaitingRun> {
    let mut waits = Vec::new();
    let open = run_states
        .iter()
        .flat_map(|(member, run_state)| run_state.open.iter().map(move |open| (member, open)));
    for (member, open) in open.filter(|(member, _)| known.lives(member)) {
        let wants = open.wait.is_none() && open.starts_at() <= known.now;
        for shard in open.shards.iter().filter(|_| wants).take(SHARDS_LISTED) {
            let run = RunId { job: known.job().name.clone(), fire: open.fire.clone(), shard };
            let Some(limit) = known.permit_of(&run, member) else { continue };
            let (fire, by, why) = (run.fire.clone(), Some(member.clone()), limit.awaited());
            waits.push(WaitingRun { fire, shard: Some(shard), due: open.due, by, why, killable: true });
        }
    }
    let obstacle = obstacle(known);
    let has_shards = known.job().placement.is_broadcast() || known.job().placement.shards() > 1;
    let shard = (!has_shards).then_some(Shard(0));
    waits.extend(known.requests(shard, || obstacle.clone().unwrap_or_else(|| SOON.to_owned())));
    let Some(why) = obstacle else { return waits };
    let settled =
        run_states.values().flat_map(|run_state| &run_state.groups).map(|group| group.watermark).min();
    let due = known.overdue(settled.unwrap_or(Wall::MIN), &[]).into_iter();
    let one =
        |due| WaitingRun { fire: Fire::Due(due), shard, due, by: None, why: why.clone(), killable: false };
    waits.extend(due.map(one));
    waits
}

/// The explanation of a request that nothing prevents.
const SOON: &str = "its nodes are about to claim their shards";

/// What prevents the next fire.
fn obstacle(known: &ExplainContext) -> Option<String> {
    let sharding = known.sharding.as_ref();
    let led =
        sharding.and_then(|sharding| sharding.leader.as_ref()).is_some_and(|leader| known.lives(leader));
    let shard_map =
        sharding.is_some_and(|sharding| sharding.reshard_pending.is_none() && sharding.shard_map.number > 0);
    let stuck = || {
        let assignments = sharding.into_iter().flat_map(|sharding| &sharding.shard_map.assignments);
        assignments.into_iter().find_map(|assignment| known.trouble(&assignment.holder.node))
    };
    known.no_node().or_else(|| match (led, shard_map) {
        (false, _) => Some("it waits for a leader: a node that takes part stands for it".to_owned()),
        (true, false) => Some("it waits for its shards to be assigned".to_owned()),
        (true, true) => stuck(),
    })
}

fn now(
    known: &ExplainContext,
    sharding: &Sharding,
    run_states: &BTreeMap<Member, ShardRunState>,
    settled: Wall,
) -> (&'static str, String) {
    let open: Vec<(&Member, &Attempt)> = run_states
        .iter()
        .flat_map(|(member, run_state)| run_state.open.iter().map(move |open| (member, open)))
        .collect();
    if let Some((dead, _)) = open.iter().find(|(member, _)| !known.lives(member)) {
        return ("failover", format!("{dead} is gone with shards open: others settle them"));
    }
    if !open.is_empty() {
        return under_way(known, &open);
    }
    if let Some(nowhere) = known.no_node() {
        return ("election", nowhere);
    }
    let asked = || known.requested_runs(|| obstacle(known).unwrap_or_else(|| SOON.to_owned()));
    if let Some(switched) = known.switched_off(asked) {
        return switched;
    }
    match known.not_due(settled) {
        Some(why) => ("firing", why),
        None if sharding.leader.is_none() => ("election", "it is due and waits for a leader".to_owned()),
        None if sharding.reshard_pending.is_some() || sharding.shard_map.number == 0 => {
            ("sharding", "it is due and waits for its shards to be assigned".to_owned())
        }
        None => ("firing", "it is due and about to be claimed".to_owned()),
    }
}
