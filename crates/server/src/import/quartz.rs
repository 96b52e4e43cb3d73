//! Quartz: each trigger of a file for its XML plug-in (`job-scheduling-data`) with its job as a job.

mod trigger;
mod xml;

use std::collections::BTreeMap;

use evenkeel_core::job::{Delivery, JobFile, Overlap, Program, Work};

use super::{ImportNotes, ImportRefusal, ImportSource, Imported, helpers};
use crate::exit::CliError;
use xml::{QuartzFile, QuartzJob, QuartzTrigger};

/// The class of Quartz that runs a command of the host.
const NATIVE: &str = "org.quartz.jobs.NativeJob";

/// Reads the jobs and triggers of a file.
///
/// # Errors
/// The text is no XML, or holds no job.
pub(crate) fn read(text: &str, source: &ImportSource) -> Result<Imported, CliError> {
    let wrong = |why: &dyn std::fmt::Display| CliError::invalid(format!("{}: {why}", source.shown));
    let QuartzFile { jobs, triggers, others } =
        xml::read(text).map_err(|e| wrong(&format!("it is no XML with job-scheduling-data: {e}")))?;
    if jobs.is_empty() && triggers.is_empty() {
        return Err(wrong(&"it holds no job of Quartz: give a file with job-scheduling-data"));
    }
    let mut imported = Imported::default();
    for other in others {
        imported.left_out(&other, "it is about the database of Quartz, which is not changed");
    }
    for job in &jobs {
        let own: Vec<&QuartzTrigger> = triggers.iter().filter(|trigger| trigger.job == job.key).collect();
        if own.is_empty() {
            imported.object(&format!("job {}", job.key), |notes| untriggered(job, source, notes));
        }
        for trigger in &own {
            let name = if own.len() == 1 {
                job.key.to_string()
            } else {
                format!("{}-{}", job.key, trigger.key.name)
            };
            imported.object(&format!("trigger {}", trigger.key), |notes| {
                let mut file = work(job, &name, source, notes)?;
                trigger::take(&mut file, trigger, source, notes)?;
                Ok(file)
            });
        }
    }
    for trigger in triggers.iter().filter(|trigger| !jobs.iter().any(|job| job.key == trigger.job)) {
        let said = format!("its job {} is not in the file", trigger.job);
        imported.refused(&format!("trigger {}", trigger.key), said);
    }
    Ok(imported)
}

/// A job without a trigger: it stays for manual runs, if Quartz keeps it.
fn untriggered(
    job: &QuartzJob,
    source: &ImportSource,
    notes: &mut ImportNotes,
) -> Result<JobFile, ImportRefusal> {
    if !job.is_durable {
        return Err(ImportRefusal::new(
            "trigger",
            "it has no trigger, and Quartz keeps only a durable job without one",
        ));
    }
    notes.taken("durability", "no schedule: only manual runs");
    work(job, &job.key.to_string(), source, notes)
}

/// What a job does.
fn work(
    job: &QuartzJob,
    name: &str,
    source: &ImportSource,
    notes: &mut ImportNotes,
) -> Result<JobFile, ImportRefusal> {
    let name = helpers::name("name", name, notes)?;
    let mut file = JobFile::new(name, "", Work::Command(Vec::new()));
    file.description = match job.description.as_str() {
        "" => source.description(),
        said => format!("{said}, {}", source.description()),
    };
    let data = |key: &str| job.data.get(key).map_or("", String::as_str);
    if job.class == NATIVE && !data("command").is_empty() {
        file.shell = true;
        file.command = Program::Line([data("command"), data("parameters")].join(" ").trim().to_owned());
        notes.taken("job-data-map.command", "command with shell = true");
    } else {
        let key = job.key.to_string();
        let mut values = BTreeMap::from([
            ("job", job.key.name.as_str()),
            ("group", job.key.group.as_str()),
            ("key", key.as_str()),
            ("class", job.class.as_str()),
        ]);
        // The keys of Quartz itself count first.
        for (key, value) in &job.data {
            values.entry(key.as_str()).or_insert(value.as_str());
        }
        file.command = Program::Argv(helpers::templated(source, "job-class", &values, notes)?);
        for (key, value) in &job.data {
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
            match key.chars().all(is_name)
                && !key.starts_with(|c: char| c.is_ascii_digit())
                && !key.is_empty()
            {
                true => {
                    file.environment.insert(key.clone(), value.clone());
                    notes.changed(&format!("job-data-map.{key}"), "environment: a variable of the command");
                }
                false => notes.lost(&format!("job-data-map.{key}"), "no variable can have this name"),
            }
        }
    }
    // Two runs of a job go beside each other, unless its class forbids it.
    file.overlap = Overlap::Allow;
    notes.changed(
        "overlap",
        "overlap = \"allow\": whether the class has @DisallowConcurrentExecution is not in the file; then write \"forbid\"",
    );
    if job.recovers {
        file.delivery = Delivery::AtLeastOnce;
        notes.taken("recover", "delivery = \"at_least_once\"");
    }
    if job.is_listened {
        notes.lost("job-listener-ref", "no listener is called");
    }
    Ok(file)
}

#[cfg(test)]
mod tests;
