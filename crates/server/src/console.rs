//! The console: its program at `/`, which is built from the sources in `console/`, and a small page without script at `/plain`.

mod assets;
mod audit;
mod built;
mod calendars;
mod events;
mod login;
mod parts;
mod shards;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, Request, State};
use axum::http::header;
use axum::response::{Html, IntoResponse, Response};
use evenkeel_core::ids::{JobName, Namespace};
use evenkeel_core::job::Placement;
use evenkeel_core::principal::Role;
use jiff::Timestamp;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde::Deserialize;

use crate::api::{App, ConsoleSnapshot, Credential, KnownCaller, RemoteHistories, authenticate, caller};
use crate::queries::{self, JobSearch};
pub(crate) use assets::asset;
use evenkeel_client::types::{JobRow, NodeRow, RunRow, ShardPage, ShardRangeRow};
pub(crate) use login::{LoginPage, confirm_page, logged_in_page, provider_failed_page};
use parts::{chip, time};

/// `/console.css`.
pub(crate) async fn style() -> Response {
    ([(header::CONTENT_TYPE, "text/css; charset=utf-8")], include_str!("console/console.css")).into_response()
}

/// `/favicon.svg`.
pub(crate) async fn icon() -> Response {
    ([(header::CONTENT_TYPE, "image/svg+xml")], include_str!("console/favicon.svg")).into_response()
}

/// The query of the page without script.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct ConsoleQuery {
    /// The job whose shards are shown.
    #[serde(default)]
    job: String,
    /// The text that the names of the shown jobs contain.
    #[serde(default)]
    find: String,
}

/// `/`: the console. For a caller without a session or the key it is the login form.
pub(crate) async fn page(State(app): State<App>, request: Request) -> Html<String> {
    match let_in(&app, request).await {
        Ok(Viewer { part, .. }) => Html(program(part.as_ref()).into_string()),
        Err(form) => form,
    }
}

/// `/plain`, `/plain?job=NAME` and `/plain?find=TEXT`: the page without script.
pub(crate) async fn plain_page(
    State(app): State<App>,
    asked: Result<Query<ConsoleQuery>, QueryRejection>,
    request: Request,
) -> Html<String> {
    let Viewer { caller, part } = match let_in(&app, request).await {
        Ok(viewer) => viewer,
        Err(form) => return form,
    };
    let namespace = part.as_ref();
    let asked = asked.map_or_else(|_| ConsoleQuery::default(), |Query(asked)| asked);
    let find = asked.find.trim();
    let picture = ConsoleSnapshot::find(
        &app,
        &RemoteHistories::collect(&app, namespace).await,
        JobSearch { find, namespace, ..JobSearch::default() },
    )
    .await;
    let shards = match asked.job.parse::<JobName>().ok() {
        Some(job) if caller.may(Role::Viewer, job.namespace()) => {
            queries::shards(&app.handle, &job).await.ok().flatten().map(queries::folded)
        }
        _ => None,
    };
    Html(whole(&picture, shards.as_ref(), find, &caller.proof.to_string()).into_string())
}

/// A caller that may look at the console.
struct Viewer {
    caller: KnownCaller,
    /// The only namespace that it sees, if it does not see all.
    part: Option<Namespace>,
}

/// Lets a caller in that has a session or the key, and a role; for any other this is the login form.
async fn let_in(app: &App, request: Request) -> Result<Viewer, Html<String>> {
    let (shown, from) = (Credential::of(&app.access, &request), caller(&request));
    drop(request);
    let form = LoginPage { provider: app.provider_label(), ..LoginPage::default() };
    if shown.is_none() {
        return Err(form.html());
    }
    let Ok(caller) = authenticate(app, shown, from).await else { return Err(form.html()) };
    match caller.visible_part() {
        Some(part) => Ok(Viewer { caller, part }),
        None => {
            let who = caller.proof.to_string();
            let notice =
                format!("You are logged in as {who}, and have no role yet: an administrator gives you one.");
            Err(LoginPage { notice: &notice, has_session: true, ..form }.html())
        }
    }
}

