//! A trigger of Quartz as the times of a job.

use evenkeel_core::job::{CATCH_UP_MAX, CatchUp, JobFile, Priority};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use super::super::{ImportNotes, ImportRefusal, ImportSource, helpers};
use super::xml::QuartzTrigger;

/// Takes the times of a trigger.
pub(super) fn take(
    job: &mut JobFile,
    trigger: &QuartzTrigger,
    source: &ImportSource,
    notes: &mut ImportNotes,
) -> Result<(), ImportRefusal> {
    let part = |name: &str| trigger.parts.get(name).map(String::as_str);
    if let Some(calendar) = part("calendar-name") {
        return Err(ImportRefusal::new(
            "calendar-name",
            format!(
                "{calendar} is an object of the program, not in the file: declare it as [[calendar]], take the name out \
                     here, and write exclude_calendars into the job"
            ),
        ));
    }
    match trigger.kind.as_str() {
        "cron" => cron(job, trigger, source, notes)?,
        "simple" => simple(job, trigger, source, notes)?,
        "calendar-interval" => calendar_interval(job, trigger, source, notes)?,
        other => return Err(ImportRefusal::new("trigger", format!("{other} has no equivalent"))),
    }
    misfire(job, part("misfire-instruction").unwrap_or("MISFIRE_INSTRUCTION_SMART_POLICY"), trigger, notes);
    if let Some(text) = part("priority") {
        let number: i64 =
            text.parse().map_err(|_| ImportRefusal::new("priority", format!("{text:?} is no number")))?;
        let kept = u8::try_from(number.clamp(0, 9)).unwrap_or_default();
        job.priority = Priority::try_from(kept).map_err(|e| ImportRefusal::new("priority", e.to_string()))?;
        match i64::from(kept) == number {
            true => notes.taken("priority", format!("priority = {kept}")),
            false => notes.changed("priority", format!("priority = {kept}, of 0 to 9")),
        }
    }
    if trigger.has_data {
        notes.lost("trigger.job-data-map", "a job has the same variables for all its fires");
    }
    Ok(())
}

fn cron(
    job: &mut JobFile,
    trigger: &QuartzTrigger,
    source: &ImportSource,
    notes: &mut ImportNotes,
) -> Result<(), ImportRefusal> {
    let part = |name: &str| trigger.parts.get(name).map(String::as_str);
    let text =
        part("cron-expression").ok_or_else(|| ImportRefusal::new("cron-expression", "it is missing"))?;
    text.clone_into(&mut job.schedule);
    notes.taken("cron-expression", format!("schedule = {text:?}"));
    match part("time-zone") {
        Some(zone) => job.timezone = helpers::zone("time-zone", zone, notes)?,
        None => helpers::assumed_zone(job, source, "the zone of the scheduler's process", notes),
    }
    helpers::clock_changes(job, "Quartz moves a time that is skipped by an hour", notes);
    bounds(job, trigger, notes)
}

/// `start-time` and `end-time`, local to the job's zone where no offset is written.
fn bounds(job: &mut JobFile, trigger: &QuartzTrigger, notes: &mut ImportNotes) -> Result<(), ImportRefusal> {
    if trigger.parts.contains_key("start-time-seconds-in-future") {
        notes.lost("start-time-seconds-in-future", "the job is due from its declaration on");
    }
    if let Some(text) = trigger.parts.get("start-time") {
        job.start_at.clone_from(text);
        notes.taken("start-time", format!("start_at = {text:?}"));
    }
    if let Some(text) = trigger.parts.get("end-time") {
        job.end_at.clone_from(text);
        notes.taken("end-time", format!("end_at = {text:?}"));
    }
    Ok(())
}

