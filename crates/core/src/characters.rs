//! Characters that people do not see, or take for others: which they are, and what to write instead.

use alloc::format;
use alloc::string::String;

/// Whether a character is invisible and may change how its neighbours are read: one that controls a terminal, turns the
/// direction of a text, joins, hides or breaks lines. Untrusted text is shown without them.
#[must_use]
pub fn is_unseen(c: char) -> bool {
    c.is_control() || FORMATS.iter().any(|(first, last)| (*first..=*last).contains(&c))
}

/// Whether a character is invisible or looks like a plain space, and is none. A tab and the ends of lines are not.
#[must_use]
pub fn is_hidden(c: char) -> bool {
    (is_unseen(c) && !matches!(c, '\t' | '\n')) || (c.is_whitespace() && !c.is_ascii())
}

/// The first character of a text that is invisible or looks like a plain space, and is none.
#[must_use]
pub fn hidden(text: &str) -> Option<char> {
    text.chars().find(|c| is_hidden(*c))
}

/// The first character of a text in which only plain ASCII has a meaning that has none.
pub(crate) fn foreign(text: &str) -> Option<char> {
    text.chars().find(|c| !c.is_ascii() || is_hidden(*c))
}

/// The name of such a character with its number, such as `a no-break space (U+00A0)`.
#[must_use]
pub fn describe(c: char) -> String {
    let name = NAMES.iter().find(|(first, last, _)| (*first..=*last).contains(&c)).map(|(_, _, name)| *name);
    let number = u32::from(c);
    match name {
        Some(name) => format!("{name} (U+{number:04X})"),
        None if c.is_whitespace() => format!("a space that is no plain one (U+{number:04X})"),
        None if is_unseen(c) => format!("an invisible character (U+{number:04X})"),
        None => format!("the character `{c}` (U+{number:04X})"),
    }
}

/// What to write instead of such a character, as the end of a message.
#[must_use]
pub fn instead(c: char) -> String {
    match c {
        '\r' => "end the line with a line feed alone".into(),
        '\u{2010}'..='\u{2015}' | '\u{2212}' => "write `-`".into(),
        '\u{2018}'..='\u{201b}' => "write `'`".into(),
        '\u{201c}'..='\u{201f}' => "write `\"`".into(),
        '\u{2217}' | '\u{2731}' => "write `*`".into(),
        '\u{ff01}'..='\u{ff5e}' => match char::from_u32(u32::from(c) - 0xfee0) {
            Some(plain) => format!("write `{plain}`"),
            None => "write a plain one".into(),
        },
        c if c.is_whitespace() => "write a plain space".into(),
        c if is_unseen(c) => "remove it".into(),
        _ => "only plain ASCII has a meaning here".into(),
    }
}

/// Where such a character is, and what to write instead, as a message.
pub(crate) fn found_in(place: &str, odd: char) -> String {
    format!("{place} holds {}: {}", describe(odd), instead(odd))
}

/// Refuses a name, as one of a program or a variable, with a hidden character: it is no part of a real one.
///
/// # Errors
/// It has such a character: the text names it and the fix.
pub(crate) fn refuse_hidden(place: &str, name: &str) -> Result<(), String> {
    hidden(name).map_or(Ok(()), |odd| Err(found_in(place, odd)))
}

