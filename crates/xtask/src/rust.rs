//! Rust read as text: what on a line is code, what is a literal, what is a comment, where functions and tests begin and end.
//!
//! A scanner and not a parser, because the walls must also see inside macros, where a parser sees only tokens.

use std::ops::Range;

/// One Rust file, taken apart. Lines count from 0 here; complaints count from 1.
pub struct RustSource {
    /// The file with every comment and the inside of every literal blanked: same length, same lines.
    pub code: String,
    /// String literals in the order they stand in.
    pub literals: Vec<StringLiteral>,
    /// Which lines hold code or a literal: neither blank nor only a comment.
    pub solid: Vec<bool>,
    /// Lines of `#[cfg(test)]` things.
    pub tests: Vec<Range<usize>>,
    /// Functions with a body, outer before inner.
    pub functions: Vec<RustFunction>,
}

/// A string literal.
pub struct StringLiteral {
    /// The line it begins on.
    pub line: usize,
    /// Where its opening quote stands in the file.
    pub at: usize,
    /// Its inside as written, escapes included.
    pub value: String,
}

/// A function with a body.
pub struct RustFunction {
    /// Its name.
    pub name: String,
    /// From the line of `fn` to the line of its last brace, the latter included.
    pub lines: Range<usize>,
}

impl RustSource {
    /// Takes `text` apart. Never fails: what is not Rust comes out as something harmless.
    #[must_use]
    pub fn read(text: &str) -> Self {
        let (code, literals) = blank(text);
        let mut solid: Vec<bool> = code.split('\n').map(|line| !line.trim().is_empty()).collect();
        for literal in &literals {
            let lines = literal.value.matches('\n').count();
            solid[literal.line..=literal.line + lines].fill(true);
        }
        let lines = LineIndex::of(&code);
        let tests = test_ranges(&code, &lines);
        let functions = functions(&code, &lines);
        Self { code, literals, solid, tests, functions }
    }

    /// Whether this line belongs to a `#[cfg(test)]` thing.
    #[must_use]
    pub fn in_test(&self, line: usize) -> bool {
        self.tests.iter().any(|range| range.contains(&line))
    }

    /// How many of these lines are source lines: not blank, not only a comment.
    #[must_use]
    pub fn source_lines(&self, lines: Range<usize>) -> usize {
        self.solid.get(lines).unwrap_or_default().iter().filter(|solid| **solid).count()
    }

    /// The lines whose code mentions `word` as a whole word, which may be a path such as `Instant::now`.
    pub fn mentions<'a>(&'a self, word: &'a str) -> impl Iterator<Item = usize> + 'a {
        self.code
            .split('\n')
            .enumerate()
            .filter(move |(_, line)| words(line, word).next().is_some())
            .map(|(number, _)| number)
    }
}

/// Where `word` stands in `text` with nothing of a name on either side.
pub fn words<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    text.match_indices(word)
        .map(|(at, _)| at)
        .filter(move |&at| !text[..at].ends_with(is_name) && !text[at + word.len()..].starts_with(is_name))
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

struct LineIndex(Vec<usize>);

impl LineIndex {
    fn of(text: &str) -> Self {
        Self(text.match_indices('\n').map(|(at, _)| at).collect())
    }

    fn line(&self, at: usize) -> usize {
        self.0.partition_point(|&end| end < at)
    }
}

/// What the scanner found at a place: how long it is, and, of a string literal, where its inside begins and ends.
enum RustToken {
    Code(usize),
    Comment(usize),
    Text { len: usize, inside: Range<usize> },
    Char(usize),
}

fn blank(text: &str) -> (String, Vec<StringLiteral>) {
    let mut code = String::with_capacity(text.len());
    let mut literals = Vec::new();
    let (mut at, mut line) = (0, 0);
    while at < text.len() {
        let rest = &text[at..];
        let len = match scan(&text[..at], rest) {
            RustToken::Code(len) => {
                code.push_str(&rest[..len]);
                len
            }
            RustToken::Comment(len) | RustToken::Char(len) => {
                push_blank(&mut code, &rest[..len]);
                len
            }
            RustToken::Text { len, inside } => {
                literals.push(StringLiteral { line, at, value: rest[inside].to_owned() });
                push_blank(&mut code, &rest[..len]);
                len
            }
        };
        line += rest[..len].matches('\n').count();
        at += len;
    }
    (code, literals)
}

fn push_blank(code: &mut String, hidden: &str) {
    code.extend(hidden.bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }));
}

