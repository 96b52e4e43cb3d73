//! Reads job files: TOML, YAML or JSON into declarations of calendars and jobs; each mistake has its file and line.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use evenkeel_core::calendar::Calendar;
use evenkeel_core::job::{Job, JobFile};
use serde::Deserialize;

use crate::bounded;
use crate::exit::CliError;
use crate::text_input::{self, InputError, ReadTarget, TextFormat};

/// The size limit of a job file: far more than a person writes, far less than the memory of a small machine.
const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// The name of `-` in messages.
const STDIN: &str = "standard input";

/// A job file as written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct DeclarationTables {
    #[serde(default)]
    job: Vec<JobFile>,
    #[serde(default)]
    calendar: Vec<Calendar>,
}

/// The declarations of job files.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Declarations {
    /// The calendars, which are applied first, since jobs may use them.
    pub(crate) calendars: Vec<Calendar>,
    pub(crate) jobs: Vec<Job>,
}

/// The format of a job file, by its name.
fn language(path: &Path) -> Option<TextFormat> {
    match path.extension()?.to_str()? {
        "toml" => Some(TextFormat::Toml),
        "yaml" | "yml" => Some(TextFormat::Yaml),
        "json" => Some(TextFormat::Json),
        _ => None,
    }
}

/// Reads a job file, every job file of a folder in the order of their names, or standard input (`-`, TOML).
///
/// All of it is checked before anything is returned, so nothing is ever half applied.
///
/// # Errors
/// A file cannot be read, or is invalid; the text has the file, the line and the allowed values.
pub(crate) fn read(path: &Path) -> Result<Declarations, CliError> {
    let all = both(path)?;
    if all.jobs.is_empty() && all.calendars.is_empty() {
        return Err(CliError::invalid(format!("{}: holds no job: {}", shown(path), empty(path))));
    }
    Ok(all)
}

/// Reads the same, but returns only the calendars.
///
/// # Errors
/// As [`read`].
pub(crate) fn calendars(path: &Path) -> Result<Vec<Calendar>, CliError> {
    let all = both(path)?.calendars;
    if all.is_empty() {
        return Err(CliError::invalid(format!(
            "{}: holds no calendar: write [[calendar]] with its name, and days, weekdays or windows",
            shown(path)
        )));
    }
    Ok(all)
}

/// An example of a first job, for the message about an empty file.
fn empty(path: &Path) -> &'static str {
    match language(path) {
        Some(TextFormat::Yaml) => {
            "write job: and below it a list of jobs, each with its name, schedule and command"
        }
        Some(TextFormat::Json) => "write {\"job\": [{\"name\": …, \"schedule\": …, \"command\": […]}]}",
        _ => "write [[job]] and its name, schedule and command",
    }
}

fn shown(path: &Path) -> String {
    if path == Path::new("-") { STDIN.to_owned() } else { path.display().to_string() }
}

fn both(path: &Path) -> Result<Declarations, CliError> {
    let mut all = Declarations::default();
    let (mut seen, mut named) = (BTreeMap::new(), BTreeMap::new());
    for (shown, language, text) in texts(path)? {
        let DeclarationTables { job: jobs, calendar: calendars } =
            parse(language, &text).map_err(|e| CliError::invalid(format!("{shown}:{e}")))?;
        let mut lines = JobLineFinder::new(&text);
        for calendar in calendars {
            let at = format!("{shown}:{}", lines.of(calendar.name.as_str()));
            calendar.read().map_err(|e| CliError::invalid(format!("{at}: {e}")))?;
            if let Some(first) = named.insert(calendar.name.clone(), at.clone()) {
                let name = &calendar.name;
                return Err(CliError::invalid(format!(
                    "{at}: calendar {name} is already declared at {first}"
                )));
            }
            all.calendars.push(calendar);
        }
        let mut lines = JobLineFinder::new(&text);
        for file in jobs {
            let at = format!("{shown}:{}", lines.of(file.name.as_str()));
            let own = format!("job {}: ", file.name);
            let job = Job::parse(file).map_err(|e| {
                let said = e.to_string();
                let line = lines.of_key(said.strip_prefix(&own).unwrap_or(&said));
                CliError::invalid(format!("{shown}:{line}: {said}"))
            })?;
            if let Some(first) = seen.insert(job.name.clone(), at.clone()) {
                let name = &job.name;
                return Err(CliError::invalid(format!("{at}: job {name} is already declared at {first}")));
            }
            all.jobs.push(job);
        }
    }
    Ok(all)
}

