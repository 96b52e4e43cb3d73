//! Tables for people: which columns they have, and which of their cells are coloured.

use std::io::IsTerminal;
use std::sync::OnceLock;

use comfy_table::presets::NOTHING;
use comfy_table::{Cell, Color, ContentArrangement, Table};
use serde::Serialize;

use super::sink::plain;
use crate::exit::CliError;

/// A row of a table.
pub(crate) trait TableRow: Serialize {
    /// The heads of the columns.
    const HEADS: &'static [&'static str];
    /// The heads of further columns, which only `-o wide` and `--columns` show.
    const WIDE_HEADS: &'static [&'static str] = &[];
    /// The cells, in the order of the heads.
    fn cells(&self) -> Vec<String>;
    /// The cells of the further columns.
    fn wide_cells(&self) -> Vec<String> {
        Vec::new()
    }
    /// The name of the row, as `-o name` prints it: the cell of the first column.
    fn row_name(&self) -> String {
        self.cells().into_iter().next().unwrap_or_default()
    }
}

/// The columns that `--columns` names for this process; none for those of the format.
static COLUMNS: OnceLock<Vec<String>> = OnceLock::new();

/// The heads under which a cell is a state.
const STATE_HEADS: [&str; 4] = ["state", "outcome", "last outcome", "password"];

/// Sets the columns of this process's tables; only the first call has an effect.
pub(crate) fn choose_columns(columns: Vec<String>) {
    let _ = COLUMNS.set(columns);
}

/// How a table is drawn.
#[derive(Clone, Copy, Debug)]
pub(super) struct TableStyle<'a> {
    /// Whether all columns are shown.
    pub(super) is_wide: bool,
    /// The columns that are shown, unless it is empty.
    pub(super) columns: &'a [String],
    /// Whether states are coloured.
    pub(super) has_colour: bool,
}

impl TableStyle<'static> {
    /// What the command line and the terminal ask for.
    pub(super) fn of_process(is_wide: bool) -> Self {
        let columns = COLUMNS.get().map(Vec::as_slice).unwrap_or_default();
        Self { is_wide, columns, has_colour: has_colour() }
    }
}

/// Whether states are coloured: on a terminal that has colours, unless `NO_COLOR` is set.
pub(crate) fn has_colour() -> bool {
    let is_set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    std::io::stdout().is_terminal()
        && is_set("NO_COLOR").is_none()
        && is_set("TERM").is_some_and(|term| term != "dumb")
}

/// A list for people, with all its columns but the further ones, and without colours.
#[must_use]
pub(crate) fn table<R: TableRow>(rows: &[R]) -> String {
    let columns: Vec<usize> = (0..R::HEADS.len()).collect();
    drawn(rows, &columns, false)
}

/// A list for people in this style.
///
/// # Errors
/// There is no such column.
pub(super) fn styled<R: TableRow>(rows: &[R], style: TableStyle<'_>) -> Result<String, CliError> {
    Ok(drawn(rows, &shown_columns::<R>(style)?, style.has_colour))
}

/// The numbers of the columns that are shown, in their order.
fn shown_columns<R: TableRow>(style: TableStyle<'_>) -> Result<Vec<usize>, CliError> {
    if style.columns.is_empty() {
        let further = if style.is_wide { R::WIDE_HEADS.len() } else { 0 };
        return Ok((0..R::HEADS.len() + further).collect());
    }
    let all: Vec<&str> = R::HEADS.iter().chain(R::WIDE_HEADS).copied().collect();
    let mut shown = Vec::new();
    for wanted in style.columns {
        let wanted = column_name(wanted);
        let found = all.iter().enumerate().filter(|(_, head)| column_name(head) == wanted).map(|(n, _)| n);
        let before = shown.len();
        shown.extend(found);
        if shown.len() == before {
            let names: Vec<String> =
                all.iter().map(|head| column_name(head)).filter(|name| !name.is_empty()).collect();
            return Err(CliError::usage(format!(
                "--columns: there is no column {wanted:?}: there are {}",
                names.join(", ")
            )));
        }
    }
    Ok(shown)
}

/// A head as `--columns` names it.
fn column_name(head: &str) -> String {
    head.trim().to_lowercase().replace([' ', '_'], "-")
}

