//! Explains a job or a run: which node or person decided, by which rule, on which facts and epoch.
//!
//! An explanation uses the data that the rules themselves use, read at one moment; nothing is stored for explanations.

mod absent;
mod claimed;
mod context;
mod dispatched;
mod run;
mod sharded;
#[cfg(test)]
mod tests;
mod waiting;

use evenkeel::{Handle, RunStateError};
use evenkeel_core::capacity::Capacity;
use evenkeel_core::ids::{CalendarName, JobName, Member, NodeName, RunId};
use evenkeel_core::job::{Job, Placement};
use evenkeel_core::run_limit::RunLimit;
use evenkeel_core::time::Wall;

pub(crate) use super::lookup::HistoryFaults;
use context::{ExplainContext, KnownLimit, REPORTED_MAX, gather};
use evenkeel_client::types::{ExplanationRow, moment, zone};
pub(crate) use run::run;
pub(crate) use waiting::{JOBS_MAX, WaitingRuns, in_the_way, shadow_warning, waiting, why};

/// Explains a job; `None` if there is no job of this name.
pub(crate) async fn job(
    handle: &Handle,
    name: &JobName,
    troubles: &HistoryFaults,
) -> Result<Option<ExplanationRow>, RunStateError> {
    let Some(known) = gather(handle, name, troubles).await else { return Ok(None) };
    let mut explanation = ExplanationRow::of(format!("job {name}"));
    let job = known.job();
    explanation.fact("placement", job.placement.kind());
    explanation.fact("version", known.spec.version);
    explanation.fact("epoch", known.epoch);
    explanation.fact("enabled", job.enabled);
    explanation.fact("paused", known.spec.paused);
    if job.shadow {
        explanation.fact("shadow", true);
        explanation.point("shadow", "control", "it is a shadow: its runs are recorded and execute nothing");
    }
    known.explain_nodes(&mut explanation);
    known.explain_limits(&mut explanation);
    known.explain_troubles(&mut explanation);
    absent::explain(handle, &known, &mut explanation).await;
    let waits = match job.placement.kind() {
        Placement::Claimed => {
            let run_state = handle.claimed_run_states(std::slice::from_ref(name)).await?.remove(name);
            claimed::explain(&known, run_state.as_ref(), &mut explanation);
            claimed::waiting(&known, run_state.as_ref())
        }
        Placement::Sharded | Placement::Broadcast => {
            let run_states = handle.shard_run_states(name).await?;
            sharded::explain(&known, &run_states, &mut explanation);
            sharded::waiting(&known, &run_states)
        }
        Placement::Dispatched => {
            let plan = handle.plans(std::slice::from_ref(name)).await?.remove(name);
            dispatched::explain(&known, plan.as_ref(), &mut explanation);
            dispatched::waiting(&known, plan.as_ref())
        }
    };
    waiting::explain_requests(&waits, &mut explanation);
    Ok(Some(explanation))
}

impl ExplainContext {
    fn job(&self) -> &Job {
        &self.spec.job
    }

    fn lives(&self, member: &Member) -> bool {
        self.members.contains(member)
    }

    fn drains(&self, node: &NodeName) -> bool {
        self.standings.iter().any(|standing| standing.name == *node && standing.drained)
    }

    fn capacity(&self) -> Capacity {
        Capacity::of(self.jobs, &self.standings)
    }

    /// The busy slots and all slots of a node, if known here.
    fn slots(&self, node: &NodeName) -> Option<(u32, u32)> {
        if *node == self.me.0 {
            let all = self.slots.get(node.as_str()).copied()?;
            return Some((all.saturating_sub(u32::try_from(self.me.1).unwrap_or(all)), all));
        }
        self.loads.get(node).map(|load| (load.busy, load.slots))
    }

    /// Explains which nodes are eligible, if not all are.
    fn explain_nodes(&self, explanation: &mut ExplanationRow) {
        let nodes = &self.job().node_selector;
        if nodes.is_everywhere() {
            return;
        }
        explanation.fact("nodes_named", nodes);
        let fit: Vec<&str> = self.standings.iter().map(|standing| standing.name.as_str()).collect();
        let text = match fit.as_slice() {
            [] => format!("it is for nodes with {nodes}, and none that lives is"),
            fit => format!("it is for nodes with {nodes}: {} fit", fit.join(", ")),
        };
        explanation.point("nodes", "", text);
    }

    /// Explains which runs have permits, by each limit that its runs count in.
    fn explain_limits(&self, explanation: &mut ExplanationRow) {
        for KnownLimit { limit, most, permits } in &self.limits {
            let runs = permits.iter().map(|permit| &permit.run).collect::<Vec<_>>();
            let about = match limit {
                RunLimit::Pool(name) => {
                    explanation.fact("pool", name);
                    explanation.fact("pool_at_most", most);
                    explanation.fact("pool_runs", runs);
                    "pool"
                }
                RunLimit::Namespace(_) => {
                    explanation.fact("namespace_runs_max", most);
                    explanation.fact("namespace_runs", runs);
                    "namespace"
                }
            };
            let first = permits.iter().take(REPORTED_MAX);
            let first = first.map(|permit| format!("{} on {}", permit.run, permit.by.node));
            let first = first.collect::<Vec<_>>().join(", ");
            let taken = permits.len();
            let more = taken.saturating_sub(REPORTED_MAX);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let text = match taken {
                0 => format!("none of the {most} runs that may go on at once in {limit} does"),
                _ if taken >= *most => {
                    format!("{limit} is full, so a run waits until one of these {taken} ends: {first}{more}")
                }
                _ => {
                    format!("{taken} of the {most} runs that may go on at once in {limit} do: {first}{more}")
                }
            };
            explanation.point(about, "pools", text);
        }
    }

