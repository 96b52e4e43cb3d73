//! Records as rows: CSV with a header, JSON, or `INSERT` statements of a dump.

use serde_json::Value;

use super::log::{BadRecord, RivalFire, RivalLog, RivalRecord, RivalSource, RivalSubject};
use super::moment_text;
use crate::import::foreign_keys::scalar;
use crate::import::sql_rows::{self, ForeignRow, column};

/// A table whose rows are runs.
pub(super) struct RivalTable {
    /// Its name in a dump; empty for rows that come from no table.
    name: &'static str,
    /// Its columns in their order, for statements that name none.
    columns: &'static [&'static str],
    /// What a row says.
    record: fn(&ForeignRow, &RivalSource) -> Result<RivalRecord, String>,
}

/// Rows with a job and a time.
pub(super) const PLAIN: RivalTable = RivalTable { name: "", columns: &[], record: plain };

/// XXL-JOB's log, a row for each run or, of a broadcast job, for each shard.
pub(super) const XXL_JOB: RivalTable = RivalTable {
    name: "xxl_job_log",
    columns: &[
        "id",
        "job_group",
        "job_id",
        "executor_address",
        "executor_handler",
        "executor_param",
        "executor_sharding_param",
        "executor_fail_retry_count",
        "trigger_time",
        "trigger_code",
        "trigger_msg",
        "handle_time",
        "handle_code",
        "handle_msg",
        "alarm_status",
    ],
    record: xxl_job,
};

/// ElasticJob's log, a row for each shard of a run.
pub(super) const ELASTIC_JOB: RivalTable = RivalTable {
    name: "job_execution_log",
    columns: &[
        "id",
        "job_name",
        "task_id",
        "hostname",
        "ip",
        "sharding_item",
        "execution_source",
        "failure_cause",
        "is_success",
        "start_time",
        "complete_time",
    ],
    record: elastic_job,
};

/// The names of the columns of plain rows.
const JOB: [&str; 3] = ["job", "name", "job_name"];
const TIME: [&str; 6] = ["time", "at", "start", "started", "start_time", "timestamp"];
const OUTCOME: [&str; 4] = ["outcome", "state", "status", "result"];

/// Whether a line is the header of plain rows.
pub(super) fn is_head(line: &str) -> bool {
    let columns: Vec<String> = line.split(',').map(|name| column(name.trim().trim_matches('"'))).collect();
    let has = |names: &[&str]| columns.iter().any(|column| names.contains(&column.as_str()));
    has(&JOB) && has(&TIME)
}

/// Reads the rows of a table. A row that cannot be read leaves the others as they are.
///
/// # Errors
/// The text as a whole is in no form of rows.
pub(super) fn read(text: &str, table: &RivalTable, source: &RivalSource) -> Result<RivalLog, String> {
    let start = text.trim_start();
    let mut log = RivalLog::default();
    if start.starts_with(['{', '[']) {
        json(text, table, source, &mut log)?;
    } else if !table.name.is_empty() && start.to_ascii_lowercase().contains("insert into") {
        // Names of tables are in capitals in some dumps.
        let rows = sql_rows::inserts(start, table.name, table.columns)?;
        for (n, row) in rows.into_iter().enumerate() {
            let row = row.into_iter().map(|(name, cell)| (column(&name), cell)).collect();
            log.take(source, &format!("row {}", n + 1), (table.record)(&row, source));
        }
    } else {
        csv(text, table, source, &mut log)?;
    }
    Ok(log)
}

/// A row on each line, a list of rows, or an object whose one list they are.
fn json(text: &str, table: &RivalTable, source: &RivalSource, log: &mut RivalLog) -> Result<(), String> {
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let is_row = |value: Value| value.as_object().is_some_and(|map| !map.values().any(Value::is_array));
    if serde_json::from_str(first).is_ok_and(is_row) {
        for (n, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let row = serde_json::from_str(line).map_err(|e| e.to_string()).and_then(|row| cells(&row));
            let record = row.and_then(|row| (table.record)(&row, source));
            log.take(source, &format!("line {}", n + 1), record);
        }
        return Ok(());
    }
    let list = match serde_json::from_str(text).map_err(|e| e.to_string())? {
        Value::Array(list) => list,
        Value::Object(map) => {
            let mut lists = map.into_iter().filter_map(|(_, value)| match value {
                Value::Array(list) => Some(list),
                _ => None,
            });
            lists.next_back().ok_or("it holds no list of rows")?
        }
        _ => return Err("it holds no list of rows".to_owned()),
    };
    for (n, row) in list.iter().enumerate() {
        let record = cells(row).and_then(|row| (table.record)(&row, source));
        log.take(source, &format!("row {}", n + 1), record);
    }
    Ok(())
}

