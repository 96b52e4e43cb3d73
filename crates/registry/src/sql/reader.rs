//! Reads between the writer's groups, by the same connection: lists, entries, and changes.

use std::sync::Arc;

use evenkeel_core::keys::Key;
use evenkeel_core::registry::{Change, ChangeBatch, Entry, Revision};
use sqlx::Error;
use std::collections::BTreeMap;
use tokio::sync::{Mutex, MutexGuard};

use super::config::{OrderSeen, PATIENCE, SqlConfig, SqlServerIdentity, storable, with_timeout as within};
use super::connection::{SqlAnswer, SqlConnection, timeout_error};
use super::dialect::TableNames;
use super::errors::{self, SqlRemedy};
use super::statement::{SqlArg, SqlStatement};
use crate::feed::ChangeLog;
use crate::{BoxFuture, RegistryError};

/// The page size of a list, and the most keys of one query. A page is one turn of the connection.
const PAGE: usize = 8_192;
const KEYS: usize = 4_096;

/// The readers.
pub(super) struct SqlReaders {
    config: Arc<SqlConfig>,
    adopted: Arc<SqlServerIdentity>,
    seen: Arc<OrderSeen>,
    line: Arc<SqlLine>,
}

/// The one connection of a registry, for the task that has the turn; `None` until it is opened again. Turns are short: the
/// writer's is one group, a reader's one query.
pub(super) type SqlLine = Mutex<Option<SqlConnection>>;

/// A query.
enum ReadQuery {
    /// A page of a listing, behind a key.
    Page(Option<Key>),
    /// The last ordered revision, or a later one without changes in between.
    Ordered,
    Read(Vec<Key>),
    Changes(Revision),
    Revision,
}

impl SqlReaders {
    pub(super) fn new(
        config: Arc<SqlConfig>,
        adopted: Arc<SqlServerIdentity>,
        seen: Arc<OrderSeen>,
        line: Arc<SqlLine>,
    ) -> Self {
        Self { config, adopted, seen, line }
    }

    /// Each page is as it is when it is read. The changes since before the first make them one state.
    pub(super) async fn list(&self) -> Result<ChangeBatch, RegistryError> {
        loop {
            let begun = self.query(ReadQuery::Ordered).await?.unwrap_or_default().revision;
            let mut listed: Vec<Change> = Vec::new();
            loop {
                let last = listed.last().map(|change| change.key.clone());
                let page = self.query(ReadQuery::Page(last)).await?.unwrap_or_default().changes;
                let count = page.len();
                listed.extend(page);
                if count < PAGE {
                    break;
                }
            }
            if let Some(since) = self.query(ReadQuery::Changes(begun)).await? {
                return Ok(brought_up_to(listed, since));
            }
        }
    }

