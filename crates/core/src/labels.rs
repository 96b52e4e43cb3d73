//! Labels of nodes, and node selectors of jobs.
//!
//! A node has labels, each a word with or without a value: `gpu`, `zone=eu`. A job's node selector is a list of
//! conditions, all of which must hold: `gpu`, `zone=eu|us`, `!spot`. Its name is a label of every node: `name=n1`.
//! A node that meets all of them is eligible for the job.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;
use serde::{Deserialize, Serialize};

use crate::ids::{IdError, NodeName, hidden_part};

/// The longest word or value in bytes.
const WORD_MAX: usize = 63;
/// The most labels of a node, conditions of a job, and values of a condition.
const LIST_MAX: usize = 32;
/// The label that every node has, and that no node may set.
const NAME: &str = "name";

/// A label of a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Label {
    word: String,
    value: Option<String>,
}

/// The labels of a node, in order, each word once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Vec<Label>", into = "Vec<Label>")]
pub struct Labels(Vec<Label>);

/// A condition of a node selector on one label.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Condition {
    word: String,
    /// The accepted values; any, or none at all, when empty.
    values: Vec<String>,
    /// Whether the node must not have it.
    not: bool,
}

/// A node selector: which nodes a job may run on. Those that meet all conditions, so every node when there are none. In
/// order, each condition once, so that equal meanings are equal values.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "Vec<Condition>", into = "Vec<Condition>")]
pub struct NodeSelector(Vec<Condition>);

impl Labels {
    /// The labels.
    pub fn iter(&self) -> impl Iterator<Item = &Label> {
        self.0.iter()
    }

    /// Whether there are no labels.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn find(&self, word: &str) -> Option<&Label> {
        self.0.iter().find(|label| label.word == word)
    }
}

impl NodeSelector {
    /// Whether every node is eligible.
    #[must_use]
    pub fn is_everywhere(&self) -> bool {
        self.0.is_empty()
    }

    /// The conditions.
    pub fn iter(&self) -> impl Iterator<Item = &Condition> {
        self.0.iter()
    }

    /// Whether a node of this name with these labels meets all conditions.
    #[must_use]
    pub fn fits(&self, node: &NodeName, labels: &Labels) -> bool {
        self.0.iter().all(|condition| condition.is_met(node, labels))
    }

    /// The first condition that a node does not meet.
    #[must_use]
    pub fn unmet(&self, node: &NodeName, labels: &Labels) -> Option<&Condition> {
        self.0.iter().find(|condition| !condition.is_met(node, labels))
    }
}

impl Condition {
    /// Parses a condition on any label; `name` is one like the others.
    pub(crate) fn parse(text: &str) -> Result<Self, IdError> {
        let (not, rest) = match text.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (word, values) = match rest.split_once('=') {
            Some((word, values)) => {
                (word, values.split('|').map(|v| check("the value of a label", v)).collect())
            }
            None => (rest, Ok(Vec::new())),
        };
        let (word, mut values): (_, Vec<String>) = (check("label", word)?, values?);
        values.sort_unstable();
        values.dedup();
        Ok(Self { word, values, not })
    }

    /// The label that it is about.
    pub(crate) fn word(&self) -> &str {
        &self.word
    }

    /// Whether it holds where the label has this value.
    pub(crate) fn holds(&self, value: Option<&str>) -> bool {
        let one_of = |value: &str| self.values.is_empty() || self.values.iter().any(|wanted| wanted == value);
        value.is_some_and(one_of) != self.not
    }

    fn is_met(&self, node: &NodeName, labels: &Labels) -> bool {
        let one_of = |value: &str| self.values.iter().any(|wanted| wanted == value);
        let has = match self.word.as_str() {
            NAME => one_of(node.as_str()),
            word => labels
                .find(word)
                .is_some_and(|label| self.values.is_empty() || label.value.as_deref().is_some_and(one_of)),
        };
        has != self.not
    }
}

