//! The tables of a registry: made, and brought up to date, by whoever comes first while the others wait.
//!
//! Each step can be repeated: a node that died in the middle of one is followed by another that does it again.

use std::time::Duration;

use sqlx::Error;

use super::Config;
use super::fault;
use super::link::Link;
use super::statement::{Arg, Statement};
use crate::RegistryError;

/// The newest layout, which is the number of steps there are.
const NEWEST: i64 = 1;

/// How long a step may take before others take its maker for dead, and how often they look, and for how long.
const TURN_MILLIS: i64 = 30_000;
const LOOK: Duration = Duration::from_millis(50);
const LOOKS: u32 = 2_400;

/// Brings the tables up to date.
pub(super) async fn prepare(link: &mut Link, config: &Config) -> Result<(), RegistryError> {
    let explain = |error| fault::explain(&config.shown, &error);
    for _ in 0..LOOKS {
        match layout(link, config).await {
            Ok(NEWEST) => return Ok(()),
            Ok(newer) if newer > NEWEST => {
                return Err(RegistryError::Refused(format!(
                    "registry {} has layout {newer} of a newer evenkeel: run at least that version",
                    config.shown
                )));
            }
            Ok(layout) => {
                if !step(link, config, layout).await.map_err(explain)? {
                    tokio::time::sleep(LOOK).await;
                }
            }
            Err(error) if fault::is_missing_table(&error) => match begin(link, config).await {
                // Whoever made it first has made it for us.
                Err(error) if fault::is_made_twice(&error) => tokio::time::sleep(LOOK).await,
                made => made.map_err(explain)?,
            },
            Err(error) => return Err(explain(error)),
        }
    }
    Err(RegistryError::Unavailable(format!(
        "registry {} is being brought up to date by another node: try again when that is done",
        config.shown
    )))
}

async fn layout(link: &mut Link, config: &Config) -> Result<i64, Error> {
    let layout = Statement::new(config.dialect, "SELECT layout FROM ").then(&config.tables.meta);
    match link.rows(layout).await?.pop() {
        Some(row) => row.int(0),
        None => {
            begin(link, config).await?;
            Ok(0)
        }
    }
}

/// Makes the counter's table and its one row.
async fn begin(link: &mut Link, config: &Config) -> Result<(), Error> {
    let meta = &config.tables.meta;
    let (ignore, nothing) = config.dialect.ignore;
    let (identity, table) = (config.dialect.identity, config.dialect.table);
    link.say(&format!(
        "CREATE TABLE IF NOT EXISTS {meta} (one SMALLINT PRIMARY KEY, layout BIGINT NOT NULL, busy_until BIGINT NOT NULL,
         generation BIGINT NOT NULL, server {identity} NOT NULL, revision BIGINT NOT NULL, forgotten BIGINT NOT NULL,
         changes BIGINT NOT NULL, leases BIGINT NOT NULL, clock BIGINT NOT NULL) {table}"
    ))
    .await?;
    link.say(&format!(
        "INSERT {ignore} INTO {meta} (one, layout, busy_until, generation, server, revision, forgotten, changes, leases,
         clock) VALUES (1, 0, 0, 0, '', 0, 0, 0, 0, 0) {nothing}"
    ))
    .await
}

/// Does the next step, where nobody else is at it.
async fn step(link: &mut Link, config: &Config, layout: i64) -> Result<bool, Error> {
    let (meta, now) = (&config.tables.meta, config.dialect.now);
    let claim = format!(
        "UPDATE {meta} SET busy_until = {now} + {TURN_MILLIS} WHERE busy_until < {now} AND layout = "
    );
    let claim = Statement::new(config.dialect, claim).with(Arg::Int(layout));
    if link.run(claim).await? == 0 {
        return Ok(false);
    }
    for text in (config.dialect.first_layout)(&config.tables) {
        link.say(&text).await?;
    }
    let done = format!("UPDATE {meta} SET busy_until = 0, layout = layout + 1 WHERE layout = ");
    link.run(Statement::new(config.dialect, done).with(Arg::Int(layout))).await?;
    Ok(true)
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
