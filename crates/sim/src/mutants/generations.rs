//! Faults in what follows after the registry went back in time.

use evenkeel_core::record::RegistryBookmark;

use crate::mutation::Mutation;

/// Takes part while others do not know yet that they are of an earlier generation.
pub(super) struct JoinsBeforeNotice;

impl Mutation for JoinsBeforeNotice {
    fn waits_for_others(&self) -> bool {
        false
    }
}

/// Says nowhere until when the registry may have forgotten what was done.
pub(super) struct HidesLossWindow;

impl Mutation for HidesLossWindow {
    fn records_loss_window(&self) -> bool {
        false
    }
}

/// Does not remember how it saw the registry last.
pub(super) struct ForgetsRegistryMark;

impl Mutation for ForgetsRegistryMark {
    fn seen(&self, seen: &mut Option<RegistryBookmark>) {
        *seen = None;
    }
}

/// Remembers how far the order was, which leases carry on that end, and not what it wrote.
pub(super) struct RemembersOrderOnly;

impl Mutation for RemembersOrderOnly {
    fn seen(&self, seen: &mut Option<RegistryBookmark>) {
        seen.iter_mut().for_each(|seen| seen.entry = None);
    }
}
