//! The last fires of a job that people were notified of as late or absent.

use serde::{Deserialize, Serialize};

use crate::ids::Member;
use crate::job::Occasion;
use crate::time::Wall;

/// The notifications of a job's fires, under `keys::notifications`. The node that advances the record to a later fire
/// sends the notification; no other node does.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NotificationRecord {
    /// The latest fire reported as late.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late: Option<Wall>,
    /// The latest fire reported as absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub absent: Option<Wall>,
    /// The writer: of two nodes that write the same at one moment each can see whose write it was (law 5).
    pub by: Member,
    /// Rises with every write.
    pub seq: u64,
}

impl NotificationRecord {
    /// The latest fire notified with this event; `None` for none, and for events that this entry does not track.
    #[must_use]
    pub fn latest(&self, occasion: Occasion) -> Option<Wall> {
        match occasion {
            Occasion::Late => self.late,
            Occasion::Absent => self.absent,
            Occasion::Failure | Occasion::Recovery | Occasion::Miss | Occasion::Lost => None,
        }
    }
}
