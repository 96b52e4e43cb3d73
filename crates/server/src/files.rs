//! Reads job files: TOML, YAML or JSON into declarations of calendars and jobs; each mistake has its file and line.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use evenkeel_core::calendar::{Calendar, CalendarFile};
use evenkeel_core::ids::{DEFAULT_NAMESPACE, Namespace};
use evenkeel_core::job::{Job, JobFile};
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::bounded;
use crate::exit::CliError;
use crate::text_input::{self, InputError, ReadTarget, TextFormat};
pub(crate) use encoded::{EncodedJobs, JobHead};
pub(crate) use owner::{JobOwner, OWNER_LABEL};
use templates::{SharedTables, TemplateExpander};
pub(crate) use variables::{GivenVariables, pair};

mod encoded;
mod owner;
mod quick;
mod templates;
mod variables;

/// The size limit of a job file: far more than a person writes, far less than the memory of a small machine.
const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// The name of the file that the others of its folder share, without its ending.
const SHARED: &str = "defaults";
/// The name of `-` in messages.
const STDIN: &str = "standard input";

/// A job file as written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct DeclarationTables {
    #[serde(default)]
    job: Vec<JobFile>,
    #[serde(default)]
    calendar: Vec<CalendarFile>,
    /// A file with these is put together of them; here they only have their names in messages.
    #[serde(default, rename = "variables")]
    _variables: Option<IgnoredAny>,
    #[serde(default, rename = "defaults")]
    _defaults: Option<IgnoredAny>,
    #[serde(default, rename = "template")]
    _template: Option<IgnoredAny>,
}

/// The declarations of job files.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Declarations {
    /// The calendars, which are applied first, since jobs may use them.
    pub(crate) calendars: Vec<Calendar>,
    pub(crate) jobs: Vec<Job>,
}

/// The checked declarations of job files, the jobs as requests carry them.
#[derive(Debug)]
pub(crate) struct EncodedDeclarations {
    /// The calendars, which are applied first, since jobs may use them.
    pub(crate) calendars: Vec<Calendar>,
    pub(crate) jobs: EncodedJobs,
}

/// Which files are read, and how.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReadRequest<'a> {
    /// Job files, folders of them, or `-` for standard input.
    pub(crate) paths: &'a [PathBuf],
    /// The namespace of what names none.
    pub(crate) namespace: Option<&'a Namespace>,
    /// The owner of all jobs.
    pub(crate) owner: Option<&'a JobOwner>,
    /// The values of variables.
    pub(crate) variables: Option<&'a GivenVariables>,
    /// Whether it is no mistake that there is no job and no calendar.
    pub(crate) may_be_empty: bool,
}

/// A job file's text.
struct FileText {
    /// The name of the file in messages.
    shown: String,
    language: TextFormat,
    text: String,
    /// What its folder has for it.
    shared: Option<Arc<SharedTables>>,
}

/// The format of a job file, by its name.
fn language(path: &Path) -> Option<TextFormat> {
    match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
        "toml" => Some(TextFormat::Toml),
        "yaml" | "yml" => Some(TextFormat::Yaml),
        "json" => Some(TextFormat::Json),
        _ => None,
    }
}

/// Reads job files, every job file of a folder in the order of their names, or standard input (`-`, TOML).
///
/// All of it is checked before anything is returned, so nothing is ever half applied.
///
/// # Errors
/// A file cannot be read, or is invalid; the text has the file, the line and the allowed values.
pub(crate) fn read_all(request: &ReadRequest<'_>) -> Result<Declarations, CliError> {
    let all = both(&texts_of(request)?, request)?;
    if all.jobs.is_empty() && all.calendars.is_empty() && !request.may_be_empty {
        return Err(no_job(request.paths));
    }
    Ok(all)
}