/// The page that the program runs in.
fn program(part: Option<&Namespace>) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "Evenkeel" }
                link rel="icon" href="favicon.svg" type="image/svg+xml";
                link rel="stylesheet" href={ "assets/" (built::STYLE) };
                script src={ "assets/" (built::SCRIPT) } type="module" {}
            }
            body {
                div #app data-namespace=(part.map_or("", Namespace::as_str)) {}
                noscript { p { "The console needs JavaScript. " a href="plain" { "This page" } " shows the cluster without." } }
            }
        }
    }
}

fn whole(
    picture: &ConsoleSnapshot,
    shared: Option<&ShardPage<ShardRangeRow>>,
    find: &str,
    who: &str,
) -> Markup {
    let body = html! {
        p #closed role="status" hidden[!picture.closed] {
            "This node was closed from outside and is no member: start it again."
        }
        main {
            (summary(picture))
            (shards::section(shared))
            (jobs(picture, find))
            (runs(picture))
            (calendars::section(&picture.calendars))
            (nodes(&picture.nodes))
            (events::section(&picture.events))
            (audit::section(&picture.audit))
        }
        footer {
            "version " (env!("CARGO_PKG_VERSION")) " · times are in UTC · " span #who { "logged in as " (who) } " · " a href="./" { "console" } (login::log_out())
        }
    };
    frame("", &html! {}, &body)
}

/// A page with its head; `up` leads to the console, and `head` is what this page adds.
fn frame(up: &str, head: &Markup, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "Evenkeel" }
                link rel="icon" href={ (up) "favicon.svg" } type="image/svg+xml";
                link rel="stylesheet" href={ (up) "console.css" };
                (head)
            }
            body {
                header {
                    (PreEscaped(include_str!("console/favicon.svg")))
                    h1 { "Evenkeel" }
                }
                (body)
            }
        }
    }
}

fn summary(picture: &ConsoleSnapshot) -> Markup {
    html! {
        dl.summary {
            div { dt { "jobs that may fire" } dd #count-jobs { (picture.enabled) } }
            div { dt { "nodes" } dd #count-nodes { (picture.nodes.len()) } }
            div { dt { "running now" } dd #count-running { (picture.running) } }
            div { dt { "shown by" } dd #shown-by { (picture.node) } }
        }
    }
}

fn jobs(picture: &ConsoleSnapshot, find: &str) -> Markup {
    let none = picture.jobs.is_empty();
    html! {
        section #jobs {
            div.head {
                h2 { "Jobs" }
                form #finding role="search" action="plain" {
                    input #find name="find" type="search" value=(find) placeholder="Find by name" aria-label="Find jobs by name"
                        autocomplete="off" spellcheck="false";
                }
            }
            p #no-jobs.empty hidden[!none || !find.is_empty()] {
                "No jobs yet. Declare one: " code { "evenkeel job apply -f jobs.toml" }
            }
            p #none-found.empty hidden[!none || find.is_empty()] { "No job's name holds this." }
            div.scroll tabindex="0" role="region" aria-label="Jobs" { table hidden[none] {
                thead { tr {
                    th { "Job" } th { "Schedule" } th { "Next fire" } th { "Node" }
                } }
                tbody #job-rows { @for job in &picture.jobs { (job_row(job)) } }
            } }
            p #more-jobs.empty hidden[!picture.more] { "There are more: find them by name." }
        }
    }
}

fn job_row(job: &JobRow) -> Markup {
    html! {
        tr {
            td.name {
                @if job.placement.is_sharded() { a href={ "plain?job=" (job.name) "#job" } { (job.name) } }
                @else { (job.name) }
            }
            td.words {
                @for rule in rules(job) { code { (rule) } " " }
                small { (job.timezone) } @if job.shadow { " " (chip("shadow")) }
            }
            td { (due(job)) }
            td {
                (job.owner.as_deref().unwrap_or("–"))
                @if job.placement.is_sharded() { " " small { "leads" @if job.nodes > 0 { " " (job.nodes) } } }
                @else if job.placement == Placement::Dispatched && job.owner.is_some() { " " small { "plans" } }
            }
        }
    }
}

/// The job's schedule rules.
fn rules(job: &JobRow) -> std::str::Split<'_, &str> {
    if job.schedule.is_empty() { "manual runs only".split("; ") } else { job.schedule.split("; ") }
}

