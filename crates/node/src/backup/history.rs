//! Copies the history file beside a registry's file when the cluster moves, so that earlier runs stay visible.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

/// The result of copying the history beside a registry's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HistoryCopy {
    /// There is none: history is kept elsewhere, or nothing has run yet.
    None,
    /// It was copied to this file, where nodes look for it by default.
    Copied(PathBuf),
    /// It stays in this file, for this reason; nodes need its location in their settings to show it.
    Stays(PathBuf, String),
}

/// Copies the history beside one registry's file to the default location for the other registry. An existing file is
/// not changed. Nothing may write to the history meanwhile.
pub(super) async fn copy_history(from: &str, to: &str) -> HistoryCopy {
    let (from, to) = (default_history(from), default_history(to));
    let carried = tokio::task::spawn_blocking(move || copy_history_now(from, to)).await;
    // A failure here shows up where earlier runs cannot be seen.
    carried.unwrap_or(HistoryCopy::None)
}

/// The default location of history, for a registry that is a file.
fn default_history(registry: &str) -> Option<PathBuf> {
    registry.strip_prefix("sqlite:").map(|path| PathBuf::from(format!("{path}-history")))
}

fn copy_history_now(from: Option<PathBuf>, to: Option<PathBuf>) -> HistoryCopy {
    let Some(from) = from.filter(|from| from.exists()) else { return HistoryCopy::None };
    let Some(to) = to else {
        return HistoryCopy::Stays(from, "nodes keep history in their data folders there".into());
    };
    if to.exists() {
        return HistoryCopy::Stays(from, format!("there is a file {} already", to.display()));
    }
    match copy(&from, &to) {
        Ok(()) => HistoryCopy::Copied(to),
        Err(why) => HistoryCopy::Stays(from, format!("it cannot be copied: {why}")),
    }
}

/// Copies the file with its write-ahead log, completely or not at all.
fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let mut part = to.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    let copied = (|| {
        let _ = fs::remove_file(&part);
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(&part).map_err(|e| e.to_string())?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let source = Connection::open_with_flags(from, flags).map_err(|e| e.to_string())?;
        let target = part.to_str().ok_or("its name is not UTF-8")?;
        source.execute("VACUUM INTO ?1", [target]).map_err(|e| e.to_string())?;
        fs::File::open(&part).and_then(|file| file.sync_all()).map_err(|e| e.to_string())?;
        // Fails if another process was faster.
        fs::hard_link(&part, to).map_err(|e| e.to_string())
    })();
    let _ = fs::remove_file(&part);
    copied
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn url(path: &Path) -> String {
        format!("sqlite:{}", path.display())
    }

    #[tokio::test]
    async fn history_goes_along_with_what_is_in_its_log_and_replaces_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let (old, new) = (folder.path().join("old"), folder.path().join("new"));
        assert_eq!(copy_history(&url(&old), &url(&new)).await, HistoryCopy::None, "nothing has run");
        let kept = default_history(&url(&old)).unwrap();
        let history = Connection::open(&kept).unwrap();
        history
            .execute_batch(
                "PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0; PRAGMA application_id = 7; \
                 PRAGMA user_version = 6; CREATE TABLE t (seq INTEGER PRIMARY KEY, x TEXT); \
                 INSERT INTO t VALUES (41, 'one');",
            )
            .unwrap();
        let copied = default_history(&url(&new)).unwrap();
        assert_eq!(copy_history(&url(&old), &url(&new)).await, HistoryCopy::Copied(copied.clone()));
        let found = Connection::open(&copied).unwrap();
        let number = |sql: &str| found.query_row(sql, (), |row| row.get::<_, i64>(0)).unwrap();
        assert_eq!(
            ["SELECT seq FROM t", "PRAGMA application_id", "PRAGMA user_version"].map(number),
            [41, 7, 6]
        );
        assert_eq!(fs::metadata(&copied).unwrap().permissions().mode() & 0o777, 0o600);
        history.execute_batch("INSERT INTO t VALUES (42, 'two');").unwrap();
        let again = copy_history(&url(&old), &url(&new)).await;
        assert!(
            matches!(&again, HistoryCopy::Stays(at, why) if *at == kept && why.contains("already")),
            "{again:?}"
        );
        assert_eq!(number("SELECT count(*) FROM t"), 1);
        let engine = copy_history(&url(&old), "etcd://h").await;
        assert!(
            matches!(&engine, HistoryCopy::Stays(at, why) if *at == kept && why.contains("data folders")),
            "{engine:?}"
        );
        assert_eq!(copy_history("etcd://h", &url(&new)).await, HistoryCopy::None);
        assert!(!folder.path().join("new-history.part").exists());
    }
}
