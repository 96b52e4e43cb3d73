//! Imports Kubernetes manifests: each CronJob as a job, with a remark for everything that cannot be imported.

use evenkeel_core::job::{CatchUp, Job, JobFile, Overlap, Retry, Work};
use serde::Deserialize;
use serde_yaml_ng::Value;

use crate::exit::CliError;
use crate::text_input;

/// Kubernetes' default number of retries of a failed pod.
const BACKOFF_LIMIT: u32 = 6;
/// The maximum number of retries of a job.
const TIMES_MAX: u32 = 100;

/// The jobs of manifests.
#[derive(Debug, Default)]
pub(crate) struct KubernetesImport {
    pub(crate) jobs: Vec<Job>,
    /// Remarks on what could not be imported unchanged.
    pub(crate) remarks: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CronJob {
    metadata: ObjectMeta,
    spec: CronJobSpec,
}

#[derive(Deserialize)]
struct ObjectMeta {
    name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CronJobSpec {
    schedule: String,
    time_zone: Option<String>,
    #[serde(default)]
    concurrency_policy: ConcurrencyPolicy,
    starting_deadline_seconds: Option<u64>,
    #[serde(default)]
    suspend: bool,
    job_template: SpecTemplate<BatchJobSpec>,
}

#[derive(Clone, Copy, Default, Deserialize)]
enum ConcurrencyPolicy {
    #[default]
    Allow,
    Forbid,
    Replace,
}

#[derive(Deserialize)]
struct SpecTemplate<T> {
    spec: T,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BatchJobSpec {
    backoff_limit: Option<u32>,
    active_deadline_seconds: Option<u64>,
    template: SpecTemplate<PodSpec>,
}

#[derive(Deserialize)]
struct PodSpec {
    containers: Vec<Container>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Container {
    image: Option<String>,
    #[serde(default)]
    command: Vec<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: Vec<EnvVar>,
    working_dir: Option<String>,
}

#[derive(Deserialize)]
struct EnvVar {
    name: String,
    value: Option<String>,
}

/// Parses manifests one by one; objects other than CronJobs are left out with a remark.
///
/// # Errors
/// A CronJob is invalid, or there is none; the text names it and the fix.
pub(crate) fn read(text: &str, shown: &str) -> Result<KubernetesImport, CliError> {
    let wrong = |why: &dyn std::fmt::Display| CliError::invalid(format!("{shown}: {why}"));
    text_input::within_limits(text).map_err(|mistake| wrong(&mistake))?;
    let mut import = KubernetesImport::default();
    for document in serde_yaml_ng::Deserializer::from_str(text) {
        let document = Value::deserialize(document).map_err(|e| wrong(&e))?;
        let items = match (kind(&document), document.get("items")) {
            ("List" | "CronJobList", Some(Value::Sequence(items))) => items.clone(),
            _ => vec![document],
        };
        for item in items {
            match kind(&item) {
                "CronJob" => {
                    let name = item.get("metadata").and_then(|meta| meta.get("name")).and_then(Value::as_str);
                    let name = name.unwrap_or("without a name").to_owned();
                    let wrong = |why: &dyn std::fmt::Display| wrong(&format!("CronJob {name}: {why}"));
                    let cron: CronJob = serde_yaml_ng::from_value(item)
                        .map_err(|e| wrong(&text_input::query(&e.to_string())))?;
                    import.jobs.push(job(cron, shown, &mut import.remarks).map_err(|e| wrong(&e))?);
                }
                "" => {}
                other => import.remarks.push(format!("a {other} is left out: only a CronJob becomes a job")),
            }
        }
    }
    match import.jobs.is_empty() {
        true => Err(wrong(
            &"it holds no CronJob: write one manifest or several, as `kubectl get cronjob -o yaml` prints them",
        )),
        false => Ok(import),
    }
}

fn kind(manifest: &Value) -> &str {
    manifest.get("kind").and_then(Value::as_str).unwrap_or_default()
}

fn job(cron: CronJob, shown: &str, remarks: &mut Vec<String>) -> Result<Job, String> {
    let name = cron.metadata.name.parse().map_err(|e| format!("{e}"))?;
    let mut remark = |text: String| remarks.push(format!("CronJob {}: {text}", cron.metadata.name));
    let BatchJobSpec { backoff_limit, active_deadline_seconds, template } = cron.spec.job_template.spec;
    let mut containers = template.spec.containers.into_iter();
    let (Some(container), None) = (containers.next(), containers.next()) else {
        return Err("a job has one command: write a CronJob for each container".to_owned());
    };
    if container.command.is_empty() {
        return Err(
            "its container names no command, so its image says what runs: write command: [PROGRAM, …]"
                .to_owned(),
        );
    }
    let argv = [container.command, container.args].concat();
    let mut job = JobFile::new(name, &cron.spec.schedule, Work::Command(argv));
    if let Some(image) = container.image {
        remark(format!(
            "the image {image} is left out: the command runs on the node itself, where its program must be"
        ));
    }
    for EnvVar { name, value } in container.env {
        match value {
            Some(value) => drop(job.environment.insert(name, value)),
            None => remark(format!(
                "the variable {name} is left out, for its value stands elsewhere: add it to environment"
            )),
        }
    }
    job.directory = container.working_dir.unwrap_or_default();
    job.timezone = cron.spec.time_zone.unwrap_or_default();
    job.enabled = !cron.spec.suspend;
    job.overlap = match cron.spec.concurrency_policy {
        ConcurrencyPolicy::Allow => Overlap::Allow,
        ConcurrencyPolicy::Forbid => Overlap::Forbid,
        ConcurrencyPolicy::Replace => Overlap::Replace,
    };
    job.misfire_grace = cron.spec.starting_deadline_seconds;
    if job.misfire_grace.is_some() {
        // A run does not start later than its deadline.
        job.catch_up = CatchUp::Skip;
    }
    job.run_timeout = active_deadline_seconds;
    let times = backoff_limit.unwrap_or(BACKOFF_LIMIT).min(TIMES_MAX);
    job.retry = (times > 0).then(|| Retry {
        max_retries: times,
        delay: String::new(),
        max_delay: "6m".to_owned(),
        exit_codes: Vec::new(),
    });
    job.description = format!("imported from {shown}");
    Job::parse(job).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NIGHTLY: &str = "apiVersion: batch/v1\nkind: CronJob\nmetadata:\n  name: nightly\nspec:\n  schedule: \"0 3 * * 7\"\n  \
        timeZone: Europe/Berlin\n  concurrencyPolicy: Forbid\n  startingDeadlineSeconds: 200\n  jobTemplate:\n    spec:\n      \
        template:\n        spec:\n          containers:\n          - name: c\n            image: busybox\n            \
        command: [/bin/sh, -c, date]\n            env: [{name: A, value: '1'}, {name: B, valueFrom: {}}]\n          \
        restartPolicy: OnFailure\n";

    #[test]
    fn a_cron_job_becomes_a_job_and_what_is_lost_is_said() {
        let import = read(NIGHTLY, "k.yaml").expect("it is one");
        let job = import.jobs[0].to_file();
        assert_eq!(
            (job.name.name().as_str(), job.schedule.as_str(), job.timezone.as_str()),
            ("nightly", "0 3 * * 7", "Europe/Berlin")
        );
        assert_eq!(job.command.argv(), ["/bin/sh", "-c", "date"]);
        assert_eq!(
            (job.overlap, job.misfire_grace, job.catch_up),
            (Overlap::Forbid, Some(200), CatchUp::Skip)
        );
        assert_eq!(job.environment["A"], "1");
        assert_eq!(job.retry.as_ref().map(|retry| retry.max_retries), Some(6));
        assert!(import.remarks[0].contains("the image busybox is left out"), "{:?}", import.remarks);
        assert!(import.remarks[1].contains("the variable B is left out"), "{:?}", import.remarks);
    }

    #[test]
    fn several_manifests_are_read_and_what_makes_no_sense_is_refused_with_its_name() {
        let two = format!(
            "{NIGHTLY}---\nkind: Service\nmetadata: {{name: s}}\n---\n{}",
            NIGHTLY.replace("nightly", "weekly")
        );
        let import = read(&two, "k.yaml").expect("they are");
        assert_eq!(
            import.jobs.iter().map(|job| job.name.as_str()).collect::<Vec<_>>(),
            ["nightly", "weekly"]
        );
        assert!(import.remarks.iter().any(|remark| remark.starts_with("a Service is left out")));
        for (text, says) in [
            (
                NIGHTLY.replace("0 3 * * 7", "61 3 * * *"),
                "k.yaml: CronJob nightly: job nightly: minute field `61`",
            ),
            (NIGHTLY.replace("command: [/bin/sh, -c, date]", "args: [date]"), "names no command"),
            (
                NIGHTLY.replace("  schedule: \"0 3 * * 7\"\n", ""),
                "CronJob nightly: the key \"schedule\" is missing",
            ),
            ("kind: Service\n".to_owned(), "it holds no CronJob"),
            (String::new(), "it holds no CronJob"),
        ] {
            let refused = read(&text, "k.yaml").expect_err(&text);
            assert!(refused.message.contains(says), "{refused}");
        }
    }
}
