//! The client crate has a method for each operation, with the query, the body and the answer that the description has.

use evenkeel_client::operations::{OPERATIONS, Operation};
use schemars::SchemaGenerator;
use serde_json::Value;

use super::super::changes::CHANGES;
use super::super::reads::READS;
use super::super::route_docs::{AnswerDocs, RouteDocs};

/// Where the API is.
const PREFIX: &str = "/api/v1";

/// A route of the API: its method, its path below the prefix, the verbs in its path, and what the description says.
struct DescribedRoute {
    method: &'static str,
    path: &'static str,
    verbs: Vec<&'static str>,
    docs: RouteDocs,
}

/// The routes that answer with JSON, but for webhooks: their callers have a token and no client.
fn routes() -> Vec<DescribedRoute> {
    let reads = READS.iter().map(|read| (&read.method, read.path, Vec::new(), read.docs));
    let changes = CHANGES.iter().map(|change| (&change.method, change.path, change.verbs(), change.docs));
    let described = reads.chain(changes).filter_map(|(method, path, verbs, docs)| {
        let path = path.strip_prefix(PREFIX)?;
        Some(DescribedRoute { method: method.as_str(), path, verbs, docs })
    });
    let is_json = |route: &DescribedRoute| matches!(route.docs.answer, AnswerDocs::Json(_));
    described.filter(|route| is_json(route) && !route.path.starts_with("/hooks")).collect()
}

impl DescribedRoute {
    /// The paths of its operations: with the placeholder of the verb, and with each verb in it.
    fn paths(&self) -> Vec<String> {
        let with_verbs = self.verbs.iter().map(|verb| self.path.replace("{verb}", verb));
        [self.path.to_owned()].into_iter().chain(with_verbs).collect()
    }

    fn has(&self, operation: &Operation) -> bool {
        self.method == operation.method && self.paths().iter().any(|path| path == operation.path)
    }
}

/// Whether a schema is this one, or one of those that it allows.
fn allows(described: &Value, given: &Value) -> bool {
    let any = described["anyOf"].as_array();
    described == given || any.is_some_and(|all| all.contains(given))
}

/// Whether this is the schema of what is declared as in a file, whose schema is made of the table of its keys.
fn is_declared(described: &Value) -> bool {
    let names = ["Job", "Calendar", "NamespaceBody"];
    names.iter().any(|name| described["$ref"] == format!("#/components/schemas/{name}"))
}

#[test]
fn each_operation_has_a_method_of_the_client() {
    for route in routes() {
        let has = |path: &str| OPERATIONS.iter().any(|of| of.method == route.method && of.path == path);
        let with_verb = |verb: &&str| has(&route.path.replace("{verb}", verb));
        let is_whole = has(route.path) || !route.verbs.is_empty() && route.verbs.iter().all(with_verb);
        assert!(is_whole, "{} {}", route.method, route.path);
    }
}

#[test]
fn each_method_of_the_client_asks_and_understands_what_the_description_says() {
    let routes = routes();
    for operation in OPERATIONS {
        // A path with a verb in it may be a route of its own, too.
        let own =
            routes.iter().find(|route| route.method == operation.method && route.path == operation.path);
        let route = own.or_else(|| routes.iter().find(|route| route.has(operation)));
        let docs = route.unwrap_or_else(|| panic!("{} is no operation of the API", operation.name)).docs;
        let mut make = SchemaGenerator::default();
        let name = operation.name;
        if let Some(query) = operation.query {
            let described = docs.query.unwrap_or_else(|| panic!("{name} takes no query"));
            assert_eq!(query(&mut make), described(&mut make), "the query of {name}");
        }
        let given = operation.body.map(|body| body(&mut make).to_value());
        match (docs.body, given) {
            (Some((body, _)), Some(given)) => {
                assert!(allows(body(&mut make).as_value(), &given), "the body of {name}: {given}");
            }
            (Some((body, true)), None) => {
                assert!(is_declared(body(&mut make).as_value()), "{name} must have a body");
            }
            (None, Some(_)) => panic!("{name} takes no body"),
            (_, None) => {}
        }
        let AnswerDocs::Json(answer) = docs.answer else { panic!("{name} answers with text") };
        let understood = (operation.answer)(&mut make).to_value();
        assert!(allows(answer(&mut make).as_value(), &understood), "the answer of {name}: {understood}");
    }
}
