//! Explanations of a job or a run: which node or person decided, by which rule, on which facts.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// An explanation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExplanationRow {
    /// The explained object: `job NAME` or `run RUN`.
    pub subject: String,
    /// The explanation in a sentence.
    pub says: String,
    /// The steps of the explanation.
    pub points: Vec<ExplanationStep>,
    /// The facts behind the decision, for programs.
    pub facts: BTreeMap<String, Value>,
}

/// One step of an explanation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExplanationStep {
    /// The topic, a word.
    pub about: String,
    /// The step in a sentence.
    pub says: String,
    /// The rule that decides, as `docs/concepts` names it; none if a person decided.
    pub rule: Option<String>,
}

impl ExplanationRow {
    /// An explanation without steps.
    pub fn of(subject: String) -> Self {
        Self { subject, says: String::new(), points: Vec::new(), facts: BTreeMap::new() }
    }

    /// Adds a step; without a rule if `rule` is empty.
    pub fn point(&mut self, about: &str, rule: &str, says: impl Into<String>) {
        let rule = (!rule.is_empty()).then(|| rule.to_owned());
        self.points.push(ExplanationStep { about: about.to_owned(), says: says.into(), rule });
    }

    /// Adds a fact for programs.
    pub fn fact(&mut self, name: &str, value: impl Serialize) {
        self.facts.insert(name.to_owned(), serde_json::to_value(value).unwrap_or(Value::Null));
    }
}
