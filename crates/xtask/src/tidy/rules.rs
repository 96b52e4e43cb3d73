//! A rule is not done before people can read about it and the simulator has played it.

use super::violation::TidyViolation;
use crate::tree::SourceTree;
use std::collections::BTreeSet;

/// Complains about a rule without `docs/concepts/<rule>.md` or without a scenario that has the line `# rule: <rule>`.
pub(super) fn check(tree: &SourceTree) -> Vec<TidyViolation> {
    let played: BTreeSet<&str> = tree
        .texts()
        .filter(|(path, _)| path.starts_with("crates/sim/scenarios/"))
        .flat_map(|(_, text)| text.lines().filter_map(|line| line.strip_prefix("# rule: ")))
        .flat_map(|names| names.split(',').map(str::trim))
        .collect();
    let mut said = Vec::new();
    for (path, _) in tree.rust_in(&["crates/core/src/rules/"]) {
        let Some(rule) =
            path.strip_prefix("crates/core/src/rules/").and_then(|name| name.strip_suffix(".rs"))
        else {
            continue;
        };
        if rule.contains('/') || rule == "mod" || rule == "tests" {
            continue;
        }
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
