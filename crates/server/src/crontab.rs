//! Imports crontabs: each entry as a job, with a remark for everything that cannot be imported.

mod line;
mod name;
mod seconds;

use crate::import::report::ImportFate;
use std::collections::BTreeMap;
use std::fmt;

use evenkeel_core::characters;
use evenkeel_core::ids::JobName;
use evenkeel_core::job::{CatchUp, Job, JobFile, Program, SHELL, Work};
use evenkeel_core::schedule::Schedule;

use crate::exit::CliError;
use line::{CrontabEntry, CrontabLine};

/// The two forms of a crontab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CrontabFormat {
    /// As `crontab -e` shows it: five fields and a command.
    User,
    /// As `/etc/crontab` and `/etc/cron.d/*` have it: a user name stands before the command.
    System,
}

/// The context of a crontab besides its text.
#[derive(Clone, Debug)]
pub(crate) struct CrontabSource {
    /// The file's name as shown in messages.
    pub(crate) shown: String,
    /// The prefix of the jobs' names.
    pub(crate) prefix: String,
    /// The form; `None` to detect it.
    pub(crate) form: Option<CrontabFormat>,
    /// Whether the first of six or seven fields is the seconds field.
    pub(crate) seconds: bool,
    /// The time zone of lines without `CRON_TZ`: cron's own local zone. Empty for UTC.
    pub(crate) zone: String,
    /// The user of this import, to detect a user column that names another one.
    pub(crate) user: String,
    /// The user names of this host, to detect the form.
    pub(crate) users: Vec<String>,
    /// The jobs of earlier imports of this crontab, each with its schedule.
    pub(crate) known: BTreeMap<String, String>,
}

impl CrontabSource {
    /// The beginning of the descriptions of all jobs from this crontab.
    pub(crate) fn description(&self) -> String {
        format!("imported from {}", self.shown)
    }
}

/// A remark on a line: something that is lost, or that a reader must know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CrontabRemark {
    /// The line, counted from 1.
    pub(crate) line: usize,
    /// What became of what it is about.
    pub(crate) fate: ImportFate,
    /// The remark.
    pub(crate) text: String,
}

impl fmt::Display for CrontabRemark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.text)
    }
}

/// The jobs of a crontab.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CrontabImport {
    /// One job an entry, in the order of the lines.
    pub(crate) jobs: Vec<Job>,
    /// Remarks on what could not be imported unchanged.
    pub(crate) remarks: Vec<CrontabRemark>,
    /// How many entries are mistakes by themselves, and are no job therefore.
    pub(crate) mistakes: usize,
    /// How many entries are no job, mistakes or not.
    pub(crate) left_out: usize,
}

/// The settings of the lines above an entry.
#[derive(Clone, Debug)]
struct CrontabContext {
    shell: String,
    home: String,
    zone: String,
    environment: BTreeMap<String, String>,
}

/// An entry that becomes a job, with its settings.
struct ImportedEntry {
    line: usize,
    entry: CrontabEntry,
    schedule: String,
    set: CrontabContext,
}

/// Parses a crontab. Returns nothing unless every line is valid, as cron itself refuses a file with a mistake; what is
/// valid and cannot be imported is left out with a remark.
///
/// # Errors
/// A line is invalid; the text names it and the fix.
pub(crate) fn read(text: &str, origin: &CrontabSource) -> Result<CrontabImport, CliError> {
    let mut import = CrontabImport::default();
    // Some editors end a line with a carriage return, alone or before the line feed.
    let text = &text.replace("\r\n", "\n").replace('\r', "\n");
    let text = match text.strip_prefix('\u{feff}') {
        Some(rest) => {
            let what = characters::describe('\u{feff}');
            let text =
                format!("{what} begins the file and is skipped: save it without one, cron stumbles over it");
            import.remarks.push(CrontabRemark { line: 1, fate: ImportFate::Changed, text });
            rest
        }
        None => text,
    };
    let form = form(text, origin)?;
    let mut setting = CrontabContext {
        shell: SHELL.to_owned(),
        home: String::new(),
        zone: origin.zone.clone(),
        environment: BTreeMap::new(),
    };
    let mut taken = Vec::new();
    for (index, text) in text.lines().enumerate() {
        let number = index + 1;
        let wrong = |why: String| CliError::invalid(format!("{}:{number}: {why}", origin.shown));
        let mut remark = |fate: ImportFate, text: String| {
            import.remarks.push(CrontabRemark { line: number, fate, text });
        };
        match line::parse(text, form, origin.seconds).map_err(wrong)? {
            CrontabLine::Nothing => {}
            CrontabLine::Setting { name, value } => setting.take(name, value, &mut remark).map_err(wrong)?,
            CrontabLine::Entry(entry) => {
                if let Some(loss) = entry.loss() {
                    remark(ImportFate::Lost, loss);
                    import.left_out += 1;
                    continue;
                }
                if let Some(mistake) = entry.unknown_user(&origin.users) {
                    remark(ImportFate::Refused, mistake);
                    import.mistakes += 1;
                    import.left_out += 1;
                    continue;
                }
                let schedule = entry.schedule(origin.seconds);
                match Schedule::parse(&schedule, &setting.zone) {
                    Err(why) if why.is_never() => {
                        remark(ImportFate::Lost, format!("it is left out: {why}"));
                        import.left_out += 1;
                        continue;
                    }
                    read => read.map_err(|why| wrong(why.to_string()))?,
                };
                entry.remarks(&origin.user, &mut remark);
                taken.push(ImportedEntry { line: number, entry, schedule, set: setting.clone() });
            }
        }
    }
    import.jobs = jobs(&taken, origin)?;
    Ok(import)
}

