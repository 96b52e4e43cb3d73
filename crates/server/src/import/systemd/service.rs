//! The service of a timer, as a command.

use evenkeel_core::ids::JobName;
use evenkeel_core::job::{JobFile, Program, Work};

use super::super::{ImportNotes, ImportRefusal, helpers, script};
use super::exec::{self, ExecCommand};
use super::unit::{self, Unit};

/// systemd's default for `StartLimitBurst`.
const BURST: u64 = 5;

/// What it means that a key of a service is left out.
const REMARKS: [(&str, &str); 14] = [
    ("ExecStop", "a run is ended by TERM, and by KILL 2 seconds later"),
    ("ExecStopPost", "nothing is called after a run: let the command clean up"),
    ("ExecReload", "a run is not reloaded"),
    ("SuccessExitStatus", "only the exit code 0 is a success"),
    ("RestartPreventExitStatus", "retry.exit_codes names the codes after which a run is attempted again"),
    ("RemainAfterExit", "a run ends with its command, so the next fire starts it again"),
    ("Group", "a command has the groups of its user"),
    ("SupplementaryGroups", "a command has the groups of its user"),
    ("DynamicUser", "user = … names a user that exists"),
    ("StandardOutput", "the output of each run is kept: evenkeel run logs"),
    ("StandardError", "the output of each run is kept: evenkeel run logs"),
    ("SyslogIdentifier", "the output of each run is kept: evenkeel run logs"),
    ("LoadCredential", "secret_files gives a command secrets as files"),
    ("UMask", "the node decides: --command-umask"),
];

/// The job that does what the service does, without its times.
pub(super) fn job(
    name: JobName,
    unit_name: &str,
    mut unit: Unit,
    notes: &mut ImportNotes,
) -> Result<JobFile, ImportRefusal> {
    let kind = unit.last("Service", "Type").unwrap_or_else(|| "simple".to_owned());
    match kind.as_str() {
        "oneshot" | "simple" | "exec" | "idle" => {
            notes.taken("Type", format!("{kind}: a run lasts until its command ends"))
        }
        "notify" | "notify-reload" => {
            notes.changed("Type", format!("{kind}: the command is not asked whether it is ready"))
        }
        other => {
            let said = format!("{other}: a process that goes on in the background is ended with its run");
            return Err(ImportRefusal::new("Type", said));
        }
    }
    let mut job = JobFile::new(name, "", Work::Command(Vec::new()));
    surroundings(&mut job, unit_name, &mut unit, notes)?;
    let files = environment_files(unit_name, &mut unit, notes)?;
    command(&mut job, &kind, files, unit_name, &mut unit, notes)?;
    limits(&mut job, &kind, &mut unit, notes)?;
    restarts(&mut job, &mut unit, notes)?;
    unit.lost("Service", notes, &REMARKS);
    unit.lost_units(notes);
    Ok(job)
}

/// User, folder and variables.
fn surroundings(
    job: &mut JobFile,
    unit_name: &str,
    unit: &mut Unit,
    notes: &mut ImportNotes,
) -> Result<(), ImportRefusal> {
    if let Some(user) = unit.last("Service", "User") {
        job.user = exec::specified(&user, unit_name).map_err(|why| ImportRefusal::new("User", why))?;
        notes.changed("User", format!("user = {user:?}, which takes nodes that run as root and allow it"));
    } else {
        notes.changed("User", "the job runs as the node's user, a service without User= as root");
    }
    if let Some(folder) = unit.last("Service", "WorkingDirectory") {
        let plain = folder.strip_prefix('-').unwrap_or(&folder);
        let folder =
            exec::specified(plain, unit_name).map_err(|why| ImportRefusal::new("WorkingDirectory", why))?;
        match folder.as_str() {
            "~" => notes.lost("WorkingDirectory", "~: write the folder of the user as directory"),
            _ => {
                notes.taken("WorkingDirectory", format!("directory = {folder:?}"));
                job.directory = folder;
            }
        }
    } else {
        notes.changed("WorkingDirectory", "the folder of the node, not / as of a service");
    }
    for line in unit.all("Service", "Environment") {
        let pairs =
            exec::assignments(&line, unit_name).map_err(|why| ImportRefusal::new("Environment", why))?;
        job.environment.extend(pairs);
    }
    if !job.environment.is_empty() {
        notes.taken("Environment", "environment");
    }
    for line in unit.all("Service", "PassEnvironment") {
        job.inherit.extend(line.split_whitespace().map(ToOwned::to_owned));
        notes.taken("PassEnvironment", "inherit");
    }
    Ok(())
}

