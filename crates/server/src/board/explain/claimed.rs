//! Why a claimed job is where it is, and why it runs or does not.

use evenkeel_core::record::{Lane, Open};
use evenkeel_core::time::{Millis, Wall};
use evenkeel_core::words::{Member, RunId, Shard};

use super::Known;
use crate::rows::{Explained, moment};

pub(super) fn explain(known: &Known, lane: Option<&Lane>, told: &mut Explained) {
    holder(known, told);
    known.tell_schedule(lane.map(|lane| lane.watermark), told);
    let points = now(known, lane);
    let now = points.iter().map(|(_, says)| &**says).collect::<Vec<_>>().join("; ");
    told.says = match &known.owner {
        Some(owner) => format!("held by {}; {now}", owner.node),
        None => format!("held by nobody; {now}"),
    };
    for (rule, says) in points {
        told.point("now", rule, says);
    }
}

fn holder(known: &Known, told: &mut Explained) {
    let capacity = known.capacity();
    told.fact("jobs", known.jobs);
    told.fact("nodes", capacity.nodes);
    told.fact("holder", known.owner.as_ref().map(ToString::to_string));
    let Some(owner) = &known.owner else {
        return told.point("holder", "claims", format!("nobody, place epoch {}", known.epoch));
    };
    told.point("holder", "claims", format!("{owner} has it by place epoch {}", known.epoch));
    let standing = known.standings.iter().find(|standing| standing.name == owner.node);
    let share = capacity.shares.iter().find(|share| share.name == owner.node);
    if let (Some(standing), Some(share)) = (standing, share) {
        told.fact("held", share.held);
        told.fact("quota", share.quota);
        let (jobs, nodes, n) = (known.jobs, capacity.nodes, standing.tolerance);
        let text = format!(
            "{} holds {} of at most {} = 1 + {jobs} / max({nodes} − {n}, 1)",
            owner.node, share.held, share.quota
        );
        told.point("quota", "claims", text);
    }
}

/// What becomes of an open fire at this moment, and which rule says so.
fn going_on(known: &Known, open: &Open) -> (&'static str, String) {
    let run = RunId { job: known.job().name.clone(), fire: open.fire.clone(), shard: Shard(0) };
    let (by, attempt) = (&open.by, open.attempt);
    if let Some(wait) = open.wait {
        if wait.length == Millis::ZERO {
            return ("firing", format!("run {run} waits for a node that fits"));
        }
        let until = moment(wait.until);
        return ("firing", format!("run {run} failed, and its attempt {attempt} follows from {until} on"));
    }
    match open.from <= known.now {
        _ if !known.lives(by) => ("claims", taken_over(by)),
        true if let Some(pool) = known.seat_of(&run, by) => {
            ("pools", format!("run {run} is claimed by {} and waits for a seat in pool {pool}", by.node))
        }
        true => ("firing", format!("run {run} is under way on {}, attempt {attempt}", by.node)),
        false => (
            "firing",
            format!("run {run} is claimed ahead by {} and starts at {}", by.node, moment(open.from)),
        ),
    }
}

/// What it does at this moment, and which rule says so; run by run where any is open.
fn now(known: &Known, lane: Option<&Lane>) -> Vec<(&'static str, String)> {
    let open: Vec<_> = lane.iter().flat_map(|lane| &lane.open).map(|open| going_on(known, open)).collect();
    if open.is_empty() { vec![idle(known, lane)] } else { open }
}

/// Why nothing of it is open.
fn idle(known: &Known, lane: Option<&Lane>) -> (&'static str, String) {
    let settled = lane.map_or(Wall::MIN, |lane| lane.watermark);
    match &known.owner {
        None if known.job().enabled => ("claims", known.nowhere().unwrap_or_else(|| free(known))),
        Some(owner) if !known.lives(owner) => ("claims", taken_over(owner)),
        Some(owner) if known.drains(&owner.node) && known.job().enabled => {
            ("drain", format!("{} drains and gives it up", owner.node))
        }
        owner => {
            let switched = known.switched_off();
            switched.or_else(|| Some(("firing", known.not_due(settled)?))).unwrap_or_else(|| {
                let slots = owner.as_ref().and_then(|owner| Some((owner, known.slots(&owner.node)?)));
                match slots.filter(|(_, (busy, all))| busy >= all) {
                    Some((owner, (busy, all))) => (
                        "firing",
                        format!("it is due, but {} has no free slot: {busy} of {all} are busy", owner.node),
                    ),
                    None => ("firing", "it is due and about to be claimed".to_owned()),
                }
            })
        }
    }
}

fn taken_over(gone: &Member) -> String {
    format!("{gone} is gone: another node takes it over and settles what ran")
}

/// Why nobody holds it.
fn free(known: &Known) -> String {
    let capacity = known.capacity();
    let fix = "start a node or undrain one";
    if capacity.working() == 0 {
        return format!("every node drains: {fix}");
    }
    let full = capacity.shares.iter().filter(|share| share.works).all(|share| share.held >= share.quota);
    match full {
        true => format!("the {} nodes that work hold as many jobs as they may: {fix}", capacity.working()),
        false => "it is free, and nodes with room claim it".to_owned(),
    }
}
