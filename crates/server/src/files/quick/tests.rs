//! Files that are read in parts mean what they mean as a whole.

use super::*;
use crate::files::{FileText, ReadRequest, both};

/// What the whole text declares, read as one document.
fn whole(language: TextFormat, text: &str) -> Option<CheckedTables> {
    let text = FileText { shown: "f".to_owned(), language, text: text.to_owned(), shared: None };
    let all = both(&[text], &ReadRequest::default()).ok()?;
    Some(CheckedTables { job: EncodedJobs::of(&all.jobs).ok()?, calendar: all.calendars })
}

fn quick(language: TextFormat, text: &str) -> Option<CheckedTables> {
    read(std::iter::once((language, text)))
}

/// Jobs that take several parts.
fn many(more: &str) -> String {
    let job = |n: u32| {
        format!(
            "[[job]]\nname = \"j{n}\"\nfunction = \"f\"\nschedule = \"@daily\"\ndescription = '''\n[job]\n'''\n{more}\n"
        )
    };
    (0..4_000).map(job).collect()
}

#[test]
fn a_file_in_parts_means_the_same_as_the_whole_file() {
    let calendar = "[[calendar]]\nname = \"c\"\ndays = [\"12-25\"]\n";
    let comment = "# jobs\n\n  \n";
    for text in [
        String::new(),
        many(""),
        many("[job.retry]\nmax_retries = 3\n[job.pool]\nname = \"p\"\nlimit = 3"),
        format!("{comment}{}{calendar}{}", many("parameter = \"\"\"\n[calendar]\n\"\"\""), "# end"),
        format!("{calendar}{}", many("retry = { max_retries = 3 }")),
    ] {
        let read = quick(TextFormat::Toml, &text).expect("it is valid");
        let parts = parts(&text).expect("it has no keys of its own");
        assert!(parts.len() > 4 || text.is_empty(), "{} parts", parts.len());
        assert_eq!(parts.concat(), text);
        let whole = whole(TextFormat::Toml, &text).expect("it is valid");
        assert_eq!((read.job, read.calendar), (whole.job, whole.calendar));
    }
}

#[test]
fn what_is_no_valid_file_as_a_whole_is_not_read_in_parts() {
    let calendar = "[[calendar]]\nname = \"c\"\ndays = [\"12-25\"]\n";
    let job = "[[job]]\nname = \"x\"\nfunction = \"f\"\n";
    let jobs = many("");
    for text in [
        // A key of the whole file, which the headers below add to.
        format!("job = [{{ name = \"x\", function = \"f\" }}]\n{jobs}"),
        format!("calendar = []\n{jobs}{calendar}"),
        // A text, a list and a table that end in another part, and one that never ends.
        format!("{job}description = '''\n{jobs}"),
        format!("{job}description = \"\"\"\n{jobs}"),
        format!("{job}command = [\n{jobs}]\n"),
        format!("{job}environment = {{\n{jobs}}}\n"),
        // The same name twice, far from each other.
        format!("{job}{jobs}{job}"),
        format!("{calendar}{jobs}{calendar}"),
        // Mistakes of every kind, at the end.
        format!("{jobs}[[job]]\nname = \"x\"\nfunction = \"f\"\nschedule = \"61 * * * *\"\n"),
        format!("{jobs}[[job]]\nname = \"x\"\nfunction = \"f\"\nshards = 2\n"),
        format!("{jobs}{job}colour = 3\n"),
        format!("{jobs}{job}[settings]\n"),
        format!("{jobs}[[calendar]]\nname = \"c\"\ndays = [\"13-25\"]\n"),
        format!("{jobs}{job}name = \"x\"\n"),
        format!("{jobs}]\n"),
        format!("{jobs}[job]\n"),
    ] {
        assert!(whole(TextFormat::Toml, &text).is_none(), "{}", &text[text.len() - 80..]);
        assert!(quick(TextFormat::Toml, &text).is_none(), "{}", &text[text.len() - 80..]);
    }
}

#[test]
fn a_header_in_a_text_is_left_to_the_whole_file() {
    let text = many("parameter = '''\n[[job]]\n'''");
    let whole = whole(TextFormat::Toml, &text).expect("it is a text");
    assert!(quick(TextFormat::Toml, &text).is_none_or(|read| read.job == whole.job));
}

#[test]
fn a_table_of_an_earlier_part_is_left_to_the_whole_file() {
    let calendar = "[[calendar]]\nname = \"c\"\ndays = [\"12-25\"]\n";
    let text = format!("{}{calendar}[job.retry]\nmax_retries = 3\n", many(""));
    let whole = whole(TextFormat::Toml, &text).expect("TOML allows it");
    let encoded = whole.job.bodies(1, 1 << 20).last().expect("a job");
    assert!(String::from_utf8_lossy(&encoded).contains("max_retries"), "it is the last job's");
    assert!(quick(TextFormat::Toml, &text).is_none_or(|read| read.job == whole.job));
}

#[test]
fn json_and_yaml_are_checked_job_by_job() {
    let job = |name: &str, more: &str| format!(r#"{{"name": "{name}", "function": "f"{more}}}"#);
    let file = |jobs: &str| format!("{{\"calendar\": [], \"job\": [{jobs}]}}\n");
    let (one, other) = (job("a", ""), job("b", r#", "schedule": "@daily""#));
    for language in [TextFormat::Json, TextFormat::Yaml] {
        let valid = file(&format!("{one}, {other}"));
        let read = quick(language, &valid).expect("it is valid");
        assert_eq!(read.job, whole(language, &valid).expect("it is valid").job);
        assert_eq!(read.job.len(), 2);
        for wrong in [
            file(&format!("{one}, {one}")),
            file(&job("a", r#", "schedule": "61 * * * *""#)),
            file(&job("a", r#", "colour": 3"#)),
            file("7"),
            format!("{valid}]"),
            String::from("{"),
        ] {
            assert!(whole(language, &wrong).is_none() && quick(language, &wrong).is_none(), "{wrong}");
        }
    }
}
