//! Job files: TOML or YAML in, declarations of calendars and jobs out, and every mistake with its file and line.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use evenkeel_core::calendar::Calendar;
use evenkeel_core::job::Job;
use serde::Deserialize;

use crate::bounded;
use crate::exit::Failure;

/// Far more than a person writes, far less than the memory of a small machine.
const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// How deep lists and tables may lie in each other: a job needs 5.
const DEPTH_MAX: usize = 64;
/// How many values and keys a YAML file may hold, with those that its aliases repeat.
const YAML_EVENTS_MAX: usize = 20_000_000;
/// How many anchors, and how many aliases, a YAML file may have.
const ALIASES_MAX: usize = 10_000;
/// How many values and keys the aliases of a YAML file may repeat altogether.
const REPEATED_EVENTS_MAX: usize = 200_000;

/// What `-` is called in messages.
const STDIN: &str = "standard input";

/// A job file as written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    job: Vec<Job>,
    #[serde(default)]
    calendar: Vec<Calendar>,
}

/// What job files declare.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Declared {
    /// To be applied first, since jobs may name them.
    pub(crate) calendars: Vec<Calendar>,
    pub(crate) jobs: Vec<Job>,
}

/// The two languages of a job file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Language {
    Toml,
    Yaml,
}

impl Language {
    fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "toml" => Some(Self::Toml),
            "yaml" | "yml" => Some(Self::Yaml),
            _ => None,
        }
    }
}

/// Reads a job file, every job file of a folder in the order of their names, or standard input (`-`, TOML).
///
/// All of it is checked before anything is returned, so nothing is ever half applied.
///
/// # Errors
/// Something cannot be read, or makes no sense; the text says the file, the line and what is allowed.
pub(crate) fn read(path: &Path) -> Result<Declared, Failure> {
    let all = both(path)?;
    if all.jobs.is_empty() && all.calendars.is_empty() {
        return Err(Failure::invalid(format!(
            "{}: holds no job: write [[job]] and its name, schedule and command",
            shown(path)
        )));
    }
    Ok(all)
}

/// Reads the same, but hands out calendars alone.
///
/// # Errors
/// As [`read`].
pub(crate) fn calendars(path: &Path) -> Result<Vec<Calendar>, Failure> {
    let all = both(path)?.calendars;
    if all.is_empty() {
        return Err(Failure::invalid(format!(
            "{}: holds no calendar: write [[calendar]] with its name, and days, weekdays or windows",
            shown(path)
        )));
    }
    Ok(all)
}

fn shown(path: &Path) -> String {
    if path == Path::new("-") { STDIN.to_owned() } else { path.display().to_string() }
}

fn both(path: &Path) -> Result<Declared, Failure> {
    let mut all = Declared::default();
    let (mut seen, mut named) = (BTreeMap::new(), BTreeMap::new());
    for (shown, language, text) in texts(path)? {
        let File { job: jobs, calendar: calendars } =
            parse(language, &text).map_err(|e| Failure::invalid(format!("{shown}:{e}")))?;
        let mut lines = NameLines::new(&text);
        for calendar in calendars {
            let at = format!("{shown}:{}", lines.of(calendar.name.as_str()));
            calendar.read().map_err(|e| Failure::invalid(format!("{at}: {e}")))?;
            if let Some(first) = named.insert(calendar.name.clone(), at.clone()) {
                let name = &calendar.name;
                return Err(Failure::invalid(format!(
                    "{at}: calendar {name} is already declared at {first}"
                )));
            }
            all.calendars.push(calendar);
        }
        let mut lines = NameLines::new(&text);
        for job in jobs {
            let at = format!("{shown}:{}", lines.of(job.name.as_str()));
            job.validate().map_err(|e| Failure::invalid(format!("{at}: {e}")))?;
            if let Some(first) = seen.insert(job.name.clone(), at.clone()) {
                let name = &job.name;
                return Err(Failure::invalid(format!("{at}: job {name} is already declared at {first}")));
            }
            all.jobs.push(job);
        }
    }
    Ok(all)
}

