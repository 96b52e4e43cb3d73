//! Folds repeated lines of the log: writes the first at once, then counts at growing intervals, and one at the end.
//!
//! Only warnings and errors are folded, since faults repeat: an unreachable registry is tried several times a second.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use evenkeel_core::time::{Millis, Mono};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

/// The intervals between a line and the counts of its repetitions: the first, the second, each later one.
const STEPS: [Millis; 3] = [Millis::secs(1), Millis::secs(10), Millis::secs(60)];
/// A line that was not repeated for this long has ended.
const QUIET: Millis = Millis::secs(30);
/// The maximum number of remembered lines. Further ones are not folded.
const LINES_MAX: usize = 1_000;
/// The interval of checks for due counts.
const LOOK: Duration = Duration::from_secs(1);
/// A number with this many digits counts as one in any word, as in an id. Shorter ones may be part of a name.
const LONG: usize = 6;

/// The repeated lines, and the clock for their intervals. Clones share both.
#[derive(Clone)]
pub(crate) struct RepeatFilter {
    lines: Arc<Mutex<RepeatedLines>>,
    clock: fn() -> Mono,
}

/// A line that was written, and its repetitions since.
#[derive(Debug)]
struct RepeatedLine {
    level: Level,
    /// The latest text.
    text: String,
    first: Mono,
    last: Mono,
    /// When the line or a count was written last.
    told: Mono,
    /// The number of counts written.
    step: usize,
    /// The number of occurrences in total, and since the last write.
    total: u64,
    unsaid: u64,
}

/// The identity of a line: its place in the program and its text without numbers.
type LineKey = (String, String);

#[derive(Debug, Default)]
struct RepeatedLines(BTreeMap<LineKey, RepeatedLine>);

impl RepeatedLines {
    /// Records a line. Returns whether to write it, since it is no repetition.
    fn record(&mut self, now: Mono, place: String, level: Level, text: String) -> bool {
        let key = (place, without_numbers(&text));
        if let Some(line) = self.0.get_mut(&key) {
            (line.last, line.text) = (now, text);
            line.total += 1;
            line.unsaid += 1;
            return false;
        }
        if self.0.len() < LINES_MAX {
            let (first, last, told) = (now, now, now);
            self.0.insert(key, RepeatedLine { level, text, first, last, told, step: 0, total: 1, unsaid: 0 });
        }
        true
    }

    /// The counts that are due now.
    fn due(&mut self, now: Mono) -> Vec<(Level, String)> {
        let mut due = Vec::new();
        self.0.retain(|_, line| {
            let ended = now - line.last >= QUIET;
            if ended {
                due.extend(line.end());
            } else if line.unsaid > 0 && now - line.told >= STEPS[line.step] {
                due.push((line.level, line.count(now)));
            }
            !ended
        });
        due
    }

    /// The counts of all lines that have not ended; forgets the lines.
    fn close(&mut self) -> Vec<(Level, String)> {
        let lines = std::mem::take(&mut self.0);
        lines.into_values().filter(|line| line.unsaid > 0).filter_map(|line| line.end()).collect()
    }
}

impl RepeatedLine {
    /// The number of repetitions since the last write, as text.
    fn count(&mut self, now: Mono) -> String {
        let text = format!("{} ({} more in {})", self.text, times(self.unsaid), span(now - self.told));
        self.told = now;
        self.unsaid = 0;
        self.step = (self.step + 1).min(STEPS.len() - 1);
        text
    }

    /// A message that the line is no longer repeated; `None` if it never was.
    fn end(&self) -> Option<(Level, String)> {
        let (all, over) = (times(self.total), span(self.last - self.first));
        (self.total > 1).then(|| (self.level, format!("{} ({all} in {over}, not again since)", self.text)))
    }
}

fn times(n: u64) -> String {
    if n == 1 { "once".to_owned() } else { format!("{n} times") }
}

fn span(span: Millis) -> String {
    format!("{} s", (span.0 + 500) / 1_000)
}

