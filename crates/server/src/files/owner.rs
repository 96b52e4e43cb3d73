//! The owner of jobs: a label by which the jobs are found that one set of files declares.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use evenkeel_core::ids::IdError;
use evenkeel_core::job::{JobFile, JobLabels};

/// The label of a job with the name of its owner.
pub(crate) const OWNER_LABEL: &str = "evenkeel.owner";

/// The name of an owner, as `shop`: a value of a label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JobOwner(String);

impl FromStr for JobOwner {
    type Err = IdError;

    fn from_str(name: &str) -> Result<Self, IdError> {
        JobLabels::try_from(BTreeMap::from([(OWNER_LABEL.to_owned(), name.to_owned())]))?;
        Ok(Self(name.to_owned()))
    }
}

impl fmt::Display for JobOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl JobOwner {
    /// Whether this is the owner that the labels of a job name.
    pub(crate) fn owns(&self, labels: &JobLabels) -> bool {
        labels.get(OWNER_LABEL) == Some(&self.0)
    }

    /// Makes a declared job one of this owner.
    ///
    /// # Errors
    /// The declaration names another owner, or has as many labels as a job may have.
    pub(super) fn claim(&self, file: &mut JobFile) -> Result<(), String> {
        if let Some(other) = file.labels.get(OWNER_LABEL).filter(|other| *other != self.0) {
            return Err(format!(
                "labels.{OWNER_LABEL} is {other:?}, and --owner is {self}: leave the label out"
            ));
        }
        let mut labels: BTreeMap<String, String> = file.labels.clone().into();
        labels.insert(OWNER_LABEL.to_owned(), self.0.clone());
        file.labels = labels.try_into().map_err(|e| format!("labels: {e}"))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_a_label_that_no_file_contradicts() {
        let owner: JobOwner = "shop/eu".parse().expect("a value of a label");
        for wrong in ["", "a b", "a|b", "a,b", "é"] {
            wrong.parse::<JobOwner>().expect_err(wrong);
        }
        let file = |labels: &str| -> JobFile {
            serde_json::from_str(&format!(r#"{{"name":"j","function":"f","labels":{labels}}}"#))
                .expect("a job")
        };
        for labels in ["{}", r#"{"team":"a"}"#, r#"{"evenkeel.owner":"shop/eu"}"#] {
            let mut job = file(labels);
            owner.claim(&mut job).expect(labels);
            assert!(owner.owns(&job.labels), "{labels}");
            assert_eq!(job.labels.get("team").is_some(), labels.contains("team"));
        }
        let mut other = file(r#"{"evenkeel.owner":"shop"}"#);
        assert!(!owner.owns(&other.labels));
        let refused = owner.claim(&mut other).expect_err("it has another owner");
        assert!(refused.contains("labels.evenkeel.owner is \"shop\""), "{refused}");
    }
}
