//! Hot transactions: those that only replace or create run states are one request, beside each other, and wait for no
//! counter. On PostgreSQL and MariaDB; MySQL has no sequences.
//!
//! A run state (a key below `run/`) is in no feed and is guarded by its own revision, so two claims of different jobs need
//! no order between them. A transaction is hot if it puts exactly one hot entry, without a lease, guarded by the revision
//! that it has now or by its absence; its other guards name cold entries only. A group of such transactions is sent as one
//! request, which is a transaction of the server: it passes the gate, then checks all guards, draws revisions from the
//! sequence and writes, on PostgreSQL [`together`] in one statement, on MariaDB [`each`] in one of its own. What it does not
//! write is left to an ordered transaction, whose answer says why. Everything else is *ordered*: it waits in a queue, closes
//! the gate, and takes the counter's row.
//!
//! The gate is a lock that is held to the end of the transaction (PostgreSQL: an advisory one; MariaDB: that of a row):
//! shared by hot ones and by those who read, exclusive for an ordered one that changes entries: from its begin if it names
//! hot entries, else with its last request alone ([`late`](super::late)). One that only renews leases needs no more than the
//! queue. The server serves the gate in the order of requests, so a stream of hot transactions keeps no ordered one waiting.
//! Why this is as good as one counter:
//!
//! - **What a hot transaction checks still holds when it commits.** Cold entries, leases and the counter are changed only
//!   behind the closed gate, and its statements begin after it has passed: under `READ COMMITTED` each statement of a
//!   request sees what was committed before that statement. (Were the lock taken *in* the statement, its view would be
//!   older than the lock.) InnoDB makes a commit visible before it releases the locks. Its own entry it changes where the revision is the guarded one; if another hot transaction is
//!   changing the row, the server waits for that one and compares again. Of two that create an entry, one meets the other's
//!   key and does nothing. So no update is lost, and each key is linearizable.
//! - **Revisions order everything that meets.** All come from one sequence. An ordered transaction reads it behind the
//!   closed gate, where no revision is drawn that is not committed or rolled back, and moves it on before the gate opens: it
//!   is behind every hot one that was before it and before every one that comes after. Of two hot ones on one key, the
//!   later was guarded by the revision of the earlier, so it drew after that. Only ordered ones delete, so a new life of a
//!   key has a higher revision than all earlier ones. Two that meet nowhere may commit in another order than they drew;
//!   nothing tells them apart from two at the same moment.
//! - **Who reads misses nothing.** Feeds and listings tell of cold entries, and read the position behind the gate: every
//!   ordered transaction up to there is committed, a hot one that drew its revision and goes on does not concern them. A
//!   reader of hot entries closes the gate, so that its revision is behind all that was written. A listing is read page by
//!   page, each as it is then, and made whole by the changes since before the first page.
//! - **A server that went back is noticed.** A hot transaction writes nothing if the generation has risen, if the last
//!   ordered revision is lower than this process has seen, or if the sequence or the hot entry that this process wrote
//!   last is behind its answer: the ordered one that follows says so and ends the writer. A writer that raises the
//!   generation does so behind the closed gate, so no hot transaction of the earlier one is still under way. A sequence is
//!   restored with its tables: the server logs it ahead of any commit that used it; and a new identity of the server raises
//!   it above every entry.
//! - **A refusal says the same** as it always did, for the ordered transaction gives it.
//! - **No lock waits in a circle.** The queue comes before the gate, the gate before entries, and a hot group locks its
//!   entries in the order of their keys. If a server sees a deadlock all the same, or a wait that is too long, the group is
//!   rolled back and left to an ordered transaction, which is tried again.
//!
//! A position that was read with the gate open to hot ones may lie ahead of what a crash leaves. So it is not proof of a
//! restore, only a reason to skip a revision.
//!
//! **MariaDB shows a commit before it is on the disk** (unless there is a binary log to keep in step with), so a crash may
//! take back what others have read. An answer is given after the disk, and the log has one order: a commit that rests on one
//! that was shown is behind it in the log, so nothing that was answered rests on what is lost. What is lost was never
//! answered. But its revisions must not be given to anything else: a node that has seen the lost entry would take the
//! new one for it, and a feed that is ahead would pass over changes. So the first node that connects after a start of the
//! server moves the sequence far on and lets all listeners list again ([`restart`](super::restart)). It leaves the last *ordered*
//! revision and the entries as they are: these show a restore as before.

