//! What files with variables, defaults and templates declare, and where their mistakes are found.

use std::path::PathBuf;

use serde_json::json;

use super::*;
use crate::files::variables::pair;
use crate::files::{Declarations, ReadRequest, read_all, read_encoded};

/// The declarations of files in a folder, or the error.
fn read(files: &[(&str, &str)], named: &[&str]) -> Result<Declarations, String> {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).expect("written");
    }
    let named: Vec<_> = named.iter().map(|text| pair(text).expect("NAME=VALUE")).collect();
    let given = GivenVariables::read(&named, &[] as &[PathBuf]).expect("no file");
    let paths = [folder.path().to_path_buf()];
    let request = ReadRequest { paths: &paths, variables: Some(&given), ..ReadRequest::default() };
    let root = format!("{}/", folder.path().display());
    let all = read_all(&request).map_err(|e| e.message.replace(&root, ""))?;
    let encoded = read_encoded(&request).map_err(|e| e.message)?;
    assert_eq!(
        encoded.jobs,
        crate::files::EncodedJobs::of(&all.jobs).expect("plain data"),
        "both ways are one"
    );
    Ok(all)
}

fn job(files: &[(&str, &str)], named: &[&str]) -> Value {
    let all = read(files, named).unwrap_or_else(|e| panic!("{e}"));
    serde_json::to_value(&all.jobs[0]).expect("plain data")
}

const FILE: &str = r#"
[variables]
env = "dev"
shards = 4
image = {}

[defaults]
timezone = "Europe/Berlin"
retry = { max_retries = 3, delay = "10s" }
labels = { team = "billing" }

[template.container]
command = ["podman", "run", "{{image}}"]
environment = { ENV = "{{env}}", MODE = "batch" }
overlap = { limit = 4 }
pool = { name = "db", limit = "{{shards}}" }

[[job]]
name = "{{env}}-report"
template = "container"
schedule = "0 5 * * *"
retry = { delay = "1m" }
overlap = { queue = 2 }
environment = { MODE = "{{{{raw}}" }
labels = { tier = "1" }
"#;

#[test]
fn a_job_takes_over_defaults_and_its_template_and_its_own_keys_win() {
    let expected = json!({
        "name": "prod-report", "schedule": "0 5 * * *", "timezone": "Europe/Berlin", "pool": { "name": "db", "limit": 8 },
        "command": ["podman", "run", "shop:7"], "environment": { "ENV": "prod", "MODE": "{{raw}}" },
        "retry": { "max_retries": 3, "delay": "1m" }, "overlap": { "queue": 2 },
        "labels": { "team": "billing", "tier": "1" },
    });
    let named = ["env=prod", "image=shop:7", "shards=8"];
    let toml = job(&[("a.toml", FILE)], &named);
    assert_eq!(toml, expected);
    // The same in the other languages.
    let table: toml::Table = FILE.parse().expect("TOML");
    let json = serde_json::to_string(&table).expect("plain data");
    let yaml = serde_yaml_ng::to_string(&table).expect("plain data");
    assert_eq!(job(&[("a.json", &json)], &named), expected);
    assert_eq!(job(&[("a.yaml", &yaml)], &named), expected);
}

#[test]
fn a_default_that_says_nothing_about_a_job_is_left_out_of_it() {
    let file = "[defaults]\ntimezone = \"Europe/Berlin\"\nuser = \"shop\"\ntimeout = \"1m\"\n\
                [[job]]\nname = \"a\"\nhttp = { url = \"https://shop.example/\" }\n";
    let found = job(&[("a.toml", file)], &[]);
    assert_eq!(
        (&found["timeout"], &found["timezone"], &found["user"]),
        (&json!("1m"), &Value::Null, &Value::Null)
    );
    // What a job says itself is not.
    let own =
        read(&[("a.toml", &(file.to_owned() + "user = \"x\"\n"))], &[]).expect_err("a request has no user");
    assert!(own.contains("user is for commands"), "{own}");
}

