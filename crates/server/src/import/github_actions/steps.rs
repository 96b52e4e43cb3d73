//! The steps of a job as one command.

use evenkeel_core::job::{JobFile, Program};
use serde_json::Value;

use super::super::foreign_keys::ForeignKeys;
use super::super::{ImportNotes, ImportRefusal, ImportSource, script};

/// Actions that only prepare a machine; the others do something that would be missing.
const PREPARING: [&str; 4] = ["actions/checkout", "actions/setup-", "actions/cache", "docker/setup-"];
/// Variables of GitHub's runner that a script writes to.
const WRITTEN: [&str; 5] =
    ["GITHUB_ENV", "GITHUB_OUTPUT", "GITHUB_PATH", "GITHUB_STATE", "GITHUB_STEP_SUMMARY"];

/// The shell and the folder of steps that say none.
#[derive(Clone, Debug, Default)]
pub(super) struct StepDefaults {
    shell: Option<String>,
    directory: Option<String>,
}

impl StepDefaults {
    /// Takes `defaults.run` out of a workflow or a job.
    pub(super) fn take(keys: &mut ForeignKeys) -> Result<Self, ImportRefusal> {
        let mut run = keys.table("defaults")?.table("run")?;
        Ok(Self { shell: run.text("shell")?, directory: run.text("working-directory")? })
    }

    /// These, and what they lack of others.
    pub(super) fn or(self, others: &Self) -> Self {
        Self {
            shell: self.shell.or_else(|| others.shell.clone()),
            directory: self.directory.or_else(|| others.directory.clone()),
        }
    }
}

/// A step that runs something.
struct RunStep {
    argv: Vec<String>,
    environment: Vec<(String, String)>,
    directory: String,
    may_fail: bool,
}

impl RunStep {
    /// As a part of a shell's script.
    fn line(&self, folder: &str) -> String {
        let mut line = String::new();
        if !self.environment.is_empty() {
            let pairs: Vec<String> =
                self.environment.iter().map(|(name, value)| format!("{name}={value}")).collect();
            line = format!("env {} ", script::quoted(&pairs));
        }
        line += &script::quoted(&self.argv);
        if self.directory != folder {
            line = format!("( cd {} && {line} )", script::quote(&self.directory));
        }
        if self.may_fail { format!("{{ {line} || true; }}") } else { line }
    }
}

/// Takes the steps as the command of a job.
pub(super) fn take(
    job: &mut JobFile,
    steps: Vec<Value>,
    defaults: &StepDefaults,
    source: &ImportSource,
    notes: &mut ImportNotes,
) -> Result<(), ImportRefusal> {
    let mut runs = Vec::new();
    for (index, step) in steps.into_iter().enumerate() {
        let at = format!("steps[{index}]");
        let step = ForeignKeys::of(&at, step)?;
        runs.extend(read(job, step, defaults, source, notes)?);
    }
    let folder = source.directory.clone();
    match folder.is_empty() {
        true => notes.changed(
            "steps",
            "they start in the folder of the node, not in a checkout: --directory says where one is",
        ),
        false => {
            notes.changed("steps", format!("directory = {folder:?}: the checkout there is used as it is"))
        }
    }
    match runs.as_slice() {
        [] => return Err(ImportRefusal::new("steps", "no step runs a command")),
        [one] if one.environment.is_empty() && !one.may_fail => {
            job.command = Program::Argv(one.argv.clone());
            job.directory.clone_from(&one.directory);
            notes.taken("steps", "command");
        }
        several => {
            let lines: Vec<String> = several.iter().map(|step| step.line(&folder)).collect();
            job.shell = true;
            job.command = Program::Line(lines.join(" &&\n"));
            job.directory = folder;
            let count = several.len();
            notes.changed(
                "steps",
                format!("command with shell = true: {count} in their order, up to the first that fails"),
            );
        }
    }
    Ok(())
}

