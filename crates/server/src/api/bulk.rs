//! One verb on many jobs, with an answer for each of them.

use evenkeel_client::requests::BulkBody;
use std::collections::BTreeSet;

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use evenkeel::audit::{AuditAction, AuditOutcome};
use evenkeel_core::ids::JobName;
use evenkeel_core::input::{Command, CommandKind, RunOptions};
use evenkeel_core::job::JobSelector;
use evenkeel_core::principal::Role;

use super::audited::{AuditedRequest, find_verb};
use super::demand::{on_job, within};
use super::error::{done, read_body};
use super::known_caller::KnownCaller;
use super::{ApiError, App, jobs, namespaces};
use crate::queries::{self, JobSearch};
use crate::text_input::ReadTarget;
use evenkeel_client::types::{BulkAnswer, BulkItem, RunAnswer};

/// The most jobs of one request.
const JOBS_MAX: usize = 1_000;
/// How many of them at once.
const AT_ONCE: usize = 64;

/// Does to each job what the verb says. Those that fail do not keep the others from it.
pub(super) async fn switch(
    State(app): State<App>,
    caller: KnownCaller,
    verb: Result<Path<String>, PathRejection>,
    asked: AuditedRequest,
    body: Bytes,
) -> Result<Json<BulkAnswer>, ApiError> {
    let Path(verb) = verb?;
    let body: BulkBody = read_body(&body, ReadTarget::Body)?;
    let names = chosen(&app, &caller, &body)?;
    // The verb is refused before anything is done.
    let sample: JobName = "x".parse()?;
    if verb != CommandKind::RUN.verb {
        find_verb("job", &verb, Command::on_job(&sample, None), &[CommandKind::RUN])?;
    }
    let mut items = Vec::with_capacity(names.len());
    // Together they share commits.
    for some in names.chunks(AT_ONCE) {
        let tasks: Vec<_> = some
            .iter()
            .map(|name| {
                let (app, caller, asked) = (app.clone(), caller.clone(), asked.clone());
                let (name, verb) = (name.clone(), BulkVerb { verb: verb.clone(), dry_run: body.dry_run });
                tokio::spawn(async move { item(&app, &caller, &asked, &name, &verb).await })
            })
            .collect();
        for task in tasks {
            items.push(task.await.map_err(|e| ApiError::internal(e.to_string()))?);
        }
    }
    let done = items.iter().filter(|item| item.done).count();
    let failed = items.iter().filter(|item| item.code.is_some()).count();
    Ok(Json(BulkAnswer { items, done, failed }))
}

/// What is done to each job.
struct BulkVerb {
    verb: String,
    /// Whether it is only said to which.
    dry_run: bool,
}

/// Does it to one job, and says what became of it.
async fn item(
    app: &App,
    caller: &KnownCaller,
    asked: &AuditedRequest,
    name: &JobName,
    BulkVerb { verb, dry_run }: &BulkVerb,
) -> BulkItem {
    let outcome = match may(app, caller, name) {
        Err(refused) if !*dry_run => {
            // The node records what reaches it.
            let action = AuditAction::new(verb, &format!("job {name}")).of_job(Some(name.clone()));
            let (asker, why) = (asked.asker.clone(), refused.text().to_owned());
            app.handle.log_decision(asker, action, AuditOutcome::Refused, why).await;
            asked.mark_noted();
            Err(refused)
        }
        Err(refused) => Err(refused),
        Ok(()) if *dry_run => Ok(BulkItem::default()),
        Ok(()) => one(app, asked, name, verb).await,
    };
    let job = name.to_string();
    match outcome {
        Ok(done) => BulkItem { job, done: !*dry_run, ..done },
        Err(refused) => {
            let (code, detail) = (Some(refused.code().to_owned()), Some(refused.message()));
            BulkItem { job, code, detail, ..BulkItem::default() }
        }
    }
}

/// The jobs that the body means, each once.
fn chosen(app: &App, caller: &KnownCaller, body: &BulkBody) -> Result<Vec<JobName>, ApiError> {
    let too_many =
        || ApiError::invalid(format!("more than {JOBS_MAX} jobs are meant: do it in several requests"));
    let mut names = match (&body.jobs, body.label.as_deref()) {
        (Some(_), _) if body.namespace.is_some() => {
            return Err(ApiError::invalid("namespace goes with label: names have their namespaces"));
        }
        (Some(names), None) => names.clone(),
        (None, Some(text)) => {
            let selector: JobSelector = text.parse()?;
            if selector.is_empty() {
                return Err(ApiError::invalid("label is empty: write a condition, as team=billing"));
            }
            match &body.namespace {
                // Each job is refused on its own where its labels decide.
                Some(namespace) if caller.may_on_some_job(Role::Operator, namespace.as_str()) => {}
                Some(namespace) => within(caller, Role::Operator, namespace.as_str())?,
                None if caller.may_on_some_job_anywhere(Role::Operator) => {}
                None => return Err(ApiError::invalid("name the namespace of the jobs with these labels")),
            }
            namespaces::known(app, body.namespace.as_ref())?;
            let search = JobSearch {
                labels: Some(&selector),
                namespace: body.namespace.as_ref(),
                ..JobSearch::default()
            };
            let page = queries::jobs(&app.handle, None, JOBS_MAX, search);
            if page.after.is_some() {
                return Err(too_many());
            }
            page.jobs.iter().map(|job| job.name.parse()).collect::<Result<_, _>>()?
        }
        _ => {
            return Err(ApiError::invalid(
                "say either jobs, a list of names, or label, conditions on labels",
            ));
        }
    };
    let mut seen = BTreeSet::new();
    names.retain(|name| seen.insert(name.clone()));
    if names.len() > JOBS_MAX { Err(too_many()) } else { Ok(names) }
}

/// Whether the caller may do it to this job, which exists.
fn may(app: &App, caller: &KnownCaller, name: &JobName) -> Result<(), ApiError> {
    on_job(app, caller, Role::Operator, name)?;
    match queries::is_job(&app.handle, name) {
        true => Ok(()),
        false => Err(jobs::unknown(&app.handle, name)),
    }
}

/// Does it to one job that exists.
async fn one(app: &App, asked: &AuditedRequest, name: &JobName, verb: &str) -> Result<BulkItem, ApiError> {
    if verb == CommandKind::RUN.verb {
        let request = asked.request_id()?;
        let RunAnswer { run, applied, reason, warnings, .. } =
            jobs::run_once(app, asked, name.clone(), RunOptions::default(), request).await?;
        let (run, applied) = (Some(run), Some(applied));
        return Ok(BulkItem { run, applied, reason, warnings, ..BulkItem::default() });
    }
    let command = find_verb("job", verb, Command::on_job(name, None), &[])?;
    let Json(_) = done(asked.ask(app, command).await)?;
    let warnings = queries::remarks(&app.handle, name, None, verb);
    Ok(BulkItem { warnings, ..BulkItem::default() })
}
