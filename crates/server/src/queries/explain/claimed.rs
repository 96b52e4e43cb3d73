//! Explains why a claimed job is on its node, and why it runs or does not run.

use evenkeel_core::ids::{Fire, Member, RunId, Shard};
use evenkeel_core::record::{Attempt, RunState};
use evenkeel_core::time::{Millis, Wall};

use super::context::{ExplainContext, KnownLimit, WaitingRun};
use evenkeel_client::types::{ExplanationRow, moment};

pub(super) fn explain(
    known: &ExplainContext,
    run_state: Option<&RunState>,
    explanation: &mut ExplanationRow,
) {
    holder(known, explanation);
    known.explain_schedule(run_state.map(|run_state| run_state.watermark), explanation);
    let points = now(known, run_state);
    let now = points.iter().map(|(_, says)| &**says).collect::<Vec<_>>().join("; ");
    explanation.says = match &known.owner {
        Some(owner) => format!("held by {}; {now}", owner.node),
        None => format!("held by no node; {now}"),
    };
    for (rule, says) in points {
        explanation.point("now", rule, says);
    }
}

fn holder(known: &ExplainContext, explanation: &mut ExplanationRow) {
    let capacity = known.capacity();
    explanation.fact("jobs", known.jobs);
    explanation.fact("nodes", capacity.nodes);
    explanation.fact("holder", known.owner.as_ref().map(ToString::to_string));
    let Some(owner) = &known.owner else {
        return explanation.point("holder", "claims", format!("no node, place epoch {}", known.epoch));
    };
    explanation.point("holder", "claims", format!("{owner} has it by place epoch {}", known.epoch));
    let standing = known.standings.iter().find(|standing| standing.name == owner.node);
    let share = capacity.quotas.iter().find(|share| share.name == owner.node);
    if let (Some(standing), Some(share)) = (standing, share) {
        explanation.fact("held", share.held);
        explanation.fact("quota", share.quota);
        let (jobs, nodes, n) = (known.jobs, capacity.nodes, standing.tolerance);
        let text = format!(
            "{} holds {} of at most {} = 1 + {jobs} / max({nodes} − {n}, 1)",
            owner.node, share.held, share.quota
        );
        explanation.point("quota", "claims", text);
    }
}

/// The state of an open fire now, and the rule behind it.
fn going_on(known: &ExplainContext, open: &Attempt) -> (&'static str, String) {
    let run = RunId { job: known.job().name.clone(), fire: open.fire.clone(), shard: Shard(0) };
    let (by, attempt) = (&open.by, open.attempt);
    if let Some(wait) = open.wait {
        if wait.length == Millis::ZERO {
            return ("firing", format!("run {run} waits for a node that fits"));
        }
        let until = moment(wait.until);
        return ("firing", format!("run {run} failed, and its attempt {attempt} follows from {until} on"));
    }
    match open.starts_at() <= known.now {
        _ if !known.lives(by) => ("claims", taken_over(by)),
        true if let Some(KnownLimit { limit, .. }) = known.permit_of(&run, by) => {
            ("pools", format!("run {run} is claimed by {} and waits for a permit of {limit}", by.node))
        }
        true => ("firing", format!("run {run} is under way on {}, attempt {attempt}", by.node)),
        false => (
            "firing",
            format!("run {run} is claimed ahead by {} and starts at {}", by.node, moment(open.starts_at())),
        ),
    }
}

/// The state of the job now, and the rule behind it; run by run if any is open.
fn now(known: &ExplainContext, run_state: Option<&RunState>) -> Vec<(&'static str, String)> {
    let open: Vec<_> =
        run_state.iter().flat_map(|run_state| &run_state.open).map(|open| going_on(known, open)).collect();
    if open.is_empty() { vec![idle(known, run_state)] } else { open }
}

/// Why it has no open run.
fn idle(known: &ExplainContext, run_state: Option<&RunState>) -> (&'static str, String) {
    let settled = run_state.map_or(Wall::MIN, |run_state| run_state.watermark);
    let asked = || known.requested_runs(|| obstacle(known, run_state).unwrap_or_else(|| SOON.to_owned()));
    let why = unheld(known).or_else(|| known.switched_off(asked));
    why.or_else(|| Some(("firing", known.not_due(settled)?))).unwrap_or_else(|| match full(known) {
        Some(full) => ("firing", format!("it is due, but {full}")),
        None => ("firing", "it is due and about to be claimed".to_owned()),
    })
}