/// A fixed interval, so often.
fn simple(
    job: &mut JobFile,
    trigger: &QuartzTrigger,
    source: &ImportSource,
    notes: &mut ImportNotes,
) -> Result<(), ImportRefusal> {
    let number = |name: &str, usual: i64| -> Result<i64, ImportRefusal> {
        let Some(text) = trigger.parts.get(name) else { return Ok(usual) };
        match (text.as_str(), text.parse()) {
            ("REPEAT_INDEFINITELY", _) => Ok(-1),
            (_, Ok(number)) => Ok(number),
            _ => Err(ImportRefusal::new(name, format!("{text:?} is no number"))),
        }
    };
    let (count, interval) = (number("repeat-count", 0)?, number("repeat-interval", 0)?);
    let start = trigger.parts.get("start-time").map(|text| moment(text, source)).transpose()?;
    if count == 0 {
        let Some(start) = start else {
            return Err(ImportRefusal::new(
                "repeat-count",
                "it fires once, when the scheduler starts: run the job with `evenkeel job run`, or give start-time",
            ));
        };
        job.schedule = format!("at {start}");
        notes.taken("start-time", format!("schedule = {:?}", job.schedule));
        return Ok(());
    }
    if interval < 1_000 {
        return Err(ImportRefusal::new(
            "repeat-interval",
            format!("{interval} ms: the shortest interval is a second"),
        ));
    }
    every(job, interval, start, notes);
    if let Some(end) = trigger.parts.get("end-time") {
        job.end_at = moment(end, source)?.to_string();
        notes.taken("end-time", format!("end_at = {:?}", job.end_at));
    }
    match (count, start) {
        (..0, _) => notes.taken("repeat-count", "for ever"),
        (count, Some(start)) => {
            let length = interval.saturating_mul(count).saturating_add(1);
            let last = start.as_millisecond().saturating_add(length);
            let last = Timestamp::from_millisecond(last)
                .map_err(|e| ImportRefusal::new("repeat-count", e.to_string()))?;
            if job.end_at.is_empty() {
                job.end_at = last.to_string();
                notes.taken("repeat-count", format!("end_at = {:?}", job.end_at));
            }
        }
        (count, None) => {
            return Err(ImportRefusal::new(
                "repeat-count",
                format!(
                    "{} times from the scheduler's start on: give start-time, from which they can be counted",
                    count + 1
                ),
            ));
        }
    }
    Ok(())
}

/// An interval in milliseconds, counted from the start if it is known.
fn every(job: &mut JobFile, interval: i64, start: Option<Timestamp>, notes: &mut ImportNotes) {
    let span = |millis: i64| match millis % 1_000 {
        0 => helpers::span(u64::try_from(millis / 1_000).unwrap_or_default()),
        _ => format!("{millis}ms"),
    };
    let field = "repeat-interval";
    match start {
        Some(start) => {
            let offset = start.as_millisecond().rem_euclid(interval);
            let offset = if offset == 0 { String::new() } else { format!(" offset {}", span(offset)) };
            job.schedule = format!("@every {}{offset}", span(interval));
            job.start_at = start.to_string();
            notes.taken(field, format!("schedule = {:?}, start_at = {:?}", job.schedule, job.start_at));
        }
        None => {
            job.schedule = format!("@every {}", span(interval));
            notes.changed(
                field,
                format!("schedule = {:?}: counted from 1970, not from the scheduler's start", job.schedule),
            );
        }
    }
}

/// An interval in units of the calendar.
fn calendar_interval(
    job: &mut JobFile,
    trigger: &QuartzTrigger,
    source: &ImportSource,
    notes: &mut ImportNotes,
) -> Result<(), ImportRefusal> {
    let part = |name: &str| trigger.parts.get(name).map_or("", String::as_str);
    let count: i64 = part("repeat-interval")
        .parse()
        .map_err(|_| ImportRefusal::new("repeat-interval", "it is no number"))?;
    let unit = part("repeat-interval-unit");
    let seconds = match unit {
        "SECOND" => 1,
        "MINUTE" => 60,
        "HOUR" => 3_600,
        // Of a day and more the local time stays, whatever the clock does.
        "DAY" | "WEEK" | "MONTH" | "YEAR" => return by_calendar(job, count, unit, trigger, source, notes),
        other => return Err(ImportRefusal::new("repeat-interval-unit", format!("{other:?} is not known"))),
    };
    let start = trigger.parts.get("start-time").map(|text| moment(text, source)).transpose()?;
    every(job, count.saturating_mul(seconds * 1_000), start, notes);
    if let Some(end) = trigger.parts.get("end-time") {
        job.end_at = moment(end, source)?.to_string();
        notes.taken("end-time", format!("end_at = {:?}", job.end_at));
    }
    Ok(())
}

