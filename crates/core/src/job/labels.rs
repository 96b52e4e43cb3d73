//! The labels of a job, by which jobs are listed and switched together.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;
use serde::{Deserialize, Serialize};

use crate::ids::IdError;
use crate::labels::{Condition, check};

/// The most labels of a job, and conditions of a selector.
const LABELS_MAX: usize = 32;

/// The labels of a job: words with values, as `team = "billing"`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "BTreeMap<String, String>", into = "BTreeMap<String, String>")]
pub struct JobLabels(BTreeMap<String, String>);

impl JobLabels {
    /// The value of a label, if the job has it.
    #[must_use]
    pub fn get(&self, word: &str) -> Option<&str> {
        self.0.get(word).map(String::as_str)
    }

    /// The words and their values, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(word, value)| (word.as_str(), value.as_str()))
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// As in a flag: `team=billing,tier=1`.
impl fmt::Display for JobLabels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, (word, value)) in self.iter().enumerate() {
            write!(f, "{}{word}={value}", if n == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl TryFrom<BTreeMap<String, String>> for JobLabels {
    type Error = IdError;

    fn try_from(labels: BTreeMap<String, String>) -> Result<Self, IdError> {
        if labels.len() > LABELS_MAX {
            return Err(IdError::new(format!("there are {} labels, allowed are {LABELS_MAX}", labels.len())));
        }
        for (word, value) in &labels {
            check("label", word)?;
            check("the value of a label", value)?;
        }
        Ok(Self(labels))
    }
}

impl From<JobLabels> for BTreeMap<String, String> {
    fn from(labels: JobLabels) -> Self {
        labels.0
    }
}

/// Conditions on the labels of a job, all of which must hold, as `team=billing|sales,!legacy`. One without conditions fits every
/// job. In order, each condition once, so that equal texts but for the order are equal values.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobSelector(Vec<Condition>);

impl JobSelector {
    /// Whether a job with these labels meets all conditions.
    #[must_use]
    pub fn fits(&self, labels: &JobLabels) -> bool {
        self.0.iter().all(|condition| condition.holds(labels.get(condition.word())))
    }

    /// Whether there are no conditions.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The conditions.
    pub fn iter(&self) -> impl Iterator<Item = &Condition> {
        self.0.iter()
    }

    /// Whether it has no condition that the other one lacks, so that it fits each job that the other one fits.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        self.0.iter().all(|condition| other.0.contains(condition))
    }

    /// The selector that fits the jobs that both fit. It may have more conditions than a text may.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self::ordered(self.0.iter().chain(&other.0).cloned().collect())
    }

    fn ordered(mut conditions: Vec<Condition>) -> Self {
        conditions.sort_unstable();
        conditions.dedup();
        Self(conditions)
    }
}

impl FromStr for JobSelector {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let conditions = text.split(',').map(str::trim).filter(|condition| !condition.is_empty());
        let conditions = conditions.map(Condition::parse).collect::<Result<Vec<_>, _>>();
        let conditions = conditions.map_err(|e| {
            IdError::new(format!(
                "{e}; write labels as team=billing, team=billing|sales, team or !team, with commas between"
            ))
        })?;
        match conditions.len() > LABELS_MAX {
            true => Err(IdError::new(format!(
                "there are {} conditions, allowed are {LABELS_MAX}",
                conditions.len()
            ))),
            false => Ok(Self::ordered(conditions)),
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> JobLabels {
        let pairs = pairs.iter().map(|(word, value)| (word.to_string(), value.to_string()));
        pairs.collect::<BTreeMap<_, _>>().try_into().expect("they are allowed")
    }

    #[test]
    fn a_selector_fits_the_jobs_that_meet_all_its_conditions() {
        let billing = labels(&[("team", "billing"), ("tier", "1")]);
        for (selector, fits) in [
            ("", true),
            ("team=billing", true),
            ("team=sales|billing,tier=1", true),
            ("team", true),
            ("team=sales", false),
            ("!team=sales", true),
            ("!team", false),
            ("legacy", false),
            ("!legacy", true),
            ("team=billing,tier=2", false),
            // A job's name is no label of it.
            ("name=x", false),
        ] {
            let selector: JobSelector = selector.parse().expect(selector);
            assert_eq!(selector.fits(&billing), fits, "{selector:?}");
        }
        for wrong in ["team=", "=x", "a b", "team=x y", "!"] {
            wrong.parse::<JobSelector>().expect_err(wrong);
        }
    }

    #[test]
    fn two_selectors_together_fit_what_both_fit() {
        let selector = |text: &str| text.parse::<JobSelector>().expect(text);
        let (billing, core) = (selector("team=billing"), selector("tier=1,team=billing"));
        assert_eq!(selector("tier=1, team=billing,tier=1"), core, "the order and repetitions say nothing");
        assert!(billing.covers(&core) && !core.covers(&billing) && selector("").covers(&billing));
        assert!(!selector("team=billing|sales").covers(&billing), "what is not plain is not decided");
        assert_eq!(billing.and(&selector("tier=1")), core);
        assert_eq!(billing.and(&core), core);
    }

    #[test]
    fn labels_are_bounded_and_of_a_narrow_alphabet() {
        let many = (0..33).map(|n| (format!("w{n}"), "v".into())).collect::<BTreeMap<String, String>>();
        assert!(
            JobLabels::try_from(many)
                .expect_err("too many")
                .to_string()
                .contains("33 labels, allowed are 32")
        );
        for (word, value) in [("", "v"), ("w", ""), ("w w", "v"), ("w", "\u{202e}")] {
            JobLabels::try_from(BTreeMap::from([(word.into(), value.into())])).expect_err(word);
        }
    }
}
