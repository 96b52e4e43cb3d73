//! The SQLite engine and its file: whose it is, what happens to it, and processes that die while they write.

#[path = "file/refusals.rs"]
mod refusals;
#[path = "common/until.rs"]
mod until;

use std::io::{BufRead, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use evenkeel_core::keys::Key;
use evenkeel_core::registry::{Entry, Guard, LeaseId, Revision, Txn, TxnOutcome, Write};
use evenkeel_core::time::Millis;
use evenkeel_registry::clock::{HostClock, ManualClock};
use evenkeel_registry::sqlite::Sqlite;
use evenkeel_registry::{Registry, RegistryError, open};
use rusqlite::Connection;
use tempfile::TempDir;
use tokio::sync::Barrier;

use crate::until::until;

/// A term that no test waits for, but by a clock that the test sets.
const TTL: Millis = Millis::secs(600);
/// Tells a child process which file is meant.
const FILE: &str = "EVENKEEL_TEST_FILE";

fn folder() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("registry.db");
    (folder, path)
}

async fn open_with_clock(path: &Path, clock: &Arc<ManualClock>) -> Result<Sqlite, RegistryError> {
    Sqlite::open(path, clock.clone()).await
}

async fn open_path(path: &Path) -> Result<Arc<dyn Registry>, RegistryError> {
    open(&format!("sqlite:{}", path.display())).await
}

/// The error of an opening that must fail.
async fn refused(path: &Path) -> String {
    match open_path(path).await.map(drop) {
        Err(RegistryError::Refused(why)) => why,
        other => panic!("should have been refused: {other:?}"),
    }
}

fn key(text: &str) -> Key {
    Key::from_stored(text)
}

fn put(at: &str, value: &[u8], owner: Option<LeaseId>) -> Write {
    Write::Put { key: key(at), value: value.into(), owner }
}

async fn commit(registry: &dyn Registry, writes: Vec<Write>) -> TxnOutcome {
    registry.commit(vec![Txn { guards: vec![], writes }]).await.remove(0)
}

async fn made(registry: &dyn Registry, writes: Vec<Write>) -> Revision {
    match commit(registry, writes).await {
        TxnOutcome::Applied(revision) => revision,
        other => panic!("should have been made: {other:?}, {:?}", registry.last_error()),
    }
}

async fn entry(registry: &dyn Registry, at: &str) -> Option<Entry> {
    registry.read(vec![key(at)]).await.expect("an entry").remove(0).entry
}

/// This test file once more, as a process of its own that plays one test, which does nothing without a file.
fn process(part: &str, path: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", part, "--nocapture"]).env(FILE, path).stdout(Stdio::piped());
    command
}

/// The file of a child process; `None` in the parent, which leaves the child's part alone.
fn child_file() -> Option<PathBuf> {
    std::env::var_os(FILE).map(PathBuf::from)
}

/// The numbers that a child prints, one a line, each behind `mark`.
fn numbers<'a>(child: &'a mut Child, mark: &'a str) -> impl Iterator<Item = u64> + 'a {
    let lines = BufReader::new(child.stdout.as_mut().expect("a pipe")).lines().map_while(Result::ok);
    lines.filter_map(move |line| line.split_once(mark)?.1.trim().parse().ok())
}

#[tokio::test]
async fn the_file_is_nobody_elses_to_read() {
    let (folder, path) = folder();
    let registry = open_path(&path).await.unwrap();
    made(registry.as_ref(), vec![put("a", b"1", None)]).await;
    let mut names = Vec::new();
    for file in std::fs::read_dir(folder.path()).unwrap() {
        let file = file.unwrap();
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{:?}", file.path());
        names.push(file.file_name().into_string().unwrap());
    }
    names.sort();
    assert_eq!(names, ["registry.db", "registry.db-shm", "registry.db-wal"]);
}

/// None of them takes what another one is writing for the file of another program.
#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_start_at_once_make_the_file_once() {
    for _ in 0..200 {
        let (_folder, path) = folder();
        let start = Arc::new(Barrier::new(4));
        let open = |()| {
            let (path, start) = (path.clone(), start.clone());
            tokio::spawn(async move {
                start.wait().await;
                // On a disk that stalls, the lock of another one may take longer than a caller waits for it.
                let opened = || async {
                    match open_path(&path).await.map(drop) {
                        Err(RegistryError::Unavailable(_)) => None,
                        opened => Some(opened),
                    }
                };
                until("the file is free", opened).await.unwrap();
            })
        };
        for opened in [(); 4].map(open) {
            opened.await.unwrap();
        }
    }
}

