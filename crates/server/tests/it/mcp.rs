//! Tools for programs that speak the Model Context Protocol, by the real command over its standard input and output.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::Receiver;

use serde_json::{Value, json};

use crate::process::{PATIENCE, ServerProcess, evenkeel, until};

const JOB: &str = r#"
[[job]]
name = "hello"
schedule = "0 0 1 1 *"
command = ["sh", "-c", "echo one; echo two"]
labels = { team = "billing" }
"#;

/// A running `evenkeel mcp`.
struct McpProcess {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    id: u64,
}

impl McpProcess {
    fn start(mut command: Command) -> Self {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("evenkeel starts");
        let (send, lines) = std::sync::mpsc::channel();
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        std::thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| send.send(line)));
        let input = child.stdin.take();
        Self { child, input, lines, id: 0 }
    }

    fn of(node: &ServerProcess, args: &[&str]) -> Self {
        let mut server = Self::start(node.client(&[&["mcp"], args].concat()));
        let params = json!({ "protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
        let said = server.ask("initialize", &params);
        assert_eq!(said["result"]["protocolVersion"], "2025-03-26", "{said}");
        assert_eq!(said["result"]["serverInfo"]["name"], "evenkeel", "{said}");
        server.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        server
    }

    fn send(&mut self, line: &str) {
        let input = self.input.as_mut().expect("it is open");
        writeln!(input, "{line}").expect("it reads");
    }

    fn read(&self) -> Value {
        let line = self.lines.recv_timeout(PATIENCE).expect("an answer");
        serde_json::from_str(&line).expect("JSON")
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.id += 1;
        self.send(
            &json!({ "jsonrpc": "2.0", "id": self.id, "method": method, "params": params }).to_string(),
        );
        let answer = self.read();
        assert_eq!(answer["id"], self.id, "{answer}");
        answer
    }

    /// Calls a tool: whether the answer is an error, and its text.
    fn call(&mut self, name: &str, arguments: &Value) -> (bool, String) {
        let answer = self.ask("tools/call", &json!({ "name": name, "arguments": arguments }));
        let result = &answer["result"];
        let text = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"));
        (result["isError"].as_bool().expect("it says"), text.to_owned())
    }

    /// The answer of a tool that must work.
    fn read_tool(&mut self, name: &str, arguments: &Value) -> Value {
        let (is_error, text) = self.call(name, arguments);
        assert!(!is_error, "{name}: {text}");
        serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}"))
    }

    /// Ends its input, and waits for its end.
    fn end(mut self) -> i32 {
        drop(self.input.take());
        until("it ends", || self.child.try_wait().expect("it is ours")).code().unwrap_or(-1)
    }
}

impl Drop for McpProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The code of an error of JSON-RPC, and its text.
fn error(answer: &Value) -> (i64, String) {
    let code = answer["error"]["code"].as_i64().unwrap_or_else(|| panic!("{answer}"));
    (code, answer["error"]["message"].as_str().unwrap_or_default().to_owned())
}

#[test]
fn the_reads_of_the_api_are_tools() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    assert!(node.fed(&["job", "apply", "-f", "-"], JOB).status.success());
    let mut server = McpProcess::of(&node, &[]);
    let listed = server.ask("tools/list", &json!({}));
    let tools = listed["result"]["tools"].as_array().expect("tools").clone();
    let find = |name: &str| tools.iter().find(|tool| tool["name"] == name);
    let jobs = find("list_jobs").expect("it is a read");
    assert_eq!(jobs["annotations"]["readOnlyHint"], true, "{jobs}");
    assert!(jobs["inputSchema"]["properties"]["label"].is_object(), "{jobs}");
    assert!(find("delete_job").is_none() && find("create_token").is_none());
    assert!(server.ask("ping", &json!({}))["result"].is_object());

    let jobs = server.read_tool("list_jobs", &json!({ "label": "team=billing", "limit": 5 }));
    assert_eq!(jobs["jobs"][0]["name"], "hello", "{jobs}");
    assert_eq!(server.read_tool("show_job", &json!({ "name": "hello" }))["name"], "hello");
    assert_eq!(
        server.read_tool("report_fires", &json!({ "since": "1h", "all": true }))["jobs"][0]["name"],
        "hello"
    );
    let plan =
        json!({ "body": { "jobs": [{ "name": "hello", "schedule": "@daily", "command": ["true"] }] } });
    assert!(server.read_tool("plan_changes", &plan)["jobs"].is_array());
    node.ok(&["job", "run", "hello", "--request", "r"]);
    node.ok(&["run", "wait", "hello:ask-r:0"]);
    let run = json!({ "run": "hello:ask-r:0" });
    assert_eq!(server.call("read_run_logs", &run), (false, "one\ntwo\n".to_owned()));
    let last = json!({ "run": "hello:ask-r:0", "tail": 1 });
    assert_eq!(server.call("read_run_logs", &last), (false, "two\n".to_owned()));

    for (name, arguments, says) in [
        ("show_job", json!({ "name": "none" }), "none"),
        ("show_job", json!({}), "needs the argument"),
        ("list_jobs", json!({ "lable": "x" }), "no argument \"lable\""),
        ("list_runs", json!({ "limit": 9_999_999 }), "limit"),
        ("read_run_logs", json!({ "run": "hello:ask-r:0", "tail": "many" }), "many"),
    ] {
        let (is_error, text) = server.call(name, &arguments);
        assert!(is_error && text.contains(says), "{name} {arguments}: {text}");
    }
    for (params, says) in [
        (json!({ "name": "no_such_tool" }), "there is no tool"),
        (json!({ "name": "delete_job", "arguments": { "name": "hello", "confirm": true } }), "--allow-write"),
        (json!({ "name": "list_jobs", "arguments": [1] }), "must be an object"),
        (json!({}), "no name"),
    ] {
        let (code, text) = error(&server.ask("tools/call", &params));
        assert!(code == -32_602 && text.contains(says), "{params}: {text}");
    }
    assert_eq!(error(&server.ask("resources/list", &json!({}))).0, -32_601);
    for (line, code) in [("{\"jsonrpc\":", -32_700), ("{\"id\":7}", -32_600), ("[]", -32_600), ("7", -32_600)]
    {
        server.send(line);
        assert_eq!(error(&server.read()).0, code, "{line}");
    }
    server.send(r#"[{"jsonrpc":"2.0","id":"x","method":"ping"},{"jsonrpc":"2.0","method":"notifications/cancelled"}]"#);
    let replies = server.read();
    assert_eq!((replies.as_array().map(Vec::len), &replies[0]["id"]), (Some(1), &json!("x")), "{replies}");
    let said = server.ask("initialize", &json!({ "protocolVersion": "1999-01-01" }));
    assert_eq!(said["result"]["protocolVersion"], "2025-06-18", "another version gets the latest");
    assert_eq!(node.json(&["job", "list"])[0]["name"], "hello", "nothing was deleted");
    assert_eq!(server.end(), 0, "it ends with its input");
}

