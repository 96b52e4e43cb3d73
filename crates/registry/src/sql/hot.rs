//! Hot transactions: those that only replace or create run states are one request, beside each other, and wait for no
//! counter.
//!
//! A run state (a key below `run/`) is in no feed and is guarded by its own revision, so two claims of different jobs need
//! no order between them. A transaction is hot if it puts exactly one hot entry, without a lease, guarded by the revision
//! that it has now or by its absence; its other guards name cold entries only. A group of such transactions is sent as one
//! request, which is a transaction of the server by itself: it passes the gate, then one statement checks all guards,
//! draws revisions from the sequence and writes. What it does not write is left to an ordered transaction, whose answer
//! says why. Everything else is *ordered*: it waits in a queue, closes the gate, and takes the counter's row.
//!
//! The gate is an advisory lock, held to the end of the transaction: shared by hot ones and by those who read, exclusive
//! for an ordered one that changes entries: from its begin if it names hot entries, else with its last request alone
//! ([`late`](super::late)). One that only renews leases needs no more than the queue. The server serves the gate in the
//! order of requests, so a stream of hot transactions keeps no ordered one waiting. Why this is as good as one counter:
//!
//! - **What a hot transaction checks still holds when it commits.** Cold entries, leases and the counter are changed only
//!   behind the closed gate, and its statement begins after it has passed: under `READ COMMITTED` each statement of a
//!   request sees what was committed before that statement. (Were the lock taken *in* the statement, its view would be
//!   older than the lock.) Its own entry it changes where the revision is the guarded one; if another hot transaction is
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
//!   generation does so behind the closed gate, so no hot transaction of the earlier one is still under way. A sequence is restored with its tables: the server logs it
//!   ahead of any commit that used it; and a new identity of the server raises it above every entry.
//! - **A refusal says the same** as it always did, for the ordered transaction gives it.
//!
//! A position that was read with the gate open to hot ones may lie ahead of what a crash leaves. So it is not proof of a
//! restore, only a reason to skip a revision, as on a server that shows commits before they are durable.

use evenkeel_core::keys::Key;
use evenkeel_core::registry::{Guard, Revision, Txn, TxnOutcome, Value, Write};
use sqlx::Error;

use super::commit::HEAVY;
use super::config::{SqlConfig, SqlLimits};
use super::connection::SqlAnswer;
use super::dialect::TableNames;
use super::group::KnownRevisions;
use super::statement::{SqlArg, SqlStatement};
use crate::queue::WriteRequest;

/// The transactions of a group, all of them hot, none naming an entry that another one writes.
pub(super) struct HotGroup<'a> {
    txns: Vec<HotTxn<'a>>,
}

struct HotTxn<'a> {
    key: &'a Key,
    value: &'a Value,
    /// The revision of the entry that it replaces; 0 where it creates one.
    replaces: i64,
    /// The guards on other entries.
    guards: Vec<ColdGuard<'a>>,
}

/// A guard on a cold entry: its key, kind and number.
type ColdGuard<'a> = [SqlArg<'a>; 3];

const PRESENT: i64 = 0;
const ABSENT: i64 = 1;
const AT: i64 = 2;
const BORN: i64 = 3;

impl<'a> HotGroup<'a> {
    /// The group as hot transactions; `None` if one of them is not, or two of them meet.
    pub(super) fn of(group: &'a [WriteRequest], limits: &SqlLimits) -> Option<Self> {
        let mut txns = Vec::new();
        for ask in group {
            let WriteRequest::Commit(asked, _) = ask else { return None };
            for txn in asked {
                txns.push(HotTxn::of(txn).filter(|_| limits.accepts(txn))?);
            }
        }
        let mut keys: Vec<_> = txns.iter().map(|txn| txn.key).collect();
        keys.sort_unstable();
        let apart = keys.windows(2).all(|two| two[0] != two[1]);
        let light = txns.iter().map(|txn| txn.value.len()).sum::<usize>() <= HEAVY;
        (apart && light && !txns.is_empty()).then_some(Self { txns })
    }

