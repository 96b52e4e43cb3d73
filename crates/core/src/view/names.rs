//! Finding a job by its name.

use alloc::boxed::Box;
use alloc::format;

use super::name_index::order;
use super::{JobId, View};
use crate::ids::{JobName, Namespace};
use crate::job::Spec;
use crate::record::SpecRecord;
use crate::registry::Revision;

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

    /// The jobs whose entries have no valid seal: the name, what the entry says, and when it was written.
    pub fn unsealed(&self) -> impl Iterator<Item = (&JobName, Box<Spec>, Revision)> {
        self.unsealed.iter().filter_map(|id| {
            let job = self.job(*id);
            match job.spec_record() {
                Some(SpecRecord::Unsealed(spec)) => {
                    Some((&self.jobs[id.0 as usize].name, spec, job.spec_revision()))
                }
                _ => None,
            }
        })
    }

    /// Whether the entry of a job of this name has no valid seal.
    #[must_use]
    pub fn is_unsealed(&self, name: &JobName) -> bool {
        self.id(name).is_some_and(|id| self.unsealed.contains(&id))
    }

    /// Job numbers after this name, in the order of names.
    pub(super) fn ids_after(&self, name: Option<&JobName>) -> impl Iterator<Item = JobId> + use<'_> {
        self.names.sorted.after(&self.jobs, name.map(JobName::as_str))
    }

    /// The same of one namespace. The names of other namespaces are passed over, however many there are.
    pub(super) fn ids_in<'a>(
        &'a self,
        namespace: &Namespace,
        name: Option<&JobName>,
    ) -> impl Iterator<Item = JobId> + use<'a> {
        let after = |text: Option<&str>| self.names.sorted.after(&self.jobs, text);
        let name = name.map(JobName::as_str);
        let prefix = (!namespace.is_default()).then(|| format!("{namespace}/"));
        // A prefix comes before each name that begins with it.
        let mut ids = after(name.max(prefix.as_deref()));
        core::iter::from_fn(move || {
            loop {
                let id = ids.next()?;
                let name = self.jobs[id.0 as usize].name.as_str();
                match (&prefix, name.split_once('/')) {
                    (Some(prefix), _) => return name.starts_with(prefix).then_some(id),
                    (None, None) => return Some(id),
                    // No name holds a character as late as this one.
                    (None, Some((other, _))) => ids = after(Some(&format!("{other}/\u{7f}"))),
                }
            }
        })
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
    fn a_namespace_has_its_own_names_in_order() {
        let mut view = View::new("a".parse().unwrap());
        let names = [
            "a", "a-b", "a.b", "a/1", "a/2", "a0", "a/z", "b/1", "b", "c-", "c/1", "c/2", "c/3", "c0", "d/1",
        ];
        for name in names.into_iter().rev() {
            view.intern(&name.parse().unwrap());
        }
        let named = |namespace: &str, after: Option<&str>| {
            let after = after.map(|name| name.parse().unwrap());
            let ids = view.ids_in(&namespace.parse().unwrap(), after.as_ref());
            ids.map(|id| view.job(id).name().as_str()).collect::<alloc::vec::Vec<_>>()
        };
        assert_eq!(named("default", None), ["a", "a-b", "a.b", "a0", "b", "c-", "c0"]);
        assert_eq!(named("default", Some("a.b")), ["a0", "b", "c-", "c0"]);
        assert_eq!(named("a", None), ["a/1", "a/2", "a/z"]);
        assert_eq!(named("a", Some("a/1")), ["a/2", "a/z"]);
        assert_eq!(named("c", Some("b")), ["c/1", "c/2", "c/3"]);
        assert_eq!(named("c", Some("c/3")), [""; 0]);
        assert_eq!(named("d", None), ["d/1"]);
        assert_eq!(named("z", None), [""; 0]);
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
