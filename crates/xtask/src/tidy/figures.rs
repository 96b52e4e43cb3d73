//! What the sources say in figures stands in a table of its own, which no update of a transcript writes.

use super::violation::TidyViolation;
use crate::tree::SourceTree;

const TABLE: &str = "crates/sim/figures.txt";

/// Complains about a figure of the table that its transcript does not show, or not in the table's order.
pub(super) fn check(tree: &SourceTree) -> Vec<TidyViolation> {
    let Some(table) = tree.text(TABLE) else {
        return vec![TidyViolation::about(TABLE, "put the sources' figures back".to_owned())];
    };
    let mut said = Vec::new();
    let (mut path, mut rest) = (String::new(), "".lines());
    for (at, line) in table.lines().enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
    {
        if let Some(file) = line.strip_prefix("== ") {
            path = format!("crates/sim/scenarios/{file}");
            rest = tree.text(&path).unwrap_or_default().lines();
        } else if let Some((id, figure)) = line.split_once(' ')
            && !rest.any(|shown| shown == figure)
        {
            let message =
                format!("{path} does not show what {id} says: {figure}: make the rule give it again");
            said.push(TidyViolation::at(TABLE, at, &message));
        }
    }
    said
}
