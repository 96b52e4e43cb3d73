//! One line of a crontab, taken apart as cron does.

use super::Form;

/// What a line is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// Blank, or a comment.
    Nothing,
    /// `NAME = value`, for the entries below it.
    Setting {
        /// Left of the sign.
        name: String,
        /// Right of it, without its quotes.
        value: String,
    },
    /// Something to run.
    Entry(Entry),
}

/// When an entry is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum When {
    /// Cron's five fields.
    Fields(Vec<String>),
    /// `@daily` and kin.
    Word(String),
}

/// Something to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// When.
    pub(super) when: When,
    /// As whom; only in the system form.
    pub(super) user: Option<String>,
    /// What, for the shell.
    pub(super) command: String,
    /// What it reads, from behind the first `%`.
    pub(super) input: Option<String>,
    /// A minus before the minutes: cron shall not log it.
    pub(super) quiet: bool,
}

impl Entry {
    /// Why nothing of this entry can be carried over, where that is so.
    pub(super) fn loss(&self) -> Option<String> {
        match &self.when {
            When::Word(word) if word == "@reboot" => Some(
                "@reboot is left out: a fire belongs to the cluster, not to one host's start; use the host's own init"
                    .to_owned(),
            ),
            When::Fields(fields) if fields.iter().any(|f| f.contains('~')) => Some(
                "a random time (~) is left out: write a fixed one, since every node must compute the same fire"
                    .to_owned(),
            ),
            _ => None,
        }
    }

    /// What changes for this entry.
    pub(super) fn remarks(&self, me: &str, remark: &mut impl FnMut(String)) {
        if let Some(user) = self.user.as_deref().filter(|user| *user != me) {
            remark(format!(
                "cron runs it as {user}; here it runs as the user of the node (this one is {me}): \
                 start the nodes as {user}, or use sudo -n -u {user} in the command"
            ));
        }
        if self.quiet {
            remark("the minus before the minutes is left out: every run is in the history".to_owned());
        }
    }
}

/// Finds out which form a crontab has: in the system form every sixth word is a user and something follows it.
pub(super) fn form(text: &str, users: &[String]) -> Form {
    let mut entries = 0;
    for line in text.lines() {
        if let Ok(Line::Entry(entry)) = parse(line, Form::System) {
            entries += 1;
            if entry.user.is_none_or(|user| user != "root" && !users.contains(&user)) {
                return Form::User;
            }
        } else if matches!(parse(line, Form::User), Ok(Line::Entry(_))) {
            return Form::User;
        }
    }
    if entries == 0 { Form::User } else { Form::System }
}

/// Takes a line apart.
///
/// # Errors
/// It is nothing that cron knows; the text says what is missing.
pub(super) fn parse(line: &str, form: Form) -> Result<Line, String> {
    let line = line.trim_start_matches([' ', '\t']).trim_end_matches('\r');
    if line.trim().is_empty() || line.starts_with('#') {
        return Ok(Line::Nothing);
    }
    if let Some((name, value)) = setting(line) {
        return Ok(Line::Setting { name, value });
    }
    let mut rest = line;
    let when = if line.starts_with('@') {
        When::Word(word(&mut rest).to_ascii_lowercase())
    } else {
        let fields: Vec<String> = (0..5).map(|_| word(&mut rest).to_owned()).collect();
        When::Fields(fields)
    };
    let user = match form {
        Form::User => None,
        // Debian and BSD allow `user:group`; the group is cron's business.
        Form::System => Some(word(&mut rest).split(':').next().unwrap_or_default().to_owned()),
    };
    if rest.trim().is_empty() {
        return Err(match form {
            Form::User => "too few words: write minute hour day month weekday command".to_owned(),
            Form::System => {
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
    Ok(Line::Entry(quiet(Entry { when, user, command, input, quiet: false })))
}

/// cronie and SUSE write `-*/5 * * * *` for "do not log".
fn quiet(mut entry: Entry) -> Entry {
    if let When::Fields(fields) = &mut entry.when
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

/// Cron's own use of `%`: the first bare one ends the command, later ones are line ends of its input; `\%` is a `%`.
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