/// The lines of a shell that read the files of variables.
fn environment_files(
    unit_name: &str,
    unit: &mut Unit,
    notes: &mut ImportNotes,
) -> Result<Vec<String>, ImportRefusal> {
    let mut lines = Vec::new();
    for file in unit.all("Service", "EnvironmentFile") {
        let file =
            exec::specified(&file, unit_name).map_err(|why| ImportRefusal::new("EnvironmentFile", why))?;
        let is_optional = file.starts_with('-');
        let quoted = script::quote(file.trim_start_matches('-'));
        let test = if is_optional { format!("[ ! -r {quoted} ] || ") } else { String::new() };
        lines.push(format!("set -a; {test}. {quoted}; set +a"));
        notes.changed(
            "EnvironmentFile",
            format!("{file}: read by the shell, whose quotes differ, on the node that runs the job"),
        );
    }
    Ok(lines)
}

/// All commands as one: a plain list where it is one command, or lines of a shell.
fn command(
    job: &mut JobFile,
    kind: &str,
    files: Vec<String>,
    unit_name: &str,
    unit: &mut Unit,
    notes: &mut ImportNotes,
) -> Result<(), ImportRefusal> {
    let mut all = |key: &str| -> Result<Vec<ExecCommand>, ImportRefusal> {
        let mut commands = Vec::new();
        for line in unit.all("Service", key) {
            commands.extend(exec::commands(&line, unit_name).map_err(|why| ImportRefusal::new(key, why))?);
        }
        Ok(commands)
    };
    let (conditions, before) = (all("ExecCondition")?, all("ExecStartPre")?);
    let (main, after) = (all("ExecStart")?, all("ExecStartPost")?);
    if main.is_empty() {
        return Err(ImportRefusal::new("ExecStart", "the service has no command"));
    }
    if !after.is_empty() && kind != "oneshot" {
        return Err(ImportRefusal::new(
            "ExecStartPost",
            format!("of a service of Type={kind} it runs beside the command: call both in one script"),
        ));
    }
    let every: Vec<&ExecCommand> = conditions.iter().chain(&before).chain(&main).chain(&after).collect();
    if every.iter().any(|command| command.is_privileged) {
        notes.changed("ExecStart", "the prefixes + and ! give no more rights than the job's user has");
    }
    if every.iter().any(|command| command.had_name) {
        notes.changed("ExecStart", "the prefix @ is left out: the command is called by its program's name");
    }
    if let ([one], true) = (&every[..], files.is_empty() && conditions.is_empty())
        && !one.ignores_failure
        && !one.needs_shell()
    {
        job.command = Program::Argv(one.words.clone());
        notes.taken("ExecStart", "command");
        return Ok(());
    }
    let checks = conditions.iter().map(|command| format!("{} || exit 0", command.line()));
    if !conditions.is_empty() {
        notes.changed(
            "ExecCondition",
            "a run whose condition is not met ends at once, and counts as a success",
        );
    }
    let commands = before.iter().chain(&main).chain(&after).map(ExecCommand::line);
    let commands = commands.collect::<Vec<_>>().join(" &&\n");
    let no_patterns = every.iter().any(|command| command.splits()).then(|| "set -f".to_owned());
    let lines: Vec<String> = no_patterns.into_iter().chain(files).chain(checks).chain([commands]).collect();
    job.shell = true;
    job.command = Program::Line(lines.join("\n"));
    let count = every.len();
    notes.changed(
        "ExecStart",
        format!("command with shell = true: {count} in their order, up to the first that fails"),
    );
    Ok(())
}

