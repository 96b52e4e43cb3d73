//! How far long work is, on standard error of a terminal.

use std::future::Future;
use std::io::{IsTerminal, Write};
use std::time::Duration;

use evenkeel::clock;
use evenkeel_core::time::Mono;

use super::format::chosen;

/// Work that is done sooner shows nothing.
const QUIET: Duration = Duration::from_secs(1);
/// The time between two looks at the clock.
const TICK: Duration = Duration::from_millis(500);
/// The width of the bar, in characters.
const BAR: usize = 24;

/// A line that says how far some work is. It is there only for people at a terminal, and removed at the end.
#[derive(Debug)]
pub(crate) struct Progress {
    what: String,
    total: usize,
    begun: Mono,
    is_shown: bool,
    has_line: bool,
}

impl Progress {
    /// Work on so many parts; 0 where their number is not known.
    pub(crate) fn new(what: impl Into<String>, total: usize) -> Self {
        let is_shown = std::io::stderr().is_terminal() && chosen().is_text();
        Self { what: what.into(), total, begun: clock::now().mono, is_shown, has_line: false }
    }

    /// Shows that so many parts are done.
    pub(crate) fn at(&mut self, done: usize) {
        let millis = (clock::now().mono.0 - self.begun.0).max(0).unsigned_abs();
        if self.is_shown && Duration::from_millis(millis) >= QUIET {
            self.has_line = true;
            let line = line(&self.what, done, self.total, millis / 1_000);
            let _ = write!(std::io::stderr().lock(), "\r{line}\x1b[K");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.has_line {
            let _ = write!(std::io::stderr().lock(), "\r\x1b[K");
        }
    }
}

/// Waits for work of unknown size, and shows how long it takes.
pub(crate) async fn shown_while<T>(what: &str, work: impl Future<Output = T>) -> T {
    let mut progress = Progress::new(what, 0);
    let mut work = std::pin::pin!(work);
    loop {
        match tokio::time::timeout(TICK, &mut work).await {
            Ok(done) => return done,
            Err(_) => progress.at(0),
        }
    }
}

fn line(what: &str, done: usize, total: usize, seconds: u64) -> String {
    if total == 0 {
        return format!("{what} … {seconds} s");
    }
    let filled = BAR * done.min(total) / total;
    let bar = format!("{}{}", "#".repeat(filled), "-".repeat(BAR - filled));
    format!("{what} [{bar}] {done} of {total}, {seconds} s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_as_full_as_the_work_is_done() {
        assert_eq!(line("jobs", 0, 4, 2), format!("jobs [{}] 0 of 4, 2 s", "-".repeat(BAR)));
        assert!(line("jobs", 2, 4, 2).contains(&format!("[{}{}]", "#".repeat(12), "-".repeat(12))));
        assert_eq!(line("jobs", 5, 4, 9), format!("jobs [{}] 5 of 4, 9 s", "#".repeat(BAR)));
        assert_eq!(line("backup", 0, 0, 3), "backup … 3 s");
    }
}
