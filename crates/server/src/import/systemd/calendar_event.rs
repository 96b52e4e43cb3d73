//! `OnCalendar`, as a cron line with seconds.

/// A calendar event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct OnCalendarRule {
    /// Six or seven fields, seconds first.
    pub(super) rule: String,
    /// Weekdays that must hold beside a date; a cron line has only one of the two.
    pub(super) weekdays: Vec<String>,
    /// The zone that the event names.
    pub(super) zone: Option<String>,
}

/// Words for whole events.
const WORDS: [(&str, &str); 14] = [
    ("minutely", "*-*-* *:*:00"),
    ("hourly", "*-*-* *:00:00"),
    ("daily", "*-*-* 00:00:00"),
    ("weekly", "Mon *-*-* 00:00:00"),
    ("monthly", "*-*-01 00:00:00"),
    ("quarterly", "*-01,04,07,10-01 00:00:00"),
    ("semiannually", "*-01,07-01 00:00:00"),
    ("semi-annually", "*-01,07-01 00:00:00"),
    ("biannually", "*-01,07-01 00:00:00"),
    ("bi-annually", "*-01,07-01 00:00:00"),
    ("yearly", "*-01-01 00:00:00"),
    ("annually", "*-01-01 00:00:00"),
    ("anually", "*-01-01 00:00:00"),
    ("weekdays", "Mon..Fri *-*-* 00:00:00"),
];
const DAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

impl OnCalendarRule {
    /// Parses an event.
    ///
    /// # Errors
    /// It is none, or has a part that a cron line does not have; the text says which.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| format!("{text}: {why}");
        let mut words: Vec<&str> = text.split_whitespace().collect();
        if let Some(word) = words.first()
            && let Some((_, event)) = WORDS.iter().find(|(known, _)| known.eq_ignore_ascii_case(word))
        {
            words = event.split_whitespace().chain(words.into_iter().skip(1)).collect();
        }
        let is_zone = |word: &str| {
            !word.contains(':') && weekdays(word).is_none() && jiff::tz::TimeZone::get(word).is_ok()
        };
        let zone = words.pop_if(|word| is_zone(word)).map(ToOwned::to_owned);
        let (mut days, mut date, mut time) = (None, "*-*-*", "00:00:00");
        for word in words {
            match word {
                word if word.contains(':') => time = word,
                word if word.contains(['-', '~']) && !word.bytes().any(|b| b.is_ascii_alphabetic()) => {
                    date = word
                }
                word => days = Some(weekdays(word).ok_or_else(|| wrong(&format!("{word:?} is not known")))?),
            }
        }
        let (year, month, day) = self::date(date).map_err(|why| wrong(&why))?;
        let time = self::time(time).map_err(|why| wrong(&why))?;
        let days = days.unwrap_or_default();
        let mut event = Self { zone, ..Self::default() };
        let (day, weekday) = match (day.as_str(), days.is_empty()) {
            (_, true) => (day, "?".to_owned()),
            ("*", false) => ("?".to_owned(), days.join(",")),
            _ => {
                event.weekdays = days.iter().map(|days| days.to_ascii_lowercase()).collect();
                (day, "?".to_owned())
            }
        };
        let year = if year == "*" { String::new() } else { format!(" {year}") };
        event.rule = format!("{time} {day} {month} {weekday}{year}");
        Ok(event)
    }
}

/// `Mon..Fri,Sun` as cron's ranges.
fn weekdays(text: &str) -> Option<Vec<String>> {
    let day = |day: &str| {
        let short = day.get(..3)?.to_ascii_uppercase();
        (DAYS.contains(&short.as_str()) && day.bytes().all(|b| b.is_ascii_alphabetic())).then_some(short)
    };
    let part = |part: &str| match part.split_once("..").or_else(|| part.split_once('-')) {
        Some((first, last)) => Some(format!("{}-{}", day(first)?, day(last)?)),
        None => day(part),
    };
    text.split(',').filter(|part| !part.is_empty()).map(part).collect()
}

