//! JSON Schemas of what users write, made of the table of keys: for editors, and for the description of the API.

use evenkeel_core::job::PARAMETERS_MAX;
use serde_json::{Map, Value, json};

use super::keys::KEYS;
use super::value_kind::ValueKind;

/// The dialect of the schemas, which OpenAPI 3.1 uses as well.
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";
/// A span of time: whole numbers with units.
const SPAN: &str = r"^([0-9]+(ms|s|m|h|d))+$";
/// The keys that tables must have.
const REQUIRED: [(&str, &[&str]); 5] = [
    ("job", &["name"]),
    ("job.pool", &["name", "limit"]),
    ("job.retry", &["max_retries"]),
    ("job.http", &["url"]),
    ("calendar", &["name"]),
];

/// The schema of a value of this kind at this address.
fn schema_of(kind: ValueKind, address: &str) -> Value {
    let texts = json!({ "type": "array", "items": { "type": "string" } });
    let span = json!({ "type": "string", "pattern": SPAN });
    let numbered = |word: &str, least: u64, most: u64| {
        let number = json!({ "type": "integer", "minimum": least, "maximum": most });
        json!({ "type": "object", "properties": { word: number }, "required": [word], "additionalProperties": false })
    };
    match kind {
        ValueKind::Text => json!({ "type": "string" }),
        ValueKind::Flag => json!({ "type": "boolean" }),
        ValueKind::Whole(least, most) => json!({ "type": "integer", "minimum": least, "maximum": most }),
        ValueKind::WholeOrNull(least, most) => {
            json!({ "type": ["integer", "null"], "minimum": least, "maximum": most })
        }
        ValueKind::Number => json!({ "type": "number", "exclusiveMinimum": 0 }),
        ValueKind::Span => span,
        ValueKind::Texts => texts,
        ValueKind::TextOrTexts => json!({ "anyOf": [{ "type": "string" }, texts] }),
        ValueKind::Wholes(least, most) => {
            json!({ "type": "array", "items": { "type": "integer", "minimum": least, "maximum": most } })
        }
        ValueKind::CodesAndRanges => {
            let code = json!({ "type": "integer", "minimum": 100, "maximum": 599 });
            let range = json!({ "type": "string", "pattern": "^[1-5][0-9]{2}(-[1-5][0-9]{2})?$" });
            json!({ "type": "array", "items": { "anyOf": [code, range] } })
        }
        ValueKind::TextTable => json!({ "type": "object", "additionalProperties": { "type": "string" } }),
        ValueKind::Table => table(address),
        ValueKind::Parameters => parameters(),
        ValueKind::OneOf(words) => json!({ "enum": words }),
        ValueKind::SomeOf(words) => json!({ "type": "array", "items": { "enum": words } }),
        ValueKind::Program => json!({ "anyOf": [{ "type": "string" }, texts] }),
        ValueKind::CatchUp => {
            json!({ "anyOf": [{ "enum": ["skip", "latest"] }, numbered("all", 1, u64::from(u32::MAX))] })
        }
        ValueKind::Overlap => json!({ "anyOf": [
                { "enum": ["forbid", "skip", "replace", "allow"] }, numbered("queue", 1, 100), numbered("limit", 2, 64)
            ] }),
    }
}

/// The schema of the parameters of a job.
fn parameters() -> Value {
    let value = json!({ "type": ["string", "integer", "boolean"] });
    json!({
        "type": "object",
        "maxProperties": PARAMETERS_MAX,
        "propertyNames": { "pattern": "^[A-Za-z_][A-Za-z0-9_]{0,63}$" },
        "additionalProperties": {
            "type": "object",
            "properties": {
                "type": { "enum": ["string", "integer", "boolean", "date"] },
                "default": value,
                "allowed": { "type": "array", "items": value, "maxItems": 64 },
                "description": { "type": "string" },
            },
            "additionalProperties": false,
        },
    })
}

/// The schema of a table at this address.
fn table(address: &str) -> Value {
    let mut properties = Map::new();
    for (known, kind, takes) in KEYS {
        let Some(key) = known.strip_prefix(address).and_then(|rest| rest.strip_prefix('.')) else { continue };
        if !key.contains('.') {
            let mut schema = schema_of(*kind, known);
            schema["description"] = format!("Takes {takes}.").into();
            properties.insert(key.to_owned(), schema);
        }
    }
    let mut schema = json!({ "type": "object", "properties": properties, "additionalProperties": false });
    if let Some((_, required)) = REQUIRED.iter().find(|(known, _)| *known == address) {
        schema["required"] = json!(required);
    }
    schema
}

