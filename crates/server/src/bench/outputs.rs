//! When commands started, as they said themselves: by what they wrote into the files of their output.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use evenkeel::bench::job_number;
use evenkeel::{JobFile, Program};

use super::errors::failed;
use crate::exit::CliError;

/// A program that prints the moment, in nanoseconds, and ends.
const CLOCK: [&str; 2] = ["date", "+%s%N"];

/// The start of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CommandStart {
    /// When it was due, in milliseconds.
    pub(super) due: i64,
    pub(super) job: u32,
    /// Which of the folders it was found in.
    pub(super) node: usize,
    /// When it started, in microseconds.
    pub(super) at: i64,
}

/// The outputs of some nodes, each file read once.
pub(super) struct OutputReader {
    data: Vec<PathBuf>,
    read: BTreeSet<PathBuf>,
    pub(super) starts: Vec<CommandStart>,
}

impl OutputReader {
    /// Of the nodes with these data folders.
    pub(super) fn new(data: Vec<PathBuf>) -> Self {
        Self { data, read: BTreeSet::new(), starts: Vec::new() }
    }

    /// Reads what is new. Returns how many files are empty: their commands have not begun, or were ended before they
    /// printed.
    pub(super) fn read_new(&mut self) -> usize {
        let mut empty = 0;
        for (node, data) in self.data.iter().enumerate() {
            for file in files(data) {
                if self.read.contains(&file) {
                    continue;
                }
                let text = std::fs::read(&file).unwrap_or_default();
                match (moment(&text), fire(&file)) {
                    (Some(at), Some((job, due))) => {
                        self.starts.push(CommandStart { due, job, node, at });
                        self.read.insert(file);
                    }
                    _ => empty += 1,
                }
            }
        }
        empty
    }
}

/// The outputs of a node: one file an attempt.
pub(super) fn files(data: &Path) -> Vec<PathBuf> {
    let inside = |folder: &Path| {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect::<Vec<_>>()
    };
    inside(&data.join("logs")).iter().flat_map(|job| inside(job)).collect()
}

/// The job and due moment of a file `logs/JOB/DUE.SHARD.ATTEMPT.log`.
fn fire(file: &Path) -> Option<(u32, i64)> {
    let due = file.file_name()?.to_str()?.split('.').next()?.parse().ok()?;
    Some((job_number(file.parent()?.file_name()?.to_str()?)?, due))
}

/// The moment that [`CLOCK`] printed, in microseconds.
pub(super) fn moment(text: &[u8]) -> Option<i64> {
    let nanoseconds: i64 = str::from_utf8(text).ok()?.trim().parse().ok()?;
    Some(nanoseconds / 1_000)
}

/// [`CLOCK`] as a process of our own.
pub(super) fn clock_command() -> std::process::Command {
    let mut command = std::process::Command::new(CLOCK[0]);
    command.arg(CLOCK[1]);
    command
}

/// Checks that [`CLOCK`] does on this host what is said of it.
pub(super) fn check_clock() -> Result<(), CliError> {
    let said = clock_command().output().map_err(|e| failed(format!("`date` cannot be started: {e}")))?;
    match moment(&said.stdout) {
        Some(_) => Ok(()),
        None => Err(failed("`date +%s%N` prints no nanoseconds on this host: install GNU coreutils")),
    }
}

/// Lets a job run [`CLOCK`].
pub(super) fn run_clock(job: &mut JobFile) {
    job.function.clear();
    job.command = Program::Argv(CLOCK.map(String::from).into());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_is_read_once_and_an_empty_one_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let job = folder.path().join("logs/job-0000007");
        std::fs::create_dir_all(&job).expect("a folder");
        let mut outputs = OutputReader::new(vec![folder.path().to_owned()]);
        assert_eq!(outputs.read_new(), 0);
        let file = job.join("1772404207000.0.1.log");
        std::fs::write(&file, "").expect("a file");
        assert_eq!((outputs.read_new(), outputs.starts.len()), (1, 0));
        std::fs::write(&file, "1772404207001500000\n").expect("a file");
        let start = CommandStart { due: 1_772_404_207_000, job: 7, node: 0, at: 1_772_404_207_001_500 };
        for _ in 0..2 {
            assert_eq!((outputs.read_new(), outputs.starts.as_slice()), (0, &[start][..]));
        }
    }
}