    /// The request: one transaction of the server.
    pub(super) fn request(&self, config: &SqlConfig, known: &KnownRevisions, generation: u16) -> String {
        let TableNames { meta, entry, order, .. } = &config.tables;
        let sequence = order.sequence.as_deref().unwrap_or_default();
        let rows = (0_i64..).zip(&self.txns).map(|(nth, txn)| {
            let value = SqlArg::Bytes(txn.value);
            [SqlArg::Int(nth), SqlArg::Text(txn.key.as_str()), value, SqlArg::Int(txn.replaces)]
        });
        let sql = |text: &str| SqlStatement::new(config.dialect, text);
        let asked = sql(&order.prepare)
            .then(&order.pass_gate)
            .then("WITH asked(nth, k, value, replaces) AS (VALUES ")
            .rows(rows);
        let mut text = asked.into_text();
        text.push_str("), ");
        let guards: Vec<_> = (0_i64..)
            .zip(&self.txns)
            .flat_map(|(nth, txn)| {
                txn.guards.iter().map(move |[k, kind, n]| [SqlArg::Int(nth), *k, *kind, *n])
            })
            .collect();
        let mut unguarded = "";
        if !guards.is_empty() {
            text += &sql("guarded(nth, k, kind, n) AS (VALUES ").rows(guards).into_text();
            text += &format!(
                "), failed AS (SELECT g.nth FROM guarded g LEFT JOIN {entry} c ON c.k = g.k WHERE CASE g.kind \
                 WHEN {PRESENT} THEN c.k IS NULL WHEN {ABSENT} THEN c.k IS NOT NULL \
                 WHEN {AT} THEN c.revision IS DISTINCT FROM g.n ELSE c.born IS DISTINCT FROM g.n END), "
            );
            unguarded = "AND a.nth NOT IN (SELECT nth FROM failed) ";
        }
        let (ordered, position) = (known.ordered, known.announced.max(known.answered));
        text += &format!(
            "holds AS (SELECT a.* FROM asked a, {meta} m WHERE m.generation <= {generation} \
             AND m.revision >= {ordered} AND {} >= {position} AND {} >= {} {unguarded}), \
             replaced AS (UPDATE {entry} e SET value = h.value, revision = nextval('{sequence}'), owner = NULL \
             FROM holds h WHERE h.replaces <> 0 AND e.k = h.k AND e.revision = h.replaces \
             RETURNING h.nth, e.revision)",
            order.position,
            known.hot_now(config),
            known.hot_then()
        );
        let mut select = "SELECT nth, revision FROM replaced".to_owned();
        if self.txns.iter().any(|txn| txn.replaces == 0) {
            text += &format!(
                ", new AS MATERIALIZED (SELECT h.*, nextval('{sequence}') AS drawn FROM holds h \
                 WHERE h.replaces = 0), created AS (INSERT INTO {entry} (k, value, revision, born, owner, cold) \
                 SELECT k, value, drawn, drawn, NULL, 0 FROM new ON CONFLICT DO NOTHING RETURNING revision)"
            );
            select += " UNION ALL SELECT n.nth, n.drawn FROM new n JOIN created c ON c.revision = n.drawn";
        }
        text + " " + &select
    }

    /// The last key that was made, with its revision.
    pub(super) fn last(&self, made: &[Option<Revision>]) -> Option<(Key, Revision)> {
        let made = self.txns.iter().zip(made).filter_map(|(txn, made)| Some((txn.key, (*made)?)));
        made.max_by_key(|(_, revision)| *revision).map(|(key, revision)| (key.clone(), revision))
    }

    /// The revisions of the transactions that were made, in the group's order; `None` for those that were not.
    pub(super) fn made(&self, answers: Vec<SqlAnswer>) -> Result<Vec<Option<Revision>>, Error> {
        let mut made = vec![None; self.txns.len()];
        for row in answers.into_iter().next_back().unwrap_or_default().rows {
            let place = usize::try_from(row.int(0)?).ok().and_then(|nth| made.get_mut(nth));
            *place.ok_or(Error::RowNotFound)? = Some(row.revision(1)?);
        }
        Ok(made)
    }
}

impl<'a> HotTxn<'a> {
    fn of(txn: &'a Txn) -> Option<Self> {
        let [Write::Put { key, value, owner: None }] = &txn.writes[..] else { return None };
        if key.is_cold() {
            return None;
        }
        let (mut replaces, mut guards) = (None, Vec::new());
        for guard in &txn.guards {
            match guard {
                Guard::Absent(own) if own == key && replaces.is_none() => replaces = Some(0),
                Guard::At(own, at) if own == key && replaces.is_none() && at.0 != 0 => {
                    replaces = Some(at.0.cast_signed());
                }
                _ => guards.push(cold_guard(guard)?),
            }
        }
        Some(Self { key, value, replaces: replaces?, guards })
    }
}

fn cold_guard(guard: &Guard) -> Option<ColdGuard<'_>> {
    let (key, kind, number) = match guard {
        Guard::Present(key) => (key, PRESENT, 0),
        Guard::Absent(key) => (key, ABSENT, 0),
        Guard::At(key, revision) => (key, AT, revision.0),
        Guard::Born(key, born) => (key, BORN, born.0),
        Guard::Open(_) => return None,
    };
    let arguments = [SqlArg::Text(key.as_str()), SqlArg::Int(kind), SqlArg::Int(number.cast_signed())];
    key.is_cold().then_some(arguments)
}

/// Answers what was made, and returns the requests of the rest.
pub(super) fn answer(group: Vec<WriteRequest>, made: Vec<Option<Revision>>) -> Vec<WriteRequest> {
    let mut made = made.into_iter().map(|revision| revision.map(TxnOutcome::Applied));
    let rest = group.into_iter().filter_map(|ask| ask.answer_some(&mut made));
    rest.collect()
}