fn drawn<R: TableRow>(rows: &[R], columns: &[usize], has_colour: bool) -> String {
    let heads: Vec<&str> = R::HEADS.iter().chain(R::WIDE_HEADS).copied().collect();
    let heads: Vec<&str> = columns.iter().filter_map(|n| heads.get(*n)).copied().collect();
    let mut table = Table::new();
    table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    if has_colour {
        table.enforce_styling();
    } else {
        table.force_no_tty();
    }
    table.set_header(heads.iter().map(|head| head.to_uppercase()));
    for row in rows {
        let mut cells = row.cells();
        cells.resize(R::HEADS.len(), String::new());
        cells.extend(row.wide_cells());
        let cells = columns.iter().map(|n| cells.get(*n).map(|cell| plain(cell)).unwrap_or_default());
        table.add_row(cells.zip(&heads).map(|(text, head)| {
            let colour = STATE_HEADS.contains(head).then(|| state_colour(&text)).flatten();
            match colour {
                Some(colour) => Cell::new(text).fg(colour),
                None => Cell::new(text),
            }
        }));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let text = table.to_string();
    let lines: Vec<_> = text.lines().map(str::trim_end).collect();
    lines.join("\n")
}

/// The colour of a state; none for a word that is no known state.
fn state_colour(text: &str) -> Option<Color> {
    let word: &str = text.split([' ', ',']).next().unwrap_or_default();
    match word {
        "succeeded" | "online" | "active" | "applied" | "ok" => Some(Color::Green),
        "failed" | "lost" | "fenced" | "killed" | "timed_out" | "offline" | "refused" | "denied"
        | "disabled" => Some(Color::Red),
        "running" | "starting" => Some(Color::Cyan),
        "waiting" | "due" | "skipped" | "paused" | "draining" | "drained" | "cordoned" | "gone"
        | "unknown" => Some(Color::Yellow),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize)]
    struct ColumnTrial(&'static str);

    impl TableRow for ColumnTrial {
        const HEADS: &'static [&'static str] = &["name", "state", "last outcome"];
        const WIDE_HEADS: &'static [&'static str] = &["labels"];
        fn cells(&self) -> Vec<String> {
            vec!["a".to_owned(), self.0.to_owned(), "never".to_owned()]
        }
        fn wide_cells(&self) -> Vec<String> {
            vec!["team=x".to_owned()]
        }
    }

    fn shown(is_wide: bool, columns: &[&str], has_colour: bool) -> Result<String, String> {
        let columns: Vec<String> = columns.iter().map(ToString::to_string).collect();
        let style = TableStyle { is_wide, columns: &columns, has_colour };
        styled(&[ColumnTrial("failed")], style).map_err(|e| e.message)
    }

    #[test]
    fn a_table_has_the_columns_of_its_format_or_those_that_are_named_in_their_order() {
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let lines = |text: &str| text.lines().map(words).collect::<Vec<_>>().join("\n");
        let normal = shown(false, &[], false).expect("a table");
        assert_eq!(lines(&normal), "NAME STATE LAST OUTCOME\na failed never");
        let wide = shown(true, &[], false).expect("a table");
        assert!(wide.contains("LABELS") && wide.contains("team=x"), "{wide}");
        let picked = shown(false, &["Labels", "last_outcome", "name"], false).expect("a table");
        assert_eq!(lines(&picked), "LABELS LAST OUTCOME NAME\nteam=x never a");
        let refused = shown(false, &["name", "nmae"], false).expect_err("no such column");
        assert!(refused.contains("\"nmae\"") && refused.contains("name, state, last-outcome, labels"));
    }

    #[test]
    fn only_states_are_coloured_and_the_columns_stay_where_they_are() {
        let without = shown(false, &[], false).expect("a table");
        assert!(!without.contains('\u{1b}'));
        let with = shown(false, &[], true).expect("a table");
        assert_eq!(with.matches("failed").count(), 1);
        assert!(with.contains('\u{1b}'), "{with:?}");
        let mut bare = String::new();
        let mut pieces = with.split('\u{1b}');
        bare.push_str(pieces.next().unwrap_or_default());
        pieces.for_each(|piece| bare.push_str(piece.split_once('m').expect("a colour").1));
        let bare: Vec<&str> = bare.lines().map(str::trim_end).collect();
        assert_eq!(bare.join("\n"), without);
    }
}
