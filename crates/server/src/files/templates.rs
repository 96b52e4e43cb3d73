//! Files with variables, defaults or templates: each job is put together of what it takes over and of its own keys, which win.
//! Values of variables come into parsed texts, so that no value can change what a file declares.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use super::variables::{GivenVariables, Variables};
use super::{DeclarationTables, FileText, JobLineFinder, holds};
use crate::exit::CliError;
use crate::text_input::{self, ReadTarget, TextFormat, nearest};
use evenkeel_core::calendar::CalendarFile;
use evenkeel_core::job::JobFile;

/// The words of which a file with one of these tables has one.
const WORDS: [&str; 3] = ["variables", "defaults", "template"];
/// The keys whose tables are choices of one: they are replaced and not merged.
const CHOICES: [&str; 2] = ["overlap", "catch_up"];

/// Keys that say something only beside another one. A default of one of them is left out of a job without that other key.
const DEPENDENT: [(&str, &[&str]); 2] = [
    (
        "schedule",
        &["timezone", "dst", "start_at", "end_at", "jitter", "exclude_calendars", "require_calendars"],
    ),
    (
        "command",
        &[
            "shell",
            "directory",
            "environment",
            "inherit",
            "secrets",
            "secret_files",
            "stdin",
            "user",
            "limits",
        ],
    ),
];

/// A file with all tables.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct TemplateTables {
    #[serde(default)]
    job: Vec<Map<String, Value>>,
    #[serde(default)]
    calendar: Vec<Map<String, Value>>,
    #[serde(default)]
    variables: Map<String, Value>,
    #[serde(default)]
    defaults: Map<String, Value>,
    #[serde(default)]
    template: BTreeMap<String, Map<String, Value>>,
}

/// Whether a file has one of these tables, or a job with a template.
#[derive(Debug, Deserialize)]
struct TableProbe {
    variables: Option<IgnoredAny>,
    defaults: Option<IgnoredAny>,
    template: Option<IgnoredAny>,
    #[serde(default)]
    job: Vec<JobProbe>,
}

#[derive(Debug, Deserialize)]
struct JobProbe {
    template: Option<IgnoredAny>,
}

/// What the file `defaults` of a folder has for the other files of the folder.
#[derive(Debug, Default, PartialEq)]
pub(super) struct SharedTables {
    /// The name of the file in messages.
    shown: String,
    text: String,
    language: Option<TextFormat>,
    variables: Map<String, Value>,
    defaults: Map<String, Value>,
    templates: BTreeMap<String, Map<String, Value>>,
}

/// Puts files together.
#[derive(Debug)]
pub(super) struct TemplateExpander<'a> {
    given: &'a GivenVariables,
    /// The names of all variables of all files.
    known: BTreeSet<String>,
}

/// Reads the file with what others of its folder take over.
///
/// # Errors
/// It is not valid, or declares a job or a calendar.
pub(super) fn shared(file: FileText) -> Result<Arc<SharedTables>, CliError> {
    let FileText { shown, language, text, .. } = file;
    let tables = tables(language, &text).map_err(|e| CliError::invalid(format!("{shown}:{e}")))?;
    if !tables.job.is_empty() || !tables.calendar.is_empty() {
        return Err(CliError::invalid(format!(
            "{shown}: this file is for the variables, defaults and templates of the other files of its folder: declare jobs \
             and calendars in one of those"
        )));
    }
    let TemplateTables { variables, defaults, template: templates, .. } = tables;
    Ok(Arc::new(SharedTables { shown, text, language: Some(language), variables, defaults, templates }))
}

fn tables(language: TextFormat, text: &str) -> Result<TemplateTables, text_input::InputError> {
    match language {
        TextFormat::Yaml | TextFormat::Json if text.trim().is_empty() => Ok(TemplateTables::default()),
        _ => text_input::read(language, text, ReadTarget::JobFile),
    }
}

