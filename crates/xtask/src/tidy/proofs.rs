//! A requirement counts as tested when a test says so, and a test cites only requirements that exist.

use super::violation::TidyViolation;
use crate::requirements::{self, Citations};
use crate::rust;
use crate::tree::SourceTree;

/// Complains about states that nobody backs, citations of unknown ids and citations that stand above no test.
pub(super) fn check(tree: &SourceTree) -> Vec<TidyViolation> {
    let listed = requirements::listed(tree);
    let Citations { by_id, mut misplaced } = requirements::citations(tree);
    let mut seen = std::collections::BTreeSet::new();
    for requirement in &listed {
        let (id, state) = (&requirement.id, requirement.state.as_str());
        let message = match state {
            _ if !seen.insert(id) => format!("{id} is listed twice: keep one line"),
            "planned" => continue,
            "tested" if by_id.contains_key(id) => continue,
            "tested" => {
                format!("{id} is marked tested and no test cites it: write `/// proves: {id}` above its test")
            }
            _ => match requirement.documented_in() {
                Some((page, words)) if page_contains(tree, page, words) => continue,
                Some((page, words)) => {
                    format!("{page} does not say `{words}`: quote the line that says {id}")
                }
                None => format!(
                    "{id} has the state `{state}`: write planned or tested, or for adv and scope `said in <page>: <words>`"
                ),
            },
        };
        misplaced.push(TidyViolation::at(requirement.page, requirement.line, message));
    }
    for (id, places) in
        by_id.iter().filter(|(id, _)| !listed.iter().any(|requirement| requirement.id == **id))
    {
        for place in places {
            let message =
                format!("{id} is cited and listed nowhere: see {}", requirements::PAGES.join(" and "));
            misplaced.push(TidyViolation::at(&place.path, place.line, message));
        }
    }
    misplaced
}

/// Whether a page has these words in this order, wherever its lines break.
fn page_contains(tree: &SourceTree, page: &str, words: &str) -> bool {
    let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    tree.text(page).is_some_and(|text| flat(text).contains(&flat(words)))
}

/// Complains about ids such as `S1-18` that stand in code, comments or pages and are not listed.
pub(super) fn mentions(tree: &SourceTree) -> Vec<TidyViolation> {
    let listed = requirements::listed(tree);
    let mut said = Vec::new();
    for (path, text) in tree
        .texts()
        .filter(|(path, _)| path.ends_with(".rs") || path.ends_with(".md") || path.ends_with(".txt"))
    {
        for (number, line) in text.lines().enumerate() {
            for id in ids(line).filter(|id| !listed.iter().any(|requirement| requirement.id == *id)) {
                said.push(TidyViolation::at(
                    path,
                    number,
                    format!("there is no requirement {id}: see {}", requirements::PAGES[0]),
                ));
            }
        }
    }
    said
}

/// Everything on the line that looks like `S1-18`.
fn ids(line: &str) -> impl Iterator<Item = &str> {
    ["S0-", "S1-", "S2-", "S3-", "S4-"].into_iter().flat_map(move |prefix| {
        line.match_indices(prefix).filter_map(move |(at, _)| {
            let digits = line[at + 3..].bytes().take_while(u8::is_ascii_digit).count();
            let id = &line[at..at + 3 + digits];
            (digits > 0 && rust::words(&line[..at + 3 + digits], id).any(|found| found == at)).then_some(id)
        })
    })
}
