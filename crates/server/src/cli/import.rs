//! What `evenkeel import …` does.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::json;

use crate::client::Reach;
use crate::crontab::{self, Form, Import, Origin};
use crate::exit::{Exit, Failure};
use crate::output::{self, Output};
use crate::{bounded, host, zones};

/// Far larger than any crontab.
const CRONTAB_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// What can be taken over.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Make a job of each entry of a crontab; importing it again changes nothing
    Crontab(Crontab),
}

/// `import crontab`.
#[derive(Debug, Args)]
pub(crate) struct Crontab {
    /// The crontab, or - for standard input: crontab -l | evenkeel import crontab -
    file: PathBuf,
    /// It has no user column, as `crontab -l` prints it; found out when neither is said
    #[arg(long, conflicts_with = "system")]
    user: bool,
    /// It has a user column, as /etc/crontab and /etc/cron.d have it
    #[arg(long)]
    system: bool,
    /// The zone of entries without CRON_TZ; this host's own when absent
    #[arg(long)]
    zone: Option<String>,
    /// What the jobs' names begin with; the file's name when absent
    #[arg(long, value_name = "NAME")]
    prefix: Option<String>,
    /// Print the job file it would apply, and change nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    reach: Reach,
}

/// Does it.
///
/// # Errors
/// A line is none of cron's, or the jobs are refused.
pub(crate) fn run(verb: Verb) -> Result<(), Failure> {
    let Verb::Crontab(args) = verb;
    let text = read(&args.file)?;
    let import = crontab::read(&text, &origin(&args)?)?;
    for remark in &import.remarks {
        eprintln!("{}", output::plain(&remark.to_string()));
    }
    if !import.jobs.is_empty() {
        eprintln!(
            "note: cron starts a command in its user's home folder, a node in the folder it was started in itself"
        );
    }
    if args.dry_run {
        return dry(&import, args.reach.output);
    }
    if import.jobs.is_empty() {
        return output::list(
            args.reach.output,
            &[] as &[crate::rows::JobRow],
            "the crontab holds no entry to import",
        );
    }
    super::jobs::apply(&import.jobs, &args.reach)
}

fn read(path: &Path) -> Result<String, Failure> {
    bounded::text(path, CRONTAB_BYTES_MAX).map_err(|e| Failure::unreadable_input(path.display(), &e))
}

fn origin(args: &Crontab) -> Result<Origin, Failure> {
    let stem = args.file.file_stem().and_then(|s| s.to_str()).filter(|s| *s != "-");
    let zone = match &args.zone {
        Some(name) => zones::named(name).map(|_| name.clone())?,
        None => zones::of_host()?,
    };
    Ok(Origin {
        shown: if stem.is_some() { args.file.display().to_string() } else { "standard input".to_owned() },
        prefix: args.prefix.clone().or(stem.map(ToOwned::to_owned)).unwrap_or_else(|| "crontab".to_owned()),
        form: match (args.user, args.system) {
            (true, _) => Some(Form::User),
            (_, true) => Some(Form::System),
            _ => None,
        },
        zone: if ["UTC", "Etc/UTC"].contains(&zone.as_str()) { String::new() } else { zone },
        user: host::user(),
        users: host::users(),
    })
}

fn dry(import: &Import, output: Output) -> Result<(), Failure> {
    match output {
        Output::Json => output::json(&import.jobs),
        Output::Table => {
            let text = toml::to_string(&json!({ "job": import.jobs }));
            output::line(text.map_err(|e| Failure::new(Exit::Failed, e.to_string()))?.trim_end())
        }
    }
}
