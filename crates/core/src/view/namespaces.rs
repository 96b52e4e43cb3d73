//! The view of namespaces, and of how many jobs each holds.

use super::known_entry::{EntryUpdate, newer};
use super::{KnownEntry, View, ViewChanges};
use crate::ids::Namespace;
use crate::keys;
use crate::record::{NamespaceRecord, NamespaceSpec, decode};
use crate::registry::{Change, Guard};
use crate::run_limit::RunLimit;

impl View {
    /// The declared namespaces, by name; `default` is among them only where it was declared.
    pub fn namespaces(&self) -> impl Iterator<Item = &NamespaceSpec> {
        self.namespaces.entries.values().filter_map(|known| known.value.as_ref()?.live())
    }

    /// A declared namespace.
    #[must_use]
    pub fn namespace(&self, name: &Namespace) -> Option<&NamespaceSpec> {
        self.namespaces.entries.get(name)?.value.as_ref()?.live()
    }

    /// Whether jobs may be in a namespace: in `default`, in a declared one, and in one that a later version declared in a
    /// form that this version cannot read.
    #[must_use]
    pub fn has_namespace(&self, name: &Namespace) -> bool {
        let is_unreadable = |known: &KnownEntry<NamespaceRecord>| known.is_unreadable();
        name.is_default()
            || self.namespace(name).is_some()
            || self.namespaces.entries.get(name).is_some_and(is_unreadable)
    }

    /// The known entry of a namespace.
    #[must_use]
    pub fn namespace_entry(&self, name: &Namespace) -> Option<&KnownEntry<NamespaceRecord>> {
        self.namespaces.entries.get(name)
    }

    /// The guard that a namespace's entry is still as this view has it.
    #[must_use]
    pub fn namespace_guard(&self, name: &Namespace) -> Guard {
        let key = keys::namespace(name);
        match self.namespace_entry(name) {
            Some(entry) => entry.guard(key),
            None => Guard::Absent(key),
        }
    }

    /// How many living jobs are in a namespace.
    #[must_use]
    pub fn jobs_in(&self, name: &Namespace) -> usize {
        match name.is_default() {
            true => self.namespaces.in_default,
            false => self.namespaces.jobs.get(name).copied().unwrap_or(0),
        }
    }

    /// How many living jobs are in other namespaces than this one.
    #[must_use]
    pub fn jobs_outside(&self, name: &Namespace) -> usize {
        let all = self.namespaces.in_default + self.namespaces.jobs.values().sum::<usize>();
        all - self.jobs_in(name)
    }

    /// How many calendars are in a namespace.
    #[must_use]
    pub fn calendars_in(&self, name: &Namespace) -> usize {
        self.calendars().filter(|spec| spec.calendar.name.namespace() == name.as_str()).count()
    }

    pub(super) fn absorb_namespace(&mut self, name: Namespace, change: &Change, touched: &mut ViewChanges) {
        let before = self.runs_max(&name);
        match newer(self.namespace_entry(&name).map(|entry| entry.revision), change) {
            EntryUpdate::Stale => return,
            EntryUpdate::Gone(revision) => {
                self.gone.insert(change.key.clone(), revision);
                self.namespaces.entries.remove(&name);
            }
            EntryUpdate::Put(entry) => {
                let record: Option<NamespaceRecord> = decode(&entry.value);
                if record.is_none() {
                    touched.unreadable.push(change.key.clone());
                }
                self.namespaces.entries.insert(name.clone(), KnownEntry::present(record, entry.revision));
            }
        }
        let after = self.runs_max(&name);
        if before.is_some() != after.is_some() {
            self.limit_namespace(&name, after.is_some());
        }
        if before.or(after).is_some() {
            touched.limits.insert(RunLimit::Namespace(name));
        }
        touched.peers = true;
    }
}
