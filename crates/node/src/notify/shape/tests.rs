//! What each service is sent, and which of its answers are failures.

use evenkeel_core::effect::Event;
use evenkeel_core::ids::{Fire, RunId, Shard};
use evenkeel_core::job::Occasion;
use serde_json::{Value, json};

use super::*;
use crate::history::Notice;

const NOW: Wall = Wall(1_772_404_200_123);

fn message(occasion: Occasion, text: &str) -> Message {
    let due = Wall(1_772_404_200_000);
    let job: evenkeel_core::ids::JobName = "team-a/report".parse().unwrap();
    let run = RunId { job: job.clone(), fire: Fire::Due(due), shard: Shard(0) };
    let id = format!("{} {run} 2", occasion.kind());
    let (text, to) = (text.to_owned(), Vec::new());
    let notice = Notice { seq: 1, id, occasion, job, run, due, attempt: 2, at: NOW, text, to, must: false };
    Message { suppressed: 3, ..Message::of_notice("n2", &notice) }
}

fn failure() -> Message {
    message(Occasion::Failure, "failed: <!channel> & \"x\"\nsee the log")
}

fn request(shape: WebhookShape, message: &Message) -> ShapedRequest {
    shape.request("https://h/hook", None, message, NOW)
}

fn body(request: &ShapedRequest) -> Value {
    assert_eq!(request.headers[0], ("content-type", "application/json".to_owned()));
    serde_json::from_slice(&request.body).unwrap()
}

/// The strings of a value, at any depth.
fn texts(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text],
        Value::Array(all) => all.iter().flat_map(texts).collect(),
        Value::Object(all) => all.values().flat_map(texts).collect(),
        _ => Vec::new(),
    }
}

#[test]
fn slack_gets_a_header_a_section_and_a_context_without_mentions() {
    let field = |text: &str| json!({ "type": "plain_text", "text": text, "emoji": false });
    let wanted = json!({
        "text": "[evenkeel] job.failure team-a/report: failed: &lt;!channel&gt; &amp; \"x\"\nsee the log",
        "blocks": [
            {
                "type": "header",
                "text": { "type": "plain_text", "text": "[evenkeel] job.failure team-a/report", "emoji": false },
            },
            {
                "type": "section",
                "text": {
                    "type": "mrkdwn", "text": "failed: &lt;!channel&gt; &amp; \"x\"\nsee the log", "verbatim": true,
                },
            },
            {
                "type": "context",
                "elements": [
                    field("run: team-a/report:1772404200000:0"),
                    field("due: 2026-03-01T22:30:00.000Z"),
                    field("node: n2"),
                    field("at: 2026-03-01T22:30:00.123Z"),
                    field("more since the last message: 3"),
                ],
            },
        ],
    });
    let request = request(WebhookShape::Slack, &failure());
    assert_eq!((body(&request), request.url.as_str()), (wanted, "https://h/hook"));
}

#[test]
fn teams_gets_a_message_with_an_adaptive_card() {
    let line = |text: &str| json!({ "type": "RichTextBlock", "spacing": "Small", "inlines": [{ "type": "TextRun", "text": text }] });
    let wanted = json!({
        "type": "message",
        "attachments": [{
            "contentType": "application/vnd.microsoft.card.adaptive",
            "contentUrl": null,
            "content": {
                "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
                "type": "AdaptiveCard",
                "version": "1.4",
                "msteams": { "width": "Full" },
                "body": [
                    {
                        "type": "RichTextBlock",
                        "inlines": [{
                            "type": "TextRun", "text": "[evenkeel] job.failure team-a/report", "size": "Medium",
                            "weight": "Bolder", "color": "Attention",
                        }],
                    },
                    line("failed: <!channel> & \"x\""),
                    line("see the log"),
                    {
                        "type": "FactSet",
                        "facts": [
                            { "title": "run", "value": "team-a/report:1772404200000:0" },
                            { "title": "due", "value": "2026-03-01T22:30:00.000Z" },
                            { "title": "node", "value": "n2" },
                            { "title": "at", "value": "2026-03-01T22:30:00.123Z" },
                            { "title": "more since the last message", "value": "3" },
                        ],
                    },
                ],
            },
        }],
    });
    assert_eq!(body(&request(WebhookShape::Teams, &failure())), wanted);
}

