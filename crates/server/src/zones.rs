//! Time zones, and the formats of moments in them.

use evenkeel_core::time::{SpanLimits, TimeSpan, Wall};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::exit::CliError;

/// The current wall time.
#[must_use]
pub(crate) fn now() -> Wall {
    evenkeel::clock::now().wall
}

/// Parses a moment as RFC 3339, or a span before now.
///
/// # Errors
/// It is neither; the text has the format.
pub(crate) fn when(text: &str, now: Wall) -> Result<Wall, String> {
    if let Ok(span) = TimeSpan::parse("", text, SpanLimits::ANY) {
        return Ok(now - span.millis());
    }
    let moment: Option<Timestamp> = text.parse().ok();
    moment
        .map(|at| Wall(at.as_millisecond()))
        .ok_or_else(|| "write how long ago, like 10m or 2d, or a moment like 2026-03-01T22:30:00Z".to_owned())
}

/// The last moment before one with an offset, so that a fire at it comes after.
///
/// # Errors
/// The text is no such moment.
pub(crate) fn just_before(text: &str) -> Result<Wall, CliError> {
    let moment = text.parse::<Timestamp>().map_err(|_| {
        CliError::usage(format!("{text:?} is no moment: write it with an offset, like 2026-03-29T00:00:00Z"))
    })?;
    Ok(Wall(moment.as_millisecond().saturating_sub(1)))
}

/// A zone by its IANA name.
///
/// # Errors
/// There is none of that name.
pub(crate) fn named(name: &str) -> Result<TimeZone, CliError> {
    TimeZone::get(name)
        .map_err(|_| CliError::usage(format!("no zone is named {name:?}: use a name like Europe/Berlin")))
}

/// The IANA name of this host's time zone.
///
/// # Errors
/// The host does not have one.
pub(crate) fn of_host() -> Result<String, CliError> {
    let zone = TimeZone::try_system().ok();
    let name = zone.as_ref().and_then(|zone| zone.iana_name().map(ToOwned::to_owned));
    name.ok_or_else(|| {
        CliError::usage(
            "this host does not say its zone: give it with --timezone, like --timezone Europe/Berlin",
        )
    })
}

/// A moment of the API in a time zone, for programs.
#[must_use]
pub(crate) fn rfc3339(moment: &str, zone: &TimeZone) -> String {
    shown(moment, zone, "%Y-%m-%dT%H:%M:%S%.3f%:z")
}

/// A moment of the API in a time zone, for people.
#[must_use]
pub(crate) fn for_people(moment: &str, zone: &TimeZone) -> String {
    shown(moment, zone, "%a %Y-%m-%d %H:%M:%S %:z %Z")
}

fn shown(moment: &str, zone: &TimeZone, format: &str) -> String {
    match moment.parse::<Timestamp>() {
        Ok(at) => at.to_zoned(zone.clone()).strftime(format).to_string(),
        Err(_) => moment.to_owned(),
    }
}