/// When a job is due next, or why it never is.
fn due(job: &JobRow) -> Markup {
    let never = |what: &str| html! { span.chip data-state="waiting" { (what) } };
    match job.missing.first() {
        _ if job.disabled => chip("disabled"),
        Some(missing) => never(&format!("no calendar {missing}")),
        None if job.unschedulable => never("no node fits"),
        None if job.paused => chip("paused"),
        None => time(job.next.as_deref()),
    }
}

fn runs(picture: &ConsoleSnapshot) -> Markup {
    let runs = &picture.runs;
    html! {
        section #runs {
            h2 { "Latest runs" }
            p #no-runs.empty hidden[!runs.is_empty()] {
                "Nothing has run yet. Run a job now: " code { "evenkeel job run NAME" }
            }
            p #missing.empty hidden[picture.missing.is_empty()] { (missing(&picture.missing)) }
            div.scroll tabindex="0" role="region" aria-label="Latest runs" { table hidden[runs.is_empty()] {
                thead { tr {
                    th { "Job" } th { "State" } th { "Due" } th.number { "Took" } th { "Node" } th.number { "Attempt" }
                } }
                tbody #run-rows { @for run in runs { (run_row(run, picture.sharded.contains(&run.job))) } }
            } }
        }
    }
}

/// A message with the nodes whose histories could not be read.
fn missing(nodes: &[String]) -> String {
    let does = if nodes.len() == 1 { "does" } else { "do" };
    format!("{} {does} not answer; what only their histories have is not shown.", nodes.join(", "))
}

fn run_row(run: &RunRow, sharded: bool) -> Markup {
    html! {
        tr {
            td.name {
                @if sharded { a href={ "plain?job=" (run.job) "#job" } { (run.job) } " " small { "shard " (run.shard) } }
                @else { (run.job) }
            }
            td.words { (chip(&run.state)) " " small { (run.reason.as_deref().unwrap_or_default()) } }
            td { (time(Some(&run.due))) }
            td.number { (took(run)) }
            td { (run.node) }
            td.number { (run.attempt) }
        }
    }
}

fn nodes(nodes: &[NodeRow]) -> Markup {
    html! {
        section #nodes {
            h2 { "Nodes" }
            p #no-nodes.empty hidden[!nodes.is_empty()] { "No node has joined yet." }
            div.scroll tabindex="0" role="region" aria-label="Nodes" { table hidden[nodes.is_empty()] {
                thead { tr {
                    th { "Node" } th { "State" } th.number { "Holds" } th.number { "May hold" } th.number { "Shards" } th.number { "Alarm above" }
                } }
                tbody #node-rows { @for node in nodes { (node_row(node)) } }
            } }
        }
    }
}

fn node_row(node: &NodeRow) -> Markup {
    html! {
        tr {
            td.name { (node.name) @if !node.labels.is_empty() { " " small { (node.labels) } } }
            td { (chip(&node.state)) }
            td.number { (node.held) }
            td.number { (node.quota) }
            td.number { (node.shards) }
            td.number { (node.alarm) }
        }
    }
}

fn took(run: &RunRow) -> String {
    let moment = |text: &Option<String>| text.as_ref().and_then(|text| text.parse::<Timestamp>().ok());
    match (moment(&run.started), moment(&run.ended)) {
        (Some(started), Some(ended)) => format!("{} ms", ended.as_millisecond() - started.as_millisecond()),
        _ => "–".to_owned(),
    }
}