/// Replaces the numbers in a text: words that are numbers, spans such as `12.5ms`, and long numbers in any word.
fn without_numbers(text: &str) -> String {
    let word = |word: &str| {
        let bare = word.trim_matches(|c: char| !c.is_alphanumeric());
        let is_number = bare.starts_with(|c: char| c.is_ascii_digit())
            && bare.chars().all(|c| c.is_ascii_digit() || ".hmsdµn%".contains(c))
            && bare.matches('.').count() < 2;
        if is_number { "#".to_owned() } else { without_long(word) }
    };
    text.split_whitespace().map(word).collect::<Vec<_>>().join(" ")
}

fn without_long(word: &str) -> String {
    let mut out = String::with_capacity(word.len());
    let mut rest = word;
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        let digits = rest[at..].bytes().take_while(u8::is_ascii_digit).count();
        out.push_str(&rest[..at]);
        out.push_str(if digits >= LONG { "#" } else { &rest[at..at + digits] });
        rest = &rest[at + digits..];
    }
    out + rest
}

impl RepeatFilter {
    /// A filter without lines.
    pub(crate) fn new() -> Self {
        Self { lines: Arc::default(), clock: || evenkeel::clock::now().mono }
    }

    /// Writes counts when they are due, for the life of the process.
    pub(crate) async fn keep_counting(self) {
        loop {
            tokio::time::sleep(LOOK).await;
            self.write_due();
        }
    }

    fn write_due(&self) {
        let due = self.with(|lines| lines.due((self.clock)()));
        due.into_iter().for_each(write);
    }

    /// Writes the remaining counts when the process ends.
    pub(crate) fn close(&self) {
        self.with(RepeatedLines::close).into_iter().for_each(write);
    }

