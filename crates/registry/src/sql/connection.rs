//! A connection to an SQL server of either kind: sends statements, returns rows of the few types in use.

use std::time::Duration;

use evenkeel_core::keys::Key;
use evenkeel_core::registry::{Entry, LeaseId, Revision};
#[cfg(feature = "mysql")]
use sqlx::mysql::{MySqlConnectOptions, MySqlConnection, MySqlRow};
#[cfg(feature = "postgres")]
use sqlx::postgres::{PgConnectOptions, PgConnection, PgRow};
use sqlx::{AssertSqlSafe, Connection as _, Either, Error, Row as _};
use tokio_stream::StreamExt as _;

use super::statement::{SqlArg, SqlStatement};

/// How long connecting may take.
const CONNECTING: Duration = Duration::from_secs(4);

/// The answer of a server, or its error.
pub type SqlResult<T> = Result<T, Error>;

/// The address of a server, with its user.
#[derive(Clone)]
pub enum SqlTarget {
    /// PostgreSQL.
    #[cfg(feature = "postgres")]
    Postgres(PgConnectOptions),
    /// MySQL or MariaDB.
    #[cfg(feature = "mysql")]
    MySql(MySqlConnectOptions),
}

/// A connection.
pub enum SqlConnection {
    /// To PostgreSQL.
    #[cfg(feature = "postgres")]
    Postgres(PgConnection),
    /// To MySQL or MariaDB.
    #[cfg(feature = "mysql")]
    MySql(MySqlConnection),
}

/// A row of a result.
pub enum SqlRow {
    /// From PostgreSQL.
    #[cfg(feature = "postgres")]
    Postgres(PgRow),
    /// From MySQL or MariaDB.
    #[cfg(feature = "mysql")]
    MySql(MySqlRow),
}

/// The answer to one statement of a request.
#[derive(Default)]
pub(super) struct SqlAnswer {
    pub(super) rows: Vec<SqlRow>,
    /// How many rows it changed or found.
    pub(super) affected: u64,
}

/// Runs the same code for either kind.
macro_rules! whichever {
    ($kind:ident, $value:expr, $inner:ident => $work:expr) => {
        match $value {
            #[cfg(feature = "postgres")]
            $kind::Postgres($inner) => $work,
            #[cfg(feature = "mysql")]
            $kind::MySql($inner) => $work,
        }
    };
}

impl SqlConnection {
    /// Connects, and executes `greeting` first, if there is any.
    ///
    /// # Errors
    /// The connection took too long, or the server refused it.
    pub async fn open(target: &SqlTarget, greeting: &str) -> Result<Self, Error> {
        let open = async {
            let mut link = match target {
                #[cfg(feature = "postgres")]
                SqlTarget::Postgres(options) => Self::Postgres(PgConnection::connect_with(options).await?),
                #[cfg(feature = "mysql")]
                SqlTarget::MySql(options) => Self::MySql(MySqlConnection::connect_with(options).await?),
            };
            if !greeting.is_empty() {
                link.execute_text(greeting).await?;
            }
            Ok(link)
        };
        tokio::time::timeout(CONNECTING, open)
            .await
            .unwrap_or_else(|_| Err(timeout_error("no connection", CONNECTING)))
    }

    /// Executes text without arguments: begins and ends of transactions, and settings.
    ///
    /// # Errors
    /// The server refuses it, or did not answer: then its outcome is unknown.
    pub async fn execute_text(&mut self, text: &str) -> Result<(), Error> {
        let sql = sqlx::raw_sql(AssertSqlSafe(text));
        whichever!(Self, self, link => sql.execute(link).await.map(drop))
    }

    /// Executes a statement and returns how many rows it changed or found.
    ///
    /// # Errors
    /// The server refuses it, or did not answer: then its outcome is unknown.
    pub async fn execute(&mut self, statement: SqlStatement<'_>) -> Result<u64, Error> {
        match self {
            #[cfg(feature = "postgres")]
            Self::Postgres(link) => {
                let done = postgres::query(statement).execute(link).await?;
                Ok(done.rows_affected())
            }
            #[cfg(feature = "mysql")]
            Self::MySql(link) => {
                let done = mysql::query(statement).execute(link).await?;
                Ok(done.rows_affected())
            }
        }
    }

