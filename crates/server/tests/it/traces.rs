//! Traces of runs, as a collector of OpenTelemetry gets them.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use prost::Message;
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::collector::{attributes, hex, request, server};
use crate::process::{PATIENCE, ServerProcess, millis, text, until};

/// A span as it was received, with the attributes of its resource.
#[derive(Debug)]
struct ReceivedSpan {
    trace: String,
    span: String,
    parent: String,
    name: String,
    start: u64,
    end: u64,
    is_error: bool,
    message: String,
    attributes: BTreeMap<String, String>,
    resource: BTreeMap<String, String>,
}

impl ReceivedSpan {
    fn is(&self, name: &str, value: &str) -> bool {
        self.attributes.get(name).map(String::as_str) == Some(value)
    }
}

/// The spans of a request.
fn spans(body: &[u8]) -> Vec<ReceivedSpan> {
    let request = ExportTraceServiceRequest::decode(body).expect("it is OTLP");
    let mut found = Vec::new();
    for resource in request.resource_spans {
        let of = attributes(resource.resource.expect("a resource").attributes);
        for span in resource.scope_spans.into_iter().flat_map(|scope| scope.spans) {
            let status = span.status.clone().unwrap_or_default();
            found.push(ReceivedSpan {
                trace: hex(&span.trace_id),
                span: hex(&span.span_id),
                parent: hex(&span.parent_span_id),
                name: span.name,
                start: span.start_time_unix_nano,
                end: span.end_time_unix_nano,
                is_error: status.code == StatusCode::Error as i32,
                message: status.message,
                attributes: attributes(span.attributes),
                resource: of.clone(),
            });
        }
    }
    found
}

/// A node that sends its traces there, soon; its log goes to the file `log`.
fn node(folder: &Path, collector: SocketAddr, more: &[&str]) -> ServerProcess {
    let endpoint = format!("http://{collector}");
    let mut command =
        ServerProcess::command(folder, "a", &[&["--otlp-endpoint", endpoint.as_str()], more].concat());
    command.current_dir(folder).env("OTEL_BSP_SCHEDULE_DELAY", "50").env("EVENKEEL_LOG", "info");
    ServerProcess::start(command.stderr(File::create(folder.join("log")).expect("a file")))
}

/// Receives until a fire of this job has ended; all spans of its trace.
fn trace(requests: &Receiver<(String, Vec<u8>)>, job: &str) -> Vec<ReceivedSpan> {
    let mut all: Vec<ReceivedSpan> = Vec::new();
    loop {
        let (head, body) = requests.recv_timeout(PATIENCE).expect("traces are sent");
        if head.starts_with("POST /v1/logs ") {
            continue;
        }
        assert!(head.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{head}");
        assert!(head.to_ascii_lowercase().contains("content-type: application/x-protobuf\r\n"), "{head}");
        all.extend(spans(&body));
        let fire = all.iter().find(|span| span.name == "fire" && span.is("evenkeel.job", job));
        if let Some(trace) = fire.map(|fire| fire.trace.clone()) {
            // Each attempt ends before its fire.
            all.retain(|span| span.trace == trace);
            return all;
        }
    }
}

#[test]
fn a_fire_is_a_trace_from_due_to_done_and_its_command_knows_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let (collector, requests) = server();
    let node = node(folder.path(), collector, &[]);
    let jobs = "[[job]]\nname = \"tick\"\nschedule = \"* * * * * *\"\ncommand = [\"/bin/sh\", \"-c\", \"echo $TRACEPARENT; sleep 0.1\"]\n";
    assert!(node.fed(&["job", "apply", "-f", "-"], jobs).status.success());
    let all = trace(&requests, "tick");
    assert_eq!(all.len(), 2, "{all:?}");
    let (attempt, fire) = (&all[0], &all[1]);
    assert_eq!((attempt.name.as_str(), fire.name.as_str()), ("attempt", "fire"));
    assert_eq!((&attempt.parent, fire.parent.as_str()), (&fire.span, ""));
    let run = &fire.attributes["evenkeel.run"];
    let said = node.ok(&["run", "logs", run]);
    assert_eq!(said.trim(), format!("00-{}-{}-01", fire.trace, attempt.span));
    assert!(fire.start <= attempt.start && attempt.start < attempt.end, "{all:?}");
    assert_eq!(fire.end, attempt.end);
    let due = run.split(':').nth(1).expect("a moment");
    assert_eq!(fire.start.to_string(), format!("{due}000000"));
    for span in &all {
        for (name, value) in [
            ("evenkeel.job", "tick"),
            ("evenkeel.namespace", "default"),
            ("evenkeel.shard", "0"),
            ("evenkeel.attempt", "1"),
            ("evenkeel.outcome", "succeeded"),
            ("process.exit.code", "0"),
        ] {
            assert!(span.is(name, value), "{name}: {span:?}");
        }
        assert!(span.attributes["evenkeel.node"].starts_with('a'), "{span:?}");
        assert!(span.attributes["evenkeel.lateness_ms"].parse::<u64>().is_ok(), "{span:?}");
        assert!(!span.is_error, "{span:?}");
        for (name, value) in [
            ("service.name", "evenkeel"),
            ("service.version", env!("CARGO_PKG_VERSION")),
            ("service.instance.id", "a"),
            ("evenkeel.engine", "sqlite"),
        ] {
            assert_eq!(span.resource.get(name).map(String::as_str), Some(value), "{name}: {span:?}");
        }
    }
}

