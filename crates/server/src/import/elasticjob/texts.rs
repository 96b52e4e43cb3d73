//! The texts in which ElasticJob's jobs are declared.

use roxmltree::{Document, Node};
use serde_json::{Map, Value};

use super::super::foreign_keys::{ForeignKeys, camel};
use super::super::helpers;
use super::ElasticJobConfig;
use crate::exit::CliError;

/// Reads the settings of all jobs of a text.
///
/// # Errors
/// It is neither XML, YAML nor JSON.
pub(super) fn read(text: &str, shown: &str) -> Result<Vec<ElasticJobConfig>, CliError> {
    let wrong = |why: &dyn std::fmt::Display| CliError::invalid(format!("{shown}: {why}"));
    if text.trim_start().starts_with('<') {
        let document = Document::parse(text).map_err(|e| wrong(&e))?;
        return Ok(document.descendants().filter_map(spring).collect());
    }
    let mut jobs = Vec::new();
    for document in helpers::yaml(text, shown)? {
        match document {
            // One text for each node of ZooKeeper, as a list.
            Value::Array(list) => list.into_iter().for_each(|value| one(value, &mut jobs)),
            value => one(value, &mut jobs),
        }
    }
    Ok(jobs)
}

/// A job of Spring's XML: `elasticjob:job` of 3.x, `job:simple`, `job:dataflow` and `job:script` of 2.x.
fn spring(node: Node<'_, '_>) -> Option<ElasticJobConfig> {
    let namespace = node.tag_name().namespace().unwrap_or_default();
    let kind = match node.tag_name().name() {
        "job" if namespace.contains("elasticjob") => "",
        name @ ("simple" | "dataflow" | "script") if namespace.contains("dangdang.com") => name,
        _ => return None,
    };
    let mut config = Map::new();
    for attribute in node.attributes() {
        let key = match attribute.name() {
            "id" => "jobName".to_owned(),
            "class" | "job-ref" => "jobClass".to_owned(),
            "registry-center-ref" | "event-trace-rdb-data-source" | "tracing-ref" => continue,
            "job-extra-configurations-ref" => "jobExtraConfigurations".to_owned(),
            "script-command-line" => "scriptCommandLine".to_owned(),
            name => camel(name),
        };
        config.insert(key, attribute.value().into());
    }
    if !kind.is_empty() {
        config.insert("jobType".to_owned(), kind.to_ascii_uppercase().into());
    }
    let mut props = Map::new();
    for prop in node.descendants().filter(|node| node.tag_name().name() == "prop") {
        let text = prop.text().map(str::trim).filter(|text| !text.is_empty());
        if let (Some(key), Some(value)) = (prop.attribute("key"), text.or_else(|| prop.attribute("value"))) {
            props.insert(key.to_owned(), value.into());
        }
    }
    if !props.is_empty() {
        config.insert("props".to_owned(), Value::Object(props));
    }
    let listeners = node.children().filter(|child| child.tag_name().name().ends_with("listener"));
    if listeners.count() > 0 {
        config.insert("jobListenerTypes".to_owned(), true.into());
    }
    Some(config)
}

/// The jobs of one document: Spring Boot's `elasticjob.jobs`, or one `config` node.
fn one(document: Value, jobs: &mut Vec<ElasticJobConfig>) {
    let Value::Object(mut map) = document else { return };
    let nested = map.get("elasticjob").and_then(|own| own.get("jobs")).cloned();
    let nested = nested.or_else(|| map.remove("elasticjob.jobs"));
    if let Some(Value::Object(named)) = nested {
        for (name, config) in named {
            if let Ok(Value::Object(mut config)) = ForeignKeys::of("", config).map(camel_case) {
                config.entry("jobName").or_insert(name.into());
                jobs.push(config);
            }
        }
        return;
    }
    if map.contains_key("jobName") {
        jobs.push(map);
    }
}

fn camel_case(keys: ForeignKeys) -> Value {
    keys.camel_case().into_value()
}
