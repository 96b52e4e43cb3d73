//! Why something is as it is: who decided, by which rule, on which facts.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// An explanation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ExplanationRow {
    /// Of what: `job NAME` or `run RUN`.
    pub(crate) subject: String,
    /// In a sentence.
    pub(crate) says: String,
    /// Step by step.
    pub(crate) points: Vec<ExplanationStep>,
    /// What was decided on, for programs.
    pub(crate) facts: BTreeMap<String, Value>,
}

/// One step of an explanation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ExplanationStep {
    /// What it is about, a word.
    pub(crate) about: String,
    /// In a sentence.
    pub(crate) says: String,
    /// Which rule decides that, as `docs/concepts` calls it; none where a person did.
    pub(crate) rule: Option<String>,
}

impl ExplanationRow {
    /// An explanation without steps yet.
    pub(crate) fn of(subject: String) -> Self {
        Self { subject, says: String::new(), points: Vec::new(), facts: BTreeMap::new() }
    }

    /// One step more; without a rule when it is empty.
    pub(crate) fn point(&mut self, about: &str, rule: &str, says: impl Into<String>) {
        let rule = (!rule.is_empty()).then(|| rule.to_owned());
        self.points.push(ExplanationStep { about: about.to_owned(), says: says.into(), rule });
    }

    /// A fact for programs.
    pub(crate) fn fact(&mut self, name: &str, value: impl Serialize) {
        self.facts.insert(name.to_owned(), serde_json::to_value(value).unwrap_or(Value::Null));
    }
}
