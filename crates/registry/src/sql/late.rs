//! An ordered transaction that closes the gate with its last request: hot ones wait for that request alone.
//!
//! It reads in its turn, so cold entries and leases stay as it found them. Only the position does not: hot transactions
//! draw revisions until the gate is closed. So its last request reads the position behind the closed gate first, and each
//! new revision is written as a distance from there; the answers are moved by as much as the position had moved. This
//! serves transactions that name cold entries only. A refusal among them is true at the position that it names, for hot
//! transactions change nothing that it tells.

use evenkeel_core::registry::Revision;

use super::state::{SqlReply, SqlState, SqlTxnResult};
use super::statement::SqlArg;

/// The most entries that are written like this: each revision is a small expression.
const ENTRIES_MAX: usize = 64;

/// The heaviest values.
const VALUES_MAX: usize = 64 << 10;

/// How revisions that a group gives are written.
#[derive(Clone, Copy)]
pub(super) enum RevisionSpelling {
    /// As they are.
    Known,
    /// Those behind this one as distances from the position at the end.
    Behind(Revision),
}

impl RevisionSpelling {
    pub(super) fn argument<'a>(self, revision: Revision) -> SqlArg<'a> {
        match self {
            Self::Behind(position) if revision > position => {
                SqlArg::BehindBase((revision.0 - position.0).cast_signed())
            }
            _ => SqlArg::Int(revision.0.cast_signed()),
        }
    }
}

/// Whether a group's results can be written like this.
pub(super) fn may_close(state: &SqlState) -> bool {
    let touched = || state.entries.iter().filter(|(_, known)| known.touched);
    let heads = || touched().filter_map(|(_, known)| known.head.as_ref()?.value.as_deref());
    touched().count() <= ENTRIES_MAX
        && touched().all(|(key, _)| key.is_cold())
        && heads().map(<[u8]>::len).sum::<usize>() <= VALUES_MAX
}

/// Moves the revisions behind a position in answers.
pub(super) fn move_revisions(answers: &mut [SqlReply], position: Revision, by: u64) {
    let moved = |revision: &mut Revision| {
        if *revision > position {
            revision.0 += by;
        }
    };
    for answer in answers {
        let SqlReply::Txns(results) = answer else { continue };
        for result in results {
            match result {
                SqlTxnResult::Applied(revision) => moved(revision),
                SqlTxnResult::Refused(found, revision) => {
                    moved(revision);
                    for head in found.iter_mut().filter_map(|(_, head)| head.as_mut()) {
                        moved(&mut head.revision);
                        moved(&mut head.born);
                    }
                }
            }
        }
    }
}
