//! Tools of the operations of the API.

use evenkeel_client::operations::{OPERATIONS, Operation};
use evenkeel_client::requests::LogQuery;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::client::ApiClient;

/// The longest text of an answer, in bytes.
const ANSWER_MAX: usize = 100 * 1024;
/// The operations that only read although they are no `GET`.
const READS_BY_POST: [&str; 1] = ["plan_changes"];
/// Operations that are no tools: their requests or answers have secrets, which should not stand in a conversation.
const WITH_SECRETS: [&str; 8] = [
    "create_token",
    "rotate_token",
    "create_join_token",
    "create_login_link",
    "put_secret",
    "put_user",
    "change_password",
    "log_user_out",
];
/// The operations whose bodies have the name that is in the path, too.
const NAMED: [&str; 2] = ["put_job", "put_calendar"];
/// How many lines of output are read unless the call says otherwise.
const LOG_LINES: u64 = 200;
/// The argument that confirms a change, and that of a body.
const CONFIRM: &str = "confirm";
const BODY: &str = "body";

/// A tool.
#[derive(Debug)]
pub(super) struct McpTool {
    kind: ToolKind,
    schema: Value,
}

#[derive(Debug)]
enum ToolKind {
    /// An operation of the table.
    Operation(&'static Operation),
    /// The output of a run, which is no JSON.
    Logs,
}

/// The arguments of a call, checked.
#[derive(Debug)]
pub(super) struct ToolCall {
    /// The values of the placeholders of the path.
    places: Vec<String>,
    query: Map<String, Value>,
    body: Value,
    /// Whether the call says that it is confirmed.
    pub(super) is_confirmed: bool,
}

/// What a call is answered.
#[derive(Debug)]
pub(super) struct ToolAnswer {
    pub(super) text: String,
    pub(super) is_error: bool,
}

impl ToolAnswer {
    /// An error that the caller can correct.
    pub(super) fn error(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_error: true }
    }

    /// A text, cut off where it is too long.
    fn text(text: String) -> Self {
        if text.len() <= ANSWER_MAX {
            return Self { text, is_error: false };
        }
        let end = (0..=ANSWER_MAX).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        let note = format!(
            "\n… cut off: these are the first {end} of {} bytes. Ask for less: a smaller limit, a label, a namespace or a shorter span",
            text.len()
        );
        Self { text: text[..end].to_owned() + &note, is_error: false }
    }
}

impl ToolCall {
    /// A text that is the same for the same change.
    pub(super) fn key(&self) -> String {
        json!([self.places, self.query, self.body]).to_string()
    }
}

/// The placeholders of a path, in order.
fn places(path: &str) -> Vec<&str> {
    path.split('{').skip(1).filter_map(|rest| rest.split_once('}').map(|(name, _)| name)).collect()
}

impl McpTool {
    /// The tools that are offered.
    pub(super) fn all(allow_write: bool) -> Vec<Self> {
        let offered = |operation: &&Operation| {
            !WITH_SECRETS.contains(&operation.name) && (allow_write || is_read(operation))
        };
        let mut tools: Vec<Self> = OPERATIONS.iter().filter(offered).map(Self::of_operation).collect();
        tools.push(Self { kind: ToolKind::Logs, schema: logs_schema() });
        tools
    }

    fn of_operation(operation: &'static Operation) -> Self {
        let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
        let mut generator = settings.into_generator();
        let mut properties = Map::new();
        let mut required: Vec<Value> = Vec::new();
        for place in places(operation.path) {
            properties.insert(place.to_owned(), json!({ "type": "string" }));
            required.push(json!(place));
        }
        if let Some(query) = operation.query {
            let schema = query(&mut generator).to_value();
            properties.extend(schema["properties"].as_object().cloned().unwrap_or_default());
            required.extend(schema["required"].as_array().cloned().unwrap_or_default());
        }
        if let Some(body) = operation.body {
            let schema = body(&mut generator).to_value();
            if schema["required"].as_array().is_some_and(|fields| !fields.is_empty()) {
                required.push(json!(BODY));
            }
            properties.insert(BODY.to_owned(), schema);
        } else if operation.declares {
            let text = "The declaration, with the keys of a job, calendar or namespace as in a file";
            properties.insert(BODY.to_owned(), json!({ "type": "object", "description": text }));
            required.push(json!(BODY));
        }
        if !is_read(operation) {
            let text = "Leave it out of the first call, which says what would be done. Then true, with the same arguments, to do it";
            properties.insert(CONFIRM.to_owned(), json!({ "type": "boolean", "description": text }));
        }
        let mut schema = json!({ "type": "object", "properties": properties, "additionalProperties": false });
        if !required.is_empty() {
            schema["required"] = Value::Array(required);
        }
        let definitions = generator.take_definitions(true);
        if !definitions.is_empty() {
            schema["$defs"] = Value::Object(definitions);
        }
        Self { kind: ToolKind::Operation(operation), schema }
    }

