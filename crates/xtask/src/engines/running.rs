//! What runs: one small file an engine, `target/engines/NAME`, which outlives the command that wrote it.

use super::kinds::EngineKind;
use super::launch::{self, EngineSite};
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
pub(super) struct RunningEngine {
    pub(super) url: String,
    site: EngineSite,
    members: Vec<EngineProcess>,
}

/// One process of it; of most there is one.
pub(super) struct EngineProcess {
    pub(super) pid: u32,
    /// When the process started, in ticks since boot: another with its number is another.
    start_ticks: String,
    folder: PathBuf,
}

impl EngineProcess {
    /// One that ended at once has no birth, and is not alive.
    fn of(mut child: Child, folder: &Path) -> Self {
        let pid = child.id();
        let born = start_ticks(pid).unwrap_or_default();
        // One that nobody waits for stays as a zombie while this process lives, and PostgreSQL takes that for a running server
        // with its lock file.
        std::thread::spawn(move || child.wait());
        Self { pid, start_ticks: born, folder: folder.to_owned() }
    }

    fn is_alive(&self) -> bool {
        start_ticks(self.pid).as_ref() == Some(&self.start_ticks)
    }

    /// Sends a signal, and waits for the end; whether that came.
    fn stop_with(&self, signal: &str, patience: Duration) -> Result<bool> {
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
    fn restart(&mut self) -> Result<()> {
        *self = Self::of(launch::spawn_again(&self.folder)?, &self.folder);
        Ok(())
    }
}

impl RunningEngine {
    /// The processes that live.
    pub(super) fn alive(&self) -> impl Iterator<Item = &EngineProcess> {
        self.members.iter().filter(|member| member.is_alive())
    }

    /// The end of what its processes have told their logs.
    fn log_tail(&self) -> String {
        let logs = self.members.iter().map(|member| launch::log(&member.folder));
        let said: String = logs.filter_map(|log| std::fs::read_to_string(log).ok()).collect();
        let last: Vec<_> = said.lines().rev().take(12).collect();
        last.into_iter().rev().collect::<Vec<_>>().join("\n")
    }

    fn write(&self, kind: &EngineKind) -> Result<()> {
        let member = |it: &EngineProcess| format!("{} {} {}\n", it.pid, it.start_ticks, it.folder.display());
        let members: String = self.members.iter().map(member).collect();
        let (folder, ports) = (self.site.folder.display(), self.site.ports());
        Ok(std::fs::write(file(kind), format!("{}\n{folder}\n{ports}\n{members}", self.url))?)
    }
}

fn state() -> PathBuf {
    crate::paths::target().join("engines")
}

fn file(kind: &EngineKind) -> PathBuf {
    state().join(kind.name)
}

/// The engine, where any of it runs.
pub(super) fn find(kind: &EngineKind) -> Option<RunningEngine> {
    read(&file(kind)).filter(|running| running.alive().next().is_some())
}

fn read(path: &Path) -> Option<RunningEngine> {
    let text = std::fs::read_to_string(path).ok()?;
    let mut lines = text.lines();
    let url = lines.next()?.to_owned();
    let place = EngineSite::read(PathBuf::from(lines.next()?), lines.next()?)?;
    let member = |line: &str| {
        let mut parts = line.splitn(3, ' ');
        let (pid, born) = (parts.next()?.parse().ok()?, parts.next()?.to_owned());
        Some(EngineProcess { pid, start_ticks: born, folder: PathBuf::from(parts.next()?) })
    };
    Some(RunningEngine { url, site: place, members: lines.map(member).collect::<Option<_>>()? })
}

/// When a living process started; `None` when it is gone or waits to be reaped.
fn start_ticks(pid: u32) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in brackets may hold anything.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    (state != "Z").then(|| fields.nth(18).map(str::to_owned))?
}

