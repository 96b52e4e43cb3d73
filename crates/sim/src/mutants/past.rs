//! Faults in what follows after the registry went back in time.

use evenkeel_core::record::Seen;

use crate::tamper::Tamper;

/// Takes part while others do not know yet that they are of an earlier generation.
pub(super) struct JoinsAtOnce;

impl Tamper for JoinsAtOnce {
    fn waits_for_others(&self) -> bool {
        false
    }
}

/// Says nowhere until when the registry may have forgotten what was done.
pub(super) struct ForgetsWhatIsLost;

impl Tamper for ForgetsWhatIsLost {
    fn notes_what_is_lost(&self) -> bool {
        false
    }
}

/// Does not remember how it saw the registry last.
pub(super) struct RemembersNothing;

impl Tamper for RemembersNothing {
    fn seen(&self, seen: &mut Option<Seen>) {
        *seen = None;
    }
}

/// Remembers how far the order was, which leases carry on that end, and not what it wrote.
pub(super) struct RemembersTheOrder;

impl Tamper for RemembersTheOrder {
    fn seen(&self, seen: &mut Option<Seen>) {
        seen.iter_mut().for_each(|seen| seen.entry = None);
    }
}
