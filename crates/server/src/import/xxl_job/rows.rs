//! Rows of the tables in a text: `INSERT` statements, CSV with a header, or JSON.

use serde_json::Value;

use super::super::foreign_keys::scalar;
use super::super::sql_rows::{self, ForeignRow, column};

/// The table with the jobs.
pub(super) const JOBS: &str = "xxl_job_info";
/// The table with the executors.
pub(super) const GROUPS: &str = "xxl_job_group";

/// The rows of both tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct XxlTables {
    /// The jobs.
    pub(super) jobs: Vec<ForeignRow>,
    /// The executors; empty where only the jobs were exported.
    pub(super) groups: Vec<ForeignRow>,
}

/// Its columns since version 2.3, in their order, for statements that name none and come without the table's own statement.
const COLUMNS: [&str; 24] = [
    "id",
    "job_group",
    "job_desc",
    "add_time",
    "update_time",
    "author",
    "alarm_email",
    "schedule_type",
    "schedule_conf",
    "misfire_strategy",
    "executor_route_strategy",
    "executor_handler",
    "executor_param",
    "executor_block_strategy",
    "executor_timeout",
    "executor_fail_retry_count",
    "glue_type",
    "glue_source",
    "glue_remark",
    "glue_updatetime",
    "child_jobid",
    "trigger_status",
    "trigger_last_time",
    "trigger_next_time",
];

/// The columns of the executors since version 2.3.
const GROUP_COLUMNS: [&str; 6] = ["id", "app_name", "title", "address_type", "address_list", "update_time"];

/// Reads the rows of the tables from a text in any of the formats. Only a dump can have both tables.
///
/// # Errors
/// The text is in none of them; the reason is that of the format it looks like.
pub(super) fn read(text: &str) -> Result<XxlTables, String> {
    let text = text.trim_start();
    if text.starts_with(['[', '{']) {
        return json(text).map(of_jobs);
    }
    match text.to_ascii_lowercase().contains("insert into") {
        true => Ok(XxlTables {
            jobs: sql_rows::inserts(text, JOBS, &COLUMNS)?,
            groups: sql_rows::inserts(text, GROUPS, &GROUP_COLUMNS)?,
        }),
        false => csv(text).map(of_jobs),
    }
}

fn of_jobs(jobs: Vec<ForeignRow>) -> XxlTables {
    XxlTables { jobs, groups: Vec::new() }
}

/// A list of rows, or a table whose one list they are, as exporters write it.
fn json(text: &str) -> Result<Vec<ForeignRow>, String> {
    let value: Value = serde_json::from_str(text).map_err(|e| e.to_string())?;
    let list = match value {
        Value::Array(list) => list,
        Value::Object(map) if map.contains_key("id") => vec![Value::Object(map)],
        Value::Object(map) => map
            .into_iter()
            .find_map(|(_, value)| match value {
                Value::Array(list) => Some(list),
                _ => None,
            })
            .unwrap_or_default(),
        _ => Vec::new(),
    };
    let row = |value: &Value| {
        let map = value.as_object().ok_or("a row is a table of columns")?;
        let cells = map.iter().filter(|(_, value)| !value.is_null());
        cells.map(|(name, value)| Ok((column(name), scalar(value).ok_or("a column is a text")?))).collect()
    };
    list.iter().map(row).collect::<Result<_, &str>>().map_err(ToOwned::to_owned)
}

fn csv(text: &str) -> Result<Vec<ForeignRow>, String> {
    let mut reader = csv::ReaderBuilder::new().flexible(false).from_reader(text.as_bytes());
    let head = reader.headers().map_err(|e| e.to_string())?.clone();
    if !head.iter().any(|name| name == "glue_type") {
        return Err(
            "it is neither a dump with INSERT statements nor a CSV file with the columns of xxl_job_info"
                .to_owned(),
        );
    }
    let rows = reader.records().map(|record| {
        let record = record.map_err(|e| e.to_string())?;
        let cells = head.iter().zip(record.iter()).filter(|(_, cell)| !matches!(*cell, "NULL" | r"\N"));
        Ok(cells.map(|(name, cell)| (name.to_owned(), cell.to_owned())).collect())
    });
    rows.collect()
}
