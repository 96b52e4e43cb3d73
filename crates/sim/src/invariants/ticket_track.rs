//! The checker's track of one commit.

use evenkeel_core::ids::{JobName, Member};
use evenkeel_core::keys::{Key, ParsedKey, parse};
use evenkeel_core::record::{Assignment, Layouts, decode};
use evenkeel_core::registry::{Guard, Txn, Write};

use super::belief_track::wanted;

/// The checker's knowledge of a commit.
#[derive(Clone, Debug, Default)]
pub(super) struct TicketTrack {
    /// The member that decided on it.
    pub(super) member: Option<Member>,
    /// The layouts of the program that decided on it.
    pub(super) knows: Option<Layouts>,
    /// How often the registry applied it.
    pub(super) applied: u32,
    /// Whether its sender takes it for refused.
    pub(super) refused: bool,
    /// Whether it is guarded by a member's absence, which may come true at any time.
    pub(super) awaits_absence: bool,
    /// The assignments that it writes, with their epochs.
    pub(super) assignments: Vec<(JobName, u64)>,
    /// The run states that it writes.
    pub(super) run_states: Vec<JobName>,
    /// The drain intents that it writes or deletes.
    pub(super) intents: Vec<(Key, bool)>,
}

impl TicketTrack {
    /// Whether it writes this drain intent, or deletes it; `None` if it does neither.
    pub(super) fn intent(&self, key: &Key) -> Option<bool> {
        self.intents.iter().find(|(k, _)| k == key).map(|(_, wanted)| *wanted)
    }

    /// The track of a commit that leaves its node.
    pub(super) fn of(txn: &Txn) -> Self {
        let mut book = Self::default();
        let absence =
            |g: &Guard| matches!(g, Guard::Absent(key) if matches!(parse(key), Some(ParsedKey::Node(_))));
        book.awaits_absence = txn.guards.iter().any(absence);
        for write in &txn.writes {
            let Write::Put { key, value, .. } = write else { continue };
            match parse(key) {
                Some(ParsedKey::Assignment(job)) => {
                    book.assignments.extend(decode::<Assignment>(value).map(|place| (job, place.epoch)));
                }
                Some(ParsedKey::RunState(job)) => book.run_states.push(job),
                Some(ParsedKey::Intent(_)) => book.intents.push((key.clone(), wanted(value))),
                _ => {}
            }
        }
        book
    }
}
