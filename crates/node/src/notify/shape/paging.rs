//! PagerDuty and Opsgenie, which keep incidents that open and close.

use serde_json::{Map, Value, json};

use super::super::incident::Incident;
use super::super::message::{AlertSeverity, Message};
use super::request::ShapedRequest;
use super::text::{characters, cut, one_line};

/// Where PagerDuty takes events.
pub(super) const PAGERDUTY_URL: &str = "https://events.pagerduty.com/v2/enqueue";
/// Where Opsgenie takes alerts.
pub(super) const OPSGENIE_URL: &str = "https://api.opsgenie.com/v2/alerts";

/// The most characters of a summary in PagerDuty.
const SUMMARY_MAX: usize = 1_024;
/// The most characters of an alert's message in Opsgenie.
const MESSAGE_MAX: usize = 130;
/// The most characters of an alert's description in Opsgenie.
const DESCRIPTION_MAX: usize = 15_000;
/// The most characters of an alert's entity in Opsgenie.
const ENTITY_MAX: usize = 512;
/// The most characters of an alert's source in Opsgenie.
const SOURCE_MAX: usize = 100;

/// The line that names an event: its text, or its title if it has none.
fn line(message: &Message, max: usize) -> String {
    let text = if message.text.is_empty() { &message.title() } else { &message.text };
    one_line(text, max)
}

/// The body for the Events API v2 of PagerDuty.
pub(super) fn pagerduty(message: &Message, routing_key: &str) -> Value {
    let incident = Incident::of(message);
    if !incident.is_open {
        return json!({
            "routing_key": routing_key, "event_action": "resolve", "dedup_key": incident.key,
        });
    }
    let severity = match message.severity {
        AlertSeverity::Info => "info",
        AlertSeverity::Warning => "warning",
        AlertSeverity::Error => "error",
    };
    json!({
        "routing_key": routing_key,
        "event_action": "trigger",
        "dedup_key": incident.key,
        "client": "evenkeel",
        "payload": {
            "summary": line(message, SUMMARY_MAX),
            "source": message.node,
            "severity": severity,
            "timestamp": message.at,
            "component": message.subject,
            "group": "evenkeel",
            "class": message.kind,
            // Texts and numbers under text keys, which JSON can always express.
            "custom_details": serde_json::to_value(message).expect("a message is plain data"),
        },
    })
}

/// Checks that an address is one of alerts, since that of an alert to close is made from it.
pub(super) fn check_opsgenie_url(url: &str) -> Result<(), String> {
    if url.trim_end_matches('/').ends_with("/alerts") && !url.contains(['?', '#']) {
        return Ok(());
    }
    Err(format!(
        "the webhook of shape \"opsgenie\" has to end with /alerts: write {OPSGENIE_URL}, or \
         https://api.eu.opsgenie.com/v2/alerts"
    ))
}

/// The request for the Alert API of Opsgenie.
pub(super) fn opsgenie(url: &str, message: &Message, key: &str) -> ShapedRequest {
    let incident = Incident::of(message);
    let (url, source) = (url.trim_end_matches('/'), cut(&message.node, SOURCE_MAX, characters));
    let request = if incident.is_open {
        ShapedRequest::json(url.to_owned(), &opened_alert(message, &incident.key, &source))
    } else {
        let note = cut(&message.text, DESCRIPTION_MAX, characters);
        let url = format!("{url}/{}/close?identifierType=alias", incident.key);
        ShapedRequest::json(url, &json!({ "source": source, "note": note }))
    };
    request.with_header("authorization", format!("GenieKey {key}"))
}

fn opened_alert(message: &Message, alias: &str, source: &str) -> Value {
    let priority = match message.severity {
        AlertSeverity::Info => "P5",
        AlertSeverity::Warning => "P3",
        AlertSeverity::Error => "P2",
    };
    // Details are texts.
    let mut details: Map<String, Value> =
        message.facts.iter().map(|(name, value)| ((*name).to_owned(), value.to_string().into())).collect();
    details.insert("kind".to_owned(), message.kind.into());
    details.extend(message.fields().into_iter().map(|(name, value)| (name.to_owned(), value.into())));
    json!({
        "message": line(message, MESSAGE_MAX),
        "alias": alias,
        "description": cut(&message.letter(), DESCRIPTION_MAX, characters),
        "entity": cut(&message.subject, ENTITY_MAX, characters),
        "source": source,
        "priority": priority,
        "tags": ["evenkeel", message.kind],
        "details": details,
    })
}
