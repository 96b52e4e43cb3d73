//! Real engines for the tests: installed where that is allowed, started on loopback, and stopped again.
//!
//! - [`install`] asks Debian's packages; [`launch`] knows how each is started; [`running`] remembers what runs.

mod install;
mod launch;
mod running;

use anyhow::{Context as _, Result, bail};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// One kind of engine.
pub(crate) struct Kind {
    /// As in a URL.
    name: &'static str,
    /// What Debian calls it.
    package: &'static str,
    /// Finds its program; `None` where it is not installed.
    program: fn() -> Option<PathBuf>,
    /// Starts it in a folder of its own.
    start: fn(&launch::Place) -> Result<launch::Started>,
    /// What asks it to stop.
    stop: &'static str,
}

const KINDS: &[Kind] = &[
    Kind {
        name: "etcd",
        package: "etcd-server",
        program: || launch::on_path("etcd"),
        start: launch::etcd,
        stop: "TERM",
    },
    Kind {
        name: "zookeeper",
        package: "zookeeper",
        program: launch::zookeeper_jar,
        start: launch::zookeeper,
        stop: "TERM",
    },
    Kind {
        name: "redis",
        package: "redis-server",
        program: || launch::on_path("redis-server"),
        start: launch::redis,
        stop: "TERM",
    },
    Kind {
        name: "mysql",
        package: "mariadb-server",
        program: || launch::on_path("mariadbd"),
        start: launch::mysql,
        stop: "TERM",
    },
    Kind {
        name: "postgres",
        package: "postgresql",
        program: || launch::postgres_program("postgres"),
        start: launch::postgres,
        stop: "INT",
    },
];

/// Carries out `cargo xtask engines`.
pub(crate) fn command(args: &[String]) -> Result<ExitCode> {
    let Some((verb, names)) = args.split_first() else {
        bail!("say what to do: install, up, down, restart, status or env")
    };
    let chosen = chosen(names)?;
    match verb.as_str() {
        "install" => install::install(&chosen)?,
        "up" => {
            up(&chosen)?;
        }
        "down" => chosen.iter().try_for_each(|kind| running::stop(kind))?,
        "restart" => chosen.iter().try_for_each(|kind| running::restart(kind))?,
        "status" => chosen.iter().for_each(|kind| println!("{}", status(kind))),
        "env" => {
            for (name, value) in environment() {
                println!("export {name}='{value}'");
            }
        }
        other => bail!("`{other}` means nothing here: say install, up, down, restart, status or env"),
    }
    Ok(ExitCode::SUCCESS)
}

fn chosen(names: &[String]) -> Result<Vec<&'static Kind>> {
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

/// Starts what is installed and does not run yet, and says where each is. Returns those that it started.
fn up(kinds: &[&'static Kind]) -> Result<Vec<&'static Kind>> {
    let mut started = Vec::new();
    for kind in kinds {
        if (kind.program)().is_none() {
            println!("{} absent: `cargo xtask engines install` gets Debian's {}", kind.name, kind.package);
            continue;
        }
        if running::find(kind).is_none() {
            running::start(kind).with_context(|| format!("{} did not start", kind.name))?;
            started.push(*kind);
        }
        println!("{}", status(kind));
    }
    Ok(started)
}

fn status(kind: &Kind) -> String {
    match running::find(kind) {
        Some(found) => format!("{} {} {}", kind.name, found.url, found.pid),
        None if (kind.program)().is_none() => format!("{} absent", kind.name),
        None => format!("{} down", kind.name),
    }
}

/// Installs what is missing where that is allowed, and starts everything: a part of the tests.
pub(crate) fn bring_up(_: &Path) -> Result<()> {
    let all: Vec<_> = KINDS.iter().collect();
    if let Err(error) = install::install(&all) {
        println!("{error:#}: its tests are skipped");
    }
    for kind in up(&all)? {
        running::mark_ours(kind)?;
    }
    Ok(())
}

/// Stops what [`bring_up`] started, in this process or in one that was cut short.
pub(crate) fn take_down() -> Result<()> {
    KINDS.iter().filter(|kind| running::is_ours(kind)).try_for_each(running::stop)
}

/// How tests find the engines that run: `EVENKEEL_TEST_<NAME>`, where nobody has said otherwise.
pub(crate) fn environment() -> Vec<(String, String)> {
    let named = KINDS.iter().filter_map(|kind| {
        let name = format!("EVENKEEL_TEST_{}", kind.name.to_uppercase());
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
        let error = chosen(&["oracle".to_owned()]).err().unwrap().to_string();
        assert!(error.contains("oracle") && error.contains("zookeeper"), "{error}");
    }
}
