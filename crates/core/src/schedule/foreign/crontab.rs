//! Lines of cron's kin that are nearly schedules: with a command or a zone behind them, with Quartz's words in five fields,
//! with random times, with long names of days.

use crate::schedule::translation::{DAYS, Translation, is_line, problem};
use crate::schedule::zone::Zone;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

const MONTHS: [&str; 12] =
    ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];

/// The meaning of a line with more than a schedule.
pub(super) fn translate(text: &str) -> Option<Translation> {
    more(&text.split_ascii_whitespace().collect::<Vec<_>>())
}

/// What to write instead of a line with a wrong field, as the end of a message about that field.
pub(super) fn hint(text: &str) -> Option<String> {
    let fields: Vec<&str> = text.split_ascii_whitespace().collect();
    random(&fields).or_else(|| names(&fields)).or_else(|| quartz_words(&fields))
}

/// `0 3 * * * /bin/backup`, `0 3 * * * root` or `0 3 * * * Europe/Berlin`.
fn more(fields: &[&str]) -> Option<Translation> {
    let (five, rest) = fields.split_at_checked(5)?;
    let line = five.join(" ");
    let is_field = |word: &str| {
        let known = |part: &str| DAYS.contains(&part.to_ascii_uppercase().as_str());
        word.bytes().all(|b| b.is_ascii_digit() || b"*?,-/#LWH()".contains(&b))
            || word.split([',', '-', '/', '#']).any(known)
    };
    match rest {
        [zone] if !is_field(zone) && is_line(&line) && Zone::named(zone).is_ok() => {
            Some(Translation::new("the time zone has a key of its own", line).within(zone))
        }
        [first, ..] if !is_field(first) && is_line(&line) => Some(
            Translation::new("a schedule ends with the day of the week", line)
                .noting("; a command has a key of its own, command"),
        ),
        _ => None,
    }
}

/// `0~30 4 * * *`, the random times of OpenBSD and cronie.
fn random(fields: &[&str]) -> Option<String> {
    if fields.len() != 5 || !fields.iter().any(|field| field.contains('~')) {
        return None;
    }
    let hashed = fields.iter().map(|field| match field.split_once('~') {
        Some(("", "")) => "H".to_string(),
        Some((low, high)) if !low.is_empty() && !high.is_empty() => match high.split_once('/') {
            Some((high, step)) => format!("H({low}-{high})/{step}"),
            None => format!("H({low}-{high})"),
        },
        _ => (*field).to_string(),
    });
    let line = hashed.collect::<Vec<_>>().join(" ");
    problem(&line).is_none().then(|| {
        format!(
            "`~` is a random time of OpenBSD and cronie: write `{line}`, a time that the job's name decides"
        )
    })
}

/// Names of days and months in another length, and ranges with two dots: `Mo-Fr`, `MONDAY`, `mon..fri`.
fn names(fields: &[&str]) -> Option<String> {
    if !(5..=7).contains(&fields.len()) {
        return None;
    }
    let first = fields.len().min(6) - 2;
    let short = |text: &str, names: &[&'static str]| -> Option<String> {
        let part = |word: &str| {
            let upper = word.to_ascii_uppercase();
            let is_word = upper.len() >= 2 && upper.bytes().all(|b| b.is_ascii_alphabetic());
            if !is_word || names.contains(&upper.as_str()) {
                return Some(word.to_string());
            }
            let mut alike = names.iter().filter(|name| upper.starts_with(*name) || name.starts_with(&upper));
            alike.next().filter(|_| alike.next().is_none()).map(|name| (*name).to_string())
        };
        let dashed = text.replace("..", "-");
        let list = dashed
            .split(',')
            .map(|range| range.split('-').map(part).collect::<Option<Vec<_>>>().map(|ends| ends.join("-")));
        list.collect::<Option<Vec<_>>>().map(|parts| parts.join(","))
    };
    let mut meant: Vec<String> = fields.iter().map(ToString::to_string).collect();
    meant[first] = short(fields[first], &MONTHS)?;
    meant[first + 1] = short(fields[first + 1], &DAYS)?;
    let (line, given) = (meant.join(" "), fields.join(" "));
    (line != given && problem(&line).is_none()).then(|| format!("write `{line}`"))
}

/// Quartz's `?`, `L`, `W` and `#` in five fields. Weekdays there count from Sunday = 0, so they get names.
fn quartz_words(fields: &[&str]) -> Option<String> {
    let [minute, hour, dom, month, dow] = *fields else { return None };
    if !fields.iter().any(|field| field.contains(['?', 'L', 'W', 'l', 'w', '#'])) {
        return None;
    }
    let open = |field: &str| matches!(field, "*" | "?");
    let plain = format!("{minute} {hour} {} {month} {}", dom.replace('?', "*"), dow.replace('?', "*"));
    if is_line(&plain) {
        return Some(format!("write `{plain}`"));
    }
    let day = |part: &str| {
        let end = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
        let (number, rest) = part.split_at(end);
        let name = number.parse::<usize>().ok().and_then(|n| DAYS.get(n % 7).filter(|_| n < 8));
        name.map_or(part.to_string(), |name| format!("{name}{rest}"))
    };
    let named = dow.split(',').map(|part| part.split('-').map(day).collect::<Vec<_>>().join("-"));
    let named = named.collect::<Vec<_>>().join(",");
    let (dom, dow) = match (open(dom), open(dow)) {
        (true, _) => ("?", named.as_str()),
        (false, true) => (dom, "?"),
        (false, false) => (dom, named.as_str()),
    };
    let line = format!("0 {minute} {hour} {dom} {month} {dow}");
    problem(&line).is_none().then(|| format!("write `{line}`"))
}
