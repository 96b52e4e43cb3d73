//! `evenkeel cluster backup`, `restore` and `move`: back up, restore and migrate a cluster's registry data.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use clap::Args;
use evenkeel::backup::{self, Backup, BackupError, HistoryCopy};
use evenkeel_core::backup::BackupCounts;
use evenkeel_core::time::{Millis, SpanLimits, TimeSpan};
use serde::Serialize;

use crate::bounded;
use crate::escaping::visible;
use crate::exit::{CliError, ExitKind};
use crate::output::{self, OutputFormat, TableRow};
use crate::settings::SettingsArgs;

/// The size limit of a backup: more than a cluster with a million jobs needs.
const BACKUP_BYTES_MAX: u64 = 4 * 1024 * 1024 * 1024;

/// Which registry.
#[derive(Debug, Args)]
pub(crate) struct RegistryArgs {
    /// The address of the registry, as for `serve`
    #[arg(long, value_name = "URL", env = "EVENKEEL_REGISTRY", hide_env_values = true)]
    registry: Option<String>,
    /// The TOML file that `serve` is started with
    #[arg(long, value_name = "FILE", env = "EVENKEEL_CONFIG")]
    config: Option<PathBuf>,
    /// The format of the answer
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    output: OutputFormat,
}

/// `evenkeel cluster backup`.
#[derive(Debug, Args)]
pub(crate) struct BackupArgs {
    /// The file to write, or - for standard output
    #[arg(value_name = "FILE")]
    file: String,
    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    which: RegistryArgs,
}

/// `evenkeel cluster restore`.
#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// A file that `cluster backup` has written, or - for standard input
    #[arg(value_name = "FILE")]
    file: String,
    /// Restore although fires of at_least_once jobs that ran after the backup may run again
    #[arg(long)]
    may_repeat_runs: bool,
    #[command(flatten)]
    which: RegistryArgs,
}

/// `evenkeel cluster move`.
#[derive(Debug, Args)]
pub(crate) struct MigrateArgs {
    /// The registry to move to, which must be empty; if it has its own password, add ?password_file=FILE
    #[arg(long, value_name = "URL")]
    to: String,
    /// How long to wait until no node lives; a killed node counts as living until its lease ends
    #[arg(long, value_name = "TIME", default_value = "0s")]
    wait: String,
    #[command(flatten)]
    which: RegistryArgs,
}

/// The summary of what was done, for programs.
#[derive(Debug, Serialize)]
struct BackupSummary<'a> {
    done: &'static str,
    /// Whether it was done before, so that nothing was changed.
    already: bool,
    registry: &'a str,
    file: Option<&'a str>,
    cluster: Option<&'a str>,
    taken: Option<String>,
    generation: u16,
    carried: &'a BackupCounts,
    /// Where old runs are found after a migration.
    #[serde(skip_serializing_if = "Option::is_none")]
    history: Option<String>,
}

/// The number of records of one kind in the registry data.
#[derive(Debug, Serialize)]
struct RecordCountRow {
    what: &'static str,
    count: usize,
}

impl TableRow for RecordCountRow {
    const HEADS: &'static [&'static str] = &["what", "count"];
    fn cells(&self) -> Vec<String> {
        vec![self.what.to_owned(), self.count.to_string()]
    }
}

fn counts(tally: &BackupCounts) -> String {
    let rows = [
        ("jobs", tally.jobs),
        ("deleted jobs, kept for their tokens", tally.deleted),
        ("run states and plans, each with its count of claims", tally.run_states),
        ("watermarks", tally.watermarks),
        ("jobs with a pending reshard", tally.marks),
        ("open runs", tally.open),
        ("requests to run that no node has taken", tally.requests),
        ("locks", tally.locks),
        ("calendars", tally.calendars),
        ("namespaces", tally.namespaces),
        ("entries in all", tally.entries),
    ];
    output::table(&rows.map(|(what, count)| RecordCountRow { what, count }))
}

impl RegistryArgs {
    fn url(&self) -> Result<String, CliError> {
        let below = self.config.as_deref().map(SettingsArgs::read).transpose()?.unwrap_or_default();
        let url = self.registry.clone().or(below.registry);
        url.ok_or_else(|| CliError::usage("say --registry URL: the address of the registry"))
    }
}

