//! What runs: one small file an engine, `target/engines/NAME`, which outlives the command that wrote it.

use super::Kind;
use super::launch::{self, Place};
use anyhow::{Context as _, Result, bail};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

/// How long an engine may take to answer, and to stop when asked.
const PATIENCE: Duration = Duration::from_secs(60);
const STEP: Duration = Duration::from_millis(25);
/// One that still lives after this will stay; how often that is tried.
const STAYS: Duration = Duration::from_millis(200);
const RESTARTS: u32 = 25;

/// An engine that runs.
pub(super) struct Running {
    pub(super) url: String,
    folder: PathBuf,
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
    fn of(child: &Child, folder: &Path) -> Result<Self> {
        let pid = child.id();
        Ok(Self { pid, born: born(pid).context("it ended at once")?, folder: folder.to_owned() })
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
        // What the dead one left, children and locks, may be there a moment longer.
        let mut child = launch::again(&self.folder)?;
        for _ in 0..RESTARTS {
            std::thread::sleep(STAYS);
            if !ended(&mut child) {
                break;
            }
            child = launch::again(&self.folder)?;
        }
        *self = Self::of(&child, &self.folder)?;
        Ok(())
    }
}

impl Running {
    /// The processes that live.
    pub(super) fn alive(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(|member| member.is_alive())
    }

    fn write(&self, kind: &Kind) -> Result<()> {
        let member = |it: &Member| format!("{} {} {}\n", it.pid, it.born, it.folder.display());
        let members: String = self.members.iter().map(member).collect();
        Ok(std::fs::write(file(kind), format!("{}\n{}\n{members}", self.url, self.folder.display()))?)
    }
}

fn state() -> PathBuf {
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| crate::root().join("target"), PathBuf::from);
    target.join("engines")
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
    let (url, folder) = (lines.next()?.to_owned(), PathBuf::from(lines.next()?));
    let member = |line: &str| {
        let mut parts = line.splitn(3, ' ');
        let (pid, born) = (parts.next()?.parse().ok()?, parts.next()?.to_owned());
        Some(Member { pid, born, folder: PathBuf::from(parts.next()?) })
    };
    Some(Running { url, folder, members: lines.map(member).collect::<Option<_>>()? })
}

/// When a living process started; `None` when it is gone or waits to be reaped.
fn born(pid: u32) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in brackets may hold anything.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    (state != "Z").then(|| fields.nth(18).map(str::to_owned))?
}

/// Starts it and waits until it answers.
pub(super) fn start(kind: &Kind) -> Result<()> {
    std::fs::create_dir_all(state())?;
    let _ = std::fs::remove_file(ours(kind));
    let folder = std::env::temp_dir().join(format!("evenkeel-{}-{}", kind.name, std::process::id()));
    std::fs::create_dir(&folder).with_context(|| format!("{} cannot be made", folder.display()))?;
    let place = Place::new(folder.clone())?;
    let mut started = (kind.start)(&place)?;
    let members = started.children.iter().map(|(child, folder)| Member::of(child, folder));
    Running { url: started.url, folder, members: members.collect::<Result<_>>()? }.write(kind)?;
    let mut waited = Duration::ZERO;
    while !(started.answers)(&place) {
        if started.children.iter_mut().any(|(child, _)| ended(child)) || waited > PATIENCE {
            let logs = started.children.iter().map(|(_, folder)| launch::log(folder));
            let said: String = logs.filter_map(|log| std::fs::read_to_string(log).ok()).collect();
            let last: Vec<_> = said.lines().rev().take(12).collect();
            stop(kind)?;
            bail!("it does not answer:\n{}", last.into_iter().rev().collect::<Vec<_>>().join("\n"));
        }
        std::thread::sleep(STEP);
        waited += STEP;
    }
    (started.prepare)(&place)
}

fn ended(child: &mut Child) -> bool {
    child.try_wait().map_or(true, |status| status.is_some())
}

/// Stops it, by force when it does not obey, and throws its folder away.
pub(super) fn stop(kind: &Kind) -> Result<()> {
    let Some(running) = read(&file(kind)) else { return Ok(()) };
    for member in &running.members {
        if !(member.ends_by(kind.stop, PATIENCE / 4)? || member.ends_by("KILL", PATIENCE / 4)?) {
            bail!("{} does not stop: process {}", kind.name, member.pid);
        }
    }
    let _ = std::fs::remove_file(ours(kind));
    std::fs::remove_file(file(kind))?;
    match std::fs::remove_dir_all(&running.folder) {
        Err(error) if running.folder.exists() => {
            println!("{} is left behind: {error}", running.folder.display());
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Kills it without a word and starts it again as it was, at the same place. It may take a while until it answers.
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

fn mend_all(kind: &Kind, mut running: Running) -> Result<()> {
    for member in running.members.iter_mut().filter(|member| !member.is_alive()) {
        member.again()?;
    }
    running.write(kind)
}

fn ours(kind: &Kind) -> PathBuf {
    state().join(format!("{}.of-the-tests", kind.name))
}

/// Remembers that the tests started it, so that they stop it.
pub(super) fn mark_ours(kind: &Kind) -> Result<()> {
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
        assert_ne!(born(std::process::id()), Some(here));
    }
}
