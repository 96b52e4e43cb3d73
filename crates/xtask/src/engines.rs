//! Real engines for the tests: installed where that is allowed, started on loopback, and stopped again.
//!
//! - [`kinds`] lists them; [`install`] asks Debian's packages; [`launch`] knows how each is started, [`quorum`] how three are that are one;
//!   [`running`] remembers what runs.

mod install;
mod kinds;
mod launch;
mod quorum;
mod running;

use kinds::{EngineKind, KINDS};

use anyhow::{Context as _, Result, bail};
use std::io::{Write as _, stdout};
use std::path::Path;
use std::process::ExitCode;

/// Asks `up` for those that are three servers each.
const QUORUM: &str = "--quorum";

/// Carries out `cargo xtask engines`.
pub(crate) fn command(args: &[String]) -> Result<ExitCode> {
    let Some((verb, names)) = args.split_first() else {
        bail!("say what to do: install, up, down, restart, status or env")
    };
    let (flags, names): (Vec<_>, Vec<_>) = names.iter().cloned().partition(|name| name == QUORUM);
    if !flags.is_empty() && verb != "up" {
        bail!("`{QUORUM}` goes with `up` alone: `{verb}` means all that run, or those that it is told")
    }
    let chosen = chosen(&names)?;
    match verb.as_str() {
        "install" => {
            install::install(&chosen)?;
            install::install_tools()?;
        }
        "up" => {
            let meant = |kind: &&EngineKind| !names.is_empty() || kind.quorum != flags.is_empty();
            up(&chosen.into_iter().filter(meant).collect::<Vec<_>>(), EngineOwner::Person)?;
        }
        "down" => chosen.iter().try_for_each(|kind| running::stop(kind))?,
        "restart" => {
            let meant = |kind: &&&EngineKind| !names.is_empty() || running::find(kind).is_some();
            chosen.iter().filter(meant).try_for_each(|kind| running::restart(kind))?;
        }
        "status" => chosen.iter().try_for_each(|kind| writeln!(stdout(), "{}", status(kind)))?,
        "env" => environment()
            .iter()
            .try_for_each(|(name, value)| writeln!(stdout(), "export {name}='{value}'"))?,
        other => bail!("`{other}` means nothing here: say install, up, down, restart, status or env"),
    }
    Ok(ExitCode::SUCCESS)
}

fn chosen(names: &[String]) -> Result<Vec<&'static EngineKind>> {
    if names.is_empty() {
        return Ok(KINDS.iter().collect());
    }
    let find = |name: &String| {
        let known = || KINDS.iter().map(|kind| kind.name).collect::<Vec<_>>().join(", ");
        KINDS
            .iter()
            .find(|kind| kind.name == name)
            .with_context(|| format!("there is no engine `{name}`: there are {}", known()))
    };
    names.iter().map(find).collect()
}

/// Who stops an engine.
#[derive(Clone, Copy, PartialEq)]
enum EngineOwner {
    /// The person who started it.
    Person,
    /// The tests, when they are over or when the next ones begin.
    Tests,
}

/// Starts what is installed and does not run yet, and says where each is.
fn up(kinds: &[&'static EngineKind], owner: EngineOwner) -> Result<()> {
    for kind in kinds {
        if (kind.program)().is_none() {
            println!("{} absent: `cargo xtask engines install` gets Debian's {}", kind.name, kind.package);
            continue;
        }
        if running::find(kind).is_some() {
            running::restart_dead(kind)
                .with_context(|| format!("a member of {} did not start", kind.name))?;
        } else {
            // What an earlier start left behind: processes of which one is gone, and a folder.
            running::stop(kind)?;
            // Marked first, so that the next run of the tests stops it though this one is cut short.
            if owner == EngineOwner::Tests {
                running::mark_started_by_tests(kind)?;
            }
            running::start(kind).with_context(|| format!("{} did not start", kind.name))?;
        }
        println!("{}", status(kind));
    }
    Ok(())
}

fn status(kind: &EngineKind) -> String {
    match running::find(kind) {
        Some(found) => {
            let pids: Vec<_> = found.alive().map(|member| member.pid.to_string()).collect();
            format!("{} {} {}", kind.name, found.url, pids.join(" "))
        }
        None if (kind.program)().is_none() => format!("{} absent", kind.name),
        None => format!("{} down", kind.name),
    }
}

/// Installs what is missing where that is allowed, and starts everything: a part of the tests.
pub(crate) fn bring_up(_: &Path) -> Result<()> {
    bring_up_all(false)
}

/// The same for those that are three servers each.
pub(crate) fn bring_up_quorums() -> Result<()> {
    bring_up_all(true)
}

fn bring_up_all(quorum: bool) -> Result<()> {
    let all: Vec<_> = KINDS.iter().filter(|kind| kind.quorum == quorum).collect();
    for installed in [install::install(&all), install::install_tools()] {
        if let Err(error) = installed {
            println!("{error:#}: its tests are skipped");
        }
    }
    up(&all, EngineOwner::Tests)
}

/// Stops what [`bring_up`] started, in this process or in one that was cut short.
pub(crate) fn take_down() -> Result<()> {
    KINDS.iter().filter(|kind| running::is_started_by_tests(kind)).try_for_each(running::stop)
}

/// How tests find the engines that run: `EVENKEEL_TEST_<NAME>`, where nobody has said otherwise.
pub(crate) fn environment() -> Vec<(String, String)> {
    let named = KINDS.iter().filter_map(|kind| {
        let name = format!("EVENKEEL_TEST_{}", kind.name.to_uppercase().replace('-', "_"));
        let found = running::find(kind).filter(|_| std::env::var_os(&name).is_none())?;
        Some((name, found.url))
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_are_chosen_by_name() {
        assert_eq!(chosen(&[]).unwrap().len(), KINDS.len());
        let two = chosen(&["redis".to_owned(), "etcd".to_owned()]).unwrap();
        assert_eq!(two.iter().map(|kind| kind.name).collect::<Vec<_>>(), ["redis", "etcd"]);
        let said = command(&["down".to_owned(), QUORUM.to_owned()]).err().unwrap().to_string();
        assert!(said.contains("goes with `up` alone"), "{said}");
        let error = chosen(&["oracle".to_owned()]).err().unwrap().to_string();
        assert!(error.contains("oracle") && error.contains("zookeeper"), "{error}");
    }
}
