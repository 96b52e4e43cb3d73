//! Lines that cron writes when it starts a command, and systemd when it starts a service: of a log, or of the journal.

use evenkeel_core::time::Wall;
use serde_json::Value;

use super::log::{RivalFire, RivalLog, RivalRecord, RivalSource, RivalSubject};
use super::moment_text;

/// The programs that write such lines, in small letters.
const CRONS: [&str; 4] = ["cron", "crond", "anacron", "/usr/sbin/cron"];
/// What is between the user and the command.
const COMMAND: &str = ") CMD (";
/// The journal's number of the message that a unit is being started.
const STARTING: &str = "7d4958e842da4a758f6c1cdc7b36dcc5";
/// How many words a time has at most, with the host behind it.
const TIME_WORDS: usize = 4;

/// Whether a line, in small letters, is one of cron.
pub(super) fn is_of_cron(line: &str) -> bool {
    line.contains(") cmd (")
}

/// Reads lines of a log, or of `journalctl -o json`.
pub(super) fn read(text: &str, source: &RivalSource) -> RivalLog {
    let mut log = RivalLog::default();
    for (n, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let record = match line.trim_start().starts_with('{') {
            true => journal(line),
            false => logged(line, source),
        };
        log.take(source, &format!("line {}", n + 1), record);
    }
    log
}

/// An entry of the journal.
fn journal(line: &str) -> Result<RivalRecord, String> {
    let entry: Value = serde_json::from_str(line).map_err(|e| e.to_string())?;
    let text = |key: &str| entry.get(key).and_then(Value::as_str);
    let program = text("SYSLOG_IDENTIFIER").unwrap_or_default().to_ascii_lowercase();
    let unit = text("UNIT").or_else(|| text("USER_UNIT")).and_then(|unit| unit.strip_suffix(".service"));
    let subject = match unit {
        Some(unit) if text("MESSAGE_ID") == Some(STARTING) => RivalSubject::Name(unit.to_owned()),
        _ if CRONS.contains(&program.as_str()) => match text("MESSAGE").and_then(command) {
            Some(command) => command,
            None => return Ok(RivalRecord::Other("lines of something else")),
        },
        _ => return Ok(RivalRecord::Other("lines of something else")),
    };
    let micros: i64 = text("__REALTIME_TIMESTAMP")
        .and_then(|micros| micros.parse().ok())
        .ok_or("it has no __REALTIME_TIMESTAMP")?;
    Ok(fire(subject, Wall(micros / 1_000)))
}

/// A line of a log: `Nov 29 10:17:01 host CRON[123]: (root) CMD (command)`, or with a time of RFC 3339.
fn logged(line: &str, source: &RivalSource) -> Result<RivalRecord, String> {
    let Some((head, message)) = line.split_once("]: ") else {
        return Ok(RivalRecord::Other("lines of something else"));
    };
    let mut words = head.split_whitespace();
    let program = words.next_back().and_then(|word| word.split('[').next()).unwrap_or_default();
    let is_cron = CRONS.contains(&program.to_ascii_lowercase().as_str());
    let Some(subject) = command(message).filter(|_| is_cron) else {
        return Ok(RivalRecord::Other("lines of something else"));
    };
    let words: Vec<&str> = words.take(TIME_WORDS).collect();
    let at = match words[..] {
        [month, day, time, ..] if month.len() == 3 => {
            moment_text::without_year(month, day, time, &source.zone, source.now)
                .ok_or_else(|| format!("{month} {day} {time} is no time"))?
        }
        [at, ..] => moment_text::read(at, &source.zone)?,
        [] => return Err("it has no time".to_owned()),
    };
    Ok(fire(subject, at))
}

/// The command in a message such as `(root) CMD (run-parts /etc/cron.hourly)`.
fn command(message: &str) -> Option<RivalSubject> {
    let (user, command) = message.split_once(COMMAND)?;
    let (user, command) = (user.strip_prefix('(')?.to_owned(), command.trim_end().strip_suffix(')')?);
    Some(RivalSubject::Command { user, command: command.trim().to_owned() })
}

fn fire(subject: RivalSubject, at: Wall) -> RivalRecord {
    RivalRecord::Fire(subject, RivalFire { at, outcome: String::new(), shard: None, id: None })
}
