//! The shapes of webhooks: what a service expects to be posted, and by which answer it says that it took it.
//!
//! Nothing here sends: a message, an address, a secret and a moment become a request, and an answer is judged.

mod chat;
mod paging;
mod request;
mod robots;
mod text;

use evenkeel_core::time::Wall;
use serde::Deserialize;

use super::message::Message;
pub(super) use request::ShapedRequest;

/// The shape of what a webhook is sent: the JSON of Evenkeel, or what a service expects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WebhookShape {
    /// Evenkeel's own JSON.
    #[default]
    Json,
    /// An incoming webhook of Slack, or of a chat that takes the same.
    Slack,
    /// A webhook of the Workflows app in Microsoft Teams.
    Teams,
    /// A custom robot of DingTalk.
    DingTalk,
    /// A custom bot of Lark or Feishu.
    Lark,
    /// A robot of a WeCom group.
    WeCom,
    /// The Events API v2 of PagerDuty.
    PagerDuty,
    /// The Alert API of Opsgenie, or of Jira Service Management.
    Opsgenie,
}

/// Whether a shape has a secret beside its address.
pub(super) enum SecretNeed {
    /// It has none.
    None,
    /// With one, requests are signed.
    Optional,
    /// It must have one, which people call this.
    Required(&'static str),
}

impl WebhookShape {
    /// All shapes.
    pub const ALL: [Self; 8] = [
        Self::Json,
        Self::Slack,
        Self::Teams,
        Self::DingTalk,
        Self::Lark,
        Self::WeCom,
        Self::PagerDuty,
        Self::Opsgenie,
    ];

    /// The word in the settings.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Slack => "slack",
            Self::Teams => "teams",
            Self::DingTalk => "dingtalk",
            Self::Lark => "lark",
            Self::WeCom => "wecom",
            Self::PagerDuty => "pagerduty",
            Self::Opsgenie => "opsgenie",
        }
    }

    /// Whether the service keeps incidents that open and close.
    #[must_use]
    pub fn keeps_incidents(self) -> bool {
        matches!(self, Self::PagerDuty | Self::Opsgenie)
    }

    /// The service's address, where it has the same for everyone.
    pub(super) fn usual_url(self) -> Option<&'static str> {
        match self {
            Self::PagerDuty => Some(paging::PAGERDUTY_URL),
            Self::Opsgenie => Some(paging::OPSGENIE_URL),
            _ => None,
        }
    }

    /// Whether it needs a secret.
    pub(super) fn secret(self) -> SecretNeed {
        match self {
            Self::DingTalk | Self::Lark => SecretNeed::Optional,
            Self::PagerDuty => SecretNeed::Required("the integration key"),
            Self::Opsgenie => SecretNeed::Required("the API key"),
            Self::Json | Self::Slack | Self::Teams | Self::WeCom => SecretNeed::None,
        }
    }

    /// Checks an address as far as the shape demands something of it. An error does not repeat it.
    pub(super) fn check_url(self, url: &str) -> Result<(), String> {
        match self {
            Self::Opsgenie => paging::check_opsgenie_url(url),
            _ => Ok(()),
        }
    }

    /// The request that carries a message, sent at this moment.
    pub(super) fn request(
        self,
        url: &str,
        secret: Option<&str>,
        message: &Message,
        now: Wall,
    ) -> ShapedRequest {
        // The settings refuse a service that needs a secret without one.
        let key = secret.unwrap_or_default();
        match self {
            Self::Json => ShapedRequest::new(url.to_owned(), message.json()),
            Self::Slack => ShapedRequest::json(url.to_owned(), &chat::slack(message)),
            Self::Teams => ShapedRequest::json(url.to_owned(), &chat::teams(message)),
            Self::DingTalk => {
                ShapedRequest::json(robots::dingtalk_url(url, secret, now), &robots::dingtalk(message))
            }
            Self::Lark => ShapedRequest::json(url.to_owned(), &robots::lark(message, secret, now)),
            Self::WeCom => ShapedRequest::json(url.to_owned(), &robots::wecom(message)),
            Self::PagerDuty => ShapedRequest::json(url.to_owned(), &paging::pagerduty(message, key)),
            Self::Opsgenie => paging::opsgenie(url, message, key),
        }
    }

    /// Whether an answer says that the message was taken; an error is a text.
    pub(super) fn judge(self, status: u16, answer: &str) -> Result<(), String> {
        if !(200..300).contains(&status) {
            let said = text::said(answer);
            return Err(match (self, said.as_str()) {
                (Self::Json, _) | (_, "") => format!("it answers with status {status}"),
                (_, said) => format!("it answers with status {status}: {said}"),
            });
        }
        match self {
            Self::DingTalk | Self::WeCom => robots::judge_code(answer, &["errcode"], "errmsg"),
            Self::Lark => robots::judge_code(answer, &["code", "StatusCode"], "msg"),
            Self::Teams => chat::judge_teams(answer),
            Self::Json | Self::Slack | Self::PagerDuty | Self::Opsgenie => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