#[test]
fn each_attempt_is_a_span_and_what_waits_is_sent_when_the_node_ends() {
    let folder = tempfile::tempdir().expect("a folder");
    let (collector, requests) = server();
    let endpoint = format!("http://{collector}");
    let mut command = ServerProcess::command(folder.path(), "a", &[]);
    // By OpenTelemetry's own variable; nothing is sent before the end.
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint).env("OTEL_BSP_SCHEDULE_DELAY", "3600000");
    let node = ServerProcess::start(command.current_dir(folder.path()));
    let jobs = "[[job]]\nname = \"ill\"\nretry = { max_retries = 1, delay = \"1s\" }\ncommand = [\"/bin/sh\", \"-c\", \"exit 3\"]\n";
    assert!(node.fed(&["job", "apply", "-f", "-"], jobs).status.success());
    let run = node.json(&["job", "run", "ill"])["run"].as_str().expect("a run").to_owned();
    assert!(!node.cli(&["run", "wait", &run]).status.success());
    node.signal("TERM");
    assert_eq!(node.end(), 0);
    let all = trace(&requests, "ill");
    let names: Vec<&str> = all.iter().map(|span| span.name.as_str()).collect();
    assert_eq!(names, ["attempt", "attempt", "fire"], "{all:?}");
    let fire = &all[2];
    for (span, number) in all.iter().zip(["1", "2", "2"]) {
        assert!(span.is_error && span.message.contains("exit code 3"), "{span:?}");
        assert!(span.is("evenkeel.attempt", number) && span.is("process.exit.code", "3"), "{span:?}");
        assert!(span.is("evenkeel.outcome", "failed") && span.is("error.type", "failed"), "{span:?}");
        assert!(span.is("evenkeel.run", &run), "{span:?}");
    }
    assert!(all[..2].iter().all(|attempt| attempt.parent == fire.span));
    assert_ne!(all[0].span, all[1].span);
    assert!(fire.start <= all[0].start && all[0].end <= all[1].start && all[1].end == fire.end, "{all:?}");
}

