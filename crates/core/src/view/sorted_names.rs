//! The numbers of jobs in the order of their names.

use alloc::vec::Vec;

use super::job_id::JobId;
use super::job_state::JobState;
use crate::ids::JobName;

/// How many numbers a block holds: what an insertion moves.
const BLOCK: usize = 512;

/// Job numbers in the order of names, which the jobs themselves have: 4 bytes a job, where a tree of names takes ten times
/// as much. They are in blocks, so that a new name moves few of them. A listing adds names in their order, and leaves full
/// blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct SortedNames {
    /// None of them is empty.
    blocks: Vec<Vec<JobId>>,
}

impl SortedNames {
    /// Adds the job with this number, whose name is new.
    pub(super) fn add(&mut self, jobs: &[JobState], id: JobId) {
        let name = &jobs[id.0 as usize].name;
        let at = self.block_of(jobs, name.as_str());
        let Some(block) = self.blocks.get_mut(at) else { return self.blocks.push([id].into()) };
        let place = block.partition_point(|other| jobs[other.0 as usize].name < *name);
        if block.len() < BLOCK {
            return block.insert(place, id);
        }
        if place == BLOCK {
            return self.blocks.insert(at + 1, [id].into());
        }
        let mut rest = block.split_off(BLOCK / 2);
        match place.checked_sub(BLOCK / 2) {
            Some(place) => rest.insert(place, id),
            None => block.insert(place, id),
        }
        self.blocks.insert(at + 1, rest);
    }

    /// The number of the job of this name.
    pub(super) fn get(&self, jobs: &[JobState], name: &JobName) -> Option<JobId> {
        let block = self.blocks.get(self.block_of(jobs, name.as_str()))?;
        let at = block.binary_search_by(|other| jobs[other.0 as usize].name.cmp(name)).ok()?;
        block.get(at).copied()
    }

    /// The numbers of the jobs whose names come after this text, in order; of all jobs for none.
    pub(super) fn after<'a>(
        &'a self,
        jobs: &[JobState],
        text: Option<&str>,
    ) -> impl Iterator<Item = JobId> + use<'a> {
        let at = text.map_or(0, |text| self.block_of(jobs, text));
        let mut blocks = self.blocks.iter().skip(at);
        let first = blocks.next().map_or(&[][..], Vec::as_slice);
        let passed = text
            .map_or(0, |text| first.partition_point(|other| jobs[other.0 as usize].name.as_str() <= text));
        first[passed..].iter().chain(blocks.flatten()).copied()
    }

    /// The block in which a name is, or belongs: the last one that begins with it or before it.
    fn block_of(&self, jobs: &[JobState], name: &str) -> usize {
        let begins = |block: &Vec<JobId>| {
            block.first().is_some_and(|first| jobs[first.0 as usize].name.as_str() <= name)
        };
        self.blocks.partition_point(begins).saturating_sub(1)
    }
}
