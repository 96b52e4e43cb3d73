//! The jobs, which write down themselves when they run, and what they wrote.

use std::fmt::Write as _;
use std::path::Path;

/// How many jobs there are; every second one is `at_least_once`, every fifth one sometimes runs for two leases.
pub(crate) const JOBS: usize = 50;

/// One line each at the start and at the end of a run, and five a second between; each line is one write to a file
/// opened for appending, so lines of different runs never mix and their order is the order of the writes.
const SCRIPT: &str = r#"
say() { printf '%s %s %s %s %s %s\n' "$1" "$EVENKEEL_JOB" "$EVENKEEL_DUE" "$EVENKEEL_NODE" "$EVENKEEL_ATTEMPT" "$EVENKEEL_FENCE" >> "$0"; }
say start
s=${EVENKEEL_DUE#*T??:??:}
n=0
case $1$s in long[024]0.*) n=40 ;; esac
while [ $n -gt 0 ]; do sleep 0.2; say alive; n=$((n - 1)); done
say end
"#;

/// Whether a job is `at_least_once`.
pub(crate) fn repeats(job: usize) -> bool {
    job % 2 == 1
}

/// Later than this no fire starts, in seconds: after longer than any backlog that the trial can bring about, so that every
/// fire is wanted however unlucky a job was.
pub(crate) const GRACE: u32 = 600;

/// How all their names begin.
pub(crate) const PREFIX: &str = "witness-";

/// A job's name.
pub(crate) fn name(job: usize) -> String {
    format!("{PREFIX}{job:02}")
}

/// The job file.
pub(crate) fn jobs(log: &Path) -> String {
    let mut file = String::new();
    for job in 0..JOBS {
        let delivery = if repeats(job) { "at_least_once" } else { "at_most_once" };
        let kind = if job % 5 == 0 { "long" } else { "short" };
        let argv = ["/bin/sh", "-c", SCRIPT, &log.display().to_string(), kind].map(|arg| format!("{arg:?}"));
        let (name, argv) = (name(job), argv.join(", "));
        write!(
            file,
            "[[job]]\nname = {name:?}\nschedule = \"* * * * * ?\"\ngrace = {GRACE}\ndelivery = {delivery:?}\n\
             command = [{argv}]\n"
        )
        .expect("a text takes everything");
    }
    file
}

/// What a line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    Start,
    Alive,
    End,
}

impl Word {
    /// As the jobs write it.
    pub(crate) fn of(text: &str) -> Option<Self> {
        match text {
            "start" => Some(Self::Start),
            "alive" => Some(Self::Alive),
            "end" => Some(Self::End),
            _ => None,
        }
    }
}

/// One line of the witness.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) word: Word,
    pub(crate) job: String,
    /// In milliseconds of the calendar.
    pub(crate) due: i64,
    pub(crate) node: String,
    pub(crate) attempt: u32,
    pub(crate) token: u64,
}

/// Reads the witness's file.
pub(crate) fn read(log: &Path) -> Vec<Line> {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    text.lines().map(|line| parse(line).unwrap_or_else(|| panic!("a broken line: {line}"))).collect()
}

fn parse(line: &str) -> Option<Line> {
    let mut words = line.split(' ');
    Some(Line {
        word: Word::of(words.next()?)?,
        job: words.next()?.to_owned(),
        due: moment(words.next()?)?,
        node: words.next()?.to_owned(),
        attempt: words.next()?.parse().ok()?,
        token: words.next()?.parse().ok()?,
    })
}

/// An RFC 3339 text as milliseconds.
pub(crate) fn moment(text: &str) -> Option<i64> {
    text.parse::<jiff::Timestamp>().ok().map(|t| t.as_millisecond())
}
