//! Faults after a rewind of the registry.

use evenkeel_core::record::RegistryBookmark;

use crate::mutation::Mutation;

/// Joins while other nodes have not noticed the rewind.
pub(super) struct JoinsBeforeNotice;

impl Mutation for JoinsBeforeNotice {
    fn waits_for_others(&self) -> bool {
        false
    }
}

/// Does not record the loss window of the registry.
pub(super) struct HidesLossWindow;

impl Mutation for HidesLossWindow {
    fn records_loss_window(&self) -> bool {
        false
    }
}

/// Does not remember the state in which it last saw the registry.
pub(super) struct ForgetsRegistryMark;

impl Mutation for ForgetsRegistryMark {
    fn seen(&self, seen: &mut Option<RegistryBookmark>) {
        *seen = None;
    }
}

/// Remembers only the registry's order, which ending leases carry on, and not its own writes.
pub(super) struct RemembersOrderOnly;

impl Mutation for RemembersOrderOnly {
    fn seen(&self, seen: &mut Option<RegistryBookmark>) {
        seen.iter_mut().for_each(|seen| seen.entry = None);
    }
}
