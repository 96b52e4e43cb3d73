//! The end of a writing transaction: the results of a group are written and committed as one request.
//!
//! While it goes on every other ordered writer waits, and each hot one, so trips to the server count.

use evenkeel_core::keys::Key;
use evenkeel_core::registry::Revision;
use evenkeel_core::time::Millis;
use sqlx::Error;

use super::connection::SqlAnswer;
use super::dialect::{OrderStatements, RevisionSequence};
use super::late::RevisionSpelling;
use super::snapshot::{FoundOrder, HotGate, SqlSnapshot, number};
use super::state::{EntryHead, KeyState, SqlState};
use super::statement::{SqlArg, pieces};

/// How many changes the feed remembers, and how many more there are before the oldest are forgotten.
const REMEMBERED: i64 = 65_536;
const SLICE: i64 = 4_096;

/// Values of more bytes are sent by themselves, not as text. No hot transaction is that heavy.
pub(super) const HEAVY: usize = 256 << 10;

/// The most bytes of a request of several statements: half of what a server must accept.
const REQUEST_MAX: usize = 8 << 20;

/// Whether a group's answers say when the next act is due: when any lease ends, or before a pause becomes so long that a
/// lease would be extended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WantsNextEnd {
    Yes,
    No,
}

/// Why a group was not committed.
pub(super) enum CommitError {
    /// It was not, for certain.
    Before(Error),
    /// The outcome is unknown.
    At(Error),
}

