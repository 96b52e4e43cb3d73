//! Rows of the tables in a text: `INSERT` statements, CSV with a header, or JSON.

use std::collections::BTreeMap;

use serde_json::Value;

use super::super::foreign_keys::scalar;
use super::ForeignRow;

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
        true => inserts(text),
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

/// The API of XXL-JOB writes `jobDesc` for the column `job_desc`.
fn column(name: &str) -> String {
    let mut column = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() {
            column.push('_');
        }
        column.push(c.to_ascii_lowercase());
    }
    if column == "child_job_id" { "child_jobid".to_owned() } else { column }
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

/// A part of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
enum SqlToken {
    /// A word, a number or a name, without its backticks.
    Word(String),
    /// A text in quotes.
    Text(String),
    /// One of `( ) , ;` and the like.
    Sign(char),
}

fn inserts(text: &str) -> Result<XxlTables, String> {
    let tokens = tokens(text)?;
    let usual = |names: &[&str]| -> Vec<String> { names.iter().map(|name| (*name).to_owned()).collect() };
    let mut columns = BTreeMap::from([(JOBS, usual(&COLUMNS)), (GROUPS, usual(&GROUP_COLUMNS))]);
    let mut tables = XxlTables::default();
    for statement in tokens.split(|token| *token == SqlToken::Sign(';')) {
        let words: Vec<String> = statement
            .iter()
            .take(8)
            .map_while(|token| match token {
                SqlToken::Word(word) => Some(word.to_ascii_lowercase()),
                _ => None,
            })
            .collect();
        let Some(table) = words.iter().find_map(|word| table(word)) else { continue };
        match words.first().map(String::as_str) {
            Some("create") => {
                columns.insert(table, declared(statement));
            }
            Some("insert" | "replace") => {
                let rows = if table == JOBS { &mut tables.jobs } else { &mut tables.groups };
                insert(statement, columns.get(table).map_or(&[], Vec::as_slice), rows)?;
            }
            _ => {}
        }
    }
    Ok(tables)
}

/// The table that a word names, alone or behind its database.
fn table(word: &str) -> Option<&'static str> {
    let name = word.rsplit('.').next();
    [JOBS, GROUPS].into_iter().find(|table| name == Some(*table))
}

/// The columns of a `CREATE TABLE`: the first word after its bracket and after each comma between columns.
fn declared(statement: &[SqlToken]) -> Vec<String> {
    let (mut depth, mut is_first) = (0_usize, false);
    let mut columns = Vec::new();
    for token in statement {
        match token {
            SqlToken::Sign('(') => {
                depth += 1;
                is_first = depth == 1;
                continue;
            }
            SqlToken::Sign(')') => depth = depth.saturating_sub(1),
            SqlToken::Sign(',') if depth == 1 => {
                is_first = true;
                continue;
            }
            SqlToken::Word(word) if is_first && depth == 1 => {
                let other = ["primary", "key", "unique", "index", "constraint"];
                if !other.contains(&word.to_ascii_lowercase().as_str()) {
                    columns.push(word.clone());
                }
            }
            _ => {}
        }
        is_first = false;
    }
    columns
}

/// The rows of an `INSERT`: brackets after `VALUES`, in the order of the columns that it names or of the table.
fn insert(statement: &[SqlToken], columns: &[String], rows: &mut Vec<ForeignRow>) -> Result<(), String> {
    let is_values =
        |token: &SqlToken| matches!(token, SqlToken::Word(word) if word.eq_ignore_ascii_case("values"));
    let Some(at) = statement.iter().position(is_values) else {
        return Err("an INSERT without VALUES cannot be read".to_owned());
    };
    let (head, values) = statement.split_at(at);
    let words = |tokens: &[SqlToken]| -> Vec<String> {
        tokens
            .iter()
            .filter_map(|token| match token {
                SqlToken::Word(word) => Some(word.clone()),
                _ => None,
            })
            .collect()
    };
    let named = head.iter().position(|token| *token == SqlToken::Sign('('));
    let named = named.map(|at| words(head.get(at..).unwrap_or_default()));
    let columns = named.as_deref().unwrap_or(columns);
    let mut cells: Vec<Option<String>> = Vec::new();
    let mut is_open = false;
    for token in values {
        match token {
            SqlToken::Sign('(') => is_open = true,
            SqlToken::Sign(')') if is_open => {
                is_open = false;
                if cells.len() != columns.len() {
                    return Err(format!(
                        "a row has {} values, and the table has {} columns",
                        cells.len(),
                        columns.len()
                    ));
                }
                let row = columns.iter().zip(std::mem::take(&mut cells));
                rows.push(row.filter_map(|(name, cell)| Some((name.clone(), cell?))).collect());
            }
            SqlToken::Word(word) if is_open && word.eq_ignore_ascii_case("null") => cells.push(None),
            // The character set of a text stands before it.
            SqlToken::Word(word) if is_open && word.starts_with('_') => {}
            SqlToken::Word(text) | SqlToken::Text(text) if is_open => cells.push(Some(text.clone())),
            _ => {}
        }
    }
    Ok(())
}

fn tokens(text: &str) -> Result<Vec<SqlToken>, String> {
    let mut tokens = Vec::new();
    let mut letters = text.chars().peekable();
    while let Some(c) = letters.next() {
        match c {
            '\'' | '"' => tokens.push(SqlToken::Text(quoted(c, &mut letters)?)),
            '`' => tokens.push(SqlToken::Word(letters.by_ref().take_while(|c| *c != '`').collect())),
            '#' => letters.by_ref().take_while(|c| *c != '\n').for_each(drop),
            '-' if letters.peek() == Some(&'-') => letters.by_ref().take_while(|c| *c != '\n').for_each(drop),
            '/' if letters.peek() == Some(&'*') => {
                let mut before = ' ';
                letters
                    .by_ref()
                    .skip(1)
                    .take_while(|c| {
                        let is_end = before == '*' && *c == '/';
                        before = *c;
                        !is_end
                    })
                    .for_each(drop);
            }
            c if c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '+') => {
                let mut word = c.to_string();
                while let Some(c) = letters.next_if(|c| c.is_alphanumeric() || matches!(c, '_' | '.')) {
                    word.push(c);
                }
                tokens.push(SqlToken::Word(word));
            }
            c if c.is_whitespace() => {}
            c => tokens.push(SqlToken::Sign(c)),
        }
    }
    Ok(tokens)
}

/// A text up to its closing quote, with MySQL's escapes.
fn quoted(quote: char, letters: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Result<String, String> {
    let mut text = String::new();
    while let Some(c) = letters.next() {
        match c {
            '\\' => text.push(match letters.next() {
                Some('n') => '\n',
                Some('r') => '\r',
                Some('t') => '\t',
                Some('0') => '\0',
                Some('b') => '\u{8}',
                Some('Z') => '\u{1a}',
                Some(other) => other,
                None => break,
            }),
            c if c == quote => match letters.next_if_eq(&quote) {
                Some(doubled) => text.push(doubled),
                None => return Ok(text),
            },
            c => text.push(c),
        }
    }
    Err("a text is not closed".to_owned())
}
