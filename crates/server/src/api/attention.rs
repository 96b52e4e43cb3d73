//! What needs a person: `GET /api/v1/attention`.
//!
//! - [`facts`]: what one node knows, of its own history and its own queues; nodes ask each other for it.
//! - [`rows`]: makes rows of the facts of all nodes.

pub(crate) mod facts;
mod rows;

use evenkeel_client::requests::AttentionListQuery;
use std::collections::{BTreeMap, BTreeSet};

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use evenkeel::NodeHealth;
use evenkeel_core::ids::{JobName, NodeName};
use evenkeel_core::job::JobSelector;
use evenkeel_core::principal::Role;
use evenkeel_core::time::{Millis, Wall};

use super::ask_nodes::{NodeAnswers, ask_nodes};
use super::known_caller::KnownCaller;
use super::row_limit::row_limit;
use super::running::RunningAttempts;
use super::{ApiError, App, fanout, namespaces, running, waiting};
use crate::peer::{AttentionFacts, AttentionQuery, SuccessFacts, SuccessQuery};
use crate::queries::explain::{self, HistoryFaults};
use crate::queries::{self, JobSearch};
use crate::{text_input, zones};
use evenkeel_client::types::{AttentionKind, AttentionPage, AttentionRow};
use rows::{FoundRows, LateRuns};

/// The default and the maximum number of rows.
const ROWS: (usize, usize) = (100, 1_000);
/// Only fires that were missed since then are listed.
const DAY: Millis = Millis::secs(86_400);
/// How many jobs of which people were notified are looked at for late fires.
const NOTIFIED_MAX: usize = 200;

/// What is asked for, and the answers of all nodes.
struct Inquiry<'a> {
    app: &'a App,
    search: JobSearch<'a>,
    kinds: BTreeSet<AttentionKind>,
    limit: usize,
    now: Wall,
    facts: BTreeMap<NodeName, AttentionFacts>,
    healths: BTreeMap<NodeName, NodeHealth>,
    running: RunningAttempts,
    missing: BTreeSet<NodeName>,
}

pub(super) async fn list(
    State(app): State<App>,
    caller: KnownCaller,
    page: Result<Query<AttentionListQuery>, QueryRejection>,
) -> Result<Json<AttentionPage>, ApiError> {
    let Query(page) = page?;
    let limit = row_limit("limit", page.limit, ROWS)?;
    namespaces::known(&app, page.namespace.as_ref())?;
    let labels = page.label.as_deref().map(str::parse::<JobSelector>).transpose()?;
    let mut kinds = wanted(page.kind.as_deref())?;
    let whole = page.namespace.is_none() && labels.is_none() && caller.may_in_cluster(Role::Viewer);
    kinds.retain(|kind| whole || *kind > AttentionKind::Clock);
    let search = JobSearch { find: "", labels: labels.as_ref(), namespace: page.namespace.as_ref() };
    let now = zones::now();
    let of_history = [AttentionKind::Failing, AttentionKind::Stuck, AttentionKind::Missed];
    let query = AttentionQuery {
        history: of_history.iter().any(|kind| kinds.contains(kind)),
        namespace: page.namespace.clone(),
        label: page.label.clone(),
        since: now - DAY,
        limit: u32::try_from(limit).unwrap_or(facts::JOBS_MAX),
    };
    let mut inquiry = Inquiry::begin(&app, search, kinds, (limit, now));
    inquiry.ask(query).await;
    Ok(Json(inquiry.page().await))
}

/// The kinds in a query; all without one.
fn wanted(kinds: Option<&str>) -> Result<BTreeSet<AttentionKind>, ApiError> {
    let Some(kinds) = kinds else { return Ok(AttentionKind::ALL.into()) };
    let all = AttentionKind::ALL.map(AttentionKind::as_str);
    let kind = |word: &str| {
        let known = text_input::one_of("kind", word.trim(), &all).map_err(ApiError::invalid)?;
        let kind = AttentionKind::ALL.into_iter().find(|kind| kind.as_str() == known);
        kind.ok_or_else(|| ApiError::internal(format!("{known} is listed and not read")))
    };
    kinds.split(',').map(kind).collect()
}

impl<'a> Inquiry<'a> {
    fn begin(
        app: &'a App,
        search: JobSearch<'a>,
        kinds: BTreeSet<AttentionKind>,
        (limit, now): (usize, Wall),
    ) -> Self {
        let (facts, healths, missing) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        Self { app, search, kinds, limit, now, facts, healths, running: RunningAttempts::default(), missing }
    }

    /// Asks all nodes at once. A node that does not answer in time is missing, and so is one whose history cannot be
    /// read: this one, too.
    async fn ask(&mut self, query: AttentionQuery) {
        let app = self.app;
        let own = app.handle.name().clone();
        // A history that all nodes share is read once.
        let others =
            AttentionQuery { history: query.history && !app.handle.shares_history(), ..query.clone() };
        let nothing = serde_json::json!({});
        let (facts, healths, here, running) = tokio::join!(
            ask_nodes::<AttentionFacts>(app, "/peer/v1/attention", fanout::PATIENCE, &others),
            ask_nodes::<NodeHealth>(app, "/peer/v1/health", fanout::PATIENCE, &nothing),
            facts::own(&app.handle, &query),
            running::all(app, fanout::PATIENCE),
        );
        self.take(facts, healths);
        self.healths.insert(own.clone(), app.handle.health());
        match here {
            Ok(here) => drop(self.facts.insert(own.clone(), here)),
            Err(_) => drop(self.missing.insert(own.clone())),
        }
        match running {
            Ok(running) => {
                self.missing.extend(running.missing.iter().cloned());
                self.running = running;
            }
            Err(_) => drop(self.missing.insert(own)),
        }
    }

