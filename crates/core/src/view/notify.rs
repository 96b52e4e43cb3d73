//! The notification settings that the view keeps of jobs, so that no declaration is decoded for them.

use alloc::vec::Vec;

use super::{JobId, JobView, View};
use crate::job::{Notify, Occasion};
use crate::record::{NotificationRecord, SpecRecord};

impl View {
    /// The living jobs that want to report when a fire of theirs is late or absent.
    pub fn watched(&self) -> impl Iterator<Item = JobView<'_>> {
        self.watched.iter().map(|id| self.job(*id))
    }

    pub(super) fn set_notify(&mut self, id: JobId, record: Option<SpecRecord>) {
        let notify = match record {
            // People are notified of nothing, and no monitor gets a heartbeat: nothing was executed.
            Some(SpecRecord::Live(spec)) if spec.job.shadow => {
                Some(Notify { on: Some(Vec::new()), ..Notify::default() }.into())
            }
            Some(SpecRecord::Live(spec)) => spec.job.notify.clone(),
            _ => None,
        };
        let limited = |notify: &Notify| {
            [Occasion::Late, Occasion::Absent].into_iter().any(|occasion| notify.limit(occasion).is_some())
        };
        if notify.as_deref().is_some_and(limited) {
            self.watched.insert(id);
        } else {
            self.watched.remove(&id);
        }
        match notify {
            Some(notify) => self.notify.insert(id, notify),
            None => self.notify.remove(&id),
        };
    }
}

impl<'a> JobView<'a> {
    /// Its notification settings; `None` for a job without any or a deleted one.
    #[must_use]
    pub fn notify(&self) -> Option<&'a Notify> {
        self.view.notify.get(&self.id).map(AsRef::as_ref)
    }

    /// The last fires of it that people were notified of as late, or absent.
    #[must_use]
    pub fn notifications(&self) -> Option<&'a NotificationRecord> {
        self.view.notifications(self.name())?.value.as_ref()
    }

    /// The version of its declaration, as far as it is known here.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.state.versions.0
    }
}
