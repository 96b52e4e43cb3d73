//! The jobs, which write down themselves when they run, and what they wrote.

use std::fmt::Write as _;
use std::path::Path;

/// Jobs that are alike, and due each second; every second one is `at_least_once`.
pub(crate) struct Roster {
    /// How all their names begin.
    pub(crate) prefix: &'static str,
    /// How many there are.
    pub(crate) jobs: usize,
    /// How nodes are chosen for them.
    pub(crate) placement: &'static str,
    /// Some run longer: in which way, and every how many.
    pub(crate) slow: (&'static str, usize),
}

/// Claimed jobs, some of which sometimes run for two leases.
pub(crate) const CLAIMED: Roster =
    Roster { prefix: "witness-", jobs: 50, placement: "claimed", slow: ("long", 5) };

/// One line each at the start and at the end of a run, and five a second between; each line is one write to a file
/// opened for appending, so lines of different runs never mix and their order is the order of the writes.
const SCRIPT: &str = r#"
say() { printf '%s %s %s %s %s %s\n' "$1" "$EVENKEEL_JOB" "$EVENKEEL_DUE" "$EVENKEEL_NODE" "$EVENKEEL_ATTEMPT" "$EVENKEEL_FENCE" >> "$0"; }
say start
s=${EVENKEEL_DUE#*T??:??:}
n=0
case $1$s in long[024]0.*) n=40 ;; brief*) n=1 ;; esac
while [ $n -gt 0 ]; do sleep 0.2; say alive; n=$((n - 1)); done
say end
"#;

/// Later than this no fire starts, in seconds: after longer than any backlog that the trial can bring about, so that every
/// fire is wanted however unlucky a job was.
pub(crate) const GRACE: u32 = 600;

/// Whether a job is `at_least_once`.
pub(crate) fn repeats(job: usize) -> bool {
    job % 2 == 1
}

impl Roster {
    /// A job's name.
    pub(crate) fn name(&self, job: usize) -> String {
        format!("{}{job:02}", self.prefix)
    }

    /// The job file.
    pub(crate) fn file(&self, log: &Path) -> String {
        let mut file = String::new();
        for job in 0..self.jobs {
            let delivery = if repeats(job) { "at_least_once" } else { "at_most_once" };
            let kind = if job % self.slow.1 == 0 { self.slow.0 } else { "short" };
            let argv =
                ["/bin/sh", "-c", SCRIPT, &log.display().to_string(), kind].map(|arg| format!("{arg:?}"));
            let (name, argv, placement) = (self.name(job), argv.join(", "), self.placement);
            write!(
                file,
                "[[job]]\nname = {name:?}\nschedule = \"* * * * * ?\"\nplacement = {placement:?}\ngrace = {GRACE}\n\
                 delivery = {delivery:?}\ncommand = [{argv}]\n"
            )
            .expect("a text takes everything");
        }
        file
    }
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
    /// When it was written, by the latest tick before it, where there are ticks.
    pub(crate) at: i64,
}

/// Reads the witness's file.
pub(crate) fn read(log: &Path) -> Vec<Line> {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let mut now = 0;
    let mut lines = Vec::new();
    for line in text.lines() {
        match line.strip_prefix("tick ") {
            Some(at) => now = at.parse().unwrap_or_else(|_| panic!("a broken line: {line}")),
            None => lines.push(parse(line, now).unwrap_or_else(|| panic!("a broken line: {line}"))),
        }
    }
    lines
}

fn parse(line: &str, at: i64) -> Option<Line> {
    let mut words = line.split(' ');
    let line = Line {
        word: Word::of(words.next()?)?,
        job: words.next()?.to_owned(),
        due: moment(words.next()?)?,
        node: words.next()?.to_owned(),
        attempt: words.next()?.parse().ok()?,
        token: words.next()?.parse().ok()?,
        at,
    };
    words.next().is_none().then_some(line)
}

/// An RFC 3339 text as milliseconds.
pub(crate) fn moment(text: &str) -> Option<i64> {
    text.parse::<jiff::Timestamp>().ok().map(|t| t.as_millisecond())
}