    pub(super) async fn read(&self, keys: Vec<Key>) -> Result<Vec<Change>, RegistryError> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        self.query(ReadQuery::Read(keys)).await.map(|found| found.unwrap_or_default().changes)
    }

    /// The position of the order.
    pub(super) async fn revision(&self) -> Result<Revision, RegistryError> {
        self.query(ReadQuery::Revision).await.map(|now| now.unwrap_or_default().revision)
    }

    async fn query(&self, look: ReadQuery) -> Result<Option<ChangeBatch>, RegistryError> {
        let mut line = self.turn().await?;
        let (kept, known) = (line.take(), *self.seen.bell.borrow());
        let had = kept.is_some();
        let link = match kept {
            Some(link) => link,
            None => self.open().await?,
        };
        let is_behind = |found: &ChangeBatch| found.revision < known;
        match self.query_on(link, &look, &mut line).await {
            // A connection may be to a server that has been replaced, without knowing it.
            Ok(found) if had && look.tells_position() && found.as_ref().is_none_or(is_behind) => {}
            Ok(found) => return Ok(found),
            // Or it may be dead, and reading twice does no harm.
            Err(error) if had || matches!(errors::remedy(&error), SqlRemedy::Retry) => {}
            Err(error) => return Err(errors::explain(&self.config.label, &error)),
        }
        *line = None;
        let link = self.open().await?;
        let found = self.query_on(link, &look, &mut line).await;
        found.map_err(|error| errors::explain(&self.config.label, &error))
    }

    /// Waits for the connection's turn.
    async fn turn(&self) -> Result<MutexGuard<'_, Option<SqlConnection>>, RegistryError> {
        let turn = tokio::time::timeout(PATIENCE, self.line.lock()).await;
        turn.map_err(|_| errors::explain(&self.config.label, &timeout_error("no answer", PATIENCE)))
    }

    /// A new connection. Another server may hold another history, which must not be reported.
    async fn open(&self) -> Result<SqlConnection, RegistryError> {
        self.config.reconnect(&self.adopted).await
    }

    /// Connects anew, to the adopted server.
    pub(super) async fn reopen(&self) -> Result<(), RegistryError> {
        let mut line = self.turn().await?;
        *line = None;
        *line = Some(self.open().await?);
        Ok(())
    }

    /// Executes the query, and keeps the connection if that succeeds.
    async fn query_on(
        &self,
        mut link: SqlConnection,
        look: &ReadQuery,
        line: &mut Option<SqlConnection>,
    ) -> Result<Option<ChangeBatch>, Error> {
        let found = match look {
            ReadQuery::Page(last) => within(self.page_on(&mut link, last.as_ref())).await.map(Some),
            ReadQuery::Ordered => within(self.ordered_on(&mut link)).await.map(Some),
            ReadQuery::Read(keys) => within(self.read_on(&mut link, keys)).await.map(Some),
            ReadQuery::Changes(after) => within(self.changes_on(&mut link, *after)).await,
            ReadQuery::Revision => within(self.position_on(&mut link)).await.map(Some),
        }?;
        *line = Some(link);
        Ok(found)
    }

    async fn page_on(&self, link: &mut SqlConnection, last: Option<&Key>) -> Result<ChangeBatch, Error> {
        let mut select = self.sql("SELECT k, revision, born, owner, value FROM ");
        select = select.then(&self.config.tables.entry).then(" WHERE cold = 1");
        if let Some(last) = last {
            select = select.then(" AND k > ").with(SqlArg::Text(last.as_str()));
        }
        let mut changes = Vec::new();
        for row in link.ask(select.then(&format!(" ORDER BY k LIMIT {PAGE}"))).await? {
            let entry = row.entry(1)?;
            changes.push(Change { key: row.key(0)?, revision: entry.revision, entry: Some(entry) });
        }
        Ok(ChangeBatch { changes, revision: Revision(0) })
    }

    async fn read_on(&self, link: &mut SqlConnection, keys: &[Key]) -> Result<ChangeBatch, Error> {
        let TableNames { meta, entry, order, .. } = &self.config.tables;
        let gate = if keys.iter().all(Key::is_cold) { &order.pass_gate } else { &order.close_gate };
        let questions: Vec<_> = keys
            .chunks(KEYS)
            .map(|piece| {
                let select = self.sql("SELECT ").then(&order.position);
                let select = select.then(", e.k, e.revision, e.born, e.owner, e.value FROM ").then(meta);
                let select = select.then(" m LEFT JOIN ").then(entry).then(" e ON e.k IN ");
                let keys = piece.iter().filter(|key| storable(key)).map(|key| SqlArg::Text(key.as_str()));
                select.any_of(keys).into_text()
            })
            .collect();
        let (mut found, mut revision): (BTreeMap<Key, Entry>, _) = (BTreeMap::new(), Revision(0));
        let answers = self.ask_behind(gate, &questions, link).await?;
        for row in answers.into_iter().flat_map(|answer| answer.rows) {
            revision = revision.max(row.revision(0)?);
            if row.optional_int(2)?.is_some() {
                found.insert(row.key(1)?, row.entry(2)?);
            }
        }
        let change = |key: &Key| Change { key: key.clone(), entry: found.get(key).cloned(), revision };
        Ok(ChangeBatch { changes: keys.iter().map(change).collect(), revision })
    }

    /// Asks behind the gate, in one transaction of the server.
    async fn ask_behind(
        &self,
        gate: &str,
        questions: &[String],
        link: &mut SqlConnection,
    ) -> Result<Vec<SqlAnswer>, Error> {
        let order = &self.config.tables.order;
        let several = self.config.dialect.snapshot.filter(|_| questions.len() > 1);
        let (begin, end) = several.unwrap_or(order.reading);
        let request = format!("{begin}{}{gate}{}{end}", order.prepare, questions.join("; "));
        let mut answers = link.ask_all(&request).await.map_err(|(_, error)| error)?;
        answers.truncate(answers.len().saturating_sub(usize::from(!end.is_empty())));
        answers.drain(..answers.len().saturating_sub(questions.len()));
        Ok(answers)
    }

    /// The changed keys, each once, as they are in the snapshot, and each deletion.
    async fn changes_on(
        &self,
        link: &mut SqlConnection,
        after: Revision,
    ) -> Result<Option<ChangeBatch>, Error> {
        let tables = &self.config.tables;
        let mut select = self.sql("SELECT ").then(&tables.order.position);
        select = select
            .then(", m.forgotten, c.revision, c.k, c.gone, e.revision, e.born, ")
            .then("e.owner, e.value FROM ")
            .then(&tables.meta)
            .then(" m LEFT JOIN ")
            .then(&tables.change);
        select = select.then(" c ON c.revision > ").number(after.0).then(" LEFT JOIN ").then(&tables.entry);
        // For an entry that changed repeatedly only the last row is joined.
        select = select.then(" e ON e.k = c.k AND e.revision = c.revision ORDER BY c.revision, c.k");
        let answers = self.ask_behind(&tables.order.pass_gate, &[select.into_text()], link).await?;
        let rows = answers.into_iter().next().unwrap_or_default().rows;
        let first = rows.first().ok_or(Error::RowNotFound)?;
        let (revision, forgotten) = (first.revision(0)?, first.revision(1)?);
        if after < forgotten || revision < after {
            return Ok(None);
        }
        let mut changes = Vec::new();
        for row in &rows {
            if row.optional_int(2)?.is_none() {
                continue;
            }
            let entry = row.optional_int(5)?.map(|_| row.entry(5)).transpose()?;
            if entry.is_some() || row.int(4)? == 1 {
                changes.push(Change { key: row.key(3)?, entry, revision: row.revision(2)? });
            }
        }
        Ok(Some(ChangeBatch { changes, revision }))
    }

    /// The position, which may be ahead of what can be read by now.
    async fn position_on(&self, link: &mut SqlConnection) -> Result<ChangeBatch, Error> {
        let order = &self.config.tables.order;
        let select = self.sql("SELECT ").then(&order.position).then(", m.revision FROM ");
        let row = link.ask_one(select.then(&self.config.tables.meta).then(" m")).await?;
        self.seen.note_ordered(row.revision(1)?);
        Ok(ChangeBatch { changes: Vec::new(), revision: row.revision(0)? })
    }

    async fn ordered_on(&self, link: &mut SqlConnection) -> Result<ChangeBatch, Error> {
        let select = self.sql("SELECT revision, forgotten FROM ").then(&self.config.tables.meta);
        let row = link.ask_one(select).await?;
        // What was forgotten last may be ahead, without a change in between.
        Ok(ChangeBatch { changes: Vec::new(), revision: row.revision(0)?.max(row.revision(1)?) })
    }

    fn sql<'a>(&self, text: &str) -> SqlStatement<'a> {
        SqlStatement::new(self.config.dialect, text)
    }
}

impl ReadQuery {
    /// Whether the answer has the order's position, which never goes back.
    fn tells_position(&self) -> bool {
        !matches!(self, Self::Page(_) | Self::Ordered)
    }
}

/// A listing with the changes that came while it was read.
fn brought_up_to(mut listed: Vec<Change>, since: ChangeBatch) -> ChangeBatch {
    let ChangeBatch { changes, revision } = since;
    if !changes.is_empty() {
        let mut by_key: BTreeMap<Key, Change> = listed.drain(..).map(|it| (it.key.clone(), it)).collect();
        for change in changes {
            match change.entry {
                Some(_) => drop(by_key.insert(change.key.clone(), change)),
                None => drop(by_key.remove(&change.key)),
            }
        }
        listed = by_key.into_values().collect();
    }
    listed.iter_mut().for_each(|change| change.revision = revision);
    ChangeBatch { changes: listed, revision }
}

impl ChangeLog for SqlReaders {
    fn changes_after(
        self: Arc<Self>,
        after: Revision,
    ) -> BoxFuture<'static, Result<Option<ChangeBatch>, RegistryError>> {
        Box::pin(async move { self.query(ReadQuery::Changes(after)).await })
    }
}
