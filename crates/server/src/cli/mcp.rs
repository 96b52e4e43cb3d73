//! `evenkeel mcp`: the operations of the API as tools of the Model Context Protocol, over standard input and output.
//!
//! The protocol is small: one JSON-RPC message a line, and three methods that matter. So it is spoken here, by a loop that answers
//! one request after the other, and not by a library with a runtime, whose tools would have to be declared once more: [`tools`]
//! makes them of the client's table of operations.

mod tools;

use std::collections::BTreeSet;
use std::io::{BufRead, Read, Write};

use clap::Args;
use serde_json::{Value, json};

use crate::client::ConnectArgs;
use crate::exit::{CliError, ExitKind};
use tools::{McpTool, ToolAnswer};

/// The versions of the protocol that are spoken, the latest last.
const VERSIONS: [&str; 3] = ["2024-11-05", "2025-03-26", "2025-06-18"];
/// The longest message that is read, in bytes.
const MESSAGE_MAX: u64 = 4 << 20;
/// How many writes are remembered that were described and not confirmed.
const DESCRIBED_MAX: usize = 100;

/// The codes of JSON-RPC.
const PARSE_ERROR: i64 = -32_700;
const INVALID_REQUEST: i64 = -32_600;
const UNKNOWN_METHOD: i64 = -32_601;
const INVALID_PARAMS: i64 = -32_602;

const INSTRUCTIONS: &str = "Evenkeel is a distributed job scheduler. These tools read its jobs, runs, nodes and histories. Begin with \
    cluster_health and list_attention; explain_job and explain_run say why something runs or does not; report_fires says whether every \
    fire of a day is accounted for. Lists have pages: pass `after` or `before` of the answer. Names of jobs outside the default namespace \
    are NAMESPACE/NAME.";
const WRITE_INSTRUCTIONS: &str = " Tools that change something answer a first call by what they would do. Show that to the person \
    whom you work for, and repeat the call with `confirm: true` only with their consent.";

/// `mcp`.
#[derive(Debug, Args)]
pub(crate) struct McpArgs {
    /// Offer tools that change something, too. Each needs a second call that confirms what the first one described
    #[arg(long)]
    allow_write: bool,
    #[command(flatten)]
    reach: ConnectArgs,
}

/// A server of the protocol, for one client.
struct McpServer<'a> {
    tools: Vec<McpTool>,
    allow_write: bool,
    reach: &'a ConnectArgs,
    /// The writes that were described and not confirmed yet.
    described: BTreeSet<String>,
}

/// An error of JSON-RPC.
struct RpcError(i64, String);

/// Answers requests until standard input ends.
///
/// # Errors
/// The address or the key is not valid, or standard output is closed.
pub(crate) fn run(args: &McpArgs) -> Result<(), CliError> {
    // A wrong address or key is said at once, and not by each tool.
    args.reach.client()?;
    let mut server = McpServer {
        tools: McpTool::all(args.allow_write),
        allow_write: args.allow_write,
        reach: &args.reach,
        described: BTreeSet::new(),
    };
    let (mut input, mut output) = (std::io::stdin().lock(), std::io::stdout().lock());
    serve(&mut input, &mut output, |text| server.answer(text))
        .map_err(|e| CliError::new(ExitKind::Failed, format!("the client is gone: {e}")))
}

/// Answers each line of the input that needs an answer.
fn serve(
    input: &mut impl BufRead,
    output: &mut impl Write,
    mut answer: impl FnMut(&[u8]) -> Option<Value>,
) -> std::io::Result<()> {
    loop {
        let mut line = Vec::new();
        if input.by_ref().take(MESSAGE_MAX + 1).read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        let reply = if line.len() as u64 > MESSAGE_MAX {
            skip_line(input)?;
            Some(failure(
                &Value::Null,
                &RpcError(INVALID_REQUEST, format!("a message has at most {MESSAGE_MAX} bytes")),
            ))
        } else if line.trim_ascii().is_empty() {
            None
        } else {
            answer(&line)
        };
        if let Some(reply) = reply {
            writeln!(output, "{reply}")?;
            output.flush()?;
        }
    }
}

/// Reads the rest of a line that is too long.
fn skip_line(input: &mut impl BufRead) -> std::io::Result<()> {
    loop {
        let mut rest = Vec::new();
        let read = input.by_ref().take(MESSAGE_MAX).read_until(b'\n', &mut rest)?;
        if read == 0 || rest.ends_with(b"\n") {
            return Ok(());
        }
    }
}

fn failure(id: &Value, RpcError(code, message): &RpcError) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
}