/// Words and values stand in flags, files and URLs, hence the narrow alphabet.
pub(crate) fn check(what: &str, text: &str) -> Result<String, IdError> {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-' | b'/' | b':');
    if !text.is_empty() && text.len() <= WORD_MAX && text.bytes().all(allowed) {
        return Ok(text.to_string());
    }
    let shown: String = text.chars().take(40).collect();
    Err(IdError::new(format!(
        "{what} {shown:?} is not allowed: {}use 1 to {WORD_MAX} of A-Z a-z 0-9 . _ - / :",
        hidden_part(text)
    )))
}

impl FromStr for Label {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let (word, value) = match text.split_once('=') {
            Some((word, value)) => (word, Some(check("the value of a label", value)?)),
            None => (text, None),
        };
        let word = check("label", word)?;
        if word == NAME {
            return Err(IdError::new(
                "the label \"name\" is the node's name, which every node has: choose another word"
                    .to_string(),
            ));
        }
        Ok(Self { word, value })
    }
}

impl FromStr for Condition {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let condition = Self::parse(text)?;
        let Self { word, values, .. } = &condition;
        if word == NAME && values.is_empty() {
            return Err(IdError::new(format!("nodes has {text:?}: say which node, as name=n1")));
        }
        if values.len() > LIST_MAX {
            return Err(IdError::new(format!(
                "nodes has {} values for {word}, allowed are {LIST_MAX}: give those nodes a label of their own",
                values.len()
            )));
        }
        Ok(condition)
    }
}

impl TryFrom<Vec<Label>> for Labels {
    type Error = IdError;

    fn try_from(mut labels: Vec<Label>) -> Result<Self, IdError> {
        labels.sort_unstable();
        labels.dedup();
        if labels.len() > LIST_MAX {
            return Err(IdError::new(format!("there are {} labels, allowed are {LIST_MAX}", labels.len())));
        }
        match labels.windows(2).find(|pair| pair[0].word == pair[1].word) {
            Some(pair) => {
                Err(IdError::new(format!("the labels {} and {} are one: choose", pair[0], pair[1])))
            }
            None => Ok(Self(labels)),
        }
    }
}

impl TryFrom<Vec<Condition>> for NodeSelector {
    type Error = IdError;

    fn try_from(mut conditions: Vec<Condition>) -> Result<Self, IdError> {
        conditions.sort_unstable();
        conditions.dedup();
        if conditions.len() > LIST_MAX {
            return Err(IdError::new(format!(
                "nodes has {} conditions, allowed are {LIST_MAX}: give those nodes a label of their own",
                conditions.len()
            )));
        }
        let denied = |one: &&Condition| {
            !one.not && conditions.iter().any(|other| *other == Condition { not: true, ..(*one).clone() })
        };
        match conditions.iter().find(denied) {
            Some(one) => Err(IdError::new(format!(
                "nodes has both {:?} and {:?}, which no node can meet: leave one out",
                one.to_string(),
                format!("!{one}")
            ))),
            None => Ok(Self(conditions)),
        }
    }
}

impl TryFrom<String> for Label {
    type Error = IdError;

    fn try_from(text: String) -> Result<Self, IdError> {
        text.parse()
    }
}

impl TryFrom<String> for Condition {
    type Error = IdError;

    fn try_from(text: String) -> Result<Self, IdError> {
        text.parse()
    }
}

impl From<Label> for String {
    fn from(label: Label) -> Self {
        label.to_string()
    }
}

impl From<Condition> for String {
    fn from(condition: Condition) -> Self {
        condition.to_string()
    }
}

impl From<Labels> for Vec<Label> {
    fn from(labels: Labels) -> Self {
        labels.0
    }
}

impl From<NodeSelector> for Vec<Condition> {
    fn from(nodes: NodeSelector) -> Self {
        nodes.0
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Some(value) => write!(f, "{}={value}", self.word),
            None => f.write_str(&self.word),
        }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let not = if self.not { "!" } else { "" };
        match self.values.is_empty() {
            true => write!(f, "{not}{}", self.word),
            false => write!(f, "{not}{}={}", self.word, self.values.join("|")),
        }
    }
}

impl fmt::Display for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        list(f, &self.0)
    }
}

