//! Time zones in other words: offsets, abbreviations, Windows' names, misspelled places.

use crate::spelling;
use alloc::format;
use alloc::string::{String, ToString};

/// Abbreviations, and a place whose clock they are from. Many are used in several places.
const ABBREVIATIONS: &[(&str, &str)] = &[
    ("AEDT", "Australia/Sydney"),
    ("AEST", "Australia/Sydney"),
    ("BST", "Europe/London"),
    ("CDT", "America/Chicago"),
    ("CEST", "Europe/Berlin"),
    ("CST", "America/Chicago` or `Asia/Shanghai"),
    ("EDT", "America/New_York"),
    ("EEST", "Europe/Helsinki"),
    ("HKT", "Asia/Hong_Kong"),
    ("IST", "Asia/Kolkata`, `Europe/Dublin` or `Asia/Jerusalem"),
    ("JST", "Asia/Tokyo"),
    ("KST", "Asia/Seoul"),
    ("MDT", "America/Denver"),
    ("MSK", "Europe/Moscow"),
    ("NZDT", "Pacific/Auckland"),
    ("NZST", "Pacific/Auckland"),
    ("PDT", "America/Los_Angeles"),
    ("PST", "America/Los_Angeles"),
    ("SGT", "Asia/Singapore"),
    ("WEST", "Europe/Lisbon"),
];

/// Windows' names, without "Standard Time" at their ends.
const WINDOWS: &[(&str, &str)] = &[
    ("AUS Eastern", "Australia/Sydney"),
    ("Central", "America/Chicago"),
    ("Central Europe", "Europe/Budapest"),
    ("Central European", "Europe/Warsaw"),
    ("China", "Asia/Shanghai"),
    ("E. South America", "America/Sao_Paulo"),
    ("Eastern", "America/New_York"),
    ("FLE", "Europe/Kyiv"),
    ("GMT", "Europe/London"),
    ("GTB", "Europe/Bucharest"),
    ("India", "Asia/Kolkata"),
    ("Mountain", "America/Denver"),
    ("New Zealand", "Pacific/Auckland"),
    ("Pacific", "America/Los_Angeles"),
    ("Romance", "Europe/Paris"),
    ("Russian", "Europe/Moscow"),
    ("Singapore", "Asia/Singapore"),
    ("Tokyo", "Asia/Tokyo"),
    ("W. Europe", "Europe/Berlin"),
];

/// Offsets that no zone of whole hours has, in minutes east of UTC, and a place that has each.
const PLACES: &[(i32, &str)] = &[
    (-570, "Pacific/Marquesas"),
    (-210, "America/St_Johns"),
    (210, "Asia/Tehran"),
    (270, "Asia/Kabul"),
    (330, "Asia/Kolkata"),
    (345, "Asia/Kathmandu"),
    (390, "Asia/Yangon"),
    (525, "Australia/Eucla"),
    (570, "Australia/Darwin"),
    (630, "Australia/Lord_Howe"),
    (765, "Pacific/Chatham"),
];

/// What to write instead of a name that is no time zone, as the end of a message; `known` has the names of all zones.
pub(super) fn fix<'a>(name: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
    if name.trim() != name && known.clone().any(|zone| zone.eq_ignore_ascii_case(name.trim())) {
        return format!("remove the space around `{}`", name.trim());
    }
    offset(name)
        .or_else(|| abbreviation(name))
        .or_else(|| other_words(name))
        .or_else(|| misspelled(name, known).map(|zone| format!("did you mean `{zone}`?")))
        .unwrap_or_else(|| "write `Area/City`, such as `Europe/Berlin` or `UTC`".to_string())
}

/// Minutes east of UTC, of an offset such as `GMT+3`, `UTC -5`, `+02:00` or `+0530`.
fn minutes_east(name: &str) -> Option<i32> {
    let upper = name.to_ascii_uppercase();
    let rest = upper.strip_prefix("GMT").or_else(|| upper.strip_prefix("UTC")).unwrap_or(&upper).trim_ascii();
    let (sign, rest) = match rest.split_at_checked(1)? {
        ("+", rest) => (1, rest.trim_ascii()),
        ("-", rest) => (-1, rest.trim_ascii()),
        _ => return None,
    };
    let (hours, minutes) = match rest.split_once(':') {
        Some(both) => both,
        None if rest.len() == 4 => rest.split_at(2),
        None => (rest, "0"),
    };
    let (hours, minutes) = (hours.parse::<u8>().ok()?, minutes.parse::<u8>().ok().filter(|n| *n < 60)?);
    Some(sign * (i32::from(hours) * 60 + i32::from(minutes)))
}

