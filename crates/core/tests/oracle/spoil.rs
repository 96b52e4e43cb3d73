//! What a schedule that has a fault would take from what a job says: the same job, said as the faulty one reads it.

use super::cases::OracleSpec;
use super::clock::OracleDst;

/// The lowest and the highest number of each field of a line of six, seconds first.
const FIELDS: [(i64, i64); 6] = [(0, 59), (0, 59), (0, 23), (1, 31), (1, 12), (1, 7)];

/// Every cron line with its fields changed; `change` is told which dialect it is, six fields or five.
fn lines(said: &mut OracleSpec, change: impl Fn(&mut Vec<String>, bool)) {
    for text in &mut said.texts {
        if text.starts_with(['@', 'a']) {
            continue;
        }
        let bare = text.trim_start_matches("vixie:").trim_start_matches("quartz:");
        let mut fields: Vec<String> = bare.split_whitespace().map(str::to_owned).collect();
        let quartz = fields.len() > 5;
        change(&mut fields, quartz);
        *text = fields.join(" ");
    }
}

/// Each part of the list in one field.
fn parts(field: &mut String, change: impl Fn(&str) -> String) {
    *field = field.split(',').map(change).collect::<Vec<_>>().join(",");
}

/// Every number at the head of a part, as in `5`, `5-7/2`, `6L` or `6#3`.
fn numbers(field: &mut String, change: impl Fn(i64) -> i64) {
    parts(field, |part| {
        let end = part.find(['/', '#', 'L', 'l', 'W', 'w']).unwrap_or(part.len());
        let (head, tail) = part.split_at(end);
        let all: Option<Vec<i64>> = head.split('-').map(|n| n.parse().ok()).collect();
        let Some(all) = all else { return part.to_owned() };
        let changed: Vec<_> = all.into_iter().map(|n| change(n).to_string()).collect();
        format!("{}{tail}", changed.join("-"))
    });
}

/// One rule for clock changes taken for another; `None` is what suits how each line is written.
pub(crate) fn dst(said: &mut OracleSpec, from: Option<OracleDst>, to: OracleDst) {
    if said.dst == from {
        said.dst = Some(to);
    }
}

/// `L` is the day before the last.
pub(crate) fn last_day(said: &mut OracleSpec) {
    lines(said, |fields, quartz| {
        let earlier = |part: &str| {
            let upper = part.to_uppercase();
            let (base, near) = upper.strip_suffix('W').map_or((upper.as_str(), ""), |base| (base, "W"));
            match base.strip_prefix('L').map(|n| n.trim_start_matches('-').parse().unwrap_or(0)) {
                Some(n) if n < 30 => format!("L-{}{near}", n + 1),
                _ => part.to_owned(),
            }
        };
        if quartz {
            parts(&mut fields[3], earlier);
        }
    });
}

/// `6#3` is the fourth.
pub(crate) fn nth(said: &mut OracleSpec) {
    lines(said, |fields, quartz| {
        let later = |part: &str| match part.split_once('#') {
            Some((day, n)) => format!("{day}#{}", n.parse::<i64>().expect("a number") % 5 + 1),
            None => part.to_owned(),
        };
        if quartz {
            parts(&mut fields[5], later);
        }
    });
}

/// `6L` is every Friday.
pub(crate) fn last_weekday(said: &mut OracleSpec) {
    lines(said, |fields, quartz| {
        if quartz {
            parts(&mut fields[5], |part| match part.strip_suffix(['L', 'l']) {
                Some(day) if !day.is_empty() => day.to_owned(),
                _ => part.to_owned(),
            });
        }
    });
}

/// `15W` is the 15th, whatever day that is.
pub(crate) fn nearest(said: &mut OracleSpec) {
    lines(said, |fields, quartz| {
        if quartz {
            parts(&mut fields[3], |part| part.trim_end_matches(['W', 'w']).to_owned());
        }
    });
}

/// Weeks begin on Monday: 1 is Monday in six fields.
pub(crate) fn week_start(said: &mut OracleSpec) {
    lines(said, |fields, quartz| {
        if quartz {
            numbers(&mut fields[5], |n| n % 7 + 1);
        }
    });
}

/// Months are counted from 0.
pub(crate) fn months(said: &mut OracleSpec) {
    lines(said, |fields, quartz| numbers(&mut fields[3 + usize::from(quartz)], |n| n % 12 + 1));
}

/// Steps are counted from the low end of the field, not of the range.
pub(crate) fn steps(said: &mut OracleSpec) {
    lines(said, |fields, quartz| {
        let skipped = usize::from(!quartz);
        for (field, (low, high)) in fields.iter_mut().zip(&FIELDS[skipped..]) {
            parts(field, |part| {
                let bounds = part.split_once('/').and_then(|(range, step)| {
                    let (a, b) = range.split_once('-').unwrap_or((range, "60"));
                    Some((a.parse().ok()?, b.parse::<i64>().ok()?.min(*high), step.parse::<i64>().ok()?))
                });
                let Some((a, b, step)) = bounds else { return part.to_owned() };
                let named: Vec<_> =
                    (a..=b).filter(|n| (n - low) % step == 0).map(|n| n.to_string()).collect();
                if named.is_empty() { part.to_owned() } else { named.join(",") }
            });
        }
    });
}

/// `22-2` ends at 23.
pub(crate) fn past_the_end(said: &mut OracleSpec) {
    lines(said, |fields, quartz| {
        if !quartz {
            return;
        }
        for (field, (_, high)) in fields.iter_mut().zip(FIELDS) {
            parts(field, |part| {
                let (range, step) = part.split_once('/').map_or((part, None), |(a, b)| (a, Some(b)));
                let bounds = range.split_once('-').map(|(a, b)| (a.parse::<i64>(), b.parse::<i64>()));
                match bounds {
                    Some((Ok(a), Ok(b))) if a > b => {
                        format!("{a}-{high}{}", step.map_or_else(String::new, |step| format!("/{step}")))
                    }
                    _ => part.to_owned(),
                }
            });
        }
    });
}

/// The seventh field is not looked at.
pub(crate) fn years(said: &mut OracleSpec) {
    lines(said, |fields, _| fields.truncate(6));
}

/// Where both day fields of five are set, only this one counts.
pub(crate) fn one_day_field(said: &mut OracleSpec, kept: usize) {
    lines(said, |fields, quartz| {
        if !quartz && !fields[2].starts_with('*') && !fields[4].starts_with('*') {
            fields[6 - kept] = "*".to_owned();
        }
    });
}

/// `@every` knows no offset.
pub(crate) fn phase(said: &mut OracleSpec) {
    for text in &mut said.texts {
        text.truncate(text.find(" offset ").unwrap_or(text.len()));
    }
}

/// Moments without an offset are read in UTC.
pub(crate) fn local_moments(said: &mut OracleSpec) {
    let zoned = |text: &mut String| {
        if !text.ends_with('Z') {
            text.push('Z');
        }
    };
    said.texts.iter_mut().filter(|text| text.starts_with("at ")).for_each(zoned);
    said.from.iter_mut().chain(&mut said.until).for_each(|(text, _)| zoned(text));
}

/// A bound so many seconds later.
pub(crate) fn later(bound: &mut Option<(String, i64)>, seconds: i64) {
    if let Some((text, at)) = bound {
        let moment = evenkeel_core::time::Wall((*at + seconds) * 1000);
        *text = moment.to_string();
    }
}