/// The texts to read, each with the name shown for it.
fn texts(path: &Path) -> Result<Vec<(String, Language, String)>, Failure> {
    let cannot = |path: &Path, why: &dyn std::fmt::Display| Failure::unreadable(path.display(), why);
    if path == Path::new("-") {
        let text = bounded::text(path, FILE_BYTES_MAX).map_err(|e| Failure::unreadable_input(STDIN, &e))?;
        return Ok(vec![(STDIN.to_owned(), Language::Toml, text)]);
    }
    let meta = fs::metadata(path).map_err(|e| cannot(path, &e))?;
    let paths =
        if meta.is_dir() { folder(path).map_err(|e| cannot(path, &e))? } else { vec![path.to_path_buf()] };
    if paths.is_empty() {
        return Err(cannot(path, &"the folder holds no *.toml, *.yaml or *.yml"));
    }
    let mut texts = Vec::new();
    for path in paths {
        let Some(language) = Language::of(&path) else {
            return Err(cannot(&path, &"a job file is named *.toml, *.yaml or *.yml"));
        };
        let text = bounded::text(&path, FILE_BYTES_MAX)
            .map_err(|e| Failure::unreadable_input(path.display(), &e))?;
        texts.push((path.display().to_string(), language, text));
    }
    Ok(texts)
}

