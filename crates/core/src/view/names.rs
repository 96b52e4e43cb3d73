//! Finding a job by its name.

use core::ops::Bound::{Excluded, Unbounded};

use super::name_index::order;
use super::{JobId, View};
use crate::ids::JobName;

impl View {
    /// The number of the job of this name, also of a deleted one.
    #[must_use]
    pub fn id(&self, name: &JobName) -> Option<JobId> {
        let first = *self.names.by_order.get(&order(self.me.as_str(), name.as_str()))?;
        if self.jobs[first.0 as usize].name == *name {
            return Some(first);
        }
        self.names.sorted.get(name).copied()
    }

    /// Job numbers after this name, in the order of names.
    pub(super) fn ids_after(&self, name: Option<&JobName>) -> impl Iterator<Item = JobId> + use<'_> {
        let start = name.map_or(Unbounded, Excluded);
        self.names.sorted.range::<JobName, _>((start, Unbounded)).map(|(_, id)| *id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_whose_names_make_one_number_are_told_apart() {
        let mut view = View::new("a".parse().unwrap());
        let [j, k, l] = ["j", "k", "l"].map(|name| name.parse::<JobName>().unwrap());
        let ids = [&j, &k].map(|name| view.intern(name));
        // As if all three names made the number of the first.
        let first = *view.names.by_order.get(&order("a", "j")).unwrap();
        for name in ["k", "l"] {
            view.names.by_order.insert(order("a", name), first);
        }
        assert_eq!([&j, &k].map(|name| view.id(name)), ids.map(Some));
        assert_eq!(view.id(&l), None);
        let third = view.intern(&l);
        assert_eq!([&j, &k, &l].map(|name| view.id(name)), [ids[0], ids[1], third].map(Some));
        assert_eq!(view.ids_after(Some(&j)).collect::<alloc::vec::Vec<_>>(), [ids[1], third]);
    }
}
