//! `[heartbeat]` of the settings file: where the node says that it works, and how often.

use evenkeel::OutgoingHeartbeat;
use evenkeel_core::time::{Millis, SpanLimits, TimeSpan};
use serde::Deserialize;

use crate::exit::CliError;

/// The span between two heartbeats that are written nowhere.
const EVERY: &str = "60s";
/// The bounds of that span: a monitor needs no more, and one of less than a day is of use.
const EVERY_LIMITS: SpanLimits = SpanLimits::new(Millis::secs(1), Millis::secs(24 * 3_600));

/// `[heartbeat]` as written. Its address may be a secret, so it is not shown.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HeartbeatConfig {
    url: String,
    every: Option<String>,
}

impl HeartbeatConfig {
    /// Resolves the settings of the heartbeat.
    pub(super) fn resolve(self) -> Result<OutgoingHeartbeat, CliError> {
        let wrong = |what: String| CliError::usage(format!("[heartbeat]: {what}"));
        let every = TimeSpan::parse("every", self.every.as_deref().unwrap_or(EVERY), EVERY_LIMITS);
        let every = every.map_err(|e| wrong(e.to_string()))?;
        OutgoingHeartbeat::new(self.url, every.into()).map_err(wrong)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::SettingsArgs;

    fn resolved(heartbeat: &str) -> Result<Option<Duration>, String> {
        let text = format!("registry = \"sqlite:/r\"\nname = \"a\"\ndata = \"/d\"\n{heartbeat}");
        let written: SettingsArgs = toml::from_str(&text).map_err(|e| e.to_string())?;
        let resolved = SettingsArgs::default().merged_over(written).resolve().map_err(|e| e.to_string())?;
        Ok(resolved.heartbeat.map(|heartbeat| heartbeat.every()))
    }

    #[test]
    fn a_heartbeat_is_read_and_a_bad_one_is_refused_with_the_fix() {
        assert_eq!(resolved(""), Ok(None));
        let minute = Some(Duration::from_secs(60));
        assert_eq!(resolved("[heartbeat]\nurl = \"https://hc-ping.com/x\""), Ok(minute));
        let two = Some(Duration::from_secs(120));
        assert_eq!(resolved("[heartbeat]\nurl = \"http://h/x\"\nevery = \"2m\""), Ok(two));
        for (text, says) in [
            ("[heartbeat]\nurl = \"a-secret\"", "[heartbeat]: url is no address: write url = \"http://HOST"),
            ("[heartbeat]\nevery = \"60s\"", "missing field `url`"),
            ("[heartbeat]\nurl = \"http://h/x\"\nevery = \"60\"", "every `60`: write numbers with a unit"),
            ("[heartbeat]\nurl = \"http://h/x\"\nevery = \"10ms\"", "the span must be at least 1s"),
            ("[heartbeat]\nurl = \"http://h/x\"\nto = 1", "unknown field `to`"),
        ] {
            let refused = resolved(text).expect_err("it is nonsense");
            assert!(refused.contains(says), "{text}: {refused}");
        }
        let refused = resolved("[heartbeat]\nurl = \"a-secret\"").expect_err("it is no address");
        assert!(!refused.contains("a-secret"), "{refused}");
    }
}