impl fmt::Display for NodeSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        list(f, &self.0)
    }
}

fn list(f: &mut fmt::Formatter<'_>, items: &[impl fmt::Display]) -> fmt::Result {
    for (n, item) in items.iter().enumerate() {
        write!(f, "{}{item}", if n == 0 { "" } else { "," })?;
    }
    Ok(())
}

/// Parses labels separated by commas, as in a flag.
impl FromStr for Labels {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let labels = text.split(',').map(str::trim).filter(|label| !label.is_empty());
        labels.map(str::parse).collect::<Result<Vec<Label>, _>>()?.try_into()
    }
}

/// Parses conditions separated by commas.
impl FromStr for NodeSelector {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let conditions = text.split(',').map(str::trim).filter(|condition| !condition.is_empty());
        conditions.map(str::parse).collect::<Result<Vec<Condition>, _>>()?.try_into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(nodes: &str, labels: &str) -> bool {
        let nodes: NodeSelector = nodes.parse().unwrap();
        nodes.fits(&"n1".parse().unwrap(), &labels.parse().unwrap())
    }

    #[test]
    fn a_node_fits_that_meets_all_conditions() {
        for (nodes, labels, is) in [
            ("", "", true),
            ("", "gpu", true),
            ("gpu", "gpu", true),
            ("gpu", "gpu=a100", true),
            ("gpu", "", false),
            ("gpu=a100", "gpu", false),
            ("gpu=a100", "gpu=a100", true),
            ("gpu=a100|h100", "gpu=h100", true),
            ("gpu=a100|h100", "gpu=t4", false),
            ("!spot", "", true),
            ("!spot", "spot", false),
            ("!spot", "spot=cheap", false),
            ("!zone=us", "zone=eu", true),
            ("!zone=us", "", true),
            ("!zone=us|eu", "zone=eu", false),
            ("zone=eu,gpu,!spot", "gpu,zone=eu", true),
            ("zone=eu,gpu,!spot", "gpu,zone=eu,spot", false),
            ("zone=eu,gpu,!spot", "zone=eu", false),
            ("name=n1", "", true),
            ("name=n2|n1", "", true),
            ("name=n2", "", false),
            ("!name=n1", "", false),
            ("!name=n2", "", true),
        ] {
            assert_eq!(fits(nodes, labels), is, "{nodes:?} on a node with {labels:?}");
        }
    }

    #[test]
    fn what_means_the_same_is_the_same() {
        let nodes = |text: &str| text.parse::<NodeSelector>().unwrap();
        assert_eq!(nodes("gpu,zone=us|eu,gpu"), nodes("zone=eu|us|eu,gpu"));
        assert_eq!(nodes("!spot,zone=us|eu").to_string(), "!spot,zone=eu|us");
        let read: NodeSelector = serde_json::from_str(r#"["zone=eu","!spot"]"#).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), r#"["!spot","zone=eu"]"#);
        let labels: Labels = serde_json::from_str(r#"["zone=eu","gpu"]"#).unwrap();
        assert_eq!(labels.to_string(), "gpu,zone=eu");
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_what_is_allowed() {
        for (wrong, why) in [
            ("a b", "use 1 to 63"),
            ("zone=", "value of a label"),
            ("=eu", "label \"\""),
            ("zone=eu|", "value of a label"),
            ("name", "as name=n1"),
            ("!name", "as name=n1"),
            ("!!gpu", "label \"!gpu\""),
            ("gpu,!gpu", "which no node can meet"),
        ] {
            let said = wrong.parse::<NodeSelector>().unwrap_err().to_string();
            assert!(said.contains(why), "{wrong}: {said}");
        }
        for (wrong, why) in [
            ("name=n1", "choose another word"),
            ("zone=eu,zone=us", "the labels zone=eu and zone=us are one: choose"),
            ("!gpu", "use 1 to 63"),
            ("zone=eu|us", "value of a label"),
        ] {
            let said = wrong.parse::<Labels>().unwrap_err().to_string();
            assert!(said.contains(why), "{wrong}: {said}");
        }
    }
}
