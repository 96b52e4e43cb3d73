//! Rows of the switches that operators set at run time; an applied file keeps or ends them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::local_time;

/// A switch by which a job differs from its file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct SwitchRow {
    /// `disabled`, `enabled` (although the file disables it), `paused`, `shards_disabled`, or on one node `disabled`, `paused`
    /// or `shutdown`.
    pub(crate) switch: String,
    /// The only node that it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) node: Option<String>,
    /// The only shards that it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) shards: Option<String>,
    /// When it was set; not known if an earlier version set it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) since: Option<String>,
    /// The operator's name as the request claimed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) by: Option<String>,
    /// What ends it: a command, or words for `shutdown`.
    pub(crate) ends: String,
}

impl SwitchRow {
    /// The switch, its time and its operator, in words.
    pub(crate) fn description(&self) -> String {
        let what = match (self.switch.as_str(), &self.shards) {
            ("enabled", _) => "enabled, although its file disables it,".to_owned(),
            ("shards_disabled", Some(shards)) => format!("shards {shards} disabled"),
            ("shutdown", _) => "shut down".to_owned(),
            (switch, _) => switch.to_owned(),
        };
        let node = self.node.as_ref().map(|node| format!(" on node {node}")).unwrap_or_default();
        let since = self.since.as_deref().map(|at| format!(" since {}", local_time::local(Some(at))));
        let by = self.by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default();
        format!("{what}{node}{}{by}", since.unwrap_or_default())
    }

    /// The command that ends it, for use in a sentence.
    pub(crate) fn undo_hint(&self) -> String {
        match self.ends.starts_with("evenkeel ") {
            true => format!("`{}` ends it", self.ends),
            false => format!("it ends when {}", self.ends),
        }
    }

    /// A message that an applied file ends it.
    pub(crate) fn ended(&self) -> String {
        format!("{}: the file ends that, because its `enabled` has changed", self.description())
    }

    /// A message that an applied file keeps it.
    pub(crate) fn left(&self) -> String {
        format!("{}, left so; {}", self.description(), self.undo_hint())
    }
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
        assert_eq!(row.left(), "disabled by ops@host, left so; `evenkeel job enable backup` ends it");
        let ended = "disabled by ops@host: the file ends that, because its `enabled` has changed";
        assert_eq!(row.ended(), ended);
        let shards =
            SwitchRow { switch: "shards_disabled".into(), shards: Some("0-1".into()), ..row.clone() };
        assert_eq!(shards.description(), "shards 0-1 disabled by ops@host");
        let ends = "the node is started again".to_owned();
        let node = SwitchRow { switch: "shutdown".into(), node: Some("n1".into()), by: None, ends, ..row };
        assert_eq!(node.left(), "shut down on node n1, left so; it ends when the node is started again");
    }
}
