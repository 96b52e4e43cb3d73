//! A collector of OpenTelemetry, as far as tests need one.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use opentelemetry_proto::tonic::common::v1::any_value::Value as AnyValue;
use opentelemetry_proto::tonic::common::v1::{AnyValue as Any, KeyValue};

/// Reads one request: its head, and its body.
pub(crate) fn request<S: Read>(stream: S) -> (BufReader<S>, String, Vec<u8>) {
    let mut reader = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let begin = head.len();
        if reader.read_line(&mut head).expect("a line") <= 2 {
            break;
        }
        let line = head[begin..].to_ascii_lowercase();
        length = line.strip_prefix("content-length:").map_or(length, |n| n.trim().parse().expect("a number"));
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).expect("the body");
    (reader, head, body)
}

/// Answers each request, and hands on its head and body.
pub(crate) fn server() -> (SocketAddr, Receiver<(String, Vec<u8>)>) {
    let socket = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = socket.local_addr().expect("its address");
    let (give, requests) = channel();
    thread::spawn(move || {
        for stream in socket.incoming() {
            let (mut reader, head, body) = request(stream.expect("a connection"));
            let is_wanted = give.send((head, body)).is_ok();
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            reader.get_mut().write_all(answer).expect("it is answered");
            if !is_wanted {
                return;
            }
        }
    });
    (address, requests)
}

/// Ids as the log and commands write them.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Attributes as texts.
pub(crate) fn attributes(all: Vec<KeyValue>) -> BTreeMap<String, String> {
    let text = |value: Option<Any>| match value.and_then(|value| value.value) {
        Some(AnyValue::StringValue(text)) => text,
        Some(AnyValue::IntValue(number)) => number.to_string(),
        other => format!("{other:?}"),
    };
    all.into_iter().map(|attribute| (attribute.key, text(attribute.value))).collect()
}
