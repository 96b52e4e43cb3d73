//! The parameters of manual runs: one row for a fire, however many shards and attempts it has.

use std::collections::BTreeMap;

use evenkeel_core::ids::{FireId, RunId};
use evenkeel_core::job::RunParameters;
use evenkeel_core::time::Wall;
use evenkeel_registry::sql::SqlArg;

use super::connection::{DatabaseError, HistoryConnection};

/// The table.
pub(super) const TABLE: &str = "run_parameters";

/// Writes the parameters of the fires of a batch. They never change, so rows that are there already stay.
pub(super) async fn save(
    link: &mut HistoryConnection,
    fires: &BTreeMap<FireId, RunParameters>,
    now: Wall,
) -> Result<(), DatabaseError> {
    let text = |parameters| serde_json::to_string(parameters).map_err(|e| DatabaseError(e.to_string()));
    let texts = fires.iter().map(|(fire, parameters)| Ok((fire.to_string(), text(parameters)?)));
    let texts = texts.collect::<Result<Vec<_>, DatabaseError>>()?;
    let each = texts.iter().map(|(fire, body)| [SqlArg::Text(fire), SqlArg::Int(now.0), SqlArg::Text(body)]);
    let rows: Vec<_> = each.collect();
    let (ignore, behind) = link.dialect.ignore;
    let before = format!("INSERT {ignore}INTO {} (fire, at, body) VALUES ", link.table(TABLE));
    link.insert((&before, behind), &rows).await
}

/// Reads the parameters of a run; none of one that has none.
pub(super) async fn load(link: &mut HistoryConnection, run: &RunId) -> Result<RunParameters, DatabaseError> {
    let fire = FireId::from(run).to_string();
    let asked = link.statement(format!("SELECT body FROM {} WHERE fire = ", link.table(TABLE)));
    let rows = link.rows(asked.with(SqlArg::Text(&fire))).await?;
    let Some(row) = rows.first() else { return Ok(RunParameters::default()) };
    // A row of a newer program is left alone.
    Ok(serde_json::from_str(&row.text(0)?).unwrap_or_default())
}