    /// Nothing is logged while the lines are locked: logging would lock them again.
    fn with<R>(&self, f: impl FnOnce(&mut RepeatedLines) -> R) -> R {
        f(&mut self.lines.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn write((level, text): (Level, String)) {
    match level {
        Level::ERROR => tracing::error!("{text}"),
        _ => tracing::warn!("{text}"),
    }
}

impl<S: Subscriber> Layer<S> for RepeatFilter {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        let metadata = event.metadata();
        let level = *metadata.level();
        // The counts themselves are logged here.
        if level > Level::WARN || metadata.module_path() == Some(module_path!()) {
            return true;
        }
        let mut text = EventText::default();
        event.record(&mut text);
        let place =
            format!("{}:{}", metadata.file().unwrap_or_default(), metadata.line().unwrap_or_default());
        self.with(|lines| lines.record((self.clock)(), place, level, text.0))
    }
}

/// The text of an event, with all its fields.
#[derive(Default)]
struct EventText(String);

impl Visit for EventText {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if !self.0.is_empty() {
            self.0.push(' ');
        }
        match field.name() {
            "message" => self.0.push_str(&format!("{value:?}")),
            name => self.0.push_str(&format!("{name}={value:?}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering};

    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    fn record_at(lines: &mut RepeatedLines, at: i64, text: &str) -> bool {
        lines.record(Mono(at), "feed.rs:7".into(), Level::WARN, text.into())
    }

    fn due(lines: &mut RepeatedLines, at: i64) -> Vec<String> {
        lines.due(Mono(at)).into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn the_first_line_is_written_then_counts_at_growing_intervals_and_the_end() {
        let mut lines = RepeatedLines::default();
        let mut told = Vec::new();
        // Ten times a second for two minutes, with a check each second.
        for tick in 0..1_200 {
            let at = tick * 100;
            if record_at(&mut lines, at, &format!("no answer, attempt {tick}")) {
                told.push(format!("{at}: first"));
            }
            if at % 1_000 == 0 {
                told.extend(due(&mut lines, at).into_iter().map(|text| format!("{at}: {text}")));
            }
        }
        told.extend(due(&mut lines, 140_000));
        told.extend(due(&mut lines, 160_000));
        let wanted = [
            "0: first",
            "1000: no answer, attempt 10 (10 times more in 1 s)",
            "11000: no answer, attempt 110 (100 times more in 10 s)",
            "71000: no answer, attempt 710 (600 times more in 60 s)",
            "no answer, attempt 1199 (489 times more in 69 s)",
            "no answer, attempt 1199 (1200 times in 120 s, not again since)",
        ];
        assert_eq!(told, wanted);
        assert!(record_at(&mut lines, 170_000, "no answer, attempt 7"), "it begins anew");
    }

    #[test]
    fn a_line_that_is_not_repeated_has_no_end_and_other_lines_are_written_beside_it() {
        let mut lines = RepeatedLines::default();
        assert!(record_at(&mut lines, 0, "node n1 is gone"));
        assert!(record_at(&mut lines, 1, "node n2 is gone"), "another name");
        assert!(
            lines.record(Mono(2), "life.rs:9".into(), Level::WARN, "node n1 is gone".into()),
            "another place"
        );
        assert!(due(&mut lines, 40_000).is_empty() && lines.0.is_empty());
        record_at(&mut lines, 50_000, "once");
        record_at(&mut lines, 50_100, "once");
        assert_eq!(due(&mut lines, 51_500), ["once (once more in 2 s)"]);
        record_at(&mut lines, 52_000, "once");
        let closed: Vec<_> = lines.close().into_iter().map(|(_, text)| text).collect();
        assert_eq!(closed, ["once (3 times in 2 s, not again since)"]);
    }

    #[test]
    fn numbers_are_told_from_names() {
        let same = |a: &str, b: &str| without_numbers(a) == without_numbers(b);
        assert!(same("not renewed within 4.5s (attempt 3)", "not renewed within 12ms (attempt 12)"));
        assert!(same("run j:1763749200000:0 waits", "run j:1763749260000:0 waits"));
        assert!(!same("no answer from 10.0.0.7", "no answer from 10.0.0.8"));
        assert!(!same("node n1 is away", "node n2 is away"));
    }

    #[test]
    fn lines_without_end_take_no_more_memory_than_many() {
        let mut lines = RepeatedLines::default();
        let names = (0..LINES_MAX + 10).map(|n| record_at(&mut lines, 0, &format!("node n{n} is away")));
        assert!(names.collect::<Vec<_>>().into_iter().all(|is_written| is_written));
        assert_eq!(lines.0.len(), LINES_MAX);
    }

    #[derive(Clone, Default)]
    struct CapturedLog(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for CapturedLog {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    static NOW: AtomicI64 = AtomicI64::new(0);

    #[test]
    fn what_the_log_writes_is_folded_and_only_faults_are() {
        let written = CapturedLog::default();
        let repeats = RepeatFilter { clock: || Mono(NOW.load(Ordering::Relaxed)), ..RepeatFilter::new() };
        let to = written.clone();
        let lines =
            tracing_subscriber::fmt::layer().with_writer(move || to.clone()).with_ansi(false).without_time();
        let subscriber = tracing_subscriber::registry().with(lines).with(repeats.clone());
        tracing::subscriber::with_default(subscriber, || {
            for n in 0..50 {
                tracing::warn!("the registry did not answer: attempt {n}");
                tracing::info!("fine");
            }
            NOW.store(2_000, Ordering::Relaxed);
            repeats.write_due();
            repeats.write_due();
            NOW.store(40_000, Ordering::Relaxed);
            repeats.write_due();
        });
        let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        let faults: Vec<&str> = text.lines().filter(|line| line.contains("WARN")).collect();
        assert_eq!(faults.len(), 3, "{text}");
        assert!(faults[0].ends_with("the registry did not answer: attempt 0"), "{text}");
        assert!(faults[1].ends_with("attempt 49 (49 times more in 2 s)"), "{text}");
        assert!(faults[2].ends_with("attempt 49 (50 times in 0 s, not again since)"), "{text}");
        assert_eq!(text.lines().filter(|line| line.contains("INFO")).count(), 50);
    }
}
