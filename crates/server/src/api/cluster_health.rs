//! The health of the cluster on one page: `GET /api/v1/cluster/health`.

use axum::Json;
use axum::extract::State;
use evenkeel::{EventFilter, NodeHealth};
use evenkeel_core::time::Millis;

use super::ask_nodes::ask_nodes;
use super::{App, fanout};
use crate::queries::{self, NodeReports};
use crate::zones;
use evenkeel_client::types::ClusterHealth;

/// A node that left so long ago is not expected any more.
const DAY: Millis = Millis::secs(86_400);
/// The most departures that are read.
const LEFT_MAX: u32 = 1_000;

pub(super) async fn show(State(app): State<App>) -> Json<ClusterHealth> {
    let (kind, since) = (Some("node.left".to_owned()), Some(zones::now() - DAY));
    let filter = EventFilter { kind, since, limit: LEFT_MAX, ..EventFilter::default() };
    let question = serde_json::json!({});
    let (left, answers) = tokio::join!(
        fanout::events(&app, filter, None),
        ask_nodes::<NodeHealth>(&app, "/peer/v1/health", fanout::PATIENCE, &question),
    );
    let mut reports = NodeReports {
        // If the history cannot be read, no node is lost: the health of the history says why.
        left: left.map(|page| page.rows).unwrap_or_default(),
        missing: answers.missing,
        ..NodeReports::default()
    };
    let own = app.handle.health();
    let at = own.at;
    reports.found =
        answers.found.into_iter().map(|(name, answer)| (name, (answer.body, answer.times))).collect();
    reports.found.insert(app.handle.name().clone(), (own, (at, at)));
    Json(queries::cluster_health(&app.handle, &reports).await)
}
