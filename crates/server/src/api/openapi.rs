//! The description of the API as OpenAPI 3.1, made of the tables of addresses and of the types of requests and answers.

#[cfg(test)]
mod client_contract;
mod page;

use std::sync::OnceLock;

use evenkeel_core::principal::Role;
use schemars::generate::SchemaSettings;
use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::changes::CHANGES;
use super::demand::{Demand, Scope};
use super::health;
use super::reads::READS;
use super::route_docs::{AnswerDocs, RouteDocs};
use crate::text_input::schema;

pub(super) use page::page;

/// The generators of schemas: what is read may leave out keys that an answer always has.
struct Generators {
    reads: SchemaGenerator,
    answers: SchemaGenerator,
}

/// The description as JSON text.
pub(crate) fn text() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| format!("{:#}\n", document()))
}

/// The JSON Schema of job files as text.
pub(crate) fn job_file_text() -> String {
    format!("{:#}\n", schema::job_file())
}

/// The description.
pub(crate) fn document() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
    });
    let mut make = Generators {
        reads: settings.clone().into_generator(),
        answers: settings.for_serialize().into_generator(),
    };
    let mut paths: Map<String, Value> = Map::new();
    let mut add = |method: &str, path: &str, operation: Value| {
        let path = paths.entry(path.to_owned()).or_insert_with(|| json!({}));
        path[method] = operation;
    };
    for read in READS {
        let method = read.method.as_str().to_ascii_lowercase();
        add(&method, read.path, make.operation(&method, read.path, read.demand, read.docs, &[]));
    }
    for (path, docs) in health::PROBES {
        add("get", path, make.probe(path, docs));
    }
    for change in CHANGES {
        let method = change.method.as_str().to_ascii_lowercase();
        let operation = make.operation(&method, change.path, change.demand, change.docs, &change.verbs());
        add(&method, change.path, operation);
    }
    let mut schemas = make.reads.take_definitions(true);
    schemas.extend(make.answers.take_definitions(true));
    schemas.insert("Job".to_owned(), schema::job());
    schemas.insert("Calendar".to_owned(), schema::calendar());
    schemas.insert("NamespaceBody".to_owned(), schema::namespace());
    schemas.insert("Problem".to_owned(), problem());
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Evenkeel",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "The HTTP interface of the whole cluster, which every node serves. docs/api.md explains what \
                            no schema says: namespaces in names, edits and versions, limits.",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "security": [{ "key": [] }, { "session": [] }],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "responses": { "Problem": {
                "description": "The request was not carried out, or it is not known whether it was (504).",
                "content": { "application/problem+json": { "schema": { "$ref": "#/components/schemas/Problem" } } },
            } },
            "securitySchemes": {
                "key": { "type": "http", "scheme": "bearer", "description": "An API token, or the cluster's key." },
                "session": { "type": "apiKey", "in": "cookie", "name": "evenkeel-session" },
            },
        },
    })
}

/// The schema of a refusal.
fn problem() -> Value {
    let text = |what: &str| json!({ "type": "string", "description": what });
    json!({
        "type": "object",
        "description": "A refusal in the form of RFC 9457.",
        "required": ["title", "status", "detail", "code"],
        "properties": {
            "title": text("The status in words."),
            "status": { "type": "integer", "description": "The status." },
            "detail": text("What is wrong, and the fix."),
            "code": text("The kind of refusal: docs/api.md lists them."),
            "version": { "type": "integer", "description": "The version that the object has, with 412." },
        },
    })
}

impl Generators {
    /// An address that needs no key, and answers the same with 503.
    fn probe(&mut self, path: &str, docs: RouteDocs) -> Value {
        let mut operation = self.operation("get", path, Demand::new(Role::Viewer, Scope::Caller), docs, &[]);
        operation["description"] = "Needs no key, and is answered under any host name.".into();
        operation["security"] = json!([]);
        let mut unavailable = operation["responses"]["200"].clone();
        unavailable["description"] = "The node does not: `status` says why.".into();
        operation["responses"]["503"] = unavailable;
        operation
    }

