//! Explains why the runs of a dispatched job go to their nodes.

use evenkeel_core::ids::{Fire, Member, RunId, Shard};
use evenkeel_core::record::{Attempt, Plan, Planner, PlannerKind};
use evenkeel_core::time::Wall;

use super::context::{ExplainContext, KnownLimit, WaitingRun};
use evenkeel_client::types::{ExplanationRow, moment};

/// The maximum number of planned runs that are listed one by one.
const RUNS_LISTED: usize = 10;

pub(super) fn explain(known: &ExplainContext, plan: Option<&Plan>, explanation: &mut ExplanationRow) {
    let planner = planner(known);
    explanation.fact("planner", known.settings.planner);
    explanation.point("planner", planner.rule, &*planner.text);
    let runs = plan.map_or(&[][..], |plan| &plan.runs);
    if let Some(last) = plan.and_then(|plan| plan.planner.as_ref()) {
        explanation.fact("planned_by", last.member.to_string());
        explanation.fact("planned_in", last.number);
        explanation.point("planned", "dispatch", format!("last by {}", by(known, last)));
    }
    for run in runs.iter().take(RUNS_LISTED) {
        explanation.point("run", "dispatch", why_there(known, runs, run));
    }
    if runs.len() > RUNS_LISTED {
        explanation.point("run", "dispatch", format!("and {} more are planned", runs.len() - RUNS_LISTED));
    }
    explanation.fact("runs", runs.len());
    known.explain_schedule(plan.map(|plan| plan.watermark), explanation);
    let (rule, now) = now(known, plan, &planner);
    explanation.point("now", rule, &*now);
    explanation.says = format!("dispatched run by run; {now}");
}

/// What is known of the present planner.
struct PresentPlanner {
    /// The rule that says who plans.
    rule: &'static str,
    /// A sentence about the planner.
    text: String,
    /// Whether a node plans.
    plans: bool,
}

fn planner(known: &ExplainContext) -> PresentPlanner {
    let settings = &known.settings;
    let (rule, text, plans) = match settings.planner {
        PlannerKind::Beat => match &known.beat {
            Some(beat) => {
                let (number, since) = (beat.beat, moment(settings.start_of(beat.beat)));
                let lives =
                    if known.lives(&beat.holder) { "" } else { ", and is gone: another takes it over" };
                ("beat", format!("{} took beat {number}, which began at {since}{lives}", beat.holder), true)
            }
            None => ("beat", "no node yet: the first node that takes a beat plans".to_owned(), false),
        },
        PlannerKind::Leader => {
            let serving = known.serving.as_ref();
            let leader = serving.and_then(|serving| Some((serving, serving.leader.as_ref()?)));
            match leader.filter(|(_, leader)| known.lives(leader)) {
                Some((serving, leader)) if serving.serves => {
                    ("promotion", format!("{leader} serves by epoch {}", serving.epoch), true)
                }
                Some((serving, leader)) => {
                    let text = format!(
                        "{leader} has won epoch {} and serves once no earlier leader can act",
                        serving.epoch
                    );
                    ("promotion", text, false)
                }
                None => (
                    "promotion",
                    "no node leads: the first node that notices takes the lead".to_owned(),
                    false,
                ),
            }
        }
    };
    PresentPlanner { rule, text, plans }
}

/// The authority by which a plan was made.
pub(super) fn by(known: &ExplainContext, planner: &Planner) -> String {
    let right = match known.settings.planner {
        PlannerKind::Beat => "in beat",
        PlannerKind::Leader => "by epoch",
    };
    format!("{} {right} {}", planner.member, planner.number)
}

fn id_of(known: &ExplainContext, run: &Attempt) -> RunId {
    RunId { job: known.job().name.clone(), fire: run.fire.clone(), shard: Shard(0) }
}

/// Why a run is on its node.
pub(super) fn why_there(known: &ExplainContext, runs: &[Attempt], run: &Attempt) -> String {
    let id = id_of(known, run);
    let state = match run.from {
        Some(from) if from <= known.now && known.permit_of(&id, &run.by).is_some() => {
            "accepted, and waits for a permit"
        }
        Some(from) if from <= known.now => "under way",
        Some(_) => "accepted",
        None if run.wait.is_some() => "failed, waits for its next attempt",
        None if run.due <= known.now => {
            return format!("{id} is due; {}; {}", untaken(known, runs, run), run.why_chosen());
        }
        None => "planned",
    };
    format!("{id} is {state}: {}", run.why_chosen())
}

