//! The text of a unit file: sections, keys and their values.

use std::collections::BTreeMap;

use super::super::{ImportNotes, ImportRefusal};

/// A unit, with its drop-ins; keys are taken out of it, and what is left was not read.
#[derive(Clone, Debug, Default)]
pub(super) struct Unit {
    sections: BTreeMap<String, BTreeMap<String, Vec<String>>>,
}

impl Unit {
    /// Parses a unit's text. An empty value ends the list before it, as systemd does.
    ///
    /// # Errors
    /// A line is neither a section, a key nor a comment.
    pub(super) fn parse(text: &str) -> Result<Self, ImportRefusal> {
        let mut unit = Self::default();
        let mut section = String::new();
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            let mut line = line.trim().to_owned();
            if line.is_empty() || line.starts_with(['#', ';']) {
                continue;
            }
            while let Some(start) = line.strip_suffix('\\') {
                let more = lines.by_ref().map(str::trim).find(|more| !more.starts_with(['#', ';']));
                line = format!("{start} {}", more.unwrap_or_default());
            }
            if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                name.clone_into(&mut section);
                continue;
            }
            let Some((key, value)) = line.split_once('=') else {
                let said = format!("{line:?} is no line of a unit: it takes KEY=VALUE");
                return Err(ImportRefusal::new(&section, said));
            };
            let values = unit.sections.entry(section.clone()).or_default().entry(key.trim().to_owned());
            let values = values.or_default();
            match value.trim() {
                "" => values.clear(),
                value => values.push(value.to_owned()),
            }
        }
        Ok(unit)
    }

    /// All values of a key, taken out.
    pub(super) fn all(&mut self, section: &str, key: &str) -> Vec<String> {
        let keys = self.sections.get_mut(section);
        keys.and_then(|keys| keys.remove(key)).unwrap_or_default()
    }

    /// The value of a key that has one, taken out; the last one counts.
    pub(super) fn last(&mut self, section: &str, key: &str) -> Option<String> {
        self.all(section, key).pop()
    }

    /// The keys of a section that are left, taken out.
    pub(super) fn rest(&mut self, section: &str) -> Vec<String> {
        let keys = self.sections.remove(section).unwrap_or_default();
        keys.into_iter().filter(|(_, values)| !values.is_empty()).map(|(key, _)| key).collect()
    }

    /// Reports what is left of a section, in one row but for keys with a remark of their own.
    pub(super) fn lost(&mut self, section: &str, notes: &mut ImportNotes, remarks: &[(&str, &str)]) {
        let mut others = Vec::new();
        for key in self.rest(section) {
            match remarks.iter().find(|(known, _)| *known == key) {
                Some((_, said)) => notes.lost(&key, *said),
                None => others.push(key),
            }
        }
        if !others.is_empty() {
            notes.lost(&format!("[{section}]"), format!("without an equivalent: {}", others.join(", ")));
        }
    }

    /// Reports conditions and dependencies of `[Unit]`.
    pub(super) fn lost_units(&mut self, notes: &mut ImportNotes) {
        let ignored = ["Documentation", "SourcePath", "Description", "DefaultDependencies"];
        let (mut conditions, mut others) = (Vec::new(), Vec::new());
        for key in self.rest("Unit").into_iter().filter(|key| !ignored.contains(&key.as_str())) {
            let is_condition = key.starts_with("Condition") || key.starts_with("Assert");
            if is_condition { &mut conditions } else { &mut others }.push(key);
        }
        if !conditions.is_empty() {
            let said = format!("{}: the job runs also where they are not met", conditions.join(", "));
            notes.lost("[Unit] conditions", said);
        }
        if !others.is_empty() {
            let said = format!("{}: a job starts no other units, and waits for none", others.join(", "));
            notes.lost("[Unit]", said);
        }
    }
}

/// A truth as systemd writes it.
pub(super) fn flag(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "yes" | "y" | "true" | "t" | "on" => Some(true),
        "0" | "no" | "n" | "false" | "f" | "off" => Some(false),
        _ => None,
    }
}

/// A span as systemd writes it, such as `1h 30min`, in whole seconds; parts of a second count as one.
///
/// # Errors
/// It is no span.
pub(super) fn span(key: &str, text: &str) -> Result<u64, ImportRefusal> {
    let wrong = || ImportRefusal::new(key, format!("{text:?} is no span such as 1h 30min"));
    let mut millis: u64 = 0;
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(wrong());
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, after) = rest.split_at(digits);
        let number: f64 = number.parse().map_err(|_| wrong())?;
        let after = after.trim_start();
        let letters = after.find(|c: char| !c.is_alphabetic()).unwrap_or(after.len());
        let (word, after) = after.split_at(letters);
        let unit = unit_millis(word).ok_or_else(wrong)?;
        let part = number * unit;
        if !part.is_finite() || part > 1e15 {
            return Err(wrong());
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked just before")]
        let part = part.ceil() as u64;
        millis = millis.saturating_add(part);
        rest = after.trim_start();
    }
    Ok(millis.div_ceil(1000))
}

fn unit_millis(word: &str) -> Option<f64> {
    Some(match word {
        "usec" | "us" | "µs" => 0.001,
        "msec" | "ms" => 1.0,
        "" | "seconds" | "second" | "sec" | "s" => 1_000.0,
        "minutes" | "minute" | "min" | "m" => 60_000.0,
        "hours" | "hour" | "hr" | "h" => 3_600_000.0,
        "days" | "day" | "d" => 86_400_000.0,
        "weeks" | "week" | "w" => 604_800_000.0,
        "months" | "month" | "M" => 2_629_800_000.0,
        "years" | "year" | "y" => 31_557_600_000.0,
        _ => return None,
    })
}
