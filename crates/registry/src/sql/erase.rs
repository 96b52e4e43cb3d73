//! Deletes a registry: its tables, and the sequence if it has one.

use sqlx::Error;

use super::config::{SqlConfig, with_timeout};
use super::connection::SqlConnection;
use super::dialect::TableNames;

/// Deletes what is there. The counter's table goes last: as long as it is there, so is the registry.
pub(super) async fn erase(config: &SqlConfig) -> Result<(), Error> {
    let mut link = SqlConnection::open(&config.target, config.session_setup()).await?;
    let TableNames { meta, entry, lease, change, order, .. } = &config.tables;
    for table in [entry, lease, change] {
        with_timeout(link.execute_text(&format!("DROP TABLE IF EXISTS {table}"))).await?;
    }
    if let Some(sequence) = &order.sequence {
        with_timeout(link.execute_text(&format!("DROP SEQUENCE IF EXISTS {sequence}"))).await?;
    }
    with_timeout(link.execute_text(&format!("DROP TABLE IF EXISTS {meta}"))).await
}
