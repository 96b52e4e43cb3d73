//! Reads the tables of XXL-JOB where they are kept: in one transaction that only reads, so both are of one moment.

use std::collections::BTreeMap;
use std::path::Path;
use std::str::FromStr as _;
use std::time::Duration;

use sqlx::mysql::{MySqlConnectOptions, MySqlConnection, MySqlDatabaseError};
use sqlx::{AssertSqlSafe, Column as _, ConnectOptions as _, Connection as _, Error, Row as _};
use tokio_stream::StreamExt as _;

use super::ForeignRow;
use super::rows::{GROUPS, JOBS, XxlTables};
use crate::exit::{CliError, ExitKind};

/// How long connecting may take.
const CONNECTING: Duration = Duration::from_secs(10);
/// How long reading both tables may take.
const READING: Duration = Duration::from_secs(120);
/// The size limit of both tables together, as of a file with them.
const BYTES_MAX: usize = 64 * 1024 * 1024;
/// Both tables are read as they were at one moment, whatever is written meanwhile.
const BEGIN: &str =
    "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY";

/// Where the tables are, and as whom they are read.
pub(crate) struct XxlJobStore {
    options: MySqlConnectOptions,
    database: String,
}

impl XxlJobStore {
    /// The store at `mysql://USER@HOST[:PORT]/DATABASE`.
    ///
    /// # Errors
    /// The URL is no such URL, or has the password in it.
    pub(crate) fn new(url: &str, password: Option<&str>) -> Result<Self, CliError> {
        let wrong =
            |why: &str| CliError::usage(format!("--mysql takes mysql://USER@HOST:PORT/DATABASE: {why}"));
        let Some((_, rest)) =
            url.split_once("://").filter(|(scheme, _)| ["mysql", "mariadb"].contains(scheme))
        else {
            return Err(wrong("this is no such URL"));
        };
        let place = rest.split(['/', '?']).next().unwrap_or_default();
        let login = place.rsplit_once('@').map_or("", |(login, _)| login);
        if login.contains(':') {
            return Err(wrong(
                "every user of this host sees a password in it, so give it with --mysql-password-file FILE or in \
                 EVENKEEL_IMPORT_PASSWORD",
            ));
        }
        if login.is_empty() {
            return Err(wrong("this one names no user"));
        }
        let mut options = MySqlConnectOptions::from_str(url).map_err(|error| wrong(&error.to_string()))?;
        if let Some(password) = password {
            options = options.password(password);
        }
        let Some(database) = options.get_database().map(ToOwned::to_owned) else {
            return Err(wrong("this one names no database, which XXL-JOB calls xxl_job by default"));
        };
        Ok(Self { options: options.disable_statement_logging(), database })
    }

    /// The place as messages and descriptions name it, without the user.
    pub(crate) fn shown(&self) -> String {
        format!("{}:{}/{}", self.options.get_host(), self.options.get_port(), self.database)
    }

    /// Reads the jobs and their executors.
    ///
    /// # Errors
    /// The server does not answer or refuses the user, or there is no such database or table.
    pub(crate) async fn read(&self) -> Result<XxlTables, CliError> {
        let connected = tokio::time::timeout(CONNECTING, MySqlConnection::connect_with(&self.options)).await;
        let late = |_| self.failed(&format!("does not answer within {} seconds", CONNECTING.as_secs()));
        let mut connection = connected.map_err(late)?.map_err(|error| self.explain(&error, ""))?;
        let late = |_| self.failed(&format!("takes longer than {} seconds to answer", READING.as_secs()));
        let tables = tokio::time::timeout(READING, self.tables(&mut connection)).await.map_err(late)??;
        // The transaction ends with the connection. What was read counts, even if the farewell fails.
        let _ = tokio::time::timeout(CONNECTING, connection.close()).await;
        Ok(tables)
    }

