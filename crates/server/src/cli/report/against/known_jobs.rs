//! Which job here is what the other scheduler names.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_client::ClientErrorKind;
use evenkeel_client::types::JobRow;
use evenkeel_core::job::Program;

use super::super::arguments::ReportArgs;
use crate::cli::all_jobs::all_jobs;
use crate::client::ApiClient;
use crate::exit::CliError;
use crate::import::helpers::name_text;
use crate::output;
use crate::rival::{RivalFire, RivalLog, RivalSubject};

/// The jobs of the cluster.
pub(super) struct KnownJobs {
    /// All of them, each with whether it is compared.
    names: BTreeMap<String, bool>,
    /// The shadows among those that are compared.
    shadows: BTreeSet<String>,
    /// The namespace of names that are written without one, with a slash; empty for the default one.
    prefix: String,
    /// The jobs of each command, with their users.
    commands: BTreeMap<String, Vec<(String, String)>>,
    /// Whether only some jobs are compared, by name or label.
    is_narrowed: bool,
}

/// A job with its runs there; or several jobs, where the records of the other scheduler do not say which of them ran.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CompareUnit {
    /// The jobs here; empty if there is none.
    pub(super) jobs: BTreeSet<String>,
    /// What ran there.
    pub(super) subjects: Vec<String>,
    /// The runs there, in order.
    pub(super) there: Vec<RivalFire>,
}

impl KnownJobs {
    /// Reads the jobs, and their commands if the records have commands.
    ///
    /// # Errors
    /// No node answers, or the request is refused.
    pub(super) fn read(client: &ApiClient, args: &ReportArgs, log: &RivalLog) -> Result<Self, CliError> {
        let (all, _) = all_jobs(client, ("", ""), &args.within)?;
        let wanted = args.job.as_deref().map(|job| args.within.one.job(job));
        let labelled: Option<BTreeSet<String>> = match args.label.as_deref() {
            None => None,
            Some(label) => {
                let (rows, _) = all_jobs(client, ("", label), &args.within)?;
                Some(rows.into_iter().map(|row| row.name).collect())
            }
        };
        let is_meant = |row: &JobRow| {
            wanted.as_ref().is_none_or(|wanted| *wanted == row.name)
                && labelled.as_ref().is_none_or(|labelled| labelled.contains(&row.name))
        };
        if let Some(wanted) = wanted.as_ref().filter(|wanted| !all.iter().any(|row| row.name == **wanted)) {
            return Err(CliError::new(crate::exit::ExitKind::NotFound, format!("there is no job {wanted}")));
        }
        let has_commands = log.fires.keys().any(|subject| matches!(subject, RivalSubject::Command { .. }));
        let written = args.within.one.job("j");
        Ok(Self {
            names: all.iter().map(|row| (row.name.clone(), is_meant(row))).collect(),
            shadows: all
                .iter()
                .filter(|row| row.shadow && is_meant(row))
                .map(|row| row.name.clone())
                .collect(),
            prefix: written.strip_suffix('j').unwrap_or_default().to_owned(),
            commands: if has_commands { commands(client, &all)? } else { BTreeMap::new() },
            is_narrowed: wanted.is_some() || labelled.is_some(),
        })
    }

    /// What is compared: the jobs of all records, and the shadows without one.
    pub(super) fn units(&self, log: &mut RivalLog) -> Vec<CompareUnit> {
        let mut units: Vec<CompareUnit> = Vec::new();
        let mut places: BTreeMap<String, usize> = BTreeMap::new();
        for (subject, fires) in std::mem::take(&mut log.fires) {
            let jobs = self.jobs_of(&subject);
            let is_meant = |job: &String| self.names.get(job).copied().unwrap_or(false);
            if !jobs.iter().any(is_meant) && (!jobs.is_empty() || self.is_narrowed) {
                continue;
            }
            let known: BTreeSet<usize> = jobs.iter().filter_map(|job| places.get(job)).copied().collect();
            let mut unit = CompareUnit { jobs, subjects: vec![subject.to_string()], there: fires };
            for at in known {
                let other = units.get_mut(at).map(std::mem::take).unwrap_or_default();
                unit.jobs.extend(other.jobs);
                unit.subjects.extend(other.subjects);
                unit.there.extend(other.there);
            }
            places.extend(unit.jobs.iter().map(|job| (job.clone(), units.len())));
            units.push(unit);
        }
        let alone = self.shadows.iter().filter(|job| !places.contains_key(*job));
        let alone: Vec<CompareUnit> =
            alone.map(|job| CompareUnit { jobs: [job.clone()].into(), ..CompareUnit::default() }).collect();
        units.extend(alone);
        // What was joined to another unit is empty.
        units.retain(|unit| !(unit.jobs.is_empty() && unit.subjects.is_empty()));
        units.iter_mut().for_each(|unit| unit.there.sort());
        units.sort_by(|one, other| (&one.jobs, &one.subjects).cmp(&(&other.jobs, &other.subjects)));
        units
    }

    /// The jobs here that a record may be about.
    fn jobs_of(&self, subject: &RivalSubject) -> BTreeSet<String> {
        let one = |name: Option<String>| name.into_iter().collect::<BTreeSet<String>>();
        match subject {
            RivalSubject::Name(name) => one(self.named(name)),
            RivalSubject::XxlJob { id, handler } => one(self.of_xxl_job(id, handler)),
            RivalSubject::Command { user, command } => {
                let jobs = self.commands.get(command).map(Vec::as_slice).unwrap_or_default();
                // A crontab of a user has no user column, and its jobs no user.
                let of_user: BTreeSet<String> =
                    jobs.iter().filter(|(_, own)| own == user).map(|(job, _)| job.clone()).collect();
                match of_user.is_empty() {
                    true => {
                        jobs.iter().filter(|(_, own)| own.is_empty()).map(|(job, _)| job.clone()).collect()
                    }
                    false => of_user,
                }
            }
        }
    }

