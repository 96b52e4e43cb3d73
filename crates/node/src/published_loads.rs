//! The loads that the nodes published. No feed carries them, so a handle reads them on demand.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::ids::Member;
use evenkeel_core::keys;
use evenkeel_core::record::{LoadRecord, decode};
use evenkeel_core::time::{Millis, Mono};
use tokio::sync::Mutex;

use crate::clock;
use crate::handle::Handle;

/// How long loads that were read are returned without reading them again. Nodes publish theirs once a beat.
const FRESH: Millis = Millis::secs(1);
/// How long a caller waits for the registry. Lists of nodes must not hang while it does not answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// The loads of the members that have published one in this life.
pub type NodeLoads = BTreeMap<Member, LoadRecord>;

/// The loads that were read last.
#[derive(Default)]
pub(crate) struct PublishedLoads {
    loads: Arc<NodeLoads>,
    /// When they were last asked for.
    asked: Option<Mono>,
}

impl Handle {
    /// Returns the loads that the members published last, at most a second old. While the registry does not answer, they
    /// are those that were read last: each says when it was measured.
    pub async fn published_loads(&self) -> Arc<NodeLoads> {
        // Callers that come at the same time share one read.
        let mut known = self.shared.loads.lock().await;
        let now = clock::now().mono;
        if known.asked.is_some_and(|at| now - at < FRESH) {
            return Arc::clone(&known.loads);
        }
        let members: Vec<Member> =
            self.with_node(|node| node.view().members().map(|(member, _)| member.clone()).collect());
        let nodes: BTreeSet<_> = members.iter().map(|member| keys::load(&member.node)).collect();
        if let Ok(Ok(found)) = tokio::time::timeout(PATIENCE, self.read(nodes.into_iter().collect())).await {
            let loads = members.into_iter().filter_map(|member| {
                let entry = found.get(&keys::load(&member.node))?.entry.as_ref()?;
                let load = decode::<LoadRecord>(&entry.value)?;
                (load.incarnation == member.incarnation).then_some((member, load))
            });
            known.loads = Arc::new(loads.collect());
        }
        known.asked = Some(now);
        Arc::clone(&known.loads)
    }
}

/// The state behind [`Handle::published_loads`].
pub(crate) type SharedLoads = Mutex<PublishedLoads>;
