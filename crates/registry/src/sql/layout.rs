//! Tables: made, and brought up to date, by whoever comes first while the others wait.
//!
//! Each step can be repeated: a node that died in the middle of one is followed by another that does it again.

use std::time::Duration;

use sqlx::Error;

use super::Config;
use super::fault;
use super::link::Link;
use super::statement::{Arg, Statement, Tongue};
use crate::RegistryError;

/// How long a step may take before others take its maker for dead, and how often they look, and for how long.
const TURN_MILLIS: i64 = 30_000;
const LOOK: Duration = Duration::from_millis(50);
const LOOKS: u32 = 2_400;

/// Which tables there are to be.
pub struct Layout {
    /// What is kept there, and its URL without a password.
    pub place: String,
    /// How the server is spoken to.
    pub tongue: &'static Tongue,
    /// The table, in quotes, whose one row has the columns `layout` and `busy_until`.
    pub meta: String,
    /// Makes that table and its row. May be repeated.
    pub first: [String; 2],
    /// What makes each layout of the one before, from layout 0 on. May be repeated.
    pub steps: Vec<Vec<String>>,
}

impl Layout {
    /// Brings the tables up to date.
    ///
    /// # Errors
    /// [`RegistryError::Refused`] when a newer program made them or the user may not, [`RegistryError::Unavailable`] when
    /// that may pass.
    pub async fn prepare(&self, link: &mut Link) -> Result<(), RegistryError> {
        let explain = |error| fault::explain(&self.place, &error);
        let newest = i64::try_from(self.steps.len()).unwrap_or(i64::MAX);
        for _ in 0..LOOKS {
            match self.layout(link).await {
                Ok(layout) if layout == newest => return Ok(()),
                Ok(newer) if newer > newest => {
                    return Err(RegistryError::Refused(format!(
                        "{} has layout {newer} of a newer evenkeel: run at least that version",
                        self.place
                    )));
                }
                Ok(layout) => {
                    if !self.step(link, layout).await.map_err(explain)? {
                        tokio::time::sleep(LOOK).await;
                    }
                }
                Err(error) if fault::is_missing_table(&error) => match self.begin(link).await {
                    // Whoever made it first has made it for us.
                    Err(error) if fault::is_made_twice(&error) => tokio::time::sleep(LOOK).await,
                    made => made.map_err(explain)?,
                },
                Err(error) => return Err(explain(error)),
            }
        }
        Err(RegistryError::Unavailable(format!(
            "{} is being brought up to date by another node: try again when that is done",
            self.place
        )))
    }

    /// Whether the table that all begins with is there.
    ///
    /// # Errors
    /// [`RegistryError::Refused`] when the user may not look, [`RegistryError::Unavailable`] when that may pass.
    pub async fn is_there(&self, link: &mut Link) -> Result<bool, RegistryError> {
        let layout = Statement::of(self.tongue.numbered, "SELECT layout FROM ").then(&self.meta);
        match link.rows(layout).await {
            Ok(_) => Ok(true),
            Err(error) if fault::is_missing_table(&error) => Ok(false),
            Err(error) => Err(fault::explain(&self.place, &error)),
        }
    }

    async fn layout(&self, link: &mut Link) -> Result<i64, Error> {
        let layout = Statement::of(self.tongue.numbered, "SELECT layout FROM ").then(&self.meta);
        match link.rows(layout).await?.pop() {
            Some(row) => row.int(0),
            None => {
                self.begin(link).await?;
                Ok(0)
            }
        }
    }

    async fn begin(&self, link: &mut Link) -> Result<(), Error> {
        for text in &self.first {
            link.say(text).await?;
        }
        Ok(())
    }

    /// Does the next step, where nobody else is at it.
    async fn step(&self, link: &mut Link, layout: i64) -> Result<bool, Error> {
        let (meta, now, numbered) = (&self.meta, self.tongue.now, self.tongue.numbered);
        let claim = format!(
            "UPDATE {meta} SET busy_until = {now} + {TURN_MILLIS} WHERE busy_until < {now} AND layout = "
        );
        if link.run(Statement::of(numbered, claim).with(Arg::Int(layout))).await? == 0 {
            return Ok(false);
        }
        let step = usize::try_from(layout).ok().and_then(|layout| self.steps.get(layout));
        let (begin, end) = self.tongue.unhurried.unzip();
        let step = step.into_iter().flatten().map(String::as_str);
        for text in begin.into_iter().chain(step).chain(end) {
            link.say(text).await?;
        }
        let done = format!("UPDATE {meta} SET busy_until = 0, layout = layout + 1 WHERE layout = ");
        link.run(Statement::of(numbered, done).with(Arg::Int(layout))).await?;
        Ok(true)
    }
}

/// The tables of a registry.
pub(super) fn of(config: &Config) -> Layout {
    let (meta, dialect) = (config.tables.meta.clone(), config.dialect);
    let (ignore, nothing) = dialect.tongue.ignore;
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
    let steps = vec![(dialect.first_layout)(&config.tables)];
    Layout { place: config.place.clone(), tongue: dialect.tongue, meta, first, steps }
}

/// Remembers which server keeps the registry, and returns how often that may have gone back in time.
pub(super) async fn adopt(link: &mut Link, config: &Config, identity: &str) -> Result<u16, Error> {
    let (meta, dialect) = (&config.tables.meta, config.dialect);
    link.say(dialect.begin).await?;
    let select = Statement::new(dialect, "SELECT generation, server FROM ").then(meta).then(" FOR UPDATE");
    let row = link.row(select).await?;
    let (mut generation, known) = (row.int(0)?, row.text(1)?);
    if known != identity {
        // At the very first there is nothing to have lost.
        generation += i64::from(!known.is_empty());
        let save = Statement::new(dialect, "UPDATE ").then(meta).then(" SET generation = ");
        let save = save.with(Arg::Int(generation)).then(", server = ").with(Arg::Text(identity));
        link.run(save).await?;
    }
    link.say("COMMIT").await?;
    Ok(u16::try_from(generation).unwrap_or(u16::MAX))
}

/// Raises the generation above one in which the server went back in time, for whoever connects next.
pub(super) async fn raise(link: &mut Link, config: &Config, lost: u16) -> Result<(), Error> {
    let update = Statement::new(config.dialect, "UPDATE ").then(&config.tables.meta);
    let update = update.then(" SET generation = GREATEST(generation, ").with(Arg::Int(i64::from(lost) + 1));
    link.run(update.then(")")).await.map(drop)
}
