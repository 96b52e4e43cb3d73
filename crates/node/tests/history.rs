//! A list stays quick however long the history is.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "common/bytes.rs"]
mod bytes;
#[expect(dead_code, reason = "shared with the benchmark, which also measures how long a page takes")]
#[path = "../benches/common/past.rs"]
mod past;

const ATTEMPTS: u64 = 200_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_of_many_attempts_is_found_without_reading_them() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("history");
    let history = format!("sqlite:{}", file.display());
    let node = past::open(folder.path(), &history).await;
    past::fill(&history, ATTEMPTS).await;
    let whole = std::fs::metadata(&file).unwrap().len();
    for (page, filter) in past::questions(ATTEMPTS) {
        let before = bytes::read();
        assert!(!node.runs(filter).await.unwrap().is_empty(), "{page}");
        let read = bytes::read() - before;
        assert!(20 * read < whole, "{page}: {read} bytes are read of {whole}");
    }
    node.stop_now().await;
}