/// Why no node owns it, or its owner gives it up.
fn unheld(known: &ExplainContext) -> Option<(&'static str, String)> {
    match &known.owner {
        None if known.job().enabled => Some(("claims", known.no_node().unwrap_or_else(|| free(known)))),
        Some(owner) if !known.lives(owner) => Some(("claims", taken_over(owner))),
        Some(owner) if known.drains(&owner.node) && known.job().enabled => {
            Some(("drain", format!("{} drains and gives it up", owner.node)))
        }
        _ => None,
    }
}

/// The explanation of a request that nothing prevents.
const SOON: &str = "its node is about to claim it";

/// What prevents the next run.
fn obstacle(known: &ExplainContext, run_state: Option<&RunState>) -> Option<String> {
    let open = run_state.map_or(&[][..], |run_state| &run_state.open);
    let before = open.first().filter(|_| open.len() >= known.job().overlap.max_concurrent_runs());
    let before = before.map(|open| format!("it waits for the end of run {}", id(known, open)));
    before.or_else(|| unheld(known).map(|(_, why)| why)).or_else(|| full(known))
}

fn id(known: &ExplainContext, open: &Attempt) -> RunId {
    RunId { job: known.job().name.clone(), fire: open.fire.clone(), shard: Shard(0) }
}

/// The reason if its node starts nothing, or has no free slot.
fn full(known: &ExplainContext) -> Option<String> {
    let owner = known.owner.as_ref()?;
    if let Some(trouble) = known.trouble(&owner.node) {
        return Some(trouble);
    }
    let (busy, all) = known.slots(&owner.node).filter(|(busy, all)| busy >= all)?;
    Some(format!("{} has no free slot: {busy} of {all} are busy", owner.node))
}

/// The waiting runs of the job.
pub(super) fn waiting(known: &ExplainContext, run_state: Option<&RunState>) -> Vec<WaitingRun> {
    let open = run_state.map_or(&[][..], |run_state| &run_state.open);
    let one = |fire: Fire, due, by, (why, killable)| WaitingRun {
        fire,
        shard: Some(Shard(0)),
        due,
        by,
        why,
        killable,
    };
    let without_permit = open
        .iter()
        .filter(|open| open.wait.is_none() && open.starts_at() <= known.now && known.lives(&open.by));
    let without_permit = without_permit.filter_map(|open| {
        let awaited = known.permit_of(&id(known, open), &open.by)?.awaited();
        Some(one(open.fire.clone(), open.due, Some(open.by.clone()), (awaited, true)))
    });
    let mut waits: Vec<WaitingRun> = without_permit.collect();
    let obstacle = obstacle(known, run_state);
    let asked = known.requests(Some(Shard(0)), || obstacle.clone().unwrap_or_else(|| SOON.to_owned()));
    // The run state may be read later than the request arrived, and have its run.
    waits.extend(asked.into_iter().filter(|asked| open.iter().all(|open| open.fire != asked.fire)));
    // A due fire that nothing prevents is claimed in a moment.
    let Some(why) = obstacle else { return waits };
    let settled = run_state.map_or(Wall::MIN, |run_state| run_state.watermark);
    let passed = run_state.map_or(&[][..], |run_state| &run_state.passed);
    waits.extend(
        known
            .overdue(settled, passed)
            .into_iter()
            .map(|due| one(Fire::Due(due), due, known.owner.clone(), (why.clone(), false))),
    );
    waits
}

fn taken_over(gone: &Member) -> String {
    format!("{gone} is gone: another node takes it over and settles what ran")
}

/// Why no node owns it.
fn free(known: &ExplainContext) -> String {
    let capacity = known.capacity();
    let fix = "start a node or undrain one";
    let full = capacity.quotas.iter().filter(|share| share.works).all(|share| share.held >= share.quota);
    match full {
        true if capacity.working() == 1 => {
            format!("the only node that works holds as many jobs as it may: {fix}")
        }
        true => format!("the {} nodes that work hold as many jobs as they may: {fix}", capacity.working()),
        false => "it is free, and nodes with room claim it".to_owned(),
    }
}