#[test]
fn dingtalk_gets_markdown_and_a_signature_in_the_address() {
    let wanted = json!({
        "msgtype": "markdown",
        "markdown": {
            "title": "[evenkeel] job.failure team-a/report",
            "text": "#### [evenkeel] job.failure team-a/report\n\n\
                     > failed: ＜!channel> & \"x\"  \n> see the log  \n\
                     \n- run: team-a/report:1772404200000:0\n- due: 2026-03-01T22:30:00.000Z\n- node: n2\
                     \n- at: 2026-03-01T22:30:00.123Z\n- more since the last message: 3",
        },
    });
    let shape = WebhookShape::DingTalk;
    let unsigned = request(shape, &failure());
    assert_eq!((body(&unsigned), unsigned.url.as_str()), (wanted.clone(), "https://h/hook"));
    // Made by another program.
    let sign = "6x%2BiJvM2aIFP3MElRudaBiRWJTjAdkKeBpewHFGBVF8%3D";
    for (url, joint) in [("https://h/send?access_token=t", "&"), ("https://h/send", "?")] {
        let signed = shape.request(url, Some("SECabc"), &failure(), NOW);
        assert_eq!(signed.url, format!("{url}{joint}timestamp=1772404200123&sign={sign}"));
        assert_eq!(body(&signed), wanted);
    }
}

#[test]
fn lark_gets_a_card_of_plain_texts_and_a_signature_in_the_body() {
    let plain = |text: &str| json!({ "tag": "plain_text", "content": text });
    let field = |text: &str| json!({ "is_short": true, "text": plain(text) });
    let mut wanted = json!({
        "msg_type": "interactive",
        "card": {
            "config": { "wide_screen_mode": true },
            "header": { "template": "red", "title": plain("[evenkeel] job.failure team-a/report") },
            "elements": [
                { "tag": "div", "text": plain("failed: <!channel> & \"x\"\nsee the log") },
                {
                    "tag": "div",
                    "fields": [
                        field("run\nteam-a/report:1772404200000:0"),
                        field("due\n2026-03-01T22:30:00.000Z"),
                        field("node\nn2"),
                        field("at\n2026-03-01T22:30:00.123Z"),
                        field("more since the last message\n3"),
                    ],
                },
            ],
        },
    });
    assert_eq!(body(&request(WebhookShape::Lark, &failure())), wanted);
    let signed = WebhookShape::Lark.request("https://h/hook", Some("lark-secret"), &failure(), NOW);
    wanted["timestamp"] = "1772404200".into();
    // Made by another program.
    wanted["sign"] = "ahRMY+ku1KnFSCkEjh0EJAh4q5FjJmc5VeK7Hg3I+KA=".into();
    assert_eq!((body(&signed), signed.url.as_str()), (wanted, "https://h/hook"));
}

#[test]
fn wecom_gets_markdown_of_at_most_4096_bytes() {
    let wanted = json!({
        "msgtype": "markdown",
        "markdown": {
            "content": "<font color=\"warning\">[evenkeel] job.failure team-a/report</font>\n\
                        failed: ＜!channel> & \"x\"\nsee the log\n\
                        > run: team-a/report:1772404200000:0\n> due: 2026-03-01T22:30:00.000Z\n> node: n2\
                        \n> at: 2026-03-01T22:30:00.123Z\n> more since the last message: 3",
        },
    });
    assert_eq!(body(&request(WebhookShape::WeCom, &failure())), wanted);
    let long = body(&request(WebhookShape::WeCom, &message(Occasion::Late, &"日".repeat(5_000))));
    let content = long["markdown"]["content"].as_str().unwrap();
    assert!((4_094..=4_096).contains(&content.len()), "{}", content.len());
    assert!(content.contains("日…\n> run") && content.ends_with("message: 3"), "{content}");
}

