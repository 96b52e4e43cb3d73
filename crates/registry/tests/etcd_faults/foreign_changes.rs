//! What an operator changes with a client of etcd's, past the engine.

use evenkeel_core::registry::Revision;
use evenkeel_core::time::Millis;

use crate::server::EtcdCluster;
use crate::{changes_until, connect, key, made, put};

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// As etcd takes names over HTTP: in base64, of which three bytes are four digits.
fn base64(text: &str) -> String {
    let digits = |three: &[u8]| {
        let bits = (0..3).fold(0, |bits, n| bits << 8 | u32::from(three.get(n).copied().unwrap_or(0)));
        let digit = |n: usize| match n <= three.len() {
            true => char::from(DIGITS[(bits >> (18 - 6 * n)) as usize & 63]),
            false => '=',
        };
        (0..4).map(digit).collect::<String>()
    };
    text.as_bytes().chunks(3).map(digits).collect()
}

/// proves: S2-52, S3-30
#[tokio::test]
async fn an_entry_that_is_deleted_past_the_engine_is_told_of_at_once_and_to_all() {
    let Some(etcd) = EtcdCluster::start(1) else { return };
    let (own, other) = (connect(&etcd.url()).await, connect(&etcd.url()).await);
    let lease = own.open(Millis::secs(60)).await.unwrap().lease;
    let at = made(&own, [put("node/b@7", "", Some(lease))]).await;
    let (mut near, mut far) = (own.watch(at).await.unwrap(), other.watch(at).await.unwrap());

    let body = format!("{{\"key\":\"{}\"}}", base64("test/entry/node/b@7"));
    let answer = etcd.members[0].http("POST", "/v3/kv/deleterange", &body).unwrap();
    assert!(answer.contains("\"deleted\":\"1\""), "{answer}");
    for feed in [&mut near, &mut far] {
        let changes = changes_until(feed, Revision(at.0 + 1)).await;
        let told: Vec<_> = changes.into_iter().map(|change| (change.key, change.entry)).collect();
        assert_eq!(told, [(key("node/b@7"), None)]);
    }
    assert!(own.renew(lease).await.unwrap().is_some(), "only its entry is gone");
}
