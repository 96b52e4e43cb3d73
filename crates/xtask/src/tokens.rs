//! The tokens of blanked Rust code: names, the sign `::`, and every other sign by itself.

/// One token, with its place in the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeToken<'a> {
    /// A name, `::`, `->`, or one other character.
    pub text: &'a str,
    /// The line that it stands on, counted from 0.
    pub line: usize,
}

impl CodeToken<'_> {
    /// Whether it is a name or a keyword.
    #[must_use]
    pub fn is_name(&self) -> bool {
        self.text.starts_with(|c: char| c.is_alphabetic() || c == '_')
    }
}

/// The tokens of `code`, in which comments and literals are blank. Lifetimes and numbers are left out.
#[must_use]
pub fn tokens(code: &str) -> Vec<CodeToken<'_>> {
    let mut found = Vec::new();
    let (mut at, mut line) = (0, 0);
    while let Some(first) = code[at..].chars().next() {
        let rest = &code[at..];
        let len = match first {
            '\'' => 1 + name_length(&rest[1..]),
            ':' if rest.starts_with("::") => 2,
            '-' if rest.starts_with("->") => 2,
            first if first.is_alphanumeric() || first == '_' => name_length(rest),
            first => first.len_utf8(),
        };
        if first == '\n' {
            line += 1;
        } else if !first.is_whitespace() && first != '\'' && !first.is_ascii_digit() {
            found.push(CodeToken { text: &rest[..len], line });
        }
        at += len;
    }
    found
}

fn name_length(text: &str) -> usize {
    text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len())
}

/// The place behind the bracket that closes the one at `open`; the end of the tokens where none does.
#[must_use]
pub fn behind_bracket(tokens: &[CodeToken<'_>], open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token.text {
            "(" | "[" | "{" | "<" => depth += 1,
            ")" | "]" | "}" | ">" => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at + 1;
                }
            }
            _ => {}
        }
    }
    tokens.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_signs_are_tokens_and_lifetimes_and_numbers_are_not() {
        let found: Vec<_> = tokens("a::b(&'x mut c,\n 12u8) -> D").iter().map(|t| (t.text, t.line)).collect();
        let first = ["a", "::", "b", "(", "&", "mut", "c", ","].map(|text| (text, 0));
        let second = [")", "->", "D"].map(|text| (text, 1));
        assert_eq!(found, [&first[..], &second[..]].concat());
    }

    #[test]
    fn a_bracket_ends_where_its_own_closes() {
        let found = tokens("(a: Vec<(b, c)>) d");
        assert_eq!(found[behind_bracket(&found, 0)].text, "d");
        assert_eq!(behind_bracket(&tokens("(a"), 0), 2);
    }
}