/// The given form, or the one that the sixth words of the entries show.
fn form(text: &str, origin: &CrontabSource) -> Result<CrontabFormat, CliError> {
    if let Some(form) = origin.form {
        return Ok(form);
    }
    let wrong = |why: &str| CliError::invalid(format!("{}: {why}", origin.shown));
    match line::form(text, &origin.users) {
        Ok(Some(form)) => Ok(form),
        Ok(None) => Err(wrong(
            "the word before each command may be a user or a command: say --system if it is a user, as in /etc/crontab, or --user \
             if the crontab has no user column, as `crontab -l` prints it",
        )),
        Err(why) => Err(wrong(&why)),
    }
}

/// The jobs that do what cron did for these entries.
fn jobs(taken: &[ImportedEntry], origin: &CrontabSource) -> Result<Vec<Job>, CliError> {
    let named = |taken: &ImportedEntry| {
        let ImportedEntry { entry, schedule, set, .. } = taken;
        let more = format!("{} {:?} {:?}", set.zone, entry.user, entry.input);
        name::NameCandidate { command: entry.command.clone(), schedule: schedule.clone(), more }
    };
    let entries: Vec<_> = taken.iter().map(named).collect();
    let names = name::all(&origin.prefix, &entries, &origin.known);
    let jobs = taken.iter().zip(names).map(|(taken, name)| {
        let wrong = |why: String| CliError::invalid(format!("{}:{}: {why}", origin.shown, taken.line));
        job(taken, &name, origin).map_err(wrong)
    });
    jobs.collect()
}

/// The job that does what cron did for this entry.
fn job(taken: &ImportedEntry, name: &str, origin: &CrontabSource) -> Result<Job, String> {
    let ImportedEntry { entry, schedule, set, .. } = taken;
    let name: JobName = name.parse().map_err(|e| format!("{e}"))?;
    let mut job = JobFile::new(name, schedule, Work::Command(Vec::new()));
    if set.shell == SHELL {
        job.shell = true;
        job.command = Program::Line(entry.command.clone());
    } else {
        job.command = Program::Argv(vec![set.shell.clone(), "-c".to_owned(), entry.command.clone()]);
    }
    job.timezone.clone_from(&set.zone);
    job.environment.clone_from(&set.environment);
    job.directory.clone_from(&set.home);
    job.stdin = entry.input.clone().unwrap_or_default();
    job.user = entry.user.clone().unwrap_or_default();
    // Cron catches up nothing after an outage; a job file can change that.
    job.catch_up = CatchUp::Skip;
    job.description = origin.description();
    let own = format!("job {}: ", job.name);
    Job::parse(job).map_err(|e| {
        let text = e.to_string();
        text.strip_prefix(&own).map_or(text.clone(), ToOwned::to_owned)
    })
}

impl CrontabContext {
    fn take(
        &mut self,
        name: String,
        value: String,
        remark: &mut impl FnMut(ImportFate, String),
    ) -> Result<(), String> {
        if let Some(odd) = characters::hidden(&value) {
            let (odd, instead) = (characters::describe(odd), characters::instead(odd));
            let said = format!("{name} holds {odd}: {instead}");
            match name.as_str() {
                "CRON_TZ" | "SHELL" | "HOME" => return Err(said),
                _ => remark(ImportFate::Changed, said),
            }
        }
        match name.as_str() {
            "CRON_TZ" => {
                Schedule::parse("@daily", &value).map_err(|e| format!("CRON_TZ: {e}"))?;
                self.zone = value;
            }
            "MAILTO" | "MAILFROM" | "CONTENT_TYPE" | "CONTENT_TRANSFER_ENCODING" => {
                remark(
                    ImportFate::Lost,
                    format!(
                        "{name} is left out: nothing is mailed, see a run's output with `evenkeel run logs`"
                    ),
                );
            }
            "RANDOM_DELAY" | "START_HOURS_RANGE" => {
                remark(ImportFate::Lost, format!("{name} is left out: fires start when they are due"));
            }
            "LOGNAME" | "USER" => {
                remark(
                    ImportFate::Lost,
                    format!("{name} is left out, as cron does: it is the user that the node runs as"),
                );
            }
            "SHELL" if !value.starts_with('/') => {
                return Err(format!("SHELL is {value:?}: give the whole path"));
            }
            "SHELL" => {
                // The default shell need not be set.
                match value == SHELL {
                    true => self.environment.remove(&name),
                    false => self.environment.insert(name, value.clone()),
                };
                self.shell = value;
            }
            "HOME" if !value.starts_with('/') => {
                return Err(format!(
                    "HOME is {value:?}: give the whole path, where cron starts the commands below"
                ));
            }
            "HOME" => {
                self.environment.insert(name, value.clone());
                self.home = value;
            }
            "TZ" => {
                remark(
                    ImportFate::Changed,
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
