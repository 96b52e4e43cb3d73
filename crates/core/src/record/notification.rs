//! Up to which fire of a job people were told that it was late, or had no outcome.

use serde::{Deserialize, Serialize};

use crate::ids::Member;
use crate::job::Occasion;
use crate::time::Wall;

/// What was told of a job's fires, under `keys::told`. Whoever writes a later fire over an earlier one tells of it, and nobody
/// else does.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NotificationRecord {
    /// The latest fire that was told to be late.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late: Option<Wall>,
    /// The latest fire that was told to be absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub absent: Option<Wall>,
    /// Who wrote it: of two that write the same at one moment each can tell whose it was (law 5).
    pub by: Member,
    /// Rises with every write.
    pub seq: u64,
}

impl NotificationRecord {
    /// The latest fire of which this was told; `None` for none, and for what is not told by this entry.
    #[must_use]
    pub fn latest(&self, occasion: Occasion) -> Option<Wall> {
        match occasion {
            Occasion::Late => self.late,
            Occasion::Absent => self.absent,
            Occasion::Failure | Occasion::Recovery | Occasion::Miss | Occasion::Lost => None,
        }
    }
}