impl McpServer<'_> {
    /// The answer to a message, or to several in an array.
    fn answer(&mut self, text: &[u8]) -> Option<Value> {
        let message: Value = match serde_json::from_slice(text) {
            Ok(message) => message,
            Err(e) => return Some(failure(&Value::Null, &RpcError(PARSE_ERROR, format!("no JSON: {e}")))),
        };
        match message {
            Value::Array(messages) if !messages.is_empty() => {
                let replies: Vec<Value> = messages.iter().filter_map(|message| self.reply(message)).collect();
                (!replies.is_empty()).then_some(Value::Array(replies))
            }
            message => self.reply(&message),
        }
    }

    /// The answer to one message; `None` to one that wants none: a notification, or a response.
    fn reply(&mut self, message: &Value) -> Option<Value> {
        let Some(method) = message["method"].as_str() else {
            if message.get("result").is_some() || message.get("error").is_some() {
                return None;
            }
            let id = message.get("id").cloned().unwrap_or_default();
            return Some(failure(&id, &RpcError(INVALID_REQUEST, "the message has no method".to_owned())));
        };
        let id = message.get("id")?;
        Some(match self.result(method, &message["params"]) {
            Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
            Err(error) => failure(id, &error),
        })
    }

    fn result(&mut self, method: &str, params: &Value) -> Result<Value, RpcError> {
        match method {
            "initialize" => Ok(self.introduction(params)),
            "ping" => Ok(json!({})),
            "tools/list" => {
                Ok(json!({ "tools": self.tools.iter().map(McpTool::description).collect::<Vec<_>>() }))
            }
            "tools/call" => self.call(params).map(|ToolAnswer { text, is_error }| {
                json!({ "content": [{ "type": "text", "text": text }], "isError": is_error })
            }),
            other => Err(RpcError(UNKNOWN_METHOD, format!("there is no method {other:?}"))),
        }
    }

    fn introduction(&self, params: &Value) -> Value {
        let wanted = params["protocolVersion"].as_str();
        let latest = VERSIONS[VERSIONS.len() - 1];
        let version = wanted.filter(|wanted| VERSIONS.contains(wanted)).unwrap_or(latest);
        let more = if self.allow_write { WRITE_INSTRUCTIONS } else { "" };
        json!({
            "protocolVersion": version,
            "capabilities": { "tools": { "listChanged": false } },
            "serverInfo": { "name": "evenkeel", "title": "Evenkeel", "version": env!("CARGO_PKG_VERSION") },
            "instructions": format!("{INSTRUCTIONS}{more}"),
        })
    }

    fn call(&mut self, params: &Value) -> Result<ToolAnswer, RpcError> {
        let name = params["name"].as_str();
        let name = name.ok_or_else(|| RpcError(INVALID_PARAMS, "the tool has no name".to_owned()))?;
        let Some(tool) = self.tools.iter().find(|tool| tool.name() == name) else {
            return Err(RpcError(INVALID_PARAMS, unknown(name, self.allow_write)));
        };
        let given = match &params["arguments"] {
            Value::Null => serde_json::Map::new(),
            Value::Object(given) => given.clone(),
            _ => return Err(RpcError(INVALID_PARAMS, "arguments must be an object".to_owned())),
        };
        let call = match tool.checked(given) {
            Ok(call) => call,
            Err(why) => return Ok(ToolAnswer::error(why)),
        };
        // Each call finds a node that answers: the one before may be gone.
        let client = match self.reach.client() {
            Ok(client) => client,
            Err(failure) => return Ok(ToolAnswer::error(failure.message)),
        };
        if !tool.is_write() {
            return Ok(tool.answer(&client, &call));
        }
        let wanted = format!("{name} {}", call.key());
        if call.is_confirmed && self.described.remove(&wanted) {
            return Ok(tool.answer(&client, &call));
        }
        if self.described.len() >= DESCRIBED_MAX {
            self.described.clear();
        }
        let answer = tool.described(&client, &call);
        if !answer.is_error {
            self.described.insert(wanted);
        }
        Ok(answer)
    }
}

/// Why there is no such tool.
fn unknown(name: &str, allow_write: bool) -> String {
    match !allow_write && McpTool::all(true).iter().any(|tool| tool.name() == name) {
        true => {
            format!("the tool {name} changes something: it is offered by `evenkeel mcp --allow-write` alone")
        }
        false => format!("there is no tool {name:?}: tools/list has those that there are"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_is_too_long_is_refused_and_the_next_one_is_answered() {
        let long = vec![b'x'; usize::try_from(3 * MESSAGE_MAX).expect("it fits")];
        let input = [&long[..], b"\n\n{}\n"].concat();
        let (mut output, mut seen) = (Vec::new(), Vec::new());
        serve(&mut &input[..], &mut output, |text| {
            seen.push(text.to_vec());
            Some(json!("done"))
        })
        .expect("it is written");
        assert_eq!(seen, [b"{}\n"]);
        let replies = String::from_utf8(output).expect("text");
        let lines: Vec<&str> = replies.lines().collect();
        assert!(lines.len() == 2 && lines[0].contains("at most") && lines[1] == "\"done\"", "{replies}");
    }
}
