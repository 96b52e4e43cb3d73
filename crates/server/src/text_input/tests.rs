//! Tests the most common mistakes in each format, and that every key is in the table.

use evenkeel_core::calendar::Calendar;
use evenkeel_core::job::JobFile;
use serde::Deserialize;

mod kinds;

use super::*;
use crate::settings::SettingsArgs;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SampleJobFile {
    #[serde(default)]
    job: Vec<JobFile>,
    #[serde(default)]
    #[expect(dead_code, reason = "only whether it is read matters")]
    calendar: Vec<Calendar>,
}

fn file(language: TextFormat, text: &str) -> String {
    read::<SampleJobFile>(language, text, ReadTarget::JobFile).expect_err(text).to_string()
}

fn job(keys: &str) -> String {
    file(TextFormat::Toml, &format!("[[job]]\nname = \"a\"\ncommand = [\"x\"]\n{keys}\n"))
}

#[test]
fn the_commonest_mistakes_are_told_with_their_line_their_key_and_the_fix() {
    for (keys, says) in [
        (
            "comand = [\"y\"]",
            "4:1: unknown key \"comand\" in job: did you mean \"command\"? It takes the program and its",
        ),
        ("shedule = \"@daily\"", "did you mean \"schedule\"? It takes a schedule, as \"0 5 * * *\""),
        ("zone = \"UTC\"", "did you mean \"timezone\"? It takes the name of a time zone"),
        ("grace = \"5m\"", "did you mean \"misfire_grace\"?"),
        ("nodes = [\"gpu\"]", "did you mean \"node_selector\"?"),
        ("Schedule = \"@daily\"", "did you mean \"schedule\"?"),
        (
            "max_retries = 3",
            "unknown key \"max_retries\" in job: it is a key of retry, which takes a table, as { max_retries = 3",
        ),
        ("colour = 3", "unknown key \"colour\" in job: the keys are name, namespace, schedule, timezone, "),
        ("retry = 3", "4:9: retry takes a table, as { max_retries = 3, delay = \"10s\" }, not the number 3"),
        (
            "retry = { max_retrys = 3 }",
            "unknown key \"max_retrys\" in retry: did you mean \"max_retries\"? It takes a number from 1 to 100",
        ),
        (
            "retry = { delay = \"1s\" }",
            "the key \"max_retries\" of retry is missing: it takes a number from 1 to 100",
        ),
        (
            "retry = { max_retries = \"3\" }",
            "retry.max_retries takes a number from 1 to 100, not the text \"3\"",
        ),
        (
            "retry = { max_retries = 3, delay = 10 }",
            "retry.delay takes a span with its unit, as \"10s\", not the number 10",
        ),
        ("timeout = true", "4:11: timeout takes a span, as \"90s\" or \"1h30m\", not true"),
        ("timeout = \"5x\"", "timeout: span `5x`: write numbers with a unit (d, h, m, s or ms)"),
        ("timeout = -5", "not the number -5"),
        ("timeout = 300", "write \"300s\" for seconds"),
        ("jitter = 300", "jitter takes a span with its unit, as \"5m\", not the number 300"),
        ("catch_up_window = 6", "catch_up_window takes a span with its unit, as \"6h\", not the number 6"),
        (
            "schedule = 5",
            "schedule takes a schedule, as \"0 5 * * *\" or \"@every 90s\", or a list of schedules, not the number 5",
        ),
        ("schedule = \"\"", "4:12: schedule is empty: write when the job is due"),
        ("timezone = \"\"", "4:12: timezone is empty: write a value, or leave the key out"),
        ("enabled = \"no\"", "enabled takes true or false, not the text \"no\""),
        ("shards = 5000000000", "4:10: shards takes a number from 1 to 100000, not the number 5000000000"),
        (
            "environment = [\"A=1\"]",
            "environment takes a table of texts, as { LANG = \"de_DE.UTF-8\" }, not a list",
        ),
        ("environment = { A = 1 }", "environment.A takes a text, not the number 1"),
        (
            "placement = \"shard\"",
            "placement is \"shard\": it takes \"claimed\", \"sharded\", \"broadcast\" or \"dispatched\"; did you mean \"sharded\"?",
        ),
        ("overlap = 3", "overlap takes \"forbid\", \"skip\""),
        ("catch_up = \"none\"", "catch_up is \"none\": it takes \"skip\", \"latest\" or { all = 10 }"),
        (
            "node_selector = \"gpu\"",
            "node_selector takes a list of conditions, as [\"gpu\", \"zone=eu\", \"!spot\"], not the text \"gpu\"",
        ),
        ("node_selector = [\"a b\"]", "4:17: node_selector: label \"a b\" is not allowed"),
        ("notify = { on = [\"failed\"] }", "notify.on is \"failed\": it takes a list of \"failure\""),
        ("min_durability = \"D\"", "min_durability is \"D\": it takes \"A\", \"B\" or \"C\""),
        ("pool = \"db\"", "pool takes a pool, as { name = \"db\", limit = 3 }, not the text \"db\""),
        (
            "limits = { memory = 512 }",
            "limits.memory takes a size with its unit, as \"512M\", not the number 512",
        ),
        ("name = \"b\"", "4:1: duplicate key"),
    ] {
        let said = job(keys);
        assert!(said.contains(says), "{keys}\n said {said}\n not  {says}");
        assert!(said.starts_with("4:"), "{said}");
        for word in ["field", "struct", "variant", "sequence", "u64", "u32", "expected", "invalid type"] {
            assert!(!said.contains(word), "{keys}: {said}");
        }
    }
}