/// Whether a file is to be put together; one that is not valid may not be.
fn has_tables(file: &FileText) -> bool {
    if file.shared.is_some() {
        return true;
    }
    let probe = || text_input::read::<TableProbe>(file.language, &file.text, ReadTarget::JobFile);
    WORDS.iter().any(|word| file.text.contains(word))
        && probe().is_ok_and(|probe| {
            let tables = [probe.variables, probe.defaults, probe.template];
            tables.iter().any(Option::is_some) || probe.job.iter().any(|job| job.template.is_some())
        })
}

impl<'a> TemplateExpander<'a> {
    /// With these values of variables.
    pub(super) fn new(given: &'a GivenVariables) -> Self {
        Self { given, known: BTreeSet::new() }
    }

    /// What a file declares with its variables, defaults and templates; `None` for a file without any.
    ///
    /// # Errors
    /// A table or a job is not valid: the file, the line, the job and the key.
    pub(super) fn expand(&mut self, file: &FileText) -> Result<Option<DeclarationTables>, CliError> {
        if !has_tables(file) {
            return Ok(None);
        }
        let FileText { shown, language, text, shared } = file;
        let own = tables(*language, text).map_err(|e| CliError::invalid(format!("{shown}:{e}")))?;
        let mut variables = Variables::default();
        let empty = SharedTables::default();
        let shared = shared.as_deref().unwrap_or(&empty);
        for (declared, shown, text) in
            [(&shared.variables, &shared.shown, &shared.text), (&own.variables, shown, text)]
        {
            let wrong = |(name, what): (String, String)| {
                let line = line_of(text, &name);
                CliError::invalid(format!("{shown}:{line}: variables.{name} {what}"))
            };
            variables.declare(declared, self.given).map_err(wrong)?;
        }
        self.known.extend(variables.names().map(ToOwned::to_owned));
        check_tables(&own.defaults, &own.template, *language, shown, text)?;
        let language = shared.language.unwrap_or(*language);
        check_tables(&shared.defaults, &shared.templates, language, &shared.shown, &shared.text)?;
        declarations(own, shared, &variables, file).map(Some)
    }

    /// Checks that each value of `--var` is one of a variable of a file.
    ///
    /// # Errors
    /// One is not.
    pub(super) fn finish(self) -> Result<(), CliError> {
        self.given.check_known(self.known.iter().map(String::as_str))
    }
}

/// The declarations of a file, put together.
fn declarations(
    own: TemplateTables,
    shared: &SharedTables,
    variables: &Variables,
    file: &FileText,
) -> Result<DeclarationTables, CliError> {
    let FileText { shown, language, text, .. } = file;
    let mut all = DeclarationTables::default();
    let mut lines = JobLineFinder::new(text);
    for calendar in own.calendar {
        let name = name_of(&calendar);
        let line = lines.of(&name);
        let wrong = |what: &str| CliError::invalid(format!("{shown}:{line}: calendar {name}: {what}"));
        let mut value = Value::Object(calendar);
        variables.fill(&mut value).map_err(|(key, what)| wrong(&format!("{key}: {what}")))?;
        let calendar: Result<CalendarFile, _> = text_input::value(value, *language, ReadTarget::Calendar);
        all.calendar.push(calendar.map_err(|e| wrong(&e.text))?);
    }
    let bases = JobBases { shared, defaults: &own.defaults, templates: &own.template };
    let mut lines = JobLineFinder::new(text);
    for job in own.job {
        let name = name_of(&job);
        let line = lines.of(&name);
        let wrong = |key: &str, what: &str| {
            let found = lines.of_key(key);
            let line = if found > 1 { found } else { line };
            CliError::invalid(format!("{shown}:{line}: job {name}: {what}"))
        };
        let mut value = bases.whole(job).map_err(|what| wrong("template", &what))?;
        variables.fill(&mut value).map_err(|(key, what)| wrong(&key, &format!("{key}: {what}")))?;
        let job: Result<JobFile, _> = text_input::value(value, *language, ReadTarget::Job);
        all.job.push(job.map_err(|e| wrong(&e.text, &e.text))?);
    }
    Ok(all)
}

