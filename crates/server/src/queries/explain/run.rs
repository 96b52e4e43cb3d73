//! Explains why a run ran on its node, or has not run.

use evenkeel::{Handle, RunRecord};
use evenkeel_core::ids::{Fire, RunId, Token};
use evenkeel_core::job::Placement;

use super::context::{ExplainContext, gather};
use super::waiting::why as why_it_waits;
use super::{HistoryFaults, dispatched, job as explain_job};
use crate::api_types::{ExplanationRow, moment};
use crate::zones;

/// The lower bits of a token count claims; those above count how often the registry may have gone back in time.
const SEQ_BITS: u32 = 48;

/// Explains a run by its attempts and by its job as it is now.
pub(crate) async fn run(
    handle: &Handle,
    run: &RunId,
    attempts: &[RunRecord],
    troubles: &HistoryFaults,
) -> Result<ExplanationRow, evenkeel::RunStateError> {
    let mut told = ExplanationRow::of(format!("run {run}"));
    let known = gather(handle, &run.job, troubles);
    why(run, known.as_ref(), &mut told);
    if let Some(known) = &known {
        told.fact("placement", known.job().placement);
        told.fact("epoch", known.epoch);
        point_for_owner(handle, run, known, attempts, &mut told).await?;
    } else {
        told.point("job", "", format!("job {} is there no more", run.job));
    }
    for attempt in attempts {
        told.point("attempt", "firing", one(attempt));
    }
    told.fact("attempts", attempts.len());
    match attempts.last() {
        Some(last) => {
            let node = last.node.split('@').next().unwrap_or_default();
            told.fact("state", last.state.as_str());
            told.says = format!("{} on {node}", last.state.as_str().replace('_', " "));
        }
        None => {
            let waits = why_it_waits(handle, run, troubles).await;
            let now = explain_job(handle, &run.job, troubles).await?;
            let points = now.map(|told| told.points).unwrap_or_default();
            let points: Vec<_> = points.into_iter().filter(|point| point.about == "now").collect();
            // A report of this very run is preferred to reports of others.
            let named = format!("run {run} ");
            let now = points.iter().find(|point| point.says.contains(&named)).or(points.first());
            told.says = match &run.fire {
                Fire::Due(due) if *due > zones::now() => format!("it is not due before {}", moment(*due)),
                _ => match (&waits, now) {
                    (Some(waits), _) => format!("not yet: {waits}"),
                    (None, Some(now)) => format!("not yet: {}", now.says),
                    (None, None) => "it has not run".to_owned(),
                },
            };
            let rule = now.filter(|_| waits.is_none()).and_then(|now| now.rule.clone());
            let rule = rule.unwrap_or_else(|| "firing".to_owned());
            let says = told.says.clone();
            told.point("now", &rule, says);
        }
    }
    Ok(told)
}

/// The cause of the run: a fire or a request.
fn why(run: &RunId, known: Option<&ExplainContext>, told: &mut ExplanationRow) {
    let says = match (&run.fire, known) {
        (Fire::Asked(id), _) => format!("somebody asked for it by hand, as request {id}"),
        (Fire::Due(due), Some(known)) if known.schedules(*due) => {
            format!("{} is due by {}", moment(*due), known.schedule())
        }
        (Fire::Due(due), _) => format!("{} was due by the schedule of then", moment(*due)),
    };
    told.point("why", if matches!(run.fire, Fire::Asked(_)) { "" } else { "firing" }, says);
}

/// Which node or planner decided where it runs.
async fn point_for_owner(
    handle: &Handle,
    run: &RunId,
    known: &ExplainContext,
    attempts: &[RunRecord],
    told: &mut ExplanationRow,
) -> Result<(), evenkeel::RunStateError> {
    match known.job().placement {
        Placement::Claimed => {
            let now = known.owner.as_ref().map_or("nobody".to_owned(), ToString::to_string);
            let text = format!("its job's holder runs it; that is {now} now, by place epoch {}", known.epoch);
            told.fact("holder", known.owner.as_ref().map(ToString::to_string));
            told.point("where", "claims", text);
        }
        Placement::Sharded | Placement::Broadcast => {
            let cut = known.sharding.as_ref().map(|sharding| &sharding.shard_map);
            let holder = cut.and_then(|cut| Some((cut.number, cut.holder(run.shard)?)));
            told.fact("reshard", cut.map(|cut| cut.number));
            let text = match holder {
                Some((number, holder)) => {
                    format!("shard {} is {holder}'s by the cut of epoch {number}", run.shard)
                }
                None => format!("shard {} is nobody's just now: there is no cut that has it", run.shard),
            };
            told.point("where", "sharding", text);
        }
        Placement::Dispatched => {
            let plan =
                handle.plans(std::slice::from_ref(&run.job)).await?.remove(&run.job).unwrap_or_default();
            let Some(planned) = plan.runs.iter().find(|planned| planned.fire == run.fire) else {
                if let Some(last) = attempts.last().filter(|last| !last.sent.is_empty()) {
                    told.point("where", "dispatch", &*last.sent);
                }
                return Ok(());
            };
            if let Some(planner) = &plan.planner {
                told.fact("planned_by", planner.member.to_string());
                told.fact("planned_in", planner.number);
                told.point("planner", "dispatch", dispatched::by(known, planner));
            }
            told.fact("free", planned.free());
            told.point("where", "dispatch", dispatched::why_there(known, &plan.runs, planned));
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