    /// Its name.
    pub(super) fn name(&self) -> &'static str {
        match self.kind {
            ToolKind::Operation(operation) => operation.name,
            ToolKind::Logs => "read_run_logs",
        }
    }

    /// Whether it changes something.
    pub(super) fn is_write(&self) -> bool {
        matches!(self.kind, ToolKind::Operation(operation) if !is_read(operation))
    }

    /// How it is listed.
    pub(super) fn description(&self) -> Value {
        let about = match self.kind {
            ToolKind::Operation(operation) => operation.about.trim().to_owned(),
            ToolKind::Logs => "Reads the last lines of the output of a run.".to_owned(),
        };
        json!({
            "name": self.name(),
            "description": about,
            "inputSchema": self.schema,
            "annotations": {
                "readOnlyHint": !self.is_write(),
                "destructiveHint": self.is_write(),
                "openWorldHint": false,
            },
        })
    }

    /// Checks the arguments of a call as far as that needs no node.
    ///
    /// # Errors
    /// An argument is unknown, or one is missing; the text says which there are.
    pub(super) fn checked(&self, mut given: Map<String, Value>) -> Result<ToolCall, String> {
        let known = self.schema["properties"].as_object().cloned().unwrap_or_default();
        if let Some(unknown) = given.keys().find(|key| !known.contains_key(*key)) {
            let known: Vec<&str> = known.keys().map(String::as_str).collect();
            return Err(format!("{} has no argument {unknown:?}: it takes {}", self.name(), listed(&known)));
        }
        given.retain(|_, value| !value.is_null());
        for key in self.schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if !given.contains_key(key) {
                return Err(format!("{} needs the argument {key:?}", self.name()));
            }
        }
        let is_confirmed = match given.remove(CONFIRM) {
            None => false,
            Some(Value::Bool(confirm)) => confirm,
            Some(other) => return Err(format!("{CONFIRM} is {other}: it is true or false")),
        };
        let mut body = given.remove(BODY).unwrap_or_default();
        if !body.is_null() && !body.is_object() {
            return Err(format!("{BODY} must be an object"));
        }
        let path = match self.kind {
            ToolKind::Operation(operation) => operation.path,
            ToolKind::Logs => "/runs/{run}/logs",
        };
        let place = |name: &str| match given.remove(name) {
            Some(Value::String(text)) if !text.is_empty() => Ok(text),
            Some(Value::Number(number)) => Ok(number.to_string()),
            other => Err(format!("{name} is {}: it must be a text", other.unwrap_or_default())),
        };
        let places: Vec<String> = places(path).into_iter().map(place).collect::<Result<_, _>>()?;
        // A declaration names what it declares; in a call the path has named it already.
        if let (true, Some(name), Some(fields)) =
            (NAMED.contains(&self.name()), places.first(), body.as_object_mut())
        {
            fields.entry("name").or_insert_with(|| json!(name));
        }
        if let Some((key, value)) = given.iter().find(|(_, value)| value.is_object() || value.is_array()) {
            return Err(format!("{key} is {value}: it must be a text, a number or a truth value"));
        }
        Ok(ToolCall { places, query: given, body, is_confirmed })
    }

    /// Asks a node, or changes something.
    pub(super) fn answer(&self, client: &ApiClient, call: &ToolCall) -> ToolAnswer {
        let operation = match self.kind {
            ToolKind::Operation(operation) => operation,
            ToolKind::Logs => return logs(client, call),
        };
        match client.call(operation, &call.places, &Value::Object(call.query.clone()), &call.body) {
            Ok(answer) => ToolAnswer::text(answer.to_string()),
            Err(error) => ToolAnswer::error(error.message),
        }
    }

    /// Says what a change would do, and changes nothing.
    pub(super) fn described(&self, client: &ApiClient, call: &ToolCall) -> ToolAnswer {
        let ToolKind::Operation(operation) = self.kind else {
            return ToolAnswer::error("it changes nothing");
        };
        let mut text =
            format!("Nothing was changed. {} {}", operation.about.trim(), subject(operation, call));
        if !call.body.is_null() {
            text.push_str(&format!("\nThe body: {}", call.body));
        }
        match planned(client, operation, call) {
            Some(Ok(plan)) => text.push_str(&format!("\nWhat would change: {plan}")),
            Some(Err(why)) => return ToolAnswer::error(format!("It would be refused: {why}")),
            None => {}
        }
        text.push_str("\nTo do it, repeat this call with confirm: true and the same arguments, with the consent of the person for whom you work.");
        ToolAnswer::text(text)
    }
}

