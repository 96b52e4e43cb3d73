//! The report of an import: what became of each field of each object.

use serde::Serialize;

use crate::output::{self, OutputFormat, TableRow, or_dash};

/// What became of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ImportFate {
    /// It means the same here.
    Taken,
    /// It was taken, and does not mean quite the same.
    Changed,
    /// It is left out.
    Lost,
    /// No job was made of the object because of it.
    Refused,
}

impl ImportFate {
    /// Its word in tables and in JSON.
    #[must_use]
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Taken => "taken",
            Self::Changed => "changed",
            Self::Lost => "lost",
            Self::Refused => "refused",
        }
    }
}

/// What became of a field of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ImportFinding {
    /// The object in the other scheduler's words, as `CronJob nightly`.
    pub(crate) object: String,
    /// The job that was made of it; empty where none was.
    pub(crate) job: String,
    /// The field in the other scheduler's words; empty for the object as a whole.
    pub(crate) field: String,
    /// What became of it.
    pub(crate) fate: ImportFate,
    /// The key that it became, or what its absence means.
    pub(crate) said: String,
}

impl TableRow for ImportFinding {
    const HEADS: &'static [&'static str] = &["object", "job", "field", "fate", "remark"];
    fn cells(&self) -> Vec<String> {
        vec![
            self.object.clone(),
            or_dash(Some(&self.job)),
            or_dash(Some(&self.field)),
            self.fate.word().to_owned(),
            self.said.clone(),
        ]
    }
}

/// Prints the report beside the answer: a table for people, a line of JSON for each row for programs.
pub(crate) fn print(findings: &[ImportFinding], format: OutputFormat) {
    match format.is_text() {
        _ if findings.is_empty() => {}
        true => eprintln!("{}", output::table(findings)),
        false => {
            let lines = findings.iter().filter_map(|row| serde_json::to_string(row).ok());
            lines.for_each(|line| eprintln!("{}", crate::escaping::json(&line)));
        }
    }
}
