//! How evenly dispatched runs are spread over equal nodes, by what the history says of real runs.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use crate::process::{ServerProcess, text, until_told};

const NAMES: [&str; 3] = ["a", "b", "c"];
/// So many moments in a row must be even. A machine that stalls spoils some, and the next ones count.
const IN_A_ROW: usize = 6;

/// Dispatched jobs on three nodes.
#[derive(Debug)]
pub(crate) struct DispatchShape {
    /// How many jobs there are.
    pub(crate) jobs: usize,
    /// The seconds between two fires of a job.
    pub(crate) every: usize,
    /// Whether all are due together; else as many each second.
    pub(crate) together: bool,
    /// The slots of each node.
    pub(crate) slots: usize,
    /// How long a run takes, as `sleep` is told.
    pub(crate) takes: &'static str,
}

impl DispatchShape {
    fn file(&self) -> String {
        let Self { every, takes, .. } = self;
        let offset = |n: usize| if self.together { 0 } else { n % every };
        let job = |n: usize| {
            let schedule = format!("@every {every}s offset {}s", offset(n));
            format!(
                "[[job]]\nname = \"j{n}\"\nschedule = \"{schedule}\"\nplacement = \"dispatched\"\n\
                 command = [\"/bin/sleep\", \"{takes}\"]\n"
            )
        };
        (0..self.jobs).map(job).collect()
    }

    /// How many jobs are due at each moment.
    fn due(&self) -> usize {
        if self.together { self.jobs } else { self.jobs / self.every }
    }
}

/// Whether each moment at which all its runs are known was even, in their order: the nodes are busy with as many runs, those
/// that are due then counted, or with one more.
pub(crate) fn evenness(rows: &[Value], due: usize) -> Vec<bool> {
    let word = |row: &Value, key: &str| row[key].as_str().unwrap_or_default().to_owned();
    let mut moments: BTreeMap<String, usize> = BTreeMap::new();
    rows.iter().for_each(|row| *moments.entry(word(row, "due")).or_default() += 1);
    let even = |at: &str| {
        let goes_on = |row: &&Value| {
            let ended = row["ended"].as_str();
            word(row, "due").as_str() <= at && ended.is_none_or(|ended| ended > at)
        };
        let busy = NAMES.map(|name| rows.iter().filter(|row| row["node"] == name).filter(goes_on).count());
        let most = busy.iter().max().copied().unwrap_or_default();
        busy.iter().all(|count| count + 1 >= most)
    };
    moments.iter().map(|(at, count)| *count == due && even(at)).collect()
}

/// How many in a row were even at most.
fn longest(moments: &[bool]) -> usize {
    moments.split(|even| !even).map(<[bool]>::len).max().unwrap_or_default()
}

/// Plays a shape on this registry, or on a SQLite file, until so many moments in a row were even.
pub(crate) fn play(shape: &DispatchShape, registry: Option<&str>) {
    let folder = tempfile::tempdir().expect("a folder");
    let nodes = start(folder.path(), shape, registry);
    until_told("all are there", || (nodes[0].living().len() == NAMES.len()).then_some(()), String::new);
    // Soon it is known how long runs take.
    nodes[0].ok(&["cluster", "settings", "--beat", "3s"]);
    let applied = nodes[0].fed(&["job", "apply", "-f", "-"], &shape.file());
    assert!(applied.status.success(), "{}", text(&applied.stderr));
    let limit = (shape.due() * IN_A_ROW * 3).to_string();
    let moments = || {
        let rows = nodes[0].json(&["run", "list", "--limit", &limit]);
        let rows: Vec<Value> = rows.as_array().cloned().unwrap_or_default();
        let rows: Vec<Value> = rows.into_iter().filter(|row| !row["started"].is_null()).collect();
        evenness(&rows, shape.due())
    };
    until_told(
        "the nodes are evenly busy at moments in a row",
        || (longest(&moments()) >= IN_A_ROW).then_some(()),
        || format!("{shape:?}: {:?}", moments()),
    );
}

fn start(folder: &Path, shape: &DispatchShape, registry: Option<&str>) -> Vec<ServerProcess> {
    let slots = shape.slots.to_string();
    let mut more = vec!["--slots", &slots];
    more.extend(registry.into_iter().flat_map(|url| ["--registry", url]));
    NAMES.iter().map(|name| ServerProcess::serve(folder, name, &more)).collect()
}