#[test]
fn pagerduty_opens_an_incident_and_closes_it_by_the_same_key() {
    let pagerduty = |message: &Message| {
        body(&WebhookShape::PagerDuty.request("https://h/v2/enqueue", Some("key"), message, NOW))
    };
    let wanted = json!({
        "routing_key": "key",
        "event_action": "trigger",
        "dedup_key": "evenkeel:job.failure:team-a~2Freport",
        "client": "evenkeel",
        "payload": {
            "summary": "failed: <!channel> & \"x\" see the log",
            "source": "n2",
            "severity": "error",
            "timestamp": "2026-03-01T22:30:00.123Z",
            "component": "team-a/report",
            "group": "evenkeel",
            "class": "job.failure",
            "custom_details": {
                "kind": "job.failure", "subject": "team-a/report", "node": "n2", "at": "2026-03-01T22:30:00.123Z",
                "text": "failed: <!channel> & \"x\"\nsee the log", "suppressed": 3, "facts": { "attempt": 2 },
                "id": "job.failure team-a/report:1772404200000:0 2", "run": "team-a/report:1772404200000:0",
                "due": "2026-03-01T22:30:00.000Z",
            },
        },
    });
    assert_eq!(pagerduty(&failure()), wanted);
    let closed = json!({
        "routing_key": "key", "event_action": "resolve", "dedup_key": "evenkeel:job.failure:team-a~2Freport",
    });
    assert_eq!(pagerduty(&message(Occasion::Recovery, "it is well")), closed);
    let of = |event: Event| pagerduty(&Message::of(NOW, "n2", &event.report()));
    let node = || "n1".parse().unwrap();
    for (opens, closes, key) in [
        (Event::Offline(node()), Event::Online(node()), "evenkeel:node.offline:n1"),
        (Event::Disconnected, Event::Connected, "evenkeel:disconnected:n2"),
        (Event::LeaseLost, Event::Joined, "evenkeel:lease_lost:n2"),
    ] {
        let (opens, closes) = (of(opens), of(closes));
        assert_eq!((&opens["event_action"], &opens["dedup_key"]), (&json!("trigger"), &json!(key)));
        assert_eq!((&closes["event_action"], &closes["dedup_key"]), (&json!("resolve"), &json!(key)));
        assert_eq!(opens["payload"]["severity"], "warning");
    }
    assert_eq!(of(Event::Drained)["payload"]["severity"], "info");
    let late = pagerduty(&message(Occasion::Late, &"x".repeat(2_000)));
    assert_eq!(late["dedup_key"], "evenkeel:job.late:team-a~2Freport", "a recovery does not close it");
    assert_eq!(late["payload"]["summary"].as_str().unwrap().chars().count(), 1_024);
}

#[test]
fn opsgenie_opens_an_alert_and_closes_it_by_its_alias() {
    let opsgenie = |message: &Message| {
        let request = WebhookShape::Opsgenie.request("https://h/v2/alerts/", Some("key"), message, NOW);
        assert_eq!(request.headers[1], ("authorization", "GenieKey key".to_owned()));
        request
    };
    let opened = opsgenie(&failure());
    let wanted = json!({
        "message": "failed: <!channel> & \"x\" see the log",
        "alias": "evenkeel:job.failure:team-a~2Freport",
        "description": failure().letter(),
        "entity": "team-a/report",
        "source": "n2",
        "priority": "P2",
        "tags": ["evenkeel", "job.failure"],
        "details": {
            "kind": "job.failure", "attempt": "2", "run": "team-a/report:1772404200000:0",
            "due": "2026-03-01T22:30:00.000Z", "node": "n2", "at": "2026-03-01T22:30:00.123Z",
            "more since the last message": "3",
        },
    });
    assert_eq!((body(&opened), opened.url.as_str()), (wanted, "https://h/v2/alerts"));
    let closed = opsgenie(&message(Occasion::Recovery, "it is well"));
    assert_eq!(body(&closed), json!({ "source": "n2", "note": "it is well" }));
    let url = "https://h/v2/alerts/evenkeel:job.failure:team-a~2Freport/close?identifierType=alias";
    assert_eq!(closed.url, url);
    let long = body(&opsgenie(&message(Occasion::Absent, &"日".repeat(5_000))));
    assert_eq!(long["message"].as_str().unwrap().chars().count(), 130);
}

