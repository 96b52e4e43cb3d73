//! The sharded jobs, which write down themselves when their shards run, and what they wrote.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::witness::{GRACE, read_between_ticks, wait_until_none};
pub(crate) use crate::witness::{WitnessWord, moment};

/// How long running shards of these jobs keep the others from being resharded, at most.
pub(crate) const RESHARD_TIMEOUT_MS: i64 = 3_000;

/// One sharded job.
#[derive(Clone, Copy)]
pub(crate) struct ShardedWitness {
    pub(crate) shards: u32,
    /// The number that it gets instead, now and then.
    pub(crate) other: Option<u32>,
    pub(crate) repeats: bool,
    /// Whether its first shards sometimes run for longer than a period.
    kind: &'static str,
    strategy: &'static str,
}

const fn job(
    shards: u32,
    other: Option<u32>,
    repeats: bool,
    kind: &'static str,
    strategy: &'static str,
) -> ShardedWitness {
    ShardedWitness { shards, other, repeats, kind, strategy }
}

/// Ten jobs, 114 shards each second.
pub(crate) const JOBS: [ShardedWitness; 10] = [
    job(1, None, false, "short", "average"),
    job(2, Some(3), true, "short", "odd_even"),
    job(4, None, false, "long", "rotate"),
    job(5, None, true, "long", "average"),
    job(6, Some(9), false, "short", "average"),
    job(8, None, true, "longest", "rotate"),
    job(10, None, false, "short", "odd_even"),
    job(12, Some(7), true, "short", "average"),
    job(16, None, false, "longest", "average"),
    job(50, Some(41), true, "short", "rotate"),
];

/// One line each at the start and at the end of a run, and five a second between, as the claimed jobs do. Of some jobs
/// the first two shards run for 2.4 or 4.8 seconds at times: longer than a period, a lease, or the wait for a new cut.
const SCRIPT: &str = r#"
say() { printf '%s %s %s %s %s %s %s %s\n' "$1" "$EVENKEEL_JOB" "$EVENKEEL_DUE" "$EVENKEEL_SHARD" "$EVENKEEL_SHARDS" \
    "$EVENKEEL_NODE" "$EVENKEEL_ATTEMPT" "$EVENKEEL_FENCE" >> "$0"; }
say start
s=${EVENKEEL_DUE#*T??:??:}
n=0
case $1$EVENKEEL_SHARD-$s in long[01]-[024][05].*) n=12 ;; longest[01]-[135]0.*) n=24 ;; esac
while [ $n -gt 0 ]; do sleep 0.2; say alive; n=$((n - 1)); done
say end
"#;

/// A job's name.
pub(crate) fn name(job: usize) -> String {
    format!("sharded-{job}")
}

/// The job file, with these numbers of shards.
pub(crate) fn jobs(log: &Path, totals: &[u32]) -> String {
    let mut file = String::new();
    for (at, (job, shards)) in JOBS.iter().zip(totals).enumerate() {
        let delivery = if job.repeats { "at_least_once" } else { "at_most_once" };
        let argv =
            ["/bin/sh", "-c", SCRIPT, &log.display().to_string(), job.kind].map(|arg| format!("{arg:?}"));
        let (name, argv, strategy) = (name(at), argv.join(", "), job.strategy);
        write!(
            file,
            "[[job]]\nname = {name:?}\nschedule = \"* * * * * ?\"\nplacement = \"sharded\"\nshards = {shards}\n\
             strategy = {strategy:?}\nreshard_timeout = \"{}s\"\nmisfire_grace = \"{GRACE}s\"\ndelivery = {delivery:?}\ncommand = [{argv}]\n",
            RESHARD_TIMEOUT_MS / 1_000
        )
        .expect("a text takes everything");
    }
    file
}

/// One line of the witness.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShardWitnessLine {
    pub(crate) word: WitnessWord,
    pub(crate) job: String,
    /// In milliseconds of the calendar.
    pub(crate) due: i64,
    pub(crate) shard: u32,
    /// Of how many.
    pub(crate) of: u32,
    pub(crate) node: String,
    pub(crate) attempt: u32,
    pub(crate) token: u64,
    /// When it was written at the earliest: the latest tick before it.
    pub(crate) at: i64,
    /// When it was written at the latest: the first tick after it.
    pub(crate) by: i64,
}

/// Reads the witness's file.
pub(crate) fn read(log: &Path) -> Vec<ShardWitnessLine> {
    read_between_ticks(log, parse)
}

fn parse(line: &str, (at, by): (i64, i64)) -> Option<ShardWitnessLine> {
    let mut words = line.split(' ');
    let line = ShardWitnessLine {
        word: WitnessWord::of(words.next()?)?,
        job: words.next()?.to_owned(),
        due: moment(words.next()?)?,
        shard: words.next()?.parse().ok()?,
        of: words.next()?.parse().ok()?,
        node: words.next()?.to_owned(),
        attempt: words.next()?.parse().ok()?,
        token: words.next()?.parse().ok()?,
        at,
        by,
    };
    words.next().is_none().then_some(line)
}

/// When shards began on which node.
pub(crate) fn starts(lines: &[ShardWitnessLine]) -> impl Iterator<Item = (String, i64)> {
    lines.iter().filter(|line| line.word == WitnessWord::Start).map(|line| (line.node.clone(), line.at))
}

/// Waits until each shard has begun a fire that was due at this moment or later.
pub(crate) fn wait_until_resumed(log: &Path, totals: &[u32], since: i64) {
    wait_until_none(|| {
        let lines = read(log);
        let begun: BTreeSet<(&str, u32)> = lines
            .iter()
            .filter(|line| line.due >= since)
            .map(|line| (line.job.as_str(), line.shard))
            .collect();
        let all = totals.iter().enumerate();
        let all = all.flat_map(|(job, total)| (0..*total).map(move |shard| (name(job), shard)));
        let left = all.filter(|(job, shard)| !begun.contains(&(job.as_str(), *shard)));
        left.map(|(job, shard)| format!("{job} shard {shard}")).collect()
    });
}

/// Writes the time between the lines of the witness, so that each has one and no run pays for it.
pub(crate) struct WitnessTicks {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl WitnessTicks {
    pub(crate) fn begin(log: &Path) -> Self {
        let mut file: File = OpenOptions::new().append(true).create(true).open(log).expect("the log opens");
        let over = Arc::new(AtomicBool::new(false));
        let seen = over.clone();
        let thread = std::thread::spawn(move || {
            while !seen.load(Ordering::Relaxed) {
                // One write, so that it never mixes with a line.
                let line = format!("tick {}\n", crate::wall());
                file.write_all(line.as_bytes()).expect("the log takes a line");
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        Self { over, thread: Some(thread) }
    }
}

impl Drop for WitnessTicks {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
