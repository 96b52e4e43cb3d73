//! Finding a job by its name.

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
        self.names.sorted.get(&self.jobs, name)
    }

    /// Job numbers after this name, in the order of names.
    pub(super) fn ids_after(&self, name: Option<&JobName>) -> impl Iterator<Item = JobId> + use<'_> {
        self.names.sorted.after(&self.jobs, name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_in_the_order_of_their_names_however_they_came() {
        for step in [1, 7, 1_999] {
            let mut view = View::new("a".parse().unwrap());
            let name = |n: usize| alloc::format!("j{n:04}").parse::<JobName>().unwrap();
            let order: alloc::vec::Vec<usize> = (0..2_000).map(|n| n * step % 2_000).collect();
            let ids: alloc::collections::BTreeMap<usize, JobId> =
                order.iter().map(|n| (*n, view.intern(&name(*n)))).collect();
            let all: alloc::vec::Vec<JobId> = ids.values().copied().collect();
            for first in [0, 1, 255, 256, 511, 512, 513, 1_998, 1_999] {
                let after: alloc::vec::Vec<_> = view.ids_after(Some(&name(first))).collect();
                assert_eq!(after, all[first + 1..], "after {first}");
            }
            assert!(view.ids_after(None).eq(all.iter().copied()));
            assert!(view.ids_after(Some(&"a".parse().unwrap())).eq(all.iter().copied()));
            assert_eq!(view.ids_after(Some(&"k".parse().unwrap())).count(), 0);
            assert!((0..2_000).all(|n| view.names.sorted.get(&view.jobs, &name(n)) == Some(ids[&n])));
            assert_eq!(view.names.sorted.get(&view.jobs, &"j".parse().unwrap()), None);
        }
    }

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
