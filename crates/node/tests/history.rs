//! A list stays quick however long the history is.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::time::Duration;

#[path = "../benches/common/past.rs"]
mod past;

/// What people do not notice as waiting.
const QUICK: Duration = Duration::from_millis(100);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_of_a_million_attempts_takes_less_than_a_tenth_of_a_second() {
    let folder = tempfile::tempdir().unwrap();
    let history = format!("sqlite:{}", folder.path().join("history").display());
    let node = past::open(folder.path(), &history).await;
    past::fill(&history, 1_000_000).await;
    for figures in past::pages(&node, 1_000_000).await {
        assert!(figures.median() < QUICK, "{}: {:?}", figures.page, figures.median());
    }
    node.stop_now().await;
}
