//! DingTalk, Lark and WeCom, whose robots answer 200 whether they took the message or not.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use evenkeel_core::time::Wall;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;
use url::form_urlencoded::byte_serialize;

use super::super::message::{AlertSeverity, Message};
use super::text::{bytes, characters, cut, json_bytes, said};

/// The most characters of a title.
const TITLE_MAX: usize = 200;
/// The most characters of a text in DingTalk: a message has at most 20,000 bytes, a character at most four, and a line five
/// more.
const DINGTALK_TEXT_MAX: usize = 4_000;
/// The most bytes of a text in Lark, as JSON: a request has at most 20 KB.
const LARK_TEXT_MAX: usize = 15_000;
/// The most bytes of a message's content in WeCom.
const WECOM_CONTENT_MAX: usize = 4_096;

/// The milliseconds of a second.
const SECOND: i64 = 1_000;

/// The HMAC-SHA256 of `data` under `key`, in base64.
fn signature(key: &str, data: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(key.as_bytes()).expect("HMAC takes keys of any length");
    mac.update(data.as_bytes());
    STANDARD.encode(mac.finalize().into_bytes())
}

/// A text where Markdown is read: nothing in it becomes a tag or a mention.
fn untagged(text: &str) -> String {
    text.replace('<', "＜")
}

/// The address of DingTalk, signed if there is a secret.
pub(super) fn dingtalk_url(url: &str, secret: Option<&str>, now: Wall) -> String {
    let Some(secret) = secret else { return url.to_owned() };
    let url = url.split('#').next().unwrap_or_default();
    let timestamp = now.0;
    let sign = signature(secret, &format!("{timestamp}\n{secret}"));
    let sign: String = byte_serialize(sign.as_bytes()).collect();
    let joint = if url.contains('?') { '&' } else { '?' };
    format!("{url}{joint}timestamp={timestamp}&sign={sign}")
}

/// The body for a robot of DingTalk.
pub(super) fn dingtalk(message: &Message) -> Value {
    let title = cut(&untagged(&message.title()), TITLE_MAX, characters);
    let fields: String =
        message.fields().iter().map(|(name, value)| format!("\n- {name}: {}", untagged(value))).collect();
    let text = cut(&untagged(&message.text), DINGTALK_TEXT_MAX, characters);
    // Two blanks at its end break a line.
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let text: String = lines.map(|line| format!("> {line}  \n")).collect();
    json!({
        "msgtype": "markdown",
        "markdown": { "title": title, "text": format!("#### {title}\n\n{text}{fields}") },
    })
}

/// The body for a robot of a WeCom group.
pub(super) fn wecom(message: &Message) -> Value {
    let color = match (message.severity, message.kind) {
        (AlertSeverity::Error | AlertSeverity::Warning, _) => "warning",
        (AlertSeverity::Info, "job.recovery") => "info",
        (AlertSeverity::Info, _) => "comment",
    };
    let title = cut(&untagged(&message.title()), TITLE_MAX, characters);
    let title = format!("<font color=\"{color}\">{title}</font>");
    let fields: String =
        message.fields().iter().map(|(name, value)| format!("\n> {name}: {}", untagged(value))).collect();
    let left = WECOM_CONTENT_MAX.saturating_sub(title.len() + fields.len() + 1);
    let text = cut(&untagged(&message.text), left, bytes);
    json!({ "msgtype": "markdown", "markdown": { "content": format!("{title}\n{text}{fields}") } })
}

/// The body for a custom bot of Lark: a card whose texts are plain, signed if there is a secret.
pub(super) fn lark(message: &Message, secret: Option<&str>, now: Wall) -> Value {
    let color = match (message.severity, message.kind) {
        (AlertSeverity::Error, _) => "red",
        (AlertSeverity::Warning, _) => "orange",
        (AlertSeverity::Info, "job.recovery") => "green",
        (AlertSeverity::Info, _) => "blue",
    };
    let plain = |content: String| json!({ "tag": "plain_text", "content": content });
    let fields: Vec<Value> = message
        .fields()
        .into_iter()
        .map(|(name, value)| json!({ "is_short": true, "text": plain(format!("{name}\n{value}")) }))
        .collect();
    let mut body = json!({
        "msg_type": "interactive",
        "card": {
            "config": { "wide_screen_mode": true },
            "header": { "template": color, "title": plain(cut(&message.title(), TITLE_MAX, characters)) },
            "elements": [
                { "tag": "div", "text": plain(cut(&message.text, LARK_TEXT_MAX, json_bytes)) },
                { "tag": "div", "fields": fields },
            ],
        },
    });
    if let Some(secret) = secret {
        let timestamp = now.0.div_euclid(SECOND);
        body["timestamp"] = timestamp.to_string().into();
        // Lark signs nothing, with the moment and the secret as the key.
        body["sign"] = signature(&format!("{timestamp}\n{secret}"), "").into();
    }
    body
}

/// Whether an answer has 0 at the first of these keys that it has; else it failed, and `message` says why.
pub(super) fn judge_code(answer: &str, codes: &[&str], message: &str) -> Result<(), String> {
    let answer: Value = serde_json::from_str(answer).unwrap_or_default();
    let code = codes.iter().find_map(|key| Some((*key, answer.get(*key)?.as_i64()?)));
    match code {
        Some((_, 0)) => Ok(()),
        Some((key, code)) => {
            let why = answer.get(message).and_then(Value::as_str).unwrap_or_default();
            Err(format!("it answers with {key} {code}: {}", said(why)))
        }
        None => Err(format!(
            "it answers without {}: is the address that of the service?",
            codes.first().unwrap_or(&"a code")
        )),
    }
}