/// The texts to read, each with its name for messages.
fn texts(path: &Path) -> Result<Vec<(String, TextFormat, String)>, CliError> {
    let cannot = |path: &Path, why: &dyn std::fmt::Display| CliError::unreadable(path.display(), why);
    if path == Path::new("-") {
        let text = bounded::text(path, FILE_BYTES_MAX).map_err(|e| CliError::unreadable_input(STDIN, &e))?;
        return Ok(vec![(STDIN.to_owned(), TextFormat::Toml, text_input::plain(text))]);
    }
    let meta = fs::metadata(path).map_err(|e| cannot(path, &e))?;
    let paths =
        if meta.is_dir() { folder(path).map_err(|e| cannot(path, &e))? } else { vec![path.to_path_buf()] };
    if paths.is_empty() {
        return Err(cannot(path, &"the folder holds no *.toml, *.yaml, *.yml or *.json"));
    }
    let mut texts = Vec::new();
    for path in paths {
        let Some(language) = language(&path) else {
            return Err(cannot(&path, &"a job file is named *.toml, *.yaml, *.yml or *.json"));
        };
        let text = bounded::text(&path, FILE_BYTES_MAX)
            .map_err(|e| CliError::unreadable_input(path.display(), &e))?;
        texts.push((path.display().to_string(), language, text_input::plain(text)));
    }
    Ok(texts)
}

fn folder(path: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(path)? {
        let path = entry?.path();
        if language(&path).is_some() && path.is_file() {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

fn parse(language: TextFormat, text: &str) -> Result<DeclarationTables, InputError> {
    match language {
        TextFormat::Yaml | TextFormat::Json if text.trim().is_empty() => Ok(DeclarationTables::default()),
        _ => text_input::read(language, text, ReadTarget::JobFile),
    }
}

/// Finds the line of each job's name, going down the file in the order of the jobs.
struct JobLineFinder<'a> {
    ahead: std::iter::Enumerate<std::str::Lines<'a>>,
    /// The line of the last job, counted from 1.
    last: usize,
}

impl<'a> JobLineFinder<'a> {
    fn new(text: &'a str) -> Self {
        Self { ahead: text.lines().enumerate(), last: 1 }
    }

    /// The next line that names this job; 1 if the file spells the name in another way.
    fn of(&mut self, name: &str) -> usize {
        let mut ahead = self.ahead.clone();
        self.last = 1;
        let Some((index, _)) = ahead.find(|(_, line)| names(line, name)) else { return 1 };
        self.ahead = ahead;
        self.last = index + 1;
        self.last
    }

    /// The line of the key that a message about the last job begins with, or that of its name if the key is not found.
    fn of_key(&self, message: &str) -> usize {
        let end =
            message.find(|c: char| !(c.is_ascii_lowercase() || "_.".contains(c))).unwrap_or(message.len());
        let address = message[..end].trim_matches('.');
        let below = self.ahead.clone().take_while(|(_, line)| !begins(line));
        let mut lines: Vec<_> = below.filter(|_| self.last > 1 || !address.is_empty()).collect();
        lines.retain(|(_, line)| address.split('.').any(|key| !key.is_empty() && holds(line, key)));
        // The innermost key has a line of its own, or is on the line of its table.
        let inner = address.rsplit('.').next().unwrap_or_default();
        let found = lines.iter().find(|(_, line)| holds(line, inner)).or(lines.first());
        found.map_or(self.last, |(index, _)| index + 1)
    }
}

/// Whether the next job or calendar begins on this line.
fn begins(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("[[") || line.starts_with("- name") || line.starts_with("- {")
}

/// Whether this line assigns the key, as its first or in an inline table.
fn holds(line: &str, key: &str) -> bool {
    let line = line.trim_start();
    line.match_indices(key).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let apart = before.is_none_or(|c| " {,.[\"".contains(c));
        let rest = line[at + key.len()..].trim_start_matches(['"', ']']).trim_start();
        let is_table = line.starts_with("[job.") && rest.is_empty();
        apart && (rest.starts_with(['=', ':']) || is_table)
    })
}