    /// Executes a statement and returns its rows.
    ///
    /// # Errors
    /// The server refuses it, or did not answer: then its outcome is unknown.
    pub async fn query(&mut self, statement: SqlStatement<'_>) -> Result<Vec<SqlRow>, Error> {
        match self {
            #[cfg(feature = "postgres")]
            Self::Postgres(link) => {
                let rows = postgres::query(statement).fetch_all(link).await?;
                Ok(rows.into_iter().map(SqlRow::Postgres).collect())
            }
            #[cfg(feature = "mysql")]
            Self::MySql(link) => {
                let rows = mysql::query(statement).fetch_all(link).await?;
                Ok(rows.into_iter().map(SqlRow::MySql).collect())
            }
        }
    }

    /// Executes a statement that finds exactly one row.
    ///
    /// # Errors
    /// Same as [`query`](Self::query), or it found none.
    pub async fn query_one(&mut self, statement: SqlStatement<'_>) -> Result<SqlRow, Error> {
        self.query(statement).await?.pop().ok_or(Error::RowNotFound)
    }
}

/// What a registry asks: statements are sent as text, and so leave nothing at the server that a later request needs. A
/// pooler may pass each request on by another connection.
impl SqlConnection {
    /// Sends statements as one request and returns the answer to each.
    ///
    /// # Errors
    /// As [`query`](Self::query), with the number of statements that were answered before.
    pub(super) async fn ask_all(&mut self, text: &str) -> Result<Vec<SqlAnswer>, (usize, Error)> {
        let (mut answers, mut open) = (Vec::new(), SqlAnswer::default());
        let sql = sqlx::raw_sql(AssertSqlSafe(text));
        macro_rules! gather {
            ($link:expr, $row:path) => {{
                let mut stream = sql.fetch_many($link);
                while let Some(next) = stream.next().await {
                    match next {
                        Ok(Either::Left(done)) => {
                            open.affected = done.rows_affected();
                            answers.push(std::mem::take(&mut open));
                        }
                        Ok(Either::Right(row)) => open.rows.push($row(row)),
                        Err(error) => return Err((answers.len(), error)),
                    }
                }
            }};
        }
        match self {
            #[cfg(feature = "postgres")]
            Self::Postgres(link) => gather!(link, SqlRow::Postgres),
            #[cfg(feature = "mysql")]
            Self::MySql(link) => gather!(link, SqlRow::MySql),
        }
        Ok(answers)
    }

    /// Sends one statement, perhaps behind others whose answers do not matter, and returns its rows.
    pub(crate) async fn ask(&mut self, statement: SqlStatement<'_>) -> Result<Vec<SqlRow>, Error> {
        let answers = self.ask_all(&statement.into_text()).await.map_err(|(_, error)| error)?;
        Ok(answers.into_iter().next_back().unwrap_or_default().rows)
    }

    /// The same for exactly one row.
    pub(crate) async fn ask_one(&mut self, statement: SqlStatement<'_>) -> Result<SqlRow, Error> {
        self.ask(statement).await?.pop().ok_or(Error::RowNotFound)
    }

    /// Sends one statement whose arguments are too heavy to be spelt out, in a transaction that has begun.
    pub(super) async fn tell_heavy(&mut self, statement: SqlStatement<'_>) -> Result<(), Error> {
        match self {
            #[cfg(feature = "postgres")]
            Self::Postgres(link) => {
                postgres::query(statement).persistent(false).execute(link).await.map(drop)
            }
            #[cfg(feature = "mysql")]
            Self::MySql(link) => mysql::query(statement).persistent(false).execute(link).await.map(drop),
        }
    }

    /// Sends one statement and returns how many rows it changed.
    pub(crate) async fn tell(&mut self, statement: SqlStatement<'_>) -> Result<u64, Error> {
        let answers = self.ask_all(&statement.into_text()).await.map_err(|(_, error)| error)?;
        Ok(answers.into_iter().next_back().unwrap_or_default().affected)
    }
}

