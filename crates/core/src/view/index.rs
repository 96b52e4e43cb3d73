//! The view's indexes: owners, free jobs, dead owners. Every change of a job or a member passes here.

use alloc::sync::Arc;

use super::name_index::order;
use super::packed_spec::PackedSpec;
use super::{GroupId, JobId, JobState, KnownEntry, OwnedJob, View};
use crate::ids::{JobName, Member};
use crate::job::{Placement, Priority};
use crate::record::{Attempt, RunState};
use crate::registry::Revision;
use crate::time::Mono;

impl View {
    /// The number of a job, which is new if the name is.
    pub(super) fn intern(&mut self, name: &JobName) -> JobId {
        // A listing names a new job several times in a row.
        let last = self.jobs.len().saturating_sub(1);
        if self.jobs.get(last).is_some_and(|job| job.name == *name) {
            return JobId(u32::try_from(last).expect("checked when it was added"));
        }
        if let Some(id) = self.id(name) {
            return id;
        }
        let id = JobId(u32::try_from(self.jobs.len()).expect("a view holds fewer than 2^32 jobs"));
        let order = order(self.me.as_str(), name.as_str());
        self.jobs.push(JobState {
            name: name.clone(),
            spec: PackedSpec::default(),
            enabled: false,
            live: false,
            switched: false,
            placement: Placement::default(),
            priority: Priority::default(),
            group: GroupId::EVERYWHERE,
            owner: None,
            epoch: 0,
            assignment: Revision(0),
            versions: (0, 0),
            free_since: Mono(0),
            order,
            listing: self.listing,
            waits: false,
        });
        self.names.add(&self.jobs, order, id);
        id
    }

    pub(super) fn state(&mut self, id: JobId) -> &mut JobState {
        &mut self.jobs[id.0 as usize]
    }

    /// Changes a job through `change` and brings the indexes up to date.
    pub(super) fn change(&mut self, now: Mono, id: JobId, change: impl FnOnce(&mut JobState)) {
        let state = &mut self.jobs[id.0 as usize];
        let before = state.grouped();
        change(state);
        let after = state.grouped();
        if before == after {
            return;
        }
        self.enabled = self.enabled + usize::from(after.claimable) - usize::from(before.claimable);
        if self.groups.recount((state.order, id), &before, &after) {
            state.free_since = now;
        }
        if before.owner != after.owner {
            self.index_owner(now, id, before.owner, after.owner);
        }
    }

    fn index_owner(&mut self, now: Mono, id: JobId, before: Option<Arc<Member>>, after: Option<Arc<Member>>) {
        if let Some(old) = before
            && let Some(jobs) = self.owned.get_mut(&old)
        {
            jobs.remove(&id);
            if jobs.is_empty() {
                self.owned.remove(&old);
                self.dead.remove(&old);
            }
        }
        if let Some(new) = after {
            if !self.members.contains_key(new.as_ref()) {
                self.dead.entry(new.clone()).or_insert(now);
            }
            self.owned.entry(new).or_default().insert(id);
        }
    }

    /// One shared copy of a member's name, however many jobs it owns.
    pub(super) fn intern_member(&self, member: Member) -> Arc<Member> {
        match self.owned.get_key_value(&member) {
            Some((shared, _)) => shared.clone(),
            None => Arc::new(member),
        }
    }

    /// Notes that a member came or went.
    pub(super) fn index_member(&mut self, now: Mono, member: &Member) {
        self.regroup_member(member);
        let owner = self.owned.get_key_value(member).map(|(shared, _)| shared.clone());
        match owner {
            Some(shared) if !self.members.contains_key(member) => {
                self.dead.entry(shared).or_insert(now);
            }
            _ => {
                self.dead.remove(member);
            }
        }
    }

    /// Stores a run state that this node wrote. Returns whether nothing newer is known.
    pub(crate) fn note_run_state(&mut self, id: JobId, run_state: RunState, revision: Revision) -> bool {
        let is_newer = self.run_state_revision(id).is_none_or(|known| known < revision);
        if is_newer {
            self.set_run_state(id, KnownEntry::present(Some(run_state), revision));
        }
        is_newer
    }

    /// When the known run state of a job was written, or found absent.
    pub(super) fn run_state_revision(&self, id: JobId) -> Option<Revision> {
        self.held.get(id)?.run_state.as_ref().map(|run_state| run_state.revision)
    }

    pub(super) fn set_run_state(&mut self, id: JobId, run_state: KnownEntry<RunState>) {
        // A run state read for a takeover that another node won takes no slot of ours, nor does a wait for an attempt.
        let takes_slot = |open: &&Attempt| open.wait.is_none() && Some(&open.by) == self.life.as_ref();
        let opens = run_state.value.iter().flat_map(|run_state| &run_state.open).filter(takes_slot).count();
        let held = self.held.get_or_add(id);
        let opened = core::mem::replace(&mut held.opens, opens);
        held.run_state = Some(run_state.boxed());
        self.open = self.open + opens - opened;
        self.note_opened(id);
    }

    pub(super) fn let_go(&mut self, id: JobId) {
        self.open -= self.held.remove(id).map_or(0, |held| held.opens);
        self.note_opened(id);
    }

    pub(super) fn held_mut(&mut self, id: JobId) -> &mut OwnedJob {
        self.held.get_or_add(id)
    }
}
