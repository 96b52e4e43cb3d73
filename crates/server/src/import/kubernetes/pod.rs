//! What a pod runs, as a command.

use std::collections::BTreeMap;

use evenkeel_core::ids::JobName;
use evenkeel_core::job::{JobFile, Work};

use super::super::foreign_keys::ForeignKeys;
use super::super::{ImportNotes, ImportRefusal, helpers};

/// What it means that a key is left out.
const REMARKS: [(&str, &str); 16] = [
    ("resources", "limits = { together = … } limits a command"),
    ("volumes", "the command sees the files of its node"),
    ("volumeMounts", "the command sees the files of its node"),
    ("envFrom", "add what the command needs to environment or secrets"),
    ("nodeSelector", "give nodes labels, and the job node_selector"),
    ("affinity", "give nodes labels, and the job node_selector"),
    ("tolerations", "give nodes labels, and the job node_selector"),
    ("topologySpreadConstraints", "nodes with free slots get runs"),
    ("securityContext", "user = … says as whom a command runs"),
    ("serviceAccountName", "a command has no account of Kubernetes"),
    ("serviceAccount", "a command has no account of Kubernetes"),
    ("imagePullSecrets", "no image is pulled"),
    ("imagePullPolicy", "no image is pulled"),
    ("terminationGracePeriodSeconds", "a run gets TERM, and KILL 2 seconds later"),
    ("priorityClassName", "priority = 0 … 9 orders waiting runs"),
    ("lifecycle", "its hooks are not called"),
];
/// Keys whose absence changes nothing for a command on a node.
const OF_CONTAINERS: [&str; 7] = [
    "name",
    "terminationMessagePath",
    "terminationMessagePolicy",
    "dnsPolicy",
    "schedulerName",
    "enableServiceLinks",
    "hostNetwork",
];

/// The job of a pod's one container.
pub(super) fn job(
    name: JobName,
    mut pod: ForeignKeys,
    notes: &mut ImportNotes,
) -> Result<JobFile, ImportRefusal> {
    let field = pod.path("containers");
    if !pod.list("initContainers")?.is_empty() {
        return Err(ImportRefusal::new(
            &pod.path("initContainers"),
            "a job has one command: call what they do in it, or write a job for it",
        ));
    }
    let mut containers = pod.list("containers")?.into_iter();
    let (Some(container), None) = (containers.next(), containers.next()) else {
        return Err(ImportRefusal::new(&field, "a job has one command: write a CronJob for each container"));
    };
    let mut container = ForeignKeys::of(&field, container)?;
    let (command, args) = (container.texts("command")?, container.texts("args")?);
    if command.is_empty() {
        return Err(ImportRefusal::new(
            &container.path("command"),
            "its container names no command, so its image says what runs: write command: [PROGRAM, …]",
        ));
    }
    let mut job = JobFile::new(name, "", Work::Command(Vec::new()));
    environment(&mut job, &mut container, notes)?;
    let written = [command, args].concat();
    let argv: Vec<String> = written.iter().map(|word| expanded(word, &job.environment)).collect();
    match argv == written {
        true => notes.taken(&container.path("command"), "command, with args"),
        false => notes.changed(
            &container.path("command"),
            "command: $(NAME) was replaced by the value in env, as Kubernetes does at each start",
        ),
    }
    if let Some(name) =
        written.iter().flat_map(|word| references(word)).find(|name| job.secrets.contains_key(*name))
    {
        return Err(ImportRefusal::new(
            &container.path("command"),
            format!(
                "$({name}) stands for a secret, which no argument may be: read the variable {name} in the command"
            ),
        ));
    }
    job.command = evenkeel_core::job::Program::Argv(argv);
    if let Some(image) = container.text("image")? {
        notes.lost(
            &container.path("image"),
            format!("{image}: the command runs on the node itself, where its program must be"),
        );
    }
    if let Some(directory) = container.text("workingDir")?.filter(|directory| !directory.is_empty()) {
        notes.taken(&container.path("workingDir"), format!("directory = {directory:?}"));
        job.directory = directory;
    }
    if let Some(policy) = pod.text("restartPolicy")? {
        notes.taken(&pod.path("restartPolicy"), format!("{policy}: each attempt is a new process"));
    }
    if let Some(deadline) = pod.count("activeDeadlineSeconds")? {
        notes.taken(&pod.path("activeDeadlineSeconds"), format!("timeout = \"{}\"", helpers::span(deadline)));
        job.timeout = Some(deadline);
    }
    container.ignore(&OF_CONTAINERS);
    pod.ignore(&OF_CONTAINERS);
    container.lost(notes, &REMARKS);
    pod.lost(notes, &REMARKS);
    Ok(job)
}

/// The variables of the container: texts, and secrets of which only the name is taken.
fn environment(
    job: &mut JobFile,
    container: &mut ForeignKeys,
    notes: &mut ImportNotes,
) -> Result<(), ImportRefusal> {
    let field = container.path("env");
    for variable in container.list("env")? {
        let mut variable = ForeignKeys::of(&field, variable)?;
        let name = variable.needed("name")?;
        let field = format!("{field}.{name}");
        let mut from = variable.table("valueFrom")?;
        let mut secret = from.table("secretKeyRef")?;
        if let (Some(of), Some(key)) = (secret.text("name")?, secret.text("key")?) {
            let secret = format!("{of}.{key}");
            notes.changed(
                &field,
                format!("secrets: the secret {secret:?}, which has to be set: evenkeel secret set {secret}"),
            );
            job.secrets.insert(name, secret);
        } else if let Some(kind) = from.names().first() {
            notes.lost(&field, format!("{kind} has no equivalent: add the value to environment"));
        } else {
            let value = expanded(&variable.text("value")?.unwrap_or_default(), &job.environment);
            job.environment.insert(name, value);
        }
    }
    if !job.environment.is_empty() {
        notes.taken(&field, "environment");
    }
    Ok(())
}

/// A text with each `$(NAME)` replaced that names one of these variables; `$$` is a plain `$`.
fn expanded(text: &str, variables: &BTreeMap<String, String>) -> String {
    let mut made = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        made += before;
        if let Some(after) = after.strip_prefix('$') {
            made.push('$');
            rest = after;
            continue;
        }
        let reference = after.strip_prefix('(').and_then(|inner| inner.split_once(')'));
        match reference.and_then(|(name, after)| Some((variables.get(name)?, after))) {
            Some((value, after)) => {
                made += value;
                rest = after;
            }
            None => {
                made.push('$');
                rest = after;
            }
        }
    }
    made + rest
}

/// The names in `$(NAME)`.
fn references(text: &str) -> impl Iterator<Item = &str> {
    let plain = text.split("$$");
    plain.flat_map(|part| {
        part.split("$(").skip(1).filter_map(|rest| rest.split_once(')').map(|(name, _)| name))
    })
}
