//! Files and paths that the SQLite engine does not take, and what it says of each.

use super::*;

#[tokio::test]
async fn a_path_that_cannot_be_is_refused_with_its_fix() {
    let (folder, _) = folder();
    let missing = refused(&folder.path().join("no/such/registry.db")).await;
    assert!(missing.contains("mkdir -p") && missing.contains("no/such"), "{missing}");
    let is_folder = refused(folder.path()).await;
    assert!(is_folder.contains("is a folder"), "{is_folder}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing was made");
}

#[tokio::test]
async fn a_file_that_is_not_sqlite_is_refused_and_left_alone() {
    let (_folder, path) = folder();
    for size in [5, 600, 50_000] {
        let content: Vec<u8> = b"not a database ".iter().copied().cycle().take(size).collect();
        std::fs::write(&path, &content).unwrap();
        let why = refused(&path).await;
        assert!(why.contains("not a SQLite file") && why.contains("another path"), "{why}");
        assert_eq!(std::fs::read(&path).unwrap(), content);
    }
}

#[tokio::test]
async fn the_database_of_another_program_is_refused_and_left_alone() {
    let (folder, path) = folder();
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE entry (key TEXT)").unwrap();
    let before = std::fs::read(&path).unwrap();
    let why = refused(&path).await;
    assert!(why.contains("another program"), "{why}");
    assert_eq!(std::fs::read(&path).unwrap(), before);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "not even a log beside it");
}

#[tokio::test]
async fn a_newer_layout_is_refused_and_left_alone() {
    let (_folder, path) = folder();
    drop(open_path(&path).await.unwrap());
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 2).unwrap();
    let why = refused(&path).await;
    assert!(why.contains("layout 2") && why.contains("newer evenkeel"), "{why}");
}

#[tokio::test]
async fn a_damaged_file_is_an_error_and_no_panic() {
    let (_folder, path) = folder();
    let registry = open_path(&path).await.unwrap();
    let rows = (0..2_000).map(|i| put(&format!("k{i}"), &[7; 100], None)).collect();
    made(registry.as_ref(), rows).await;
    drop(registry);
    let mut content = std::fs::read(&path).unwrap();
    let middle = content.len() / 2;
    content[middle..middle + 40_960].fill(0x5a);
    std::fs::write(&path, &content).unwrap();
    let told = match open_path(&path).await {
        Ok(registry) => registry.list().await.unwrap_err(),
        Err(error) => error,
    };
    assert!(told.to_string().contains("restore it from a backup"), "{told}");
}