/// How long it may take, and how much of the host it may use.
fn limits(
    job: &mut JobFile,
    kind: &str,
    unit: &mut Unit,
    notes: &mut ImportNotes,
) -> Result<(), ImportRefusal> {
    let mut span = |key: &str| -> Result<Option<u64>, ImportRefusal> {
        let text = unit.last("Service", key).filter(|text| text != "infinity");
        text.map(|text| unit::span(key, &text)).transpose()
    };
    let (start, both, most) = (span("TimeoutStartSec")?, span("TimeoutSec")?, span("RuntimeMaxSec")?);
    let is_oneshot = kind == "oneshot";
    let (key, limit) = match is_oneshot {
        // Of a oneshot service the start lasts as long as the command.
        true if start.is_some() => ("TimeoutStartSec", start),
        true => ("TimeoutSec", both),
        false => ("RuntimeMaxSec", most),
    };
    if let Some(limit) = limit.filter(|limit| *limit > 0) {
        job.timeout = Some(limit);
        notes.taken(key, format!("timeout = \"{}\"", helpers::span(limit)));
    }
    if !is_oneshot && (start.is_some() || both.is_some()) {
        notes.lost("TimeoutStartSec", "it limits the start alone; timeout limits a run");
    }
    if is_oneshot && most.is_some() {
        notes.lost("RuntimeMaxSec", "systemd does not apply it to a oneshot service either");
    }
    if let Some(files) = unit.last("Service", "LimitNOFILE") {
        let soft = files.split(':').next().and_then(|soft| soft.parse().ok());
        match soft {
            Some(number) => {
                job.limits.files = Some(number);
                notes.taken("LimitNOFILE", format!("limits = {{ files = {number} }}"));
            }
            None => notes.lost("LimitNOFILE", format!("{files} is no number")),
        }
    }
    let of_group: Vec<&str> = ["MemoryMax", "CPUQuota", "TasksMax"]
        .into_iter()
        .filter(|key| unit.last("Service", key).is_some())
        .collect();
    if !of_group.is_empty() {
        notes.lost(
            &of_group.join(", "),
            "limits = { together = { memory = …, cores = …, processes = … } } does it, on nodes that may create cgroups",
        );
    }
    Ok(())
}

fn restarts(job: &mut JobFile, unit: &mut Unit, notes: &mut ImportNotes) -> Result<(), ImportRefusal> {
    let delay = unit.last("Service", "RestartSec");
    let burst = unit.last("Unit", "StartLimitBurst").or_else(|| unit.last("Service", "StartLimitBurst"));
    let policy = unit.last("Service", "Restart").unwrap_or_else(|| "no".to_owned());
    match policy.as_str() {
        "no" => {}
        "on-failure" => {
            let burst = burst.and_then(|burst| burst.parse().ok()).unwrap_or(BURST);
            let delay = delay.map(|text| unit::span("RestartSec", &text)).transpose()?.unwrap_or_default();
            // A delay doubles here, up to the longest one; the shortest is a second.
            let delay = helpers::span(delay.max(1));
            job.retry = helpers::retry(burst.saturating_sub(1), &delay, &delay);
            notes.changed(
                "Restart",
                format!("retry: {} more attempts, {delay} apart; systemd goes on if they are further apart than StartLimitIntervalSec allows",
                    burst.saturating_sub(1)),
            );
        }
        "always" | "on-success" => {
            let said = format!(
                "{policy}: a service that is started again when it ends is no job; leave it to systemd"
            );
            return Err(ImportRefusal::new("Restart", said));
        }
        other => notes.lost(
            "Restart",
            format!("{other}: retry attempts a run again after any failure, or after exit codes"),
        ),
    }
    Ok(())
}
