//! systemd: each timer with its service as a job.

mod calendar_event;
mod exec;
mod service;
mod unit;

use std::collections::BTreeMap;

use evenkeel_core::calendar::Calendar;
use evenkeel_core::ids::{CalendarName, WrittenName};
use evenkeel_core::job::{CatchUp, JobFile, Overlap};

use super::{ImportNotes, ImportRefusal, ImportSource, Imported, helpers};
use calendar_event::OnCalendarRule;
use unit::Unit;

/// The texts of units by their names, each with its drop-ins behind it.
pub(crate) type UnitTexts = BTreeMap<String, String>;

/// Sorts the output of `systemctl cat`, or of several files in that form, by unit.
#[must_use]
pub(crate) fn units_of_cat(text: &str) -> UnitTexts {
    let mut units = UnitTexts::new();
    let mut name = String::new();
    for line in text.lines() {
        if let Some(path) = line.strip_prefix("# /") {
            let mut parts = path.rsplit('/');
            let (file, folder) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
            let is_unit = |name: &str| name.ends_with(".timer") || name.ends_with(".service");
            let unit = folder.strip_suffix(".d").filter(|unit| is_unit(unit)).unwrap_or(file);
            if is_unit(unit) {
                name = unit.to_owned();
                continue;
            }
        }
        let text = units.entry(name.clone()).or_default();
        text.push_str(line);
        text.push('\n');
    }
    units
}

/// Reads these timers; their services are among the units.
#[must_use]
pub(crate) fn read(units: &UnitTexts, timers: &[String], source: &ImportSource) -> Imported {
    let mut imported = Imported::default();
    for timer in timers {
        imported.object(timer, |notes| {
            let text = units.get(timer).map_or("", String::as_str);
            job(timer, Unit::parse(text)?, units, source, notes)
        });
    }
    imported
}

fn job(
    timer: &str,
    mut unit: Unit,
    units: &UnitTexts,
    source: &ImportSource,
    notes: &mut ImportNotes,
) -> Result<JobFile, ImportRefusal> {
    let stem = timer.strip_suffix(".timer").unwrap_or(timer);
    let service = unit.last("Timer", "Unit").unwrap_or_else(|| format!("{stem}.service"));
    if !service.ends_with(".service") {
        let said = format!("it starts {service}, and only a service has a command");
        return Err(ImportRefusal::new("Unit", said));
    }
    let text = units.get(&service).or_else(|| units.get(&template_of(&service)?));
    let text = text.ok_or_else(|| {
        ImportRefusal::new(
            "Unit",
            format!("{service} is missing: give its file, or the folder that has both"),
        )
    })?;
    let name = helpers::name("name", stem, notes)?;
    let mut job = service::job(name, &service, Unit::parse(text)?, notes)?;
    job.description = match unit.last("Unit", "Description") {
        Some(said) => format!("{said} ({})", source.description()),
        None => source.description(),
    };
    notes.changed(
        "host",
        "a timer fires on its own host, a job on one node of the cluster: node_selector = [\"name=NODE\"] binds it to one",
    );
    // A timer that elapses while its service is active does nothing.
    job.overlap = Overlap::Skip;
    triggers(&mut job, &mut unit, source, notes)?;
    delays(&mut job, &mut unit, notes)?;
    unit.lost("Timer", notes, &REMARKS);
    unit.lost_units(notes);
    Ok(job)
}

/// What it means that a key of a timer is left out.
const REMARKS: [(&str, &str); 5] = [
    ("AccuracySec", "a fire starts at its due time, not within a span"),
    ("WakeSystem", "no host is woken up"),
    ("RemainAfterElapse", "a job stays after its last fire"),
    ("FixedRandomDelay", "a jitter is fixed for each job and moment"),
    ("DeferReactivation", "overlap says what becomes of fires during a run"),
];

/// `backup@.service` for `backup@home.service`.
fn template_of(service: &str) -> Option<String> {
    let (prefix, rest) = service.split_once('@')?;
    let suffix = rest.rsplit_once('.').map(|(_, suffix)| suffix)?;
    Some(format!("{prefix}@.{suffix}"))
}

