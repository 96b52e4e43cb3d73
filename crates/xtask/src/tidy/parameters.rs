//! Parameters that a reader understands at the call: no tuple of three or more, and in core no bare `bool`.
//!
//! `step(.., (a, b, c))` and `step(.., true)` say nothing of what each part is. A named struct or an enum with two names does.

mod exceptions;

use super::violation::TidyViolation;
use crate::tokens::{CodeToken, behind_bracket, tokens};
use crate::tree::SourceTree;
use exceptions::{BOOLS, TUPLES};
use std::collections::BTreeSet;

/// The number of parts from which on a tuple has to be a struct.
const PARTS: usize = 3;

/// A function that one of the lists names: its file and its name.
type NamedFunction = (&'static str, &'static str);

/// Complains about tuples of three or more parts as parameters.
pub(super) fn tuples(tree: &SourceTree) -> Vec<TidyViolation> {
    check(tree, &["crates/"], TUPLES, |function| {
        function.parameters.iter().any(|parameter| is_tuple(parameter)).then(|| {
            let name = function.name;
            format!("`{name}` takes a tuple of {PARTS} or more: give its parts names, in a struct or as parameters")
        })
    })
}

/// Complains about a `bool` that a public function of core takes.
pub(super) fn bools(tree: &SourceTree) -> Vec<TidyViolation> {
    check(tree, &["crates/core/src/"], BOOLS, |function| {
        let bare = |parameter: &&[CodeToken<'_>]| parameter.len() == 1 && parameter[0].text == "bool";
        (function.public && function.parameters.iter().any(bare)).then(|| {
            let name = function.name;
            format!("`{name}` takes a bare bool: take an enum whose two names can be read at the call")
        })
    })
}

fn check(
    tree: &SourceTree,
    folders: &[&str],
    excepted: &[NamedFunction],
    refusal: impl Fn(&Signature<'_>) -> Option<String>,
) -> Vec<TidyViolation> {
    let mut said = Vec::new();
    let mut needed = BTreeSet::new();
    let sources = tree.rust_in(folders).filter(|(path, _)| path.contains("/src/"));
    for (path, rust) in sources.filter(|(path, _)| tree.is_reached(path)) {
        let found = tokens(&rust.code);
        for function in signatures(&found).filter(|function| !tree.in_test(path, function.line)) {
            let Some(message) = refusal(&function) else { continue };
            match excepted.iter().find(|(file, name)| *file == path && *name == function.name) {
                Some(exception) => drop(needed.insert(*exception)),
                None => said.push(TidyViolation::at(path, function.line, message)),
            }
        }
    }
    let over = excepted.iter().filter(|exception| !needed.contains(*exception));
    said.extend(over.map(|(path, name)| {
        let list = "crates/xtask/src/tidy/parameters/exceptions.rs";
        TidyViolation::about(
            path,
            format!("`{name}` needs no exception any more: take it off the list in {list}"),
        )
    }));
    said
}

/// What is declared of a function.
struct Signature<'a> {
    name: &'a str,
    line: usize,
    public: bool,
    /// The types of its parameters; that of `self` is left out.
    parameters: Vec<&'a [CodeToken<'a>]>,
}

fn signatures<'a>(found: &'a [CodeToken<'a>]) -> impl Iterator<Item = Signature<'a>> {
    let named = found.windows(2).enumerate().filter(|(_, pair)| pair[0].text == "fn" && pair[1].is_name());
    named.filter_map(|(at, pair)| {
        let mut open = at + 2;
        if found.get(open)?.text == "<" {
            open = behind_bracket(found, open);
        }
        let end = behind_bracket(found, open).checked_sub(1)?;
        let inside = found.get(open + 1..end)?;
        let types = split(inside).into_iter().filter_map(|parameter| {
            let colon = top_level(parameter).find(|(_, token)| token.text == ":")?.0;
            Some(&parameter[colon + 1..])
        });
        Some(Signature {
            name: pair[1].text,
            line: pair[0].line,
            public: is_public(&found[..at]),
            parameters: types.collect(),
        })
    })
}

/// Whether these tokens, which stand before `fn`, end with `pub` and what may stand between.
fn is_public(before: &[CodeToken<'_>]) -> bool {
    let words =
        before.iter().rev().skip_while(|token| matches!(token.text, "const" | "async" | "unsafe" | "extern"));
    words.take(1).any(|token| token.text == "pub")
}

/// Whether this type is, or has within it, a tuple that is too long. What a function or a closure takes and returns is none.
fn is_tuple(parameter: &[CodeToken<'_>]) -> bool {
    parameter.iter().enumerate().any(|(at, token)| {
        let called = at > 0 && matches!(parameter[at - 1].text, "Fn" | "FnMut" | "FnOnce" | "fn" | "->");
        let inside = || &parameter[at + 1..behind_bracket(parameter, at).saturating_sub(1).max(at + 1)];
        token.text == "(" && !called && split(inside()).len() >= PARTS
    })
}

/// The parts between commas, none of which is within brackets.
fn split<'a, 'b>(inside: &'a [CodeToken<'b>]) -> Vec<&'a [CodeToken<'b>]> {
    let mut parts = Vec::new();
    let mut from = 0;
    for (at, token) in top_level(inside) {
        if token.text == "," {
            parts.push(&inside[from..at]);
            from = at + 1;
        }
    }
    parts.push(&inside[from..]);
    parts.into_iter().filter(|part| !part.is_empty()).collect()
}

/// The tokens that are within no brackets.
fn top_level<'a, 'b>(inside: &'a [CodeToken<'b>]) -> impl Iterator<Item = (usize, &'a CodeToken<'b>)> {
    let mut depth = 0_usize;
    inside.iter().enumerate().filter(move |(_, token)| {
        match token.text {
            "(" | "[" | "{" | "<" => depth += 1,
            ")" | "]" | "}" | ">" => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(code: &str) -> Vec<(String, bool, bool)> {
        let found = tokens(code);
        let of = |function: Signature<'_>| {
            let tuple = function.parameters.iter().any(|parameter| is_tuple(parameter));
            (function.name.to_owned(), function.public, tuple)
        };
        signatures(&found).map(of).collect()
    }

    #[test]
    fn a_tuple_of_three_is_found_wherever_it_stands_in_a_parameter() {
        for parameter in [
            "(a, b, c): (A, B, C)",
            "&self, a: &(A, B, C)",
            "a: Vec<(A, Option<B>, C)>",
            "a: impl Fn((A, B, C))",
        ] {
            assert_eq!(
                told(&format!("fn f({parameter}) {{}}")),
                [("f".to_owned(), false, true)],
                "{parameter}"
            );
        }
        for parameter in [
            "(a, b): (A, B)",
            "a: impl Fn(A, B, C) -> (A, B, C)",
            "a: fn(A, B, C)",
            "a: BTreeMap<(A, B), (C, D)>",
            "",
        ] {
            assert_eq!(
                told(&format!("pub fn f<T>({parameter}) {{}}")),
                [("f".to_owned(), true, false)],
                "{parameter}"
            );
        }
    }

    #[test]
    fn only_what_is_public_to_all_is_public() {
        let said =
            told("pub fn a() {} pub(crate) fn b() {} pub const fn c() {} fn d() {} pub async fn e() {}");
        let public: Vec<_> =
            said.iter().filter(|(_, public, _)| *public).map(|(name, ..)| name.as_str()).collect();
        assert_eq!(public, ["a", "c", "e"]);
    }
}
