//! `evenkeel job edit`: a declaration in an editor, checked and planned before it replaces the one that was read.

use std::process::Command;

use clap::Args;
use evenkeel_core::job::{Job, JobFile};

use super::draft::{Draft, NOTE};
use super::job_args::JobArgs;
use super::job_show::declaration;
use super::response::print_response;
use super::{plan, prompt, switch_text};
use crate::client::{ApiClient, ConnectArgs};
use crate::exit::{CliError, ExitKind};
use crate::files::{self, ReadRequest};
use crate::output;
use evenkeel_client::requests::PlanBody;
use evenkeel_client::types::{ApplyAnswer, JobDetail, PlanAnswer, word};
use evenkeel_client::{ClientErrorKind, Precondition};

/// What stands above a declaration that is edited.
const HEAD: &str = "Save and leave the editor to go on. Leave this file as it is, and nothing changes.";
/// The editor of a person who names none.
const EDITOR: &str = "vi";

/// `job edit`.
#[derive(Debug, Args)]
pub(crate) struct JobEditArgs {
    #[command(flatten)]
    job: JobArgs,
    /// Declare what was edited without asking; needed where no person can be asked
    #[arg(long)]
    yes: bool,
}

/// A declaration that the node would take, and what it would change.
struct CheckedEdit {
    job: Job,
    plan: PlanAnswer,
}

/// How often an editor may save mistakes where no person is there to give up.
const TRIES_MAX: u32 = 3;

/// Opens the declaration in an editor, and declares what was saved.
///
/// # Errors
/// There is no such job; no person can be asked; the editor failed; the job was changed by another caller meanwhile. In
/// all of these cases but the first the edited text is kept in a file, which the error names.
pub(super) fn edit(args: JobEditArgs) -> Result<(), CliError> {
    let job = args.job.resolve();
    let client = job.reach.client()?;
    let found = client.show_job(&job.name)?;
    if !args.yes && !prompt::is_person_there() {
        return Err(CliError::usage(
            "no person can be asked here whether the changes are right: say so with --yes",
        ));
    }
    let declared = declaration(&found.job)?;
    let draft = Draft::create(&declared)?;
    let done = edited(&client, &found, &draft, &declared).and_then(|edited| match edited {
        None => Ok(None),
        Some(edited) => declare(&client, &found, edited, args.yes).map(Some),
    });
    match done {
        Err(failure) => Err(draft.kept(failure)),
        Ok(None) => {
            draft.remove();
            output::line("nothing was edited, and nothing changes")
        }
        Ok(Some(answer)) => {
            draft.remove();
            print_declared(&job.reach, &answer)
        }
    }
}

/// Has the text edited until a node would take it; `None` if it was left as it is.
fn edited(
    client: &ApiClient,
    found: &JobDetail,
    draft: &Draft,
    declared: &str,
) -> Result<Option<CheckedEdit>, CliError> {
    let mut given = draft.write(HEAD, declared)?;
    let mut tries = 0;
    loop {
        open(draft)?;
        let (whole, text) = draft.read()?;
        if text.trim() == declared.trim() {
            return Ok(None);
        }
        // Else a person who gives up, or a program, would see the same again for ever.
        let is_same_again = whole == given && given.lines().next() != Some(&format!("{NOTE}{HEAD}"));
        if is_same_again {
            return Err(CliError::invalid(
                "the text was saved unchanged, with its mistakes: nothing was changed",
            ));
        }
        draft.write("", &text)?;
        match check(client, found, draft)? {
            Ok(checked) => return Ok(Some(checked)),
            Err(mistakes) => {
                given = draft.write(&mistakes, &text)?;
                // A program that edits could be called for ever.
                tries += 1;
                if tries == TRIES_MAX && !prompt::is_person_there() {
                    return Err(CliError::invalid(mistakes));
                }
            }
        }
    }
}