fn is_read(operation: &Operation) -> bool {
    operation.method == "GET" || READS_BY_POST.contains(&operation.name)
}

fn listed(names: &[&str]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// What a call is about, for people.
fn subject(operation: &Operation, call: &ToolCall) -> String {
    let places =
        places(operation.path).into_iter().zip(&call.places).map(|(name, value)| format!("{name} = {value}"));
    let query = call.query.iter().map(|(name, value)| format!("{name} = {value}"));
    let all: Vec<String> = places.chain(query).collect();
    format!(
        "({} {}{})",
        operation.method,
        operation.path,
        all.iter().map(|one| format!(", {one}")).collect::<String>()
    )
}

/// The plan of a change, if the API can make one.
fn planned(client: &ApiClient, operation: &Operation, call: &ToolCall) -> Option<Result<String, String>> {
    let plan = |body: Value| {
        let operation = OPERATIONS.iter().find(|operation| operation.name == "plan_changes")?;
        let answer = client.call(operation, &[], &Value::Null, &body);
        Some(answer.map(|plan| plan.to_string()).map_err(|error| error.message))
    };
    let place = |n: usize| call.places.get(n).cloned().unwrap_or_default();
    match (operation.name, place(1).as_str()) {
        ("apply_jobs", _) => plan(json!({ "jobs": call.body["jobs"] })),
        ("put_job", _) => plan(json!({ "jobs": [call.body] })),
        ("put_calendar", _) => plan(json!({ "calendars": [call.body] })),
        ("switch_job", verb @ ("resume" | "enable")) => plan(json!({ verb: [place(0)] })),
        ("roll_back_job" | "backfill_job", _) => {
            let mut body = call.body.clone();
            body["dry_run"] = Value::Bool(true);
            let answer = client.call(operation, &call.places, &Value::Null, &body);
            Some(answer.map(|plan| plan.to_string()).map_err(|error| error.message))
        }
        _ => None,
    }
}

fn logs_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "run": { "type": "string", "description": "The run, as list_runs has it" },
            "attempt": { "type": "integer", "minimum": 1, "description": "The attempt; the latest one that has started if left out" },
            "tail": { "type": "integer", "minimum": 1, "maximum": 10_000, "description": "How many of the last lines; 200 if left out" },
            "grep": { "type": "string", "description": "Only the lines that contain this text" },
        },
        "required": ["run"],
        "additionalProperties": false,
    })
}

