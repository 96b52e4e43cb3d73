//! A connection to the history's database, a file or a server.

use std::fmt;
use std::time::Duration;

use evenkeel_registry::file_integrity::{FileDamage, FileIntegrity};
use evenkeel_registry::sql::{self, SqlArg, SqlStatement, pieces};
use rusqlite::types::{ToSqlOutput, Value, ValueRef};
use rusqlite::{Connection, params_from_iter};

use super::dialect::{HistoryDialect, SQLITE};
use super::location::{HistoryLocation, HistoryServer};
use super::{schema, tables};

/// How long a server may take for one answer before its connection counts as dead. Longer than the server's own limits.
const ANSWER: Duration = Duration::from_secs(20);

/// Why the database failed, in words, with the fix where one is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DatabaseError(pub(super) String);

/// A connection. After an error its state is unknown, and it has to be dropped.
pub(super) struct HistoryConnection {
    pub(super) dialect: &'static HistoryDialect,
    prefix: String,
    kind: HistoryBackend,
}

enum HistoryBackend {
    File(Box<Connection>, Box<FileIntegrity>),
    Server(Box<sql::SqlConnection>, String),
}

/// A row of a result.
pub(super) enum HistoryRow {
    File(Vec<Value>),
    Server(sql::SqlRow),
}

impl fmt::Display for DatabaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<rusqlite::Error> for DatabaseError {
    fn from(error: rusqlite::Error) -> Self {
        Self(explain(&error))
    }
}

/// Describes an error of a file, and what to do about it.
pub(super) fn explain(error: &rusqlite::Error) -> String {
    use rusqlite::ErrorCode as Code;
    let Some(code) = error.sqlite_error_code() else { return error.to_string() };
    let what = match code {
        Code::DatabaseBusy | Code::DatabaseLocked => {
            "another process keeps it locked: see with `lsof` or `fuser` who has the file open, and end that transaction or process"
        }
        Code::DiskFull => "its disk is full: free some space",
        Code::ReadOnly | Code::CannotOpen | Code::PermissionDenied => {
            "it cannot be written: let this user write it and its folder"
        }
        Code::SystemIoFailure => "it cannot be read or written: check its disk",
        Code::NotADatabase | Code::DatabaseCorrupt => {
            "it is damaged: move it away with its -wal and -shm files, and a new one is begun"
        }
        _ => {
            "it does not work as it should: move it away with its -wal and -shm files, and a new one is begun"
        }
    };
    format!("{what} ({error})")
}

impl HistoryConnection {
    /// Opens the file or connects to the server, and creates missing tables.
    pub(super) async fn open(place: &HistoryLocation) -> Result<Self, DatabaseError> {
        match place {
            HistoryLocation::File(path) => Ok(Self::file(schema::open(path).map_err(DatabaseError)?)),
            HistoryLocation::Server(server) => {
                let mut link = Self::connect(server).await?;
                if let HistoryBackend::Server(link, _) = &mut link.kind {
                    tables::prepare(link, server).await.map_err(|error| DatabaseError(error.to_string()))?;
                }
                Ok(link)
            }
        }
    }

    /// Opens a connection for reading only.
    pub(super) async fn open_to_read(place: &HistoryLocation) -> Result<Self, DatabaseError> {
        match place {
            HistoryLocation::File(path) => Ok(Self::file(schema::open_to_read(path).map_err(DatabaseError)?)),
            HistoryLocation::Server(server) => Self::connect(server).await,
        }
    }

    fn file((db, witness): (Connection, FileIntegrity)) -> Self {
        // Lists of one, two, four … up to a thousand, of several tables.
        db.set_prepared_statement_cache_capacity(96);
        Self {
            dialect: &SQLITE,
            prefix: String::new(),
            kind: HistoryBackend::File(Box::new(db), Box::new(witness)),
        }
    }

    /// The damage to the open file; always `None` for a server.
    pub(super) fn harm(&self) -> Option<FileDamage> {
        match &self.kind {
            HistoryBackend::File(_, witness) => witness.verify().err(),
            HistoryBackend::Server(..) => None,
        }
    }

