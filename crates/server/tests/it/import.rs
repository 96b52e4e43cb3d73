//! Jobs of other schedulers are imported from their files: printed, planned and applied, with a report of what became of them.

use serde_json::Value;

use crate::process::{ServerProcess, repository, run, text};

fn sample(name: &str) -> String {
    repository(&format!("crates/server/src/import/samples/{name}")).display().to_string()
}

/// Each importer with a sample, and how many jobs and refusals it makes.
const SAMPLES: [(&[&str], &str, usize, usize); 7] = [
    (&["k8s-cronjob"], "kubernetes.yaml", 2, 1),
    (&["xxl-job", "--command", "call {class}"], "xxl_job.sql", 3, 0),
    (&["elasticjob"], "elasticjob.xml", 2, 1),
    (&["elasticjob", "--command", "call {class}"], "elasticjob.yaml", 4, 0),
    (&["quartz", "--command", "call {class}"], "quartz.xml", 3, 1),
    (&["github-actions", "--directory", "/srv"], "github_actions.yml", 2, 5),
    (&["anacron"], "anacrontab", 5, 2),
];

#[test]
fn each_file_is_printed_as_a_job_file_that_can_be_read_again() {
    for (verb, file, jobs, refused) in SAMPLES {
        let file = sample(file);
        let words = [&["import"], verb, &[file.as_str(), "--dry-run"]].concat();
        let words: Vec<&str> = match verb[0] {
            "k8s-cronjob" | "github-actions" => words,
            _ => [&words[..], &["--timezone", "Europe/Berlin"]].concat(),
        };
        let printed = run(&words);
        let report = text(&printed.stderr);
        assert!(report.starts_with("OBJECT "), "{words:?}: {report}");
        assert_eq!(report.matches("  refused  ").count(), refused, "{words:?}: {report}");
        assert_eq!(printed.status.code(), Some(i32::from(refused > 0)), "{words:?}: {report}");
        let toml: toml::Table = text(&printed.stdout).parse().expect("a job file");
        assert_eq!(toml["job"].as_array().map(Vec::len), Some(jobs), "{words:?}");
        let programs = run(&[&words[..], &["-o", "json"]].concat());
        let lines = text(&programs.stderr);
        let rows: Vec<Value> = lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
            .collect();
        assert_eq!(rows.iter().filter(|row| row["fate"] == "refused").count(), refused, "{lines}");
        assert!(serde_json::from_slice::<Value>(&programs.stdout).is_ok(), "{words:?}");
    }
}

#[test]
fn what_is_refused_leaves_the_others_and_a_plan_changes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    let quartz = sample("quartz.xml");
    let import = ["import", "quartz", &quartz, "--command", "/bin/true {class}", "--timezone", "UTC"];
    let planned = node.cli(&[&import[..], &["--plan"]].concat());
    assert_eq!(planned.status.code(), Some(1), "{}", text(&planned.stderr));
    let plan = text(&planned.stdout);
    assert!(plan.contains("native  created") && plan.contains("nothing was changed"), "{plan}");
    assert!(text(&planned.stderr).contains("the 3 others are in the plan"), "{}", text(&planned.stderr));
    assert_eq!(node.json(&["job", "list"]), serde_json::json!([]));
    for word in ["created", "unchanged"] {
        let applied = node.cli(&import);
        assert_eq!(applied.status.code(), Some(1), "what is refused is an error at the end");
        assert!(text(&applied.stdout).ends_with(&format!("3 {word}\n")), "{}", text(&applied.stdout));
        let said = text(&applied.stderr);
        assert!(
            said.contains("1 refused, as the table says: trigger t; the 3 others were applied"),
            "{said}"
        );
    }
}

#[test]
fn timers_are_read_with_their_services_and_their_calendars_are_applied_first() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    let units = folder.path().join("units");
    let drop_ins = units.join("report.service.d");
    std::fs::create_dir_all(&drop_ins).expect("a folder");
    for (name, what) in [
        ("report.timer", "[Timer]\nOnCalendar=Mon *-*-01..07 09:00 UTC\n"),
        ("report.service", "[Service]\nType=oneshot\nExecStart=/bin/false\n"),
        ("report.service.d/more.conf", "[Service]\nExecStart=\nExecStart=/bin/true %n\n"),
        ("other.service", "[Service]\nExecStart=/bin/true\n"),
    ] {
        std::fs::write(units.join(name), what).expect("written");
    }
    let timer = units.join("report.timer").display().to_string();
    for path in [timer, units.display().to_string()] {
        let applied = node.cli(&["import", "systemd", &path, "--timezone", "UTC"]);
        assert!(applied.status.success(), "{}", text(&applied.stderr));
    }
    let job = &node.json(&["job", "show", "report", "--details"])["job"];
    assert_eq!(job["command"], serde_json::json!(["/bin/true", "report.service"]));
    assert_eq!(job["require_calendars"], serde_json::json!(["systemd-mon"]));
    let cat = std::fs::read_to_string(sample("systemd.txt")).expect("the sample");
    let printed = node.fed(&["import", "systemd", "-", "--timezone", "UTC", "--dry-run"], &cat);
    assert_eq!(printed.status.code(), Some(1), "{}", text(&printed.stderr));
    assert!(text(&printed.stdout).starts_with("[[calendar]]"), "{}", text(&printed.stdout));
    let service = node.cli(&["import", "systemd", &units.join("other.service").display().to_string()]);
    assert_eq!(service.status.code(), Some(5), "{}", text(&service.stderr));
}

#[test]
fn a_crontab_can_be_planned_and_its_remarks_are_rows_for_programs() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    let tab = "MAILTO=me\n0 5 * * * true\n";
    let import = ["import", "crontab", "-", "--user", "--prefix", "tab", "--timezone", "UTC", "--plan"];
    let planned = node.fed(&import, tab);
    assert!(planned.status.success(), "{}", text(&planned.stderr));
    assert!(text(&planned.stdout).contains("created"), "{}", text(&planned.stdout));
    let programs = node.fed(&[&import[..], &["-o", "json"]].concat(), tab);
    let first = text(&programs.stderr).lines().next().unwrap_or_default().to_owned();
    let row: Value = serde_json::from_str(&first).expect("a row");
    assert_eq!((&row["object"], &row["fate"]), (&"line 1".into(), &"lost".into()), "{row}");
    assert_eq!(node.json(&["job", "list"]), serde_json::json!([]));
}