#[test]
fn single_brackets_and_a_wrong_top_are_told_in_each_language() {
    for (language, text, says) in [
        (
            TextFormat::Toml,
            "[job]\nname = \"t\"\n",
            "1:1: job takes a list: write [[job]], with two brackets, above each job, not a table",
        ),
        (TextFormat::Toml, "[calendar]\nname = \"t\"\n", "write [[calendar]], with two brackets"),
        (TextFormat::Toml, "[[jobs]]\nname = \"t\"\n", "1:3: unknown key \"jobs\": did you mean \"job\"?"),
        (
            TextFormat::Toml,
            "name = \"t\"\n",
            "1:1: unknown key \"name\": it is a key of a job, so write [[job]] above it",
        ),
        (
            TextFormat::Toml,
            "[[job]]\ncommand = [\"x\"]\n",
            "1:1: the key \"name\" of job is missing: it takes 1 to 128 of",
        ),
        (TextFormat::Yaml, "job:\n  name: t\n", "2:3: job takes a list: begin each with a dash"),
        (
            TextFormat::Yaml,
            "- name: t\n",
            "a job file takes a table with the keys job and calendar, not a list",
        ),
        (
            TextFormat::Yaml,
            "job:\n  - name: a\n    comand: [x]\n",
            "3:5: unknown key \"comand\" in job: did you mean \"command\"?",
        ),
        (
            TextFormat::Yaml,
            "job:\n  - name: a\n    retry: 3\n",
            "retry takes a table, as { max_retries = 3, delay = \"10s\" }, not the number 3",
        ),
        (TextFormat::Yaml, "job:\n  - name: a\n    timeout: 5x\n", "timeout: span `5x`"),
        (
            TextFormat::Yaml,
            "apiVersion: batch/v1\nkind: CronJob\n",
            "this is a Kubernetes manifest, import it with",
        ),
        (
            TextFormat::Json,
            "{\"job\": {\"name\": \"t\"}}",
            "job takes a list, as [{\"name\": …}], not a table",
        ),
        (TextFormat::Json, "{\"job\": [\n{\"name\": \"t\",\n \"retry\": 3}]}", "3:11: retry takes a table"),
        (TextFormat::Json, "{\"job\": [", "1:9: the text ends too early: a bracket"),
    ] {
        let said = file(language, text);
        assert!(said.contains(says), "{text}\n said {said}\n not  {says}");
    }
    let text = "job:\n  - name: a\n    command: [x]\n    timeout: 5m\n";
    let file: SampleJobFile = super::read(TextFormat::Yaml, text, ReadTarget::JobFile).expect("it is right");
    assert_eq!(file.job[0].timeout, Some(300));
}