/// The last lines of the output of a run.
fn logs(client: &ApiClient, call: &ToolCall) -> ToolAnswer {
    let mut wanted = call.query.clone();
    if !wanted.contains_key("tail") {
        wanted.insert("tail".to_owned(), json!(LOG_LINES));
    }
    let query: LogQuery = match serde_json::from_value(Value::Object(wanted)) {
        Ok(query) => query,
        Err(error) => return ToolAnswer::error(error.to_string()),
    };
    let mut text = Vec::new();
    let run = call.places.first().cloned().unwrap_or_default();
    let read = client.read_run_logs(run, &query, |piece| {
        // One byte more than is shown is enough to know that there is more.
        let room = (ANSWER_MAX + 1).saturating_sub(text.len()).min(piece.len());
        text.extend_from_slice(&piece[..room]);
        Ok::<(), evenkeel_client::ClientError>(())
    });
    match read {
        Ok(()) => ToolAnswer::text(String::from_utf8_lossy(&text).into_owned()),
        Err(error) => ToolAnswer::error(error.message),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn tool(name: &str) -> McpTool {
        McpTool::all(true).into_iter().find(|tool| tool.name() == name).expect("a tool")
    }

    #[test]
    fn every_read_is_a_tool_and_what_changes_something_only_where_that_is_allowed() {
        let names = |allow| McpTool::all(allow).iter().map(McpTool::name).collect::<BTreeSet<_>>();
        let (reads, all) = (names(false), names(true));
        for operation in OPERATIONS {
            let is_secret = WITH_SECRETS.contains(&operation.name);
            assert_eq!(
                reads.contains(operation.name),
                operation.method == "GET" || operation.name == "plan_changes"
            );
            assert_eq!(all.contains(operation.name), !is_secret, "{}", operation.name);
        }
        for name in WITH_SECRETS.iter().chain(&READS_BY_POST).chain(&NAMED) {
            assert!(OPERATIONS.iter().any(|operation| operation.name == *name), "{name}");
        }
        assert!(McpTool::all(false).iter().all(|tool| !tool.is_write()));
    }

    #[test]
    fn a_tool_says_what_it_does_and_takes_what_its_operation_takes() {
        for tool in McpTool::all(true) {
            let said = tool.description();
            assert!(said["description"].as_str().is_some_and(|text| text.len() > 10), "{said}");
            assert_eq!(said["annotations"]["destructiveHint"], tool.is_write(), "{said}");
            let properties = said["inputSchema"]["properties"].as_object().expect("properties");
            assert_eq!(properties.contains_key(CONFIRM), tool.is_write(), "{said}");
            for required in said["inputSchema"]["required"].as_array().into_iter().flatten() {
                assert!(properties.contains_key(required.as_str().expect("a name")), "{said}");
            }
        }
        let jobs = tool("list_jobs").description();
        assert!(jobs["inputSchema"]["properties"]["label"]["description"].as_str().is_some(), "{jobs}");
        let version = tool("show_job_version").description();
        assert_eq!(version["inputSchema"]["required"], json!(["name", "version"]), "{version}");
    }

    #[test]
    fn arguments_are_checked_before_a_node_is_asked() {
        let of = |name: &str, given: Value| {
            tool(name).checked(given.as_object().expect("an object").clone()).map_err(|why| why.clone())
        };
        let call =
            of("show_job_version", json!({ "name": "a/b", "version": 3, "diff": null })).expect("fine");
        assert_eq!((call.places, call.query.len()), (vec!["a/b".to_owned(), "3".to_owned()], 0));
        for (name, given, says) in [
            ("list_jobs", json!({ "lable": "a" }), "it takes"),
            ("show_job", json!({}), "needs the argument \"name\""),
            ("show_job", json!({ "name": 7.5, "x": 1 }), "no argument \"x\""),
            ("show_job", json!({ "name": ["a"] }), "must be a text"),
            ("list_jobs", json!({ "find": ["a"] }), "must be a text"),
            ("run_job", json!({ "name": "a", "confirm": "yes" }), "true or false"),
            ("put_job", json!({ "name": "a", "body": [] }), "must be an object"),
            ("list_jobs", json!({ "confirm": true }), "no argument"),
        ] {
            let refused = of(name, given.clone()).expect_err(name);
            assert!(refused.contains(says), "{name} {given}: {refused}");
        }
    }

    #[test]
    fn a_long_answer_is_cut_off_at_a_character_and_says_so() {
        let long = ToolAnswer::text("é".repeat(ANSWER_MAX)).text;
        assert!(long.len() < ANSWER_MAX + 300 && long.contains("cut off"), "{}", long.len());
        assert_eq!(ToolAnswer::text("short".to_owned()).text, "short");
    }
}
