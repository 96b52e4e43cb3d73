//! A whole node in this process whose jobs are requests to a real server on loopback.
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "../common/alone.rs"]
mod alone;
mod egress;
mod ends;
mod redirects;
mod server;
mod tls;

use std::time::Duration;

use evenkeel::core::ids::RunId;
use evenkeel::{Answer, Command, Config, Handle, Http, JobFile, RunRecord, Work};
use server::TestServer;
use tempfile::TempDir;

/// A node that may reach these networks.
async fn node(allowed: &[&str]) -> (Handle, TempDir) {
    let data = tempfile::tempdir().unwrap();
    let mut config = Config::new("a".parse().unwrap(), "memory:", data.path().join("a"));
    config.ttl = Duration::from_secs(30);
    config.http_allow = allowed.iter().map(|network| network.parse().unwrap()).collect();
    config.retention.output = 1000;
    config.secrets = Some(data.path().to_path_buf());
    (evenkeel::open(config).await.unwrap(), data)
}

fn job(name: &str, http: Http) -> JobFile {
    JobFile::new(name.parse().unwrap(), "", Work::Http(Box::new(http)))
}

/// Declares a job, runs it by hand and waits for its end.
async fn run(node: &Handle, job: JobFile) -> RunRecord {
    let run = ask_to_run(node, job).await;
    within(node.wait(&run)).await.unwrap()
}

async fn ask_to_run(node: &Handle, job: JobFile) -> RunId {
    let name = job.name.name().clone();
    node.apply(vec![job]).await.unwrap();
    match within(node.ask(Command::RunNow(name, "r".parse().unwrap()))).await {
        Answer::Accepted(run, _) => run,
        other => panic!("{other:?}"),
    }
}

/// What was kept of the answer.
async fn log(node: &Handle, record: &RunRecord) -> String {
    String::from_utf8(node.log(&record.run, record.attempt, 0, 10_000).await.unwrap().data).unwrap()
}

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(120), future).await.expect("it happens")
}
