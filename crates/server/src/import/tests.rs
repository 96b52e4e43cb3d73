//! What all imports do alike.

use std::collections::BTreeMap;

use evenkeel_core::job::{JobFile, Work};
use evenkeel_core::schedule::Schedule;
use evenkeel_core::time::Wall;

use super::report::ImportFate;
use super::*;

/// What an import knows of a file `sample`, in UTC and without a command.
pub(super) fn source() -> ImportSource {
    ImportSource {
        shown: "sample".to_owned(),
        timezone: String::new(),
        command: None,
        directory: String::new(),
    }
}

/// The job of this name.
pub(super) fn job(imported: &Imported, name: &str) -> JobFile {
    let found = imported.jobs.iter().find(|job| job.name.as_str() == name);
    found.unwrap_or_else(|| panic!("no {name}: {:#?}", imported.findings)).to_file()
}

/// The rows as lines: `object | job | field | fate | remark`.
pub(super) fn rows(imported: &Imported) -> Vec<String> {
    let row = |row: &ImportFinding| {
        [&row.object, &row.job, &row.field, row.fate.word(), &row.said].map(ToOwned::to_owned).join(" | ")
    };
    imported.findings.iter().map(row).collect()
}

/// A row exists that begins and ends so.
#[track_caller]
pub(super) fn says(imported: &Imported, field: &str, fate: ImportFate, said: &str) {
    let is = |row: &&ImportFinding| row.field == field && row.fate == fate && row.said.contains(said);
    assert!(imported.findings.iter().any(|row| is(&row)), "{field} {fate:?} {said}: {:#?}", rows(imported));
}

/// The next fires of a job after a moment, as RFC 3339 in UTC.
pub(super) fn fires(job: &JobFile, after: &str, count: usize) -> Vec<String> {
    let schedule = Schedule::parse(&job.schedule, &job.timezone).expect("it is a schedule");
    let after: jiff::Timestamp = after.parse().expect("a moment");
    let mut at = Wall(after.as_millisecond());
    let next = || {
        at = schedule.next(at)?;
        Some(jiff::Timestamp::from_millisecond(at.0).expect("a moment").to_string())
    };
    std::iter::from_fn(next).take(count).collect()
}

#[test]
fn an_object_that_is_refused_leaves_the_others_and_nothing_else_is_said_of_it() {
    let mut imported = Imported::default();
    let made = |name: &str, schedule: &str| {
        JobFile::new(name.parse().expect("a name"), schedule, Work::Command(vec!["true".to_owned()]))
    };
    imported.object("a", |notes| {
        notes.taken("x", "y");
        Ok(made("one", "0 5 * * *"))
    });
    imported.object("b", |notes| {
        notes.lost("x", "z");
        Ok(made("two", "0 25 * * *"))
    });
    imported.object("c", |_| Ok(made("one", "0 6 * * *")));
    imported.object("d", |_| Err(ImportRefusal::new("f", "because")));
    assert_eq!(imported.jobs.iter().map(|job| job.name.as_str()).collect::<Vec<_>>(), ["one"]);
    let rows = rows(&imported);
    assert_eq!(rows[0], "a | one | x | taken | y");
    assert!(rows[1].starts_with("b |  |  | refused | hour field `25`"), "{rows:?}");
    assert!(rows[2].starts_with("c |  | name | refused | another object became job one"), "{rows:?}");
    assert_eq!(rows[3], "d |  | f | refused | because");
    assert_eq!((rows.len(), imported.refused_objects().len()), (4, 3));
}

#[test]
fn five_fields_of_other_libraries_are_rewritten_where_our_dialect_reads_them_otherwise() {
    for (line, ours) in [
        ("0 5 * * *", "0 5 * * *"),
        ("5/20 * ? * ?", "5-59/20 * * * *"),
        // With both restricted either names a day; ours would take */2 for no restriction.
        ("0 0 */2 * 1", "0 0 1-31/2 * 1"),
        ("0 0 1 * */2", "0 0 1 * 0-6/2"),
        ("0 0 */2 * *", "0 0 */2 * *"),
        ("0 0 * * */2", "0 0 * * */2"),
        ("0 9-17/2 1,15 1/3 MON-FRI", "0 9-17/2 1,15 1-12/3 MON-FRI"),
        ("@daily", "@daily"),
    ] {
        assert_eq!(helpers::five_fields(line), Ok((ours.to_owned(), line != ours)), "{line}");
    }
    assert!(helpers::five_fields("TZ=UTC 0 5 * * *").is_err());
    assert!(helpers::five_fields("0 0 5 * * *").is_err());
}

#[test]
fn the_rewritten_day_fields_name_the_days_that_either_names() {
    let (line, _) = helpers::five_fields("0 0 */10 * 1").expect("a line");
    let job = JobFile::new("j".parse().expect("a name"), &line, Work::Command(Vec::new()));
    // The 1st, 11th, 21st and 31st, and Mondays: November 2026 begins on a Sunday.
    let days = ["01", "02", "09", "11", "16", "21", "23", "30"].map(|day| format!("2026-11-{day}T00:00:00Z"));
    assert_eq!(fires(&job, "2026-10-31T12:00:00Z", 8), days);
}

#[test]
fn spans_names_and_zones_are_written_as_job_files_have_them() {
    let spans = [(0, "0s"), (59, "59s"), (3_600, "1h"), (90_061, "1d1h1m1s")];
    assert!(spans.iter().all(|(secs, text)| helpers::span(*secs) == *text));
    let mut notes = ImportNotes::default();
    let name =
        |text: &str, notes: &mut ImportNotes| helpers::name("name", text, notes).map(|name| name.to_string());
    assert_eq!(name("nightly report!", &mut notes), Ok("nightly-report".to_owned()));
    assert!(name("…", &mut notes).is_err());
    assert_eq!(notes.rows.len(), 1, "what was renamed is said");
    let zone = |text: &str, notes: &mut ImportNotes| helpers::zone("zone", text, notes).ok();
    assert_eq!(zone("GMT+08:00", &mut notes).as_deref(), Some("Etc/GMT-8"));
    assert_eq!(zone("Europe/Berlin", &mut notes).as_deref(), Some("Europe/Berlin"));
    assert_eq!(zone("UTC", &mut notes).as_deref(), Some(""));
    assert_eq!(zone("GMT+5:30", &mut notes), None);
}

#[test]
fn the_words_of_a_command_are_filled_for_each_job() {
    let words = command_words("run-class --name '{class}' \"a b\"").expect("words").expect("some");
    let with = ImportSource { command: Some(words), ..source() };
    let mut notes = ImportNotes::default();
    let values = BTreeMap::from([("class", "com.x.Y")]);
    let argv = helpers::templated(&with, "class", &values, &mut notes).expect("filled");
    assert_eq!(argv, ["run-class", "--name", "com.x.Y", "a b"]);
    let refused = helpers::templated(&source(), "class", &values, &mut notes).expect_err("no command");
    assert!(refused.said.contains("--command"), "{refused:?}");
    assert_eq!(command_words(" "), Ok(None));
    assert!(command_words("a 'b").is_err());
}
