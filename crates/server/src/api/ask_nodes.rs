//! Asks all other online nodes the same question, also where they share a history.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::http::StatusCode;
use evenkeel_core::ids::NodeName;
use evenkeel_core::time::Wall;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;

use super::{App, relay};
use crate::{queries, zones};

/// The answers of the other nodes.
#[derive(Debug)]
pub(super) struct NodeAnswers<T> {
    /// The answers.
    pub(super) found: BTreeMap<NodeName, NodeAnswer<T>>,
    /// The nodes without an answer, and why.
    pub(super) missing: BTreeMap<NodeName, String>,
}

/// The answer of a node.
#[derive(Debug)]
pub(super) struct NodeAnswer<T> {
    /// What it says.
    pub(super) body: T,
    /// When it was asked, and when the answer was here, by the clock of this node.
    pub(super) times: (Wall, Wall),
}

impl<T> NodeAnswers<T> {
    /// What the nodes say, without the times.
    pub(super) fn bodies(self) -> BTreeMap<NodeName, T> {
        self.found.into_iter().map(|(name, answer)| (name, answer.body)).collect()
    }
}

/// Sends a question to all other online nodes at once, and waits at most so long for their answers.
pub(super) async fn ask_nodes<T: DeserializeOwned + Send + 'static>(
    app: &App,
    path: &'static str,
    patience: Duration,
    question: &impl Serialize,
) -> NodeAnswers<T> {
    let body = serde_json::to_vec(question).unwrap_or_default();
    let mut answers = NodeAnswers { found: BTreeMap::new(), missing: BTreeMap::new() };
    let mut asked = JoinSet::new();
    for name in queries::names(&app.handle).into_iter().filter(|name| name != app.handle.name()) {
        let other = match relay::other(app, name.as_str()) {
            Ok(Some(other)) => other.within(patience),
            Ok(None) => {
                drop(answers.missing.insert(name, "it has no address".to_owned()));
                continue;
            }
            Err(error) => {
                drop(answers.missing.insert(name, error.message()));
                continue;
            }
        };
        let body = body.clone();
        asked.spawn(async move {
            let asked = zones::now();
            let answer = match other.post(path, body).await {
                Ok(reply) if reply.status == StatusCode::OK => {
                    serde_json::from_slice(&reply.body).map_err(|e| format!("its answer makes no sense: {e}"))
                }
                Ok(reply) if reply.status == StatusCode::NOT_FOUND => {
                    Err("its program is of an earlier version and cannot say".to_owned())
                }
                Ok(reply) => Err(format!("it answers with status {}", reply.status.as_u16())),
                Err(error) => Err(error.message()),
            };
            let times = (asked, zones::now());
            (name, answer.map(|body| NodeAnswer { body, times }))
        });
    }
    while let Some(answered) = asked.join_next().await {
        match answered {
            Ok((name, Ok(answer))) => drop(answers.found.insert(name, answer)),
            Ok((name, Err(why))) => drop(answers.missing.insert(name, why)),
            // A task that panicked has no name: it is as if the node had left.
            Err(_) => {}
        }
    }
    answers
}
