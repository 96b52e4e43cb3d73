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
    pub(super) pid: u32,
    /// When the process started, in ticks since boot: another with its number is another.
    born: String,
    folder: PathBuf,
}

fn state() -> PathBuf {
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| crate::root().join("target"), PathBuf::from);
    target.join("engines")
}

fn file(kind: &Kind) -> PathBuf {
    state().join(kind.name)
}

/// The engine, where it runs.
pub(super) fn find(kind: &Kind) -> Option<Running> {
    let running = read(&file(kind))?;
    (born(running.pid).as_ref() == Some(&running.born)).then_some(running)
}

fn read(path: &Path) -> Option<Running> {
    let text = std::fs::read_to_string(path).ok()?;
    let mut lines = text.lines();
    let (url, pid, born) = (lines.next()?.to_owned(), lines.next()?.parse().ok()?, lines.next()?.to_owned());
    Some(Running { url, pid, born, folder: PathBuf::from(lines.next()?) })
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
    let pid = started.child.id();
    let born = born(pid).context("it ended at once")?;
    std::fs::write(file(kind), format!("{}\n{pid}\n{born}\n{}\n", started.url, folder.display()))?;
    let mut waited = Duration::ZERO;
    while !(started.answers)(&place) {
        if ended(&mut started.child) || waited > PATIENCE {
            let said = std::fs::read_to_string(place.log()).unwrap_or_default();
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
    let alive = || born(running.pid).as_ref() == Some(&running.born);
    for (signal, patience) in [(kind.stop, PATIENCE / 4), ("KILL", PATIENCE / 4)] {
        if alive() {
            launch::run(Command::new("kill").args([&format!("-{signal}"), &running.pid.to_string()]))?;
        }
        let mut waited = Duration::ZERO;
        while alive() && waited < patience {
            std::thread::sleep(STEP);
            waited += STEP;
        }
    }
    if alive() {
        bail!("{} does not stop: process {}", kind.name, running.pid);
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
    launch::run(Command::new("kill").args(["-KILL", &running.pid.to_string()]))?;
    let mut waited = Duration::ZERO;
    while born(running.pid).as_ref() == Some(&running.born) && waited < PATIENCE {
        std::thread::sleep(STEP);
        waited += STEP;
    }
    // What the dead one left, children and locks, may be there a moment longer.
    let mut child = launch::again(&running.folder)?;
    for _ in 0..RESTARTS {
        std::thread::sleep(STAYS);
        if !ended(&mut child) {
            break;
        }
        child = launch::again(&running.folder)?;
    }
    let pid = child.id();
    let born = born(pid).context("it ended at once")?;
    let folder = running.folder.display();
    Ok(std::fs::write(file(kind), format!("{}\n{pid}\n{born}\n{folder}\n", running.url))?)
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
