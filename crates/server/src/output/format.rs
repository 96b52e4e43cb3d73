//! The format in which this process prints its answers.

use std::sync::OnceLock;

use clap::ValueEnum;

/// How a verb prints its answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    /// For people
    #[default]
    Table,
    /// For people, with further columns
    Wide,
    /// For programs: stable fields, times as RFC 3339 in UTC
    Json,
    /// The same with one row in each line
    Jsonl,
    /// The same as YAML
    Yaml,
    /// Only names, one in each line
    Name,
    /// A declaration alone, in a job file
    #[value(hide = true)]
    Toml,
}

impl OutputFormat {
    /// Whether the answer is text for people.
    #[must_use]
    pub(crate) const fn is_text(self) -> bool {
        matches!(self, Self::Table | Self::Wide)
    }

    /// Whether errors and warnings are JSON: each is one line, which YAML can read, too.
    #[must_use]
    pub(crate) const fn has_json_errors(self) -> bool {
        matches!(self, Self::Json | Self::Jsonl | Self::Yaml)
    }
}

/// The output format of this process, also for messages beside an answer and for errors.
static CHOSEN: OnceLock<OutputFormat> = OnceLock::new();

/// Sets the output format of this process; only the first call has an effect.
pub(crate) fn choose(output: OutputFormat) {
    let _ = CHOSEN.set(output);
}

/// The output format of this process.
#[must_use]
pub(crate) fn chosen() -> OutputFormat {
    CHOSEN.get().copied().unwrap_or_default()
}