fn folder(path: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(path)? {
        let path = entry?.path();
        if Language::of(&path).is_some() && path.is_file() {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// The error is `LINE:COLUMN: what` or ` what`, to be put behind the file's name and a colon.
fn parse(language: Language, text: &str) -> Result<File, String> {
    match language {
        Language::Toml => toml::from_str::<File>(text).map_err(|e| {
            let (line, column) = e.span().map_or((1, 1), |span| position(text, span.start));
            format!("{line}:{column}: {}", one_line(e.message()))
        }),
        Language::Yaml if text.trim().is_empty() => Ok(File::default()),
        Language::Yaml => {
            serde_saphyr::from_str_with_options(text, yaml_limits()).map_err(|e| yaml_mistake(&e))
        }
    }
}

fn yaml_mistake(error: &serde_saphyr::Error) -> String {
    let (line, column) = error.location().map_or((1, 1), |at| (at.line(), at.column()));
    let what = error.to_string();
    let what = what.split_once(" at line ").map_or(what.as_str(), |(what, _)| what);
    let what = match what {
        what if what.starts_with("recursion limit") || what.contains("Depth {") => {
            format!("lists and tables lie in each other more than {DEPTH_MAX} deep: write them flatter")
        }
        what if what.starts_with("budget breached") || what.starts_with("alias replay") => format!(
            "it holds too much, or its aliases repeat too much ({what}): write it out, or split the file"
        ),
        what => one_line(what),
    };
    format!("{line}:{column}: {what}")
}

/// What a YAML file may cost to read. Everything that an alias repeats counts as if it were written out.
fn yaml_limits() -> serde_saphyr::Options {
    serde_saphyr::options! {
        with_snippet: false,
        budget: serde_saphyr::budget! {
            max_depth: DEPTH_MAX,
            flow_nesting_limit: DEPTH_MAX,
            max_documents: 1,
            max_events: YAML_EVENTS_MAX,
            max_nodes: YAML_EVENTS_MAX,
            max_aliases: ALIASES_MAX,
            max_anchors: ALIASES_MAX,
            max_total_scalar_bytes: usize::try_from(FILE_BYTES_MAX).unwrap_or(usize::MAX),
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: REPEATED_EVENTS_MAX,
        },
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The line and column, counted from 1, of an offset into a text.
pub(crate) fn position(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
    (line, column)
}

/// Finds the line on which each job is named, going down the file as the jobs do.
struct NameLines<'a> {
    ahead: std::iter::Enumerate<std::str::Lines<'a>>,
}

impl<'a> NameLines<'a> {
    fn new(text: &'a str) -> Self {
        Self { ahead: text.lines().enumerate() }
    }

    /// The next line that names this job; 1 when the file spells it in a way this cannot see.
    fn of(&mut self, name: &str) -> usize {
        let mut ahead = self.ahead.clone();
        let Some((index, _)) = ahead.find(|(_, line)| names(line, name)) else { return 1 };
        self.ahead = ahead;
        index + 1
    }
}

/// Whether this line of either language says `name` is that.
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

    fn mistake(language: Language, text: &str) -> String {
        parse(language, text).expect_err("it is a mistake")
    }

    fn jobs(language: Language, text: &str) -> Result<Vec<Job>, String> {
        parse(language, text).map(|file| file.job)
    }

    #[test]
    fn both_languages_say_the_same() {
        let toml = "[[job]]\nname = \"a\"\nschedule = \"@every 5s\"\ncommand = [\"/bin/true\"]\ncatch_up = { all = 3 }\n";
        let yaml = "job:\n  - name: a\n    schedule: '@every 5s'\n    command: [/bin/true]\n    catch_up: {all: 3}\n";
        assert_eq!(jobs(Language::Toml, toml), jobs(Language::Yaml, yaml));
        assert_eq!(jobs(Language::Toml, toml).map(|jobs| jobs.len()), Ok(1));
        let toml = "[[calendar]]\nname = \"c\"\ndays = [\"12-25\"]\n";
        let yaml = "calendar:\n  - {name: c, days: [12-25]}\n";
        let calendars = |language, text| parse(language, text).map(|file| file.calendar);
        assert_eq!(calendars(Language::Toml, toml), calendars(Language::Yaml, yaml));
        assert_eq!(calendars(Language::Toml, toml).map(|calendars| calendars.len()), Ok(1));
    }

    /// proves: S2-18, S2-19
    #[test]
    fn both_languages_know_every_key_of_a_sharded_job() {
        let toml = "[[job]]\nname = \"a\"\nplacement = \"sharded\"\nshards = 3\nparameters = \"0=x, 2=z\"\n\
                    parameter = \"p\"\nstrategy = \"odd_even\"\norder = \"descending\"\nstatic_shards = true\n\
                    exclusive_per_host = true\nmonitor = false\nmax_difference = 2\nrecut_wait = 3\n\
                    catch_up = \"skip\"\ncommand = [\"/bin/true\"]\n";
        let yaml = "job:\n- {name: a, placement: sharded, shards: 3, parameters: [x, '', z], parameter: p, strategy: odd_even,\n   \
                    order: descending, static_shards: true, exclusive_per_host: true, monitor: false, max_difference: 2,\n   \
                    recut_wait: 3, catch_up: skip, command: [/bin/true]}\n";
        let written = jobs;
        let jobs = written(Language::Toml, toml).expect("it is right");
        assert_eq!(Ok(&jobs), written(Language::Yaml, yaml).as_ref());
        assert_eq!(jobs[0].parameters, ["x", "", "z"]);
        let json = serde_json::to_string(&jobs).expect("plain data");
        assert_eq!(serde_json::from_str::<Vec<Job>>(&json).expect("it is read back"), jobs);
        assert_eq!(jobs[0].validate(), Ok(()));
    }

    #[test]
    fn both_languages_know_every_key_of_a_command() {
        let toml = "[[job]]\nname = \"a\"\nshell = true\ncommand = \"x | y\"\ndirectory = \"/tmp\"\n\
                    environment = { A = \"1\" }\ninherit = [\"B\"]\nstdin = \"in\\n\"\n\
                    user = \"u\"\nlimits = { cpu = \"5s\", memory = \"1G\", files = 9, processes = 7 }\n";
        let yaml = "job:\n- {name: a, shell: true, command: x | y, directory: /tmp, environment: {A: '1'}, inherit: [B],\n   \
                    stdin: \"in\\n\", user: u, limits: {cpu: 5s, memory: 1G, files: 9, processes: 7}}\n";
        let written = jobs;
        let jobs = written(Language::Toml, toml).expect("it is right");
        assert_eq!(Ok(&jobs), written(Language::Yaml, yaml).as_ref());
        assert_eq!(jobs[0].validate(), Ok(()));
        let json = serde_json::to_string(&jobs).expect("plain data");
        assert_eq!(serde_json::from_str::<Vec<Job>>(&json).expect("it is read back"), jobs);
        let text = mistake(Language::Toml, "[[job]]\nname = \"a\"\ncommand = 7\n");
        assert!(
            text.starts_with("3:11: ") && text.contains("a program and its arguments as a list"),
            "{text}"
        );
    }

    #[test]
    fn an_unknown_key_is_named_with_its_line_and_what_is_allowed() {
        let text = mistake(Language::Toml, "[[job]]\nname = \"a\"\nshedule = \"@daily\"\n");
        assert!(text.starts_with("3:1: unknown field `shedule`"), "{text}");
        assert!(text.contains("`schedule`"), "{text}");
        let text = mistake(Language::Yaml, "job:\n  - name: a\n    shedule: '@daily'\n");
        assert!(text.starts_with("3:5: ") && text.contains("unknown field `shedule`"), "{text}");
        let text = mistake(Language::Toml, "[jobs]\nname = \"a\"\n");
        assert!(text.starts_with("1:2: unknown field `jobs`, expected `job`"), "{text}");
    }

    #[test]
    fn what_lies_too_deep_is_refused_before_it_costs_anything() {
        for (language, text) in [
            (Language::Yaml, "[".repeat(200_000)),
            (Language::Yaml, "{".repeat(200_000)),
            (Language::Yaml, "- ".repeat(200_000)),
            (Language::Yaml, "? ".repeat(200_000)),
            (Language::Yaml, format!("job:\n- name: a\n  command: {}", "[".repeat(200_000))),
            (Language::Yaml, (0..2_000).map(|n| format!("{}a:\n", " ".repeat(n))).collect()),
            (Language::Toml, format!("job = {}", "[".repeat(200_000))),
            (Language::Toml, format!("job = {}", "{a=".repeat(200_000))),
            (Language::Toml, format!("{} = 1", vec!["a"; 200_000].join("."))),
            (Language::Toml, format!("[{}]", vec!["a"; 200_000].join("."))),
        ] {
            let refused = mistake(language, &text);
            assert!(refused.len() < 500, "{language:?} {}: {refused}", &text[..20]);
        }
        let refused = mistake(Language::Yaml, &"[".repeat(200_000));
        assert!(refused.starts_with("1:65: ") && refused.contains("64"), "{refused}");
    }

    #[test]
    fn aliases_repeat_no_more_than_a_file_may_hold() {
        let yaml = "job:\n- {name: a, environment: &e {A: '1'}, command: [x]}\n- {name: b, environment: *e, command: [x]}\n";
        let read = jobs(Language::Yaml, yaml).expect("a few are fine");
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
            let refused = mistake(Language::Yaml, &text);
            assert!(refused.contains("write it out, or split the file"), "{refused}");
        }
        assert!(jobs(Language::Yaml, &format!("job:\n- &x0 [a]\n{laughs}")).is_err(), "nor do they nest");
    }

    #[test]
    fn a_wrong_name_is_refused_where_it_stands() {
        let text = mistake(Language::Toml, "[[job]]\nname = \"a b\"\n");
        assert!(text.starts_with("2:8: job name \"a b\" is not allowed"), "{text}");
        let text = mistake(Language::Yaml, "job:\n  - name: a b\n");
        assert!(text.starts_with("2:"), "{text}");
    }

    #[test]
    fn each_job_is_found_on_its_own_line() {
        let text = "[[job]]\nname = \"ab\"\n[[job]]\nname = 'a'\n\n[[job]]\nname=\"a\"\n";
        let mut lines = NameLines::new(text);
        assert_eq!([lines.of("ab"), lines.of("a"), lines.of("a"), lines.of("zz")], [2, 4, 7, 1]);
    }
}