#[test]
fn a_folder_shares_the_tables_of_its_file_of_defaults() {
    let shared = "[variables]\nregion = \"eu\"\n[defaults]\ntimezone = \"UTC\"\ntimeout = \"5m\"\n[template.t]\ncommand = [\"x\", \"{{region}}\"]\n";
    let own = "[defaults]\ntimeout = \"1m\"\n[[job]]\nname = \"a\"\ntemplate = \"t\"\n";
    let found = job(&[("defaults.toml", shared), ("jobs.toml", own)], &["region=us"]);
    assert_eq!(found, json!({ "name": "a", "command": ["x", "us"], "timeout": "1m" }));
    // A file that has none of the tables is put together too, and alone it means the same.
    let plain = "job:\n- {name: a, command: ['{{region}}']}\n";
    let folder = [("defaults.toml", shared), ("jobs.yaml", plain)];
    assert_eq!(job(&folder, &[]), json!({ "name": "a", "command": ["eu"], "timeout": "5m" }));
    let both = read(&[("defaults.toml", shared), ("defaults.yaml", "{}"), ("a.toml", own)], &[]);
    assert!(both.expect_err("two of them").contains("defaults.yaml"));
    let jobs = read(&[("defaults.toml", "[[job]]\nname = \"a\"\nfunction = \"f\"\n"), ("a.toml", own)], &[]);
    assert!(jobs.expect_err("a job in it").contains("defaults.toml: this file is for"));
}

#[test]
fn a_file_without_these_tables_is_as_before() {
    let plain =
        "[[job]]\nname = \"a\"\ncommand = [\"docker\", \"ps\", \"--format\", \"{{.Names}} template\"]\n";
    let found = job(&[("a.toml", plain)], &[]);
    assert_eq!(found["command"][3], "{{.Names}} template");
    let given = read(&[("a.toml", plain)], &["x=1"]).expect_err("no file has it");
    assert!(given.contains("--var x: there is no variable \"x\""), "{given}");
}

#[test]
fn mistakes_name_the_file_the_job_and_the_key() {
    let with = |from: &str, to: &str| read(&[("a.toml", &FILE.replace(from, to))], &["image=i"]);
    for (from, to, expected) in [
        ("", "", ""),
        (
            "= \"container\"",
            "= \"contaner\"",
            "a.toml:20: job {{env}}-report: there is no template \"contaner\": did you mean \"container\"?",
        ),
        ("MODE = \"batch\"", "MODE = \"{{shrads}}\"", ""),
        (
            "{{{{raw}}",
            "{{shrads}}",
            "job {{env}}-report: environment.MODE: there is no variable \"shrads\": did you mean \"shards\"?",
        ),
        (
            "shards = 4",
            "shards = \"four\"",
            "job {{env}}-report: pool.limit takes a number from 1 to 500, not the text \"four\"",
        ),
        ("timezone =", "timezoen =", "a.toml:8: defaults.timezoen: unknown key \"timezoen\""),
        ("pool =", "name =", "template.container.name: each job has a name of its own"),
        ("env = \"dev\"", "env = []", "a.toml:3: variables.env takes a text, a number"),
        ("[defaults]", "[defualts]", "did you mean \"defaults\"?"),
        ("schedule = \"0 5 * * *\"", "schedule = \"0 25 * * *\"", "a.toml:"),
    ] {
        let done = with(from, to);
        match expected {
            "" => assert!(done.is_ok(), "{to}: {done:?}"),
            expected => {
                let refused = done.expect_err(to);
                assert!(refused.contains(expected), "{to}: {refused}");
            }
        }
    }
    let missing = read(&[("a.toml", FILE)], &[]).expect_err("image has no value");
    assert!(
        missing.contains("command: the variable \"image\" has no value") && missing.contains("job {{env}}"),
        "{missing}"
    );
    let typo = read(&[("a.toml", FILE)], &["imge=i", "image=i"]).expect_err("imge is unknown");
    assert!(typo.contains("did you mean \"image\""), "{typo}");
    let template = read(&[("a.toml", "[[job]]\nname = \"a\"\ntemplate = \"t\"\n")], &[]);
    assert!(template.expect_err("there is none").contains("declare it in [template.t]"));
}

#[test]
fn values_cannot_change_what_a_file_declares() {
    let evil = "x\"\n[[job]]\nname = \"evil\"\ncommand = [\"/bin/sh\"]\n";
    let all = read(&[("a.toml", FILE)], &[&format!("image={evil}")]).expect("it is a text");
    assert_eq!(all.jobs.len(), 1);
    assert_eq!(serde_json::to_value(&all.jobs[0]).expect("plain data")["command"][2], evil);
}
