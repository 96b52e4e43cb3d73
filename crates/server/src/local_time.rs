//! Moments for people: in the reader's own time zone, relative to now, or as programs read them.

use std::io::IsTerminal;
use std::sync::OnceLock;

use clap::ValueEnum;
use evenkeel_core::time::Wall;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::zones;

/// How moments are shown to people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TimeFormat {
    /// From now, such as 3m ago or in 2h
    Relative,
    /// In the reader's own time zone
    Local,
    /// RFC 3339 in UTC
    Iso,
}

/// The format that the command line of this process asks for.
static CHOSEN: OnceLock<TimeFormat> = OnceLock::new();

/// Sets the format of this process's moments; only the first call has an effect.
pub(crate) fn choose(format: TimeFormat) {
    let _ = CHOSEN.set(format);
}

/// A moment in a sentence: in the reader's own time zone, unless `--time iso` was said.
#[must_use]
pub(crate) fn local(moment: Option<&str>) -> String {
    match CHOSEN.get() {
        Some(TimeFormat::Iso) => moment.unwrap_or("-").to_owned(),
        _ => in_zone(moment, &TimeZone::system()),
    }
}

/// A moment in a table: relative on a terminal, else in the reader's own time zone, unless `--time` says otherwise.
#[must_use]
pub(crate) fn cell(moment: Option<&str>) -> String {
    let of_stream = || if std::io::stdout().is_terminal() { TimeFormat::Relative } else { TimeFormat::Local };
    match CHOSEN.get().copied().unwrap_or_else(of_stream) {
        TimeFormat::Relative => relative(moment, zones::now()),
        TimeFormat::Local | TimeFormat::Iso => local(moment),
    }
}

/// How long it was from one moment to another; none if one of them is unknown.
#[must_use]
pub(crate) fn between(from: Option<&str>, to: Option<&str>) -> Option<String> {
    let (from, to): (Timestamp, Timestamp) = (from?.parse().ok()?, to?.parse().ok()?);
    let millis = to.as_millisecond() - from.as_millisecond();
    Some(if millis < 10_000 { format!("{}ms", millis.max(0)) } else { span(millis / 1_000) })
}

fn in_zone(moment: Option<&str>, zone: &TimeZone) -> String {
    let Some(text) = moment else { return "-".to_owned() };
    match text.parse::<Timestamp>() {
        Ok(at) => at.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M:%S").to_string(),
        Err(_) => text.to_owned(),
    }
}

fn relative(moment: Option<&str>, now: Wall) -> String {
    let Some(text) = moment else { return "-".to_owned() };
    let Ok(at) = text.parse::<Timestamp>() else { return text.to_owned() };
    let seconds = (at.as_millisecond() - now.0) / 1_000;
    match seconds {
        0 => "now".to_owned(),
        1.. => format!("in {}", span(seconds)),
        _ => format!("{} ago", span(-seconds)),
    }
}

/// Seconds in the largest unit, with the next smaller one where the number is small.
fn span(seconds: i64) -> String {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    let two = |large: i64, (large_unit, small_unit): (&str, &str), small: i64| match (seconds % large) / small
    {
        rest if rest > 0 && seconds / large < 10 => {
            format!("{}{large_unit}{rest}{small_unit}", seconds / large)
        }
        _ => format!("{}{large_unit}", seconds / large),
    };
    match seconds {
        ..MINUTE => format!("{seconds}s"),
        MINUTE..HOUR => two(MINUTE, ("m", "s"), 1),
        HOUR..DAY => two(HOUR, ("h", "m"), MINUTE),
        _ => two(DAY, ("d", "h"), HOUR),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_shown_in_the_readers_zone_and_nonsense_as_it_is() {
        let zone = TimeZone::fixed(jiff::tz::offset(2));
        assert_eq!(in_zone(Some("2026-03-01T22:30:00.250Z"), &zone), "2026-03-02 00:30:00");
        assert_eq!(in_zone(Some("soon"), &zone), "soon");
        assert_eq!(in_zone(None, &zone), "-");
    }

    #[test]
    fn a_moment_is_so_long_ago_or_comes_in_so_long() {
        let now: Timestamp = "2026-03-01T12:00:00Z".parse().expect("a moment");
        let shown = |text: &str| relative(Some(text), Wall(now.as_millisecond()));
        for (moment, expected) in [
            ("2026-03-01T12:00:00.900Z", "now"),
            ("2026-03-01T11:59:15Z", "45s ago"),
            ("2026-03-01T11:56:30Z", "3m30s ago"),
            ("2026-03-01T11:30:10Z", "29m ago"),
            ("2026-03-01T14:00:00Z", "in 2h"),
            ("2026-03-02T11:00:00Z", "in 23h"),
            ("2026-03-03T15:00:00Z", "in 2d3h"),
            ("2027-03-01T12:00:00Z", "in 365d"),
            ("soon", "soon"),
        ] {
            assert_eq!(shown(moment), expected, "{moment}");
        }
        assert_eq!(relative(None, Wall(0)), "-");
    }

    #[test]
    fn a_short_run_took_milliseconds() {
        let took = |to: &str| between(Some("2026-03-01T12:00:00.000Z"), Some(to));
        assert_eq!(took("2026-03-01T12:00:00.042Z").as_deref(), Some("42ms"));
        assert_eq!(took("2026-03-01T12:02:05.000Z").as_deref(), Some("2m5s"));
        assert_eq!(between(None, Some("2026-03-01T12:00:00Z")), None);
    }
}