/// The schedule, from everything that makes the timer elapse.
fn triggers(
    job: &mut JobFile,
    unit: &mut Unit,
    source: &ImportSource,
    notes: &mut ImportNotes,
) -> Result<(), ImportRefusal> {
    let mut rules = Vec::new();
    let events = unit.all("Timer", "OnCalendar");
    if !events.is_empty() {
        calendar_rules(job, &events, source, notes, &mut rules)?;
    }
    for text in unit.all("Timer", "OnUnitActiveSec") {
        let seconds = unit::span("OnUnitActiveSec", &text)?;
        rules.push(format!("@every {}", helpers::span(seconds)));
        notes.changed(
            "OnUnitActiveSec",
            format!(
                "schedule = \"@every {}\": counted from 1970, not from the start before",
                helpers::span(seconds)
            ),
        );
    }
    for text in unit.all("Timer", "OnUnitInactiveSec") {
        let seconds = unit::span("OnUnitInactiveSec", &text)?;
        if !rules.is_empty() {
            return Err(ImportRefusal::new(
                "OnUnitInactiveSec",
                "@after must be the only rule of a job: write a timer for each",
            ));
        }
        rules.push(format!("@after {}", helpers::span(seconds)));
        job.overlap = Overlap::Forbid;
        notes.taken("OnUnitInactiveSec", format!("schedule = \"@after {}\"", helpers::span(seconds)));
    }
    let of_host = ["OnBootSec", "OnStartupSec", "OnActiveSec", "OnClockChange", "OnTimezoneChange"];
    for key in of_host {
        let Some(text) = unit.last("Timer", key).filter(|text| unit::flag(text) != Some(false)) else {
            continue;
        };
        if rules.is_empty() {
            return Err(ImportRefusal::new(
                key,
                format!(
                    "{key}={text}: a fire belongs to the cluster, not to a moment of one host; leave it to systemd"
                ),
            ));
        }
        notes.lost(key, "a fire belongs to the cluster, not to a moment of one host");
    }
    if rules.is_empty() {
        return Err(ImportRefusal::new("OnCalendar", "the timer says no time"));
    }
    job.schedule = rules.join("\n");
    Ok(())
}

/// The rules of calendar events, with a calendar for weekdays that stand beside a date.
fn calendar_rules(
    job: &mut JobFile,
    events: &[String],
    source: &ImportSource,
    notes: &mut ImportNotes,
    rules: &mut Vec<String>,
) -> Result<(), ImportRefusal> {
    let wrong = |why: String| ImportRefusal::new("OnCalendar", why);
    let read: Result<Vec<OnCalendarRule>, String> =
        events.iter().map(|text| OnCalendarRule::parse(text)).collect();
    let read = read.map_err(wrong)?;
    let first = read.first().cloned().unwrap_or_default();
    if read.iter().any(|event| event.zone != first.zone) {
        return Err(wrong(
            "its lines name several zones, and a job has one: write a timer for each".to_owned(),
        ));
    }
    if read.iter().any(|event| event.weekdays != first.weekdays) {
        return Err(wrong(
            "weekdays beside a date are not the same in all lines: write a timer for each".to_owned(),
        ));
    }
    match &first.zone {
        Some(zone) => job.timezone = helpers::zone("OnCalendar", zone, notes)?,
        None => helpers::assumed_zone(job, source, "the host's zone", notes),
    }
    for (text, event) in events.iter().zip(&read) {
        notes.taken("OnCalendar", format!("{text} → schedule = {:?}", event.rule));
        rules.push(event.rule.clone());
    }
    if !first.weekdays.is_empty() {
        let name = format!("systemd-{}", first.weekdays.join("-"));
        let name: CalendarName = name.parse().map_err(|e| wrong(format!("{e}")))?;
        notes.taken(
            "OnCalendar",
            format!("require_calendars = [{:?}]: its weekdays beside a date", name.as_str()),
        );
        let weekdays = vec![first.weekdays.join(",")];
        notes.calendar(Calendar { weekdays, ..Calendar::new(name.clone()) });
        job.require_calendars = vec![WrittenName::full(name)];
    }
    job.schedule = rules.join("\n");
    helpers::clock_changes(job, "systemd leaves out a time that is skipped", notes);
    Ok(())
}

fn delays(job: &mut JobFile, unit: &mut Unit, notes: &mut ImportNotes) -> Result<(), ImportRefusal> {
    let persistent = unit.last("Timer", "Persistent").and_then(|text| unit::flag(&text)).unwrap_or_default();
    job.catch_up = if persistent { CatchUp::Latest } else { CatchUp::Skip };
    let said = match persistent {
        true => "catch_up = \"latest\": the latest missed fire runs late",
        false => "catch_up = \"skip\": a fire that is missed by more than misfire_grace does not run",
    };
    notes.taken("Persistent", said);
    for key in ["RandomizedDelaySec", "RandomizedOffsetSec"] {
        let Some(text) = unit.last("Timer", key) else { continue };
        let seconds = unit::span(key, &text)?;
        if seconds == 0 {
            continue;
        }
        if job.schedule.starts_with("@after") {
            notes.lost(key, "a fire after a run has no jitter");
            continue;
        }
        job.jitter = helpers::span(seconds);
        notes.changed(
            key,
            format!("jitter = {:?}: the job's name and the moment decide the delay", job.jitter),
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests;
