//! Nodes with labels, and jobs with node selectors. They have a random stream of their own, so that worlds without any
//! do not change.

use evenkeel_core::labels::NodeSelector;

use super::Workload;
use crate::random::SimRandom;

/// How many worlds in a thousand have labels.
const SHARE: u32 = 300;

impl Workload {
    /// Gives labels to nodes and selectors to jobs, in some seeds.
    pub(super) fn add_labels(&mut self, seed: u64) {
        let random = &mut SimRandom::new(seed, "labels of a swarm");
        if !random.chance(SHARE) {
            return;
        }
        for (settings, _) in &mut self.nodes {
            let labels = random.pick(&["", "a", "a,b=1", "b=1", "b=2"]).copied().unwrap_or_default();
            settings.labels = labels.parse().expect("words and values are labels");
        }
        for job in &mut self.jobs {
            if random.chance(600) {
                job.node_selector = named_nodes(random);
            }
        }
        self.labelled = true;
    }
}

/// A random node selector of a declaration. It may match no node.
pub(crate) fn named_nodes(random: &mut SimRandom) -> NodeSelector {
    let all = ["", "a", "!a", "b", "b=1", "b=1|2", "!b=2", "a,b", "name=n0", "!name=n0", "name=n1|n2"];
    let nodes = random.pick(&all).copied().unwrap_or_default();
    nodes.parse().expect("words and values are conditions")
}
