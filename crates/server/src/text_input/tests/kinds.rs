//! Whole kinds of mistakes in each format: types, characters that are not seen, nothing where a text is due, syntax.

use serde_json::{Map, Value, json};

use super::*;

/// Words of serde and of the parsers that no message may hold.
const SERDES: [&str; 16] = [
    "invalid type",
    "expected",
    "struct ",
    "variant",
    "sequence",
    "a string",
    "integer `",
    "u64",
    "u32",
    "i128",
    "unit value",
    "untagged",
    "did not match",
    "wanted",
    "map",
    "EOF",
];

fn text(language: TextFormat, job: &Value) -> String {
    let whole = json!({ "job": [job] });
    match language {
        TextFormat::Toml => toml::to_string(&whole).expect("plain data"),
        TextFormat::Yaml | TextFormat::Json => whole.to_string(),
    }
}

/// A job in which the key at this address has the value.
fn with(address: &str, value: &Value) -> Value {
    let keys: Vec<&str> = address.split('.').skip(1).collect();
    let (last, holders) = keys.split_last().expect("a key");
    let mut job = json!({ "name": "a" });
    let mut place = &mut job;
    for key in holders {
        place = &mut place[*key];
        *place = Value::Object(Map::new());
    }
    place[*last] = value.clone();
    job
}

#[test]
fn a_value_of_another_type_is_refused_in_plain_words_for_each_key_in_each_format() {
    let (mut refused, wrong) =
        (0, [json!(5), json!(-1), json!(1.5), json!(true), json!([1]), json!({ "zz": 1 }), json!([[]])]);
    for (address, ..) in keys::KEYS.iter().filter(|(address, ..)| address.starts_with("job.")) {
        for language in [TextFormat::Toml, TextFormat::Yaml, TextFormat::Json] {
            for value in &wrong {
                let text = text(language, &with(address, value));
                let Err(said) = read::<SampleJobFile>(language, &text, ReadTarget::JobFile) else { continue };
                let key = keys::shown(address);
                let known = said.text.contains(&key) || key.split('.').any(|part| said.text.contains(part));
                assert!(known, "{language:?} {text}: {said}");
                for word in SERDES {
                    assert!(!said.text.contains(word), "{language:?} {text}: {said}");
                }
                refused += 1;
            }
        }
    }
    assert!(refused > 1_000, "{refused}");
}

#[test]
fn a_choice_is_refused_in_json_with_what_was_found() {
    for (value, found) in
        [("5", "the number 5"), ("true", "true"), ("[\"skip\"]", "a list"), ("null", "nothing")]
    {
        for key in ["placement", "overlap", "catch_up", "strategy", "delivery"] {
            let body = format!("{{\"jobs\": [{{\"name\": \"a\", \"{key}\": {value}}}]}}");
            let said = json::<JobsBody>(body.as_bytes(), ReadTarget::Jobs).expect_err(&body);
            assert_eq!(said.value, format!("jobs[0].{key}"), "{body}");
            assert!(said.text.starts_with(&format!("{key} takes \"")), "{body}: {said}");
            assert!(said.text.ends_with(&format!(", not {found}")), "{body}: {said}");
        }
    }
}

/// A body that declares jobs.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct JobsBody {
    #[expect(dead_code, reason = "only whether it is read matters")]
    jobs: Vec<JobFile>,
}

#[test]
fn what_parsers_say_is_said_in_plain_words() {
    let job = "[[job]]\nname = \"a\"\n";
    for (language, text, says) in [
        (TextFormat::Toml, format!("{job}overlap = {{}}\n"), "overlap takes \"forbid\""),
        (
            TextFormat::Toml,
            format!("{job}overlap = {{ limit = 1, queue = 2 }}\n"),
            "not a table without a key or with several",
        ),
        (
            TextFormat::Toml,
            format!("{job}start_at = 2026-01-01T00:00:00Z\n"),
            "as \"2026-03-01T00:00:00\": put the date in quotes",
        ),
        (
            TextFormat::Toml,
            format!("{job}shards = 99999999999999999999999\n"),
            "not the number 99999999999999999999999",
        ),
        (TextFormat::Toml, "[[job]]\nname = a\n".to_owned(), "a text stands in double quotes"),
        (
            TextFormat::Toml,
            format!("{job}parameters = {{ day = \"x\" }}\n"),
            "parameters.day takes a table, as { type = \"date\" }, not the text \"x\"",
        ),
        (
            TextFormat::Toml,
            format!("{job}parameters = {{ day = {{ type = 5 }} }}\n"),
            "parameters.day.type takes \"string\", \"integer\"",
        ),
        (TextFormat::Toml, format!("{job}min_durability = \"a\"\n"), "did you mean \"A\"?"),
        (TextFormat::Toml, format!("{job}catch_up = \"none\"\n"), "did you mean \"skip\"?"),
        (
            TextFormat::Toml,
            format!("{job}retry = [3]\n"),
            "retry takes a table, as { max_retries = 3, delay = \"10s\" }, not a list",
        ),
        (
            TextFormat::Yaml,
            "job:\n- name: a\n  overlap: {zz: 1}\n".to_owned(),
            "overlap is \"zz\": it takes \"forbid\"",
        ),
        (
            TextFormat::Yaml,
            "job:\n- name: a\n  schedule: * * * * *\n".to_owned(),
            "begins with * stands in quotes",
        ),
        (
            TextFormat::Yaml,
            "job:\n- name: a\n  schedule: @daily\n".to_owned(),
            "begins with @, ` or % stands in quotes",
        ),
        (TextFormat::Yaml, "job:\n- name: a\n\tcommand: [x]\n".to_owned(), "indented with a tab"),
        (TextFormat::Yaml, "job: []\n---\njob: []\n".to_owned(), "several documents"),
        (
            TextFormat::Json,
            "[{\"name\": \"a\"}]".to_owned(),
            "takes a table with the keys job and calendar, not a list",
        ),
        (TextFormat::Json, "{\"job\": [],}".to_owned(), "a comma before a closing bracket"),
        (TextFormat::Json, "{'job': []}".to_owned(), "a key stands in double quotes"),
        (TextFormat::Json, "{\"job\": []} x".to_owned(), "more text follows"),
        (TextFormat::Json, "{\"job\": [{\"name\": a}]}".to_owned(), "a value is a text in double quotes"),
    ] {
        let said = file(language, &text);
        assert!(said.contains(says), "{text}\n said {said}\n not  {says}");
    }
}

