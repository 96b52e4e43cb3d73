//! What is required, what is tested, and which tests say so.

use crate::rust::words;
use crate::tidy::TidyViolation;
use crate::tree::SourceTree;
use anyhow::{Context as _, Result};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The pages that list requirements and invariants.
pub const PAGES: [&str; 2] = ["docs/requirements.md", "docs/invariants.md"];

/// One line of those pages.
pub struct Requirement {
    /// Such as `S1-18` or `I14`.
    pub id: String,
    /// `req`, `case`, `why`, `adv` or `scope`; of invariants, what must hold.
    pub kind: String,
    /// `planned`, `tested`, or `said in <page>: <words>`.
    pub state: String,
    /// The page it is on.
    pub page: &'static str,
    /// The line, counted from 0.
    pub line: usize,
}

/// A place where a test cites a requirement.
#[derive(Debug)]
pub struct Citation {
    /// The file.
    pub path: String,
    /// The line of the citation, counted from 0.
    pub line: usize,
    /// The test.
    pub test: String,
}

/// All citations.
pub struct Citations {
    /// Who cites each id.
    pub by_id: BTreeMap<String, Vec<Citation>>,
    /// Citations that stand above no test.
    pub misplaced: Vec<TidyViolation>,
}

/// Every requirement and invariant, in the order of the pages.
#[must_use]
pub fn listed(tree: &SourceTree) -> Vec<Requirement> {
    let mut found = Vec::new();
    for page in PAGES {
        for (line, text) in tree.text(page).unwrap_or_default().lines().enumerate() {
            let cells: Vec<_> = text.trim().trim_matches('|').split('|').map(str::trim).collect();
            let [id, kind, .., state] = cells[..] else { continue };
            if text.starts_with("| ") && is_id(id) {
                let [id, kind, state] = [id, kind, state].map(str::to_owned);
                found.push(Requirement { id, kind, state, page, line });
            }
        }
    }
    found
}

impl Requirement {
    /// The page and the words that say it, of advice and limits that no test can show.
    #[must_use]
    pub fn documented_in(&self) -> Option<(&str, &str)> {
        let (page, words) = self.state.strip_prefix("said in ")?.split_once(": ")?;
        matches!(self.kind.as_str(), "adv" | "scope").then_some((page, words))
    }
}