/// The fields of the year, the month and the day.
fn date(text: &str) -> Result<(String, String, String), String> {
    let (front, from_end) = match text.split_once('~') {
        Some((front, day)) => (front, Some(day)),
        None => (text, None),
    };
    let mut parts: Vec<&str> = front.split('-').collect();
    let day = match from_end {
        Some(day) => days_from_end(day)?,
        None => component(parts.pop().unwrap_or_default(), 1, 31)?,
    };
    let month = component(parts.pop().ok_or("a date takes a month and a day")?, 1, 12)?;
    let year = match parts.pop() {
        None | Some("*") => "*".to_owned(),
        Some(year) => component(year, 1970, 2099)?,
    };
    if !parts.is_empty() {
        return Err("a date has a year, a month and a day".to_owned());
    }
    Ok((year, month, day))
}

/// The fields of the second, the minute and the hour.
fn time(text: &str) -> Result<String, String> {
    let parts: Vec<&str> = text.split(':').collect();
    let (hour, minute, second) = match parts[..] {
        [hour, minute] => (hour, minute, "0"),
        [hour, minute, second] => (hour, minute, second),
        _ => return Err("a time has an hour, a minute and a second".to_owned()),
    };
    if second.split(',').any(|part| part.replace("..", "").contains('.')) {
        return Err("parts of a second have no equivalent".to_owned());
    }
    Ok(format!("{} {} {}", component(second, 0, 59)?, component(minute, 0, 59)?, component(hour, 0, 23)?))
}

/// A list of numbers, ranges and repetitions.
fn component(text: &str, min: u16, max: u16) -> Result<String, String> {
    let part = |part: &str| -> Result<String, String> {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, Some(number(step, 1, u16::MAX)?)),
            None => (part, None),
        };
        let range = match (range.split_once(".."), range, step) {
            (Some((from, to)), ..) => format!("{}-{}", number(from, min, max)?, number(to, min, max)?),
            (None, "*", None) => "*".to_owned(),
            (None, "*", Some(_)) => min.to_string(),
            (None, one, _) => number(one, min, max)?.to_string(),
        };
        let size = max - min + 1;
        Ok(match step {
            // Nothing repeats within the range.
            Some(step) if step >= size && !range.contains('-') => range,
            Some(step) => format!("{range}/{step}"),
            None => range,
        })
    };
    let parts: Vec<String> = text.split(',').map(part).collect::<Result<_, _>>()?;
    Ok(if parts.iter().any(|part| part == "*") { "*".to_owned() } else { parts.join(",") })
}

/// Days counted from the end of the month, the last one being 1.
fn days_from_end(text: &str) -> Result<String, String> {
    let mut days = Vec::new();
    for part in text.split(',') {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, Some(usize::from(number(step, 1, 31)?))),
            None => (part, None),
        };
        let (from, to) = match (range.split_once(".."), step) {
            (Some((from, to)), _) => (number(from, 1, 31)?, number(to, 1, 31)?),
            // A repetition runs towards the end of the month.
            (None, Some(_)) => (number(range, 1, 31)?, 1),
            (None, None) => (number(range, 1, 31)?, number(range, 1, 31)?),
        };
        days.extend((from.min(to)..=from.max(to)).rev().step_by(step.unwrap_or(1)));
    }
    let named = |day: &u16| if *day == 1 { "L".to_owned() } else { format!("L-{}", day - 1) };
    Ok(days.iter().map(named).collect::<Vec<_>>().join(","))
}

fn number(text: &str, min: u16, max: u16) -> Result<u16, String> {
    let number: u16 = text.parse().map_err(|_| format!("{text:?} is no number"))?;
    // Years of two digits.
    let number = match (min, number) {
        (1970, 0..70) => number + 2000,
        (1970, 70..100) => number + 1900,
        _ => number,
    };
    match (min..=max).contains(&number) {
        true => Ok(number),
        false => Err(format!("{number} is outside {min}-{max}")),
    }
}
