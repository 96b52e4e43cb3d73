//! Cron lines as a tester writes them down, with the plainest possible way to see whether they mean a moment.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use jiff::civil::{Date, DateTime};
use proptest::prelude::*;

/// One part of a field, as a tester writes it down.
#[derive(Clone, Debug)]
pub(super) enum FieldPart {
    All,
    Step(i64),
    One(i64),
    Range(i64, i64, i64),
    /// Quartz: from a number to the field's end.
    Open(i64, i64),
    Last(i64),
    Near(i64),
    LastNear,
    LastOf(i64),
    Nth(i64, i64),
}

/// A cron line as a tester writes it down; a field is a list of parts.
#[derive(Clone, Debug)]
pub(super) struct TestCronLine {
    pub(super) quartz: bool,
    pub(super) second: Vec<FieldPart>,
    pub(super) minute: Vec<FieldPart>,
    pub(super) hour: Vec<FieldPart>,
    pub(super) dom: Vec<FieldPart>,
    pub(super) month: Vec<FieldPart>,
    pub(super) dow: Vec<FieldPart>,
}

impl FieldPart {
    fn text(&self) -> String {
        match *self {
            FieldPart::All => "*".into(),
            FieldPart::Step(n) => format!("*/{n}"),
            FieldPart::One(n) => format!("{n}"),
            FieldPart::Range(a, b, 1) => format!("{a}-{b}"),
            FieldPart::Range(a, b, n) => format!("{a}-{b}/{n}"),
            FieldPart::Open(a, n) => format!("{a}/{n}"),
            FieldPart::Last(0) => "L".into(),
            FieldPart::Last(n) => format!("L-{n}"),
            FieldPart::Near(n) => format!("{n}W"),
            FieldPart::LastNear => "LW".into(),
            FieldPart::LastOf(d) => format!("{d}L"),
            FieldPart::Nth(d, n) => format!("{d}#{n}"),
        }
    }

    /// Whether a plain number is meant, in a field that begins at `min`.
    fn means(&self, n: i64, min: i64) -> bool {
        match *self {
            FieldPart::All => true,
            FieldPart::Step(step) => (n - min) % step == 0,
            FieldPart::One(one) => n == one,
            FieldPart::Range(a, b, step) if a <= b => n >= a && n <= b && (n - a) % step == 0,
            FieldPart::Open(a, step) => n >= a && (n - a) % step == 0,
            _ => false,
        }
    }

    fn means_day(&self, date: Date) -> bool {
        let last = i64::from(date.days_in_month());
        let day = i64::from(date.day());
        let nearest = |wanted: i64| {
            // Look at the weekdays of the month by their distance, the earlier one first.
            (1..=last)
                .filter(|d| {
                    let weekday = date.with().day(*d as i8).build().unwrap().weekday().to_monday_one_offset();
                    weekday <= 5
                })
                .min_by_key(|d| ((d - wanted).abs(), *d))
        };
        match *self {
            FieldPart::Last(before) => day == last - before,
            FieldPart::Near(wanted) => wanted <= last && nearest(wanted) == Some(day),
            FieldPart::LastNear => nearest(last) == Some(day),
            _ => self.means(day, 1),
        }
    }

    /// `sunday` is the number that stands for Sunday here.
    fn means_weekday(&self, date: Date, sunday: i64) -> bool {
        let weekday = i64::from(date.weekday().to_sunday_zero_offset()) + sunday;
        let day = i64::from(date.day());
        match *self {
            FieldPart::LastOf(d) => weekday == d && day + 7 > i64::from(date.days_in_month()),
            FieldPart::Nth(d, n) => weekday == d && (day + 6) / 7 == n,
            // In Vixie cron Sunday is 7, too.
            _ => self.means(weekday, sunday) || (sunday == 0 && weekday == 0 && self.means(7, 0)),
        }
    }
}

impl TestCronLine {
    pub(super) fn text(&self) -> String {
        let field = |parts: &[FieldPart]| parts.iter().map(FieldPart::text).collect::<Vec<_>>().join(",");
        let [second, minute, hour] = [&self.second, &self.minute, &self.hour].map(|f| field(f));
        let [dom, month, dow] = [&self.dom, &self.month, &self.dow].map(|f| field(f));
        match self.quartz {
            true => format!("{second} {minute} {hour} {dom} {month} {dow}"),
            false => format!("{minute} {hour} {dom} {month} {dow}"),
        }
    }

    pub(super) fn matches(&self, t: DateTime) -> bool {
        let field = |parts: &[FieldPart], n: i8, min| parts.iter().any(|p| p.means(i64::from(n), min));
        let dom = self.dom.iter().any(|p| p.means_day(t.date()));
        let dow = self.dow.iter().any(|p| p.means_weekday(t.date(), i64::from(self.quartz)));
        let star = |parts: &[FieldPart]| matches!(parts[0], FieldPart::All | FieldPart::Step(_));
        let day = if self.quartz || star(&self.dom) || star(&self.dow) { dom && dow } else { dom || dow };
        let second = if self.quartz { field(&self.second, t.second(), 0) } else { t.second() == 0 };
        let time = second && field(&self.minute, t.minute(), 0) && field(&self.hour, t.hour(), 0);
        time && field(&self.month, t.month(), 1) && day
    }

