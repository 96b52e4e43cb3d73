//! The rows of one namespace: the job's name, with its namespace in front, says it.

use evenkeel_core::ids::Namespace;
use evenkeel_registry::sql::{SqlArg, SqlStatement};

/// Which names of jobs belong to a namespace.
#[derive(Debug)]
pub(super) enum JobsOfNamespace {
    /// The names without a namespace, of rows that name a job.
    Default,
    /// The names between its own name followed by `/`, and followed by the next character.
    Between(String, String),
}

impl JobsOfNamespace {
    pub(super) fn of(namespace: &Namespace) -> Self {
        match namespace.is_default() {
            true => Self::Default,
            false => Self::Between(format!("{namespace}/"), format!("{namespace}0")),
        }
    }

    /// Adds the condition on a column `job`, which is compared byte by byte.
    pub(super) fn narrow<'a>(&'a self, asked: SqlStatement<'a>) -> SqlStatement<'a> {
        match self {
            Self::Default => asked.then(" AND job <> '' AND job NOT LIKE '%/%'"),
            Self::Between(from, to) => {
                asked.then(" AND job >= ").with(SqlArg::Text(from)).then(" AND job < ").with(SqlArg::Text(to))
            }
        }
    }
}