/// Copies the registry data into a file.
///
/// # Errors
/// The data cannot be read, or the file cannot be written.
pub(crate) fn backup(args: &BackupArgs) -> Result<(), CliError> {
    let url = args.which.url()?;
    let to_file = args.file != "-";
    if to_file && !args.force && Path::new(&args.file).exists() {
        return Err(exists(&args.file));
    }
    let backup = wait("reading the registry", backup::backup(&url))?;
    let text = backup.to_text();
    if to_file {
        keep(Path::new(&args.file), text.as_bytes(), args.force)?;
    } else {
        output::bytes(text.as_bytes())?;
    }
    let header = &backup.header;
    let tally = backup.tally();
    if !args.which.output.is_text() && to_file {
        return output::changed(
            args.which.output,
            &BackupSummary {
                done: "backup",
                already: false,
                registry: &header.registry,
                file: Some(&args.file),
                cluster: Some(&header.cluster),
                taken: Some(header.taken.to_string()),
                generation: header.generation,
                carried: &tally,
                history: None,
            },
        );
    }
    let mut said = format!(
        "cluster {} in {} is backed up, generation {}\n{}",
        header.cluster,
        header.registry,
        header.generation,
        counts(&tally)
    );
    let nodes: Vec<_> = header.members.iter().map(|member| member.node.as_str()).collect();
    if !nodes.is_empty() {
        said.push_str(&format!(
            "\nnodes at work: {}. What they do from now on is not in this backup, and they are not either.",
            nodes.join(", ")
        ));
    }
    if let Some(to) = &header.moved {
        said.push_str(&format!(
            "\nthis cluster was moved to {to}: what happened there is not in this backup."
        ));
    }
    append_unreadable(&tally, &mut said);
    print_summary(to_file, &said)
}

/// Restores a backup into an empty registry.
///
/// # Errors
/// The backup is not complete, the registry is not empty or not writable, or the flag that allows repeated runs is
/// missing.
pub(crate) fn restore(args: &RestoreArgs) -> Result<(), CliError> {
    let url = args.which.url()?;
    let backup = Backup::from_text(&read(&args.file)?).map_err(failure)?;
    if !args.may_repeat_runs && backup.tally().jobs > 0 {
        return Err(CliError::new(ExitKind::Conflict, repeats(&backup)));
    }
    let restored = wait("restoring", backup::restore(&url, &backup))?;
    let (registry, header) = (backup::shown(&url), &backup.header);
    if !args.which.output.is_text() {
        return output::changed(
            args.which.output,
            &BackupSummary {
                done: "restore",
                already: restored.already,
                registry: &registry,
                file: Some(&args.file),
                cluster: Some(&header.cluster),
                taken: Some(header.taken.to_string()),
                generation: restored.generation,
                carried: &restored.tally,
                history: None,
            },
        );
    }
    if restored.already {
        return output::line(&format!(
            "{registry} has the entries of cluster {} already, generation {}: nothing was changed",
            header.cluster, restored.generation
        ));
    }
    let mut said = format!(
        "cluster {} is restored into {registry} as of {}, generation {} (it was {})\n{}\nnext: start its nodes with \
         --registry {registry}",
        header.cluster,
        header.taken,
        restored.generation,
        header.generation,
        counts(&restored.tally)
    );
    append_intents(&restored.tally, &mut said);
    append_unreadable(&restored.tally, &mut said);
    output::line(&said)
}

/// Migrates a stopped cluster to another registry.
///
/// # Errors
/// The cluster is not stopped, the other registry is not empty, or one of them cannot be used.
pub(crate) fn migrate(args: &MigrateArgs) -> Result<(), CliError> {
    let url = args.which.url()?;
    let patience = TimeSpan::parse("--wait", &args.wait, SpanLimits::ANY);
    let patience = patience.map_err(|e| CliError::usage(e.to_string()))?;
    let moved = wait("moving", backup::migrate(&url, &args.to, patience.into()))?;
    if !args.which.output.is_text() {
        return output::changed(
            args.which.output,
            &BackupSummary {
                done: "move",
                already: moved.already,
                registry: &moved.to,
                file: None,
                cluster: None,
                taken: None,
                generation: moved.generation,
                carried: &moved.tally,
                history: Some(describe_history(&moved.past)),
            },
        );
    }
    let (from, to) = (&moved.from, &moved.to);
    if moved.already {
        return output::line(&format!(
            "{from} was moved to {to} before, generation {}: nothing was changed there\nnext: start its nodes with \
             --registry {to}\n{}",
            moved.generation,
            describe_history(&moved.past)
        ));
    }
    let mut said = format!(
        "moved from {from} to {to}, generation {}; no node can join at {from} any more\n{}\nnext: start the nodes with \
         --registry {to}\n{}",
        moved.generation,
        counts(&moved.tally),
        describe_history(&moved.past)
    );
    if let Some((was, is)) = moved.weaker {
        said.push_str(&format!(
            "\nclaims were of class {was:?} and are of class {is:?} now: see `evenkeel cluster doctor --registry {to}`"
        ));
    }
    append_intents(&moved.tally, &mut said);
    append_unreadable(&moved.tally, &mut said);
    output::line(&said)
}

/// Where old runs are found after a migration.
fn describe_history(past: &HistoryCopy) -> String {
    match past {
        HistoryCopy::None => "no history lies beside the old registry: it stays where the nodes keep it, and where --history says".into(),
        HistoryCopy::Copied(to) => format!("history was copied to {}, where the nodes look for it", to.display()),
        HistoryCopy::Stays(at, why) => format!(
            "history was not moved, for {why}: to see old runs start a node of this host with --history sqlite:{}",
            at.display()
        ),
    }
}

