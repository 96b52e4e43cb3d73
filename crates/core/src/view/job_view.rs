//! What a view says of one job, whatever its placement.

use alloc::boxed::Box;

use super::{JobTerms, JobView, KnownEntry, OwnedJob};
use crate::ids::{Fire, JobName, Member};
use crate::job::{Priority, Spec};
use crate::keys;
use crate::record::{Assignment, Attempt, SpecRecord, TriggerRecord};
use crate::registry::{Guard, Revision};
use crate::time::{Mono, Wall};

impl<'a> JobView<'a> {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &'a JobName {
        &self.state.name
    }

    /// Whether it is declared, readable and not deleted.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.state.live
    }

    /// Whether it is live and not disabled.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.state.enabled
    }

    /// Its owner.
    #[must_use]
    pub fn owner(&self) -> Option<&'a Member> {
        self.state.owner.as_deref()
    }

    /// Its assignment as it stands in the registry.
    #[must_use]
    pub fn assignment(&self) -> Assignment {
        let (owner, (_, version)) = (self.state.owner.as_deref().cloned(), self.state.versions);
        let sharding = self.sharding().cloned().map(Box::new);
        let planned = self.dispatched().is_some_and(|job| job.planned);
        Assignment { owner, epoch: self.state.epoch, version, sharding, planned, waits: self.state.waits }
    }

    /// Whether spec and assignment go together. Changes of the two may arrive separately, and a guard on the assignment
    /// vouches only for the spec that it was written with.
    #[must_use]
    pub fn is_consistent(&self) -> bool {
        self.state.versions.0 == self.state.versions.1
    }

    /// The guard that the assignment is still as this view has it. Written ones count from 1.
    #[must_use]
    pub fn assignment_guard(&self) -> Guard {
        let key = keys::assignment(self.name());
        if self.state.epoch == 0 { Guard::Absent(key) } else { Guard::At(key, self.state.assignment) }
    }

    /// The guard that the spec is still as this view has it.
    #[must_use]
    pub fn spec_guard(&self) -> Guard {
        self.state.spec.guard(keys::spec(self.name()))
    }

    /// When its spec was written, or found absent.
    pub(crate) fn spec_revision(&self) -> Revision {
        self.state.spec.revision()
    }

    /// Whether its spec was last written at this revision.
    #[must_use]
    pub fn has_spec_of(&self, revision: Revision) -> bool {
        self.spec_revision() == revision
    }

    /// The revision of its spec, if this text is its declaration, letter by letter, and no operator has switched anything
    /// of it.
    #[must_use]
    pub fn declares(&self, text: &[u8]) -> Option<Revision> {
        let spec = &self.state.spec;
        let same = self.is_live() && !self.state.switched && spec.declares(self.name(), text);
        same.then(|| spec.revision())
    }

    /// Whether an operator has switched something of it, on all nodes or on one.
    #[must_use]
    pub fn is_switched(&self) -> bool {
        self.state.switched || self.switched().next().is_some()
    }

    /// The spec's record, decoded; `None` when it is absent or unreadable.
    #[must_use]
    pub fn spec_record(&self) -> Option<SpecRecord> {
        self.state.spec.record(self.name())
    }

    /// The living declaration, decoded.
    #[must_use]
    pub fn spec(&self) -> Option<Spec> {
        self.spec_record()?.live()
    }

    /// Its priority: which waiting run gets the next free slot.
    #[must_use]
    pub fn priority(&self) -> Priority {
        self.state.priority
    }

    /// The triggers that it has.
    #[must_use]
    pub fn triggers(&self) -> Option<&'a KnownEntry<TriggerRecord>> {
        self.view.triggers.get(&self.id)
    }

    /// Its run state and terms, where they matter to this node.
    #[must_use]
    pub fn held(&self) -> Option<&'a OwnedJob> {
        self.view.held.get(self.id)
    }

    /// Its terms, whatever its placement, as far as this node has them; `None` when it is deleted.
    #[must_use]
    pub fn job_terms(&self) -> Option<&'a JobTerms> {
        let sharded = || self.sharded()?.terms.as_deref();
        let planned = || self.dispatched()?.terms.as_deref();
        let held = || self.held()?.terms.as_ref();
        planned().or_else(sharded).or_else(held)
    }

    /// How many of its runs may execute at once.
    #[must_use]
    pub fn max_concurrent_runs(&self) -> usize {
        self.job_terms().map_or(1, |terms| terms.misfire().overlap.max_concurrent_runs())
    }

    /// When a job fires next after a moment, if this node owns something of it or plans it.
    #[must_use]
    pub fn fires_after(&self, after: Wall) -> Option<Wall> {
        self.job_terms()?.schedule.as_ref()?.next(after)
    }

    /// The open run of a fire in the run state of a claimed job that this node owns.
    #[must_use]
    pub fn open_of(&self, fire: &Fire) -> Option<&'a Attempt> {
        self.held()?.record()?.open_of(fire)
    }

    /// Since when, by our clock, it has had no owner.
    #[must_use]
    pub fn free_since(&self) -> Mono {
        self.state.free_since
    }
}