/// The schema of a job, as a file or a request declares it.
pub(crate) fn job() -> Value {
    table("job")
}

/// The schema of a calendar, as a file or a request declares it.
pub(crate) fn calendar() -> Value {
    table("calendar")
}

/// The schema of a namespace in a request.
pub(crate) fn namespace() -> Value {
    table("namespace")
}

/// Lets a text be written as a plain word of YAML, which is read as a number or a truth.
fn with_plain_words(schema: Value) -> Value {
    match schema {
        Value::Object(map) if map.get("type") == Some(&json!("string")) && !map.contains_key("pattern") => {
            let mut map = map;
            map.insert("type".to_owned(), json!(["string", "number", "boolean"]));
            Value::Object(map)
        }
        Value::Object(map) => {
            Value::Object(map.into_iter().map(|(key, value)| (key, with_plain_words(value))).collect())
        }
        Value::Array(list) => Value::Array(list.into_iter().map(with_plain_words).collect()),
        other => other,
    }
}

/// Lets a value that is no text be written as a text with a variable, as `"{{shards}}"`.
fn with_variables(schema: Value) -> Value {
    match schema {
        Value::Object(mut map) => {
            let is_plain = |kind: &Value| ["integer", "number", "boolean"].iter().any(|word| kind == word);
            if map.contains_key("enum") || map.get("type").is_some_and(is_plain) {
                let description = map.remove("description");
                let mut either =
                    json!({ "anyOf": [map, { "type": "string", "pattern": "^\\{\\{.*\\}\\}$" }] });
                if let Some(description) = description {
                    either["description"] = description;
                }
                return either;
            }
            Value::Object(map.into_iter().map(|(key, value)| (key, with_variables(value))).collect())
        }
        Value::Array(list) => Value::Array(list.into_iter().map(with_variables).collect()),
        other => other,
    }
}

/// The schema of the keys that several jobs share.
fn shared_keys(job: &Value) -> Value {
    let mut keys = job.clone();
    if let Some(map) = keys.as_object_mut() {
        map.remove("required");
    }
    if let Some(properties) = keys["properties"].as_object_mut() {
        properties.remove("name");
    }
    keys
}

/// The schema of the variables of a file.
fn variables() -> Value {
    json!({
        "type": "object",
        "propertyNames": { "pattern": "^[A-Za-z_][A-Za-z0-9_]{0,63}$" },
        "additionalProperties": { "anyOf": [
            { "type": ["string", "number", "boolean"] },
            {
                "type": "object",
                "properties": {
                    "type": { "enum": ["string", "integer", "number", "boolean"] },
                    "default": { "type": ["string", "number", "boolean"] },
                    "description": { "type": "string" },
                },
                "additionalProperties": false,
            },
        ] },
        "description": "Variables with their defaults; a table without a default is a variable that needs a value.",
    })
}

