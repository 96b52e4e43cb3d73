//! Markdown read just far enough for links and headings.

use std::collections::BTreeSet;

/// A link as it stands on a page.
pub struct MarkdownLink {
    /// Its line, counted from 0.
    pub line: usize,
    /// What is between the parentheses.
    pub target: String,
}

/// All links of a page, those in code left out.
#[must_use]
pub fn links(text: &str) -> Vec<MarkdownLink> {
    let mut found = Vec::new();
    for (line, text) in prose(text) {
        for (at, _) in text.match_indices("](") {
            if let Some((target, _)) = text[at + 2..].split_once(')') {
                let target = target.split(' ').next().unwrap_or_default();
                found.push(MarkdownLink { line, target: target.trim_matches(['<', '>']).to_owned() });
            }
        }
        if let Some((_, target)) = text.strip_prefix('[').and_then(|text| text.split_once("]: ")) {
            found.push(MarkdownLink { line, target: target.trim().to_owned() });
        }
    }
    found
}

/// Which file of the repository, and which heading in it, a link on the page `from` means. Nothing for the web.
#[must_use]
pub fn resolve(from: &str, target: &str) -> Option<(String, Option<String>)> {
    if target.is_empty() || target.contains(':') {
        return None;
    }
    let (file, heading) =
        target.split_once('#').map_or((target, None), |(file, heading)| (file, Some(heading.to_owned())));
    if file.is_empty() {
        return Some((from.to_owned(), heading));
    }
    let mut parts: Vec<&str> = if file.starts_with('/') { Vec::new() } else { from.split('/').collect() };
    parts.pop();
    for part in file.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                // A link out of the repository keeps its dots, so that no file fits it.
                if parts.last().is_none_or(|last| *last == "..") {
                    parts.push("..");
                } else {
                    parts.pop();
                }
            }
            name => parts.push(name),
        }
    }
    Some((parts.join("/"), heading))
}

/// The names by which the headings of a page can be linked to.
#[must_use]
pub fn anchors(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (_, line) in prose_with_code(text).filter(|(_, line)| line.starts_with('#')) {
        let title = line.trim_start_matches('#').trim();
        let kept = title
            .to_lowercase()
            .chars()
            .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
            .collect::<String>();
        let name = kept.replace(' ', "-");
        let unique = (1..).map(|n| format!("{name}-{n}")).find(|numbered| !found.contains(numbered));
        found.insert(if found.contains(&name) { unique.unwrap_or_default() } else { name });
    }
    found
}

/// The lines outside fenced blocks, with `code` inside them blanked.
fn prose(text: &str) -> impl Iterator<Item = (usize, String)> {
    prose_with_code(text).map(|(number, line)| {
        let parts = line.split('`').enumerate().map(|(n, part)| if n % 2 == 0 { part } else { "" });
        (number, parts.collect())
    })
}

fn prose_with_code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_in_code_are_not_links() {
        let text = "see [a](b.md#c) and `[x](y)`\n```\n[z](z)\n```\n[ref]: ../d.md\n";
        let found: Vec<_> = links(text).into_iter().map(|link| (link.line, link.target)).collect();
        assert_eq!(found, [(0, "b.md#c".to_owned()), (4, "../d.md".to_owned())]);
    }

    #[test]
    fn targets_are_taken_from_the_page_they_stand_on() {
        let file = |from, target| resolve(from, target).map(|(file, _)| file);
        assert_eq!(file("docs/a.md", "../README.md").as_deref(), Some("README.md"));
        assert_eq!(file("docs/a.md", "b/c.md#d").as_deref(), Some("docs/b/c.md"));
        assert_eq!(file("docs/a.md", "#here").as_deref(), Some("docs/a.md"));
        assert_eq!(file("README.md", "../out.md").as_deref(), Some("../out.md"));
        assert_eq!(file("README.md", "https://example.org"), None);
    }

    #[test]
    fn headings_become_anchors_as_on_the_forge() {
        let found = anchors("# What *is* it, then?\n## A-b c_d\n## A-b c_d\n```\n# not\n```\n");
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["a-b-c_d", "a-b-c_d-1", "what-is-it-then"]);
    }
}
