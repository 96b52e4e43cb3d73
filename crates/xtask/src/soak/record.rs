//! What the soak has run on a source tree, kept in a file so that it can go on after it was stopped.

use anyhow::{Context as _, Result};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How a step ended.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct StepResult {
    /// How long the step ran.
    pub(super) took: Duration,
    /// A line for each failure, which repeats it; none where the step passed.
    pub(super) failures: Vec<String>,
}

/// All results of one source tree.
pub(super) struct Record {
    folder: PathBuf,
    tree: String,
    /// The last result of each step, in the order in which the steps ran first.
    results: Vec<(String, StepResult)>,
}

impl Record {
    /// Reads the results of a source tree; with `again` it forgets them.
    pub(super) fn open(folder: &Path, tree: &str, again: bool) -> Result<Self> {
        std::fs::create_dir_all(folder).with_context(|| format!("{} cannot be made", folder.display()))?;
        let mut record = Self { folder: folder.to_owned(), tree: tree.to_owned(), results: Vec::new() };
        if again {
            let _ = std::fs::remove_file(record.file());
        }
        let text = std::fs::read_to_string(record.file()).unwrap_or_default();
        for (key, result) in text.lines().filter_map(|line| read(line, tree)) {
            record.set(key, result);
        }
        Ok(record)
    }

    /// Whether the last run of a step passed.
    pub(super) fn has_passed(&self, key: &str) -> bool {
        self.results.iter().any(|(known, result)| known == key && result.failures.is_empty())
    }

    /// Keeps the result of a step at once, so that a stop loses none.
    pub(super) fn add(&mut self, key: String, result: StepResult) -> Result<()> {
        let one_line = |text: &String| text.replace(['\t', '\n'], " ");
        let failures = result.failures.iter().map(one_line).collect::<Vec<_>>().join("\t");
        let millis = result.took.as_millis();
        let mut file = std::fs::File::options().create(true).append(true).open(self.file())?;
        writeln!(file, "{}\t{key}\t{millis}\t{failures}", self.tree)
            .with_context(|| format!("{} cannot be written", self.file().display()))?;
        self.set(key, result);
        Ok(())
    }

    /// Every step that ran, with its last result.
    pub(super) fn results(&self) -> impl Iterator<Item = (&str, &StepResult)> {
        self.results.iter().map(|(key, result)| (key.as_str(), result))
    }

    /// The lines that repeat failures.
    pub(super) fn failures(&self) -> Vec<&str> {
        self.results.iter().flat_map(|(_, result)| result.failures.iter().map(String::as_str)).collect()
    }

    /// Where the output of a step is kept.
    pub(super) fn log(&self, key: &str) -> PathBuf {
        let name: String = key.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        self.folder.join(format!("{name}.log"))
    }

    fn file(&self) -> PathBuf {
        self.folder.join("results")
    }

    fn set(&mut self, key: String, result: StepResult) {
        match self.results.iter_mut().find(|(known, _)| *known == key) {
            Some(known) => known.1 = result,
            None => self.results.push((key, result)),
        }
    }
}

/// One line of the file, where it is whole and of this source tree.
fn read(line: &str, tree: &str) -> Option<(String, StepResult)> {
    let mut fields = line.split('\t');
    if fields.next() != Some(tree) {
        return None;
    }
    let (key, millis) = (fields.next()?.to_owned(), fields.next()?.parse().ok()?);
    let failures = fields.filter(|field| !field.is_empty()).map(str::to_owned).collect();
    Some((key, StepResult { took: Duration::from_millis(millis), failures }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(failures: &[&str]) -> StepResult {
        let failures = failures.iter().map(|line| (*line).to_owned()).collect();
        StepResult { took: Duration::from_millis(1_234), failures }
    }

    #[test]
    fn results_are_there_after_a_stop_for_the_same_sources_only() {
        let folder = tempfile::tempdir().unwrap();
        let open = |tree: &str| Record::open(folder.path(), tree, false).unwrap();
        let mut record = open("a");
        record.add("worlds: 0".to_owned(), result(&[])).unwrap();
        record.add("chaos: etcd".to_owned(), result(&["first", "second"])).unwrap();
        drop(record);
        let record = open("a");
        assert!(record.has_passed("worlds: 0") && !record.has_passed("chaos: etcd"));
        assert_eq!(record.failures(), ["first", "second"]);
        assert_eq!(record.results().next(), Some(("worlds: 0", &result(&[]))));
        assert!(!open("b").has_passed("worlds: 0"), "other sources have not run it");
        assert!(!Record::open(folder.path(), "a", true).unwrap().has_passed("worlds: 0"), "forgotten");
    }

    #[test]
    fn a_step_that_passes_the_second_time_has_passed() {
        let folder = tempfile::tempdir().unwrap();
        let mut record = Record::open(folder.path(), "a", false).unwrap();
        record.add("chaos: etcd".to_owned(), result(&["first"])).unwrap();
        record.add("chaos: etcd".to_owned(), result(&[])).unwrap();
        assert!(record.has_passed("chaos: etcd") && record.failures().is_empty());
    }

    #[test]
    fn a_line_that_was_cut_off_counts_for_nothing() {
        assert_eq!(read("a\tworlds: 0", "a"), None);
        assert_eq!(read("a\tworlds: 0\tx", "a"), None);
    }
}