    /// Gives up a damaged file, and keeps what is known of it. The connection stays open until the
    /// process ends: SQLite would write to the damaged file when it closes it, and delete the log of its replacement.
    pub(super) fn abandon(self) -> Option<FileIntegrity> {
        match self.kind {
            HistoryBackend::File(db, witness) => {
                std::mem::forget(db);
                Some(*witness)
            }
            HistoryBackend::Server(..) => None,
        }
    }

    async fn connect(server: &HistoryServer) -> Result<Self, DatabaseError> {
        let HistoryServer { target, dialect, prefix, label: place, .. } = server;
        let link = sql::SqlConnection::open(target, dialect.session_setup).await;
        let link = link.map_err(|error| DatabaseError(sql::explain(place, &error).to_string()))?;
        let kind = HistoryBackend::Server(Box::new(link), place.clone());
        Ok(Self { dialect, prefix: prefix.clone(), kind })
    }

    /// A table's name, as written in a statement.
    pub(super) fn table(&self, name: &str) -> String {
        format!("{0}{1}{name}{0}", self.dialect.quote, self.prefix)
    }

    /// Begins a statement with text.
    pub(super) fn statement<'a>(&self, text: impl Into<String>) -> SqlStatement<'a> {
        SqlStatement::of(self.dialect.numbered, text)
    }

    /// Begins a transaction that locks out every other writer, so that what it reads stays true until its end.
    pub(super) async fn lock(&mut self) -> Result<(), DatabaseError> {
        self.execute_text(self.dialect.begin).await?;
        if !self.dialect.locks {
            return Ok(());
        }
        let lock = self.statement(format!("SELECT layout FROM {} FOR UPDATE", self.table("history")));
        match self.rows(lock).await?.len() {
            1 => Ok(()),
            _ => Err(DatabaseError(
                "the history has lost the row that its writers lock: restore the database from a backup with its own tools".into(),
            )),
        }
    }

    /// Commits the transaction. After an error it is unknown whether it was made.
    pub(super) async fn commit(&mut self) -> Result<(), DatabaseError> {
        self.execute_text("COMMIT").await
    }

    async fn execute_text(&mut self, text: &str) -> Result<(), DatabaseError> {
        match &mut self.kind {
            HistoryBackend::File(db, _) => Ok(db.execute_batch(text)?),
            HistoryBackend::Server(link, place) => answered(place, link.execute_text(text)).await,
        }
    }

    /// Executes a statement and returns how many rows it changed.
    pub(super) async fn run(&mut self, statement: SqlStatement<'_>) -> Result<u64, DatabaseError> {
        match &mut self.kind {
            HistoryBackend::File(db, _) => {
                let (text, args) = statement.into_parts();
                let changed =
                    db.prepare_cached(&text)?.execute(params_from_iter(args.iter().map(to_sqlite)))?;
                Ok(changed as u64)
            }
            HistoryBackend::Server(link, place) => answered(place, link.execute(statement)).await,
        }
    }

