//! What runs: one small file an engine, `target/engines/NAME`, which outlives the command that wrote it.

use super::Kind;
use super::launch::{self, Place};
use anyhow::{Context as _, Result, bail};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

/// How long an engine may take to answer, and to stop when asked, before it counts as hanging.
const PATIENCE: Duration = Duration::from_secs(180);
const STEP: Duration = Duration::from_millis(25);
/// How long one that was started again is left alone before it is looked at.
const REST: Duration = Duration::from_millis(200);

/// An engine that runs.
pub(super) struct Running {
    pub(super) url: String,
    place: Place,
    members: Vec<Member>,
}

/// One process of it; of most there is one.
pub(super) struct Member {
    pub(super) pid: u32,
    /// When the process started, in ticks since boot: another with its number is another.
    born: String,
    folder: PathBuf,
}

impl Member {
    /// One that ended at once has no birth, and is not alive.
    fn of(mut child: Child, folder: &Path) -> Self {
        let pid = child.id();
        let born = born(pid).unwrap_or_default();
        // One that nobody waits for stays as a zombie while this process lives, and PostgreSQL takes that for a running server
        // with its lock file.
        std::thread::spawn(move || child.wait());
        Self { pid, born, folder: folder.to_owned() }
    }

    fn is_alive(&self) -> bool {
        born(self.pid).as_ref() == Some(&self.born)
    }

    /// Sends a signal, and waits for the end; whether that came.
    fn ends_by(&self, signal: &str, patience: Duration) -> Result<bool> {
        if self.is_alive() {
            launch::run(Command::new("kill").args([&format!("-{signal}"), &self.pid.to_string()]))?;
        }
        let mut waited = Duration::ZERO;
        while self.is_alive() && waited < patience {
            std::thread::sleep(STEP);
            waited += STEP;
        }
        Ok(!self.is_alive())
    }

    /// Starts it again as it was, at the same place.
    fn again(&mut self) -> Result<()> {
        *self = Self::of(launch::again(&self.folder)?, &self.folder);
        Ok(())
    }
}

impl Running {
    /// The processes that live.
    pub(super) fn alive(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(|member| member.is_alive())
    }

    /// The end of what its processes have told their logs.
    fn last_words(&self) -> String {
        let logs = self.members.iter().map(|member| launch::log(&member.folder));
        let said: String = logs.filter_map(|log| std::fs::read_to_string(log).ok()).collect();
        let last: Vec<_> = said.lines().rev().take(12).collect();
        last.into_iter().rev().collect::<Vec<_>>().join("\n")
    }

    fn write(&self, kind: &Kind) -> Result<()> {
        let member = |it: &Member| format!("{} {} {}\n", it.pid, it.born, it.folder.display());
        let members: String = self.members.iter().map(member).collect();
        let (folder, ports) = (self.place.folder.display(), self.place.ports());
        Ok(std::fs::write(file(kind), format!("{}\n{folder}\n{ports}\n{members}", self.url))?)
    }
}

fn state() -> PathBuf {
    crate::target().join("engines")
}

fn file(kind: &Kind) -> PathBuf {
    state().join(kind.name)
}

/// The engine, where any of it runs.
pub(super) fn find(kind: &Kind) -> Option<Running> {
    read(&file(kind)).filter(|running| running.alive().next().is_some())
}

fn read(path: &Path) -> Option<Running> {
    let text = std::fs::read_to_string(path).ok()?;
    let mut lines = text.lines();
    let url = lines.next()?.to_owned();
    let place = Place::read(PathBuf::from(lines.next()?), lines.next()?)?;
    let member = |line: &str| {
        let mut parts = line.splitn(3, ' ');
        let (pid, born) = (parts.next()?.parse().ok()?, parts.next()?.to_owned());
        Some(Member { pid, born, folder: PathBuf::from(parts.next()?) })
    };
    Some(Running { url, place, members: lines.map(member).collect::<Option<_>>()? })
}