mod each;
mod together;
mod txn;

use evenkeel_core::keys::Key;
use evenkeel_core::registry::{Revision, TxnOutcome};
use sqlx::Error;

use super::commit::HEAVY;
use super::config::{SqlConfig, SqlLimits};
use super::connection::SqlAnswer;
use super::dialect::{HotForm, RevisionSequence};
use super::group::KnownRevisions;
use crate::queue::WriteRequest;
pub(super) use txn::HotRequest;
use txn::HotTxn;

/// The transactions of a group, all of them hot, none naming an entry that another one writes.
pub(super) struct HotGroup<'a> {
    txns: Vec<HotTxn<'a>>,
    sequence: &'a RevisionSequence,
}

impl<'a> HotGroup<'a> {
    /// The group as hot transactions; `None` if one of them is not, or two of them meet.
    pub(super) fn of(
        group: &'a [WriteRequest],
        sequence: &'a RevisionSequence,
        limits: &SqlLimits,
    ) -> Option<Self> {
        let most = if sequence.hot == HotForm::Each { each::MOST } else { usize::MAX };
        let mut txns = Vec::new();
        for (call, ask) in group.iter().enumerate() {
            let WriteRequest::Commit(asked, _) = ask else { return None };
            if txns.len() + asked.len() > most {
                return None;
            }
            for txn in asked {
                txns.push(HotTxn::of(call, txn).filter(|_| limits.accepts(txn))?);
            }
        }
        let mut keys: Vec<_> = txns.iter().map(|txn| txn.key).collect();
        keys.sort_unstable();
        let apart = keys.windows(2).all(|two| two[0] != two[1]);
        let light = txns.iter().map(|txn| txn.value.len()).sum::<usize>() <= HEAVY;
        (apart && light && !txns.is_empty()).then_some(Self { txns, sequence })
    }

    /// The request: one transaction of the server.
    pub(super) fn request(&self, config: &SqlConfig, known: &KnownRevisions, generation: u16) -> HotRequest {
        let condition = condition(config, known, generation);
        match self.sequence.hot {
            HotForm::Together => together::request(&self.txns, config, self.sequence, &condition),
            HotForm::Each => each::request(&self.txns, config, self.sequence, &condition),
        }
    }

    /// The last key that was made, with its revision.
    pub(super) fn last(&self, made: &[Option<Revision>]) -> Option<(Key, Revision)> {
        let made = self.txns.iter().zip(made).filter_map(|(txn, made)| Some((txn.key, (*made)?)));
        made.max_by_key(|(_, revision)| *revision).map(|(key, revision)| (key.clone(), revision))
    }

    /// The revisions of the transactions that were made, in the group's order; `None` for those that were not.
    pub(super) fn made(&self, answers: Vec<SqlAnswer>) -> Result<Vec<Option<Revision>>, Error> {
        match self.sequence.hot {
            HotForm::Together => together::made(&self.txns, answers),
            HotForm::Each => each::made(&self.txns, &answers),
        }
    }
}

/// What the order and the generation must be, so that the counter's row, `m`, is found.
fn condition(config: &SqlConfig, known: &KnownRevisions, generation: u16) -> String {
    let (ordered, position) = (known.ordered, known.announced.max(known.answered));
    format!(
        "m.generation <= {generation} AND m.revision >= {ordered} AND {} >= {position} AND {} >= {}",
        config.tables.order.position,
        known.hot_now(config),
        known.hot_then()
    )
}

/// Answers what was made, and returns the requests of the rest.
pub(super) fn answer(group: Vec<WriteRequest>, made: Vec<Option<Revision>>) -> Vec<WriteRequest> {
    let mut made = made.into_iter().map(|revision| revision.map(TxnOutcome::Applied));
    let rest = group.into_iter().filter_map(|ask| ask.answer_some(&mut made));
    rest.collect()
}
