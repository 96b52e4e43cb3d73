//! Imports the jobs of other schedulers: each object of theirs becomes a job, or is refused without the others, and a report
//! says of each of its fields whether it was taken, changed or lost.

pub(crate) mod anacron;
pub(crate) mod elasticjob;
pub(crate) mod foreign_keys;
pub(crate) mod github_actions;
pub(crate) mod helpers;
pub(crate) mod kubernetes;
pub(crate) mod quartz;
pub(crate) mod report;
mod script;
pub(crate) mod sql_rows;
pub(crate) mod systemd;
pub(crate) mod xxl_job;

use std::collections::BTreeSet;

use evenkeel_core::calendar::Calendar;
use evenkeel_core::job::{Job, JobFile};

use report::{ImportFate, ImportFinding};

/// What an import knows besides the text.
#[derive(Clone, Debug)]
pub(crate) struct ImportSource {
    /// The file's name as shown in messages.
    pub(crate) shown: String,
    /// The time zone of schedules for which the text names none; empty for UTC.
    pub(crate) timezone: String,
    /// The words of the command of a job whose work is code that only its scheduler can call, with `{job}`, `{class}` and the
    /// like in them; `None`: such jobs are refused.
    pub(crate) command: Option<Vec<String>>,
    /// The folder in which commands start for which the text names none; empty for none.
    pub(crate) directory: String,
}

impl ImportSource {
    /// The description of all jobs from this text.
    fn description(&self) -> String {
        format!("imported from {}", self.shown)
    }

    /// The time zone as people read it.
    fn zone_name(&self) -> &str {
        if self.timezone.is_empty() { "UTC" } else { &self.timezone }
    }
}

/// What came of a text of another scheduler.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Imported {
    /// The calendars that the jobs use.
    pub(crate) calendars: Vec<Calendar>,
    /// The jobs, in the order of the text.
    pub(crate) jobs: Vec<Job>,
    /// What became of each field, in the order of the text.
    pub(crate) findings: Vec<ImportFinding>,
}

/// Why an object cannot become a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ImportRefusal {
    /// The field that cannot be taken; empty for the object as a whole.
    pub(crate) field: String,
    /// The reason and the fix.
    pub(crate) said: String,
}

impl ImportRefusal {
    fn new(field: &str, said: impl Into<String>) -> Self {
        Self { field: field.to_owned(), said: said.into() }
    }
}

/// Collects what becomes of the fields of one object.
#[derive(Debug, Default)]
pub(crate) struct ImportNotes {
    rows: Vec<(String, ImportFate, String)>,
    calendars: Vec<Calendar>,
}

impl ImportNotes {
    /// The field means the same here; the text has the key that it became.
    fn taken(&mut self, field: &str, said: impl Into<String>) {
        self.rows.push((field.to_owned(), ImportFate::Taken, said.into()));
    }

    /// The field was taken and does not mean quite the same.
    fn changed(&mut self, field: &str, said: impl Into<String>) {
        self.rows.push((field.to_owned(), ImportFate::Changed, said.into()));
    }

    /// The field is left out; the text says what that means.
    fn lost(&mut self, field: &str, said: impl Into<String>) {
        self.rows.push((field.to_owned(), ImportFate::Lost, said.into()));
    }

    /// Declares a calendar that the job uses.
    fn calendar(&mut self, calendar: Calendar) {
        self.calendars.push(calendar);
    }
}

impl Imported {
    /// Adds the job of one object, or the reason why it has none. What was noted of a refused object is dropped: nothing of it
    /// is taken.
    fn object(
        &mut self,
        object: &str,
        convert: impl FnOnce(&mut ImportNotes) -> Result<JobFile, ImportRefusal>,
    ) {
        let mut notes = ImportNotes::default();
        let read = convert(&mut notes).and_then(|file| {
            let own = format!("job {}: ", file.name.name());
            Job::parse(file).map_err(|e| {
                let said = e.to_string();
                ImportRefusal::new("", said.strip_prefix(&own).unwrap_or(&said))
            })
        });
        let read = read.and_then(|job| match self.jobs.iter().any(|other| other.name == job.name) {
            true => Err(ImportRefusal::new(
                "name",
                format!("another object became job {} already: rename one of them", job.name),
            )),
            false => Ok(job),
        });
        let row = |job: &str, field: String, fate, said| ImportFinding {
            object: object.to_owned(),
            job: job.to_owned(),
            field,
            fate,
            said,
        };
        match read {
            Ok(job) => {
                let name = job.name.as_str();
                self.findings
                    .extend(notes.rows.into_iter().map(|(field, fate, said)| row(name, field, fate, said)));
                for calendar in notes.calendars {
                    if !self.calendars.contains(&calendar) {
                        self.calendars.push(calendar);
                    }
                }
                self.jobs.push(job);
            }
            Err(ImportRefusal { field, said }) => {
                self.findings.push(row("", field, ImportFate::Refused, said));
            }
        }
    }

    /// Adds a row about something that is no job, and is not meant to be one.
    fn left_out(&mut self, object: &str, said: impl Into<String>) {
        let (object, said) = (object.to_owned(), said.into());
        let (job, field, fate) = (String::new(), String::new(), ImportFate::Lost);
        self.findings.push(ImportFinding { object, job, field, fate, said });
    }

    /// Adds a row about the whole of what was read.
    fn about(&mut self, object: &str, field: &str, fate: ImportFate, said: String) {
        let (object, job, field) = (object.to_owned(), String::new(), field.to_owned());
        self.findings.push(ImportFinding { object, job, field, fate, said });
    }

    /// Adds a refusal of an object of which not even the parts could be read.
    fn refused(&mut self, object: &str, said: impl Into<String>) {
        self.object(object, |_| Err(ImportRefusal::new("", said)));
    }

    /// Adds the results of another text.
    pub(crate) fn extend(&mut self, other: Self) {
        for job in other.jobs {
            let twin = self.jobs.iter().any(|known| known.name == job.name);
            if !twin {
                self.jobs.push(job);
                continue;
            }
            let said = format!("another file has a job {} already: rename one of them", job.name);
            self.refused(&job.description, said);
        }
        for calendar in other.calendars {
            if !self.calendars.contains(&calendar) {
                self.calendars.push(calendar);
            }
        }
        self.findings.extend(other.findings);
    }

    /// The objects of which no job came, by name.
    #[must_use]
    pub(crate) fn refused_objects(&self) -> BTreeSet<&str> {
        let refused = self.findings.iter().filter(|row| row.fate == ImportFate::Refused);
        refused.map(|row| row.object.as_str()).collect()
    }
}

/// The words of `--command`; `None` for an empty text.
///
/// # Errors
/// A quote in it is not closed.
pub(crate) fn command_words(text: &str) -> Result<Option<Vec<String>>, String> {
    Ok(Some(script::words(text)?).filter(|words| !words.is_empty()))
}

#[cfg(test)]
mod tests;