/// What may run again after a restore, and what the restore leaves out.
fn repeats(backup: &Backup) -> String {
    let open = backup.open_runs();
    let were = match open.len() {
        0 => String::new(),
        n => format!(" ({n}: {}{})", open[0], if n > 1 { ", …" } else { "" }),
    };
    format!(
        "this backup is {} old, and what ran since is not known. What was due before the restore:\n- of jobs with delivery \
         at_least_once: fires run again that are not older than the job's grace, of older ones what catch_up says; so do \
         requests of manual runs that were not taken then, and what was running then{were}\n- of jobs with delivery \
         at_most_once (the default): nothing of it runs; fires and requests are skipped, with `history lost` in the \
         history, and what was running then is recorded as lost\nsee that no node works on another copy of this cluster, \
         then add --may-repeat-runs",
        age(backup.age())
    )
}

fn age(age: Millis) -> String {
    let secs = age.0.max(0) / 1_000;
    match secs {
        0..120 => format!("{secs} s"),
        120..7_200 => format!("{} min", secs / 60),
        7_200..172_800 => format!("{} h", secs / 3_600),
        _ => format!("{} days", secs / 86_400),
    }
}

/// What operators still want of nodes.
fn append_intents(tally: &BackupCounts, said: &mut String) {
    if !tally.drained.is_empty() {
        let names: Vec<_> = tally.drained.iter().map(|node| node.as_str()).collect();
        said.push_str(&format!(
            "\nstill to be drained, so that they take nothing: {}; `evenkeel node undrain NAME` ends that",
            names.join(", ")
        ));
    }
    if !tally.cordoned.is_empty() {
        let names: Vec<_> = tally.cordoned.iter().map(|node| node.as_str()).collect();
        said.push_str(&format!(
            "\nstill cordoned, so that they take nothing new: {}; `evenkeel node uncordon NAME` ends that",
            names.join(", ")
        ));
    }
}

fn append_unreadable(tally: &BackupCounts, said: &mut String) {
    if !tally.unreadable.is_empty() {
        said.push_str(&format!(
            "\ncarried as they are, for they cannot be read: {}",
            tally.unreadable.join(", ")
        ));
    }
}

/// Prints a summary for people; not on standard output if that is the backup itself.
fn print_summary(on_stdout: bool, said: &str) -> Result<(), CliError> {
    if on_stdout {
        return output::line(said);
    }
    // A summary that cannot be written is no failure.
    let _ = writeln!(io::stderr(), "{}", visible(said));
    Ok(())
}

fn exists(file: &str) -> CliError {
    CliError::new(ExitKind::Conflict, format!("{file} is there already: choose another name, or add --force"))
}

/// Writes a file that is complete or absent. Only its owner may read it.
fn keep(path: &Path, bytes: &[u8], force: bool) -> Result<(), CliError> {
    let shown = path.display().to_string();
    let failed = |error: io::Error| CliError::unwritable(&shown, error);
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.part", std::process::id()));
    let part = path.with_file_name(name);
    let written = (|| {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&part)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        match force {
            true => fs::rename(&part, path)?,
            // Fails if the file exists by now; a file system without links cannot check that.
            false => fs::hard_link(&part, path).or_else(|error| match error.kind() {
                io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound => Err(error),
                _ => fs::rename(&part, path),
            })?,
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(folder)?.sync_all()
    })();
    // After a rename it is gone already.
    let _ = fs::remove_file(&part);
    written.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => exists(&shown),
        _ => failed(error),
    })
}

fn read(file: &str) -> Result<Vec<u8>, CliError> {
    bounded::bytes(Path::new(file), BACKUP_BYTES_MAX)
        .map_err(|error| CliError::unreadable_input(file, &error))
}

fn wait<T>(what: &str, carried: impl Future<Output = Result<T, BackupError>>) -> Result<T, CliError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|e| CliError::new(ExitKind::Failed, format!("no runtime: {e}")))?;
    let carried = runtime.block_on(output::shown_while(what, carried));
    runtime.shutdown_background();
    carried.map_err(failure)
}

fn failure(error: BackupError) -> CliError {
    let exit = match &error {
        BackupError::Registry(_) => ExitKind::Failed,
        BackupError::Conflict(_) => ExitKind::Conflict,
        BackupError::Invalid(_) => ExitKind::Invalid,
    };
    CliError::new(exit, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_written_whole_and_replaced_only_when_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("b");
        keep(&path, b"one", false).unwrap();
        let refused = keep(&path, b"two", false).unwrap_err();
        assert!(refused.message.contains("--force"), "{refused}");
        assert_eq!(fs::read(&path).unwrap(), b"one");
        keep(&path, b"two", true).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
        let nowhere = keep(&folder.path().join("no/b"), b"", false).unwrap_err();
        assert!(nowhere.message.contains("cannot be written"), "{nowhere}");
    }

    #[test]
    fn ages_are_told_in_one_unit() {
        let told = [5_000, 300_000, 10_000_000, 200_000_000, -1].map(|ms| age(Millis(ms)));
        assert_eq!(told, ["5 s", "5 min", "2 h", "2 days", "0 s"]);
    }
}
