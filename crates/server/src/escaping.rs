//! Makes foreign text safe for a terminal: characters that move the cursor, change colours or hide text are escaped.

use std::fmt::Write;

use evenkeel_core::ids::is_unseen;

/// The longest incomplete character at the end of a piece.
const PART_MAX: usize = 3;

/// Makes a text safe; line ends and tabs stay.
#[must_use]
pub(crate) fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    write(text, &mut out);
    out
}

/// Makes a stream of bytes safe, piece by piece, wherever the pieces are split.
#[derive(Debug, Default)]
pub(crate) struct ControlEscaper {
    /// The beginning of a character or a line end, whose rest comes with the next piece.
    part: Vec<u8>,
}

impl ControlEscaper {
    /// The text that can be shown after this piece.
    pub(crate) fn take(&mut self, piece: &[u8]) -> String {
        self.part.extend_from_slice(piece);
        let bytes = std::mem::take(&mut self.part);
        let (whole, rest) = bytes.split_at(bytes.len() - unfinished(&bytes));
        self.part = rest.to_vec();
        shown(whole)
    }

    /// The rest, when nothing more comes.
    pub(crate) fn end(&mut self) -> String {
        shown(&std::mem::take(&mut self.part))
    }
}

/// The number of bytes at the end that may become a character, or a line end, with the next piece.
fn unfinished(bytes: &[u8]) -> usize {
    if bytes.ends_with(b"\r") {
        return 1;
    }
    let tails = 1..=PART_MAX.min(bytes.len());
    let begun = |n: &usize| {
        let tail = bytes.get(bytes.len() - n..).unwrap_or_default();
        std::str::from_utf8(tail).is_err_and(|e| e.valid_up_to() == 0 && e.error_len().is_none())
    };
    tails.rev().find(begun).unwrap_or(0)
}

fn shown(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        write(chunk.valid(), &mut out);
        for byte in chunk.invalid() {
            escape(u32::from(*byte), &mut out);
        }
    }
    out
}

fn write(text: &str, out: &mut String) {
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\n' | '\t' => out.push(c),
            '\r' if rest.peek() == Some(&'\n') => out.push(c),
            c if is_unseen(c) => escape(u32::from(c), out),
            c => out.push(c),
        }
    }
}

fn escape(code: u32, out: &mut String) {
    // Writing to a text cannot fail.
    let _ = if code < 0x100 { write!(out, "\\x{code:02x}") } else { write!(out, "\\u{{{code:x}}}") };
}

/// JSON without any character that a terminal obeys or hides; its meaning is the same. Outside of strings it has none.
#[must_use]
pub(crate) fn json(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut units = [0; 2];
    for c in text.chars() {
        if c == '\n' || !is_unseen(c) {
            out.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut units) {
            let _ = write!(out, "\\u{unit:04x}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &[u8] = "a\u{1b}]0;t\u{7}\u{9b}2Jé\tx\r\ny\rz\u{202e}\u{7f}漢🙂\0".as_bytes();
    const SHOWN: &str = "a\\x1b]0;t\\x07\\x9b2Jé\tx\r\ny\\x0dz\\u{202e}\\x7f漢🙂\\x00";

    #[test]
    fn nothing_that_a_terminal_obeys_is_left_wherever_pieces_are_cut() {
        assert_eq!(visible(std::str::from_utf8(HOSTILE).expect("text")), SHOWN);
        for cut in 0..=HOSTILE.len() {
            for next in cut..=HOSTILE.len() {
                let mut stream = ControlEscaper::default();
                let (a, b) = (stream.take(&HOSTILE[..cut]), stream.take(&HOSTILE[cut..next]));
                let whole = a + &b + &stream.take(&HOSTILE[next..]) + &stream.end();
                assert_eq!(whole, SHOWN, "cut at {cut} and {next}");
            }
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_written_out_and_not_kept_back() {
        let mut stream = ControlEscaper::default();
        assert_eq!(stream.take(b"a\xff\x9bb"), "a\\xff\\x9bb");
        assert_eq!(stream.take(b"\xf0\x9f"), "", "more of it may come");
        assert_eq!(stream.take(b"x"), "\\xf0\\x9fx");
        assert_eq!(stream.take(b"y\r"), "y");
        assert_eq!(stream.end(), "\\x0d");
    }

    #[test]
    fn json_means_the_same_and_shows_everything() {
        let value = serde_json::json!({ "a\u{9b}": "b\u{202e}\u{e0001}\u{7f}é\n" });
        let text = json(&serde_json::to_string_pretty(&value).expect("plain data"));
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).expect("it is JSON"), value);
        assert!(!text.chars().any(|c| c != '\n' && is_unseen(c)), "{text:?}");
    }
}
