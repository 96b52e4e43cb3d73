//! Parses one line of a crontab as cron does.

use crate::import::report::ImportFate;
use evenkeel_core::characters;

use super::CrontabFormat;

/// The content of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CrontabLine {
    /// Blank, or a comment.
    Nothing,
    /// `NAME = value`, for the entries below it.
    Setting {
        /// The text left of the sign.
        name: String,
        /// The text right of it, without its quotes.
        value: String,
    },
    /// A schedule and a command.
    Entry(CrontabEntry),
}

/// When an entry is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CrontabSchedule {
    /// Cron's five fields, or six or seven with seconds first.
    Fields(Vec<String>),
    /// `@daily` and the like.
    Word(String),
}

/// An entry: a schedule and a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CrontabEntry {
    /// The schedule.
    pub(super) when: CrontabSchedule,
    /// The user; only in the system form.
    pub(super) user: Option<String>,
    /// The group behind the user, as Debian and BSD allow it.
    pub(super) group: Option<String>,
    /// The flags before the command, as OpenBSD has them.
    pub(super) flags: String,
    /// The command, for the shell.
    pub(super) command: String,
    /// The input of the command, from behind the first `%`.
    pub(super) input: Option<String>,
    /// Whether cron shall not log it: a minus before the minutes.
    pub(super) quiet: bool,
}

impl CrontabEntry {
    /// Its schedule in Evenkeel's format.
    pub(super) fn schedule(&self, seconds: bool) -> String {
        match &self.when {
            CrontabSchedule::Fields(fields) if seconds => super::seconds::schedule(fields),
            CrontabSchedule::Fields(fields) => fields.join(" "),
            CrontabSchedule::Word(word) => word.clone(),
        }
    }

    /// Why this entry has no meaning in a cluster; `None` if it has one.
    pub(super) fn loss(&self) -> Option<String> {
        match &self.when {
            CrontabSchedule::Word(word) if word == "@reboot" => Some(
                "@reboot is left out: a fire belongs to the cluster, not to one host's start; use the host's own init"
                    .to_owned(),
            ),
            CrontabSchedule::Fields(fields) if fields.iter().any(|f| f.contains('~')) => Some(
                "a random time (~) is left out: write a fixed one, since every node must compute the same fire"
                    .to_owned(),
            ),
            _ => None,
        }
    }

    /// The mistake of a user that this host does not have.
    pub(super) fn unknown_user(&self, users: &[String]) -> Option<String> {
        let user = self.user.as_ref().filter(|user| !is_known(user, users))?;
        Some(format!(
            "it is not imported, for this host has no user {user}: create the user here, correct the line, or say --user \
             if {user} is a command and the crontab has no user column"
        ))
    }

    /// Reports what changes for this entry.
    pub(super) fn remarks(&self, me: &str, remark: &mut impl FnMut(ImportFate, String)) {
        if let Some(user) = self.user.as_deref().filter(|user| *user != me) {
            let own = if user == "root" { String::new() } else { format!(" or as {user}") };
            remark(
                ImportFate::Changed,
                format!(
                    "it runs as {user}, which takes nodes that run as root{own}: on others its runs fail"
                ),
            );
        }
        if let Some(group) = &self.group {
            remark(
                ImportFate::Lost,
                format!("the group {group} is left out: it runs with the groups of its user"),
            );
        }
        if !self.flags.is_empty() {
            remark(
                ImportFate::Lost,
                format!("{} before the command is left out: it is a flag of OpenBSD's cron", self.flags),
            );
        }
        if matches!(&self.when, CrontabSchedule::Word(word) if word.starts_with("@every ")) {
            remark(
                ImportFate::Changed,
                "@every counts from the same moment on each node, not from the start of a program".to_owned(),
            );
        }
        if let Some(odd) = characters::hidden(&self.command) {
            let (odd, instead) = (characters::describe(odd), characters::instead(odd));
            remark(
                ImportFate::Changed,
                format!("the command holds {odd}, which the shell takes for a part of a word: {instead}"),
            );
        }
        if self.command.ends_with('\\') {
            remark(
                ImportFate::Changed,
                "the command ends with a backslash, and cron joins no lines: write it on one".to_owned(),
            );
        }
        if self.quiet {
            remark(
                ImportFate::Lost,
                "the minus before the minutes is left out: every run is in the history".to_owned(),
            );
        }
        if self.input.is_some() {
            remark(
                ImportFate::Changed,
                "cron cuts the command at its first bare %, also within quotes: what follows is its standard input; \
                 write \\% where a percent sign is meant"
                    .to_owned(),
            );
        }
    }
}

