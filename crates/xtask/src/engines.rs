//! Real engines for the tests: installed where that is allowed, started on loopback, and stopped again.
//!
//! - [`install`] asks Debian's packages; [`launch`] knows how each is started, [`quorum`] how three are that are one;
//!   [`running`] remembers what runs.

mod install;
mod launch;
mod quorum;
mod running;

use anyhow::{Context as _, Result, bail};
use std::io::{Write as _, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// One kind of engine.
pub(crate) struct EngineKind {
    /// As in a URL, and what it is when it is more than one server.
    name: &'static str,
    /// Whether it is three servers that are one.
    quorum: bool,
    /// What Debian calls it.
    package: &'static str,
    /// Finds its program; `None` where it is not installed.
    program: fn() -> Option<PathBuf>,
    /// Starts it in a folder of its own.
    start: fn(&launch::EngineSite) -> Result<launch::StartedEngine>,
    /// Whether it answers by now.
    answers: fn(&launch::EngineSite) -> bool,
    /// What asks it to stop.
    stop: &'static str,
}

const KINDS: &[EngineKind] = &[
    EngineKind {
        name: "etcd",
        quorum: false,
        package: "etcd-server",
        program: || launch::on_path("etcd"),
        start: launch::etcd,
        answers: launch::etcd_answers,
        stop: "TERM",
    },
    EngineKind {
        name: "zookeeper",
        quorum: false,
        package: "zookeeper",
        program: launch::zookeeper_jar,
        start: launch::zookeeper,
        answers: launch::zookeeper_answers,
        stop: "TERM",
    },
    EngineKind {
        name: "redis",
        quorum: false,
        package: "redis-server",
        program: || launch::on_path("redis-server"),
        start: launch::redis,
        answers: launch::redis_answers,
        stop: "TERM",
    },
    EngineKind {
        name: "mysql",
        quorum: false,
        package: "mariadb-server",
        program: || launch::on_path("mariadbd"),
        start: launch::mysql,
        answers: launch::mysql_answers,
        stop: "TERM",
    },
    EngineKind {
        name: "postgres",
        quorum: false,
        package: "postgresql",
        program: || launch::postgres_program("postgres"),
        start: launch::postgres,
        answers: launch::postgres_answers,
        stop: "INT",
    },
    EngineKind {
        name: "etcd-quorum",
        quorum: true,
        package: "etcd-server",
        program: || launch::on_path("etcd"),
        start: quorum::etcd,
        answers: quorum::etcds_answer,
        stop: "TERM",
    },
    EngineKind {
        name: "zookeeper-quorum",
        quorum: true,
        package: "zookeeper",
        program: launch::zookeeper_jar,
        start: quorum::zookeeper,
        answers: quorum::zookeepers_answer,
        stop: "TERM",
    },
];

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
        "install" => install::install(&chosen)?,
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
    if let Err(error) = install::install(&all) {
        println!("{error:#}: its tests are skipped");
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