/// A locked file is waited for, then told, and once it is free all goes on as if nothing had been.
#[tokio::test]
async fn a_locked_file_is_waited_for_told_and_got_over() {
    let (_folder, path) = folder();
    let registry = open_path(&path).await.unwrap();
    let lease = registry.open(TTL).await.unwrap().lease;
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let (outcome, renewal, second) = tokio::join!(
        commit(registry.as_ref(), vec![put("a", b"1", None)]),
        registry.renew(lease),
        open_path(&path)
    );
    assert_eq!(outcome, TxnOutcome::Unknown);
    let Err(RegistryError::Unavailable(why)) = renewal else { panic!("{renewal:?}") };
    assert!(why.contains("locked") && why.contains("end the transaction"), "{why}");
    assert!(matches!(registry.last_error().as_deref(), Some(RegistryError::Unavailable(_))));
    assert!(matches!(second.map(drop), Err(RegistryError::Unavailable(_))));
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(entry(registry.as_ref(), "a").await, None, "what was unknown was not made");
    made(registry.as_ref(), vec![put("a", b"1", None)]).await;
    assert_eq!(registry.last_error(), None);
}

#[tokio::test]
async fn a_short_lock_of_another_program_only_delays() {
    let (_folder, path) = folder();
    let registry = open_path(&path).await.unwrap();
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let waiting = tokio::spawn(async move { commit(registry.as_ref(), vec![put("a", b"1", None)]).await });
    tokio::task::yield_now().await;
    other.execute_batch("COMMIT").unwrap();
    assert!(matches!(waiting.await.unwrap(), TxnOutcome::Applied(_)));
}

#[tokio::test]
async fn another_boot_of_the_host_ends_every_lease() {
    let ((_folder, path), clock) = (folder(), Arc::new(ManualClock::default()));
    let before = open_with_clock(&path, &clock).await.unwrap();
    let lease = before.open(TTL).await.unwrap().lease;
    let written =
        made(&before, vec![put("node/a@1", b"", Some(lease)), put("job/a/assignment", b"", None)]).await;
    clock.reboot();
    let after = open_with_clock(&path, &clock).await.unwrap();
    assert_eq!(after.renew(lease).await, Ok(None));
    assert_eq!(entry(&after, "node/a@1").await, None);
    assert!(entry(&after, "job/a/assignment").await.is_some());
    assert_eq!(after.watch(written).await.unwrap().next().await.map(|batch| batch.changes.len()), Some(1));
    assert!(after.open(TTL).await.unwrap().lease > lease);
    // Whoever still counts from the boot before is on another host: two hosts must not share the file.
    let told = before.renew(lease).await.unwrap_err();
    assert!(matches!(&told, RegistryError::Fatal(why) if why.contains("another host")), "{told}");
    assert_eq!(commit(&before, vec![put("b", b"", None)]).await, TxnOutcome::Unknown);
}

#[tokio::test]
async fn the_same_boot_ends_no_lease() {
    let ((_folder, path), clock) = (folder(), Arc::new(ManualClock::default()));
    let lease = open_with_clock(&path, &clock).await.unwrap().open(TTL).await.unwrap().lease;
    assert!(open_with_clock(&path, &clock).await.unwrap().renew(lease).await.unwrap().is_some());
}

/// proves: I1
#[tokio::test]
async fn a_restored_copy_is_a_new_generation() {
    let (folder, path) = folder();
    let backup = folder.path().join("backup.db");
    for generation in 0..3 {
        assert_eq!(open_path(&path).await.unwrap().facts().generation, generation);
        assert_eq!(
            open_path(&path).await.unwrap().facts().generation,
            generation,
            "opening alone changes nothing"
        );
        std::fs::copy(&path, &backup).unwrap();
        std::fs::rename(&backup, &path).unwrap();
    }
}

/// proves: I1
#[tokio::test]
async fn a_copy_that_was_given_the_number_of_the_old_file_is_a_new_generation() {
    let (folder, path) = folder();
    let backup = folder.path().join("backup.db");
    for generation in 0..3 {
        assert_eq!(open_path(&path).await.unwrap().facts().generation, generation);
        std::fs::copy(&path, &backup).unwrap();
        // Some file systems give the next file the number that has just become free.
        std::fs::remove_file(&path).unwrap();
        std::fs::copy(&backup, &path).unwrap();
    }
    let registry = open_path(&path).await.unwrap();
    assert_eq!(registry.facts().generation, 3);
    std::fs::remove_file(&path).unwrap();
    std::fs::copy(&backup, &path).unwrap();
    let told = registry.list().await.unwrap_err();
    assert!(matches!(&told, RegistryError::Fatal(why) if why.contains("replaced or deleted")), "{told}");
}

