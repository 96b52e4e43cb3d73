//! Texts, cut to the length that a service takes.

use evenkeel_core::ids::is_unseen;

/// The most characters of a refusing answer that are shown.
const SAID_MAX: usize = 300;
/// What stands at the end of a text that was cut.
const CUT: char = '…';

/// Counts characters.
pub(super) fn characters(_: char) -> usize {
    1
}

/// Counts bytes of UTF-8.
pub(super) fn bytes(c: char) -> usize {
    c.len_utf8()
}

/// Counts bytes of the text as JSON.
pub(super) fn json_bytes(c: char) -> usize {
    match c {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\0'..'\u{20}' => 6,
        _ => c.len_utf8(),
    }
}

/// The text if it costs at most this much, or as many of its first characters as fit with a mark that it was cut.
pub(super) fn cut(text: &str, max: usize, cost: impl Fn(char) -> usize) -> String {
    if text.chars().map(&cost).sum::<usize>() <= max {
        return text.to_owned();
    }
    let mut left = max.saturating_sub(cost(CUT));
    let fits = |c: &char| match left.checked_sub(cost(*c)) {
        Some(less) => {
            left = less;
            true
        }
        None => false,
    };
    let mut kept: String = text.chars().take_while(fits).collect();
    kept.push(CUT);
    kept
}

/// The text in one line, without what cannot be seen, cut to so many characters.
pub(super) fn one_line(text: &str, max: usize) -> String {
    let line: String = text.chars().map(|c| if is_unseen(c) { ' ' } else { c }).collect();
    cut(line.trim(), max, characters)
}

/// What a service said, as an error shows it.
pub(super) fn said(answer: &str) -> String {
    one_line(answer, SAID_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_characters_by_what_they_cost() {
        for (text, max, cost, kept) in [
            ("abc", 3, characters as fn(char) -> usize, "abc"),
            ("abcd", 3, characters, "ab…"),
            ("日本語文", 3, characters, "日本…"),
            ("日本語", 9, bytes, "日本語"),
            ("日本語", 8, bytes, "日…"),
            ("a\"b\"c", 7, json_bytes, "a\"b\"c"),
            ("a\"b\"c", 6, json_bytes, "a\"…"),
            ("a\u{1}b", 7, json_bytes, "a…"),
        ] {
            assert_eq!(cut(text, max, cost), kept, "{text} {max}");
        }
    }

    #[test]
    fn the_cost_of_a_character_is_what_json_needs_for_it() {
        let all = ('\0'..'\u{300}').chain(['\u{2028}', '日', '🚢']);
        for c in all {
            let written = serde_json::Value::from(c.to_string()).to_string();
            assert_eq!(json_bytes(c), written.len() - 2, "{c:?}");
        }
    }

    #[test]
    fn a_line_has_no_breaks() {
        assert_eq!(one_line(" a\nb\u{7}c \n", 9), "a b c");
    }
}