/// The longest message there is, in the dearest characters, stays below what each service takes as a whole.
#[test]
fn every_service_takes_the_longest_message() {
    let texts_of = ["\u{1}", "&", "🚢", "\"", "🚢\n", "\n", "日"].map(|text| text.repeat(20_000));
    for text in &texts_of {
        let long = message(Occasion::Failure, text);
        let size = |shape| request(shape, &long).body.len();
        assert!(size(WebhookShape::Teams) < 21_000, "{}", size(WebhookShape::Teams));
        assert!(size(WebhookShape::Lark) < 20_000, "{}", size(WebhookShape::Lark));
        let slack = body(&request(WebhookShape::Slack, &long));
        let section = slack["blocks"][1]["text"]["text"].as_str().unwrap();
        assert!((2_000..=3_000).contains(&section.chars().count()), "{}", section.chars().count());
        let dingtalk = body(&request(WebhookShape::DingTalk, &long));
        assert!(dingtalk["markdown"]["text"].as_str().unwrap().len() < 20_000);
        let wecom = body(&request(WebhookShape::WeCom, &long));
        assert!(wecom["markdown"]["content"].as_str().unwrap().len() <= 4_096);
        let opsgenie = body(&request(WebhookShape::Opsgenie, &long));
        assert!(opsgenie["description"].as_str().unwrap().chars().count() <= 15_000);
    }
}

#[test]
fn no_shape_sends_an_empty_text_where_one_is_demanded() {
    let empty = message(Occasion::Failure, "");
    for shape in WebhookShape::ALL {
        let body = body(&request(shape, &empty));
        assert!(texts(&body).iter().any(|text| text.contains("team-a/report")), "{shape:?}");
    }
    let slack = body(&request(WebhookShape::Slack, &empty));
    assert_eq!(slack["blocks"][1]["text"]["text"], "[evenkeel] job.failure team-a/report");
}

#[test]
fn an_answer_that_says_no_is_a_failure_whatever_its_status() {
    for (shape, status, answer, said) in [
        (WebhookShape::Json, 204, "", ""),
        (WebhookShape::Json, 500, "a page", "it answers with status 500"),
        (WebhookShape::Slack, 200, "ok", ""),
        (WebhookShape::Slack, 403, "invalid_token", "it answers with status 403: invalid_token"),
        (WebhookShape::Teams, 202, "", ""),
        (WebhookShape::Teams, 200, "1", ""),
        (
            WebhookShape::Teams,
            200,
            "Webhook message delivery failed with error: 413",
            "it answers: Webhook message delivery failed with error: 413",
        ),
        (WebhookShape::DingTalk, 200, r#"{"errcode":0,"errmsg":"ok"}"#, ""),
        (
            WebhookShape::DingTalk,
            200,
            r#"{"errcode":310000,"errmsg":"sign not match"}"#,
            "it answers with errcode 310000: sign not match",
        ),
        (
            WebhookShape::DingTalk,
            200,
            "<html>",
            "it answers without errcode: is the address that of the service?",
        ),
        (WebhookShape::WeCom, 200, r#"{"errcode":0,"errmsg":"ok"}"#, ""),
        (WebhookShape::WeCom, 200, r#"{"errcode":93000}"#, "it answers with errcode 93000: "),
        (WebhookShape::Lark, 200, r#"{"code":0,"msg":"success","data":{}}"#, ""),
        (WebhookShape::Lark, 200, r#"{"StatusCode":0,"StatusMessage":"success"}"#, ""),
        (
            WebhookShape::Lark,
            200,
            r#"{"code":19021,"msg":"sign match fail","data":{}}"#,
            "it answers with code 19021: sign match fail",
        ),
        (
            WebhookShape::PagerDuty,
            400,
            "{\n\"status\":\"invalid event\"}",
            "it answers with status 400: { \"status\":\"invalid event\"}",
        ),
        (WebhookShape::PagerDuty, 202, r#"{"status":"success"}"#, ""),
        (WebhookShape::Opsgenie, 202, r#"{"result":"Request will be processed"}"#, ""),
        (WebhookShape::Opsgenie, 422, "", "it answers with status 422"),
    ] {
        let wanted = if said.is_empty() { Ok(()) } else { Err(said.to_owned()) };
        assert_eq!(shape.judge(status, answer), wanted, "{shape:?} {answer}");
    }
}