#[tokio::test]
async fn a_file_that_is_replaced_while_in_use_stops_its_users() {
    let (_folder, path) = folder();
    let registry = open_path(&path).await.unwrap();
    let lease = registry.open(TTL).await.unwrap().lease;
    std::fs::remove_file(&path).unwrap();
    for told in [registry.renew(lease).await.unwrap_err(), registry.list().await.unwrap_err()] {
        assert!(matches!(&told, RegistryError::Fatal(why) if why.contains("replaced or deleted")), "{told}");
    }
    assert_eq!(commit(registry.as_ref(), vec![put("a", b"", None)]).await, TxnOutcome::Unknown);
}

#[tokio::test]
async fn a_file_that_is_truncated_or_overwritten_while_in_use_stops_its_users() {
    let harms: [fn(&Path); 2] =
        [|path| std::fs::write(path, "").unwrap(), |path| std::fs::write(path, [7_u8; 100_000]).unwrap()];
    for harm in harms {
        let (_folder, path) = folder();
        let (registry, other) = (open_path(&path).await.unwrap(), open_path(&path).await.unwrap());
        let lease = registry.open(TTL).await.unwrap().lease;
        made(registry.as_ref(), vec![put("a", b"1", Some(lease))]).await;
        harm(&path);
        for registry in [&registry, &other] {
            let told = registry.renew(lease).await.unwrap_err();
            assert!(
                matches!(&told, RegistryError::Fatal(why) if why.contains("restore it from a backup")),
                "{told}"
            );
            assert_eq!(commit(registry.as_ref(), vec![put("b", b"", None)]).await, TxnOutcome::Unknown);
            assert!(registry.list().await.is_err());
        }
        // Whoever opens it now finds all of it in the log, or would take it for a new one.
        let before = std::fs::read(&path).unwrap();
        let told = open_path(&path).await.err().expect("it is harmed").to_string();
        assert!(told.contains("mkdir") && told.contains("evenkeel cluster restore"), "{told}");
        assert_eq!(std::fs::read(&path).unwrap(), before, "and it is left as it is");
    }
}

#[tokio::test]
async fn a_feed_ends_with_its_registry() {
    let (_folder, path) = folder();
    let registry = open_path(&path).await.unwrap();
    let mut feed = registry.watch(Revision(0)).await.unwrap();
    made(registry.as_ref(), vec![put("a", b"1", None)]).await;
    assert_eq!(feed.next().await.map(|batch| batch.changes.len()), Some(1));
    drop(registry);
    assert_eq!(feed.next().await, None);
}

/// A process that writes pairs as fast as it can is killed at any moment: pairs are never halved, and what it was
/// told is done is there.
///
/// proves: I46
#[tokio::test]
async fn a_process_killed_while_it_writes_leaves_nothing_half_done() {
    let (_folder, path) = folder();
    let survivor = open_path(&path).await.unwrap();
    for round in 1..=8 {
        let mut child = process("writes_pairs_until_killed", &path).spawn().unwrap();
        let told = numbers(&mut child, "told ").nth(round * 7).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let pair = survivor.read(vec![key("left"), key("right")]).await.unwrap();
        let halves: Vec<_> = pair.into_iter().filter_map(|change| change.entry).collect();
        assert_eq!((&halves[0].value, halves[0].revision), (&halves[1].value, halves[1].revision));
        assert!(String::from_utf8_lossy(&halves[0].value).parse::<u64>().unwrap() >= told);
        made(survivor.as_ref(), vec![put("after", b"1", None)]).await;
    }
}

#[tokio::test]
async fn writes_pairs_until_killed() {
    let Some(path) = child_file() else { return };
    let registry = open_path(&path).await.unwrap();
    let first = entry(registry.as_ref(), "left")
        .await
        .map_or(0, |e| String::from_utf8_lossy(&e.value).parse().unwrap());
    for number in first + 1_u64.. {
        let text = number.to_string().into_bytes();
        let pair = || vec![put("left", &text, None), put("right", &text, None)];
        // Beside others that write without a pause a process may find the file locked for longer than it waits.
        while commit(registry.as_ref(), pair()).await == TxnOutcome::Unknown {}
        println!("told {number}");
    }
}

/// The lock dies with its holder, and what was not committed with it.
#[tokio::test]
async fn a_process_killed_inside_a_transaction_holds_up_nobody() {
    let (_folder, path) = folder();
    let survivor = open_path(&path).await.unwrap();
    let before = made(survivor.as_ref(), vec![put("a", b"1", None)]).await;
    let mut child = process("stops_inside_a_transaction", &path).stdin(Stdio::piped()).spawn().unwrap();
    assert_eq!(numbers(&mut child, "inside ").next(), Some(1));
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(entry(survivor.as_ref(), "half").await, None);
    assert!(made(survivor.as_ref(), vec![put("a", b"2", None)]).await > before);
}

