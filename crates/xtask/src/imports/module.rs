//! One module as its tokens say it: what it declares, what it imports, and which paths its code names.

use crate::tokens::{CodeToken, behind_bracket};
use std::collections::{BTreeMap, BTreeSet};

/// A module, in a file of its own or within one.
#[derive(Default)]
pub(super) struct CrateModule {
    /// The file, from the root of the repository.
    pub(super) file: String,
    /// Types, functions, constants and macros that stand directly in it.
    pub(super) items: BTreeSet<String>,
    /// The names that `use` brings into it.
    pub(super) uses: Vec<ImportedName>,
    /// The paths before `::*`.
    pub(super) globs: Vec<Vec<String>>,
    /// The paths of two or more names outside of `use`.
    pub(super) paths: BTreeSet<Vec<String>>,
    /// Every name outside of `use` that can be one of an item.
    pub(super) words: BTreeSet<String>,
}

/// One name that a `use` brings into a module.
pub(super) struct ImportedName {
    pub(super) name: String,
    pub(super) path: Vec<String>,
    /// Whether `pub` stands before it, so that others may take it from here.
    pub(super) handed_on: bool,
}

/// The keywords that declare something by the name behind them.
const DECLARES: &[&str] = &["fn", "struct", "enum", "union", "trait", "type", "const", "static"];

/// What a brace belongs to.
enum Brace {
    Module,
    Other,
}

/// Reads the module in the file `path`, and those that stand within it, into `modules`.
pub(super) fn read_file(
    path: &str,
    at: &[String],
    tokens: &[CodeToken<'_>],
    modules: &mut BTreeMap<Vec<String>, CrateModule>,
) {
    let mut here = at.to_vec();
    let mut braces = Vec::new();
    let mut next = 0;
    modules.insert(here.clone(), CrateModule { file: path.to_owned(), ..CrateModule::default() });
    while let Some(token) = tokens.get(next) {
        let from = next;
        next += 1;
        let text = |ahead: usize| tokens.get(from + ahead).map_or("", |token| token.text);
        match token.text {
            "{" => braces.push(Brace::Other),
            "}" => {
                if matches!(braces.pop(), Some(Brace::Module)) {
                    here.pop();
                }
            }
            "mod" if text(2) == "{" => {
                here.push(text(1).to_owned());
                braces.push(Brace::Module);
                next = from + 3;
                modules.insert(here.clone(), CrateModule { file: path.to_owned(), ..CrateModule::default() });
            }
            _ => {
                let outside = !matches!(braces.last(), Some(Brace::Other));
                let Some(module) = modules.get_mut(&here) else { continue };
                next = module.read(tokens, from, outside);
            }
        }
    }
}

impl CrateModule {
    /// Reads what begins at `from` and returns the place behind it. `outside` says that this stands in no function or type.
    fn read(&mut self, tokens: &[CodeToken<'_>], from: usize, outside: bool) -> usize {
        let text = |ahead: usize| tokens.get(from + ahead).map_or("", |token| token.text);
        match text(0) {
            "use" if text(1) != "<" => return self.read_use(tokens, from),
            "macro_rules" if text(1) == "!" => {
                self.items.insert(text(2).to_owned());
            }
            keyword if outside && DECLARES.contains(&keyword) => {
                self.items.insert(text(1).trim_start_matches("r#").to_owned());
            }
            _ => {}
        }
        if !tokens[from].is_name() {
            return from + 1;
        }
        let path = names_from(tokens, from);
        let behind = from + 2 * path.len() - 1;
        let before = from.checked_sub(1).map_or("", |before| tokens[before].text);
        let goes_on = before == "::";
        // A small name that is not called is a variable, a field or a module as a rule.
        let called = matches!(tokens.get(behind).map_or("", |next| next.text), "(" | "!" | "<");
        let is_large = path[0].starts_with(char::is_uppercase);
        if path.len() > 1 || is_large || (called && !matches!(before, "." | "fn")) {
            self.words.insert(path[0].clone());
        }
        if path.len() > 1 && !goes_on {
            self.paths.insert(path);
        }
        behind
    }

    fn read_use(&mut self, tokens: &[CodeToken<'_>], from: usize) -> usize {
        let handed_on = match from.checked_sub(1).map(|before| tokens[before].text) {
            Some("pub") => true,
            Some(")") => {
                let open = tokens[..from].iter().rposition(|token| token.text == "(").unwrap_or(0);
                open > 0 && tokens[open - 1].text == "pub"
            }
            _ => false,
        };
        let mut branch = UseBranch { module: self, handed_on };
        branch.read(tokens, from + 1, &[])
    }
}

struct UseBranch<'a> {
    module: &'a mut CrateModule,
    handed_on: bool,
}

impl UseBranch<'_> {
    /// Reads one branch of a `use` below `prefix` and returns the place behind it.
    fn read(&mut self, tokens: &[CodeToken<'_>], from: usize, prefix: &[String]) -> usize {
        let text = |at: usize| tokens.get(at).map_or(";", |token| token.text);
        let mut path = prefix.to_vec();
        let mut at = from;
        loop {
            match text(at) {
                "::" => at += 1,
                "*" => {
                    self.module.globs.push(path);
                    return at + 1;
                }
                "{" => {
                    let end = behind_bracket(tokens, at);
                    at += 1;
                    while at + 1 < end {
                        at = self.read(tokens, at, &path);
                        at += usize::from(text(at) == ",");
                    }
                    return end;
                }
                _ if tokens.get(at).is_some_and(CodeToken::is_name) => {
                    path.push(text(at).to_owned());
                    at += 1;
                    if text(at) != "::" {
                        break;
                    }
                }
                _ => return at + 1,
            }
        }
        if path.last().is_some_and(|last| last == "self") {
            path.pop();
        }
        let alias = (text(at) == "as").then(|| text(at + 1).to_owned());
        at += if alias.is_some() { 2 } else { 0 };
        if let Some(name) = alias.or_else(|| path.last().cloned()) {
            self.module.uses.push(ImportedName { name, path, handed_on: self.handed_on });
        }
        at
    }
}

/// The names that `::` joins, beginning at this place.
fn names_from(tokens: &[CodeToken<'_>], from: usize) -> Vec<String> {
    let mut path = vec![tokens[from].text.to_owned()];
    let mut at = from + 1;
    while tokens.get(at).is_some_and(|token| token.text == "::")
        && tokens.get(at + 1).is_some_and(CodeToken::is_name)
    {
        path.push(tokens[at + 1].text.to_owned());
        at += 2;
    }
    path
}