/// Why no further run begins beside the running ones.
fn before(known: &ExplainContext, runs: &[Attempt]) -> Option<String> {
    let mut begun =
        runs.iter().filter(|run| run.wait.is_some() || run.from.is_some_and(|from| from <= known.now));
    let room = known.job().overlap.max_concurrent_runs();
    let first = begun.next().filter(|_| 1 + begun.count() >= room)?;
    Some(format!("it waits for the end of run {}", id_of(known, first)))
}

/// Why a due run has not been claimed by its node.
fn untaken(known: &ExplainContext, runs: &[Attempt], run: &Attempt) -> String {
    let node = &run.by.node;
    let full = || match known.slots(node) {
        Some((busy, all)) if busy >= all => {
            Some(format!("{node} has no free slot: {busy} of {all} are busy"))
        }
        _ => None,
    };
    let why = before(known, runs).or_else(|| known.trouble(node)).or_else(full);
    why.unwrap_or_else(|| format!("{node} is about to take it"))
}

/// The waiting runs of the job.
pub(super) fn waiting(known: &ExplainContext, plan: Option<&Plan>) -> Vec<WaitingRun> {
    let runs = plan.map_or(&[][..], |plan| &plan.runs);
    let one = |fire: Fire, due, by: Option<Member>, why| {
        let killable = by.is_some();
        WaitingRun { fire, shard: Some(Shard(0)), due, by, why, killable }
    };
    let planned = runs.iter().filter(|run| run.wait.is_none()).filter_map(|run| {
        let why = match run.from {
            Some(from) if from <= known.now => known.permit_of(&id_of(known, run), &run.by)?.awaited(),
            None if run.due <= known.now => untaken(known, runs, run),
            _ => return None,
        };
        Some(one(run.fire.clone(), run.due, Some(run.by.clone()), why))
    });
    let mut waits: Vec<WaitingRun> = planned.collect();
    let obstacle = obstacle(known, runs, &planner(known));
    let asked = known.requests(Some(Shard(0)), || obstacle.clone().unwrap_or_else(|| SOON.to_owned()));
    // The plan may be read later than the request arrived, and have its run.
    waits.extend(asked.into_iter().filter(|asked| runs.iter().all(|run| run.fire != asked.fire)));
    let Some(why) = obstacle else { return waits };
    let (settled, passed) = plan.map_or((Wall::MIN, &[][..]), |plan| (plan.watermark, &plan.passed[..]));
    let due = known.overdue(settled, passed).into_iter();
    waits.extend(due.map(|due| one(Fire::Due(due), due, None, why.clone())));
    waits
}

/// The explanation of a request that nothing prevents.
const SOON: &str = "it is about to be planned";

/// What prevents the planning of the next run.
fn obstacle(known: &ExplainContext, runs: &[Attempt], planner: &PresentPlanner) -> Option<String> {
    let no_planner = || (!planner.plans).then(|| format!("no node plans: {}", planner.text));
    known.no_node().or_else(|| before(known, runs)).or_else(no_planner)
}

fn now(known: &ExplainContext, plan: Option<&Plan>, planner: &PresentPlanner) -> (&'static str, String) {
    let runs = plan.map_or(&[][..], |plan| &plan.runs);
    let awaited = |run: &Attempt| known.permit_of(&id_of(known, run), &run.by);
    let begun = |run: &&Attempt| run.from.is_some_and(|from| from <= known.now) && awaited(run).is_none();
    let (going, ahead) = (runs.iter().filter(begun).count(), runs.len());
    if going > 0 {
        let (s, are) = if going == 1 { ("", "is") } else { ("s", "are") };
        return ("firing", format!("{going} run{s} {are} under way"));
    }
    if let Some(KnownLimit { limit, .. }) = runs.iter().filter(|run| run.is_claimed()).find_map(awaited) {
        let text = format!("none has begun: a node that has accepted one waits for a permit of {limit}");
        return ("pools", text);
    }
    if ahead > 0 {
        let (s, are) = if ahead == 1 { ("", "is") } else { ("s", "are") };
        return ("dispatch", format!("{ahead} run{s} {are} planned, none has begun"));
    }
    if let Some(nowhere) = known.no_node() {
        return ("dispatch", nowhere);
    }
    let asked = || known.requested_runs(|| obstacle(known, runs, planner).unwrap_or_else(|| SOON.to_owned()));
    if let Some(switched) = known.switched_off(asked) {
        return switched;
    }
    let settled = plan.map_or(Wall::MIN, |plan| plan.watermark);
    match known.not_due(settled) {
        Some(why) => ("firing", why),
        None if planner.plans => ("dispatch", "it is due and about to be planned".to_owned()),
        None => ("dispatch", "it is due, and no node plans: see `planner`".to_owned()),
    }
}
