//! Creates and updates tables: the first node does it, the others wait.
//!
//! Each step can be repeated: if a node dies in the middle of one, another does it again.

use std::time::Duration;

use sqlx::Error;

use super::config::SqlConfig;
use super::connection::SqlConnection;
use super::dialect::{OrderStatements, TableNames};
use super::errors;
use super::statement::{SqlArg, SqlDialect, SqlStatement};
use crate::RegistryError;

/// How long a step may take before others treat its node as dead, how often they check, and for how long.
const TURN_MILLIS: i64 = 30_000;
const LOOK: Duration = Duration::from_millis(50);
const LOOKS: u32 = 2_400;

/// The tables of a layout.
pub struct TableLayout {
    /// What is stored there, and its URL without a password.
    pub label: String,
    /// The server's dialect.
    pub dialect: &'static SqlDialect,
    /// The table, in quotes, whose one row has the columns `layout` and `busy_until`.
    pub meta: String,
    /// Creates that table and its row. May be repeated.
    pub first: [String; 2],
    /// The statements from each layout to the next, from layout 0 on. May be repeated.
    pub steps: Vec<Vec<String>>,
}

impl TableLayout {
    /// Creates or updates the tables.
    ///
    /// # Errors
    /// [`RegistryError::Refused`] when a newer program made them or the user has no right,
    /// [`RegistryError::Unavailable`] when the cause may pass.
    pub async fn prepare(&self, link: &mut SqlConnection) -> Result<(), RegistryError> {
        let explain = |error| errors::explain(&self.label, &error);
        let newest = i64::try_from(self.steps.len()).unwrap_or(i64::MAX);
        for _ in 0..LOOKS {
            match self.layout(link).await {
                Ok(layout) if layout == newest => return Ok(()),
                Ok(newer) if newer > newest => {
                    return Err(RegistryError::Refused(format!(
                        "{} has layout {newer} of a newer evenkeel: run at least that version",
                        self.label
                    )));
                }
                Ok(layout) => {
                    if !self.step(link, layout).await.map_err(explain)? {
                        tokio::time::sleep(LOOK).await;
                    }
                }
                Err(error) if errors::is_missing_table(&error) => match self.create_meta(link).await {
                    // Another node has created it.
                    Err(error) if errors::is_already_exists(&error) => tokio::time::sleep(LOOK).await,
                    made => made.map_err(explain)?,
                },
                Err(error) => return Err(explain(error)),
            }
        }
        Err(RegistryError::Unavailable(format!(
            "{} is being brought up to date by another node: try again when that is done",
            self.label
        )))
    }

    /// Whether the meta table exists.
    ///
    /// # Errors
    /// [`RegistryError::Refused`] when the user has no right, [`RegistryError::Unavailable`] when the cause may pass.
    pub async fn exists(&self, link: &mut SqlConnection) -> Result<bool, RegistryError> {
        let layout = SqlStatement::of(self.dialect.numbered, "SELECT layout FROM ").then(&self.meta);
        match link.ask(layout).await {
            Ok(_) => Ok(true),
            Err(error) if errors::is_missing_table(&error) => Ok(false),
            Err(error) => Err(errors::explain(&self.label, &error)),
        }
    }

    async fn layout(&self, link: &mut SqlConnection) -> Result<i64, Error> {
        let layout = SqlStatement::of(self.dialect.numbered, "SELECT layout FROM ").then(&self.meta);
        match link.ask(layout).await?.pop() {
            Some(row) => row.int(0),
            None => {
                self.create_meta(link).await?;
                Ok(0)
            }
        }
    }

    async fn create_meta(&self, link: &mut SqlConnection) -> Result<(), Error> {
        for text in &self.first {
            link.execute_text(text).await?;
        }
        Ok(())
    }

    /// Does the next step, unless another node is at it.
    async fn step(&self, link: &mut SqlConnection, layout: i64) -> Result<bool, Error> {
        let (meta, now, numbered) = (&self.meta, self.dialect.now, self.dialect.numbered);
        let claim = format!(
            "UPDATE {meta} SET busy_until = {now} + {TURN_MILLIS} WHERE busy_until < {now} AND layout = "
        );
        if link.tell(SqlStatement::of(numbered, claim).with(SqlArg::Int(layout))).await? == 0 {
            return Ok(false);
        }
        let step = usize::try_from(layout).ok().and_then(|layout| self.steps.get(layout));
        let (begin, end) = self.dialect.no_ddl_timeout.unzip();
        let step = step.into_iter().flatten().map(String::as_str);
        for text in begin.into_iter().chain(step).chain(end) {
            link.execute_text(text).await?;
        }
        let done = format!("UPDATE {meta} SET busy_until = 0, layout = layout + 1 WHERE layout = ");
        link.tell(SqlStatement::of(numbered, done).with(SqlArg::Int(layout))).await?;
        Ok(true)
    }
}