/// Whether the host has this user; if the host lists no users, any name may be one.
fn is_known(user: &str, users: &[String]) -> bool {
    users.is_empty() || user == "root" || users.iter().any(|known| known == user)
}

/// Detects the form of a crontab by the sixth words of all its entries. `None` if both forms are possible.
///
/// # Errors
/// Some entries have a user column and some have none; the text names a line of each.
pub(super) fn form(text: &str, users: &[String]) -> Result<Option<CrontabFormat>, String> {
    let (mut with, mut without, mut known, mut root) = (None, None, false, false);
    for (at, line) in text.lines().enumerate() {
        let Some((word, rest)) = sixth(line) else { continue };
        let is_user = (is_user(&word) || users.contains(&word)) && !rest.is_empty();
        // An option follows a command, never a user.
        let column = is_user && !rest.starts_with('-');
        *(if column { &mut with } else { &mut without }) = Some(at + 1);
        root |= column && word == "root";
        known |= column && users.contains(&word);
    }
    match (with, without) {
        (Some(with), Some(without)) if root => Err(format!(
            "line {with} has a user before its command and line {without} has none: say --user or --system, or correct one of them"
        )),
        (Some(_), None) if root => Ok(Some(CrontabFormat::System)),
        (Some(_), None) if known => Ok(None),
        _ => Ok(Some(CrontabFormat::User)),
    }
}

/// The first word behind the schedule of an entry, and the text after it.
fn sixth(line: &str) -> Option<(String, String)> {
    let Ok(CrontabLine::Entry(entry)) = parse(line, CrontabFormat::User, false) else { return None };
    let mut rest = entry.command.as_str();
    let word = word(&mut rest).split(':').next().unwrap_or_default();
    // A hidden character is a mistake of its line, and none of the form.
    let word = word.chars().filter(|c| !characters::is_hidden(*c)).collect();
    Some((word, rest.to_owned()))
}

/// Whether the word may be a user name as `useradd` allows it.
fn is_user(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-".contains(c))
}

/// Parses a line; with `seconds` its first field is the seconds field, and a seventh may be the year.
///
/// # Errors
/// The line is not valid for cron; the text says what is missing.
pub(super) fn parse(line: &str, form: CrontabFormat, seconds: bool) -> Result<CrontabLine, String> {
    let line = line.trim_start_matches([' ', '\t']).trim_end_matches('\r');
    if line.trim().is_empty() || line.starts_with('#') {
        return Ok(CrontabLine::Nothing);
    }
    if let Some((name, value)) = setting(line) {
        return Ok(CrontabLine::Setting { name, value });
    }
    if let Some(odd) = line.chars().next().filter(|c| characters::is_hidden(*c)) {
        return Err(format!("{} begins the line: {}", characters::describe(odd), characters::instead(odd)));
    }
    let mut rest = line;
    let when = if line.starts_with('@') {
        let name = word(&mut rest).to_ascii_lowercase();
        // supercronic and ofelia have a span behind it.
        let span = if name == "@every" { word(&mut rest) } else { "" };
        CrontabSchedule::Word(if span.is_empty() { name } else { format!("{name} {span}") })
    } else {
        CrontabSchedule::Fields(fields(&mut rest, seconds)?)
    };
    let times = line.len() - rest.len() + rest.chars().next().map_or(0, char::len_utf8);
    if let Some(unseen) = characters::hidden(&line[..times]) {
        return Err(format!(
            "{} stands among the times: write a plain space, or nothing",
            characters::describe(unseen)
        ));
    }
    let (user, group) = match form {
        CrontabFormat::User => (None, None),
        CrontabFormat::System => {
            let column = word(&mut rest);
            if let Some(unseen) = characters::hidden(column) {
                let (unseen, instead) = (characters::describe(unseen), characters::instead(unseen));
                return Err(format!("the user column holds {unseen}: {instead}"));
            }
            let (user, group) =
                column.split_once(':').map_or((column, None), |(user, group)| (user, Some(group)));
            (Some(user.to_owned()), group.map(ToOwned::to_owned))
        }
    };
    if rest.trim().is_empty() {
        return Err(match form {
            CrontabFormat::User => "too few words: write minute hour day month weekday command".to_owned(),
            CrontabFormat::System => {
                "too few words: write minute hour day month weekday user command, or say --user for a \
                             crontab without a user column"
                    .to_owned()
            }
        });
    }
    let flags = flags(&mut rest).to_owned();
    let (command, input) = percent(rest);
    if command.trim().is_empty() {
        return Err("there is no command before the %".to_owned());
    }
    Ok(CrontabLine::Entry(quiet(CrontabEntry { when, user, group, flags, command, input, quiet: false })))
}

