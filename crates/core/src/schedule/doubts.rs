//! Warnings on schedules that are valid, but probably mean something else than their author thinks.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::Schedule;
use super::translation::DAYS;
use super::zone_names;

impl Schedule {
    /// Warnings on what its author may not have meant: weekdays by Quartz's numbers, a line of six fields that looks
    /// like one of five, and a zone that means another clock than most people think. `text` is what was parsed.
    #[must_use]
    pub fn doubts(&self, text: &str) -> Vec<String> {
        let zone = zone_names::zone_doubt(self.zone());
        text.trim_ascii().split('\n').filter_map(|line| doubt(line.trim_ascii())).chain(zone).collect()
    }
}

fn doubt(line: &str) -> Option<String> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    if line.starts_with('@') || line.contains(':') || !(6..=7).contains(&fields.len()) {
        return None;
    }
    let number = |field: &str| field.bytes().all(|b| b.is_ascii_digit());
    if let [second, minute, "*", "*", "*", "*"] = fields[..]
        && number(second)
        && number(minute)
    {
        return Some(format!(
            "`{line}` has six fields, so it is due each hour at second {second} of minute {minute}: write \
             `{second} {minute} * * *` if five were meant"
        ));
    }
    let days = fields[5];
    let plain = days.bytes().any(|b| b.is_ascii_digit())
        && days
            .split('/')
            .next()
            .is_some_and(|days| days.bytes().all(|b| b.is_ascii_digit() || b",-".contains(&b)));
    let name = |from: usize| {
        let day =
            |text: &str| text.parse::<usize>().ok().and_then(|n| DAYS.get(n.checked_sub(from)? % 7).copied());
        let part = |part: &str| match part.split_once('-') {
            Some((first, last)) => Some(format!("{}-{}", day(first)?, day(last)?)),
            None => day(part).map(ToString::to_string),
        };
        let days = days.split('/').next().unwrap_or(days);
        days.split(',').map(part).collect::<Option<Vec<String>>>().map(|parts| parts.join(","))
    };
    let (quartz, cron) = (name(1).filter(|_| plain)?, name(0)?);
    Some(format!(
        "`{line}` has six or seven fields, in which weekdays count from 1 = Sunday as in Quartz, so `{days}` is {quartz}: write \
         {cron} if cron's numbers were meant"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_and_probably_not_meant_is_said() {
        let doubts = |text: &str| Schedule::parse(text, "").unwrap().doubts(text);
        let weekdays = doubts("0 0 9 * * 1-5");
        assert!(
            weekdays[0].contains("`1-5` is SUN-THU: write MON-FRI if cron's numbers were meant"),
            "{weekdays:?}"
        );
        let five = doubts("30 2 * * * *");
        assert!(
            five[0].contains("each hour at second 30 of minute 2: write `30 2 * * *` if five were meant"),
            "{five:?}"
        );
        let zone = |zone| Schedule::parse("@daily", zone).unwrap().doubts("@daily").concat();
        assert_eq!(
            zone("Etc/GMT+3"),
            "the zone Etc/GMT+3 is 3 h behind UTC: its sign is the opposite of the usual one"
        );
        assert!(zone("Etc/GMT-3").contains("is 3 h ahead of UTC"));
        for sure in [
            "0 9 * * 1-5",
            "0 0 9 * * MON-FRI",
            "quartz: 0 0 9 * * 1-5",
            "* * * * * *",
            "0 0 9 ? * 6#3",
            "0 0 9 ? * 6L",
            "0 */5 * * * *",
        ] {
            assert_eq!(doubts(sure), [""; 0], "{sure}");
        }
    }
}
