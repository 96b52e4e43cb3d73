//! Rows of a table of a SQL server in a dump: its `INSERT` statements.

use std::collections::BTreeMap;

/// A row of a table: the text of each column that is not null.
pub(crate) type ForeignRow = BTreeMap<String, String>;

/// The column that a Java program names so: `jobDesc` is `job_desc`.
pub(crate) fn column(name: &str) -> String {
    let (mut column, mut before) = (String::new(), '_');
    for c in name.chars() {
        if c.is_ascii_uppercase() && before.is_ascii_lowercase() {
            column.push('_');
        }
        column.push(c.to_ascii_lowercase());
        before = c;
    }
    if column == "child_job_id" { "child_jobid".to_owned() } else { column }
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

/// Reads the rows of a table from a dump. `columns` are those of the table in their order, for statements that name none and
/// come without the table's own statement.
///
/// # Errors
/// A statement cannot be read, or a row has another number of values than columns.
pub(crate) fn inserts(text: &str, table: &str, columns: &[&str]) -> Result<Vec<ForeignRow>, String> {
    let tokens = tokens(text)?;
    let mut columns: Vec<String> = columns.iter().map(|name| (*name).to_owned()).collect();
    let mut rows = Vec::new();
    for statement in tokens.split(|token| *token == SqlToken::Sign(';')) {
        let words: Vec<String> = statement
            .iter()
            .take(8)
            .map_while(|token| match token {
                SqlToken::Word(word) => Some(word.to_ascii_lowercase()),
                _ => None,
            })
            .collect();
        if !words.iter().any(|word| is_table(word, table)) {
            continue;
        }
        match words.first().map(String::as_str) {
            Some("create") => columns = declared(statement),
            Some("insert" | "replace") => insert(statement, &columns, &mut rows)?,
            _ => {}
        }
    }
    Ok(rows)
}

fn is_table(word: &str, table: &str) -> bool {
    word == table || word.rsplit('.').next() == Some(table)
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
