//! The first connection after a start of the server, where a crash may have taken back what it had shown.

use evenkeel_core::registry::Revision;
use sqlx::Error;

use super::connection::SqlConnection;
use super::dialect::{RegistryDialect, TableNames};
use super::statement::SqlStatement;

/// How far the order moves on when the server has started: further than all revisions that a crash can have taken back.
const LEAP: u64 = 1 << 20;

/// Moves the order on, once for each start of the server, where a crash may take back revisions that it has shown. So none
/// of them is given again, and every listener lists again. To be called on each new connection, before anything else is
/// read or written on it.
pub(super) async fn pass_restart(
    link: &mut SqlConnection,
    dialect: &RegistryDialect,
    tables: &TableNames,
) -> Result<(), Error> {
    let TableNames { meta, order, .. } = tables;
    let Some((running, sequence)) = order.running.as_ref().zip(order.sequence.as_ref()) else {
        return Ok(());
    };
    let sql = |text: String| SqlStatement::new(dialect, text);
    let known = format!("SELECT count(*) FROM {running}");
    if link.ask_one(sql(known.clone())).await?.int(0)? != 0 {
        return Ok(());
    }
    let begin = format!("{}; {}{}", dialect.begin, order.queue, order.close_gate);
    let found = format!("{begin}SELECT {}, ({known}) FROM {meta} m", order.position);
    let found = link.ask_one(sql(found)).await?;
    let shown = found.revision(0)?;
    if found.int(1)? == 0 {
        if shown > Revision(0) {
            let leap = Revision(shown.0 + LEAP);
            let forget = format!("UPDATE {meta} SET forgotten = {leap}");
            link.execute_text(&format!("{}; {forget}", sequence.move_on(&leap.to_string()))).await?;
        }
        return link.execute_text(&format!("COMMIT; INSERT IGNORE INTO {running} VALUES (1)")).await;
    }
    link.execute_text("ROLLBACK").await
}