/// When a living process started; `None` when it is gone or waits to be reaped.
fn born(pid: u32) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in brackets may hold anything.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    (state != "Z").then(|| fields.nth(18).map(str::to_owned))?
}

/// Starts it and waits until it answers. Where its process ends before, another process may have taken one of its ports: it is
/// started again with other ports.
pub(super) fn start(kind: &Kind) -> Result<()> {
    std::fs::create_dir_all(state())?;
    for attempt in 1.. {
        match start_once(kind, attempt) {
            Err(error) if attempt < STARTS && error.is::<Ended>() => {
                println!("{} starts again: {error:#}", kind.name)
            }
            ended => return ended,
        }
    }
    Ok(())
}

/// How often an engine is started whose process ends before it answers.
const STARTS: u32 = 5;

/// A process of an engine ended before the engine answered; the last lines of its log.
#[derive(Debug)]
struct Ended(String);

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "it ended before it answered:\n{}", self.0)
    }
}

impl std::error::Error for Ended {}

fn start_once(kind: &Kind, attempt: u32) -> Result<()> {
    let name = format!("evenkeel-{}-{}-{attempt}", kind.name, std::process::id());
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir(&folder).with_context(|| format!("{} cannot be made", folder.display()))?;
    let place = Place::new(folder.clone())?;
    let started = (kind.start)(&place)?;
    let members = started.children.into_iter().map(|(child, folder)| Member::of(child, &folder)).collect();
    let running = Running { url: started.url, place, members };
    running.write(kind)?;
    let mut waited = Duration::ZERO;
    // Another server at its port would answer too, but then its own process has ended or is about to.
    while !(kind.answers)(&running.place) || running.alive().count() < running.members.len() {
        if running.alive().count() < running.members.len() {
            let log = running.last_words();
            end(kind)?;
            return Err(Ended(log).into());
        }
        if waited > PATIENCE {
            let log = running.last_words();
            end(kind)?;
            bail!("it does not answer:\n{log}");
        }
        std::thread::sleep(STEP);
        waited += STEP;
    }
    (started.prepare)(&running.place)
}

/// Stops it, by force when it does not obey, and throws its folder away.
pub(super) fn stop(kind: &Kind) -> Result<()> {
    end(kind)?;
    let _ = std::fs::remove_file(ours(kind));
    Ok(())
}