#[tokio::test]
async fn stops_inside_a_transaction() {
    let Some(path) = child_file() else { return };
    let file = Connection::open(path).unwrap();
    let half = "BEGIN IMMEDIATE; INSERT INTO entry VALUES ('half', x'00', 1000, 1000, NULL)";
    file.execute_batch(half).unwrap();
    println!("inside 1");
    // Until killed: the parent never writes.
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

#[tokio::test]
async fn processes_share_the_file() {
    let (_folder, path) = folder();
    let registry = open_path(&path).await.unwrap();
    let mut feed = registry.watch(Revision(0)).await.unwrap();
    let mut children: Vec<_> =
        (0..3).map(|_| process("writes_pairs_until_killed", &path).spawn().unwrap()).collect();
    for child in &mut children {
        assert!(numbers(child, "told ").nth(5).is_some(), "everybody gets a turn");
    }
    assert!(feed.next().await.is_some_and(|batch| !batch.changes.is_empty()));
    for mut child in children {
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

/// Plays on a disk of 2 MB of its own, in a mount namespace; skipped aloud where that is not allowed.
#[test]
fn a_full_disk_is_told_and_got_over() {
    let mount = tempfile::tempdir().unwrap();
    let script = r#"mount -t tmpfs -o size=2m evenkeel "$0" && echo "mounted 1" && exec "$@""#;
    let part = process("fills_its_disk", &mount.path().join("registry.db"));
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "--mount", "sh", "-c", script]).arg(mount.path());
    command.arg(part.get_program()).args(part.get_args());
    command.env(FILE, mount.path().join("registry.db")).env("RUST_BACKTRACE", "0");
    let output = command.output();
    let text = output.as_ref().map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default();
    if !text.contains("mounted 1") {
        eprintln!(
            "SKIPPED: this host allows no mount namespace, so there is no full disk to try: {output:?}"
        );
        return;
    }
    assert!(text.contains("1 passed"), "{output:?}");
}

#[tokio::test]
async fn fills_its_disk() {
    let Some(path) = child_file() else { return };
    let registry = open_path(&path).await.unwrap();
    let lease = registry.open(TTL).await.unwrap().lease;
    made(registry.as_ref(), vec![put("count", b"0", None)]).await;
    let ballast = path.with_file_name("ballast");
    let mut file = std::fs::File::create(&ballast).unwrap();
    while file.write_all(&[7; 4096]).is_ok() {}
    drop(file);
    let (last, why) = write_until_full(registry.as_ref()).await;
    assert!(why.contains("full") && why.contains("free some space"), "{why}");
    let told = registry.renew(lease).await.map(|granted| granted.is_some());
    assert!(matches!(told, Err(RegistryError::Unavailable(_)) | Ok(true)), "{told:?}");
    let count = entry(registry.as_ref(), "count").await.unwrap();
    assert_eq!(&*count.value, last.to_string().as_bytes(), "what was not told done was not done");
    // Somebody frees space; nothing is restarted.
    std::fs::remove_file(&ballast).unwrap();
    made(registry.as_ref(), vec![put("count", b"after", None), put("large", &[1; 4096], None)]).await;
    assert_eq!(registry.last_error(), None);
    assert!(registry.renew(lease).await.unwrap().is_some());
    drop(registry);
    let again = Sqlite::open(&path, Arc::new(HostClock)).await.unwrap();
    assert_eq!(&*entry(&again, "count").await.unwrap().value, b"after");
    let checked = Connection::open(&path).unwrap();
    let sound: String = checked.query_row("PRAGMA integrity_check", (), |row| row.get(0)).unwrap();
    assert_eq!(sound, "ok");
}

/// The last number that was written, and why no more was.
async fn write_until_full(registry: &dyn Registry) -> (u32, String) {
    for number in 1.. {
        let writes = vec![
            put("count", number.to_string().as_bytes(), None),
            put(&format!("k{number}"), &[7; 2048], None),
        ];
        let guard = Guard::Absent(key(&format!("k{number}")));
        match registry.commit(vec![Txn { guards: vec![guard], writes }]).await.remove(0) {
            TxnOutcome::Applied(_) => {}
            TxnOutcome::Unknown => return (number - 1, registry.last_error().expect("a reason").to_string()),
            TxnOutcome::Refused(found) => panic!("{found:?}"),
        }
    }
    panic!("the disk never filled");
}