    fn operation(
        &mut self,
        method: &str,
        path: &str,
        demand: Demand,
        docs: RouteDocs,
        verbs: &[&'static str],
    ) -> Value {
        let mut parameters: Vec<Value> = path_parameters(path, verbs);
        if let Some(query) = docs.query {
            parameters.extend(query_parameters(&query(&mut self.reads)));
        }
        if method != "get" && path.contains("/{name}") && !path.contains("/nodes/") {
            parameters.extend(["If-Match", "If-None-Match"].map(precondition));
        }
        let runs = path.contains("/jobs/") && path.ends_with("{verb}") && !path.contains("/shards/");
        if method == "post" && (runs || path.contains("/hooks")) {
            parameters.push(idempotency_key());
        }
        if path == "/api/v1/live" {
            parameters.push(last_event_id());
        }
        let (kind, content) = match docs.answer {
            AnswerDocs::Json(of) => ("application/json", json!({ "schema": of(&mut self.answers) })),
            AnswerDocs::Text(kind) => (kind, json!({ "schema": { "type": "string" } })),
        };
        let refusal = json!({ "$ref": "#/components/responses/Problem" });
        let mut operation = json!({
            "operationId": operation_id(method, path),
            "tags": [tag(path)],
            "summary": docs.summary,
            "description": demanded(demand),
            "parameters": parameters,
            "responses": {
                "200": { "description": "It was carried out.", "content": { kind: content } },
                "4XX": refusal,
                "5XX": refusal,
            },
        });
        if let Some((body, required)) = docs.body {
            let schema = body(&mut self.reads);
            operation["requestBody"] =
                json!({ "required": required, "content": { "application/json": { "schema": schema } } });
        }
        operation
    }
}

/// The parameters in a path.
fn path_parameters(path: &str, verbs: &[&'static str]) -> Vec<Value> {
    let names = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let parameter = |name: &str| {
        let schema = match name {
            "verb" => json!({ "enum": verbs }),
            _ => json!({ "type": "string", "minLength": 1 }),
        };
        json!({ "name": name, "in": "path", "required": true, "schema": schema, "description": described(name) })
    };
    names.map(parameter).collect()
}

fn described(parameter: &str) -> &'static str {
    match parameter {
        "name" => {
            "The name, with its namespace and `/` before it, escaped as `%2F`, if that is not `default`."
        }
        "run" => "The id of a run, or of a fire.",
        "set" => "Shards, as `0-3,7`.",
        "verb" => "What is done.",
        "token" => "The token, for senders that cannot set a header.",
        _ => "",
    }
}

/// The query keys that a type has as its fields.
fn query_parameters(schema: &Schema) -> Vec<Value> {
    let schema = schema.as_value();
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let properties = schema["properties"].as_object().cloned().unwrap_or_default();
    let parameter = |(name, mut schema): (String, Value)| {
        let description = schema.as_object_mut().and_then(|schema| schema.remove("description"));
        json!({
            "name": name,
            "in": "query",
            "required": required.contains(&json!(name)),
            "schema": without_null(schema),
            "description": description.unwrap_or_else(|| json!("")),
        })
    };
    properties.into_iter().map(parameter).collect()
}

/// A query key is left out, and never `null`.
fn without_null(mut schema: Value) -> Value {
    if let Some(kinds) = schema["type"].as_array() {
        let kinds: Vec<Value> = kinds.iter().filter(|kind| **kind != json!("null")).cloned().collect();
        schema["type"] = if let [only] = kinds.as_slice() { only.clone() } else { json!(kinds) };
    }
    schema
}

fn idempotency_key() -> Value {
    json!({
        "name": "Idempotency-Key",
        "in": "header",
        "required": false,
        "schema": { "type": "string", "minLength": 1, "maxLength": 255 },
        "description": "A text of the caller's own: the same request with the same key runs a job once only.",
    })
}

fn last_event_id() -> Value {
    json!({
        "name": "Last-Event-ID",
        "in": "header",
        "required": false,
        "schema": { "type": "string" },
        "description": "The id of the last event that the caller has: the stream goes on after it. docs/concepts/live.md \
                        describes the events.",
    })
}

fn precondition(name: &str) -> Value {
    json!({
        "name": name,
        "in": "header",
        "required": false,
        "schema": { "type": "string", "pattern": "^(\\*|\"[0-9]+\")$" },
        "description": "The version that the caller has read, or `*`: docs/api.md#edits.",
    })
}

fn demanded(Demand { role, scope }: Demand) -> String {
    let place = match scope {
        Scope::Cluster => "for the cluster",
        Scope::Job | Scope::Run => "in the namespace of the job",
        Scope::Calendar => "in the namespace of the calendar",
        Scope::Secret => "in the namespace of the secret",
        Scope::Namespace => "in the namespace",
        Scope::List => "in the namespace that the query names; without one, for the cluster",
        Scope::Body => "where the body's objects are",
        Scope::Trigger => return "Takes the token of a webhook, and no other.".to_owned(),
        Scope::Caller => return "Each caller that is let in may ask for it.".to_owned(),
    };
    format!("Demands the role `{}` {place}.", role.as_str())
}

/// The group of an address: what follows the version.
fn tag(path: &str) -> &str {
    path.strip_prefix("/api/v1/").unwrap_or(path).trim_matches('/').split('/').next().unwrap_or_default()
}

/// A name for an operation that is the same in every version: `get_jobs_name_next`.
fn operation_id(method: &str, path: &str) -> String {
    let words = path.strip_prefix("/api/v1").unwrap_or(path).split(['/', '{', '}', '-', '.']);
    words.filter(|word| !word.is_empty()).fold(method.to_owned(), |id, word| format!("{id}_{word}"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Every `$ref` below a value.
    fn references(value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(map) => {
                found.extend(map.get("$ref").and_then(Value::as_str).map(str::to_owned));
                map.values().for_each(|value| references(value, found));
            }
            Value::Array(list) => list.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }

    #[test]
    fn every_reference_leads_somewhere_and_every_operation_has_a_name_of_its_own() {
        let document = document();
        let mut found = BTreeSet::new();
        references(&document, &mut found);
        for reference in found {
            let pointer = reference.strip_prefix('#').expect("within the document");
            assert!(document.pointer(pointer).is_some(), "{reference}");
        }
        let paths = document["paths"].as_object().expect("paths");
        let operations: Vec<&Value> =
            paths.values().flat_map(|path| path.as_object().unwrap().values()).collect();
        let ids: BTreeSet<&str> = operations.iter().filter_map(|of| of["operationId"].as_str()).collect();
        assert_eq!(ids.len(), operations.len());
        assert!(operations.len() >= 60, "{}", operations.len());
        for operation in operations {
            assert!(!operation["summary"].as_str().expect("a summary").ends_with('.'), "{operation}");
        }
    }

    #[test]
    fn a_type_that_is_read_and_answered_has_one_schema() {
        // Where the two differ, one of them would be lost.
        let settings = SchemaSettings::draft2020_12();
        let (mut reads, mut answers) =
            (settings.clone().into_generator(), settings.for_serialize().into_generator());
        for docs in READS.iter().map(|read| read.docs).chain(CHANGES.iter().map(|change| change.docs)) {
            let _ = docs.query.map(|of| of(&mut reads));
            let _ = docs.body.map(|(of, _)| of(&mut reads));
            if let AnswerDocs::Json(of) = docs.answer {
                let _ = of(&mut answers);
            }
        }
        for (name, schema) in reads.definitions() {
            assert!(answers.definitions().get(name).is_none_or(|other| other == schema), "{name}");
        }
    }
}
