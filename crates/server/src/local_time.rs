//! Moments in the reader's own time zone.

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// A moment in the reader's own time zone.
#[must_use]
pub(crate) fn local(moment: Option<&str>) -> String {
    in_zone(moment, &TimeZone::system())
}

pub(crate) fn in_zone(moment: Option<&str>, zone: &TimeZone) -> String {
    let Some(text) = moment else { return "-".to_owned() };
    match text.parse::<Timestamp>() {
        Ok(at) => at.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M:%S").to_string(),
        Err(_) => text.to_owned(),
    }
}
