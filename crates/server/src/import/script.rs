//! Words of a command: how a shell writes them, and how command lines of others are split into them.

/// Some words as a shell reads them.
pub(super) fn quoted<W: AsRef<str>>(words: &[W]) -> String {
    words.iter().map(|word| quote(word.as_ref())).collect::<Vec<_>>().join(" ")
}

/// One word as a shell reads it.
pub(super) fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_./:=@%+,-".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Splits a command line at its blanks, outside of single and double quotes, which are taken off.
///
/// # Errors
/// A quote is not closed.
pub(super) fn words(line: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut open = None;
    for c in line.chars() {
        match (c, open) {
            (c, Some(quote)) if c == quote => open = None,
            ('"' | '\'', None) => {
                open = Some(c);
                word.get_or_insert_default();
            }
            (c, None) if c.is_whitespace() => words.extend(word.take()),
            (c, _) => word.get_or_insert_default().push(c),
        }
    }
    if let Some(quote) = open {
        return Err(format!("a {quote} is not closed in {line:?}"));
    }
    words.extend(word);
    Ok(words)
}