#[test]
fn a_character_that_is_not_seen_is_named_wherever_it_stands() {
    for (language, text, line, says) in [
        (
            TextFormat::Toml,
            "[[job]]\n\u{a0}name = \"a\"\n",
            2,
            "a no-break space (U+00A0): write a plain space",
        ),
        (TextFormat::Toml, "[[job]]\nna\u{200b}me = \"a\"\n", 2, "a zero-width space (U+200B): remove it"),
        (TextFormat::Toml, "[[job]]\n\u{feff}name = \"a\"\n", 2, "a byte order mark (U+FEFF)"),
        (
            TextFormat::Toml,
            "[[job]]\n\"na\u{200b}me\" = \"a\"\n",
            2,
            "a zero-width space (U+200B): remove it: did you mean \"name\"?",
        ),
        (
            TextFormat::Toml,
            "[[job]]\nname = \u{201c}a\u{201d}\n",
            2,
            "a typographic quotation mark (U+201C): write `\"`",
        ),
        (TextFormat::Toml, "[[job]]\nname = \"a\u{200b}\"\n", 2, "it holds a zero-width space (U+200B)"),
        (
            TextFormat::Toml,
            "[[job]]\nname = \"a\"\ntimeout = \"5\u{a0}m\"\n",
            3,
            "it holds a no-break space (U+00A0)",
        ),
        (
            TextFormat::Toml,
            "[[job]]\nname = \"a\"\nplacement = \"sharded\u{200b}\"\n",
            3,
            "it holds a zero-width space",
        ),
        (
            TextFormat::Toml,
            "[[job]]\nname = \"a\"\nnode_selector = [\"gpu\u{202e}\"]\n",
            3,
            "a mark of the direction of text (U+202E)",
        ),
        (TextFormat::Yaml, "job:\n- name: a\n\u{a0} command: [x]\n", 3, "a no-break space (U+00A0)"),
        (TextFormat::Yaml, "job:\n- name: a\n\u{feff}- name: b\n", 3, "a byte order mark (U+FEFF)"),
        (TextFormat::Json, "{\"job\":\n\u{a0}[]}", 2, "a no-break space (U+00A0)"),
        (TextFormat::Json, "{\u{201c}job\u{201d}: []}", 1, "a typographic quotation mark"),
    ] {
        let said = file(language, text);
        assert!(said.starts_with(&format!("{line}:")), "{text:?}: {said}");
        assert!(said.contains(says), "{text:?}\n said {said}\n not  {says}");
    }
}

#[test]
fn nothing_is_no_text_in_yaml() {
    for (key, line) in [
        ("user: ~", 4),
        ("user: null", 4),
        ("stdin:", 4),
        ("description: ~ # later", 4),
        ("environment: {A: ~}", 4),
        ("environment:\n    A: x\n    B:", 6),
        ("labels: {team: null}", 4),
    ] {
        let said = file(TextFormat::Yaml, &format!("job:\n- name: a\n  command: [x]\n  {key}\n"));
        let last = key.rsplit('\n').next().unwrap_or_default().trim();
        assert!(said.starts_with(&format!("{line}:")), "{last}: {said}");
        assert!(said.contains("not nothing"), "{last}: {said}");
    }
    let text =
        "job:\n- name: a\n  namespace: ~\n  timeout: ~\n  retry:\n  environment: {A: 'null', B: '~'}\n";
    let read: SampleJobFile = super::read(TextFormat::Yaml, text, ReadTarget::JobFile).expect("it is right");
    assert_eq!((read.job[0].timeout, read.job[0].environment["A"].as_str()), (None, "null"));
}

#[test]
fn each_kind_of_line_end_is_one() {
    for ends in ["\n", "\r\n", "\r"] {
        let text = "[[job]]\nname = \"a\"\nshell = true\ncommand = \"\"\"\ncd /tmp\nls\n\"\"\"\n"
            .replace('\n', ends);
        let read: SampleJobFile =
            super::read(TextFormat::Toml, &plain(text), ReadTarget::JobFile).expect("it is right");
        assert_eq!(read.job[0].command.argv()[2], "cd /tmp\nls\n", "{ends:?}");
        let text = "job:\n- name: a\n  shell: true\n  command: |\n    cd /tmp\n    ls\n".replace('\n', ends);
        let read: SampleJobFile =
            super::read(TextFormat::Yaml, &plain(text), ReadTarget::JobFile).expect("it is right");
        assert_eq!(read.job[0].command.argv()[2], "cd /tmp\nls\n", "{ends:?}");
    }
}
