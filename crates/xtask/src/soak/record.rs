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
pub(super) struct SoakRecord {
    folder: PathBuf,
    tree: String,
    /// The last result of each step, in the order in which the steps ran first.
    results: Vec<(String, StepResult)>,
}

impl SoakRecord {
    /// Reads the results of a source tree, and forgets those of some parts.
    pub(super) fn open(folder: &Path, tree: &str, is_forgotten: impl Fn(&str) -> bool) -> Result<Self> {
        std::fs::create_dir_all(folder).with_context(|| format!("{} cannot be made", folder.display()))?;
        let mut record = Self { folder: folder.to_owned(), tree: tree.to_owned(), results: Vec::new() };
        let text = std::fs::read_to_string(record.file()).unwrap_or_default();
        let is_kept = |line: &&str| read(line, tree).is_none_or(|(key, _)| !is_forgotten(part(&key)));
        let kept: Vec<&str> = text.lines().filter(is_kept).collect();
        if kept.len() < text.lines().count() {
            std::fs::write(record.file(), kept.iter().map(|line| format!("{line}\n")).collect::<String>())?;
        }
        for (key, result) in kept.iter().filter_map(|line| read(line, tree)) {
            record.set(key, result);
        }
        Ok(record)
    }

    /// Whether the last run of a step passed.
    pub(super) fn has_passed(&self, key: &str) -> bool {
        self.results.iter().any(|(known, result)| known == key && result.failures.is_empty())
    }

    /// Whether the last run of a step failed.
    pub(super) fn has_failed(&self, key: &str) -> bool {
        self.results.iter().any(|(known, result)| known == key && !result.failures.is_empty())
    }

    /// The last round of which a step is known, counted from 0.
    pub(super) fn last_round(&self) -> u64 {
        let round = |key: &str| key.rsplit_once(", round ").and_then(|(_, round)| round.parse().ok());
        self.results.iter().filter_map(|(key, _)| round(key)).max().unwrap_or(0)
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

    /// The lines that repeat failures of some parts.
    pub(super) fn failures(&self, is_chosen: impl Fn(&str) -> bool) -> Vec<&str> {
        let chosen = self.results.iter().filter(|(key, _)| is_chosen(part(key)));
        chosen.flat_map(|(_, result)| result.failures.iter().map(String::as_str)).collect()
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

/// The part that a step belongs to, by the step's key.
pub(super) fn part(key: &str) -> &str {
    key.split(':').next().unwrap_or(key)
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
        let open = |tree: &str| SoakRecord::open(folder.path(), tree, |_| false).unwrap();
        let mut record = open("a");
        record.add("worlds: 0".to_owned(), result(&[])).unwrap();
        record.add("chaos: etcd".to_owned(), result(&["first", "second"])).unwrap();
        drop(record);
        let record = open("a");
        assert!(record.has_passed("worlds: 0") && !record.has_passed("chaos: etcd"));
        assert_eq!(record.failures(|_| true), ["first", "second"]);
        assert!(record.failures(|part| part == "worlds").is_empty());
        assert_eq!(record.results().next(), Some(("worlds: 0", &result(&[]))));
        assert!(!open("b").has_passed("worlds: 0"), "other sources have not run it");
        drop(SoakRecord::open(folder.path(), "a", |part| part == "chaos").unwrap());
        let again = open("a");
        assert!(again.has_passed("worlds: 0"), "only chaos is forgotten");
        assert!(again.failures(|_| true).is_empty());
    }

    #[test]
    fn the_last_round_is_read_from_the_steps() {
        let folder = tempfile::tempdir().unwrap();
        let mut record = SoakRecord::open(folder.path(), "a", |_| false).unwrap();
        assert_eq!(record.last_round(), 0);
        for (key, failures) in
            [("oracle: 1", &[][..]), ("oracle: 1, round 11", &["x"]), ("oracle: 1, round 2", &[])]
        {
            record.add(key.to_owned(), result(failures)).unwrap();
        }
        assert_eq!(record.last_round(), 11);
        assert!(record.has_failed("oracle: 1, round 11") && !record.has_failed("oracle: 1, round 2"));
    }

    #[test]
    fn a_step_that_passes_the_second_time_has_passed() {
        let folder = tempfile::tempdir().unwrap();
        let mut record = SoakRecord::open(folder.path(), "a", |_| false).unwrap();
        record.add("chaos: etcd".to_owned(), result(&["first"])).unwrap();
        record.add("chaos: etcd".to_owned(), result(&[])).unwrap();
        assert!(record.has_passed("chaos: etcd") && record.failures(|_| true).is_empty());
    }

    #[test]
    fn a_line_that_was_cut_off_counts_for_nothing() {
        assert_eq!(read("a\tworlds: 0", "a"), None);
        assert_eq!(read("a\tworlds: 0\tx", "a"), None);
    }
}
