//! Each shape against a real listener: what arrives, and that a refusal is tried again and reported.

use sha2::{Digest, Sha256};

use super::*;
use crate::notify::shape::SecretNeed;

/// A request as it arrived.
#[derive(Debug)]
struct ArrivedRequest {
    /// The method and the address, as `POST /hook`.
    line: String,
    /// The headers, with names in lower case.
    headers: Vec<String>,
    body: Value,
}

/// A listener that answers each request with the next of these answers, then with the last.
fn service(answers: &[(u16, &str)]) -> (String, Receiver<ArrivedRequest>) {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", socket.local_addr().unwrap());
    let (arrived, requests) = channel();
    let answers: Vec<(u16, String)> =
        answers.iter().map(|(status, text)| (*status, (*text).into())).collect();
    thread::spawn(move || {
        for (n, stream) in socket.incoming().enumerate() {
            let mut reader = BufReader::new(stream.unwrap());
            let (mut line, mut headers) = (String::new(), Vec::new());
            while reader.read_line(&mut line).unwrap() > 2 {
                let header = line.trim().to_owned();
                let lower = header.split_once(": ").map(|(name, v)| format!("{}: {v}", name.to_lowercase()));
                headers.push(lower.unwrap_or(header));
                line.clear();
            }
            let length = headers.iter().find_map(|header| header.strip_prefix("content-length: "));
            let mut body = vec![0; length.unwrap().parse().unwrap()];
            reader.read_exact(&mut body).unwrap();
            let line = headers.remove(0).trim_end_matches(" HTTP/1.1").to_owned();
            let body = serde_json::from_slice(&body).unwrap();
            // Before the answer: a test that has seen the answer's effect finds the request here.
            let is_wanted = arrived.send(ArrivedRequest { line, headers, body }).is_ok();
            let (status, text) = answers.get(n).or(answers.last()).unwrap();
            let length = text.len();
            let answer =
                format!("HTTP/1.1 {status} X\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{text}");
            reader.get_mut().write_all(answer.as_bytes()).unwrap();
            if !is_wanted {
                return;
            }
        }
    });
    (url, requests)
}

fn shaped(url: String, shape: WebhookShape, secret: Option<SecretSource>) -> Notifier {
    let hook = Webhook::new(Some(url), shape, secret).unwrap();
    made(&["*"], NotifyChannel::Webhook(Box::new(hook)))
}

/// HMAC-SHA256 as RFC 2104 defines it, made of the hash alone.
fn hmac(key: &[u8], data: &[u8]) -> Vec<u8> {
    assert!(key.len() <= 64);
    let padded = |pad: u8| -> Vec<u8> { (0..64).map(|n| key.get(n).copied().unwrap_or(0) ^ pad).collect() };
    let inner = Sha256::digest([padded(0x36).as_slice(), data].concat());
    Sha256::digest([padded(0x5c).as_slice(), inner.as_slice()].concat()).to_vec()
}

/// Base64, for the comparison.
fn base64(bytes: &[u8]) -> String {
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let chunk = |chunk: &[u8]| -> String {
        let bits = (0..3).fold(0_u32, |bits, n| bits << 8 | u32::from(chunk.get(n).copied().unwrap_or(0)));
        let digit = |n: usize| char::from(alphabet[(bits >> (18 - 6 * n) & 63) as usize]);
        (0..4).map(|n| if n <= chunk.len() { digit(n) } else { '=' }).collect()
    };
    bytes.chunks(3).map(chunk).collect()
}

/// A place on every service, and the answers with which it refuses and takes a message.
type ServiceCase<'a> = (WebhookShape, &'a str, (u16, &'a str), (u16, &'a str), &'a str);