#[test]
fn mistakes_in_settings_and_in_bodies_are_told_alike() {
    let settings = |text| {
        read::<SettingsArgs>(TextFormat::Toml, text, ReadTarget::Settings).expect_err(text).to_string()
    };
    for (text, says) in [
        ("prot = 1", "1:1: unknown key \"prot\": did you mean \"port\"? It takes a number from 0 to 65535"),
        ("port = \"x\"", "1:8: port takes a number from 0 to 65535, not the text \"x\""),
        ("port = 70000", "port takes a number from 0 to 65535, not the number 70000"),
        ("ttl = 15", "ttl takes a span with its unit, as \"15s\", not the number 15"),
        ("label = \"gpu\"", "label takes a list of labels, as [\"gpu\", \"zone=eu\"], not the text \"gpu\""),
        (
            "[notify]\non = [\"*\"]",
            "notify takes a list: write [[notify]], with two brackets, above each notifier",
        ),
        ("[[notify]]\nwebhok = \"x\"", "2:1: unknown key \"webhok\" in notify: did you mean \"webhook\"?"),
        (
            "[[notify]]\nshape = \"slak\"",
            "notify.shape is \"slak\": it takes \"json\", \"slack\", \"teams\", \"dingtalk\", \"lark\", \"wecom\", \"pagerduty\" or \
             \"opsgenie\"; did you mean \"slack\"?",
        ),
        ("[[notify]]\nwindow = 5", "notify.window takes a span with its unit, as \"5m\", not the number 5"),
        ("[[notify]]\nemail = { to = \"a@b.c\" }", "notify.email.to takes a list of addresses"),
        ("listen = \"localhost\"", "listen"),
    ] {
        let said = settings(text);
        assert!(said.contains(says), "{text}\n said {said}\n not  {says}");
    }
    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct SampleApplyBody {
        #[expect(dead_code, reason = "only whether it is read matters")]
        jobs: Vec<JobFile>,
    }
    let body = |text: &str| json::<SampleApplyBody>(text.as_bytes(), ReadTarget::Jobs).expect_err(text);
    let said = body(r#"{"jobs":[{"name":"a","command":["x"]},{"name":"b","comand":["x"]}]}"#);
    assert_eq!(said.value, "jobs[1].comand");
    assert!(said.text.starts_with("unknown key \"comand\" in job: did you mean \"command\"?"), "{said}");
    assert!(body("[]").text.starts_with("the body takes an object, as {\"jobs\":"), "{}", body("[]"));
    assert!(body("{}").text.contains("the key \"jobs\" is missing"), "{}", body("{}"));
    assert_eq!(
        query("unknown field `limlt`, expected one of `limit`, `after`"),
        "unknown key \"limlt\": did you mean \"limit\"?"
    );
    assert_eq!(query("limit: invalid digit found in string"), "limit: invalid digit found in string");
}

/// The keys that a parser knows at a place, as its error lists them for an unknown key.
fn keys_at(text: &str, kind: ReadTarget) -> Vec<String> {
    let said = match kind {
        ReadTarget::Settings => toml::from_str::<SettingsArgs>(text).expect_err(text).to_string(),
        _ => toml::from_str::<SampleJobFile>(text).expect_err(text).to_string(),
    };
    let list = said.split_once("expected").expect(text).1;
    list.split('`').skip(1).step_by(2).map(ToOwned::to_owned).collect()
}

#[test]
fn every_key_that_is_read_is_described() {
    let mut seen = 0;
    for (address, text, kind) in [
        ("job", "[[job]]\nname = \"a\"\nzzz = 1", ReadTarget::JobFile),
        ("job.retry", "[[job]]\nretry = { zzz = 1 }", ReadTarget::JobFile),
        ("job.pool", "[[job]]\npool = { zzz = 1 }", ReadTarget::JobFile),
        ("job.limits", "[[job]]\nlimits = { zzz = 1 }", ReadTarget::JobFile),
        ("job.limits.together", "[[job]]\nlimits = { together = { zzz = 1 } }", ReadTarget::JobFile),
        ("job.http", "[[job]]\nhttp = { zzz = 1 }", ReadTarget::JobFile),
        ("job.notify", "[[job]]\nnotify = { zzz = 1 }", ReadTarget::JobFile),
        ("job.dataflow", "[[job]]\ndataflow = { zzz = 1 }", ReadTarget::JobFile),
        ("calendar", "[[calendar]]\nzzz = 1", ReadTarget::JobFile),
        ("settings", "zzz = 1", ReadTarget::Settings),
        ("settings.notify", "[[notify]]\nzzz = 1", ReadTarget::Settings),
        ("settings.heartbeat", "[heartbeat]\nzzz = 1", ReadTarget::Settings),
        ("settings.notify.email", "[[notify]]\nemail = { zzz = 1 }", ReadTarget::Settings),
    ] {
        for key in keys_at(text, kind) {
            // The names of Elastic-Job-Lite are recognized, and Evenkeel's are suggested.
            let theirs = key.contains('-') || key.chars().any(char::is_uppercase);
            assert!(
                theirs || keys::is_known(&keys::joined(address, &key)),
                "{address}.{key} is not described"
            );
            seen += 1;
        }
    }
    assert!(seen > 100, "{seen}");
}

#[test]
fn a_text_from_another_editor_is_read_as_it_was_meant() {
    let text = plain("\u{feff}[[job]]\r\nname = \"a\"\r\nshell = true\r\ncommand = \"\"\"\r\ncd /tmp\r\necho done\r\n\"\"\"\r\n".to_owned());
    let file: SampleJobFile = super::read(TextFormat::Toml, &text, ReadTarget::JobFile).expect("it is right");
    assert_eq!(file.job[0].command.argv()[2], "cd /tmp\necho done\n");
}