/// Reads and checks the same, and keeps of the jobs only what is sent.
///
/// # Errors
/// As [`read_all`].
pub(crate) fn read_encoded(request: &ReadRequest<'_>) -> Result<EncodedDeclarations, CliError> {
    let texts = texts_of(request)?;
    let quick = match request.namespace {
        // Read job by job, where nothing is left of how a name was written.
        Some(namespace) if !namespace.is_default() => None,
        _ if request.owner.is_some() || request.variables.is_some_and(|given| !given.names_none()) => None,
        _ if texts.iter().any(|file| file.shared.is_some()) => None,
        _ => quick::read(texts.iter().map(|file| (file.language, file.text.as_str()))),
    };
    let (calendars, jobs) = match quick {
        Some(all) => (all.calendar, all.job),
        // Mostly there is a mistake, which is found again and reported.
        None => {
            let all = both(&texts, request)?;
            (all.calendars, EncodedJobs::of(&all.jobs)?)
        }
    };
    if jobs.is_empty() && calendars.is_empty() && !request.may_be_empty {
        return Err(no_job(request.paths));
    }
    Ok(EncodedDeclarations { calendars, jobs })
}

/// Reads the same, but returns only the calendars.
///
/// # Errors
/// As [`read_all`].
pub(crate) fn calendars(path: &Path, namespace: Option<&Namespace>) -> Result<Vec<Calendar>, CliError> {
    let request = ReadRequest { namespace, ..ReadRequest::default() };
    let all = both(&texts(path, &request)?, &request)?.calendars;
    if all.is_empty() {
        return Err(CliError::invalid(format!(
            "{}: holds no calendar: write [[calendar]] with its name, and days, weekdays or windows",
            shown(path)
        )));
    }
    Ok(all)
}

fn no_job(paths: &[PathBuf]) -> CliError {
    let names: Vec<String> = paths.iter().map(|path| shown(path)).collect();
    let example = paths.first().map_or("", |path| empty(path));
    CliError::invalid(format!("{}: holds no job: {example}", names.join(", ")))
}

/// An example of a first job, for the message about an empty file.
fn empty(path: &Path) -> &'static str {
    match language(path) {
        Some(TextFormat::Yaml) => {
            "write job: and below it a list of jobs, each with its name, schedule and command"
        }
        Some(TextFormat::Json) => "write {\"job\": [{\"name\": …, \"schedule\": …, \"command\": […]}]}",
        _ => "write [[job]] and its name, schedule and command",
    }
}

fn shown(path: &Path) -> String {
    if path == Path::new("-") { STDIN.to_owned() } else { path.display().to_string() }
}

fn both(texts: &[FileText], request: &ReadRequest<'_>) -> Result<Declarations, CliError> {
    let mut all = Declarations::default();
    let (mut seen, mut named) = (BTreeMap::new(), BTreeMap::new());
    let none = GivenVariables::default();
    let mut expander = TemplateExpander::new(request.variables.unwrap_or(&none));
    for file in texts {
        let FileText { shown, language, text, .. } = file;
        let DeclarationTables { job: jobs, calendar: calendars, .. } = match expander.expand(file)? {
            Some(tables) => tables,
            None => parse(*language, text).map_err(|e| CliError::invalid(format!("{shown}:{e}")))?,
        };
        let mut lines = JobLineFinder::new(text);
        for file in calendars {
            let at = format!("{shown}:{}", lines.of(file.name.name().as_str()));
            let calendar =
                file.calendar(request.namespace).map_err(|e| CliError::invalid(format!("{at}: {e}")))?;
            calendar.read().map_err(|e| CliError::invalid(format!("{at}: {e}")))?;
            if let Some(first) = named.insert(calendar.name.clone(), at.clone()) {
                let name = &calendar.name;
                return Err(CliError::invalid(format!(
                    "{at}: calendar {name} is already declared at {first}"
                )));
            }
            all.calendars.push(calendar);
        }
        let mut lines = JobLineFinder::new(text);
        for mut file in jobs {
            let at = format!("{shown}:{}", lines.of(file.name.name().as_str()));
            file.move_into(request.namespace).map_err(|e| CliError::invalid(format!("{at}: {e}")))?;
            if let Some(owner) = request.owner {
                owner.claim(&mut file).map_err(|e| CliError::invalid(format!("{at}: {e}")))?;
            }
            let own = format!("job {}: ", file.name.name());
            let job = Job::parse(file).map_err(|e| {
                let said = e.to_string();
                let line = lines.of_key(said.strip_prefix(&own).unwrap_or(&said));
                CliError::invalid(format!("{shown}:{line}: {said}"))
            })?;
            if let Some(first) = seen.insert(job.name.clone(), at.clone()) {
                let name = &job.name;
                return Err(CliError::invalid(format!("{at}: job {name} is already declared at {first}")));
            }
            all.jobs.push(job);
        }
    }
    expander.finish()?;
    Ok(all)
}