/// The words of the schedule.
fn fields(rest: &mut &str, seconds: bool) -> Result<Vec<String>, String> {
    let mut take = |n: usize| (0..n).map(|_| word(rest).to_owned()).collect::<Vec<String>>();
    let mut fields = take(if seconds { 6 } else { 5 });
    let mut ahead = *rest;
    let more = is_field(word(&mut ahead));
    match (seconds, more) {
        (false, true) => Err(
            "six or seven fields before the command: say --seconds if the first field is the second, as supercronic and ofelia \
             read it; cron reads five"
                .to_owned(),
        ),
        (true, true) => {
            fields.push(word(rest).to_owned());
            Ok(fields)
        }
        (_, false) => Ok(fields),
    }
}

/// OpenBSD's flags before a command, such as `-n` and `-q`; a command never begins with a minus.
fn flags<'a>(rest: &mut &'a str) -> &'a str {
    let begin = *rest;
    while rest.strip_prefix('-').is_some_and(|flag| flag.starts_with(['n', 'q', 's'])) {
        let mut ahead = *rest;
        let flag = word(&mut ahead);
        if !flag[1..].chars().all(|c| "nqs".contains(c)) || ahead.is_empty() {
            break;
        }
        *rest = ahead;
    }
    begin[..begin.len() - rest.len()].trim_end()
}

/// Whether a word is a schedule field rather than the beginning of a command.
fn is_field(word: &str) -> bool {
    const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
    let part = |part: &str| {
        let day = part.to_ascii_lowercase();
        // Quartz's words: `6L`, `15W`, `6#3`.
        let number = part.strip_suffix(['L', 'W']).unwrap_or(part);
        let number = number.split_once('#').map_or(number, |(number, _)| number);
        ["*", "?", "L", "LW"].contains(&part)
            || DAYS.contains(&day.as_str())
            || (!number.is_empty() && number.chars().all(|c| c.is_ascii_digit()))
    };
    !word.is_empty() && word.split([',', '-', '/']).all(part)
}

/// cronie and SUSE write `-*/5 * * * *` for "do not log".
fn quiet(mut entry: CrontabEntry) -> CrontabEntry {
    if let CrontabSchedule::Fields(fields) = &mut entry.when
        && let Some(minutes) = fields.first_mut()
        && let Some(plain) = minutes.strip_prefix('-')
    {
        *minutes = plain.to_owned();
        entry.quiet = true;
    }
    entry
}

/// The next word, and the blanks behind it.
fn word<'a>(rest: &mut &'a str) -> &'a str {
    let end = rest.find([' ', '\t']).unwrap_or(rest.len());
    let (word, tail) = rest.split_at(end);
    *rest = tail.trim_start_matches([' ', '\t']);
    word
}

/// `NAME=value`, `NAME = "value"`: cron trims what is not quoted and expands nothing.
fn setting(line: &str) -> Option<(String, String)> {
    let (name, value) = line.split_once('=')?;
    let name = unquote(name.trim_matches([' ', '\t']));
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if !begins || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        return None;
    }
    Some((name.to_owned(), unquote(value.trim_matches([' ', '\t'])).to_owned()))
}

fn unquote(text: &str) -> &str {
    for quote in ['"', '\''] {
        if let Some(inner) = text.strip_prefix(quote).and_then(|t| t.strip_suffix(quote)) {
            return inner;
        }
    }
    text
}

/// Cron's use of `%`: the first bare one ends the command, later ones are line ends of its input; `\%` is a `%`.
fn percent(text: &str) -> (String, Option<String>) {
    let mut command = String::new();
    let mut input: Option<String> = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        let into = input.as_mut().unwrap_or(&mut command);
        match c {
            '\\' => match chars.next() {
                Some('%') => into.push('%'),
                other => into.extend(std::iter::once('\\').chain(other)),
            },
            '%' => match &mut input {
                Some(input) => input.push('\n'),
                None => input = Some(String::new()),
            },
            c => into.push(c),
        }
    }
    if let Some(input) = &mut input
        && !(input.is_empty() || input.ends_with('\n'))
    {
        input.push('\n');
    }
    (command, input)
}