/// What the jobs of a file take over.
struct JobBases<'a> {
    shared: &'a SharedTables,
    defaults: &'a Map<String, Value>,
    templates: &'a BTreeMap<String, Map<String, Value>>,
}

impl JobBases<'_> {
    /// A job with what it takes over: defaults of its folder, of its file, those of its template, and its own keys, each
    /// before the ones before it.
    fn whole(&self, mut job: Map<String, Value>) -> Result<Value, String> {
        let template = match job.remove("template") {
            None => None,
            Some(Value::String(name)) => Some(self.template(&name)?),
            Some(other) => return Err(format!("template takes the name of a template, not {other}")),
        };
        let mut own = template.cloned().unwrap_or_default();
        merge(&mut own, &job, &CHOICES);
        let mut whole = self.shared.defaults.clone();
        merge(&mut whole, self.defaults, &CHOICES);
        for (needed, keys) in DEPENDENT {
            if !own.contains_key(needed) && !whole.contains_key(needed) {
                whole.retain(|key, _| !keys.contains(&key.as_str()));
            }
        }
        merge(&mut whole, &own, &CHOICES);
        Ok(Value::Object(whole))
    }

    fn template(&self, name: &str) -> Result<&Map<String, Value>, String> {
        if let Some(found) = self.templates.get(name).or_else(|| self.shared.templates.get(name)) {
            return Ok(found);
        }
        let known: Vec<&str> =
            self.templates.keys().chain(self.shared.templates.keys()).map(String::as_str).collect();
        Err(match nearest(name, &known) {
            Some(meant) => format!("there is no template {name:?}: did you mean {meant:?}?"),
            None if known.is_empty() => {
                format!("there is no template {name:?}: declare it in [template.{name}]")
            }
            None => format!("there is no template {name:?}: the templates are {}", known.join(", ")),
        })
    }
}

/// Adds keys to a table: a table is merged key by key, anything else replaced.
fn merge(base: &mut Map<String, Value>, over: &Map<String, Value>, replaced: &[&str]) {
    for (key, value) in over {
        match (base.get_mut(key), value) {
            (Some(Value::Object(below)), Value::Object(above)) if !replaced.contains(&key.as_str()) => {
                merge(below, above, &[]);
            }
            _ => {
                base.insert(key.clone(), value.clone());
            }
        }
    }
}

/// Checks that defaults and templates have only keys that several jobs may share.
fn check_tables(
    defaults: &Map<String, Value>,
    templates: &BTreeMap<String, Map<String, Value>>,
    language: TextFormat,
    shown: &str,
    text: &str,
) -> Result<(), CliError> {
    let named = templates.iter().map(|(name, keys)| (format!("template.{name}"), keys));
    for (table, keys) in std::iter::once(("defaults".to_owned(), defaults)).chain(named) {
        for key in keys.keys() {
            let wrong = match key.as_str() {
                "name" => Some("each job has a name of its own".to_owned()),
                "template" => Some("only a job has a template".to_owned()),
                _ => unknown_key(key, language),
            };
            if let Some(wrong) = wrong {
                let line = line_of(text, key);
                return Err(CliError::invalid(format!("{shown}:{line}: {table}.{key}: {wrong}")));
            }
        }
    }
    Ok(())
}

/// What is wrong with a key that no job has.
fn unknown_key(key: &str, language: TextFormat) -> Option<String> {
    let probe = serde_json::json!({ "name": "x", key: null });
    let refused = text_input::value::<JobFile>(probe, language, ReadTarget::Job).err()?;
    refused.text.starts_with("unknown key").then_some(refused.text)
}

fn name_of(declared: &Map<String, Value>) -> String {
    declared.get("name").and_then(Value::as_str).unwrap_or("without a name").to_owned()
}

/// The first line that assigns a key; 1 if there is none.
fn line_of(text: &str, key: &str) -> usize {
    text.lines().position(|line| holds(line, key)).map_or(1, |index| index + 1)
}

#[cfg(test)]
mod tests;