/// The schema of a file with jobs and calendars.
pub(crate) fn job_file() -> Value {
    let mut job = with_variables(with_plain_words(job()));
    let mut defaults = shared_keys(&job);
    let template = defaults.clone();
    defaults["description"] = "Keys of every job of the file.".into();
    job["properties"]["template"] =
        json!({ "type": "string", "description": "Takes the name of a template, as \"container\"." });
    json!({
        "$schema": DIALECT,
        "$id": "https://evenkeel.invalid/schemas/job.schema.json",
        "title": "Evenkeel job file",
        "description": "Jobs and calendars in TOML, YAML or JSON; docs/jobs.md explains each key.",
        "type": "object",
        "properties": {
            "variables": variables(),
            "defaults": defaults,
            "template": {
                "type": "object",
                "additionalProperties": template,
                "description": "Keys of the jobs that name the template.",
            },
            "job": { "type": "array", "items": job, "description": "The jobs." },
            "calendar": { "type": "array", "items": with_plain_words(calendar()), "description": "The calendars." },
        },
        "additionalProperties": false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text_input::{ReadTarget, TextFormat, read};
    use evenkeel_core::job::JobFile;

    /// Values that the schema allows.
    fn samples(kind: ValueKind) -> Vec<Value> {
        match kind {
            ValueKind::Text => vec![json!("x")],
            ValueKind::Flag => vec![json!(true), json!(false)],
            ValueKind::Whole(least, most) | ValueKind::WholeOrNull(least, most) => {
                vec![json!(least), json!(most.min(u64::from(u32::MAX)))]
            }
            ValueKind::Number => vec![json!(1), json!(1.5)],
            ValueKind::Span => vec![json!("90s"), json!("1h30m")],
            ValueKind::Texts => vec![json!(["x"])],
            ValueKind::TextOrTexts => vec![json!("0=x"), json!(["x", "y"])],
            ValueKind::Wholes(least, most) => vec![json!([least, most])],
            ValueKind::CodesAndRanges => vec![json!(["200-299", 404])],
            ValueKind::TextTable => vec![json!({ "X": "x" })],
            ValueKind::Table => Vec::new(),
            ValueKind::Parameters => {
                vec![
                    json!({ "n": { "type": "integer", "default": 1, "allowed": [1, "2"], "description": "d" } }),
                ]
            }
            ValueKind::OneOf(words) => words.iter().map(|word| json!(word)).collect(),
            ValueKind::SomeOf(words) => vec![json!(words)],
            ValueKind::Program => vec![json!(["true"]), json!("true")],
            ValueKind::CatchUp => vec![json!("latest"), json!({ "all": 10 })],
            ValueKind::Overlap => vec![json!("replace"), json!({ "queue": 2 }), json!({ "limit": 4 })],
        }
    }

    #[test]
    fn every_value_that_the_schema_of_a_job_allows_is_of_a_type_that_is_read() {
        let mut tried = 0;
        for (address, kind, _) in KEYS.iter().filter(|(address, ..)| address.starts_with("job.")) {
            let names: Vec<&str> = address.split('.').skip(1).collect();
            for sample in samples(*kind) {
                let value = names.iter().rev().fold(sample, |value, name| json!({ *name: value }));
                let mut job = json!({ "name": "x" });
                for (key, value) in value.as_object().expect("a table") {
                    job[key] = value.clone();
                }
                let text = job.to_string();
                if let Err(error) = read::<JobFile>(TextFormat::Json, &text, ReadTarget::Job) {
                    // A table may need further keys, and a text may have to be a name or an address.
                    let of_type = error.text.contains("takes") && !error.text.contains("missing");
                    assert!(!of_type, "{text}: {error}");
                }
                tried += 1;
            }
        }
        assert!(tried > 90, "{tried}");
    }

    #[test]
    fn the_schema_of_a_file_knows_what_its_jobs_share() {
        let file = job_file();
        let tables = &file["properties"];
        let variable = json!({ "type": "string", "pattern": "^\\{\\{.*\\}\\}$" });
        for keys in
            [&tables["defaults"], &tables["template"]["additionalProperties"], &tables["job"]["items"]]
        {
            assert_eq!(keys["properties"]["shards"]["anyOf"][1], variable);
            assert_eq!(keys["properties"]["placement"]["anyOf"][1], variable);
            assert_eq!(keys["properties"]["schedule"].get("pattern"), None);
        }
        let name =
            |keys: &Value| keys["properties"].get("name").is_some() && keys["required"] == json!(["name"]);
        assert!(name(&tables["job"]["items"]) && !name(&tables["defaults"]));
        assert_eq!(tables["job"]["items"]["properties"]["template"]["type"], "string");
        assert!(tables["defaults"]["properties"].get("template").is_none());
        assert!(job()["properties"].get("template").is_none(), "a request has none");
    }

    #[test]
    fn a_schema_names_every_key_once_and_refuses_others() {
        let job = job();
        assert_eq!(job["required"], json!(["name"]));
        assert_eq!(job["additionalProperties"], json!(false));
        assert_eq!(job["properties"]["shards"]["maximum"], json!(100_000));
        assert_eq!(
            job["properties"]["limits"]["properties"]["together"]["properties"]["cores"]["type"],
            "number"
        );
        assert!(job["properties"].get("together").is_none(), "a key of an inner table");
    }
}
