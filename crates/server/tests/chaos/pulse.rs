//! How long the machine itself stood still: what a trial may take longer than promised, and nothing else.
//!
//! A thread does all the time what a takeover is made of, a short wait, a process and a synced write, and notes when they
//! took longer than they do on a machine that has time. A bound that is missed by more than that is missed by us.

use std::fs::File;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::process::{Command, Stdio};
use std::sync::{Mutex, Once, PoisonError};
use std::time::Duration;

use crate::SLACK_MS;
use crate::fleet::wall;

/// What one round takes at most where nothing else wants the machine: its wait, a process, a synced write.
const USUAL_MS: i64 = 60;
const WAIT: Duration = Duration::from_millis(20);
/// How exactly a trial sees when something happened: it asks by a command, which is a process of its own.
const SEEN_MS: i64 = 500;

/// The rounds that took longer than usual: when each ended, and how much longer it took.
static STALLS: Mutex<Vec<(i64, i64)>> = Mutex::new(Vec::new());
static BEGUN: Once = Once::new();

/// Begins to watch the machine; it is watched until the process ends.
pub(crate) fn begin() {
    BEGUN.call_once(|| {
        let mut file = tempfile::tempfile().expect("a file");
        std::thread::spawn(move || {
            loop {
                let from = wall();
                round(&mut file);
                let (to, usual) = (wall(), USUAL_MS);
                if to - from > usual {
                    STALLS.lock().unwrap_or_else(PoisonError::into_inner).push((to, to - from - usual));
                }
            }
        });
    });
}

fn round(file: &mut File) {
    std::thread::sleep(WAIT);
    let ended = Command::new("true").stdin(Stdio::null()).status().expect("`true` starts");
    assert!(ended.success());
    file.seek(SeekFrom::Start(0)).expect("a file is sought");
    file.write_all(b"pulse").expect("a file is written");
    file.sync_data().expect("a file is synced");
}

/// What may be added to a bound on something that lasted from `from` to `to`, in the time of day.
pub(crate) fn slack(from: i64, to: i64) -> i64 {
    let stalls = STALLS.lock().unwrap_or_else(PoisonError::into_inner);
    allowed(&stalls, from, to)
}

fn allowed(stalls: &[(i64, i64)], from: i64, to: i64) -> i64 {
    let within = stalls.iter().filter(|(ended, longer)| *ended >= from && ended - longer <= to);
    (SEEN_MS + within.map(|(_, longer)| longer).sum::<i64>()).min(SLACK_MS)
}

#[test]
fn only_stalls_that_fell_into_it_count() {
    let stalls = [(1_000, 400), (2_000, 100), (3_000, 50), (9_000, 700)];
    assert_eq!(allowed(&stalls, 1_500, 2_500), SEEN_MS + 100);
    assert_eq!(allowed(&stalls, 900, 1_950), SEEN_MS + 500);
    assert_eq!(allowed(&stalls, 4_000, 8_000), SEEN_MS);
    assert_eq!(allowed(&stalls, 8_500, 8_600), SEEN_MS + 700);
    assert_eq!(allowed(&[(1_000, 60_000)], 900, 1_950), SLACK_MS);
}
