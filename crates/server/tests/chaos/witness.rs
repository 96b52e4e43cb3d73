//! The jobs, which write down themselves when they run, and what they wrote.

use std::fmt::Write as _;
use std::path::Path;

use crate::fleet::settle;
use crate::process::millis;

/// Jobs that are alike, and due each second; every second one is `at_least_once`.
pub(crate) struct JobRoster {
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
pub(crate) const CLAIMED: JobRoster =
    JobRoster { prefix: "witness-", jobs: 50, placement: "claimed", slow: ("long", 5) };

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

/// What has not happened by then never will, however busy the machine is.
pub(crate) const PATIENCE_MS: i64 = 240_000;

/// Later than this no fire starts, in seconds: after longer than any backlog that the trial can bring about, so that every
/// fire is wanted however unlucky a job was.
pub(crate) const GRACE: u32 = 600;

/// Whether a job is `at_least_once`.
pub(crate) fn repeats(job: usize) -> bool {
    job % 2 == 1
}

impl JobRoster {
    /// A job's name.
    pub(crate) fn name(&self, job: usize) -> String {
        format!("{}{job:02}", self.prefix)
    }

    /// The job file. A run takes longer than a period on a busy machine; no fire that came due meanwhile is skipped.
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
                "[[job]]\nname = {name:?}\nschedule = \"* * * * * ?\"\nplacement = {placement:?}\nmisfire_grace = \"{GRACE}s\"\n\
                 catch_up = {{ all = {GRACE} }}\ndelivery = {delivery:?}\ncommand = [{argv}]\n"
            )
            .expect("a text takes everything");
        }
        file
    }
}

/// What a line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WitnessWord {
    Start,
    Alive,
    End,
}

impl WitnessWord {
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
pub(crate) struct WitnessLine {
    pub(crate) word: WitnessWord,
    pub(crate) job: String,
    /// In milliseconds of the calendar.
    pub(crate) due: i64,
    pub(crate) node: String,
    pub(crate) attempt: u32,
    pub(crate) token: u64,
    /// When it was written at the earliest: the latest tick before it.
    pub(crate) at: i64,
    /// When it was written at the latest: the first tick after it.
    pub(crate) by: i64,
}

/// Reads the witness's file.
pub(crate) fn read(log: &Path) -> Vec<WitnessLine> {
    read_between_ticks(log, parse)
}

/// Reads a file of lines between ticks. `parse` gets each line with the ticks before and after it.
pub(crate) fn read_between_ticks<L>(log: &Path, parse: impl Fn(&str, (i64, i64)) -> Option<L>) -> Vec<L> {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let (mut written, mut tick, mut first) = (Vec::new(), 0, 0);
    for line in text.lines() {
        let Some(at) = line.strip_prefix("tick ") else {
            written.push((line, (tick, i64::MAX)));
            continue;
        };
        tick = at.parse().unwrap_or_else(|_| panic!("a broken line: {line}"));
        written[first..].iter_mut().for_each(|(_, (_, by))| *by = tick);
        first = written.len();
    }
    let read = |(line, at)| parse(line, at).unwrap_or_else(|| panic!("a broken line: {line}"));
    written.into_iter().map(read).collect()
}

fn parse(line: &str, (at, by): (i64, i64)) -> Option<WitnessLine> {
    let mut words = line.split(' ');
    let line = WitnessLine {
        word: WitnessWord::of(words.next()?)?,
        job: words.next()?.to_owned(),
        due: moment(words.next()?)?,
        node: words.next()?.to_owned(),
        attempt: words.next()?.parse().ok()?,
        token: words.next()?.parse().ok()?,
        at,
        by,
    };
    words.next().is_none().then_some(line)
}

/// When runs began on which node.
pub(crate) fn starts(lines: &[WitnessLine]) -> impl Iterator<Item = (String, i64)> {
    lines.iter().filter(|line| line.word == WitnessWord::Start).map(|line| (line.node.clone(), line.at))
}

/// Waits until each job has begun a fire that was due at this moment or later. Fires of a job run one after another, so those
/// before it are over by then.
pub(crate) fn wait_until_resumed(log: &Path, roster: &JobRoster, since: i64) {
    let waits = || {
        let lines = read(log);
        let resumed = |job: &String| lines.iter().any(|line| line.job == *job && line.due >= since);
        (0..roster.jobs).map(|job| roster.name(job)).filter(|job| !resumed(job)).collect()
    };
    wait_until_none(waits);
}

/// Waits until nothing is left to wait for.
pub(crate) fn wait_until_none(mut waits: impl FnMut() -> Vec<String>) {
    let begun = millis();
    loop {
        let left = waits();
        if left.is_empty() {
            return;
        }
        assert!(millis() - begun < PATIENCE_MS, "after {PATIENCE_MS} ms still not resumed: {left:?}");
        settle(300);
    }
}

/// An RFC 3339 text as milliseconds.
pub(crate) fn moment(text: &str) -> Option<i64> {
    text.parse::<jiff::Timestamp>().ok().map(|t| t.as_millisecond())
}

#[test]
fn a_line_was_written_between_the_ticks_around_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    let line = |word| format!("{word} job 1970-01-01T00:00:05Z n1 1 7\n");
    let text =
        [line("start"), "tick 100\n".into(), line("alive"), line("end"), "tick 130\n".into(), line("start")];
    std::fs::write(&log, text.concat()).expect("written");
    let read: Vec<_> = read(&log).iter().map(|line| (line.word, line.at, line.by)).collect();
    let between = [(WitnessWord::Alive, 100, 130), (WitnessWord::End, 100, 130)];
    assert_eq!(read[0], (WitnessWord::Start, 0, 100));
    assert_eq!(read[1..3], between);
    assert_eq!(read[3], (WitnessWord::Start, 130, i64::MAX));
}