impl SqlSnapshot<'_> {
    /// Writes the results of a group and commits. The last answer before the commit's says when the next act is due, if
    /// that was asked for.
    pub(super) async fn write_and_commit(
        &mut self,
        state: &mut SqlState,
        found: &FoundOrder,
        wants_next_end: WantsNextEnd,
        gate: HotGate,
    ) -> Result<(Option<Revision>, Option<Millis>), CommitError> {
        self.forget_oldest(state).await.map_err(CommitError::Before)?;
        state.meta.changes += i64::try_from(state.changed.len()).unwrap_or(i64::MAX);
        let mut texts = Vec::new();
        let order = &self.config.tables.order;
        let closes = gate == HotGate::Late && state.meta.revision != found.meta.revision;
        let sequence = order.sequence.as_ref().filter(|_| closes);
        let spelling = match sequence {
            Some(_) => RevisionSpelling::Behind(found.meta.revision),
            None => RevisionSpelling::Known,
        };
        self.write_leases(state, &mut texts);
        self.write_entries(state, spelling, &mut texts).await.map_err(CommitError::Before)?;
        self.write_changes(state, spelling, &mut texts);
        self.write_meta(state, found, spelling, &mut texts);
        if wants_next_end == WantsNextEnd::Yes {
            texts.push(format!("SELECT min(ends), min(ttl) FROM {}", self.config.tables.lease));
        }
        texts.push("COMMIT".into());
        if let Some(sequence) = sequence {
            let base = self.late_base(order, sequence, texts).await?;
            return self.ends(base.1, wants_next_end, state.now).map(|ends| (Some(base.0), ends));
        }
        let last = self.send(texts).await?;
        self.ends(last, wants_next_end, state.now).map(|ends| (None, ends))
    }

    /// Closes the gate, writes and commits as one request. Returns the last revision before, which the new ones follow.
    async fn late_base(
        &mut self,
        order: &OrderStatements,
        sequence: &RevisionSequence,
        texts: Vec<String>,
    ) -> Result<(Revision, Option<SqlAnswer>), CommitError> {
        let count = texts.len();
        let request = format!("{}{}{}", order.close_gate, sequence.keep_base, texts.join("; "));
        let mut answers = self.connection.ask_all(&request).await.map_err(|(done, error)| {
            // Before: the gate and the base.
            match done < count + 1 && error.as_database_error().is_some() {
                true => CommitError::Before(error),
                false => CommitError::At(error),
            }
        })?;
        let rows = answers.len().checked_sub(count + 1).and_then(|base| answers.get(base));
        let base = rows.and_then(|answer| answer.rows.first()).ok_or(Error::RowNotFound);
        let base = base.and_then(|row| row.revision(0)).map_err(CommitError::At)?;
        answers.pop();
        Ok((base, answers.pop()))
    }

    fn ends(
        &self,
        last: Option<SqlAnswer>,
        wants_next_end: WantsNextEnd,
        now: i64,
    ) -> Result<Option<Millis>, CommitError> {
        let row = match wants_next_end {
            WantsNextEnd::Yes => last.and_then(|answer| answer.rows.into_iter().next()),
            WantsNextEnd::No => None,
        };
        let Some(row) = row else { return Ok(None) };
        let ends = row.optional_int(0).and_then(|end| Ok(end.zip(row.optional_int(1)?)));
        let ends = ends.map_err(CommitError::At)?;
        Ok(ends.map(|(end, shortest)| Millis((end - now).min(shortest / 3))))
    }

    /// Sends statements, the commit last, as few requests, none too large. Returns the answer before the commit's.
    async fn send(&mut self, texts: Vec<String>) -> Result<Option<SqlAnswer>, CommitError> {
        let mut texts = texts.into_iter().peekable();
        let mut before_last = None;
        while texts.peek().is_some() {
            let (mut request, mut count) = (texts.next().unwrap_or_default(), 1);
            while let Some(next) = texts.next_if(|next| request.len() + next.len() < REQUEST_MAX) {
                request.push_str("; ");
                request.push_str(&next);
                count += 1;
            }
            let commits = texts.peek().is_none();
            let mut answers = match self.connection.ask_all(&request).await {
                Ok(answers) => answers,
                // Only the server's own words say that it has not come to the commit.
                Err((done, error)) if !commits || done + 1 < count && error.as_database_error().is_some() => {
                    return Err(CommitError::Before(error));
                }
                Err((_, error)) => return Err(CommitError::At(error)),
            };
            if commits {
                answers.pop();
            }
            before_last = answers.pop().or(before_last);
        }
        Ok(before_last)
    }

    fn write_meta(
        &self,
        state: &SqlState,
        found: &FoundOrder,
        spelling: RevisionSpelling,
        texts: &mut Vec<String>,
    ) {
        let (meta, before) = (&state.meta, &found.meta);
        if meta == before {
            return;
        }
        let mut save = self.sql("UPDATE ").then(&self.config.tables.meta).then(" SET forgotten = ");
        save = save.number(meta.forgotten.0).then(", changes = ").with(SqlArg::Int(meta.changes));
        save = save.then(", leases = ").number(meta.leases).then(", clock = ").with(SqlArg::Int(meta.clock));
        if meta.revision == before.revision {
            texts.push(save.into_text());
            return;
        }
        let revision = self.sql("").with(spelling.argument(meta.revision)).into_text();
        save = save.then(", revision = ").then(&revision);
        let payload = format!("({revision})::text");
        let concerns_others = state.entries.iter().any(|(key, known)| known.touched && key.is_cold());
        if let Some(notify) = self.config.dialect.notify.filter(|_| concerns_others) {
            save = save
                .then(" RETURNING ")
                .then(notify)
                .then("(")
                .with(SqlArg::Text(&self.config.tables.channel));
            save = save.then(", ").then(&payload).then(")");
        }
        texts.push(save.into_text());
        if let Some(sequence) = &self.config.tables.order.sequence {
            texts.push(sequence.move_on(&revision));
        }
    }

    fn write_leases(&self, state: &SqlState, texts: &mut Vec<String>) {
        let ended: Vec<_> = state.ended.iter().copied().collect();
        for piece in pieces(&ended, |_| 0) {
            let delete = self.sql("DELETE FROM ").then(&self.config.tables.lease).then(" WHERE id IN ");
            texts.push(delete.any_of(piece.iter().map(|id| number(*id))).into_text());
        }
        let held: Vec<_> = state.leases.iter().filter(|(_, lease)| lease.touched).collect();
        for piece in pieces(&held, |_| 0) {
            let insert =
                self.sql("INSERT INTO ").then(&self.config.tables.lease).then(" (id, ttl, ends) VALUES ");
            let rows = piece
                .iter()
                .map(|(id, lease)| [number(**id), SqlArg::Int(lease.ttl.0), SqlArg::Int(lease.ends)]);
            texts.push(insert.rows(rows).then(self.config.dialect.replace_lease).into_text());
        }
    }

    async fn write_entries(
        &mut self,
        state: &SqlState,
        spelling: RevisionSpelling,
        texts: &mut Vec<String>,
    ) -> Result<(), Error> {
        let touched = || state.entries.iter().filter(|(_, known)| known.touched);
        let gone: Vec<_> = touched().filter(|(_, known)| known.stored && known.head.is_none()).collect();
        for piece in pieces(&gone, |_| 0) {
            let delete = self.sql("DELETE FROM ").then(&self.config.tables.entry).then(" WHERE k IN ");
            texts.push(delete.any_of(piece.iter().map(|(key, _)| SqlArg::Text(key.as_str()))).into_text());
        }
        let put: Vec<_> = touched().filter_map(|(key, known)| row(key, known)).collect();
        for piece in pieces(&put, |row| row.1.len()) {
            let insert = self.sql("INSERT INTO ").then(&self.config.tables.entry);
            let insert = insert.then(" (k, value, revision, born, owner, cold) VALUES ");
            let rows = piece.iter().map(|(key, value, head)| {
                [
                    SqlArg::Text(key.as_str()),
                    SqlArg::Bytes(value),
                    spelling.argument(head.revision),
                    spelling.argument(head.born),
                    SqlArg::Maybe(head.owner.map(|id| id.0.cast_signed())),
                    SqlArg::Int(i64::from(key.is_cold())),
                ]
            });
            let insert = insert.rows(rows).then(self.config.dialect.replace_entry);
            match piece.iter().map(|row| row.1.len()).sum::<usize>() > HEAVY {
                true => self.connection.tell_heavy(insert).await?,
                false => texts.push(insert.into_text()),
            }
        }
        Ok(())
    }

    fn write_changes(&self, state: &SqlState, spelling: RevisionSpelling, texts: &mut Vec<String>) {
        let notes: Vec<_> = state.changed.iter().collect();
        for piece in pieces(&notes, |_| 0) {
            let insert = self
                .sql("INSERT INTO ")
                .then(&self.config.tables.change)
                .then(" (revision, k, gone) VALUES ");
            let gone = |key| i64::from(state.entries.get(key).is_none_or(|known| known.head.is_none()));
            let rows = piece.iter().map(|(key, revision)| {
                [spelling.argument(**revision), SqlArg::Text(key.as_str()), SqlArg::Int(gone(*key))]
            });
            texts.push(insert.rows(rows).into_text());
        }
    }

    async fn forget_oldest(&mut self, state: &mut SqlState) -> Result<(), Error> {
        while state.meta.changes > REMEMBERED + SLICE {
            let oldest = self.sql("SELECT revision FROM ").then(&self.config.tables.change);
            let oldest = oldest.then(&format!(" ORDER BY revision LIMIT 1 OFFSET {}", SLICE - 1));
            let oldest = self.connection.ask_one(oldest).await?.revision(0)?;
            let forget =
                self.sql("DELETE FROM ").then(&self.config.tables.change).then(" WHERE revision <= ");
            let forgotten = self.connection.tell(forget.number(oldest.0)).await?;
            state.meta.changes -= i64::try_from(forgotten).unwrap_or(i64::MAX);
            state.meta.forgotten = oldest;
        }
        Ok(())
    }
}

/// An entry that has to be written completely.
fn row<'b>(key: &'b Key, known: &'b KeyState) -> Option<(&'b Key, &'b [u8], &'b EntryHead)> {
    let head = known.head.as_ref()?;
    Some((key, head.value.as_deref()?, head))
}