/// The texts to read.
fn texts_of(request: &ReadRequest<'_>) -> Result<Vec<FileText>, CliError> {
    let mut all = Vec::new();
    for path in request.paths {
        all.extend(texts(path, request)?);
    }
    Ok(all)
}

/// The texts of a file, of a folder or of standard input.
fn texts(path: &Path, request: &ReadRequest<'_>) -> Result<Vec<FileText>, CliError> {
    let cannot = |path: &Path, why: &dyn std::fmt::Display| CliError::unreadable(path.display(), why);
    if path == Path::new("-") {
        let text = bounded::text(path, FILE_BYTES_MAX).map_err(|e| CliError::unreadable_input(STDIN, &e))?;
        let text = text_input::plain(text);
        let (shown, language) = (STDIN.to_owned(), TextFormat::Toml);
        return Ok(vec![FileText { shown, language, text, shared: None }]);
    }
    let meta = fs::metadata(path).map_err(|e| cannot(path, &e))?;
    let mut paths = match meta.is_dir() {
        true => folder(path)?,
        false => vec![path.to_path_buf()],
    };
    paths.retain(|path| !is_shared(path));
    if paths.is_empty() && !request.may_be_empty {
        let why = "it holds no *.toml, *.yaml, *.yml or *.json with jobs";
        return Err(CliError::usage(format!("{}: {why}", path.display())));
    }
    let mut folders: BTreeMap<&Path, Option<Arc<SharedTables>>> = BTreeMap::new();
    let mut all = Vec::new();
    for path in &paths {
        let beside = path.parent().unwrap_or(Path::new(""));
        let shared = match folders.get(beside) {
            Some(known) => known.clone(),
            None => folders.entry(beside).or_insert(shared(beside)?).clone(),
        };
        all.push(FileText { shared, ..text_of(path)? });
    }
    Ok(all)
}

/// A job file.
fn text_of(path: &Path) -> Result<FileText, CliError> {
    let Some(language) = language(path) else {
        let why = "a job file is named *.toml, *.yaml, *.yml or *.json";
        return Err(CliError::usage(format!("{}: {why}", path.display())));
    };
    let text =
        bounded::text(path, FILE_BYTES_MAX).map_err(|e| CliError::unreadable_input(path.display(), &e))?;
    Ok(FileText { shown: path.display().to_string(), language, text: text_input::plain(text), shared: None })
}

/// Whether this is the file that the others of its folder share.
fn is_shared(path: &Path) -> bool {
    path.file_stem().is_some_and(|stem| stem == SHARED) && language(path).is_some()
}

/// What a folder has for its files, if there is such a file.
fn shared(folder: &Path) -> Result<Option<Arc<SharedTables>>, CliError> {
    let names = ["toml", "yaml", "yml", "json"].map(|ending| folder.join(format!("{SHARED}.{ending}")));
    let found: Vec<&PathBuf> = names.iter().filter(|path| path.is_file()).collect();
    match found.as_slice() {
        [] => Ok(None),
        [one] => templates::shared(text_of(one)?).map(Some),
        [one, other, ..] => Err(CliError::invalid(format!(
            "{} and {} are both for the other files of their folder: keep one",
            one.display(),
            other.display()
        ))),
    }
}

