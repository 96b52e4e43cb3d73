//! The reference of the API as a page: complete, without scripts, and of nothing but this node.

use std::collections::BTreeMap;

use maud::{DOCTYPE, Markup, html};
use serde_json::{Map, Value};

/// The page of a description.
pub(crate) fn page(document: &Value) -> Markup {
    let none = Map::new();
    let paths = document["paths"].as_object().unwrap_or(&none);
    let schemas = document["components"]["schemas"].as_object().unwrap_or(&none);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "Evenkeel API" }
                link rel="stylesheet" href="../console.css";
            }
            body {
                main.reference {
                    h1 { "Evenkeel API " (text(&document["info"]["version"])) }
                    p { (prose(&document["info"]["description"])) }
                    p { a href="../api/v1/openapi.json" { "openapi.json" } " · " a href="../api/v1/schemas/job.json" { "schema of job files" } }
                    @for (tag, operations) in groups(paths) {
                        h2 { (tag) }
                        @for (path, method, operation) in operations { (operation_part(method, path, operation)) }
                    }
                    h2 { "Schemas" }
                    @for (name, schema) in schemas {
                        h3 id=(anchor(name)) { (name) }
                        p { (prose(&schema["description"])) }
                        (properties(schema))
                    }
                }
            }
        }
    }
}

/// The operations by their groups: path, method and description.
fn groups(paths: &Map<String, Value>) -> BTreeMap<&str, Vec<(&str, &str, &Value)>> {
    let mut groups: BTreeMap<&str, Vec<(&str, &str, &Value)>> = BTreeMap::new();
    for (path, operations) in paths {
        for (method, operation) in operations.as_object().into_iter().flatten() {
            let tag = operation["tags"][0].as_str().unwrap_or_default();
            groups.entry(tag).or_default().push((path, method, operation));
        }
    }
    groups
}

/// A text in which code stands between backticks.
fn prose(text: &Value) -> Markup {
    let parts = text.as_str().unwrap_or_default().split('`');
    html! { @for (at, part) in parts.enumerate() { @if at % 2 == 1 { code { (part) } } @else { (part) } } }
}

fn operation_part(method: &str, path: &str, operation: &Value) -> Markup {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
    let body = &operation["requestBody"]["content"]["application/json"]["schema"];
    let answers = operation["responses"]["200"]["content"].as_object().cloned().unwrap_or_default();
    html! {
        h3 id=(text(&operation["operationId"])) { code { (method.to_ascii_uppercase()) " " (path) } }
        p { (prose(&operation["summary"])) ". " (prose(&operation["description"])) }
        @if !parameters.is_empty() {
            table {
                thead { tr { th { "parameter" } th { "in" } th { "type" } th { "meaning" } } }
                tbody {
                    @for parameter in &parameters {
                        tr {
                            td { code { (text(&parameter["name"])) } }
                            td { (text(&parameter["in"])) }
                            td { (shape(&parameter["schema"])) }
                            td { (prose(&parameter["description"])) }
                        }
                    }
                }
            }
        }
        @if !body.is_null() { p { "Body: " (shape(body)) } }
        @for (kind, content) in &answers { p { "Answer: " (shape(&content["schema"])) " as " code { (kind) } } }
    }
}

fn properties(schema: &Value) -> Markup {
    let none = Map::new();
    let rows = schema["properties"].as_object().unwrap_or(&none);
    html! {
        @if !rows.is_empty() {
            table {
                thead { tr { th { "key" } th { "type" } th { "meaning" } } }
                tbody {
                    @for (name, of) in rows {
                        tr {
                            td { code { (name) } }
                            td { (shape(of)) }
                            td { (prose(&of["description"])) }
                        }
                    }
                }
            }
        }
    }
}

/// A schema in a few words, with a link where it has a name.
fn shape(schema: &Value) -> Markup {
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        return html! { a href={ "#" (anchor(name)) } { (name) } };
    }
    let several = ["anyOf", "oneOf", "allOf"].into_iter().find_map(|key| schema[key].as_array());
    if let Some(several) = several {
        return html! { @for (at, one) in several.iter().enumerate() { @if at > 0 { " or " } (shape(one)) } };
    }
    if let Some(words) = schema["enum"].as_array() {
        return html! { @for (at, word) in words.iter().enumerate() { @if at > 0 { " | " } code { (word) } } };
    }
    if !schema["items"].is_null() {
        return html! { "list of " (shape(&schema["items"])) };
    }
    match &schema["type"] {
        Value::Array(kinds) => {
            html! { @for (at, kind) in kinds.iter().enumerate() { @if at > 0 { " or " } (kind.as_str().unwrap_or_default()) } }
        }
        kind => html! { (kind.as_str().unwrap_or("any")) },
    }
}

fn anchor(name: &str) -> String {
    format!("schema-{name}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::openapi::document;

    #[test]
    fn the_page_has_every_operation_and_each_of_its_links_leads_somewhere() {
        let document = document();
        let page = page(&document).into_string();
        for (path, operations) in document["paths"].as_object().expect("paths") {
            for method in operations.as_object().expect("operations").keys() {
                let head = format!("<code>{} {path}</code>", method.to_ascii_uppercase());
                assert_eq!(page.matches(&head).count(), 1, "{head}");
            }
        }
        let links = page.split("href=\"#").skip(1).filter_map(|rest| rest.split('"').next());
        let links: std::collections::BTreeSet<&str> = links.collect();
        assert!(links.len() > 40, "{links:?}");
        for link in links {
            assert!(page.contains(&format!("id=\"{link}\"")), "{link}");
        }
        assert!(!page.contains("<script") && !page.contains('`'), "no script, and no mark of code");
    }
}
