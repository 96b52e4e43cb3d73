//! `ExecStart` and the like: words, quotes, prefixes, specifiers and variables.

use super::super::script;

/// One command of a line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ExecCommand {
    /// The words, after quotes and specifiers.
    pub(super) words: Vec<String>,
    /// Its failure counts as a success: `-`.
    pub(super) ignores_failure: bool,
    /// It has more rights than the service: `+`, `!`.
    pub(super) is_privileged: bool,
    /// It had a name of its own for itself: `@`.
    pub(super) had_name: bool,
    /// `$` stands for itself: `:`.
    is_literal: bool,
}

impl ExecCommand {
    /// Whether only a shell can run it, because it uses variables.
    pub(super) fn needs_shell(&self) -> bool {
        !self.is_literal && self.words.iter().any(|word| word.contains('$'))
    }

    /// Whether a variable of it is split into words; a shell would also take them for patterns of file names.
    pub(super) fn splits(&self) -> bool {
        !self.is_literal && self.words.iter().any(|word| word.strip_prefix('$').is_some_and(is_name))
    }

    /// As a line for the shell.
    pub(super) fn line(&self) -> String {
        let words: Vec<String> = self.words.iter().map(|word| self.shell_word(word)).collect();
        match self.ignores_failure {
            true => format!("{{ {} || true; }}", words.join(" ")),
            false => words.join(" "),
        }
    }

    /// One word: `$NAME` alone is split at blanks, `${NAME}` is not, `$$` is a dollar sign.
    fn shell_word(&self, word: &str) -> String {
        if self.is_literal || !word.contains('$') {
            return script::quote(word);
        }
        if let Some(name) = word.strip_prefix('$').filter(|name| is_name(name)) {
            return format!("${name}");
        }
        let (mut made, mut plain) = (String::new(), String::new());
        let mut rest = word;
        while let Some(c) = rest.chars().next() {
            let braced = rest.strip_prefix("${").and_then(|inner| inner.split_once('}'));
            if let Some((name, after)) = braced.filter(|(name, _)| is_name(name)) {
                if !plain.is_empty() {
                    made += &script::quote(&std::mem::take(&mut plain));
                }
                made += &format!("\"${{{name}}}\"");
                rest = after;
                continue;
            }
            let length = if rest.starts_with("$$") { 2 } else { c.len_utf8() };
            plain.push(c);
            rest = rest.get(length..).unwrap_or_default();
        }
        if !plain.is_empty() {
            made += &script::quote(&plain);
        }
        made
    }
}

fn is_name(name: &str) -> bool {
    let mut letters = name.chars();
    letters.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && letters.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// The commands of a line, separated by semicolons that stand alone.
///
/// # Errors
/// A quote is not closed, a specifier is not known, or a prefix has no equivalent.
pub(super) fn commands(line: &str, unit: &str) -> Result<Vec<ExecCommand>, String> {
    let mut commands = Vec::new();
    for words in split(line)?.split(|word| word.as_deref() == Some(";")) {
        let mut words: Vec<String> = words
            .iter()
            .map(|word| specified(word.as_deref().unwrap_or(";"), unit))
            .collect::<Result<_, _>>()?;
        let Some(first) = words.first_mut() else { continue };
        let mut command = ExecCommand::default();
        while let Some(prefix) = first.chars().next() {
            match prefix {
                '-' => command.ignores_failure = true,
                '+' | '!' => command.is_privileged = true,
                '@' => command.had_name = true,
                ':' => command.is_literal = true,
                '|' => {
                    return Err(
                        "the prefix | starts the user's own shell, which has no equivalent".to_owned()
                    );
                }
                _ => break,
            }
            first.remove(0);
        }
        if command.had_name && words.len() > 1 {
            words.remove(1);
        }
        command.words = words;
        commands.push(command);
    }
    Ok(commands)
}

/// The words of a line; `None` for an escaped semicolon, which separates nothing.
fn split(line: &str) -> Result<Vec<Option<String>>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut open = None;
    let mut letters = line.chars().peekable();
    while let Some(c) = letters.next() {
        match (c, open) {
            (c, Some(quote)) if c == quote => open = None,
            ('"' | '\'', None) if word.is_none() => {
                open = Some(c);
                word.get_or_insert_default();
            }
            ('\\', _) => {
                let next = letters.next();
                if next == Some(';') && word.is_none() && letters.peek().is_none_or(|c| c.is_whitespace()) {
                    words.push(None);
                } else {
                    word.get_or_insert_default().push_str(&escaped(next, &mut letters)?);
                }
            }
            (c, None) if c.is_whitespace() => words.extend(word.take().map(Some)),
            (c, _) => word.get_or_insert_default().push(c),
        }
    }
    if let Some(quote) = open {
        return Err(format!("a {quote} is not closed in {line:?}"));
    }
    words.extend(word.map(Some));
    Ok(words)
}

/// What follows a backslash.
fn escaped(next: Option<char>, letters: &mut impl Iterator<Item = char>) -> Result<String, String> {
    Ok(match next {
        Some('n') => "\n".to_owned(),
        Some('t') => "\t".to_owned(),
        Some('r') => "\r".to_owned(),
        Some('s') => " ".to_owned(),
        Some(c @ ('\\' | '"' | '\'' | ';' | ' ')) => c.to_string(),
        Some('x') => {
            let digits: String = letters.by_ref().take(2).collect();
            let code = u8::from_str_radix(&digits, 16).ok().filter(u8::is_ascii);
            code.map(|code| char::from(code).to_string())
                .ok_or_else(|| format!("\\x{digits} is no character"))?
        }
        Some(other) => return Err(format!("\\{other} has no equivalent: write the character itself")),
        None => return Err("a line ends with a backslash".to_owned()),
    })
}

/// A word with its specifiers replaced that depend only on the unit's name.
pub(super) fn specified(word: &str, unit: &str) -> Result<String, String> {
    let stem = unit.rsplit_once('.').map_or(unit, |(stem, _)| stem);
    let (prefix, instance) = stem.split_once('@').unwrap_or((stem, ""));
    let mut made = String::new();
    let mut letters = word.chars();
    while let Some(c) = letters.next() {
        if c != '%' {
            made.push(c);
            continue;
        }
        match letters.next() {
            Some('%') => made.push('%'),
            Some('n') => made += unit,
            Some('N') => made += stem,
            Some('p' | 'P') => made += prefix,
            Some('i' | 'I') => made += instance,
            Some(other) => {
                return Err(format!("%{other} stands for something of one host: write the value itself"));
            }
            None => made.push('%'),
        }
    }
    Ok(made)
}

/// `A=1 "B=x y"` as variables.
///
/// # Errors
/// A word is no assignment, or a quote is not closed.
pub(super) fn assignments(line: &str, unit: &str) -> Result<Vec<(String, String)>, String> {
    let words = split(line)?.into_iter().flatten();
    let words = words.map(|word| specified(&word, unit)).collect::<Result<Vec<_>, _>>()?;
    let pair = |word: String| match word.split_once('=') {
        Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
        None => Err(format!("{word:?} is no assignment")),
    };
    words.into_iter().map(pair).collect()
}
