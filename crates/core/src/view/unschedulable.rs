//! Why no node can run a job now, in words for people.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::JobView;
use crate::ids::{Member, NodeName};

/// How many nodes are named; the others are counted.
const NAMED: usize = 4;

/// Why a living eligible node takes no part in a job.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ExclusionReason {
    /// It was excluded from the job until its restart.
    ShutDown,
    /// It is disabled for the job.
    Disabled,
    /// It drains.
    Drains,
    /// It is cordoned, and has nothing of the job.
    Cordoned,
}

impl JobView<'_> {
    /// Why it never runs, not on a manual trigger either, until an operator changes something; `None` where a node can.
    #[must_use]
    pub fn obstacle(&self) -> Option<String> {
        let name = self.name();
        if !self.is_enabled() {
            return Some(format!("job {name} is disabled: enable it with `evenkeel job enable {name}`"));
        }
        self.unschedulable_reason()
    }

    /// Why no living node can run it now: none is eligible, or all eligible ones drain, are cordoned or are excluded.
    #[must_use]
    pub fn unschedulable_reason(&self) -> Option<String> {
        let nodes = self.view.nodes_named(self.group());
        let mut lives: Vec<(&Member, Option<ExclusionReason>)> = Vec::new();
        for member in self.view.fitting(self.group()) {
            // Of two lives of one node the later one counts.
            if lives.last().is_some_and(|(last, _)| last.node == member.node) {
                lives.pop();
            }
            lives.push((member, self.exclusion(member)));
        }
        if lives.is_empty() {
            return Some(format!(
                "no living node fits {nodes}: start one with these labels, or change the job"
            ));
        }
        let away: Vec<(&NodeName, ExclusionReason)> =
            lives.iter().filter_map(|(member, away)| Some((&member.node, (*away)?))).collect();
        if away.len() < lives.len() {
            return None;
        }
        let (state, fix) = match away.iter().map(|(_, why)| *why).collect::<BTreeSet<_>>() {
            all if all == [ExclusionReason::Drains].into() => ("drains", "undrain"),
            all if all == [ExclusionReason::Cordoned].into() => ("is cordoned", "uncordon"),
            _ => return Some(self.switched_off(&away)),
        };
        Some(match nodes.is_everywhere() {
            true => format!("every node {state}: start a node or {fix} one"),
            false => format!("every node that fits {nodes} {state}: start one or {fix} one"),
        })
    }

    /// Why an eligible member takes no part.
    fn exclusion(&self, member: &Member) -> Option<ExclusionReason> {
        let switches = self.switches(&member.node);
        // Nodes are excluded from sharded jobs only.
        let sharded = self.spec().is_some_and(|spec| spec.job.placement.is_sharded());
        match () {
            () if sharded && switches.shutdown == Some(member.incarnation) => Some(ExclusionReason::ShutDown),
            () if sharded && switches.disabled => Some(ExclusionReason::Disabled),
            () if self.view.intent(&member.node).is_some() => Some(ExclusionReason::Drains),
            () if self.view.is_cordoned(&member.node) && !self.keeps(member) => {
                Some(ExclusionReason::Cordoned)
            }
            () => None,
        }
    }

    /// Whether a member has something of the job that a cordoned node keeps: the job itself, or a part of its shards. Of
    /// a dispatched job it has single runs only.
    fn keeps(&self, member: &Member) -> bool {
        self.owner() == Some(member) || self.has_part(member)
    }

    fn switched_off(&self, away: &[(&NodeName, ExclusionReason)]) -> String {
        let name = self.name();
        let one = |(node, why): &(&NodeName, ExclusionReason)| match why {
            ExclusionReason::ShutDown => {
                format!("{node} was shut down for it and takes part again when it is started again")
            }
            ExclusionReason::Disabled => {
                format!("{node} is disabled for it, which `evenkeel job enable {name} --node {node}` ends")
            }
            ExclusionReason::Drains => format!("{node} drains, which `evenkeel node undrain {node}` ends"),
            ExclusionReason::Cordoned => {
                format!("{node} is cordoned, which `evenkeel node uncordon {node}` ends")
            }
        };
        let mut reasons: Vec<String> = away.iter().take(NAMED).map(one).collect();
        let more = away.len() - reasons.len();
        reasons.extend((more > 0).then(|| format!("and {more} more nodes")));
        format!("no node takes part in job {name}: {}", reasons.join("; "))
    }
}
