//! The jobs that this node owns, by number: every look at one finds it at once.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{JobId, OwnedJob};

/// What a view keeps of the jobs that this node owns. A job that it does not own costs a pointer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct HeldJobs(Vec<Option<Box<OwnedJob>>>);

impl HeldJobs {
    /// An owned job.
    pub(super) fn get(&self, id: JobId) -> Option<&OwnedJob> {
        self.0.get(id.0 as usize)?.as_deref()
    }

    /// An owned job, new if it was not owned.
    pub(super) fn get_or_add(&mut self, id: JobId) -> &mut OwnedJob {
        let index = id.0 as usize;
        if self.0.len() <= index {
            self.0.resize_with(index + 1, || None);
        }
        self.0[index].get_or_insert_default()
    }

    /// Removes a job.
    pub(super) fn remove(&mut self, id: JobId) -> Option<Box<OwnedJob>> {
        let removed = self.0.get_mut(id.0 as usize)?.take();
        // Views of equal jobs are equal, whatever they had before.
        while self.0.pop_if(|last| last.is_none()).is_some() {}
        removed
    }

    /// All owned jobs.
    pub(super) fn iter(&self) -> impl Iterator<Item = &OwnedJob> {
        self.0.iter().flatten().map(AsRef::as_ref)
    }

    /// Removes all jobs.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_that_came_and_went_leave_nothing() {
        let mut held = HeldJobs::default();
        held.get_or_add(JobId(2)).opens = 1;
        let before = held.clone();
        for id in [5, 7, 0] {
            held.get_or_add(JobId(id));
        }
        assert_eq!((held.iter().count(), held.get(JobId(1))), (4, None));
        assert_eq!(
            [7, 5, 0, 9, 1].map(|id| held.remove(JobId(id)).is_some()),
            [true, true, true, false, false]
        );
        assert_eq!((&held, held.get(JobId(2)).map(|job| job.opens)), (&before, Some(1)));
        held.remove(JobId(2));
        assert_eq!(held, HeldJobs::default());
    }
}