/// Reads what was saved, and has the node plan it. The inner error is a mistake, which an editor can correct.
fn check(
    client: &ApiClient,
    found: &JobDetail,
    draft: &Draft,
) -> Result<Result<CheckedEdit, String>, CliError> {
    let request = ReadRequest { paths: &[draft.path().to_owned()], ..ReadRequest::default() };
    let declared = match files::read_all(&request) {
        Ok(declared) => declared,
        Err(failure) if failure.exit == ExitKind::Invalid => {
            return Ok(Err(draft.relative(&failure.message)));
        }
        Err(failure) => return Err(failure),
    };
    let job = match (declared.jobs.as_slice(), declared.calendars.is_empty()) {
        ([job], true) => job.clone(),
        _ => return Ok(Err(format!("write one [[job]], which is {}, and nothing else", found.name))),
    };
    if job.name != found.job.name {
        let text = format!(
            "the name stays {}: `evenkeel job rename {} NEW` makes a job of another name of it",
            found.name, found.name
        );
        return Ok(Err(text));
    }
    let plan = client.plan_changes(&PlanBody { jobs: vec![job.to_file()], ..PlanBody::default() });
    match plan {
        Ok(plan) if plan.refused.is_empty() => Ok(Ok(CheckedEdit { job, plan })),
        Ok(plan) => {
            let refused: Vec<&str> = plan.refused.iter().map(|refused| refused.detail.as_str()).collect();
            Ok(Err(refused.join("\n")))
        }
        Err(e) if e.kind == ClientErrorKind::Invalid => Ok(Err(e.message)),
        Err(e) => Err(e.into()),
    }
}

/// Shows the plan, asks, and declares the job if it is still the one that was read.
fn declare(
    client: &ApiClient,
    found: &JobDetail,
    edited: CheckedEdit,
    is_sure: bool,
) -> Result<ApplyAnswer, CliError> {
    plan::blocks(&edited.plan).iter().for_each(|line| output::print_message(line));
    if !is_sure && !prompt::confirm("declare it?")? {
        return Err(CliError::new(ExitKind::Failed, "nothing was changed"));
    }
    let unread = client.only_if(Precondition::Version(vec![found.version]));
    Ok(unread.put_job(&found.name, &edited.job.to_file())?)
}

/// Opens the file in the person's editor, and waits for it.
fn open(draft: &Draft) -> Result<(), CliError> {
    let named = |name: &str| std::env::var(name).ok().filter(|text| !text.trim().is_empty());
    let editor = named("VISUAL").or_else(|| named("EDITOR")).unwrap_or_else(|| EDITOR.to_owned());
    // An editor may have arguments, as "code --wait".
    let mut shell = Command::new("/bin/sh");
    shell.arg("-c").arg(format!("{editor} \"$1\"")).arg("evenkeel").arg(draft.path());
    let failed = |why: String| {
        CliError::new(ExitKind::Failed, format!("the editor {editor:?} {why}: set VISUAL or EDITOR"))
    };
    let status = shell.status().map_err(|e| failed(format!("cannot be started: {e}")))?;
    match status.success() {
        true => Ok(()),
        false => Err(failed(format!("failed ({status}), so nothing was changed"))),
    }
}

/// Prints what became of a declared job.
///
/// # Errors
/// Standard output is closed.
pub(super) fn print_declared(reach: &ConnectArgs, answer: &ApplyAnswer) -> Result<(), CliError> {
    output::warn(&answer.warnings);
    let Some(row) = answer.jobs.first() else { return Ok(()) };
    let mut lines = vec![format!("job {} is {}", row.name, word(&row.applied))];
    lines.extend(row.switches.iter().map(|switch| format!("  {}", switch_text::left(switch))));
    lines.extend(row.ended.iter().map(|switch| format!("  {}", switch_text::ended(switch))));
    print_response(reach, &answer.jobs, &lines.join("\n"))
}

/// What a declaration would change.
///
/// # Errors
/// No node answers, or the declaration would be refused.
pub(super) fn planned(client: &ApiClient, file: &JobFile) -> Result<PlanAnswer, CliError> {
    let plan = client.plan_changes(&PlanBody { jobs: vec![file.clone()], ..PlanBody::default() })?;
    match plan::refusal(&plan.refused) {
        Some(refused) => Err(refused),
        None => Ok(plan),
    }
}
