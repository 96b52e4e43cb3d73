//! Nodes tell of a peer that is offline: one telling per transition, whoever noticed.
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use evenkeel::core::input::ClusterSetting;
use evenkeel::{Answer, Command, Config, EventFilter, Handle, Notifier, NotifyChannel, Webhook};
use serde_json::Value;
use tempfile::TempDir;

/// Answers every request, and hands on what it was sent.
fn listener() -> (String, Receiver<Value>) {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", socket.local_addr().unwrap());
    let (heard, posts) = channel();
    thread::spawn(move || {
        for stream in socket.incoming() {
            let mut reader = BufReader::new(stream.unwrap());
            let (mut line, mut length) = (String::new(), 0);
            while reader.read_line(&mut line).unwrap() > 2 {
                let head = line.to_ascii_lowercase();
                length = head.strip_prefix("content-length:").map_or(length, |n| n.trim().parse().unwrap());
                line.clear();
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            // Before the answer: a test that has seen the answer's effect finds the request here.
            let wanted = heard.send(serde_json::from_slice(&body).unwrap()).is_ok();
            reader.get_mut().write_all(b"HTTP/1.1 204 X\r\nConnection: close\r\n\r\n").unwrap();
            if !wanted {
                return;
            }
        }
    });
    (url, posts)
}

/// A node that nobody can reach, and that tells whoever asks to hear of offline nodes, without any window.
async fn node(name: &str, data: &TempDir, url: &str) -> Handle {
    let registry = format!("sqlite:{}", data.path().join("registry").display());
    let mut config = Config::new(name.parse().unwrap(), registry, data.path().join(name));
    config.ttl = Duration::from_secs(30);
    config.address = "127.0.0.1:1".into();
    let means = NotifyChannel::Webhook(Box::new(Webhook::plain(url.to_owned()).unwrap()));
    let mut notifier = Notifier::new(vec!["node.offline".into()], means).unwrap();
    notifier.window = Duration::ZERO;
    notifier.timeout = Duration::from_secs(60);
    config.notify = vec![notifier];
    evenkeel::open(config).await.unwrap()
}

/// proves: S0-51
#[tokio::test(flavor = "multi_thread")]
async fn a_node_going_offline_is_told_once_though_all_others_notice() {
    let (url, posts) = listener();
    let data = tempfile::tempdir().unwrap();
    let first = node("a", &data, &url).await;
    assert_eq!(first.ask(Command::Configure(ClusterSetting::Beat(1))).await, Answer::Done);
    let others = [node("b", &data, &url).await, node("c", &data, &url).await];
    // Each of the three cannot reach the two others; strikes of both make a node offline.
    let mut told: BTreeMap<String, usize> = BTreeMap::new();
    while told.len() < 3 {
        let post = posts.recv_timeout(Duration::from_secs(120)).unwrap();
        assert_eq!(post["kind"], "node.offline", "{post}");
        *told.entry(post["subject"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    // What any of them may still have to tell is told before it ends.
    for node in others.into_iter().chain([first.clone()]) {
        node.stop_now().await;
    }
    for post in posts.try_iter() {
        *told.entry(post["subject"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    let once = ["a", "b", "c"].map(|name| (name.to_owned(), 1));
    assert_eq!(told, BTreeMap::from(once));
    let filter = EventFilter { kind: Some("node.offline".into()), ..EventFilter::default() };
    assert_eq!(first.events(filter).await.unwrap().len(), 3, "history has each once too");
}
