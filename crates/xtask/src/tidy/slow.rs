//! Tests that take minutes run when they are asked for: in a target of their own, or marked for the soak.

use super::violation::TidyViolation;
use crate::tree::SourceTree;

/// Crate, test: each is run by a command of its own.
const SLOW: &[(&str, &str)] = &[("server", "chaos")];

/// Complains about a slow test that plain `cargo test` would run too, and about an ignored test that does not name the soak.
pub(super) fn check(tree: &SourceTree) -> Vec<TidyViolation> {
    let mut said = Vec::new();
    for (folder, test) in SLOW {
        let forms = ["tests/{}.rs", "tests/{}/main.rs"].map(|form| form.replace("{}", test));
        let manifest = format!("crates/{folder}/Cargo.toml");
        let is_there = forms.iter().any(|file| tree.has(&format!("crates/{folder}/{file}")));
        if is_there && !asked_for_by_name(tree.text(&manifest).unwrap_or_default(), test) {
            let message = format!(
                "say `test = false` in a [[test]] section named {test}: `cargo xtask soak {test}` runs it"
            );
            said.push(TidyViolation::about(&manifest, message));
        }
    }
    for (path, rust) in tree.rust_in(&["crates/"]) {
        let ignored = rust.code.lines().enumerate().filter(|(_, text)| text.trim().starts_with("#[ignore"));
        for (line, _) in ignored {
            let reason = rust.literals.iter().find(|literal| literal.line == line);
            if !reason.is_some_and(|reason| reason.value.starts_with("soak: ")) {
                let message = "say why only the soak runs this test: #[ignore = \"soak: …\"]";
                said.push(TidyViolation::at(path, line, message));
            }
        }
    }
    said
}

fn asked_for_by_name(manifest: &str, test: &str) -> bool {
    let Ok(manifest) = manifest.parse::<toml::Table>() else { return false };
    let sections = manifest.get("test").and_then(toml::Value::as_array);
    sections.into_iter().flatten().any(|section| {
        section.get("name").and_then(toml::Value::as_str) == Some(test)
            && section.get("test").and_then(toml::Value::as_bool) == Some(false)
    })
}
