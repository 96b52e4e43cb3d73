//! The log of a node, as a collector of OpenTelemetry gets it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::mpsc::Receiver;

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as AnyValue;
use prost::Message;

use crate::collector::{attributes, server};
use crate::process::{PATIENCE, ServerProcess, until};

/// A line of the log as it was received, with the attributes of its resource.
#[derive(Debug)]
struct ReceivedLine {
    level: String,
    message: String,
    at: u64,
    attributes: BTreeMap<String, String>,
    resource: BTreeMap<String, String>,
}

fn lines(body: &[u8]) -> Vec<ReceivedLine> {
    let request = ExportLogsServiceRequest::decode(body).expect("it is OTLP");
    let mut found = Vec::new();
    for resource in request.resource_logs {
        let of = attributes(resource.resource.expect("a resource").attributes);
        for record in resource.scope_logs.into_iter().flat_map(|scope| scope.log_records) {
            let body = record.body.and_then(|body| body.value);
            let Some(AnyValue::StringValue(message)) = body else { panic!("a line is a text: {body:?}") };
            found.push(ReceivedLine {
                level: record.severity_text,
                message,
                at: record.time_unix_nano.max(record.observed_time_unix_nano),
                attributes: attributes(record.attributes),
                resource: of.clone(),
            });
        }
    }
    found
}

/// Receives until such a line has come.
fn line(requests: &Receiver<(String, Vec<u8>)>, is_wanted: impl Fn(&ReceivedLine) -> bool) -> ReceivedLine {
    loop {
        let (head, body) = requests.recv_timeout(PATIENCE).expect("the log is sent");
        if !head.starts_with("POST /v1/logs ") {
            continue;
        }
        if let Some(found) = lines(&body).into_iter().find(|line| is_wanted(line)) {
            return found;
        }
    }
}

/// A node that sends its log there, soon; it also goes to the file `log`.
fn node(folder: &Path, collector: SocketAddr, level: &str) -> ServerProcess {
    let endpoint = format!("http://{collector}");
    let mut command = ServerProcess::command(folder, "a", &["--otlp-endpoint", &endpoint]);
    command.current_dir(folder).env("OTEL_BLRP_SCHEDULE_DELAY", "50").env("EVENKEEL_LOG", level);
    command.env("OTEL_TRACES_EXPORTER", "none");
    ServerProcess::start(command.stderr(File::create(folder.join("log")).expect("a file")))
}

#[test]
fn a_line_of_the_log_is_a_record_with_its_fields_and_its_node() {
    let folder = tempfile::tempdir().expect("a folder");
    let (collector, requests) = server();
    let node = node(folder.path(), collector, "info,evenkeel::trace=debug");
    let jobs = "[[job]]\nname = \"j\"\ncommand = [\"/bin/false\"]\n";
    assert!(node.fed(&["job", "apply", "-f", "-"], jobs).status.success());
    let run = node.json(&["job", "run", "j"])["run"].as_str().expect("a run").to_owned();
    let failed = line(&requests, |line| line.message.contains("is failed: exit code 1"));
    assert_eq!(failed.level, "DEBUG");
    assert!(failed.at > 1_700_000_000_000_000_000, "{failed:?}");
    for (name, value) in [("run", run.as_str()), ("attempt", "1"), ("outcome", "failed")] {
        assert_eq!(failed.attributes.get(name).map(String::as_str), Some(value), "{failed:?}");
    }
    assert_eq!(failed.attributes["trace_id"].len(), 32, "{failed:?}");
    for (name, value) in [
        ("service.name", "evenkeel"),
        ("service.version", env!("CARGO_PKG_VERSION")),
        ("service.instance.id", "a"),
        ("evenkeel.engine", "sqlite"),
    ] {
        assert_eq!(failed.resource.get(name).map(String::as_str), Some(value), "{name}: {failed:?}");
    }
}

#[test]
fn what_waits_is_sent_when_the_node_ends_and_nothing_below_the_level() {
    let folder = tempfile::tempdir().expect("a folder");
    let (collector, requests) = server();
    let endpoint = format!("http://{collector}");
    let mut command = ServerProcess::command(folder.path(), "a", &[]);
    command.env("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", format!("{endpoint}/v1/logs"));
    // Nothing is sent before the end.
    command.env("OTEL_BLRP_SCHEDULE_DELAY", "3600000").env("EVENKEEL_LOG", "info");
    let node = ServerProcess::start(command.current_dir(folder.path()));
    node.signal("TERM");
    assert_eq!(node.end(), 0);
    let mut all = Vec::new();
    while let Ok((head, body)) = requests.try_recv() {
        assert!(head.starts_with("POST /v1/logs HTTP/1.1\r\n"), "{head}");
        all.extend(lines(&body));
    }
    assert!(all.iter().any(|line| line.level == "INFO"), "{all:?}");
    assert!(all.iter().all(|line| line.level != "DEBUG" && line.level != "TRACE"), "{all:?}");
}

#[test]
fn a_dead_collector_costs_a_line_of_the_log_and_not_one_for_each_line() {
    let dead = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("its address");
    let folder = tempfile::tempdir().expect("a folder");
    let node = node(folder.path(), dead, "info");
    let log = || fs::read_to_string(folder.path().join("log")).expect("the log");
    let warning = format!("no log can be sent to {dead}, and ");
    until("it is logged", || log().contains(&warning).then_some(()));
    // Its own warning is no line to send: otherwise each one made the next.
    let jobs = "[[job]]\nname = \"j\"\ncommand = [\"/bin/true\"]\n";
    assert!(node.fed(&["job", "apply", "-f", "-"], jobs).status.success());
    let run = node.json(&["job", "run", "j"])["run"].as_str().expect("a run").to_owned();
    assert!(node.cli(&["run", "wait", &run]).status.success());
    node.signal("TERM");
    assert_eq!(node.end(), 0, "{}", log());
}
