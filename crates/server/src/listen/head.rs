//! Checks the head of a request on the wire for ambiguities that the HTTP library accepts and a proxy may misread.

/// What is wrong with a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeadError {
    /// A line ends by a line feed alone.
    BareLineFeed,
    /// The length of the body is given more than once, or in two ways.
    Lengths,
}

impl HeadError {
    /// The advice to the caller.
    pub(crate) fn fix(self) -> &'static str {
        match self {
            Self::BareLineFeed => "each line of a request's head ends with CR LF: send it so",
            Self::Lengths => {
                "the length of a body is said once: send one Content-Length, or Transfer-Encoding without it"
            }
        }
    }
}

/// Longer lines are not checked; the HTTP library refuses them.
const LINE_MAX: usize = 16 * 1024;

/// Follows the requests of one connection, from head to head.
#[derive(Debug, Default)]
pub(super) struct HeadParser {
    position: HeadPosition,
    line: Vec<u8>,
    length: Option<u64>,
    encoded: bool,
    fault: Option<HeadError>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum HeadPosition {
    /// Before a head.
    #[default]
    Before,
    /// In a head, after its first line.
    Within,
    /// In a body, with this many bytes to come.
    Body(u64),
    /// Behind the last head that is checked.
    Rest,
}

impl HeadParser {
    /// Processes further bytes.
    pub(super) fn see(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            bytes = match self.position {
                HeadPosition::Rest => return,
                HeadPosition::Body(left) => {
                    let n = bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                    let left = left - n as u64;
                    self.position = if left == 0 { HeadPosition::Before } else { HeadPosition::Body(left) };
                    bytes.get(n..).unwrap_or_default()
                }
                HeadPosition::Before | HeadPosition::Within => self.line_of(bytes),
            };
        }
    }

    /// The fault of a head, if there is one.
    pub(super) fn fault(&self) -> Option<HeadError> {
        self.fault
    }

    /// Whether no further request is accepted on this connection.
    pub(super) fn is_last(&self) -> bool {
        self.position == HeadPosition::Rest
    }

    /// Whether every request that began has arrived completely.
    pub(super) fn is_between(&self) -> bool {
        self.position == HeadPosition::Before && self.line.is_empty()
    }

    /// Reads the first line, or a part of it; returns the bytes after it.
    fn line_of<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let (part, rest) = bytes.split_at(end.map_or(bytes.len(), |end| end + 1));
        self.line.extend_from_slice(part);
        if self.line.len() > LINE_MAX {
            self.position = HeadPosition::Rest;
        } else if end.is_some() {
            let line = std::mem::take(&mut self.line);
            match line.strip_suffix(b"\r\n") {
                Some(line) => self.take(line),
                None => self.refuse(HeadError::BareLineFeed),
            }
        }
        rest
    }

    fn take(&mut self, line: &[u8]) {
        match (self.position, line.is_empty()) {
            (HeadPosition::Before, true) => {}
            (HeadPosition::Before, false) => {
                (self.position, self.length, self.encoded) = (HeadPosition::Within, None, false)
            }
            (_, false) => self.header(line),
            // A chunked body is not followed: no request is accepted after it.
            (_, true) if self.encoded => self.position = HeadPosition::Rest,
            (_, true) => {
                let left = self.length.unwrap_or(0);
                self.position = if left == 0 { HeadPosition::Before } else { HeadPosition::Body(left) };
            }
        }
    }

    fn header(&mut self, line: &[u8]) {
        let text = String::from_utf8_lossy(line);
        let Some((name, value)) = text.split_once(':') else { return };
        if name.eq_ignore_ascii_case("transfer-encoding") {
            if self.length.is_some() || self.encoded {
                self.refuse(HeadError::Lengths);
            }
            self.encoded = true;
        } else if name.eq_ignore_ascii_case("content-length") {
            if self.length.is_some() || self.encoded {
                self.refuse(HeadError::Lengths);
            }
            // The HTTP library refuses a length that is no number.
            self.length = Some(value.trim().parse().unwrap_or(0));
        }
    }

    fn refuse(&mut self, fault: HeadError) {
        self.fault = self.fault.or(Some(fault));
        self.position = HeadPosition::Rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(text: &str, piece: usize) -> HeadParser {
        let mut heads = HeadParser::default();
        text.as_bytes().chunks(piece).for_each(|piece| heads.see(piece));
        heads
    }

    #[test]
    fn requests_are_followed_one_after_the_other() {
        let get = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
        let post = "POST /a HTTP/1.1\r\nHost: h\r\ncontent-LENGTH: 12\r\n\r\na\nb\n\n\r\nGET \n";
        for piece in [1, 2, 7, 1_000] {
            let heads = seen(&format!("{get}{post}\r\n{post}{get}"), piece);
            assert_eq!((heads.fault(), heads.is_between(), heads.is_last()), (None, true, false));
            assert!(!seen(&post[..post.len() - 1], piece).is_between(), "one byte is missing");
            assert!(!seen("GET / HTTP/1.1\r\n", piece).is_between());
            let heads = seen(&format!("{get}{post}GET / HTTP/1.1\nHost: h\r\n\r\n"), piece);
            assert_eq!((heads.fault(), heads.is_last()), (Some(HeadError::BareLineFeed), true));
        }
    }

    #[test]
    fn what_two_readers_could_read_in_two_ways_is_a_fault() {
        for (head, fault) in [
            ("GET / HTTP/1.1\nHost: h\r\n\r\n", HeadError::BareLineFeed),
            ("GET / HTTP/1.1\r\nHost: h\n\r\n", HeadError::BareLineFeed),
            ("GET / HTTP/1.1\r\nHost: h\r\n\n", HeadError::BareLineFeed),
            ("\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", HeadError::BareLineFeed),
            ("POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n", HeadError::Lengths),
            (
                "POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
                HeadError::Lengths,
            ),
            (
                "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n",
                HeadError::Lengths,
            ),
        ] {
            assert_eq!(seen(head, 1_000).fault(), Some(fault), "{head:?}");
        }
        let chunked = seen("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n", 9);
        assert_eq!((chunked.fault(), chunked.is_last()), (None, true));
    }
}