/// Whether this line, in either format, has this `name`.
fn names(line: &str, name: &str) -> bool {
    let line = line.trim_start().trim_start_matches("- ").trim_start();
    let value = line.strip_prefix("name").map(str::trim_start);
    let value = value.and_then(|rest| rest.strip_prefix(['=', ':'])).map(str::trim_start);
    let value = value.map(|v| v.trim_start_matches(['"', '\'']));
    value
        .and_then(|v| v.strip_prefix(name))
        .is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || "._-".contains(c)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mistake(language: TextFormat, text: &str) -> String {
        parse(language, text).expect_err("it is a mistake").to_string()
    }

    fn jobs(language: TextFormat, text: &str) -> Result<Vec<JobFile>, String> {
        parse(language, text).map(|file| file.job).map_err(|e| e.to_string())
    }

    #[test]
    fn both_languages_say_the_same() {
        let toml = "[[job]]\nname = \"a\"\nschedule = \"@every 5s\"\ncommand = [\"/bin/true\"]\ncatch_up = { all = 3 }\n";
        let yaml = "job:\n  - name: a\n    schedule: '@every 5s'\n    command: [/bin/true]\n    catch_up: {all: 3}\n";
        assert_eq!(jobs(TextFormat::Toml, toml), jobs(TextFormat::Yaml, yaml));
        assert_eq!(jobs(TextFormat::Toml, toml).map(|jobs| jobs.len()), Ok(1));
        let toml = "[[calendar]]\nname = \"c\"\ndays = [\"12-25\"]\n";
        let yaml = "calendar:\n  - {name: c, days: [12-25]}\n";
        let calendars =
            |language, text| parse(language, text).map(|file| file.calendar).map_err(|e| e.to_string());
        assert_eq!(calendars(TextFormat::Toml, toml), calendars(TextFormat::Yaml, yaml));
        assert_eq!(calendars(TextFormat::Toml, toml).map(|calendars| calendars.len()), Ok(1));
    }

    /// proves: S2-18, S2-19
    #[test]
    fn both_languages_know_every_key_of_a_sharded_job() {
        let toml = "[[job]]\nname = \"a\"\nplacement = \"sharded\"\nshards = 3\nshard_parameters = \"0=x, 2=z\"\n\
                    parameter = \"p\"\nstrategy = \"odd_even\"\norder = \"descending\"\nsticky_shards = true\n\
                    one_per_host = true\nmonitor_execution = false\nmax_clock_skew = \"2s\"\nreshard_timeout = \"3s\"\n\
                    catch_up = \"skip\"\ncommand = [\"/bin/true\"]\n";
        let yaml = "job:\n- {name: a, placement: sharded, shards: 3, shard_parameters: [x, '', z], parameter: p, strategy: odd_even,\n   \
                    order: descending, sticky_shards: true, one_per_host: true, monitor_execution: false, max_clock_skew: 2s,\n   \
                    reshard_timeout: 3s, catch_up: skip, command: [/bin/true]}\n";
        let written = jobs;
        let jobs = written(TextFormat::Toml, toml).expect("it is right");
        assert_eq!(Ok(&jobs), written(TextFormat::Yaml, yaml).as_ref());
        assert_eq!(jobs[0].shard_parameters, ["x", "", "z"]);
        let json = serde_json::to_string(&jobs).expect("plain data");
        assert_eq!(serde_json::from_str::<Vec<JobFile>>(&json).expect("it is read back"), jobs);
        Job::parse(jobs[0].clone()).expect("a valid job");
    }

    #[test]
    fn both_languages_know_every_key_of_a_command() {
        let toml = "[[job]]\nname = \"a\"\nshell = true\ncommand = \"x | y\"\ndirectory = \"/tmp\"\n\
                    environment = { A = \"1\" }\ninherit = [\"B\"]\nstdin = \"in\\n\"\n\
                    user = \"u\"\nlimits = { cpu = \"5s\", memory = \"1G\", files = 9, processes = 7 }\n";
        let yaml = "job:\n- {name: a, shell: true, command: x | y, directory: /tmp, environment: {A: '1'}, inherit: [B],\n   \
                    stdin: \"in\\n\", user: u, limits: {cpu: 5s, memory: 1G, files: 9, processes: 7}}\n";
        let written = jobs;
        let jobs = written(TextFormat::Toml, toml).expect("it is right");
        assert_eq!(Ok(&jobs), written(TextFormat::Yaml, yaml).as_ref());
        Job::parse(jobs[0].clone()).expect("a valid job");
        let json = serde_json::to_string(&jobs).expect("plain data");
        assert_eq!(serde_json::from_str::<Vec<JobFile>>(&json).expect("it is read back"), jobs);
        let text = mistake(TextFormat::Toml, "[[job]]\nname = \"a\"\ncommand = 7\n");
        assert!(
            text.starts_with("3:11: ") && text.contains("the program and its arguments as a list"),
            "{text}"
        );
    }

    #[test]
    fn what_lies_too_deep_is_refused_before_it_costs_anything() {
        for (language, text) in [
            (TextFormat::Yaml, "[".repeat(200_000)),
            (TextFormat::Yaml, "{".repeat(200_000)),
            (TextFormat::Yaml, "- ".repeat(200_000)),
            (TextFormat::Yaml, "? ".repeat(200_000)),
            (TextFormat::Yaml, format!("job:\n- name: a\n  command: {}", "[".repeat(200_000))),
            (TextFormat::Yaml, (0..2_000).map(|n| format!("{}a:\n", " ".repeat(n))).collect()),
            (TextFormat::Toml, format!("job = {}", "[".repeat(200_000))),
            (TextFormat::Toml, format!("job = {}", "{a=".repeat(200_000))),
            (TextFormat::Toml, format!("{} = 1", vec!["a"; 200_000].join("."))),
            (TextFormat::Toml, format!("[{}]", vec!["a"; 200_000].join("."))),
        ] {
            let refused = mistake(language, &text);
            assert!(refused.len() < 500, "{language:?} {}: {refused}", &text[..20]);
        }
        let refused = mistake(TextFormat::Yaml, &"[".repeat(200_000));
        assert!(refused.starts_with("1:65: ") && refused.contains("64"), "{refused}");
    }

    #[test]
    fn aliases_repeat_no_more_than_a_file_may_hold() {
        let yaml = "job:\n- {name: a, environment: &e {A: '1'}, command: [x]}\n- {name: b, environment: *e, command: [x]}\n";
        let read = jobs(TextFormat::Yaml, yaml).expect("a few are fine");
        assert_eq!(read[0].environment, read[1].environment);
        let long = format!(
            "job:\n- &a {{name: a, description: {}}}\n{}",
            "x".repeat(300_000),
            "- *a\n".repeat(9_000)
        );
        let many = format!("job:\n- &a {{name: a}}\n{}", "- *a\n".repeat(70_000));
        let laughs: String =
            (1..12).map(|n| format!("- &x{n} [{}]\n", vec![format!("*x{}", n - 1); 9].join(", "))).collect();
        for text in [long, many] {
            let refused = mistake(TextFormat::Yaml, &text);
            assert!(refused.contains("write it out, or split the file"), "{refused}");
        }
        assert!(jobs(TextFormat::Yaml, &format!("job:\n- &x0 [a]\n{laughs}")).is_err(), "nor do they nest");
    }

    #[test]
    fn a_wrong_name_is_refused_where_it_stands() {
        let text = mistake(TextFormat::Toml, "[[job]]\nname = \"a b\"\n");
        assert!(text.starts_with("2:8: job name \"a b\" is not allowed"), "{text}");
        let text = mistake(TextFormat::Yaml, "job:\n  - name: a b\n");
        assert!(text.starts_with("2:"), "{text}");
    }

    #[test]
    fn each_job_is_found_on_its_own_line() {
        let text = "[[job]]\nname = \"ab\"\n[[job]]\nname = 'a'\n\n[[job]]\nname=\"a\"\n";
        let mut lines = JobLineFinder::new(text);
        assert_eq!([lines.of("ab"), lines.of("a"), lines.of("a"), lines.of("zz")], [2, 4, 7, 1]);
    }

    #[test]
    fn a_wrong_value_is_found_on_the_line_of_its_key() {
        let text = "[[job]]\nname = \"a\"\ntimeout = \"0s\"\nretry = { max_retries = 0 }\n\n[job.notify]\non = [\"late\"]\n\n\
                    [[job]]\nname = \"b\"\n\ntimeout = \"0s\"\n";
        let mut lines = JobLineFinder::new(text);
        lines.of("a");
        let keys =
            ["timeout is 0 seconds", "retry.times is 0", "notify.on has", "shards is 0", "it does nothing"];
        assert_eq!(keys.map(|key| lines.of_key(key)), [3, 4, 7, 2, 2]);
        lines.of("b");
        assert_eq!(["timeout is 0", "retry.times is 0"].map(|key| lines.of_key(key)), [12, 10]);
        let yaml = "job:\n- name: a\n  shards: 0\n- name: b\n  shards: 0\n";
        let mut lines = JobLineFinder::new(yaml);
        lines.of("a");
        assert_eq!(lines.of_key("shards is 0"), 3);
    }
}
