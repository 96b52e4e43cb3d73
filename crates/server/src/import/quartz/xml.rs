//! The file of Quartz's XML plug-in.

use std::collections::BTreeMap;
use std::fmt;

use roxmltree::{Document, Node};

/// The group of what names none.
const DEFAULT_GROUP: &str = "DEFAULT";

/// The name of a job or a trigger in its group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct QuartzKey {
    pub(super) group: String,
    pub(super) name: String,
}

impl fmt::Display for QuartzKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.group.as_str() {
            DEFAULT_GROUP => f.write_str(&self.name),
            group => write!(f, "{group}.{}", self.name),
        }
    }
}

/// A job as the file has it.
#[derive(Clone, Debug)]
pub(super) struct QuartzJob {
    pub(super) key: QuartzKey,
    pub(super) description: String,
    pub(super) class: String,
    pub(super) is_durable: bool,
    pub(super) recovers: bool,
    pub(super) is_listened: bool,
    pub(super) data: BTreeMap<String, String>,
}

/// A trigger as the file has it.
#[derive(Clone, Debug)]
pub(super) struct QuartzTrigger {
    pub(super) key: QuartzKey,
    /// The job that it fires.
    pub(super) job: QuartzKey,
    /// `cron`, `simple` or `calendar-interval`.
    pub(super) kind: String,
    /// The texts of its elements by their names.
    pub(super) parts: BTreeMap<String, String>,
    /// Whether it has data of its own.
    pub(super) has_data: bool,
}

/// What a file holds.
#[derive(Clone, Debug, Default)]
pub(super) struct QuartzFile {
    pub(super) jobs: Vec<QuartzJob>,
    pub(super) triggers: Vec<QuartzTrigger>,
    /// The names of elements that are neither.
    pub(super) others: Vec<String>,
}

/// The jobs and triggers of a text, and the names of elements that are neither.
///
/// # Errors
/// The text is no XML.
pub(super) fn read(text: &str) -> Result<QuartzFile, roxmltree::Error> {
    let document = Document::parse(text)?;
    let root = document.root_element();
    let mut file = QuartzFile::default();
    if root.tag_name().name() != "job-scheduling-data" {
        return Ok(file);
    }
    for part in elements(root) {
        match part.tag_name().name() {
            "schedule" => {
                for item in elements(part) {
                    match item.tag_name().name() {
                        "job" => file.jobs.push(job(item)),
                        "trigger" => file.triggers.extend(elements(item).map(trigger)),
                        other => file.others.push(other.to_owned()),
                    }
                }
            }
            other => file.others.push(other.to_owned()),
        }
    }
    Ok(file)
}

fn elements<'a, 'i>(node: Node<'a, 'i>) -> impl Iterator<Item = Node<'a, 'i>> {
    node.children().filter(Node::is_element)
}

fn text(node: Node<'_, '_>, name: &str) -> String {
    let found = elements(node).find(|child| child.tag_name().name() == name);
    found.and_then(|child| child.text()).map(str::trim).unwrap_or_default().to_owned()
}

fn key(name: String, group: String) -> QuartzKey {
    QuartzKey { group: if group.is_empty() { DEFAULT_GROUP.to_owned() } else { group }, name }
}

fn job(node: Node<'_, '_>) -> QuartzJob {
    let mut data = BTreeMap::new();
    let map = elements(node).filter(|child| child.tag_name().name() == "job-data-map");
    for entry in map.flat_map(elements).filter(|entry| entry.tag_name().name() == "entry") {
        data.insert(text(entry, "key"), text(entry, "value"));
    }
    QuartzJob {
        key: key(text(node, "name"), text(node, "group")),
        description: text(node, "description"),
        class: text(node, "job-class"),
        is_durable: text(node, "durability") == "true",
        recovers: text(node, "recover") == "true",
        is_listened: elements(node).any(|child| child.tag_name().name() == "job-listener-ref"),
        data,
    }
}

fn trigger(node: Node<'_, '_>) -> QuartzTrigger {
    let parts = elements(node)
        .filter_map(|child| Some((child.tag_name().name().to_owned(), child.text()?.trim().to_owned())));
    QuartzTrigger {
        key: key(text(node, "name"), text(node, "group")),
        job: key(text(node, "job-name"), text(node, "job-group")),
        kind: node.tag_name().name().to_owned(),
        parts: parts.filter(|(_, text)| !text.is_empty()).collect(),
        has_data: elements(node).any(|child| child.tag_name().name() == "job-data-map"),
    }
}
