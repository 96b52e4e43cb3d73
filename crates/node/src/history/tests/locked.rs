//! A history whose file another process locks, or replaces.

use super::*;

/// A lock is no damage: an operator who reads of a damaged file moves away one that is intact.
///
/// proves: I47
#[tokio::test]
async fn a_file_that_another_process_keeps_locked_is_told_as_locked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history");
    let (told, mut news) = mpsc::unbounded_channel();
    let place = HistoryLocation::File(path.clone());
    let (history, reader) =
        History::open(place.clone(), "a", Retention::default(), told, Arc::default()).await.unwrap();
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    history.put(lost("j:1000:0"));
    assert_eq!(news.recv().await, Some(HistoryEvent::Writable(false)));
    let (told, _) = mpsc::unbounded_channel();
    let at_start = History::open(place, "b", Retention::default(), told, Arc::default()).await.err();
    for why in [reader.trouble(), at_start] {
        let why = why.expect("it is told");
        assert!(why.contains("another process keeps it locked") && !why.contains("damaged"), "{why}");
    }
    other.execute_batch("COMMIT").unwrap();
    assert!(matches!(news.recv().await, Some(HistoryEvent::Recorded { .. })));
    assert_eq!(news.recv().await, Some(HistoryEvent::Writable(true)));
    assert_eq!(reader.trouble(), None);
    history.close(Duration::from_secs(120)).await;
}

#[tokio::test]
async fn an_older_copy_in_its_place_is_not_used_beside_the_log_of_the_file_before() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history");
    let (told, mut news) = mpsc::unbounded_channel();
    let (history, reader) =
        History::open(HistoryLocation::File(path.clone()), "a", Retention::default(), told, Arc::default())
            .await
            .unwrap();
    let other = rusqlite::Connection::open(&path).unwrap();
    let copy = folder.path().join("copy");
    other.execute("VACUUM INTO ?1", [copy.to_str()]).unwrap();
    history.put(lost("j:1000:0"));
    assert!(matches!(news.recv().await, Some(HistoryEvent::Recorded { .. })));
    std::fs::rename(&copy, &path).unwrap();
    let Some(HistoryEvent::StorageFailed(why)) = news.recv().await else { panic!("it is told") };
    assert!(why.contains("was replaced or deleted") && why.contains("the log beside it"), "{why}");
    history.put(lost("j:2000:0"));
    assert_eq!(news.recv().await, Some(HistoryEvent::Writable(false)));
    assert_eq!(reader.trouble(), Some(why.clone()));
    let command = why.split('`').nth(1).expect("it names a command");
    assert!(std::process::Command::new("sh").args(["-c", command]).status().unwrap().success(), "{command}");
    assert!(matches!(news.recv().await, Some(HistoryEvent::Recorded { .. })));
    assert_eq!(news.recv().await, Some(HistoryEvent::Writable(true)));
    let all = reader.runs(RunFilter::default()).await.unwrap();
    let all: Vec<_> = all.iter().map(|run| run.run.to_string()).collect();
    assert_eq!(all, ["j:2000:0"], "what the copy has, and what came since");
    history.close(Duration::from_secs(120)).await;
}