/// The tables of a registry.
pub(super) fn registry_layout(config: &SqlConfig) -> TableLayout {
    let (meta, dialect) = (config.tables.meta.clone(), config.dialect);
    let (ignore, nothing) = dialect.sql.ignore;
    let (identity, table) = (dialect.identity, dialect.table);
    let first = [
        format!(
            "CREATE TABLE IF NOT EXISTS {meta} (one SMALLINT PRIMARY KEY, layout BIGINT NOT NULL, busy_until BIGINT NOT NULL,
             generation BIGINT NOT NULL, server {identity} NOT NULL, revision BIGINT NOT NULL, forgotten BIGINT NOT NULL,
             changes BIGINT NOT NULL, leases BIGINT NOT NULL, clock BIGINT NOT NULL) {table}"
        ),
        format!(
            "INSERT {ignore} INTO {meta} (one, layout, busy_until, generation, server, revision, forgotten, changes, leases,
             clock) VALUES (1, 0, 0, 0, '', 0, 0, 0, 0, 0) {nothing}"
        ),
    ];
    let steps = (dialect.layouts)(&config.tables);
    TableLayout { label: config.label.clone(), dialect: dialect.sql, meta, first, steps }
}

/// Records which server holds the registry, and returns how often that may have been rolled back.
pub(super) async fn record_server(
    link: &mut SqlConnection,
    config: &SqlConfig,
    identity: &str,
) -> Result<u16, Error> {
    let (meta, dialect) = (&config.tables.meta, config.dialect);
    let order = &config.tables.order;
    link.execute_text(&format!("{}; {}{}", dialect.begin, order.prepare, order.queue)).await?;
    let select = SqlStatement::new(dialect, "SELECT generation, server FROM ").then(meta).then(" FOR UPDATE");
    let row = link.ask_one(select).await?;
    let (mut generation, known) = (row.int(0)?, row.text(1)?);
    if known != identity {
        // At the very first there is nothing to lose.
        generation += i64::from(!known.is_empty());
        // What was restored table by table may have a sequence of another moment.
        if let Some(sequence) = config.tables.order.sequence.as_ref().filter(|_| !known.is_empty()) {
            let TableNames { meta, entry, order, .. } = &config.tables;
            link.execute_text(&order.close_gate).await?;
            let newest = format!("(SELECT coalesce(max(revision), 0) FROM {entry})");
            let newest = format!("SELECT GREATEST({}, {newest}, 1) FROM {meta} m", order.position);
            let newest = link.ask_one(SqlStatement::new(dialect, newest)).await?.revision(0)?;
            link.execute_text(&sequence.move_on(&newest.to_string())).await?;
        }
        let save = SqlStatement::new(dialect, "UPDATE ").then(meta).then(" SET generation = ");
        let save = save.with(SqlArg::Int(generation)).then(", server = ").with(SqlArg::Text(identity));
        link.tell(save).await?;
    }
    link.execute_text("COMMIT").await?;
    Ok(u16::try_from(generation).unwrap_or(u16::MAX))
}

/// Raises the generation above one in which the server was rolled back, for the next connection.
pub(super) async fn raise_generation(
    link: &mut SqlConnection,
    config: &SqlConfig,
    lost: u16,
) -> Result<(), Error> {
    let TableNames { meta, order, .. } = &config.tables;
    let OrderStatements { prepare, queue, close_gate, .. } = order;
    // No hot transaction of the earlier generation may still go on.
    let begin = format!("{}; {prepare}{queue}{close_gate}UPDATE {meta}", config.dialect.begin);
    let update = SqlStatement::new(config.dialect, begin).then(" SET generation = GREATEST(generation, ");
    let update = update.with(SqlArg::Int(i64::from(lost) + 1)).then("); COMMIT");
    link.tell(update).await.map(drop)
}
