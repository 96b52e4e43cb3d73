//! One hot transaction: what it writes and what guards it; and the request that several are.

use evenkeel_core::keys::Key;
use evenkeel_core::registry::{Guard, Txn, Value, Write};
use sqlx::Error;

use crate::sql::errors::{self, SqlRemedy};

pub(super) struct HotTxn<'a> {
    /// The number of its call in the group, from 0.
    pub(super) call: usize,
    pub(super) key: &'a Key,
    pub(super) value: &'a Value,
    /// The revision of the entry that it replaces; 0 where it creates one.
    pub(super) replaces: i64,
    /// The guards on other entries.
    pub(super) guards: Vec<ColdGuard<'a>>,
}

/// A guard on a cold entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ColdGuard<'a> {
    pub(super) key: &'a Key,
    pub(super) kind: i64,
    pub(super) number: i64,
}

/// A group's request.
pub(in crate::sql) struct HotRequest {
    pub(in crate::sql) text: String,
    /// How many statements are before the one that commits, where the request names it.
    pub(super) before_commit: usize,
}

impl HotRequest {
    /// Whether the server has said that it made nothing, with an error behind so many answers. Its connection is good.
    pub(in crate::sql) fn is_undone(&self, answers: usize, error: &Error) -> bool {
        let commits = answers >= self.before_commit;
        errors::is_rolled_back(error) && (!commits || errors::remedy(error) == SqlRemedy::Retry)
    }
}

pub(super) const PRESENT: i64 = 0;
pub(super) const ABSENT: i64 = 1;
pub(super) const AT: i64 = 2;
pub(super) const BORN: i64 = 3;

impl<'a> HotTxn<'a> {
    /// The transaction as a hot one, if it is.
    pub(super) fn of(call: usize, txn: &'a Txn) -> Option<Self> {
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
        Some(Self { call, key, value, replaces: replaces?, guards })
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
    key.is_cold().then_some(ColdGuard { key, kind, number: number.cast_signed() })
}
