//! Tests that the repository's examples parse, and use only programs that a fresh Debian has.

use std::path::{Path, PathBuf};

use evenkeel_core::job::{Job, Program};

use crate::crontab::{self, CrontabSource};
use crate::files;

/// Programs of Debian's essential packages, and words of the shell.
const PROGRAMS: [&str; 16] = [
    "cat",
    "cd",
    "date",
    "df",
    "echo",
    "env",
    "exit",
    "nice",
    "run-parts",
    "sh",
    "sleep",
    "sort",
    "test",
    "true",
    "uniq",
    "bash",
];

fn examples(kind: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(kind);
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .expect("the examples")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.sort();
    assert!(!files.is_empty());
    files
}

/// The programs that a job starts: its own, and those at the beginning of a command in a shell text.
fn programs(job: &Job) -> Vec<String> {
    let shell = |line: &str| {
        let line = line.replace("2>&1", "");
        let commands = line.split(['|', '&', ';', '{', '}']).map(str::trim);
        let programs =
            commands.filter(|command| !command.is_empty()).filter_map(|command| command.split(' ').next());
        programs.map(ToOwned::to_owned).collect::<Vec<_>>()
    };
    match &job.to_file().command {
        Program::Line(line) => shell(line),
        Program::Argv(argv) => {
            let line = argv.iter().position(|arg| arg == "-c").and_then(|at| argv.get(at + 1));
            argv.first().cloned().into_iter().chain(line.into_iter().flat_map(|line| shell(line))).collect()
        }
    }
}

fn check(shown: &Path, jobs: &[Job]) {
    assert!(!jobs.is_empty(), "{}", shown.display());
    for program in jobs.iter().flat_map(programs) {
        let name = program.rsplit('/').next().unwrap_or_default();
        assert!(PROGRAMS.contains(&name), "{}: a fresh Debian may lack {program}", shown.display());
        let whole = !program.starts_with('/') || Path::new(&program).exists();
        assert!(whole, "{}: {program} lies elsewhere", shown.display());
    }
}

#[test]
fn each_example_of_jobs_is_read_and_names_programs_that_are_there() {
    for path in examples("jobs") {
        let request = files::ReadRequest { paths: std::slice::from_ref(&path), ..Default::default() };
        let declared = files::read_all(&request).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        check(&path, &declared.jobs);
        for job in &declared.jobs {
            let text = serde_json::to_string(&job.to_file()).expect("plain data");
            assert_eq!(serde_json::to_string(job).expect("plain data"), text);
            let file = serde_json::from_str(&text).expect("it is read back");
            assert_eq!(Job::parse(file).as_ref(), Ok(job), "{}", path.display());
        }
    }
}

#[test]
fn each_example_of_a_crontab_is_read_and_names_programs_that_are_there() {
    for path in examples("crontab") {
        let origin = CrontabSource {
            shown: path.display().to_string(),
            prefix: "example".to_owned(),
            form: None,
            seconds: false,
            zone: String::new(),
            user: "root".to_owned(),
            users: Vec::new(),
            known: std::collections::BTreeMap::new(),
        };
        let text = std::fs::read_to_string(&path).expect("it is read");
        let import = crontab::read(&text, &origin).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        check(&path, &import.jobs);
    }
}
