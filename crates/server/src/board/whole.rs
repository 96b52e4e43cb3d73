//! A look at the whole cluster, for trees in other shapes.

use std::collections::BTreeMap;

use evenkeel::{Handle, LanesError};
use evenkeel_core::rules::claims::quota;
use evenkeel_core::view::{JobView, View};
use evenkeel_core::words::{JobName, NodeName};

use super::LOOK;
use crate::tree::{JobSeen, NodeSeen, Whole};
use crate::zones;

/// Takes it: all jobs, or only this one.
pub(crate) async fn whole(handle: &Handle, only: Option<&JobName>) -> Result<Whole, LanesError> {
    let (nodes, drained) = handle.look(|node| (nodes(node.view()), node.view().drained().cloned().collect()));
    let mut jobs = match only {
        Some(name) => handle.look(|node| node.view().find(name).and_then(seen)).into_iter().collect(),
        None => all(handle),
    };
    for some in jobs.chunks_mut(LOOK) {
        let names: Vec<JobName> = some.iter().map(|job| job.spec.job.name.clone()).collect();
        let mut lanes = handle.claims(&names).await?;
        for job in some {
            let lane = lanes.remove(&job.spec.job.name);
            job.open = lane.and_then(|lane| lane.open).map(|open| *open);
        }
    }
    Ok(Whole { nodes, drained, jobs, now: zones::now() })
}

/// The latest life of each node, with what all its lives hold.
fn nodes(view: &View) -> Vec<NodeSeen> {
    let mut nodes: BTreeMap<NodeName, NodeSeen> = BTreeMap::new();
    for (member, state) in view.members() {
        let before = nodes.get(&member.node).map_or(0, |node| node.held);
        let node = NodeSeen {
            member: member.clone(),
            info: state.info.clone(),
            held: before + view.count(member),
            quota: quota(view.enabled(), view.nodes(), state.info.tolerance),
        };
        nodes.insert(member.node.clone(), node);
    }
    nodes.into_values().collect()
}

fn all(handle: &Handle) -> Vec<JobSeen> {
    let (mut jobs, mut last): (Vec<JobSeen>, Option<JobName>) = (Vec::new(), None);
    loop {
        let page: Vec<_> = handle.look(|node| {
            let page = node.view().page(last.as_ref(), LOOK);
            page.map(|job| (job.name().clone(), seen(job))).collect()
        });
        let Some((name, _)) = page.last() else { return jobs };
        last = Some(name.clone());
        jobs.extend(page.into_iter().filter_map(|(_, job)| job));
    }
}

fn seen(job: JobView<'_>) -> Option<JobSeen> {
    let portions = job.sharding().filter(|_| job.is_sharded()).map(|sharding| sharding.cut.portions.iter());
    let holders = portions.into_iter().flatten().map(|portion| &portion.holder).chain(job.owner());
    let asked = job.asked().and_then(|known| known.value.as_ref());
    let waiting = asked.into_iter().flat_map(|asked| &asked.requests).filter(|request| !request.taken);
    Some(JobSeen {
        spec: job.spec()?,
        holders: holders.cloned().collect(),
        open: None,
        waiting: waiting.map(|request| request.id.clone()).collect(),
    })
}
