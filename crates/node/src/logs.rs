//! The output files of runs: one per attempt, read by offset, kept for a limited time.

mod mask;
mod rate_limit;
mod writer;

use std::cmp::Reverse;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use evenkeel_core::ids::{Fire, RunId};
use evenkeel_core::time::{Millis, Wall};
use serde::{Deserialize, Serialize};

use crate::retention::Retention;

pub(crate) use writer::{LogLimits, LogWriter};

/// The folder of all output files.
#[derive(Clone, Debug)]
pub(crate) struct Logs {
    folder: PathBuf,
}

/// A piece of an attempt's output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogChunk {
    /// The bytes, as the run wrote them.
    pub data: Vec<u8>,
    /// Where the next piece begins.
    pub next: u64,
    /// The output's present size.
    pub size: u64,
}

impl Logs {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// The path of an attempt's output. Every part is a validated word, so the path never leaves the folder (`I48`). Each
    /// job has one folder, in whatever namespace it is.
    pub(crate) fn path(&self, run: &RunId, attempt: u32) -> PathBuf {
        let fire = match &run.fire {
            Fire::Due(at) => at.0.to_string(),
            Fire::Asked(id) => format!("ask-{id}"),
        };
        self.folder.join(run.job.path_part()).join(format!("{fire}.{}.{attempt}.log", run.shard))
    }

    pub(crate) fn read(&self, run: &RunId, attempt: u32, offset: u64, max: usize) -> io::Result<LogChunk> {
        let mut file = match File::open(self.path(run, attempt)) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                return Ok(LogChunk { data: Vec::new(), next: offset, size: 0 });
            }
            Err(e) => return Err(e),
        };
        file.seek(SeekFrom::Start(offset))?;
        let mut data = Vec::new();
        (&mut file).take(max as u64).read_to_end(&mut data)?;
        let size = file.metadata()?.len();
        Ok(LogChunk { next: offset + data.len() as u64, data, size })
    }

    /// Deletes the output of all attempts of a run on this node; returns how many files.
    pub(crate) fn remove(&self, run: &RunId) -> io::Result<usize> {
        let any = self.path(run, 0);
        let ends = any.file_name().and_then(|name| name.to_str()?.strip_suffix("0.log"));
        let (Some(folder), Some(begins)) = (any.parent(), ends) else { return Ok(0) };
        let mut removed = 0;
        for path in entries(folder)? {
            let name = path.file_name().and_then(|name| name.to_str()?.strip_prefix(begins));
            let attempt = name.and_then(|name| name.strip_suffix(".log"));
            if attempt.is_some_and(|attempt| attempt.parse::<u32>().is_ok()) {
                fs::remove_file(&path)?;
                removed += 1;
            }
        }
        Ok(removed)
    }

    /// Deletes output that is too old, too many or too large, oldest first; returns how many files (`I48`).
    pub(crate) fn sweep(&self, now: Wall, keep: &Retention) -> io::Result<usize> {
        let oldest = now - Millis(i64::try_from(keep.age.as_millis()).unwrap_or(i64::MAX));
        let mut kept = Vec::new();
        let mut removed = 0;
        for job in entries(&self.folder)? {
            let mut files: Vec<LogFile> =
                entries(&job)?.iter().filter_map(|path| LogFile::at(path)).collect();
            files.sort_by_key(|file| Reverse(file.written));
            let young = files.partition_point(|file| file.written >= oldest);
            let gone = files.split_off(young.min(keep.runs_of_job as usize));
            removed += gone.iter().filter(|file| file.remove()).count();
            if files.is_empty() {
                // Fails when a run has just begun to write here again, as it should.
                let _ = fs::remove_dir(&job);
            }
            kept.append(&mut files);
        }
        kept.sort_by_key(|file| Reverse(file.written));
        let mut total = 0_u64;
        for file in kept {
            total = total.saturating_add(file.size);
            removed += usize::from(total > keep.outputs && file.remove());
        }
        Ok(removed)
    }
}

/// The paths in a folder; none if it does not exist.
fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(folder) {
        Ok(entries) => entries.map(|entry| Ok(entry?.path())).collect(),
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(Vec::new())
        }
        Err(e) => Err(e),
    }
}

struct LogFile {
    path: PathBuf,
    written: Wall,
    size: u64,
}

impl LogFile {
    fn at(path: &Path) -> Option<Self> {
        let about = fs::symlink_metadata(path).ok().filter(fs::Metadata::is_file)?;
        let written = Wall(about.mtime().saturating_mul(1000).saturating_add(about.mtime_nsec() / 1_000_000));
        Some(Self { path: path.to_path_buf(), written, size: about.len() })
    }