#[cfg(feature = "postgres")]
mod postgres {
    use super::{AssertSqlSafe, SqlArg, SqlStatement};
    use sqlx::postgres::{PgArguments, Postgres};

    pub(super) fn query(statement: SqlStatement<'_>) -> sqlx::query::Query<'_, Postgres, PgArguments> {
        let (text, args) = statement.into_parts();
        let query = sqlx::query::<Postgres>(AssertSqlSafe(text));
        args.into_iter().fold(query, |query, arg| match arg {
            SqlArg::Int(number) | SqlArg::BehindBase(number) => query.bind(number),
            SqlArg::Maybe(number) => query.bind(number),
            SqlArg::Text(text) => query.bind(text),
            SqlArg::Bytes(bytes) => query.bind(bytes),
        })
    }
}

#[cfg(feature = "mysql")]
mod mysql {
    use super::{AssertSqlSafe, SqlArg, SqlStatement};
    use sqlx::mysql::{MySql, MySqlArguments};

    pub(super) fn query(statement: SqlStatement<'_>) -> sqlx::query::Query<'_, MySql, MySqlArguments> {
        let (text, args) = statement.into_parts();
        let query = sqlx::query::<MySql>(AssertSqlSafe(text));
        args.into_iter().fold(query, |query, arg| match arg {
            SqlArg::Int(number) | SqlArg::BehindBase(number) => query.bind(number),
            SqlArg::Maybe(number) => query.bind(number),
            // Keys are bytes there, so that nothing is case-folded, padded or compared by language.
            SqlArg::Text(text) => query.bind(text.as_bytes()),
            SqlArg::Bytes(bytes) => query.bind(bytes),
        })
    }
}

impl SqlRow {
    /// An integer.
    ///
    /// # Errors
    /// The column has no such value.
    pub fn int(&self, at: usize) -> Result<i64, Error> {
        whichever!(Self, self, row => row.try_get(at))
    }

    /// An integer that may be null.
    ///
    /// # Errors
    /// The column has no such value.
    pub fn optional_int(&self, at: usize) -> Result<Option<i64>, Error> {
        whichever!(Self, self, row => row.try_get(at))
    }

    /// Bytes, also those of a text.
    ///
    /// # Errors
    /// The column has no such value.
    pub fn bytes(&self, at: usize) -> Result<Vec<u8>, Error> {
        whichever!(Self, self, row => row.try_get_unchecked(at))
    }

    /// A text.
    ///
    /// # Errors
    /// The column has no such value.
    pub fn text(&self, at: usize) -> Result<String, Error> {
        match self {
            #[cfg(feature = "postgres")]
            Self::Postgres(row) => row.try_get_unchecked(at),
            #[cfg(feature = "mysql")]
            Self::MySql(_) => String::from_utf8(self.bytes(at)?).map_err(|error| Error::Decode(error.into())),
        }
    }

    pub(super) fn key(&self, at: usize) -> Result<Key, Error> {
        self.text(at).map(Key::from_stored)
    }

    pub(super) fn revision(&self, at: usize) -> Result<Revision, Error> {
        self.int(at).map(|number| Revision(number.cast_unsigned()))
    }

    pub(super) fn owner(&self, at: usize) -> Result<Option<LeaseId>, Error> {
        Ok(self.optional_int(at)?.map(|number| LeaseId(number.cast_unsigned())))
    }

    /// Reads `revision, born, owner, value` from this column on.
    pub(super) fn entry(&self, at: usize) -> Result<Entry, Error> {
        Ok(Entry {
            revision: self.revision(at)?,
            born: self.revision(at + 1)?,
            owner: self.owner(at + 2)?,
            value: self.bytes(at + 3)?.into(),
        })
    }
}

/// The error for an answer that did not come in time.
#[must_use]
pub fn timeout_error(what: &str, span: Duration) -> Error {
    let text = format!("{what} within {} s", span.as_secs());
    Error::Io(std::io::Error::new(std::io::ErrorKind::TimedOut, text))
}