fn is_id(text: &str) -> bool {
    let digits = text.strip_prefix('I').or_else(|| {
        let (design, number) = text.strip_prefix('S')?.split_once('-')?;
        (design.len() == 1).then_some(number)
    });
    digits.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Everything that tests and scenarios say they prove.
#[must_use]
pub fn citations(tree: &SourceTree) -> Citations {
    let mut found = Citations { by_id: BTreeMap::new(), misplaced: Vec::new() };
    for (path, text) in tree.texts() {
        let lines: Vec<&str> = text.lines().collect();
        for (line, said) in lines.iter().enumerate() {
            let test = if path.ends_with(".rs") {
                let Some(ids) = said.trim_start().strip_prefix("/// proves:") else { continue };
                (ids, test_below(tree, path, &lines, line))
            } else if path.starts_with("crates/sim/scenarios/") {
                let Some(ids) = said.strip_prefix("# proves:") else { continue };
                (ids, Some("scenario".to_owned()))
            } else {
                continue;
            };
            found.add(path, line, test);
        }
    }
    found
}

impl Citations {
    fn add(&mut self, path: &str, line: usize, (ids, test): (&str, Option<String>)) {
        let Some(test) = test else {
            let message = "`proves:` stands above no test: move it to the comment of the test that proves it";
            self.misplaced.push(TidyViolation::at(path, line, message));
            return;
        };
        for id in ids.split(',').map(str::trim) {
            if !is_id(id) {
                let message = format!("`{id}` is no requirement id: write `proves: S1-24, I35`");
                self.misplaced.push(TidyViolation::at(path, line, message));
                continue;
            }
            let citation = Citation { path: path.to_owned(), line, test: test.clone() };
            self.by_id.entry(id.to_owned()).or_default().push(citation);
        }
    }
}

/// The name of the test function whose comment holds this line.
fn test_below(tree: &SourceTree, path: &str, lines: &[&str], at: usize) -> Option<String> {
    let is_head = |line: &&&str| line.trim_start().starts_with(['/', '#']);
    let above = lines[..at].iter().rev().take_while(is_head);
    let below = lines[at..].iter().take_while(is_head);
    let (head, _) = lines.get(at + below.clone().count())?.split_once('(')?;
    let (_, name) = head.split_once("fn ")?;
    let name = name.split('<').next().unwrap_or(name).trim();
    // A case of the conformance suite becomes one test for each engine.
    let marked = path.contains("conformance") || above.chain(below).any(|line| is_test_mark(line));
    (marked || is_listed(tree, path, name)).then(|| name.to_owned())
}

/// Whether the file belongs to tests that have a `main` of their own, and some list there names the function.
fn is_listed(tree: &SourceTree, path: &str, name: &str) -> bool {
    let Some((folder, _)) = path.rsplit_once('/').filter(|(folder, _)| folder.contains("/tests/")) else {
        return false;
    };
    let folder = format!("{folder}/");
    let has_main =
        tree.rust(&format!("{folder}main.rs")).is_some_and(|rust| rust.mentions("main").next().is_some());
    let uses = tree.rust_in(&[&folder]).map(|(_, rust)| words(&rust.code, name).count()).sum::<usize>();
    has_main && uses > 1
}

fn is_test_mark(line: &str) -> bool {
    line.trim().strip_prefix("#[").is_some_and(|mark| {
        let name = mark.split(['(', ']']).next().unwrap_or_default();
        name == "test" || name.ends_with("::test")
    })
}

/// The table of `cargo xtask requirements`: id, state, who cites it.
#[must_use]
pub fn report(tree: &SourceTree) -> String {
    let Citations { by_id, .. } = citations(tree);
    let mut out = String::new();
    let (mut tested, mut cited) = (0, 0);
    let listed = listed(tree);
    for Requirement { id, state, .. } in &listed {
        let tests = by_id.get(id).map(Vec::as_slice).unwrap_or_default();
        tested += usize::from(state != "planned");
        cited += usize::from(!tests.is_empty());
        let names: Vec<_> = tests
            .iter()
            .map(|citation| format!("{} ({}:{})", citation.test, citation.path, citation.line + 1))
            .collect();
        let _ = writeln!(out, "{id:<6} {state:<8} {}", names.join(", "));
    }
    let _ = writeln!(out, "{} listed, {tested} shown, {cited} cited by tests", listed.len());
    out
}

const COUNTS: (&str, &str) = ("<!-- counts: written by `cargo xtask references` -->\n", "<!-- /counts -->\n");

/// The requirements page with its table of counts as it should be.
///
/// # Errors
/// When the page has no place for the counts.
pub fn with_counts(tree: &SourceTree) -> Result<String> {
    let page = tree.text(PAGES[0]).context("docs/requirements.md is missing")?;
    let split = page.split_once(COUNTS.0).and_then(|(head, rest)| Some((head, rest.split_once(COUNTS.1)?.1)));
    let (head, tail) = split.with_context(|| {
        format!("{} has no place for counts: put back {}{}", PAGES[0], COUNTS.0, COUNTS.1)
    })?;
    let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let listed = listed(tree);
    for requirement in &listed {
        let group = if requirement.id.starts_with('I') { "invariants" } else { &requirement.id[..2] };
        let (all, tested) = counts.entry(group).or_default();
        *all += 1;
        *tested += usize::from(requirement.state != "planned");
    }
    let mut table = "| | listed | shown |\n|---|---|---|\n".to_owned();
    for (group, (all, tested)) in counts {
        let _ = writeln!(table, "| {group} | {all} | {tested} |");
    }
    Ok(format!("{head}{}{table}{}{tail}", COUNTS.0, COUNTS.1))
}
