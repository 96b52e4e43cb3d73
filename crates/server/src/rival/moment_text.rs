//! Moments as other schedulers write them.

use evenkeel_core::time::Wall;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

/// The months of the classic log.
const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
/// How far a time without a year may lie ahead; later ones are of the year before.
const AHEAD: SignedDuration = SignedDuration::from_hours(24);

/// Reads RFC 3339, a local time in this zone, or a number of seconds, milliseconds or microseconds since 1970: which of them
/// the number of its digits says.
///
/// # Errors
/// The text is none of these.
pub(super) fn read(text: &str, zone: &TimeZone) -> Result<Wall, String> {
    let text = text.trim();
    let wrong = || {
        format!(
            "{text:?} is no time: write it as 2026-03-01T22:30:00Z, as 2026-03-01 22:30:00, or as seconds since 1970"
        )
    };
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_number = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if !whole.is_empty() && is_number(whole) && is_number(fraction) {
        let number: i64 = whole.parse().map_err(|_| wrong())?;
        let part: i64 = format!("{fraction:0<3}").get(..3).and_then(|part| part.parse().ok()).unwrap_or(0);
        return match whole.len() {
            ..=11 => Ok(Wall(number.saturating_mul(1_000).saturating_add(part))),
            12..=14 => Ok(Wall(number)),
            15..=17 => Ok(Wall(number / 1_000)),
            _ => Err(wrong()),
        };
    }
    if let Ok(at) = text.parse::<Timestamp>() {
        return Ok(Wall(at.as_millisecond()));
    }
    let local: DateTime = text.parse().map_err(|_| wrong())?;
    in_zone(local, zone).ok_or_else(wrong)
}

/// Reads `Nov 29 10:00:01`, the latest such time that is not more than a day ahead.
pub(super) fn without_year(month: &str, day: &str, time: &str, zone: &TimeZone, now: Wall) -> Option<Wall> {
    let month = MONTHS.iter().position(|known| known.eq_ignore_ascii_case(month))? + 1;
    let present = Timestamp::from_millisecond(now.0).ok()?;
    let latest = present.checked_add(AHEAD).ok()?.as_millisecond();
    let year = i64::from(present.to_zoned(zone.clone()).year());
    // Four years back there was a 29th of February.
    let years = (year - 4..=year + 1).rev();
    let read = |year: i64| {
        let local: DateTime = format!("{year:04}-{month:02}-{day:0>2}T{time}").parse().ok()?;
        in_zone(local, zone).filter(|at| at.0 <= latest)
    };
    years.filter_map(read).next()
}

/// A local time that clocks show twice is the first of the two, and one that they skip is as much later.
fn in_zone(local: DateTime, zone: &TimeZone) -> Option<Wall> {
    let at = zone.to_ambiguous_timestamp(local).compatible().ok()?;
    Some(Wall(at.as_millisecond()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read_in_each_form() {
        let zone = TimeZone::get("Europe/Berlin").expect("a zone");
        for text in [
            "2026-03-01T22:30:00Z",
            "2026-03-01T23:30:00+01:00",
            "2026-03-01 23:30:00",
            "2026-03-01T23:30:00.000",
            "1772404200",
            "1772404200.000",
            "1772404200000",
            "1772404200000000",
        ] {
            assert_eq!(read(text, &zone), Ok(Wall(1_772_404_200_000)), "{text}");
        }
        assert_eq!(read("1772404200.25", &zone), Ok(Wall(1_772_404_200_250)));
        for wrong in ["", "soon", "2026-13-01 00:00:00", "-5", "123456789012345678901", "."] {
            assert!(read(wrong, &zone).is_err_and(|why| why.contains("is no time")), "{wrong}");
        }
        // Clocks show 02:30 twice, and on the other day never.
        assert_eq!(read("2026-10-25 02:30:00", &zone), read("2026-10-25T00:30:00Z", &zone));
        assert_eq!(read("2026-03-29 02:30:00", &zone), read("2026-03-29T01:30:00Z", &zone));
    }

    #[test]
    fn a_time_without_a_year_is_the_latest_one() {
        let now = Wall(1_767_225_600_000); // 2026-01-01T00:00:00Z
        let of = |month: &str, day: &str, time: &str| {
            without_year(month, day, time, &TimeZone::UTC, now).map(|at| at.to_string().replace(".000Z", "Z"))
        };
        assert_eq!(of("Dec", "31", "23:59:59").as_deref(), Some("2025-12-31T23:59:59Z"));
        assert_eq!(of("Jan", "1", "10:00:00").as_deref(), Some("2026-01-01T10:00:00Z"));
        assert_eq!(of("Jan", "3", "10:00:00").as_deref(), Some("2025-01-03T10:00:00Z"));
        assert_eq!(of("Feb", "29", "10:00:00").as_deref(), Some("2024-02-29T10:00:00Z"));
        assert_eq!((of("Foo", "3", "10:00:00"), of("Jan", "3", "noon")), (None, None));
    }
}
