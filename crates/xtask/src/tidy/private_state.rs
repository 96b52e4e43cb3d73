//! The state that a node keeps for itself has no public field: each part keeps its own invariants.
//!
//! `Local` lets only core read its parts, and the fields of a part are private to the part's file.

use super::violation::TidyViolation;
use crate::tokens::{CodeToken, behind_bracket, tokens};
use crate::tree::SourceTree;

/// The file of the state, and its name.
const STATE: (&str, &str) = ("crates/core/src/local.rs", "Local");
/// The fields that are values and no parts: they were given to the node, or measured.
const VALUES: &[&str] = &["settings", "host_load"];

/// Complains about a public field of the state, and about a field of a part that more than its file sees.
pub(super) fn check(tree: &SourceTree) -> Vec<TidyViolation> {
    let (path, name) = STATE;
    let Some(rust) = tree.rust(path) else {
        return vec![TidyViolation::about(
            path,
            format!("`{name}` has moved: say in this check where it is"),
        )];
    };
    let found = tokens(&rust.code);
    let Some(state) = fields(&found, name) else {
        return vec![TidyViolation::about(path, format!("`{name}` is no struct with named fields any more"))];
    };
    let mut said = Vec::new();
    for field in &state {
        if field.visibility == Visibility::All {
            let message = format!("`{name}` has the public field `{}`: make it `pub(crate)`", field.name);
            said.push(TidyViolation::at(path, field.line, message));
        }
        if !VALUES.contains(&field.name) {
            said.extend(check_part(tree, field.of));
        }
    }
    said
}

/// Complains about the fields of one part, wherever in core it is declared.
fn check_part(tree: &SourceTree, part: &str) -> Vec<TidyViolation> {
    for (path, rust) in tree.rust_in(&["crates/core/src/"]) {
        let found = tokens(&rust.code);
        let Some(fields) = fields(&found, part) else { continue };
        let seen = fields.iter().filter(|field| field.visibility != Visibility::File);
        return seen
            .map(|field| {
                let name = field.name;
                let message =
                    format!("`{part}` shows its field `{name}`: make it private, and give `{part}` a method");
                TidyViolation::at(path, field.line, message)
            })
            .collect();
    }
    let message =
        format!("`{part}` is a part of the state and no struct of core: give it a struct of its own");
    vec![TidyViolation::about(STATE.0, message)]
}

/// Who sees a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Visibility {
    /// Only its file.
    File,
    /// Some other files.
    Some,
    /// Everybody.
    All,
}

/// A field of a struct: its name, or that of its type where it has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Field<'a> {
    name: &'a str,
    /// The name of its type, without what it is made of.
    of: &'a str,
    line: usize,
    visibility: Visibility,
}

/// The fields of the struct of this name, if it is declared here.
fn fields<'a>(found: &[CodeToken<'a>], name: &str) -> Option<Vec<Field<'a>>> {
    let at = found.windows(2).position(|pair| pair[0].text == "struct" && pair[1].text == name)?;
    let mut open = at + 2;
    if found.get(open)?.text == "<" {
        open = behind_bracket(found, open);
    }
    if !matches!(found.get(open)?.text, "{" | "(") {
        return None;
    }
    let inside = &found[open + 1..behind_bracket(found, open).saturating_sub(1)];
    let mut fields = Vec::new();
    let (mut depth, mut from) = (0_usize, 0);
    for (at, token) in inside.iter().enumerate() {
        match token.text {
            "(" | "[" | "{" | "<" => depth += 1,
            ")" | "]" | "}" | ">" => depth = depth.saturating_sub(1),
            "," if depth == 0 => {
                fields.extend(field(&inside[from..at]));
                from = at + 1;
            }
            _ => {}
        }
    }
    fields.extend(field(&inside[from..]));
    Some(fields)
}

/// The field that these tokens declare.
fn field<'a>(mut declared: &[CodeToken<'a>]) -> Option<Field<'a>> {
    while declared.first()?.text == "#" {
        declared = &declared[behind_bracket(declared, 1)..];
    }
    let visibility = match declared {
        [public, open, ..] if public.text == "pub" && open.text == "(" => Visibility::Some,
        [public, ..] if public.text == "pub" => Visibility::All,
        _ => Visibility::File,
    };
    declared = match visibility {
        Visibility::File => declared,
        Visibility::Some => &declared[behind_bracket(declared, 1)..],
        Visibility::All => &declared[1..],
    };
    let first = declared.first()?;
    let named = declared.get(1).is_some_and(|sign| sign.text == ":");
    let written = if named { &declared[2..] } else { declared };
    // Of `crate::lease::Lease` the last name, and of `Vec<Event>` the first.
    let path = written.iter().take_while(|token| token.is_name() || token.text == "::");
    let of = path.filter(|token| token.is_name()).last()?.text;
    Some(Field { name: first.text, of, line: first.line, visibility })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_field_is_found_with_its_type_and_with_who_sees_it() {
        let code = "struct Other { pub a: A }\n pub struct S<T> {\n a: x::A,\n #[b] pub(in crate::b) b: Vec<(B, T)>,\n pub c: C<D, E>\n }";
        let found = tokens(code);
        let seen = fields(&found, "S").unwrap();
        let seen: Vec<_> = seen.iter().map(|f| (f.name, f.of, f.line, f.visibility)).collect();
        let expected = [
            ("a", "A", 2, Visibility::File),
            ("b", "Vec", 3, Visibility::Some),
            ("c", "C", 4, Visibility::All),
        ];
        assert_eq!(seen, expected);
        let tuple = tokens("pub struct P(pub usize, Vec<A>);");
        let seen: Vec<_> = fields(&tuple, "P").unwrap().iter().map(|f| (f.of, f.visibility)).collect();
        assert_eq!(seen, [("usize", Visibility::All), ("Vec", Visibility::File)]);
        assert_eq!(fields(&tuple, "S"), None);
    }
}