/// The names of characters that get into files from editors, web pages and chats.
const NAMES: &[(char, char, &str)] = &[
    ('\0', '\0', "a NUL"),
    ('\t', '\t', "a tab"),
    ('\r', '\r', "a carriage return"),
    ('\u{1b}', '\u{1b}', "an escape"),
    ('\u{85}', '\u{85}', "a next-line character"),
    ('\u{a0}', '\u{a0}', "a no-break space"),
    ('\u{ad}', '\u{ad}', "a soft hyphen"),
    ('\u{61c}', '\u{61c}', "a mark of the direction of text"),
    ('\u{200b}', '\u{200b}', "a zero-width space"),
    ('\u{200c}', '\u{200c}', "a zero-width non-joiner"),
    ('\u{200d}', '\u{200d}', "a zero-width joiner"),
    ('\u{200e}', '\u{200f}', "a mark of the direction of text"),
    ('\u{2010}', '\u{2015}', "a dash that is no hyphen"),
    ('\u{2018}', '\u{201f}', "a typographic quotation mark"),
    ('\u{2028}', '\u{2028}', "a line separator"),
    ('\u{2029}', '\u{2029}', "a paragraph separator"),
    ('\u{202a}', '\u{202e}', "a mark of the direction of text"),
    ('\u{202f}', '\u{202f}', "a narrow no-break space"),
    ('\u{2060}', '\u{2060}', "a word joiner"),
    ('\u{2066}', '\u{2069}', "a mark of the direction of text"),
    ('\u{2212}', '\u{2212}', "a minus sign that is no hyphen"),
    ('\u{2217}', '\u{2217}', "an asterisk that is no plain one"),
    ('\u{2731}', '\u{2731}', "an asterisk that is no plain one"),
    ('\u{3000}', '\u{3000}', "an ideographic space"),
    ('\u{feff}', '\u{feff}', "a byte order mark"),
    ('\u{ff01}', '\u{ff5e}', "a full-width character"),
];

/// Unicode's format characters, category Cf, and its two separators of lines.
const FORMATS: &[(char, char)] = &[
    ('\u{ad}', '\u{ad}'),
    ('\u{600}', '\u{605}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{6dd}', '\u{6dd}'),
    ('\u{70f}', '\u{70f}'),
    ('\u{890}', '\u{891}'),
    ('\u{8e2}', '\u{8e2}'),
    ('\u{180e}', '\u{180e}'),
    ('\u{200b}', '\u{200f}'),
    ('\u{2028}', '\u{202e}'),
    ('\u{2060}', '\u{206f}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{fff9}', '\u{fffb}'),
    ('\u{110bd}', '\u{110bd}'),
    ('\u{110cd}', '\u{110cd}'),
    ('\u{13430}', '\u{1343f}'),
    ('\u{1bca0}', '\u{1bca3}'),
    ('\u{1d173}', '\u{1d17a}'),
    ('\u{e0001}', '\u{e007f}'),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_seen_is_known() {
        // Both ends of each span, and what turns the direction of a text.
        let ends = FORMATS.iter().flat_map(|(first, last)| [*first, *last]);
        assert!(
            ends.chain(['\0', '\u{1b}', '\u{7f}', '\u{85}', '\u{200d}', '\u{202e}', '\u{2066}'])
                .all(is_unseen)
        );
        assert!(!"aZ é漢字 –€🙂\u{301}\u{2027}\u{202f}\u{2070}\u{fffd}".chars().any(is_unseen));
        assert!(FORMATS.windows(2).all(|two| two[0].1 < two[1].0), "in order");
    }

    #[test]
    fn what_is_hidden_is_named() {
        for (c, says) in [
            ('\u{a0}', "a no-break space (U+00A0)"),
            ('\u{200b}', "a zero-width space (U+200B)"),
            ('\u{2028}', "a line separator (U+2028)"),
            ('\u{202e}', "a mark of the direction of text (U+202E)"),
            ('\u{feff}', "a byte order mark (U+FEFF)"),
            ('\u{2003}', "a space that is no plain one (U+2003)"),
            ('\u{1d173}', "an invisible character (U+1D173)"),
            ('\u{2013}', "a dash that is no hyphen (U+2013)"),
            ('\u{e9}', "the character `\u{e9}` (U+00E9)"),
        ] {
            assert_eq!(describe(c), says);
        }
        assert_eq!(hidden("a b\tc\n-\u{e9}"), None);
        assert_eq!(hidden("a\rb"), Some('\r'));
        assert_eq!(foreign("a\u{e9}"), Some('\u{e9}'));
        assert_eq!(instead('\u{2013}'), "write `-`");
        assert_eq!(instead('\u{ff0a}'), "write `*`");
    }
}