#[test]
fn a_request_carries_its_trace_and_a_job_may_name_another() {
    let folder = tempfile::tempdir().expect("a folder");
    let (target, requests) = server();
    // Without a collector.
    let node = ServerProcess::serve(folder.path(), "a", &["--http-allow", "127.0.0.1"]);
    let other = format!("00-{}-{}-00", "12".repeat(16), "34".repeat(8));
    let jobs = format!(
        "[[job]]\nname = \"own\"\nhttp = {{ url = \"http://{target}/own\" }}\n\
         [[job]]\nname = \"other\"\nhttp = {{ url = \"http://{target}/other\", headers = {{ Traceparent = \"{other}\" }} }}\n\
         [[job]]\nname = \"command\"\ncommand = [\"/bin/sh\", \"-c\", \"echo $TRACEPARENT\"]\nenvironment = {{ TRACEPARENT = \"{other}\" }}\n"
    );
    let applied = node.fed(&["job", "apply", "-f", "-"], &jobs);
    assert!(applied.status.success(), "{}", text(&applied.stderr));
    let run = |job: &str| {
        let run = node.json(&["job", "run", job])["run"].as_str().expect("a run").to_owned();
        assert!(node.cli(&["run", "wait", &run]).status.success());
        run
    };
    let header = |job: &str| {
        run(job);
        let (head, _) = requests.recv_timeout(PATIENCE).expect("it is asked");
        let lines: Vec<String> = head
            .lines()
            .filter_map(|line| line.to_ascii_lowercase().strip_prefix("traceparent: ").map(str::to_owned))
            .collect();
        assert_eq!(lines.len(), 1, "{head}");
        lines.into_iter().next().expect("it is one")
    };
    let own = header("own");
    let parts: Vec<&str> = own.split('-').collect();
    assert_eq!(parts.iter().map(|part| part.len()).collect::<Vec<_>>(), [2, 32, 16, 2], "{own}");
    assert_eq!((parts[0], parts[3]), ("00", "01"));
    assert_eq!(header("other"), other);
    assert_eq!(node.ok(&["run", "logs", &run("command")]).trim(), other);
}

#[test]
fn a_collector_that_is_dead_or_silent_keeps_no_run_from_starting_and_no_node_from_ending() {
    // Takes connections and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let dead = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("its address");
    for (collector, warns) in [(silent.local_addr().expect("its address"), false), (dead, true)] {
        let folder = tempfile::tempdir().expect("a folder");
        let node = node(folder.path(), collector, &[]);
        let jobs = "[[job]]\nname = \"j\"\ncommand = [\"/bin/true\"]\n";
        assert!(node.fed(&["job", "apply", "-f", "-"], jobs).status.success());
        for _ in 0..3 {
            let run = node.json(&["job", "run", "j"])["run"].as_str().expect("a run").to_owned();
            assert!(node.cli(&["run", "wait", &run]).status.success(), "{collector}");
        }
        let log = || fs::read_to_string(folder.path().join("log")).expect("the log");
        if warns {
            let warning = format!("no traces can be sent to {collector}, and ");
            until("it is logged", || log().contains(&warning).then_some(()));
        }
        let begun = millis();
        node.signal("TERM");
        assert_eq!(node.end(), 0, "{}", log());
        assert!(millis() - begun < 60_000, "{} ms", millis() - begun);
    }
}

/// Answers one request over TLS, with a certificate that it writes to this file, and hands on its body.
fn tls_server(certificate: &Path) -> (SocketAddr, Receiver<Vec<u8>>) {
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).expect("a certificate");
    fs::write(certificate, made.cert.pem()).expect("written");
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).expect("a key");
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .expect("a certificate with its key");
    let config = Arc::new(config);
    let socket = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = socket.local_addr().expect("its address");
    let (give, bodies) = channel();
    thread::spawn(move || {
        for stream in socket.incoming() {
            let session = ServerConnection::new(config.clone()).expect("a session");
            let stream = StreamOwned::new(session, stream.expect("a connection"));
            let (mut reader, _, body) = request(stream);
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            reader.get_mut().write_all(answer).expect("it is answered");
            if give.send(body).is_err() {
                return;
            }
        }
    });
    (address, bodies)
}

#[test]
fn traces_are_sent_over_tls_to_a_collector_that_the_host_trusts() {
    let folder = tempfile::tempdir().expect("a folder");
    let certificate = folder.path().join("collector.pem");
    let (collector, bodies) = tls_server(&certificate);
    let endpoint = format!("https://{collector}");
    let mut command = ServerProcess::command(folder.path(), "a", &["--otlp-endpoint", &endpoint]);
    command.env("SSL_CERT_FILE", &certificate).env("OTEL_BSP_SCHEDULE_DELAY", "50");
    command.env("OTEL_LOGS_EXPORTER", "none");
    let node = ServerProcess::start(command.current_dir(folder.path()));
    let jobs = "[[job]]\nname = \"j\"\ncommand = [\"/bin/true\"]\n";
    assert!(node.fed(&["job", "apply", "-f", "-"], jobs).status.success());
    node.ok(&["job", "run", "j"]);
    let found = spans(&bodies.recv_timeout(PATIENCE).expect("traces are sent"));
    assert!(found.iter().any(|span| span.is("evenkeel.job", "j")), "{found:?}");
}