const CASES: [ServiceCase<'static>; 7] = [
    (
        WebhookShape::Slack,
        "/services/T0/B0/slack-token-value",
        (404, "no_service slack-token-value"),
        (200, "ok"),
        "it answers with status 404: no_service …",
    ),
    (
        WebhookShape::Teams,
        "/workflows/x/triggers/manual/paths/invoke?sig=teams-token-value",
        (400, "WorkflowTriggerIsNotEnabled"),
        (202, ""),
        "it answers with status 400: WorkflowTriggerIsNotEnabled",
    ),
    (
        WebhookShape::DingTalk,
        "/robot/send?access_token=dingtalk-token-value",
        (200, r#"{"errcode":310000,"errmsg":"sign not match for dingtalk-token-value"}"#),
        (200, r#"{"errcode":0,"errmsg":"ok"}"#),
        "it answers with errcode 310000: sign not match for …",
    ),
    (
        WebhookShape::Lark,
        "/open-apis/bot/v2/hook/lark-token-value",
        (200, r#"{"code":19021,"msg":"sign match fail"}"#),
        (200, r#"{"code":0,"msg":"success"}"#),
        "it answers with code 19021: sign match fail",
    ),
    (
        WebhookShape::WeCom,
        "/cgi-bin/webhook/send?key=wecom-token-value",
        (200, r#"{"errcode":93000,"errmsg":"invalid webhook url"}"#),
        (200, r#"{"errcode":0,"errmsg":"ok"}"#),
        "it answers with errcode 93000: invalid webhook url",
    ),
    (
        WebhookShape::PagerDuty,
        "/v2/enqueue",
        (400, "bad key the-service-secret"),
        (202, r#"{"status":"success"}"#),
        "it answers with status 400: bad key …",
    ),
    (
        WebhookShape::Opsgenie,
        "/v2/alerts",
        (422, "Key format is not valid!"),
        (202, r#"{"result":"Request will be processed"}"#),
        "it answers with status 422: Key format is not valid!",
    ),
];

/// What the moment of sending changes is checked by itself and taken out.
fn signatures_checked(shape: WebhookShape, path: &str, arrived: &mut ArrivedRequest) {
    let secret = "the-service-secret";
    let is_now = |seconds: i64| (clock::now().wall.0 / 1_000 - seconds).abs() < 600;
    match shape {
        WebhookShape::DingTalk => {
            let signed = arrived.line.strip_prefix(&format!("POST {path}&timestamp=")).unwrap();
            let (timestamp, sign) = signed.split_once("&sign=").unwrap();
            assert!(is_now(timestamp.parse::<i64>().unwrap() / 1_000), "{timestamp}");
            let wanted = base64(&hmac(secret.as_bytes(), format!("{timestamp}\n{secret}").as_bytes()));
            let escaped = wanted.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D");
            assert_eq!(sign, escaped);
            arrived.line = format!("POST {path}");
        }
        WebhookShape::Lark => {
            let body = arrived.body.as_object_mut().unwrap();
            let (timestamp, sign) = (body.remove("timestamp").unwrap(), body.remove("sign").unwrap());
            let timestamp = timestamp.as_str().unwrap();
            assert!(is_now(timestamp.parse().unwrap()), "{timestamp}");
            let key = format!("{timestamp}\n{secret}");
            assert_eq!(sign, base64(&hmac(key.as_bytes(), b"")));
        }
        _ => {}
    }
}

#[tokio::test]
async fn each_service_gets_its_shape_and_its_refusals_are_tried_again_and_reported() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secret");
    std::fs::write(&file, "the-service-secret\n").unwrap();
    for (shape, path, refusal, taken, why) in CASES {
        let (service_url, requests) = service(&[refusal, refusal, taken, refusal]);
        let secret = (!matches!(shape.secret(), SecretNeed::None)).then(|| SecretSource::File(file.clone()));
        let notifier = shaped(format!("{service_url}{path}"), shape, secret);
        let shown = format!("{notifier:?}");
        assert!(!shown.contains("token-value") && !shown.contains("the-service-secret"), "{shown}");
        let mut notifying = NotifierFixture::new(vec![notifier]).await;
        notifying.notify(2_000, &ALARM);
        let message = Message::of(Wall(2_000), "a", &ALARM.report());
        let key = matches!(shape.secret(), SecretNeed::Required(_)).then_some("the-service-secret");
        let wanted = shape.request("http://h/", key, &message, Wall(0));
        let wanted: Value = serde_json::from_slice(&wanted.body).unwrap();
        for _ in 0..3 {
            let mut arrived = requests.recv_timeout(PATIENCE).unwrap();
            signatures_checked(shape, path, &mut arrived);
            assert_eq!((arrived.line, arrived.body), (format!("POST {path}"), wanted.clone()));
            let has = |header: &str| arrived.headers.iter().any(|arrived| arrived == header);
            assert!(has("content-type: application/json"), "{:?}", arrived.headers);
            assert_eq!(has("authorization: GenieKey the-service-secret"), shape == WebhookShape::Opsgenie);
        }
        notifying.notify(3_000, &Event::Drained);
        let complaint = notifying.failure_event().await;
        let host = service_url.strip_prefix("http://").unwrap();
        let reported = format!("webhook {host} did not get drained of a: {why}");
        assert_eq!(complaint.text, reported, "{shape:?}");
        assert_eq!(requests.try_iter().count(), 3, "no fourth try");
    }
}

#[tokio::test]
async fn an_alert_of_opsgenie_is_closed_and_opened_again_within_the_window() {
    let variable = SecretSource::Variable("PATH".to_owned());
    let (url, requests) = service(&[(202, "{}")]);
    let mut notifier = shaped(format!("{url}/v2/alerts"), WebhookShape::Opsgenie, Some(variable));
    notifier.window = Duration::from_secs(3_600);
    let mut notifying = NotifierFixture::new(vec![notifier]).await;
    let node = || "b".parse().unwrap();
    for event in [
        Event::Offline(node()),
        Event::Offline(node()),
        Event::Online(node()),
        Event::Online(node()),
        Event::Offline(node()),
    ] {
        notifying.notify(1_000, &event);
    }
    notifying.notifiers.close(PATIENCE).await;
    let lines: Vec<String> = requests.try_iter().map(|request| request.line).collect();
    let closed = "POST /v2/alerts/evenkeel:node.offline:b/close?identifierType=alias";
    assert_eq!(lines, ["POST /v2/alerts", closed, "POST /v2/alerts"]);
}

#[tokio::test]
async fn a_secret_is_read_for_each_message_and_its_absence_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key");
    let (url, requests) = service(&[(202, "{}")]);
    let source = SecretSource::File(file.clone());
    let notifier = shaped(format!("{url}/v2/enqueue"), WebhookShape::PagerDuty, Some(source));
    let mut notifying = NotifierFixture::new(vec![notifier]).await;
    notifying.notify(1_000, &Event::Joined);
    let complaint = notifying.failure_event().await;
    assert!(complaint.text.contains("the secret file: No such file"), "{}", complaint.text);
    for key in ["first", "second"] {
        std::fs::write(&file, key).unwrap();
        notifying.notify(2_000, &Event::Elected(key.parse().unwrap()));
        assert_eq!(requests.recv_timeout(PATIENCE).unwrap().body["routing_key"], key);
    }
}

#[test]
fn a_shape_without_what_it_needs_is_refused_with_the_fix() {
    let file = || Some(SecretSource::File("/s".into()));
    let new = |url: Option<&str>, shape, secret| Webhook::new(url.map(ToOwned::to_owned), shape, secret);
    for (url, shape, secret, says) in [
        (None, WebhookShape::Slack, None, "shape \"slack\" needs webhook = \"https://…\""),
        (None, WebhookShape::Json, None, "shape \"json\" needs webhook = \"https://…\""),
        (Some("http://h/"), WebhookShape::Slack, file(), "shape \"slack\" takes no secret"),
        (Some("http://h/"), WebhookShape::PagerDuty, None, "needs the integration key: write secret_file"),
        (None, WebhookShape::Opsgenie, None, "needs the API key: write secret_file"),
        (Some("http://h/"), WebhookShape::Opsgenie, file(), "has to end with /alerts"),
        (Some("http://h/v2/alerts?x=1"), WebhookShape::Opsgenie, file(), "has to end with /alerts"),
    ] {
        let refused = new(url, shape, secret).unwrap_err();
        assert!(refused.contains(says), "{refused}");
    }
    for shape in [WebhookShape::PagerDuty, WebhookShape::Opsgenie] {
        let host = new(None, shape, file()).unwrap().host();
        assert!(host.starts_with("events.pagerduty.com:443") || host == "api.opsgenie.com:443", "{host}");
    }
}

/// A long answer is cut where it is shown, and a secret at the cut could be left in part.
#[test]
fn a_secret_at_the_end_of_what_is_shown_is_not_left_in_part() {
    let secret = "tide-and-keel-of-the-service";
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key");
    std::fs::write(&file, secret).unwrap();
    let answer: &'static str = format!("{}{secret}", "x".repeat(290)).leak();
    let (url, _requests) = service(&[(400, answer)]);
    let hook = Webhook::new(Some(url), WebhookShape::PagerDuty, Some(SecretSource::File(file))).unwrap();
    let message = Message::of(Wall(0), "a", &ALARM.report());
    let refused = send::post(&hook, &message, PATIENCE, Vec::new).unwrap_err();
    assert_eq!(refused, format!("it answers with status 400: {}…", "x".repeat(290)));
}