fn read(
    job: &mut JobFile,
    mut step: ForeignKeys,
    defaults: &StepDefaults,
    source: &ImportSource,
    notes: &mut ImportNotes,
) -> Result<Option<RunStep>, ImportRefusal> {
    if let Some(condition) = step.text("if")? {
        let said = format!("{condition:?} cannot be evaluated here: test it in the command");
        return Err(ImportRefusal::new(&step.path("if"), said));
    }
    step.ignore(&["name", "id"]);
    if let Some(action) = step.text("uses")? {
        return uses(&action, &step.path("uses"), notes).map(|()| None);
    }
    let text = step.needed("run")?;
    let field = step.path("run");
    plain(&field, &text)?;
    if let Some(name) = WRITTEN.iter().find(|name| text.contains(**name)) {
        return Err(ImportRefusal::new(
            &field,
            format!("{name} is a file of GitHub's runner: let the command keep what it writes there"),
        ));
    }
    if text.contains("GITHUB_") || text.contains("RUNNER_") {
        notes.changed(&field, "variables of GitHub's runner are not set: a run has EVENKEEL_JOB and others");
    }
    let shell = step.text("shell")?.or_else(|| defaults.shell.clone());
    let mut argv = match shell.as_deref() {
        None => vec!["bash", "-e", "-c"],
        Some("bash") => vec!["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c"],
        Some("sh") => vec!["sh", "-e", "-c"],
        Some("python") => vec!["python3", "-c"],
        Some(other) => {
            return Err(ImportRefusal::new(
                &step.path("shell"),
                format!("{other} has no equivalent: bash, sh and python have"),
            ));
        }
    };
    argv.push(&text);
    let argv = argv.into_iter().map(ToOwned::to_owned).collect();
    let field = step.path("env");
    let mut environment = Vec::new();
    for (name, value) in step.pairs("env")? {
        match secret(&value) {
            Some(_) => variable(job, &field, name, value, notes)?,
            None => {
                plain(&field, &value)?;
                environment.push((name, value));
            }
        }
    }
    let folder = step.text("working-directory")?.or_else(|| defaults.directory.clone());
    let directory = directory(&step.path("working-directory"), folder, source)?;
    let may_fail = step.flag("continue-on-error")?.unwrap_or_default();
    step.lost(notes, &[("timeout-minutes", "the limit of the job counts, for all steps together")]);
    Ok(Some(RunStep { argv, environment, directory, may_fail }))
}

/// An action: one that prepares a machine is left out, another one is refused.
fn uses(action: &str, field: &str, notes: &mut ImportNotes) -> Result<(), ImportRefusal> {
    if !PREPARING.iter().any(|known| action.starts_with(known)) {
        return Err(ImportRefusal::new(
            field,
            format!("{action} runs only on GitHub: write what it does as a command"),
        ));
    }
    let said = match action.starts_with("actions/checkout") {
        true => format!("{action}: nothing is checked out; --directory says where a checkout is"),
        false => format!("{action}: what it installs has to be on the nodes"),
    };
    notes.lost(field, said);
    Ok(())
}

/// The folder of a step; one that is relative lies in the checkout.
fn directory(field: &str, folder: Option<String>, source: &ImportSource) -> Result<String, ImportRefusal> {
    let Some(folder) = folder else { return Ok(source.directory.clone()) };
    plain(field, &folder)?;
    if folder.starts_with('/') {
        return Ok(folder);
    }
    if source.directory.is_empty() {
        return Err(ImportRefusal::new(
            field,
            format!("{folder:?} lies in the checkout: --directory says where that is"),
        ));
    }
    Ok(format!("{}/{}", source.directory.trim_end_matches('/'), folder.trim_start_matches("./")))
}

/// Takes a variable: a secret by its name, and any other text without expressions.
pub(super) fn variable(
    job: &mut JobFile,
    field: &str,
    name: String,
    value: String,
    notes: &mut ImportNotes,
) -> Result<(), ImportRefusal> {
    let path = format!("{field}.{name}");
    if let Some(secret) = secret(&value) {
        notes.changed(
            &path,
            format!("secrets: the secret {secret:?}, which has to be set: evenkeel secret set {secret}"),
        );
        job.environment.remove(&name);
        job.secrets.insert(name, secret);
        return Ok(());
    }
    plain(&path, &value)?;
    notes.taken(&path, "environment");
    job.secrets.remove(&name);
    job.environment.insert(name, value);
    Ok(())
}

/// The name in `${{ secrets.NAME }}`, where that is all.
fn secret(value: &str) -> Option<String> {
    let name = value.trim().strip_prefix("${{")?.strip_suffix("}}")?.trim().strip_prefix("secrets.")?;
    name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_').then(|| name.to_owned())
}

/// Refuses a text with an expression.
fn plain(field: &str, text: &str) -> Result<(), ImportRefusal> {
    match text.contains("${{") {
        true => {
            Err(ImportRefusal::new(field, "an expression ${{ … }} cannot be evaluated here: write its value"))
        }
        false => Ok(()),
    }
}
