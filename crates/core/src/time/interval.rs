//! Spans of time in other words than Evenkeel's, as suggestions for what to write.

use alloc::format;
use alloc::string::String;
use jiff::Span;

/// A span as Evenkeel writes it, made of one in the words of ISO 8601 or of people, such as `PT5M`, `5 minutes` or `1w`;
/// `None` if it is neither, or counts months.
pub(crate) fn interval(text: &str) -> Option<String> {
    let text = text.trim_ascii();
    let is_iso = text.starts_with(['P', 'p']);
    let text = if is_iso { text.to_ascii_uppercase() } else { text.to_ascii_lowercase() };
    let span: Span = text.parse().ok()?;
    if span.get_years() != 0 || span.get_months() != 0 || !span.is_positive() {
        return None;
    }
    let parts = [
        (i64::from(span.get_weeks()) * 7 + i64::from(span.get_days()), "d"),
        (i64::from(span.get_hours()), "h"),
        (span.get_minutes(), "m"),
        (span.get_seconds(), "s"),
        (span.get_milliseconds(), "ms"),
    ];
    let written: String =
        parts.iter().filter(|(n, _)| *n > 0).map(|(n, unit)| format!("{n}{unit}")).collect();
    (!written.is_empty()).then_some(written)
}