    /// Inserts rows. A file takes them one by one, which avoids a statement journal each; a server takes
    /// many together, which saves round trips.
    pub(super) async fn insert<const N: usize>(
        &mut self,
        (before, behind): (&str, &str),
        rows: &[[SqlArg<'_>; N]],
    ) -> Result<(), DatabaseError> {
        if let HistoryBackend::File(db, _) = &self.kind {
            let Some(first) = rows.first() else { return Ok(()) };
            let one = SqlStatement::of(self.dialect.numbered, before).rows([*first]).then(behind);
            let mut one = db.prepare_cached(&one.into_parts().0)?;
            for row in rows {
                one.execute(params_from_iter(row.iter().map(to_sqlite)))?;
            }
            return Ok(());
        }
        let weight = |row: &[SqlArg<'_>; N]| {
            let weight = |arg: &SqlArg<'_>| match arg {
                SqlArg::Text(text) => text.len(),
                SqlArg::Bytes(bytes) => bytes.len(),
                SqlArg::Int(_) | SqlArg::Maybe(_) | SqlArg::BehindBase(_) => 8,
            };
            row.iter().map(weight).sum()
        };
        for some in pieces(rows, weight) {
            self.run(self.statement(before).rows(some.iter().copied()).then(behind)).await?;
        }
        Ok(())
    }

    /// Executes a statement and returns its rows.
    pub(super) async fn rows(
        &mut self,
        statement: SqlStatement<'_>,
    ) -> Result<Vec<HistoryRow>, DatabaseError> {
        match &mut self.kind {
            HistoryBackend::File(db, _) => {
                let (text, args) = statement.into_parts();
                let mut statement = db.prepare_cached(&text)?;
                let columns = statement.column_count();
                let row = |row: &rusqlite::Row<'_>| (0..columns).map(|at| row.get(at)).collect();
                let found = statement.query_map(params_from_iter(args.iter().map(to_sqlite)), row)?;
                Ok(found.map(|row| row.map(HistoryRow::File)).collect::<rusqlite::Result<_>>()?)
            }
            HistoryBackend::Server(link, place) => {
                let rows = answered(place, link.query(statement)).await?;
                Ok(rows.into_iter().map(HistoryRow::Server).collect())
            }
        }
    }
}

/// Waits for a server's answer with a timeout: one that vanished never answers.
async fn answered<T, F>(place: &str, asked: F) -> Result<T, DatabaseError>
where
    F: Future<Output = sql::SqlResult<T>>,
{
    let answer = tokio::time::timeout(ANSWER, asked).await;
    let answer = answer.unwrap_or_else(|_| Err(sql::timeout_error("no answer", ANSWER)));
    answer.map_err(|error| DatabaseError(sql::explain(place, &error).to_string()))
}

/// Converts an argument for a file.
fn to_sqlite<'a>(arg: &'a SqlArg<'_>) -> ToSqlOutput<'a> {
    ToSqlOutput::Borrowed(match arg {
        SqlArg::Int(number) | SqlArg::Maybe(Some(number)) | SqlArg::BehindBase(number) => {
            ValueRef::Integer(*number)
        }
        SqlArg::Maybe(None) => ValueRef::Null,
        SqlArg::Text(text) => ValueRef::Text(text.as_bytes()),
        SqlArg::Bytes(bytes) => ValueRef::Blob(bytes),
    })
}

impl HistoryRow {
    /// An integer that may be null.
    pub(super) fn maybe(&self, at: usize) -> Result<Option<i64>, DatabaseError> {
        match self {
            Self::File(values) => match values.get(at) {
                Some(Value::Null) => Ok(None),
                Some(Value::Integer(number)) => Ok(Some(*number)),
                _ => Err(odd(at)),
            },
            Self::Server(row) => row.optional_int(at).map_err(|_| odd(at)),
        }
    }

    /// An integer.
    pub(super) fn int(&self, at: usize) -> Result<i64, DatabaseError> {
        self.maybe(at)?.ok_or_else(|| odd(at))
    }

    /// An integer, converted to the wanted type.
    pub(super) fn number<T: TryFrom<i64>>(&self, at: usize) -> Result<T, DatabaseError> {
        T::try_from(self.int(at)?).map_err(|_| odd(at))
    }

    /// An integer that may be null, converted to the wanted type.
    pub(super) fn maybe_number<T: TryFrom<i64>>(&self, at: usize) -> Result<Option<T>, DatabaseError> {
        self.maybe(at)?.map(T::try_from).transpose().map_err(|_| odd(at))
    }

    /// Bytes.
    pub(super) fn bytes(&self, at: usize) -> Result<Vec<u8>, DatabaseError> {
        match self {
            Self::File(values) => match values.get(at) {
                Some(Value::Blob(bytes)) => Ok(bytes.clone()),
                _ => Err(odd(at)),
            },
            Self::Server(row) => row.bytes(at).map_err(|_| odd(at)),
        }
    }

    /// A text.
    pub(super) fn text(&self, at: usize) -> Result<String, DatabaseError> {
        match self {
            Self::File(values) => match values.get(at) {
                Some(Value::Text(text)) => Ok(text.clone()),
                _ => Err(odd(at)),
            },
            Self::Server(row) => row.text(at).map_err(|_| odd(at)),
        }
    }
}

/// An error: the database holds a value that history never writes.
pub(super) fn odd(column: usize) -> DatabaseError {
    DatabaseError(format!("column {column} of a row holds what evenkeel did not write: delete the row"))
}