    /// The job of this name, or of the name that an import makes of it.
    fn named(&self, name: &str) -> Option<String> {
        let made = name_text(name);
        let names = [name.to_owned(), format!("{}{name}", self.prefix), format!("{}{made}", self.prefix)];
        let default = name.strip_prefix("default/").map(ToOwned::to_owned);
        names.into_iter().chain(default).find(|name| self.names.contains_key(name))
    }

    /// The job that an import makes of this row of XXL-JOB; else the only one whose name ends with the id.
    fn of_xxl_job(&self, id: &str, handler: &str) -> Option<String> {
        let stem = if handler.is_empty() { "xxl-job" } else { handler };
        let exact = format!("{}{}", self.prefix, name_text(&format!("{stem}-{id}")));
        if self.names.contains_key(&exact) {
            return Some(exact);
        }
        let end = format!("-{id}");
        let mut alike = self.names.keys().filter(|name| name.ends_with(&end));
        match (alike.next(), alike.next()) {
            (Some(only), None) => Some(only.clone()),
            _ => None,
        }
    }
}

/// The jobs of each command of a shell.
fn commands(
    client: &ApiClient,
    rows: &[JobRow],
) -> Result<BTreeMap<String, Vec<(String, String)>>, CliError> {
    let mut found: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    let mut progress = output::Progress::new("reading jobs", rows.len());
    for (done, row) in rows.iter().enumerate() {
        progress.at(done);
        let job = match client.show_job(&row.name) {
            // It was deleted since it was listed.
            Err(failure) if failure.kind == ClientErrorKind::NotFound => continue,
            found => found?.job,
        };
        let Some(work) = job.work.command() else { continue };
        let line = match &work.program {
            Program::Line(line) => line,
            Program::Argv(argv) => match &argv[..] {
                [_, flag, line] if flag == "-c" => line,
                _ => continue,
            },
        };
        found.entry(line.trim().to_owned()).or_default().push((row.name.clone(), work.user.clone()));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use evenkeel_core::time::Wall;

    use super::*;

    fn known(names: &[&str]) -> KnownJobs {
        KnownJobs {
            names: names.iter().map(|name| ((*name).to_owned(), true)).collect(),
            shadows: BTreeSet::new(),
            prefix: String::new(),
            commands: BTreeMap::new(),
            is_narrowed: false,
        }
    }

    fn log(subjects: &[RivalSubject]) -> RivalLog {
        let fire = RivalFire { at: Wall(1), outcome: String::new(), shard: None, id: None };
        let fires = subjects.iter().map(|subject| (subject.clone(), vec![fire.clone()])).collect();
        RivalLog { fires, ..RivalLog::default() }
    }

    #[test]
    fn names_are_those_that_an_import_makes() {
        let mut jobs = known(&["cleanJob-1", "xxl-job-2", "old-12", "my-job", "a/b", "x-7", "y-7"]);
        let of = |jobs: &KnownJobs, subject: &RivalSubject| Vec::from_iter(jobs.jobs_of(subject)).join(",");
        let xxl = |id: &str, handler: &str| RivalSubject::XxlJob { id: id.into(), handler: handler.into() };
        assert_eq!(of(&jobs, &xxl("1", "cleanJob")), "cleanJob-1");
        assert_eq!(of(&jobs, &xxl("1", "")), "cleanJob-1", "the log need not have the handler");
        assert_eq!(of(&jobs, &xxl("2", "")), "xxl-job-2");
        assert_eq!(of(&jobs, &xxl("12", "renamed")), "old-12");
        assert_eq!(of(&jobs, &xxl("7", "")), "", "two may be meant");
        assert_eq!(of(&jobs, &RivalSubject::Name("my job".into())), "my-job");
        assert_eq!(of(&jobs, &RivalSubject::Name("default/my-job".into())), "my-job");
        jobs.prefix = "a/".into();
        assert_eq!(of(&jobs, &RivalSubject::Name("b".into())), "a/b");
    }

    #[test]
    fn commands_that_several_jobs_have_are_compared_together() {
        let mut jobs = known(&["one", "two", "three", "other"]);
        let user = |job: &str, user: &str| (job.to_owned(), user.to_owned());
        jobs.commands.insert("play".into(), vec![user("one", "ann"), user("two", ""), user("three", "")]);
        let command =
            |user: &str, command: &str| RivalSubject::Command { user: user.into(), command: command.into() };
        let mut said = log(&[command("ann", "play"), command("root", "play"), command("root", "unknown")]);
        let units = jobs.units(&mut said);
        let names: Vec<String> =
            units.iter().map(|unit| Vec::from_iter(unit.jobs.clone()).join(",")).collect();
        assert_eq!(names, ["", "one", "three,two"]);
        assert_eq!(units[0].subjects, ["(root) unknown"]);
    }

    #[test]
    fn only_what_is_meant_is_compared_and_a_shadow_without_a_record_is() {
        let mut jobs = known(&["one", "two"]);
        jobs.names.insert("two".into(), false);
        jobs.shadows.insert("quiet".into());
        let name = |name: &str| RivalSubject::Name(name.into());
        let names = |jobs: &KnownJobs| {
            let units = jobs.units(&mut log(&[name("one"), name("two"), name("gone")]));
            units.iter().map(|unit| Vec::from_iter(unit.jobs.clone()).join(",")).collect::<Vec<_>>()
        };
        assert_eq!(names(&jobs), ["", "one", "quiet"]);
        jobs.is_narrowed = true;
        assert_eq!(names(&jobs), ["one", "quiet"]);
    }
}
