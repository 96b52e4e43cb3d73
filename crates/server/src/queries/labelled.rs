//! The jobs that a selector of labels fits.

use evenkeel::Handle;
use evenkeel_core::ids::{JobName, Namespace};
use evenkeel_core::job::JobSelector;
use evenkeel_core::view::JobView;

use super::lookup::LOOK;

/// The names of the present jobs whose labels meet all conditions, in order; of all namespaces for none.
pub(crate) fn jobs_with_labels(
    handle: &Handle,
    namespace: Option<&Namespace>,
    selector: &JobSelector,
) -> Vec<JobName> {
    let (mut found, mut last): (Vec<JobName>, Option<JobName>) = (Vec::new(), None);
    loop {
        // A few in each look at the view, for which the node waits.
        let seen: Vec<(JobName, bool)> = handle.with_node(|node| {
            let fits = |job: JobView<'_>| {
                let fits = job.spec().is_some_and(|spec| selector.fits(&spec.job.labels));
                (job.name().clone(), fits)
            };
            match namespace {
                Some(namespace) => node.view().page_in(namespace, last.as_ref(), LOOK).map(fits).collect(),
                None => node.view().page(last.as_ref(), LOOK).map(fits).collect(),
            }
        });
        let is_last = seen.len() < LOOK;
        last = seen.last().map(|(name, _)| name.clone()).or(last);
        found.extend(seen.into_iter().filter(|(_, fits)| *fits).map(|(name, _)| name));
        if is_last {
            return found;
        }
    }
}
