//! Explains why a run ran on its node, or has not run.

use evenkeel::{Handle, RunRecord};
use evenkeel_core::ids::{Fire, RunId, Token};
use evenkeel_core::job::Placement;

use super::context::{ExplainContext, gather};
use super::waiting::why as why_it_waits;
use super::{HistoryFaults, dispatched, job as explain_job};
use crate::zones;
use evenkeel_client::types::{ExplanationRow, moment};

/// The lower bits of a token count claims; those above count how often the registry may have gone back in time.
const SEQ_BITS: u32 = 48;

/// Explains a run by its attempts and by its job as it is now.
pub(crate) async fn run(
    handle: &Handle,
    run: &RunId,
    attempts: &[RunRecord],
    troubles: &HistoryFaults,
) -> Result<ExplanationRow, evenkeel::RunStateError> {
    let mut explanation = ExplanationRow::of(format!("run {run}"));
    let known = gather(handle, &run.job, troubles).await;
    why(run, known.as_ref(), &mut explanation);
    if let Some(known) = &known {
        explanation.fact("placement", known.job().placement.kind());
        explanation.fact("epoch", known.epoch);
        point_for_owner(handle, run, known, attempts, &mut explanation).await?;
    } else {
        explanation.point("job", "", format!("job {} is there no more", run.job));
    }
    for attempt in attempts {
        explanation.point("attempt", "firing", one(attempt));
    }
    explanation.fact("attempts", attempts.len());
    match attempts.last() {
        Some(last) => {
            let node = last.node.split('@').next().unwrap_or_default();
            explanation.fact("state", last.state.as_str());
            explanation.says = format!("{} on {node}", last.state.as_str().replace('_', " "));
        }
        None => {
            let waits = why_it_waits(handle, run, troubles).await;
            let now = explain_job(handle, &run.job, troubles).await?;
            let points = now.map(|explanation| explanation.points).unwrap_or_default();
            let points: Vec<_> = points.into_iter().filter(|point| point.about == "now").collect();
            // A report of this very run is preferred to reports of others.
            let named = format!("run {run} ");
            let now = points.iter().find(|point| point.says.contains(&named)).or(points.first());
            explanation.says = match &run.fire {
                Fire::Due(due) if *due > zones::now() => format!("it is not due before {}", moment(*due)),
                _ => match (&waits, now) {
                    (Some(waits), _) => format!("not yet: {waits}"),
                    (None, Some(now)) => format!("not yet: {}", now.says),
                    (None, None) => "it has not run".to_owned(),
                },
            };
            let rule = now.filter(|_| waits.is_none()).and_then(|now| now.rule.clone());
            let rule = rule.unwrap_or_else(|| "firing".to_owned());
            let says = explanation.says.clone();
            explanation.point("now", &rule, says);
        }
    }
    Ok(explanation)
}

/// The cause of the run: a fire or a request.
fn why(run: &RunId, known: Option<&ExplainContext>, explanation: &mut ExplanationRow) {
    let says = match (&run.fire, known) {
        (Fire::Asked(id), _) => format!("it was requested as a manual run, request {id}"),
        (Fire::Due(due), Some(known)) if known.schedules(*due) => {
            format!("{} is due by {}", moment(*due), known.schedule())
        }
        (Fire::Due(due), _) => format!("{} was due by the schedule of then", moment(*due)),
    };
    explanation.point("why", if matches!(run.fire, Fire::Asked(_)) { "" } else { "firing" }, says);
}

/// Which node or planner decided where it runs.
async fn point_for_owner(
    handle: &Handle,
    run: &RunId,
    known: &ExplainContext,
    attempts: &[RunRecord],
    explanation: &mut ExplanationRow,
) -> Result<(), evenkeel::RunStateError> {
    match known.job().placement.kind() {
        Placement::Claimed => {
            let now = known.owner.as_ref().map_or("no node".to_owned(), ToString::to_string);
            let text = format!("its job's holder runs it; that is {now} now, by place epoch {}", known.epoch);
            explanation.fact("holder", known.owner.as_ref().map(ToString::to_string));
            explanation.point("where", "claims", text);
        }
        Placement::Sharded | Placement::Broadcast => {
            let shard_map = known.sharding.as_ref().map(|sharding| &sharding.shard_map);
            let holder =
                shard_map.and_then(|shard_map| Some((shard_map.number, shard_map.holder(run.shard)?)));
            explanation.fact("reshard", shard_map.map(|shard_map| shard_map.number));
            let text = match holder {
                Some((number, holder)) => {
                    format!("shard {} is {holder}'s by the reshard of epoch {number}", run.shard)
                }
                None => format!("shard {} has no node now: no assignment has it", run.shard),
            };
            explanation.point("where", "sharding", text);
        }
        Placement::Dispatched => {
            let plan =
                handle.plans(std::slice::from_ref(&run.job)).await?.remove(&run.job).unwrap_or_default();
            let Some(planned) = plan.runs.iter().find(|planned| planned.fire == run.fire) else {
                if let Some(last) = attempts.last().filter(|last| !last.sent.is_empty()) {
                    explanation.point("where", "dispatch", &*last.sent);
                }
                return Ok(());
            };
            if let Some(planner) = &plan.planner {
                explanation.fact("planned_by", planner.member.to_string());
                explanation.fact("planned_in", planner.number);
                explanation.point("planner", "dispatch", dispatched::by(known, planner));
            }
            explanation.fact("free", planned.free());
            explanation.point("where", "dispatch", dispatched::why_there(known, &plan.runs, planned));
        }
    }
    Ok(())
}

fn one(attempt: &RunRecord) -> String {
    let RunRecord { attempt: number, node, state, reason, token, started, ended, .. } = attempt;
    let token = token.map(|Token(token)| {
        let (generation, seq) = (token >> SEQ_BITS, token & ((1 << SEQ_BITS) - 1));
        format!(", token {token} (generation {generation}, claim {seq})")
    });
    let from = started.map(|at| format!(" from {}", moment(at)));
    let to = ended.map(|at| format!(" to {}", moment(at)));
    let reason = if reason.is_empty() { String::new() } else { format!(": {reason}") };
    let parts = [from, to, token].map(Option::unwrap_or_default).concat();
    format!("{number} on {node}{parts}: {}{reason}", state.as_str().replace('_', " "))
}

impl ExplainContext {
    /// Whether the present schedule has this fire.
    fn schedules(&self, due: evenkeel_core::time::Wall) -> bool {
        let schedule = self.job().schedule_with_calendars(self.calendars.as_ref());
        schedule.is_some_and(|schedule| schedule.has(due))
    }
}
