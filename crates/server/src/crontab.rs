//! Crontabs: what cron was told, as jobs of ours, and aloud whatever cannot be carried over.

mod line;
mod name;

use std::collections::BTreeMap;
use std::fmt;

use evenkeel_core::job::{CatchUp, Job, Work};
use evenkeel_core::words::JobName;

use crate::exit::Failure;
use line::{Entry, Line, When};

/// The two forms of a crontab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// As `crontab -e` shows it: five fields and a command.
    User,
    /// As `/etc/crontab` and `/etc/cron.d/*` have it: a user name stands before the command.
    System,
}

/// What must be known beside the text.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    /// The file's name as shown in messages.
    pub(crate) shown: String,
    /// What the jobs' names begin with.
    pub(crate) prefix: String,
    /// The form; `None` to find it out.
    pub(crate) form: Option<Form>,
    /// The zone of lines without `CRON_TZ`: cron's own local zone. Empty for UTC.
    pub(crate) zone: String,
    /// Who runs this import, to tell a user column apart that asks for somebody else.
    pub(crate) user: String,
    /// The user names this host knows, to find the form out.
    pub(crate) users: Vec<String>,
}

/// Something that an entry loses, or that a reader must know, by line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Remark {
    /// Counted from 1.
    pub(crate) line: usize,
    /// What.
    pub(crate) text: String,
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.text)
    }
}

/// A crontab as jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Import {
    /// One an entry, in the order of the lines.
    pub(crate) jobs: Vec<Job>,
    /// What could not be carried over as it was.
    pub(crate) remarks: Vec<Remark>,
}

/// What the lines above an entry have set.
#[derive(Clone, Debug)]
struct Setting {
    shell: String,
    zone: String,
    environment: BTreeMap<String, String>,
}

/// Reads a crontab. Nothing is returned unless every line makes sense, as cron itself refuses a file with a mistake.
///
/// # Errors
/// A line is none of cron's; the text names it and the fix.
pub(crate) fn read(text: &str, origin: &Origin) -> Result<Import, Failure> {
    let form = origin.form.unwrap_or_else(|| line::form(text, &origin.users));
    let mut setting =
        Setting { shell: "/bin/sh".to_owned(), zone: origin.zone.clone(), environment: BTreeMap::new() };
    let mut import = Import::default();
    let mut names = name::Names::new(&origin.prefix);
    for (index, text) in text.lines().enumerate() {
        let number = index + 1;
        let wrong = |why: String| Failure::invalid(format!("{}:{number}: {why}", origin.shown));
        let mut remark = |text: String| import.remarks.push(Remark { line: number, text });
        match line::parse(text, form).map_err(wrong)? {
            Line::Nothing => {}
            Line::Setting { name, value } => setting.take(name, value, &mut remark).map_err(wrong)?,
            Line::Entry(entry) => {
                if let Some(loss) = entry.loss() {
                    remark(loss);
                    continue;
                }
                entry.remarks(&origin.user, &mut remark);
                import.jobs.push(job(&entry, &setting, &mut names, number, origin).map_err(wrong)?);
            }
        }
    }
    Ok(import)
}

/// The job that does what cron did for this entry.
fn job(
    entry: &Entry,
    set: &Setting,
    names: &mut name::Names,
    line: usize,
    origin: &Origin,
) -> Result<Job, String> {
    let name: JobName = names.of(&entry.command).parse().map_err(|e| format!("{e}"))?;
    let schedule = match &entry.when {
        When::Fields(fields) => fields.join(" "),
        When::Word(word) => word.clone(),
    };
    let mut job = Job::new(name, &schedule, Work::Command(argv(entry, set)));
    job.zone.clone_from(&set.zone);
    // Cron makes nothing up after an outage; whoever wants it says so in a job file.
    job.catch_up = CatchUp::Skip;
    job.description = format!("imported from {} line {line}", origin.shown);
    job.validate().map_err(|e| {
        let text = e.to_string();
        let own = format!("job {}: ", job.name);
        text.strip_prefix(&own).map_or(text.clone(), ToOwned::to_owned)
    })?;
    Ok(job)
}

/// Cron's own call: `SHELL -c COMMAND` with the crontab's environment and, behind a `%`, standard input.
fn argv(entry: &Entry, set: &Setting) -> Vec<String> {
    let mut argv = Vec::new();
    if !set.environment.is_empty() {
        argv.push("/usr/bin/env".to_owned());
        argv.extend(set.environment.iter().map(|(name, value)| format!("{name}={value}")));
    }
    match &entry.input {
        None => argv.extend([set.shell.clone(), "-c".to_owned(), entry.command.clone()]),
        // The texts go in as arguments, so that no shell reads them a second time.
        Some(input) => argv.extend([
            "/bin/sh".to_owned(),
            "-c".to_owned(),
            r#"printf %s "$1" | "$2" -c "$0""#.to_owned(),
            entry.command.clone(),
            input.clone(),
            set.shell.clone(),
        ]),
    }
    argv
}

impl Setting {
    fn take(&mut self, name: String, value: String, remark: &mut impl FnMut(String)) -> Result<(), String> {
        match name.as_str() {
            "CRON_TZ" => {
                jiff::tz::TimeZone::get(&value)
                    .map_err(|_| format!("CRON_TZ names no zone {value:?}: use a name like Europe/Berlin"))?;
                self.zone = value;
            }
            "MAILTO" | "MAILFROM" | "CONTENT_TYPE" | "CONTENT_TRANSFER_ENCODING" => {
                remark(format!(
                    "{name} is left out: nothing is mailed, see a run's output with `evenkeel run logs`"
                ));
            }
            "RANDOM_DELAY" | "START_HOURS_RANGE" => {
                remark(format!("{name} is left out: fires start when they are due"));
            }
            "LOGNAME" | "USER" => {
                remark(format!("{name} is left out, as cron does: it is the user that the node runs as"));
            }
            "SHELL" if !value.starts_with('/') => {
                return Err(format!("SHELL is {value:?}: give the whole path"));
            }
            "SHELL" => {
                self.environment.insert(name, value.clone());
                self.shell = value;
            }
            "TZ" => {
                remark(
                    "TZ is given to the commands and, as in cron, moves no schedule: that is CRON_TZ"
                        .to_owned(),
                );
                self.environment.insert(name, value);
            }
            _ => {
                self.environment.insert(name, value);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