    /// Whether the line says "every so often".
    pub(super) fn every(&self) -> bool {
        let star = |parts: &[FieldPart]| matches!(parts[0], FieldPart::All | FieldPart::Step(_));
        let open = |parts: &[FieldPart]| {
            parts.iter().any(|p| matches!(p, FieldPart::All | FieldPart::Step(_) | FieldPart::Open(..)))
        };
        match self.quartz {
            true => open(&self.second) || open(&self.minute) || open(&self.hour),
            false => star(&self.minute) || star(&self.hour),
        }
    }

    /// `croner` counts a day field as free only when it is a plain `*`, takes no `*` in a list, and has no `L-3`.
    pub(super) fn croner_agrees(&self) -> bool {
        let plain = |parts: &[FieldPart]| matches!(parts, [FieldPart::All]);
        let all = [&self.second, &self.minute, &self.hour, &self.dom, &self.month, &self.dow];
        if all.iter().any(|parts| !plain(parts) && parts.iter().any(|p| matches!(p, FieldPart::All))) {
            return false;
        }
        let odd = |p: &FieldPart| matches!(p, FieldPart::All | FieldPart::Step(_));
        let starry = |parts: &[FieldPart]| !plain(parts) && parts.iter().any(odd);
        let far = |p: &FieldPart| matches!(p, FieldPart::Last(1..));
        !self.dom.iter().any(far)
            && (plain(&self.dom) || plain(&self.dow) || !(starry(&self.dom) || starry(&self.dow)))
            // It keeps one flag for `L` and one for `W`, so a list that has both means something else there.
            && (self.dom.len() == 1 || !self.dom.iter().any(|p| matches!(p, FieldPart::Last(_) | FieldPart::LastNear)))
    }
}

fn part(min: i64, max: i64, quartz: bool) -> BoxedStrategy<FieldPart> {
    let range =
        (min..=max, min..=max, 1..=4_i64).prop_map(|(a, b, n)| FieldPart::Range(a.min(b), a.max(b), n));
    let one = (min..=max).prop_map(FieldPart::One);
    let open = (min..=max, 2..=20_i64.min(max)).prop_map(|(a, n)| FieldPart::Open(a, n));
    let step = (2..=20_i64.min(max)).prop_map(FieldPart::Step);
    match quartz {
        true => prop_oneof![2 => Just(FieldPart::All), 2 => step, 4 => one, 3 => range, 2 => open].boxed(),
        false => prop_oneof![2 => Just(FieldPart::All), 2 => step, 4 => one, 3 => range].boxed(),
    }
}

fn field(part: BoxedStrategy<FieldPart>) -> BoxedStrategy<Vec<FieldPart>> {
    prop_oneof![3 => Just(vec![FieldPart::All]), 5 => prop::collection::vec(part, 1..=3)].boxed()
}

/// A line of 5 fields.
pub(super) fn vixie() -> BoxedStrategy<TestCronLine> {
    let of = |min, max| field(part(min, max, false));
    (of(0, 59), of(0, 23), of(1, 31), of(1, 12), of(0, 7))
        .prop_map(|(minute, hour, dom, month, dow)| TestCronLine {
            quartz: false,
            second: vec![FieldPart::One(0)],
            minute,
            hour,
            dom,
            month,
            dow,
        })
        .boxed()
}

/// A line of 6 fields.
pub(super) fn quartz() -> BoxedStrategy<TestCronLine> {
    let of = |min, max| field(part(min, max, true));
    let dom = prop_oneof![
        4 => part(1, 31, true),
        1 => (0..=30_i64).prop_map(FieldPart::Last),
        1 => Just(FieldPart::Last(0)),
        1 => (1..=31_i64).prop_map(FieldPart::Near),
        1 => Just(FieldPart::LastNear),
    ];
    let dow = prop_oneof![
        4 => part(1, 7, true),
        1 => (1..=7_i64).prop_map(FieldPart::LastOf),
        1 => (1..=7_i64, 1..=5_i64).prop_map(|(d, n)| FieldPart::Nth(d, n)),
    ];
    let days = prop_oneof![
        prop::collection::vec(dom, 1..=3).prop_map(|dom| (dom, vec![FieldPart::All])),
        prop::collection::vec(dow, 1..=3).prop_map(|dow| (vec![FieldPart::All], dow)),
    ];
    (of(0, 59), of(0, 59), of(0, 23), days, of(1, 12))
        .prop_map(|(second, minute, hour, (dom, dow), month)| TestCronLine {
            quartz: true,
            second,
            minute,
            hour,
            dom,
            month,
            dow,
        })
        .boxed()
}

/// Either.
pub(super) fn line() -> BoxedStrategy<TestCronLine> {
    prop_oneof![vixie(), quartz()].boxed()
}