    fn take(&mut self, facts: NodeAnswers<AttentionFacts>, healths: NodeAnswers<NodeHealth>) {
        self.missing.extend(facts.missing.keys().chain(healths.missing.keys()).cloned());
        (self.facts, self.healths) = (facts.bodies(), healths.bodies());
    }

    async fn page(mut self) -> AttentionPage {
        let mut all: Vec<AttentionRow> = Vec::new();
        let mut counts = BTreeMap::new();
        let unschedulable = self.unschedulable();
        let blocked: BTreeSet<String> = unschedulable.rows.iter().filter_map(|row| row.job.clone()).collect();
        for kind in self.kinds.clone() {
            let found = match kind {
                AttentionKind::History => rows::histories(&self.healths),
                AttentionKind::Offline => rows::offline(queries::offline_nodes(&self.app.handle)),
                AttentionKind::Clock => rows::clocks(&self.healths),
                AttentionKind::Failing => self.failing().await,
                AttentionKind::Stuck => self.stuck(),
                AttentionKind::Late => self.late(&blocked).await,
                AttentionKind::Missed => rows::missed(&self.facts),
                AttentionKind::Unschedulable => unschedulable.clone(),
            };
            let count = found.rows.len() as u64 + found.more;
            if count > 0 {
                counts.insert(kind.as_str().to_owned(), count);
            }
            all.extend(found.rows.into_iter().take(self.limit.saturating_sub(all.len())));
        }
        let missing = self.missing.iter().map(ToString::to_string).collect();
        AttentionPage { attention: all, counts, missing }
    }

    fn unschedulable(&self) -> FoundRows {
        let wanted = [AttentionKind::Unschedulable, AttentionKind::Late];
        if !wanted.iter().any(|kind| self.kinds.contains(kind)) {
            return FoundRows::default();
        }
        let (jobs, more) = queries::unschedulable_jobs(&self.app.handle, self.search);
        rows::unschedulable(jobs, more)
    }

    /// The jobs that fail. Where nodes have histories of their own, a later success in another history ends a failure.
    async fn failing(&mut self) -> FoundRows {
        let jobs: BTreeSet<JobName> =
            self.facts.values().flat_map(|facts| &facts.failing).map(|fact| fact.job.clone()).collect();
        let mut healed: BTreeMap<NodeName, SuccessFacts> = BTreeMap::new();
        if !self.app.handle.shares_history() && !jobs.is_empty() && self.facts.len() > 1 {
            let query = SuccessQuery { jobs: jobs.into_iter().take(facts::JOBS_MAX as usize).collect() };
            let app = self.app;
            let (others, own) = tokio::join!(
                ask_nodes::<SuccessFacts>(app, "/peer/v1/successes", fanout::PATIENCE, &query),
                facts::successes(&app.handle, &query),
            );
            self.missing.extend(others.missing.keys().cloned());
            healed = others.bodies();
            match own {
                Ok(own) => drop(healed.insert(app.handle.name().clone(), own)),
                Err(_) => drop(self.missing.insert(app.handle.name().clone())),
            }
        }
        rows::failing(&self.facts, &healed)
    }

    fn stuck(&self) -> FoundRows {
        let jobs: BTreeSet<JobName> = self.running.attempts.iter().map(|record| record.job.clone()).collect();
        let bounds = queries::run_bounds(&self.app.handle, &jobs, self.search);
        let long = self.facts.values().flat_map(|facts| &facts.long);
        let usual = long.map(|fact| ((fact.run.clone(), fact.attempt), Millis(fact.usual_ms))).collect();
        rows::stuck(&self.running.attempts, &bounds, &usual, self.now)
    }

    /// The jobs with fires or requests that have not begun, of the jobs that are known to have some. None while the
    /// registry does not answer.
    async fn late(&self, blocked: &BTreeSet<String>) -> FoundRows {
        let handle = &self.app.handle;
        let mut names: Vec<JobName> = queries::notified_jobs(handle, NOTIFIED_MAX);
        names.extend(self.facts.values().flat_map(|facts| facts.waiting.iter().cloned()));
        let (more_names, more) = waiting::candidates(self.app, &self.running);
        names.extend(more_names);
        let mut known = BTreeSet::new();
        names.retain(|name| known.insert(name.clone()) && !blocked.contains(name.as_str()));
        let names = queries::enabled_jobs(handle, names, self.search);
        if names.is_empty() {
            return FoundRows::default();
        }
        let found = explain::waiting(handle, &names, &self.troubles()).await.unwrap_or_default();
        let limits = queries::late_limits(handle, &names.into_iter().collect());
        // How many of the further requests are searched for is not known.
        let more = if self.search.namespace.is_none() && self.search.labels.is_none() { more } else { 0 };
        rows::late(&LateRuns { rows: &found.rows, limits: &limits, now: self.now, more: more as u64 })
    }

    fn troubles(&self) -> HistoryFaults {
        let trouble =
            |(name, health): (&NodeName, &NodeHealth)| Some((name.clone(), health.history_trouble.clone()?));
        self.healths.iter().filter_map(trouble).collect()
    }
}
