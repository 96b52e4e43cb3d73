//! Checks node selectors: the eligible nodes of a declaration, computed without the nodes' own indexes.

use evenkeel_core::ids::{Member, NodeName};
use evenkeel_core::labels::{Labels, NodeSelector};

use super::runs::AFTER_DELETE;
use super::{Invariant, InvariantChecker, JobTrack};
use crate::invariants::quiet_facts::QuietCluster;

impl JobTrack {
    /// Whether a node of this name with these labels is eligible for the job, by its declaration.
    pub(super) fn fits(&self, node: &NodeName, labels: &Labels) -> bool {
        self.spec.as_ref().is_none_or(|spec| spec.job.node_selector.fits(node, labels))
    }

    /// Records a new declaration: a run claimed under the previous one may start for a moment.
    pub(super) fn note_nodes(&mut self, at: i64, new: &NodeSelector) {
        self.nodes.retain(|(until, _)| at <= *until + AFTER_DELETE);
        if let Some(old) = self.spec.as_ref().map(|spec| &spec.job.node_selector).filter(|old| *old != new) {
            self.nodes.push((at, old.clone()));
        }
    }
}

impl InvariantChecker {
    /// Checks a start on a node.
    pub(super) fn check_fit(&mut self, at: i64, name: &NodeName, run: &evenkeel_core::effect::Run) {
        let (Some(mind), Some(book)) = (self.beliefs.get(name), self.jobs.get(&run.id.job)) else { return };
        // An accepted run of a dispatched job stays with its node; the check is at its acceptance.
        if book.is_dispatched() {
            return;
        }
        let before = book.nodes.iter().filter(|(until, _)| at <= *until + AFTER_DELETE);
        let fits = book.fits(name, &mind.labels)
            || before.into_iter().any(|(_, nodes)| nodes.fits(name, &mind.labels));
        self.findings.test(at, Invariant::I54, fits, || {
            let nodes = book.spec.as_ref().map(|spec| spec.job.node_selector.to_string());
            format!("{} started on {name} with the labels [{}], and is for {nodes:?}", run.id, mind.labels)
        });
    }
}

impl QuietCluster<'_> {
    /// Whether a member is eligible for the job.
    pub(super) fn fits(&self, book: &JobTrack, member: &Member) -> bool {
        let settings = self.workload.nodes.iter().map(|(settings, _)| settings);
        let labels =
            settings.filter(|settings| settings.name == member.node).map(|settings| &settings.labels);
        labels.into_iter().any(|labels| book.fits(&member.node, labels))
    }

    /// Whether a working node is eligible for the job.
    pub(super) fn fits_somebody(&self, book: &JobTrack) -> bool {
        let works = |member: &&Member| !self.drained.contains(&member.node);
        self.members.iter().filter(works).any(|member| self.fits(book, member))
    }

    /// Whether a job without an eligible working node keeps the name of an owner that is gone. A drained node claims
    /// nothing; others release a job only if no online node is eligible, for a drained one may come back to it.
    pub(super) fn is_left(&self, book: &JobTrack) -> bool {
        let drained = |member: &Member| self.drained.contains(&member.node);
        self.members.iter().any(|member| self.fits(book, member)) || self.members.iter().all(drained)
    }
}