/// The plain values of a row.
fn cells(row: &Value) -> Result<ForeignRow, String> {
    let map = row.as_object().ok_or("it is no object with a value for each column")?;
    let cells = map.iter().filter(|(_, value)| !value.is_null());
    Ok(cells.filter_map(|(name, value)| Some((column(name), scalar(value)?))).collect())
}

fn csv(text: &str, table: &RivalTable, source: &RivalSource, log: &mut RivalLog) -> Result<(), String> {
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(text.as_bytes());
    let head: Vec<String> =
        reader.headers().map_err(|e| e.to_string())?.iter().map(|name| column(name.trim())).collect();
    if table.name.is_empty() && !is_head(&head.join(",")) {
        return Err("its first line does not name the columns: write job,time or job,time,outcome".to_owned());
    }
    for record in reader.records() {
        let record = match record {
            Ok(record) => record,
            Err(e) => {
                let place = e.position().map_or_else(String::new, |at| format!("line {}", at.line()));
                log.bad.push(BadRecord { place: format!("{}: {place}", source.shown), why: e.to_string() });
                continue;
            }
        };
        let place = record.position().map_or_else(String::new, |at| format!("line {}", at.line()));
        let row = match record.len() == head.len() {
            true => {
                let cells = head.iter().cloned().zip(record.iter().map(|cell| cell.trim().to_owned()));
                Ok(cells.filter(|(_, cell)| !matches!(cell.as_str(), "" | "NULL" | r"\N")).collect())
            }
            false => Err(format!("it has {} values, and the header {} columns", record.len(), head.len())),
        };
        log.take(source, &place, row.and_then(|row| (table.record)(&row, source)));
    }
    Ok(())
}

/// The first of these columns that a row has.
fn cell<'a>(row: &'a ForeignRow, names: &[&str]) -> Result<&'a str, String> {
    let found = names.iter().find_map(|name| row.get(*name)).map(String::as_str).filter(|it| !it.is_empty());
    found.ok_or_else(|| format!("it has no {}", names.first().unwrap_or(&"value")))
}

fn plain(row: &ForeignRow, source: &RivalSource) -> Result<RivalRecord, String> {
    let subject = RivalSubject::Name(cell(row, &JOB)?.to_owned());
    let at = moment_text::read(cell(row, &TIME)?, &source.zone)?;
    let outcome = cell(row, &OUTCOME).unwrap_or_default().to_owned();
    Ok(RivalRecord::Fire(subject, RivalFire { at, outcome, shard: None, id: None }))
}

fn xxl_job(row: &ForeignRow, source: &RivalSource) -> Result<RivalRecord, String> {
    let handler = row.get("executor_handler").cloned().unwrap_or_default();
    let subject = RivalSubject::XxlJob { id: cell(row, &["job_id"])?.to_owned(), handler };
    let at = moment_text::read(cell(row, &["trigger_time"])?, &source.zone)?;
    let code = |name: &str| row.get(name).map(String::as_str);
    let outcome = match (code("trigger_code"), code("handle_code")) {
        (Some(code), _) if code != "200" => "not triggered",
        (_, Some("200")) => "succeeded",
        (_, None | Some("0")) => "",
        _ => "failed",
    };
    let shard =
        row.get("executor_sharding_param").and_then(|text| text.split('/').next()?.trim().parse().ok());
    let id = row.get("id").cloned();
    Ok(RivalRecord::Fire(subject, RivalFire { at, outcome: outcome.to_owned(), shard, id }))
}

fn elastic_job(row: &ForeignRow, source: &RivalSource) -> Result<RivalRecord, String> {
    let subject = RivalSubject::Name(cell(row, &["job_name"])?.to_owned());
    let at = moment_text::read(cell(row, &["start_time"])?, &source.zone)?;
    let outcome = match row.get("is_success").map(|text| text.to_ascii_lowercase()).as_deref() {
        Some("1" | "true") => "succeeded",
        Some("0" | "false") if row.contains_key("complete_time") => "failed",
        _ => "",
    };
    let shard = row.get("sharding_item").and_then(|item| item.parse().ok());
    let id = row.get("id").cloned();
    Ok(RivalRecord::Fire(subject, RivalFire { at, outcome: outcome.to_owned(), shard, id }))
}