fn end(kind: &Kind) -> Result<()> {
    let Some(running) = read(&file(kind)) else { return Ok(()) };
    for member in &running.members {
        if !(member.ends_by(kind.stop, PATIENCE / 4)? || member.ends_by("KILL", PATIENCE / 4)?) {
            bail!("{} does not stop: process {}", kind.name, member.pid);
        }
    }
    std::fs::remove_file(file(kind))?;
    match std::fs::remove_dir_all(&running.place.folder) {
        Err(error) if running.place.folder.exists() => {
            println!("{} is left behind: {error}", running.place.folder.display());
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Kills it without a word, starts it again as it was, at the same place, and waits until it answers.
pub(super) fn restart(kind: &Kind) -> Result<()> {
    let running = find(kind).with_context(|| format!("{} does not run", kind.name))?;
    for member in &running.members {
        member.ends_by("KILL", PATIENCE)?;
    }
    mend_all(kind, running)
}

/// Starts those of its processes again that are gone.
pub(super) fn mend(kind: &Kind) -> Result<()> {
    find(kind).map_or(Ok(()), |running| mend_all(kind, running))
}

/// What a dead one left, children and locks, may be in the way of its successor: one that ends is started once more.
fn mend_all(kind: &Kind, mut running: Running) -> Result<()> {
    let mut waited = Duration::ZERO;
    loop {
        for member in running.members.iter_mut().filter(|member| !member.is_alive()) {
            member.again()?;
        }
        running.write(kind)?;
        if (kind.answers)(&running.place) {
            return Ok(());
        }
        if waited > PATIENCE {
            bail!("it does not answer:\n{}", running.last_words());
        }
        std::thread::sleep(REST);
        waited += REST;
    }
}

fn ours(kind: &Kind) -> PathBuf {
    state().join(format!("{}.of-the-tests", kind.name))
}

/// Remembers that the tests start it, so that they stop it.
pub(super) fn mark_ours(kind: &Kind) -> Result<()> {
    std::fs::create_dir_all(state())?;
    Ok(std::fs::write(ours(kind), "")?)
}

/// Whether the tests started it.
pub(super) fn is_ours(kind: &Kind) -> bool {
    ours(kind).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_its_number_and_its_birth() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let here = born(child.id()).unwrap();
        assert!(here.parse::<u64>().unwrap() > 0);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(born(child.id()), None);
        assert_ne!(born(1), Some(here));
    }

    /// A server whose second and third start end at once, as those do that find what a dead one left.
    const STUBBORN: &str =
        "echo >> starts; case $(wc -l < starts) in 2|3) exit 1;; esac; echo > up; exec sleep 60";

    fn stubborn(place: &Place) -> Result<launch::Started> {
        let child = place.spawn(Command::new("sh").args(["-c", STUBBORN]))?;
        Ok(launch::Started { children: vec![child], url: "stubborn://".to_owned(), prepare: launch::nothing })
    }

    #[test]
    fn one_that_ends_at_once_is_started_until_it_answers() {
        let kind = Kind {
            name: "stubborn",
            quorum: false,
            package: "none",
            program: || None,
            start: stubborn,
            answers: |place| Path::new(&place.path("up")).exists(),
            stop: "TERM",
        };
        start(&kind).unwrap();
        let before: Vec<_> = find(&kind).unwrap().alive().map(|member| member.pid).collect();
        std::fs::remove_file(find(&kind).unwrap().place.path("up")).unwrap();
        restart(&kind).unwrap();
        let found = find(&kind).unwrap();
        let after: Vec<_> = found.alive().map(|member| member.pid).collect();
        assert_eq!((before.len(), after.len()), (1, 1));
        assert_eq!(std::fs::read_to_string(found.place.path("starts")).unwrap(), "\n\n\n\n", "four starts");
        assert_ne!(before, after);
        assert!(!Path::new(&format!("/proc/{}", before[0])).exists(), "no zombie keeps its number");
        assert_eq!(read(&file(&kind)).unwrap().place.ports(), found.place.ports());
        stop(&kind).unwrap();
        assert!(!found.place.folder.exists() && find(&kind).is_none());
    }

    /// As one whose port another process has taken meanwhile: it ends at its first start.
    fn unlucky(place: &Place) -> Result<launch::Started> {
        static STARTS: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let first = STARTS.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 0;
        let script = if first { "echo the port is taken; exit 1" } else { "echo > up; exec sleep 60" };
        let child = place.spawn(Command::new("sh").args(["-c", script]))?;
        Ok(launch::Started { children: vec![child], url: "unlucky://".to_owned(), prepare: launch::nothing })
    }

    #[test]
    fn an_engine_that_ends_at_once_is_started_with_other_ports() {
        let kind = Kind {
            name: "unlucky",
            quorum: false,
            package: "none",
            program: || None,
            start: unlucky,
            answers: |place| Path::new(&place.path("up")).exists(),
            stop: "TERM",
        };
        start(&kind).unwrap();
        assert!(find(&kind).unwrap().place.folder.to_string_lossy().ends_with("-2"), "the second start");
        stop(&kind).unwrap();
    }

    #[test]
    fn an_engine_that_never_stays_is_given_up_with_the_end_of_its_log() {
        let kind = Kind {
            name: "hopeless",
            quorum: false,
            package: "none",
            program: || None,
            start: |place| {
                let child = place.spawn(Command::new("sh").args(["-c", "echo no licence; exit 1"]))?;
                Ok(launch::Started {
                    children: vec![child],
                    url: "none://".to_owned(),
                    prepare: launch::nothing,
                })
            },
            answers: |_| false,
            stop: "TERM",
        };
        let error = start(&kind).unwrap_err().to_string();
        assert!(error.contains("no licence"), "{error}");
        assert!(find(&kind).is_none());
    }
}
