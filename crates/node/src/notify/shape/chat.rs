//! Slack and Microsoft Teams.

use serde_json::{Value, json};

use super::super::message::{AlertSeverity, Message};
use super::text::{characters, cut, json_bytes, said};

/// The most characters of a header block in Slack.
const SLACK_HEADER_MAX: usize = 150;
/// The most characters of a section's text in Slack.
const SLACK_SECTION_MAX: usize = 3_000;
/// The most characters of an element below the text, far below what Slack takes.
const SLACK_FIELD_MAX: usize = 300;

/// The most characters of a title in Teams.
const TEAMS_TITLE_MAX: usize = 200;
/// The most bytes of a text in Teams: a message with all its JSON must stay below 28 KB, and was refused above 21 KB.
const TEAMS_TEXT_MAX: usize = 12_000;
/// The most lines of a text in Teams: each is a block of its own.
const TEAMS_LINES_MAX: usize = 40;

/// Characters as Slack counts them, once they are escaped.
fn slack_cost(c: char) -> usize {
    slack_escaped(c).map_or(1, str::len)
}

/// What Slack reads as this character; unescaped it would begin a link or a mention.
fn slack_escaped(c: char) -> Option<&'static str> {
    match c {
        '&' => Some("&amp;"),
        '<' => Some("&lt;"),
        '>' => Some("&gt;"),
        _ => None,
    }
}

/// A text for Slack, cut before it is escaped, so that no escape is cut.
fn slack_text(text: &str, max: usize) -> String {
    let mut escaped = String::new();
    for c in cut(text, max, slack_cost).chars() {
        match slack_escaped(c) {
            Some(escape) => escaped.push_str(escape),
            None => escaped.push(c),
        }
    }
    escaped
}

/// The body for an incoming webhook of Slack.
pub(super) fn slack(message: &Message) -> Value {
    let title = message.title();
    // A section without a text is refused.
    let text = if message.text.is_empty() { &title } else { &message.text };
    let fields = message.fields().into_iter().map(|(name, value)| {
        let text = slack_text(&format!("{name}: {value}"), SLACK_FIELD_MAX);
        json!({ "type": "plain_text", "text": text, "emoji": false })
    });
    let header =
        json!({ "type": "plain_text", "text": slack_text(&title, SLACK_HEADER_MAX), "emoji": false });
    let section = json!({ "type": "mrkdwn", "text": slack_text(text, SLACK_SECTION_MAX), "verbatim": true });
    json!({
        // What notifications and clients without blocks show.
        "text": slack_text(&format!("{title}: {}", message.text), SLACK_SECTION_MAX),
        "blocks": [
            { "type": "header", "text": header },
            { "type": "section", "text": section },
            { "type": "context", "elements": fields.collect::<Vec<_>>() },
        ],
    })
}

/// The body for a webhook of Teams' Workflows: a message with an Adaptive Card.
///
/// Blocks of rich text take a text as it is, where other blocks would read Markdown in it.
pub(super) fn teams(message: &Message) -> Value {
    let color = match (message.severity, message.kind) {
        (AlertSeverity::Error, _) => "Attention",
        (AlertSeverity::Warning, _) => "Warning",
        (AlertSeverity::Info, "job.recovery") => "Good",
        (AlertSeverity::Info, _) => "Default",
    };
    let title = json!({
        "type": "RichTextBlock",
        "inlines": [{
            "type": "TextRun", "text": cut(&message.title(), TEAMS_TITLE_MAX, characters), "size": "Medium",
            "weight": "Bolder", "color": color,
        }],
    });
    let text = cut(&message.text, TEAMS_TEXT_MAX, json_bytes);
    let mut lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    if lines.len() > TEAMS_LINES_MAX {
        lines.truncate(TEAMS_LINES_MAX - 1);
        lines.push("…");
    }
    let lines = lines.into_iter().map(|line| {
        json!({ "type": "RichTextBlock", "spacing": "Small", "inlines": [{ "type": "TextRun", "text": line }] })
    });
    let facts: Vec<Value> =
        message.fields().into_iter().map(|(name, value)| json!({ "title": name, "value": value })).collect();
    let facts = json!({ "type": "FactSet", "facts": facts });
    let body: Vec<Value> = [title].into_iter().chain(lines).chain([facts]).collect();
    json!({
        "type": "message",
        "attachments": [{
            "contentType": "application/vnd.microsoft.card.adaptive",
            "contentUrl": null,
            "content": {
                "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
                "type": "AdaptiveCard",
                "version": "1.4",
                "msteams": { "width": "Full" },
                "body": body,
            },
        }],
    })
}

/// Workflows accept a message with 202; a connector of the older kind answers 200 even where it could not deliver.
pub(super) fn judge_teams(answer: &str) -> Result<(), String> {
    if answer.contains("delivery failed") {
        return Err(format!("it answers: {}", said(answer)));
    }
    Ok(())
}
