//! Deletes a registry: its tables, and what keeps the order of its writers.

use sqlx::Error;

use super::config::{SqlConfig, with_timeout};
use super::connection::SqlConnection;
use super::dialect::TableNames;

/// Deletes what is there. The counter's table goes last: as long as it is there, so is the registry.
pub(super) async fn erase(config: SqlConfig) -> Result<(), Error> {
    let mut link = SqlConnection::open(&config.target, config.session_setup()).await?;
    let dialect = with_timeout((config.dialect.of_server)(&mut link)).await?;
    let TableNames { meta, entry, lease, change, order, .. } = &config.with_dialect(dialect).tables;
    for table in [entry, lease, change] {
        with_timeout(link.execute_text(&format!("DROP TABLE IF EXISTS {table}"))).await?;
    }
    for statement in &order.remove {
        with_timeout(link.execute_text(statement)).await?;
    }
    with_timeout(link.execute_text(&format!("DROP TABLE IF EXISTS {meta}"))).await
}
