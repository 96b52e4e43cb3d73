//! Parses one line of a crontab as cron does.

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

    /// Why this entry cannot be imported at all; `None` if it can.
    pub(super) fn loss(&self, users: &[String]) -> Option<String> {
        match &self.when {
            CrontabSchedule::Word(word) if word == "@reboot" => Some(
                "@reboot is left out: a fire belongs to the cluster, not to one host's start; use the host's own init"
                    .to_owned(),
            ),
            CrontabSchedule::Fields(fields) if fields.iter().any(|f| f.contains('~')) => Some(
                "a random time (~) is left out: write a fixed one, since every node must compute the same fire"
                    .to_owned(),
            ),
            _ => self.user.as_ref().filter(|user| !is_known(user, users)).map(|user| {
                format!(
                    "it is left out, for this host has no user {user}: create the user here, correct the line, or say --user \
                     if {user} is a command and the crontab has no user column"
                )
            }),
        }
    }

    /// Reports what changes for this entry.
    pub(super) fn remarks(&self, me: &str, remark: &mut impl FnMut(String)) {
        if let Some(user) = self.user.as_deref().filter(|user| *user != me) {
            let own = if user == "root" { String::new() } else { format!(" or as {user}") };
            remark(format!(
                "it runs as {user}, which takes nodes that run as root{own}: on others its runs fail"
            ));
        }
        if self.quiet {
            remark("the minus before the minutes is left out: every run is in the history".to_owned());
        }
        if self.input.is_some() {
            remark(
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
        let is_user = is_user(&word) && !rest.is_empty();
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
    let word = word(&mut rest).split(':').next().unwrap_or_default().to_owned();
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
    let mut rest = line;
    let when = if line.starts_with('@') {
        CrontabSchedule::Word(word(&mut rest).to_ascii_lowercase())
    } else {
        CrontabSchedule::Fields(fields(&mut rest, seconds)?)
    };
    let times = line.len() - rest.len() + rest.chars().next().map_or(0, char::len_utf8);
    if let Some(unseen) = line[..times].chars().find(|c| is_odd(*c)) {
        return Err(format!("{} stands among the times: write a plain space, or nothing", named(unseen)));
    }
    let user = match form {
        CrontabFormat::User => None,
        // Debian and BSD allow `user:group`; the group is not imported.
        CrontabFormat::System => Some(word(&mut rest).split(':').next().unwrap_or_default().to_owned()),
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
    let (command, input) = percent(rest);
    if command.trim().is_empty() {
        return Err("there is no command before the %".to_owned());
    }
    Ok(CrontabLine::Entry(quiet(CrontabEntry { when, user, command, input, quiet: false })))
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

/// Whether a word is a schedule field rather than the beginning of a command.
fn is_field(word: &str) -> bool {
    const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
    let part = |part: &str| {
        let part = part.to_ascii_lowercase();
        ["*", "?"].contains(&part.as_str())
            || DAYS.contains(&part.as_str())
            || (!part.is_empty() && part.chars().all(|c| c.is_ascii_digit()))
    };
    !word.is_empty() && word.split([',', '-', '/']).all(part)
}

/// Whether a character is invisible or looks like a space, and is none.
fn is_odd(c: char) -> bool {
    evenkeel_core::ids::is_unseen(c) && c != '\t' || c.is_whitespace() && !c.is_ascii()
}

/// The name of an invisible character.
pub(super) fn named(c: char) -> String {
    let name = match c {
        '\u{a0}' => "a no-break space",
        '\u{feff}' => "a byte order mark",
        '\u{200b}' => "a zero-width space",
        '\u{202f}' => "a narrow no-break space",
        '\u{3000}' => "an ideographic space",
        c if c.is_whitespace() => "a space that is none of cron's",
        _ => "an invisible character",
    };
    format!("{name} (U+{:04X})", u32::from(c))
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
    let name = unquote(name.trim());
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if !begins || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        return None;
    }
    Some((name.to_owned(), unquote(value.trim()).to_owned()))
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
