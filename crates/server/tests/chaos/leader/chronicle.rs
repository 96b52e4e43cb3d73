//! What was committed, in the order in which it was: the registry's file itself is made to write it down.
//!
//! A trigger of SQLite is part of the transaction that it tells of, so it misses nothing and nobody can get round it.

use std::path::Path;

use evenkeel_core::record::{ServingRecord, SpecRecord, decode, split_seal};
use rusqlite::Connection;

use crate::NAMES;
use crate::fleet::books;

const TRIGGERS: &str = "
CREATE TABLE chronicle (n INTEGER PRIMARY KEY, key TEXT NOT NULL, value BLOB NOT NULL);
CREATE TRIGGER told_first AFTER INSERT ON entry WHEN NEW.key GLOB 'job/kept-*/spec' OR NEW.key = 'serving'
BEGIN INSERT INTO chronicle (key, value) VALUES (NEW.key, NEW.value); END;
CREATE TRIGGER told_again AFTER UPDATE OF value ON entry WHEN NEW.key GLOB 'job/kept-*/spec' OR NEW.key = 'serving'
BEGIN INSERT INTO chronicle (key, value) VALUES (NEW.key, NEW.value); END;
";

/// Something that was committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CommittedAct {
    /// A job got another value.
    Set { job: String, version: u64, value: u64 },
    /// The lead changed.
    Lead { leader: Option<usize>, epoch: u64, serves: bool },
}

/// From now on it is written down.
pub(crate) fn begin(folder: &Path) {
    books(folder).execute_batch(TRIGGERS).expect("the registry's file takes triggers");
}

/// What was written down.
pub(crate) fn read(folder: &Path) -> Vec<CommittedAct> {
    acts(&books(folder)).expect("the chronicle is read")
}

fn acts(books: &Connection) -> rusqlite::Result<Vec<CommittedAct>> {
    let mut rows = books.prepare("SELECT key, value FROM chronicle ORDER BY n")?;
    let rows = rows.query_map((), |row| Ok((row.get::<_, String>(0)?, row.get::<_, Vec<u8>>(1)?)))?;
    rows.map(|row| row.map(|(key, value)| act(&key, &value).unwrap_or_else(|| panic!("{key} is broken"))))
        .collect()
}

fn act(key: &str, value: &[u8]) -> Option<CommittedAct> {
    if key == "serving" {
        let record: ServingRecord = decode(value)?;
        let leader = record.leader.map(|leader| NAMES.iter().position(|name| *name == leader.node.as_str()));
        return Some(CommittedAct::Lead {
            leader: leader.flatten(),
            epoch: record.epoch,
            serves: record.serves,
        });
    }
    let SpecRecord::Live(spec) = decode(split_seal(value).0)? else { return None };
    let value = spec.job.work.command()?.program.argv().last()?.parse().ok()?;
    Some(CommittedAct::Set { job: spec.job.name.to_string(), version: spec.version, value })
}
