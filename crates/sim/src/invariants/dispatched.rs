//! Checks dispatched jobs at rest: there is a planner, every plan is carried out, and nothing waits.

use evenkeel_core::effect::VerdictState;
use evenkeel_core::ids::{JobName, Operation, Shard};
use evenkeel_core::keys;
use evenkeel_core::record::{BeatRecord, ClusterSettings, PlannerKind, ServingRecord, decode};
use evenkeel_core::registry::Value;
use evenkeel_core::time::{Millis, Wall};
use evenkeel_core::view::DISPATCH;

use super::quiet_facts::{CLOSING, PROMPT, QuietCluster};
use super::{Invariant, InvariantResults, JobTrack};
use crate::world::SimWorld;
use crate::world::clock::START;

/// How long after the beginning of a beat a node has taken it, in milliseconds.
const TAKEN: i64 = 2_000;

/// Checks that there is a planner: of this beat, or the leader.
pub(super) fn planner(rest: &QuietCluster<'_>, world: &SimWorld, findings: &mut InvariantResults) {
    let at = rest.at;
    let value = |key| -> Option<Value> { world.entry(&key) };
    let settings: ClusterSettings = value(keys::settings()).and_then(|v| decode(&v)).unwrap_or_default();
    let serving: ServingRecord = value(keys::serving()).and_then(|v| decode(&v)).unwrap_or_default();
    if settings.planner == PlannerKind::Leader {
        let serves = serving.serves && serving.leader.as_ref().is_some_and(|l| rest.members.contains(l));
        return findings.test(at, Invariant::I53, serves, || format!("no node serves: {serving:?}"));
    }
    let given_back = serving.leader.as_ref().is_none_or(|leader| !rest.members.contains(leader));
    findings.test(at, Invariant::I53, given_back, || {
        format!("beats plan, and the lead was not given back: {serving:?}")
    });
    let Ok(operation) = DISPATCH.parse::<Operation>() else { return };
    let record: Option<BeatRecord> = value(keys::beat(&operation)).and_then(|v| decode(&v));
    let now = settings.beat_of(Wall(START.0 + at - TAKEN));
    let taken = record.as_ref().is_some_and(|r| r.beat >= now && rest.members.contains(&r.holder));
    findings.test(at, Invariant::I53, taken, || format!("no node plans in beat {now}: {record:?}"));
}

/// Checks the plan of a job at rest.
pub(super) fn look(
    rest: &QuietCluster<'_>,
    name: &JobName,
    book: &JobTrack,
    findings: &mut InvariantResults,
) {
    let at = rest.at;
    let now = Wall(START.0 + at);
    let Some(plan) = &book.plan else {
        // Without any due fire there is nothing to plan.
        return;
    };
    let longest = rest.longest();
    let somebody = rest.fits_somebody(book);
    for run in plan.runs.iter().filter(|_| somebody) {
        let since = run.from.unwrap_or(run.due);
        // Each waits for the one before it, and, if slots are short, for those of other jobs.
        let queue =
            if rest.workload.roomy { 6 } else { 2 * i64::try_from(rest.workload.jobs.len()).unwrap_or(1) };
        let wait = if run.is_claimed() { 1 } else { queue };
        let old = since + Millis(wait * (longest + CLOSING)) < now
            && !rest.waits_for_permit((name, book), (&run.fire, Shard(0)), &run.by.node);
        findings.test(at, Invariant::I53, !old, || format!("{name}: {run:?} waits since long"));
        findings.test(at, Invariant::I42, rest.members.contains(&run.by), || {
            format!("{name}: {run:?} is planned for somebody who is gone")
        });
    }
    for verdict in plan.verdicts.iter().filter(|v| v.state == VerdictState::Lost) {
        let known = rest.verdicts.contains_key(&(verdict.run.clone(), verdict.attempt));
        findings.test(at, Invariant::I53, known, || format!("history never got {verdict:?}"));
    }
    let (Some(spec), Some(schedule)) = (&book.spec, &book.schedule) else { return };
    if !book.fires_by_schedule() || !somebody {
        return;
    }
    let floor = spec.since.max(Wall(START.0 + book.changed));
    if let Some(due) = schedule.latest(floor, now - Millis(PROMPT)) {
        findings.test(at, Invariant::I16, plan.watermark >= due, || {
            format!("the fire of {name} due at {due} was never planned: the watermark is {}", plan.watermark)
        });
    }
}
