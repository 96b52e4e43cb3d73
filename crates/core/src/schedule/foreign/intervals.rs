//! Intervals in other programs' words: `rate(5 minutes)`, `every 5m`, `PT5M`, `R/2026-01-01T00:00:00Z/PT1H`, `5m` alone.

use crate::schedule::error::quote;
use crate::schedule::translation::{Translation, call};
use crate::time::interval;
use alloc::format;
use jiff::Timestamp;

/// The meaning of an interval.
pub(super) fn translate(text: &str) -> Option<Translation> {
    rate(text).or_else(|| repeating(text)).or_else(|| every(text)).or_else(|| alone(text))
}

/// `rate(5 minutes)`.
fn rate(text: &str) -> Option<Translation> {
    const SAYS: &str = "this is written for AWS EventBridge";
    let inner = call(text, "rate")?;
    Some(match interval(inner) {
        Some(span) => Translation::new(SAYS, format!("@every {span}")),
        None => {
            Translation::none(SAYS, format!(": {} is no interval; write it as `@every 5m`", quote(inner)))
        }
    })
}

/// `R5/2026-01-01T00:00:00Z/PT1H`, `R/PT1H` or `PT1H`, ISO 8601's intervals.
fn repeating(text: &str) -> Option<Translation> {
    const SAYS: &str = "this is an interval in the words of ISO 8601";
    let repeats = text.starts_with('R') && text.contains('/');
    let last = text.rsplit('/').next().filter(|_| repeats).unwrap_or(text);
    if !last.starts_with('P') || !(repeats || last.bytes().any(|b| b.is_ascii_digit())) {
        return None;
    }
    Some(match (interval(last), last) {
        (Some(span), _) => Translation::new(SAYS, format!("@every {span}")),
        (None, "P1M") => Translation::new(SAYS, "@monthly"),
        (None, "P1Y") => Translation::new(SAYS, "@yearly"),
        (None, _) => Translation::none(SAYS, ": write it as `@every 5m`"),
    })
}

/// `every 5 minutes` or `@every 5 minutes`.
fn every(text: &str) -> Option<Translation> {
    let (word, rest) = text.split_once([' ', '\t'])?;
    let at_sign = word.eq_ignore_ascii_case("@every");
    let plain = word.eq_ignore_ascii_case("every") || word.eq_ignore_ascii_case("each");
    let counted = match rest.trim_ascii() {
        rest if rest.starts_with(|c: char| c.is_ascii_digit()) => interval(rest)?,
        rest if plain => interval(&format!("1 {rest}"))?,
        _ => return None,
    };
    let says = if at_sign { "a span is a number with d, h, m, s or ms" } else { "a schedule is no sentence" };
    let meant = Translation::new(says, format!("@every {counted}"));
    // A span in the right form that is too short or too long has an error of its own.
    (plain || (at_sign && meant.schedule.is_some())).then_some(meant)
}

/// `5m`, `300` or FreeBSD's `@600`, and a moment without `at`.
fn alone(text: &str) -> Option<Translation> {
    let seconds = text.strip_prefix('@').unwrap_or(text);
    if !seconds.is_empty() && seconds.bytes().all(|b| b.is_ascii_digit()) {
        return Some(Translation::new("this is a number alone", format!("@every {seconds}s")));
    }
    if text.parse::<Timestamp>().is_ok() {
        return Some(Translation::new("this is a moment alone", format!("at {text}")));
    }
    let is_span = text.starts_with(|c: char| c.is_ascii_digit());
    let span = is_span.then(|| interval(text))??;
    Some(Translation::new("this is a span alone", format!("@every {span}")))
}