/// The replacement for an offset from UTC that is written as a zone: the IANA names of such zones have the opposite sign.
fn offset(name: &str) -> Option<String> {
    let east = minutes_east(name)?;
    let side = if east > 0 { "ahead of" } else { "behind" };
    let hours = east.abs() / 60;
    let place = PLACES.iter().find(|(offset, _)| *offset == east);
    Some(match (east, place) {
        (0, _) => "the zone without an offset is `UTC`".to_string(),
        (_, Some((_, place))) => format!("write a place that has this offset, such as `{place}`"),
        (-720..=840, None) if east % 60 == 0 => {
            let sign = if east > 0 { "-" } else { "+" };
            format!(
                "the zone {hours} h {side} UTC is `Etc/GMT{sign}{hours}`, whose sign is the opposite one; a place such as \
                 `Europe/Berlin` also knows its clock changes"
            )
        }
        _ => "no place has this offset: they go from 12 h behind UTC to 14 h ahead of it".to_string(),
    })
}

fn abbreviation(name: &str) -> Option<String> {
    let upper = name.to_ascii_uppercase();
    if upper == "Z" {
        return Some("write `UTC`".to_string());
    }
    let (_, place) = ABBREVIATIONS.iter().find(|(short, _)| *short == upper)?;
    Some(format!("it is an abbreviation: write a place whose clock is meant, such as `{place}`"))
}

/// `local`, Windows' names and POSIX' rules.
fn other_words(name: &str) -> Option<String> {
    if ["local", "localtime", "system", "host"].iter().any(|word| word.eq_ignore_ascii_case(name)) {
        return Some(
            "nodes may be in several zones: write the one that is meant, such as `Europe/Berlin`".to_string(),
        );
    }
    let windows = name.strip_suffix(" Standard Time").or_else(|| name.strip_suffix(" Daylight Time"));
    if let Some(windows) = windows {
        let place = WINDOWS.iter().find(|(known, _)| known.eq_ignore_ascii_case(windows));
        let place = place.map_or("Europe/Berlin", |(_, place)| place);
        return Some(format!("it is a name of Windows: write a place, such as `{place}`"));
    }
    let letters = name.trim_start_matches('<').find(|c: char| !c.is_ascii_alphabetic());
    let is_rule = name.starts_with('<')
        || letters.is_some_and(|at| {
            at >= 3 && name[at..].starts_with(|c: char| c.is_ascii_digit() || "+-".contains(c))
        });
    is_rule.then(|| "it is a rule as POSIX writes it: write a place, such as `Europe/Berlin`".to_string())
}

/// The zone whose name or city is nearest.
fn misspelled<'a>(name: &str, known: impl Iterator<Item = &'a str> + Clone) -> Option<&'a str> {
    let letters = |text: &str| {
        let plain =
            text.bytes().filter(u8::is_ascii_alphanumeric).map(|b| char::from(b.to_ascii_lowercase()));
        plain.collect::<String>()
    };
    let typed = letters(name);
    let typed_city = letters(name.rsplit(['/', '\\']).next().unwrap_or(name));
    let city = |zone: &'a str| zone.rsplit('/').next().unwrap_or(zone);
    let places = known.clone().filter(|zone| zone.contains('/') && !zone.starts_with("Etc/"));
    let same = places.clone().find(|zone| letters(city(zone)) == typed_city && !typed_city.is_empty());
    let near = || {
        let all = known.map(|zone| (spelling::distance(&typed, &letters(zone)), zone)).min();
        let cities = places.map(|zone| (spelling::distance(&typed_city, &letters(city(zone))), zone)).min();
        let limit = |text: &str| text.len() / 5 + 1;
        let all = all.filter(|(far, _)| *far <= limit(&typed) && typed.len() > 3);
        let cities = cities.filter(|(far, _)| *far < limit(&typed_city) && typed_city.len() > 3);
        all.or(cities).map(|(_, zone)| zone)
    };
    same.or_else(near)
}

/// A warning on a zone that is valid and probably not meant: one whose sign is the opposite of the usual one, or an
/// abbreviation that knows no clock changes.
pub(super) fn zone_doubt(name: &str) -> Option<String> {
    let fixed = [("EST", "America/New_York"), ("MST", "America/Denver"), ("HST", "Pacific/Honolulu")];
    if let Some((_, place)) = fixed.iter().find(|(short, _)| *short == name) {
        return Some(format!("the zone {name} has no clock changes: write {place} if its clock is meant"));
    }
    let rest = name.strip_prefix("Etc/GMT")?;
    let (side, hours) = match rest.split_at_checked(1)? {
        ("+", hours) => ("behind", hours),
        ("-", hours) => ("ahead of", hours),
        _ => return None,
    };
    let odd = hours != "0";
    odd.then(|| format!("the zone {name} is {hours} h {side} UTC: its sign is the opposite of the usual one"))
}