#[test]
fn a_change_is_described_first_and_made_when_that_is_confirmed() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    assert!(node.fed(&["job", "apply", "-f", "-"], JOB).status.success());
    let mut server = McpProcess::of(&node, &["--allow-write"]);
    let listed = server.ask("tools/list", &json!({}));
    let tools = listed["result"]["tools"].as_array().expect("tools").clone();
    let delete = tools.iter().find(|tool| tool["name"] == "delete_job").expect("it is offered");
    assert_eq!(delete["annotations"]["destructiveHint"], true, "{delete}");
    assert!(!tools.iter().any(|tool| tool["name"] == "put_secret"), "no secret stands in a conversation");

    let paused = || node.json(&["job", "show", "hello", "--details"])["paused"] == true;
    let pause = json!({ "name": "hello", "verb": "pause" });
    let confirmed = |arguments: &Value| {
        let mut arguments = arguments.clone();
        arguments["confirm"] = json!(true);
        arguments
    };
    let (is_error, text) = server.call("switch_job", &confirmed(&pause));
    assert!(!is_error && text.contains("Nothing was changed") && !paused(), "what was not described: {text}");
    let other = json!({ "name": "hello", "verb": "disable" });
    assert!(server.call("switch_job", &confirmed(&other)).1.contains("Nothing was changed"), "another one");
    assert!(!paused());
    assert_eq!(server.read_tool("switch_job", &confirmed(&pause))["done"], true);
    assert!(paused());
    assert!(server.call("switch_job", &confirmed(&pause)).1.contains("Nothing was changed"), "only once");

    let put = json!({ "name": "hello", "body": { "schedule": "@daily", "command": ["true"] } });
    let (_, text) = server.call("put_job", &put);
    assert!(text.contains("What would change") && text.contains("@daily"), "{text}");
    assert_eq!(node.json(&["job", "list"])[0]["schedule"], "0 0 1 1 *");
    assert_eq!(server.read_tool("put_job", &confirmed(&put))["jobs"][0]["applied"], "updated");
    assert_eq!(node.json(&["job", "list"])[0]["schedule"], "@daily");
    let wrong = json!({ "name": "hello", "body": { "schedule": "@dayly", "command": ["true"] } });
    let (is_error, text) = server.call("put_job", &wrong);
    assert!(text.contains("refused") && text.contains("@dayly"), "{is_error} {text}");
    let gone = json!({ "name": "hello" });
    server.call("delete_job", &gone);
    assert_eq!(server.read_tool("delete_job", &confirmed(&gone))["done"], true);
    assert_eq!(node.json(&["job", "list"]), json!([]));
    let (is_error, text) = server.call("delete_job", &confirmed(&gone));
    assert!(!is_error && text.contains("Nothing was changed"), "{text}");
}

#[test]
fn a_node_that_does_not_answer_is_an_error_of_the_tool_and_no_end() {
    let mut command = evenkeel(&["mcp"]);
    command.env("EVENKEEL_SERVER", "http://127.0.0.1:1");
    let mut server = McpProcess::start(command);
    let (is_error, text) = server.call("list_jobs", &json!({}));
    assert!(is_error && text.contains("127.0.0.1:1"), "{text}");
    assert!(server.ask("ping", &json!({}))["result"].is_object());
    assert_eq!(server.end(), 0);
    let wrong = evenkeel(&["mcp", "--server", "no address"]).output().expect("it starts");
    assert_eq!(wrong.status.code(), Some(2));
}