/// Starts it and waits until it answers. Where its process ends before, another process may have taken one of its ports: it is
/// started again with other ports.
pub(super) fn start(kind: &EngineKind) -> Result<()> {
    std::fs::create_dir_all(state())?;
    for attempt in 1.. {
        match start_once(kind, attempt) {
            Err(error) if attempt < STARTS && error.is::<EarlyExit>() => {
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
struct EarlyExit(String);

impl std::fmt::Display for EarlyExit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "it ended before it answered:\n{}", self.0)
    }
}

impl std::error::Error for EarlyExit {}

fn start_once(kind: &EngineKind, attempt: u32) -> Result<()> {
    let name = format!("evenkeel-{}-{}-{attempt}", kind.name, std::process::id());
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir(&folder).with_context(|| format!("{} cannot be made", folder.display()))?;
    let place = EngineSite::new(folder.clone())?;
    let started = (kind.start)(&place)?;
    let members =
        started.children.into_iter().map(|(child, folder)| EngineProcess::of(child, &folder)).collect();
    let running = RunningEngine { url: started.url, site: place, members };
    running.write(kind)?;
    let mut waited = Duration::ZERO;
    // Another server at its port would answer too, but then its own process has ended or is about to.
    while !(kind.answers)(&running.site) || running.alive().count() < running.members.len() {
        if running.alive().count() < running.members.len() {
            let log = running.log_tail();
            end(kind)?;
            return Err(EarlyExit(log).into());
        }
        if waited > PATIENCE {
            let log = running.log_tail();
            end(kind)?;
            bail!("it does not answer:\n{log}");
        }
        std::thread::sleep(STEP);
        waited += STEP;
    }
    (started.prepare)(&running.site)
}

/// Stops it, by force when it does not obey, and throws its folder away.
pub(super) fn stop(kind: &EngineKind) -> Result<()> {
    end(kind)?;
    let _ = std::fs::remove_file(tests_marker(kind));
    Ok(())
}

fn end(kind: &EngineKind) -> Result<()> {
    let Some(running) = read(&file(kind)) else { return Ok(()) };
    for member in &running.members {
        if !(member.stop_with(kind.stop, PATIENCE / 4)? || member.stop_with("KILL", PATIENCE / 4)?) {
            bail!("{} does not stop: process {}", kind.name, member.pid);
        }
    }
    std::fs::remove_file(file(kind))?;
    match std::fs::remove_dir_all(&running.site.folder) {
        Err(error) if running.site.folder.exists() => {
            println!("{} is left behind: {error}", running.site.folder.display());
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Kills it without a word, starts it again as it was, at the same place, and waits until it answers.
pub(super) fn restart(kind: &EngineKind) -> Result<()> {
    let running = find(kind).with_context(|| format!("{} does not run", kind.name))?;
    for member in &running.members {
        member.stop_with("KILL", PATIENCE)?;
    }
    restart_dead_members(kind, running)
}

/// Starts those of its processes again that are gone.
pub(super) fn restart_dead(kind: &EngineKind) -> Result<()> {
    find(kind).map_or(Ok(()), |running| restart_dead_members(kind, running))
}

/// What a dead one left, children and locks, may be in the way of its successor: one that ends is started once more.
fn restart_dead_members(kind: &EngineKind, mut running: RunningEngine) -> Result<()> {
    let mut waited = Duration::ZERO;
    loop {
        for member in running.members.iter_mut().filter(|member| !member.is_alive()) {
            member.restart()?;
        }
        running.write(kind)?;
        if (kind.answers)(&running.site) {
            return Ok(());
        }
        if waited > PATIENCE {
            bail!("it does not answer:\n{}", running.log_tail());
        }
        std::thread::sleep(REST);
        waited += REST;
    }
}

fn tests_marker(kind: &EngineKind) -> PathBuf {
    state().join(format!("{}.of-the-tests", kind.name))
}

/// Remembers that the tests start it, so that they stop it.
pub(super) fn mark_started_by_tests(kind: &EngineKind) -> Result<()> {
    std::fs::create_dir_all(state())?;
    Ok(std::fs::write(tests_marker(kind), "")?)
}

/// Whether the tests started it.
pub(super) fn is_started_by_tests(kind: &EngineKind) -> bool {
    tests_marker(kind).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_its_number_and_its_birth() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let here = start_ticks(child.id()).unwrap();
        assert!(here.parse::<u64>().unwrap() > 0);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(start_ticks(child.id()), None);
        assert_ne!(start_ticks(1), Some(here));
    }

    /// A server whose second and third start end at once, as those do that find what a dead one left.
    const STUBBORN: &str =
        "echo >> starts; case $(wc -l < starts) in 2|3) exit 1;; esac; echo > up; exec sleep 60";

    fn stubborn(place: &EngineSite) -> Result<launch::StartedEngine> {
        let child = place.spawn(Command::new("sh").args(["-c", STUBBORN]))?;
        Ok(launch::StartedEngine {
            children: vec![child],
            url: "stubborn://".to_owned(),
            prepare: launch::no_preparation,
        })
    }

    #[test]
    fn one_that_ends_at_once_is_started_until_it_answers() {
        let kind = EngineKind {
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
        std::fs::remove_file(find(&kind).unwrap().site.path("up")).unwrap();
        restart(&kind).unwrap();
        let found = find(&kind).unwrap();
        let after: Vec<_> = found.alive().map(|member| member.pid).collect();
        assert_eq!((before.len(), after.len()), (1, 1));
        assert_eq!(std::fs::read_to_string(found.site.path("starts")).unwrap(), "\n\n\n\n", "four starts");
        assert_ne!(before, after);
        assert!(!Path::new(&format!("/proc/{}", before[0])).exists(), "no zombie keeps its number");
        assert_eq!(read(&file(&kind)).unwrap().site.ports(), found.site.ports());
        stop(&kind).unwrap();
        assert!(!found.site.folder.exists() && find(&kind).is_none());
    }

    /// As one whose port another process has taken meanwhile: it ends at its first start.
    fn unlucky(place: &EngineSite) -> Result<launch::StartedEngine> {
        static STARTS: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let first = STARTS.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 0;
        let script = if first { "echo the port is taken; exit 1" } else { "echo > up; exec sleep 60" };
        let child = place.spawn(Command::new("sh").args(["-c", script]))?;
        Ok(launch::StartedEngine {
            children: vec![child],
            url: "unlucky://".to_owned(),
            prepare: launch::no_preparation,
        })
    }

    #[test]
    fn an_engine_that_ends_at_once_is_started_with_other_ports() {
        let kind = EngineKind {
            name: "unlucky",
            quorum: false,
            package: "none",
            program: || None,
            start: unlucky,
            answers: |place| Path::new(&place.path("up")).exists(),
            stop: "TERM",
        };
        start(&kind).unwrap();
        assert!(find(&kind).unwrap().site.folder.to_string_lossy().ends_with("-2"), "the second start");
        stop(&kind).unwrap();
    }

    #[test]
    fn an_engine_that_never_stays_is_given_up_with_the_end_of_its_log() {
        let kind = EngineKind {
            name: "hopeless",
            quorum: false,
            package: "none",
            program: || None,
            start: |place| {
                let child = place.spawn(Command::new("sh").args(["-c", "echo no licence; exit 1"]))?;
                Ok(launch::StartedEngine {
                    children: vec![child],
                    url: "none://".to_owned(),
                    prepare: launch::no_preparation,
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
