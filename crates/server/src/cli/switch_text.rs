//! Switches of operators in words.

use crate::local_time;
use evenkeel_client::types::SwitchRow;

/// The switch, its time and its operator, in words.
pub(super) fn description(row: &SwitchRow) -> String {
    let what = match (row.switch.as_str(), &row.shards) {
        ("enabled", _) => "enabled, although its file disables it,".to_owned(),
        ("shards_disabled", Some(shards)) => format!("shards {shards} disabled"),
        ("shutdown", _) => "shut down".to_owned(),
        (switch, _) => switch.to_owned(),
    };
    let node = row.node.as_ref().map(|node| format!(" on node {node}")).unwrap_or_default();
    let since = row.since.as_deref().map(|at| format!(" since {}", local_time::local(Some(at))));
    let by = row.by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default();
    format!("{what}{node}{}{by}", since.unwrap_or_default())
}

/// The command that ends it, for use in a sentence.
pub(super) fn undo_hint(row: &SwitchRow) -> String {
    match row.ends.starts_with("evenkeel ") {
        true => format!("`{}` ends it", row.ends),
        false => format!("it ends when {}", row.ends),
    }
}

/// A message that an applied file ends it.
pub(super) fn ended(row: &SwitchRow) -> String {
    format!("{}: the file ends that, because its `enabled` has changed", description(row))
}

/// A message that an applied file keeps it.
pub(super) fn left(row: &SwitchRow) -> String {
    format!("{}, left so; {}", description(row), undo_hint(row))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_says_what_it_is_since_when_by_whom_and_what_ends_it() {
        let row = SwitchRow {
            switch: "disabled".into(),
            node: None,
            shards: None,
            since: None,
            by: Some("ops@host".into()),
            ends: "evenkeel job enable backup".into(),
        };
        assert_eq!(left(&row), "disabled by ops@host, left so; `evenkeel job enable backup` ends it");
        let text = "disabled by ops@host: the file ends that, because its `enabled` has changed";
        assert_eq!(ended(&row), text);
        let shards =
            SwitchRow { switch: "shards_disabled".into(), shards: Some("0-1".into()), ..row.clone() };
        assert_eq!(description(&shards), "shards 0-1 disabled by ops@host");
        let ends = "the node is started again".to_owned();
        let node = SwitchRow { switch: "shutdown".into(), node: Some("n1".into()), by: None, ends, ..row };
        assert_eq!(left(&node), "shut down on node n1, left so; it ends when the node is started again");
    }
}
