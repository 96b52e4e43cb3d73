//! A rule is not done before people can read about it and the simulator has played it.

use super::violation::TidyViolation;
use crate::tree::SourceTree;
use std::collections::BTreeSet;

/// The folders of core in which each file is a rule, or a part of rules.
const ROOMS: &[&str] = &["crates/core/src/cluster/", "crates/core/src/placement/"];

/// Complains about a rule without `docs/concepts/<rule>.md` or without a scenario that has the line `# rule: <rule>`.
pub(super) fn check(tree: &SourceTree) -> Vec<TidyViolation> {
    let played: BTreeSet<&str> = tree
        .texts()
        .filter(|(path, _)| path.starts_with("crates/sim/scenarios/"))
        .flat_map(|(_, text)| text.lines().filter_map(|line| line.strip_prefix("# rule: ")))
        .flat_map(|names| names.split(',').map(str::trim))
        .collect();
    let mut said = Vec::new();
    for (path, rule) in rules(tree) {
        let page = format!("docs/concepts/{rule}.md");
        if !tree.has(&page) {
            said.push(TidyViolation::about(path, format!("this rule has no page: write {page} and link it")));
        }
        if !played.contains(rule) {
            let message =
                format!("no scenario plays this rule: add `# rule: {rule}` to one in crates/sim/scenarios");
            said.push(TidyViolation::about(path, message));
        }
    }
    said
}

/// The rules by the files that decide them: those of a room, not what they are cut into.
fn rules(tree: &SourceTree) -> impl Iterator<Item = (&str, &str)> {
    let files = tree
        .rust_in(ROOMS)
        .filter(|(path, _)| tree.text(path).is_some_and(|text| text.contains("pub fn decide(")));
    files.filter_map(|(path, _)| {
        let name = ROOMS.iter().find_map(|room| path.strip_prefix(room))?.strip_suffix(".rs")?;
        (!name.contains('/')).then_some((path, name))
    })
}