    /// The first limit of which a run of a node waits for a permit, if it does.
    fn permit_of(&self, run: &RunId, by: &Member) -> Option<&KnownLimit> {
        let has =
            |known: &KnownLimit| known.permits.iter().any(|permit| permit.run == *run && permit.by == *by);
        self.limits.iter().find(|known| !has(known))
    }

    /// Explains which eligible nodes' histories take no entries.
    fn explain_troubles(&self, explanation: &mut ExplanationRow) {
        let fits = self.standings.iter().filter_map(|standing| self.trouble(&standing.name));
        fits.for_each(|text| explanation.point("history", "", text));
    }

    /// Why a node starts nothing, if its history takes no entries.
    fn trouble(&self, node: &NodeName) -> Option<String> {
        self.troubles.get(node).map(|why| format!("node {node} starts nothing: {why}"))
    }

    /// Why no node starts anything of it, if it is enabled.
    fn no_node(&self) -> Option<String> {
        let working = || self.standings.iter().filter(|standing| !standing.drained);
        let stuck = || {
            let all = working().all(|standing| self.troubles.contains_key(&standing.name));
            working().next().filter(|_| all).and_then(|first| self.trouble(&first.name))
        };
        let enabled = self.job().enabled;
        self.in_the_way.clone().or_else(stuck).filter(|_| enabled)
    }

    /// The schedule in words.
    fn schedule(&self) -> String {
        let names: Vec<_> = self.job().calendars().map(CalendarName::as_str).collect();
        let under = if names.is_empty() { String::new() } else { format!(" under {}", names.join(", ")) };
        format!("{} in {}{under}", self.job().rules(), zone(self.job().timezone()))
    }

    /// Why its next fire is unknown.
    fn without(&self) -> Option<String> {
        let calendar = self.missing.as_ref()?;
        Some(format!(
            "there is no calendar {calendar}, so it is not known when it is due: declare it with `evenkeel calendar apply`, \
             or take it out of the job"
        ))
    }

    /// The first fire after all closed ones, whether it is due already or not.
    fn next(&self, settled: Wall) -> Option<Wall> {
        let schedule = self.job().schedule_with_calendars(self.calendars.as_ref())?;
        let floor = settled.max(self.spec.since);
        schedule.counted_from(floor).next(floor)
    }

    /// The reason if switches alone keep it from running: the most common one first. A request waits for the given one.
    fn switched_off(&self, why: impl FnOnce() -> String) -> Option<(&'static str, String)> {
        let name = &self.job().name;
        if !self.job().enabled {
            return self.in_the_way.clone().map(|why| ("control", why));
        }
        if let Some(request) = self.waiting.first() {
            return Some(("firing", waiting::request(&request.id, request.at, &why())));
        }
        self.spec.paused.then(|| {
            (
                "control",
                format!("it is paused and has only manual runs: resume it with `evenkeel job resume {name}`"),
            )
        })
    }

    /// The reason if the schedule alone keeps it from running; `None` if a fire is due and should be running.
    fn not_due(&self, settled: Wall) -> Option<String> {
        let name = &self.job().name;
        if self.job().schedule.is_none() {
            return Some(format!("it has no schedule: run it with `evenkeel job run {name}`"));
        }
        match self.next(settled) {
            None if self.missing.is_some() => self.without(),
            None => Some("its schedule has no further fire".to_owned()),
            Some(next) if next > self.now => Some(format!("it is not due before {}", moment(next))),
            Some(_) => None,
        }
    }

    /// Adds the points for every placement: the schedule and its next fires.
    fn explain_schedule(&self, settled: Option<Wall>, explanation: &mut ExplanationRow) {
        if let Some(settled) = settled.filter(|at| *at > Wall::MIN) {
            explanation.fact("watermark", moment(settled));
            explanation.point(
                "settled",
                "firing",
                format!("no fire due up to {} is ever claimed again", moment(settled)),
            );
        }
        let next = self.next(settled.unwrap_or(Wall::MIN));
        explanation.fact("next", next.map(moment));
        match next {
            Some(next) => {
                explanation.point("next", "firing", format!("{}, by {}", moment(next), self.schedule()));
                // The fires before it that calendars excluded, among others.
                let schedule = self.job().schedule_with_calendars(self.calendars.as_ref());
                for note in schedule.iter().flat_map(|schedule| schedule.notes(next)) {
                    explanation.point("next", "schedule", note);
                }
            }
            None if self.job().schedule.is_none() => {
                explanation.point("next", "firing", "none: it has only manual runs")
            }
            None => {
                let over = || format!("none: {} is over", self.schedule());
                explanation.point("next", "firing", self.without().unwrap_or_else(over));
            }
        }
    }
}