/// The job files of a folder and of those in it, in order; what is hidden is left alone. What is named like a job file and is
/// none is an error: with `--prune` its jobs would be deleted.
fn folder(path: &Path) -> Result<Vec<PathBuf>, CliError> {
    let cannot = |why: std::io::Error| CliError::unreadable(path.display(), why);
    let entries = fs::read_dir(path).and_then(Iterator::collect::<Result<Vec<_>, _>>).map_err(cannot)?;
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.path();
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            continue;
        }
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            paths.extend(folder(&path)?);
        } else if language(&path).is_some() {
            if !path.is_file() {
                let why = "it is named like a job file, and is no file that can be read: mend or remove it";
                return Err(CliError::usage(format!("{}: {why}", path.display())));
            }
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

fn parse(language: TextFormat, text: &str) -> Result<DeclarationTables, InputError> {
    match language {
        TextFormat::Yaml | TextFormat::Json if text.trim().is_empty() => Ok(DeclarationTables::default()),
        _ => text_input::read(language, text, ReadTarget::JobFile),
    }
}

/// Finds the line of each job's name, going down the file in the order of the jobs.
struct JobLineFinder<'a> {
    ahead: std::iter::Enumerate<std::str::Lines<'a>>,
    /// The line of the last job, counted from 1.
    last: usize,
}

impl<'a> JobLineFinder<'a> {
    fn new(text: &'a str) -> Self {
        Self { ahead: text.lines().enumerate(), last: 1 }
    }

    /// The next line that has this name, with its namespace or alone; 1 if the file spells the name in another way.
    fn of(&mut self, name: &str) -> usize {
        let mut ahead = self.ahead.clone();
        self.last = 1;
        let local = name.split_once('/').map_or(name, |(_, local)| local);
        let in_default = format!("{DEFAULT_NAMESPACE}/{name}");
        let spellings = [name, local, &in_default];
        let has_name = |line: &str| spellings.iter().any(|name| names(line, name));
        let Some((index, _)) = ahead.find(|(_, line)| has_name(line)) else { return 1 };
        self.ahead = ahead;
        self.last = index + 1;
        self.last
    }

    /// The line of the key that a message about the last job begins with, or that of its name if the key is not found.
    fn of_key(&self, message: &str) -> usize {
        let end =
            message.find(|c: char| !(c.is_ascii_lowercase() || "_.".contains(c))).unwrap_or(message.len());
        let address = message[..end].trim_matches('.');
        let below = self.ahead.clone().take_while(|(_, line)| !begins(line));
        let mut lines: Vec<_> = below.filter(|_| self.last > 1 || !address.is_empty()).collect();
        lines.retain(|(_, line)| address.split('.').any(|key| !key.is_empty() && holds(line, key)));
        // The innermost key has a line of its own, or is on the line of its table.
        let inner = address.rsplit('.').next().unwrap_or_default();
        let found = lines.iter().find(|(_, line)| holds(line, inner)).or(lines.first());
        found.map_or(self.last, |(index, _)| index + 1)
    }
}

/// Whether the next job or calendar begins on this line.
fn begins(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("[[") || line.starts_with("- name") || line.starts_with("- {")
}

/// Whether this line assigns the key, as its first or in an inline table.
fn holds(line: &str, key: &str) -> bool {
    let line = line.trim_start();
    line.match_indices(key).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let apart = before.is_none_or(|c| " {,.[\"".contains(c));
        let rest = line[at + key.len()..].trim_start_matches(['"', ']']).trim_start();
        let is_table = line.starts_with("[job.") && rest.is_empty();
        apart && (rest.starts_with(['=', ':']) || is_table)
    })
}

/// Whether this line, in either format, has this `name`.
fn names(line: &str, name: &str) -> bool {
    let line = line.trim_start().trim_start_matches("- ").trim_start();
    let value = line.strip_prefix("name").map(str::trim_start);
    let value = value.and_then(|rest| rest.strip_prefix(['=', ':'])).map(str::trim_start);
    let value = value.map(|v| v.trim_start_matches(['"', '\'']));
    value
        .and_then(|v| v.strip_prefix(name))
        .is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || "._-/".contains(c)))
}

#[cfg(test)]
mod tests;