    fn remove(&self) -> bool {
        fs::remove_file(&self.path).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn run(text: &str) -> RunId {
        text.parse().unwrap()
    }

    fn write(logs: &Logs, id: &str, attempt: u32, bytes: &[u8], written: Wall) {
        let path = logs.path(&run(id), attempt);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        let written = std::time::UNIX_EPOCH + Duration::from_millis(written.0.cast_unsigned());
        File::options().write(true).open(&path).unwrap().set_modified(written).unwrap();
    }

    #[test]
    fn output_is_read_in_pieces() {
        let folder = tempfile::tempdir().unwrap();
        let logs = Logs::new(folder.path().to_path_buf());
        let id = run("a:1000:0");
        assert_eq!(logs.read(&id, 1, 0, 10).unwrap(), LogChunk { data: vec![], next: 0, size: 0 });
        write(&logs, "a:1000:0", 1, b"hello", Wall(0));
        assert_eq!(logs.read(&id, 1, 1, 3).unwrap(), LogChunk { data: b"ell".to_vec(), next: 4, size: 5 });
        assert_eq!(logs.read(&id, 1, 4, 3).unwrap(), LogChunk { data: b"o".to_vec(), next: 5, size: 5 });
        assert_eq!(logs.read(&id, 1, 9, 3).unwrap(), LogChunk { data: vec![], next: 9, size: 5 });
    }

    /// proves: I48
    #[test]
    fn names_never_leave_the_folder_and_never_meet() {
        let logs = Logs::new("/logs".into());
        let mut seen = std::collections::BTreeSet::new();
        let ids = ["a:1000:0", "a:-1000:0", "a:ask-1000:0", "a:ask-x.0:1", "a:ask-x:0", "a.b:1:0", "a:1:1"];
        for id in ids.into_iter().chain(["a/b:1:0", "a-b:1:0", "a/1000.0.1.log:1:0"]) {
            for attempt in [1, 11] {
                let path = logs.path(&run(id), attempt);
                assert_eq!(path.components().count(), 4, "{}", path.display());
                assert!(path.starts_with("/logs") && seen.insert(path));
            }
        }
    }

    #[test]
    fn output_of_one_run_goes_and_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let logs = Logs::new(folder.path().to_path_buf());
        let left = |id, attempt| logs.read(&run(id), attempt, 0, 9).unwrap().size > 0;
        let others = ["a:1000:1", "a:100:0", "a:10000:0", "a:ask-x.0:1", "b:1000:0"];
        for id in others {
            write(&logs, id, 1, b"kept", Wall(0));
        }
        for (id, attempts) in [("a:1000:0", &[1, 2, 11][..]), ("a:ask-x:0", &[1])] {
            attempts.iter().for_each(|attempt| write(&logs, id, *attempt, b"gone", Wall(0)));
            assert_eq!(logs.remove(&run(id)).unwrap(), attempts.len());
            assert!(!attempts.iter().any(|attempt| left(id, *attempt)), "{id}");
            assert_eq!(logs.remove(&run(id)).unwrap(), 0, "it is gone already");
        }
        assert!(others.iter().all(|id| left(id, 1)));
        assert_eq!(logs.remove(&run("unknown:1:0")).unwrap(), 0);
    }

    /// proves: I48
    #[test]
    fn output_goes_by_age_number_and_size() {
        let folder = tempfile::tempdir().unwrap();
        let logs = Logs::new(folder.path().to_path_buf());
        let now = Wall(1_763_749_200_000);
        let keep =
            Retention { age: Duration::from_secs(100), runs_of_job: 3, outputs: 25, ..Retention::default() };
        for (id, age, size) in [
            ("old:1:0", 101, 1),
            ("many:1:0", 5, 10),
            ("many:2:0", 4, 10),
            ("many:3:0", 3, 10),
            ("many:4:0", 2, 10),
            ("young:1:0", 1, 1),
        ] {
            write(&logs, id, 1, &vec![b'x'; size], now - Millis::secs(age));
        }
        assert_eq!(logs.sweep(now, &keep).unwrap(), 3, "one by age, one by number, one by size");
        let left = |id| logs.read(&run(id), 1, 0, 99).unwrap().size > 0;
        let ids = ["old:1:0", "many:1:0", "many:2:0", "many:3:0", "many:4:0", "young:1:0"];
        assert_eq!(ids.map(left), [false, false, false, true, true, true]);
        assert!(!folder.path().join("old").exists(), "an empty folder goes too");
        assert_eq!(logs.sweep(now, &keep).unwrap(), 0);
    }
}