fn scan(before: &str, rest: &str) -> RustToken {
    if rest.starts_with("//") {
        return RustToken::Comment(rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return RustToken::Comment(block_comment(rest));
    }
    if rest.starts_with('"') {
        let end = closing_quote(rest);
        return RustToken::Text { len: end + 1, inside: 1..end }.within(rest);
    }
    if rest.starts_with('r') && !before.trim_end_matches(['b', 'c']).ends_with(is_name) {
        let hashes = rest[1..].bytes().take_while(|byte| *byte == b'#').count();
        if rest[1 + hashes..].starts_with('"') {
            let inside = 2 + hashes;
            let close = format!("\"{}", "#".repeat(hashes));
            let end = rest[inside..].find(&close).map_or(rest.len(), |end| inside + end);
            return RustToken::Text { len: end + close.len(), inside: inside..end }.within(rest);
        }
    }
    if let Some(after) = rest.strip_prefix('\'') {
        let mut chars = after.chars();
        return match chars.next() {
            Some('\\') => {
                let end = after
                    .char_indices()
                    .skip(2)
                    .find(|(_, c)| *c == '\'')
                    .map_or(after.len(), |(end, _)| end + 1);
                RustToken::Char(1 + end)
            }
            Some(c) if chars.next() == Some('\'') => RustToken::Char(2 + c.len_utf8()),
            _ => RustToken::Code(1),
        };
    }
    // On to the next byte that may begin something else.
    let plain = rest.bytes().skip(1).position(|byte| matches!(byte, b'/' | b'"' | b'\'' | b'r'));
    RustToken::Code(plain.map_or(rest.len(), |plain| plain + 1))
}

impl RustToken {
    /// Keeps an unfinished literal inside the file.
    fn within(self, rest: &str) -> Self {
        match self {
            Self::Text { len, inside } => {
                let end = inside.end.min(rest.len());
                Self::Text { len: len.min(rest.len()), inside: inside.start.min(end)..end }
            }
            other => other,
        }
    }
}

fn block_comment(rest: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < rest.len() {
        let here = &rest.as_bytes()[at..];
        if here.starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if here.starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

fn closing_quote(rest: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in rest.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at,
            _ => {}
        }
    }
    rest.len()
}

/// The place after the thing that begins at `from`: its closing brace, or its semicolon where it has no braces.
/// Also says where its body begins.
fn end_of_thing(code: &str, from: usize) -> (usize, Option<usize>) {
    let mut depth = 0_usize;
    for (at, byte) in code.bytes().enumerate().skip(from) {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth = depth.saturating_sub(1),
            b';' if depth == 0 => return (at, None),
            b'{' if depth == 0 => return (closing_brace(code, at), Some(at)),
            _ => {}
        }
    }
    (code.len(), None)
}

fn closing_brace(code: &str, open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, byte) in code.bytes().enumerate().skip(open) {
        match byte {
            b'{' => depth += 1,
            b'}' => {
                depth -= 1;
                if depth == 0 {
                    return at;
                }
            }
            _ => {}
        }
    }
    code.len()
}

fn test_ranges(code: &str, lines: &LineIndex) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    for (at, _) in code.match_indices("#[cfg(") {
        let Some(len) = code[at..].find(']') else { continue };
        let condition = &code[at..at + len];
        if words(condition, "test").next().is_none() || condition.contains("not(") {
            continue;
        }
        let (end, _) = end_of_thing(code, at + len + 1);
        ranges.push(lines.line(at)..lines.line(end) + 1);
    }
    ranges
}

fn functions(code: &str, lines: &LineIndex) -> Vec<RustFunction> {
    let mut found = Vec::new();
    for at in words(code, "fn") {
        let after = code[at + 2..].trim_start();
        let name: String = after.chars().take_while(|c| is_name(*c)).collect();
        if name.is_empty() {
            continue; // the type of a function pointer
        }
        if let (end, Some(_)) = end_of_thing(code, at) {
            found.push(RustFunction { name, lines: lines.line(at)..lines.line(end) + 1 });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blanked_and_nothing_else() {
        let text = "let a = \"x // y\"; // \"z\"\nlet b = r#\"{\"#; /* { /* } */ */ let c = '{'; let d: &'a u8 = b'\\'';\n";
        let rust = RustSource::read(text);
        assert_eq!(rust.code.len(), text.len());
        assert!(!rust.code.contains(['{', '"', 'x', 'y', 'z']), "{}", rust.code);
        assert!(rust.code.contains("let d: &'a u8 = b"), "{}", rust.code);
        let literals: Vec<_> = rust.literals.iter().map(|l| (l.line, l.value.as_str())).collect();
        assert_eq!(literals, [(0, "x // y"), (1, "{")]);
    }

    #[test]
    fn functions_end_at_their_own_brace_whatever_the_strings_say() {
        let rust = RustSource::read(
            "fn a() {\n  let s = \"}\";\n  // }\n}\ntrait T { fn b(&self); }\nfn c(x: [u8; 2]) -> fn(u8) {\n}\n",
        );
        let found: Vec<_> = rust.functions.iter().map(|f| (f.name.as_str(), f.lines.clone())).collect();
        assert_eq!(found, [("a", 0..4), ("c", 5..7)]);
        assert_eq!(rust.source_lines(0..4), 3);
    }

    #[test]
    fn tests_are_told_from_the_rest() {
        let rust = RustSource::read(
            "fn a() {}\n#[cfg(test)]\nmod tests {\n  fn b() {}\n}\n#[cfg(not(test))]\nfn c() {}\n#[cfg(test)]\nmod d;\nfn e() {}\n",
        );
        let inside: Vec<_> = (0..10).filter(|line| rust.in_test(*line)).collect();
        assert_eq!(inside, [1, 2, 3, 4, 7, 8]);
    }

    #[test]
    fn a_word_is_a_whole_word() {
        let rust =
            RustSource::read("MyInstant::now();\nInstant::now();\nInstant::nowish();\n// Instant::now()\n");
        assert_eq!(rust.mentions("Instant::now").collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn unfinished_text_does_no_harm() {
        for text in ["\"", "r#\"", "'", "'\\", "/*", "fn a() {", "#[cfg(test)]", "b\"é"] {
            assert_eq!(RustSource::read(text).code.len(), text.len(), "{text}");
        }
    }
}
