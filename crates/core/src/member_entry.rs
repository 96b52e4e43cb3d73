//! A member's entry in the registry, for a process that is to remove it after the member's own process has died.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::ids::Member;
use crate::keys;
use crate::registry::{Guard, Revision, Txn, Write};

/// One entry of a member. A registry that went back in time may give the number of a life once more, and with it the
/// entry's key; when the entry was created tells the two apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MemberEntry {
    /// The member.
    pub member: Member,
    /// When its entry was created.
    pub born: Revision,
}

impl MemberEntry {
    /// The transaction that removes the entry, and with it the member: other nodes take over what it held. Only for
    /// those that have proof that the member's process and all its runs have ended (law 4). It may be sent any number
    /// of times.
    #[must_use]
    pub fn removal(&self) -> Txn {
        let key = keys::node(&self.member);
        let guards = Vec::from([Guard::Born(key.clone(), self.born)]);
        Txn { guards, writes: Vec::from([Write::Delete { key }]) }
    }
}