    async fn tables(&self, connection: &mut MySqlConnection) -> Result<XxlTables, CliError> {
        let began = sqlx::raw_sql(BEGIN).execute(&mut *connection).await;
        began.map_err(|error| self.explain(&error, ""))?;
        let mut left = BYTES_MAX;
        let jobs = self.table(connection, JOBS, &mut left).await?;
        let groups = self.table(connection, GROUPS, &mut left).await?;
        Ok(XxlTables { jobs, groups })
    }

    /// All rows of a table, with each value as the text that the server sends.
    async fn table(
        &self,
        connection: &mut MySqlConnection,
        table: &str,
        left: &mut usize,
    ) -> Result<Vec<ForeignRow>, CliError> {
        let statement = format!("SELECT * FROM {table} ORDER BY id");
        let mut found = sqlx::raw_sql(AssertSqlSafe(statement.as_str())).fetch(connection);
        let mut rows = Vec::new();
        while let Some(row) = found.next().await {
            let row = row.map_err(|error| self.explain(&error, table))?;
            let mut cells = BTreeMap::new();
            for column in row.columns() {
                let value: Option<&[u8]> =
                    row.try_get_unchecked(column.ordinal()).map_err(|error| self.explain(&error, table))?;
                let Some(value) = value else { continue };
                let Some(rest) = left.checked_sub(value.len()) else {
                    return Err(self.failed(&format!(
                        "has tables with more than {BYTES_MAX} bytes: export {JOBS} in parts, and import the files"
                    )));
                };
                *left = rest;
                cells.insert(column.name().to_owned(), String::from_utf8_lossy(value).into_owned());
            }
            rows.push(cells);
        }
        Ok(rows)
    }

    fn failed(&self, what: &str) -> CliError {
        CliError::new(ExitKind::Failed, format!("MySQL at {} {what}", self.shown()))
    }

    /// Describes an error and its fix.
    fn explain(&self, error: &Error, table: &str) -> CliError {
        let (user, database) = (self.options.get_username(), &self.database);
        let number = error
            .as_database_error()
            .and_then(|error| error.try_downcast_ref::<MySqlDatabaseError>())
            .map(MySqlDatabaseError::number);
        let said = match (number, error) {
            (Some(1045 | 1698), _) => format!(
                "refuses user {user:?}: its password is wrong, or there is no such user; give it with --mysql-password-file FILE \
                 or in EVENKEEL_IMPORT_PASSWORD"
            ),
            (Some(1044), _) => {
                format!("lets user {user:?} not into database {database:?}: grant it SELECT there")
            }
            (Some(1049), _) => format!("has no database {database:?}: name the one of XXL-JOB"),
            (Some(1142 | 1143), _) => {
                format!("lets user {user:?} not read {table}: grant it SELECT on {database}.{table}")
            }
            (Some(1146), _) => format!(
                "has no table {table} in database {database:?}: name the database of XXL-JOB, which has this table from 2.1 on"
            ),
            (None, Error::Io(_)) => {
                format!(
                    "does not answer: see whether it runs, and whether this host may speak to it ({error})"
                )
            }
            (None, Error::Tls(_)) => {
                format!("cannot be spoken to by TLS: see ssl-mode and ssl-ca in --mysql ({error})")
            }
            _ => format!("cannot be read: {error}"),
        };
        self.failed(&said)
    }
}

/// The password in a file, without the end of its line, or in the environment.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn password(file: Option<&Path>) -> Result<Option<String>, CliError> {
    const BYTES_MAX: u64 = 4 * 1024;
    match file {
        Some(file) => {
            let text = crate::bounded::text(file, BYTES_MAX)
                .map_err(|error| CliError::unreadable_input(file.display(), &error))?;
            Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned()))
        }
        None => Ok(std::env::var("EVENKEEL_IMPORT_PASSWORD").ok().filter(|password| !password.is_empty())),
    }
}

#[cfg(test)]
mod tests;