/// One day, week, month or year, from a start that says at which time.
fn by_calendar(
    job: &mut JobFile,
    count: i64,
    unit: &str,
    trigger: &QuartzTrigger,
    source: &ImportSource,
    notes: &mut ImportNotes,
) -> Result<(), ImportRefusal> {
    let refused = |said: &str| Err(ImportRefusal::new("repeat-interval-unit", said.to_owned()));
    if count != 1 {
        return refused(
            "an interval of several days, weeks, months or years has no equivalent: write a cron line",
        );
    }
    let Some(start) = trigger.parts.get("start-time") else {
        return refused(
            "it is counted from the scheduler's start: give start-time, which says at which time of day",
        );
    };
    let named = trigger.parts.get("time-zone");
    match named {
        Some(zone) => job.timezone = helpers::zone("time-zone", zone, notes)?,
        None => helpers::assumed_zone(job, source, "the zone of the scheduler's process", notes),
    }
    let zone = if job.timezone.is_empty() { TimeZone::UTC } else { zone_of(&job.timezone)? };
    let at =
        moment(start, &ImportSource { timezone: job.timezone.clone(), ..source.clone() })?.to_zoned(zone);
    let (second, minute, hour) = (at.second(), at.minute(), at.hour());
    let day = match unit {
        "DAY" => "* * ?".to_owned(),
        "WEEK" => format!("? * {}", at.weekday().to_sunday_one_offset()),
        "MONTH" if at.day() > 28 => {
            return refused("a day that not every month has is moved by Quartz: write a cron line");
        }
        "MONTH" => format!("{} * ?", at.day()),
        _ => format!("{} {} ?", at.day(), at.month()),
    };
    job.schedule = format!("{second} {minute} {hour} {day}");
    notes.taken("repeat-interval", format!("schedule = {:?}", job.schedule));
    bounds(job, trigger, notes)
}

fn zone_of(name: &str) -> Result<TimeZone, ImportRefusal> {
    TimeZone::get(name).map_err(|e| ImportRefusal::new("time-zone", e.to_string()))
}

/// A moment as XML has it, local to the import's zone where no offset is written.
fn moment(text: &str, source: &ImportSource) -> Result<Timestamp, ImportRefusal> {
    if let Ok(moment) = text.parse::<Timestamp>() {
        return Ok(moment);
    }
    let wrong = || ImportRefusal::new("start-time", format!("{text:?} is no moment"));
    let local: DateTime = text.parse().map_err(|_| wrong())?;
    let zone = if source.timezone.is_empty() { TimeZone::UTC } else { zone_of(&source.timezone)? };
    zone.to_timestamp(local).map_err(|_| wrong())
}

fn misfire(job: &mut JobFile, instruction: &str, trigger: &QuartzTrigger, notes: &mut ImportNotes) {
    let (catch_up, word) = match instruction.trim_start_matches("MISFIRE_INSTRUCTION_") {
        "DO_NOTHING" => (CatchUp::Skip, "\"skip\"".to_owned()),
        known if known.starts_with("RESCHEDULE_NEXT") => (CatchUp::Skip, "\"skip\"".to_owned()),
        "IGNORE_MISFIRE_POLICY" => (CatchUp::All(CATCH_UP_MAX), format!("{{ all = {CATCH_UP_MAX} }}")),
        "SMART_POLICY"
            if trigger.kind == "simple"
                && trigger
                    .parts
                    .get("repeat-count")
                    .is_some_and(|n| n == "-1" || n == "REPEAT_INDEFINITELY") =>
        {
            (CatchUp::Skip, "\"skip\"".to_owned())
        }
        _ => (CatchUp::Latest, "\"latest\"".to_owned()),
    };
    job.catch_up = catch_up;
    let said = format!("{instruction}: catch_up = {word}");
    // Quartz counts a fire as missed after a minute, too.
    let moves = instruction.contains("RESCHEDULE_NOW");
    match (moves, catch_up) {
        (true, _) => notes.changed("misfire-instruction", format!("{said}; later fires stay at their times")),
        (_, CatchUp::All(_)) => notes.changed("misfire-instruction", format!("{said}, the most")),
        _ => notes.taken("misfire-instruction", said),
    }
}
