//! Schedules with a seconds field, as supercronic and ofelia parse them, in Quartz's format.

/// The names of the weekdays that cron counts from 0, with Sunday again at the end.
const DAYS: [&str; 8] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN"];

/// The schedule of such fields, one rule a line. They number weekdays like cron; Quartz numbers them otherwise, so days
/// get their names. If both day fields are set, a day need match only one of them, which takes two rules.
pub(super) fn schedule(fields: &[String]) -> String {
    let mut fields: Vec<String> = fields.to_vec();
    let free = |field: &str| matches!(field, "*" | "?");
    let Some(weekdays) = fields.get_mut(5) else { return fields.join(" ") };
    *weekdays = named(weekdays);
    if fields[3] == "?" && fields[5] == "?" {
        "*".clone_into(&mut fields[3]);
    }
    if free(&fields[3]) || free(&fields[5]) {
        return fields.join(" ");
    }
    let rule = |open: usize| {
        let mut rule = fields.clone();
        "?".clone_into(&mut rule[open]);
        rule.join(" ")
    };
    format!("{}\n{}", rule(5), rule(3))
}

/// A field of weekdays with names for its numbers.
fn named(field: &str) -> String {
    let day = |text: &str| match text.parse::<usize>().ok().and_then(|n| DAYS.get(n)) {
        Some(name) => (*name).to_owned(),
        None => text.to_owned(),
    };
    let part = |part: &str| {
        let (days, step) = part.split_once('/').map_or((part, None), |(days, step)| (days, Some(step)));
        let days = match days.split_once('-') {
            Some(("0", "6" | "7") | ("1", "7")) => "*".to_owned(),
            Some((first, last)) => format!("{}-{}", day(first), day(last)),
            None => day(days),
        };
        step.map_or(days.clone(), |step| format!("{days}/{step}"))
    };
    field.split(',').map(part).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weekdays_keep_their_meaning() {
        let of = |text: &str| schedule(&text.split(' ').map(ToOwned::to_owned).collect::<Vec<_>>());
        for (cron, quartz) in [
            ("*/6 * * * * *", "*/6 * * * * *"),
            ("0 0 9 * * 1-5", "0 0 9 * * MON-FRI"),
            ("0 0 9 * * 0", "0 0 9 * * SUN"),
            ("0 0 9 * * 7", "0 0 9 * * SUN"),
            ("0 0 9 * * 0-7", "0 0 9 * * *"),
            ("0 0 9 ? * 1,3-5/2", "0 0 9 ? * MON,WED-FRI/2"),
            ("0 0 9 13 * 5", "0 0 9 13 * ?\n0 0 9 ? * FRI"),
            ("*/10 * * * * * *", "*/10 * * * * * *"),
        ] {
            assert_eq!(of(cron), quartz, "{cron}");
            let rules = evenkeel_core::schedule::Schedule::parse(&of(cron), "");
            assert!(rules.is_ok(), "{cron}: {rules:?}");
        }
    }
}
