//! A span of which the spelling is kept.

use alloc::string::String;

use crate::time::{Millis, SpanLimits, TimeSpan, TimeSpanError};

/// A span as it was written, and its length. The registry keeps the spelling: `90m` and `1h30m` are two declarations.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SpanText {
    text: String,
    length: Millis,
}

impl SpanText {
    /// Parses the text of a key; `None` for an empty one, which means that the key is absent.
    pub(super) fn parse(key: &str, text: String) -> Result<Option<Self>, TimeSpanError> {
        if text.is_empty() {
            return Ok(None);
        }
        let length = TimeSpan::parse(key, &text, SpanLimits::SCHEDULE)?.millis();
        Ok(Some(Self { text, length }))
    }

    /// The length of the span.
    #[must_use]
    pub fn length(&self) -> Millis {
        self.length
    }

    /// The span as written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The text of a key, which is empty where the key is absent.
    pub(super) fn text_of(span: Option<&Self>) -> String {
        span.map_or_else(String::new, |span| span.text.clone())
    }
}

/// The seconds of a key as a span.
pub(super) fn seconds(secs: u64) -> Millis {
    Millis::secs(i64::try_from(secs).unwrap_or(i64::MAX / 1000))
}

/// A span as the seconds of its key.
pub(super) fn whole_seconds(span: Millis) -> u64 {
    u64::try_from(span.0 / 1000).unwrap_or(0)
}
