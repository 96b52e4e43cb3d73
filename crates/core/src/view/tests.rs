//! The view under changes of every kind: whatever the order, whatever comes twice, it ends where the registry is.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use alloc::{format, vec};
use proptest::prelude::*;

use super::*;
use crate::job::{Job, JobFile, Spec, Work};
use crate::keys;
use crate::record::{Assignment, MemberInfo, SpecRecord, encode};
use crate::registry::{Change, ChangeBatch, Txn, Value, Write};
use crate::store::Store;
use crate::time::{Millis, Wall};

fn member(n: u64) -> Member {
    format!("n{}@{n}", n % 3).parse().unwrap()
}

fn job(n: u8) -> JobName {
    format!("j{n}").parse().unwrap()
}

fn put(key: Key, value: Value) -> Write {
    Write::Put { key, value, owner: None }
}

fn info() -> Value {
    let text = String::new;
    encode(&MemberInfo {
        address: text(),
        home: text(),
        slots: 1,
        tolerance: 1,
        alarm: 1,
        version: text(),
        labels: crate::labels::Labels::default(),
        lacking: alloc::string::String::new(),
        knows: 1,
    })
}

fn spec(n: u8, enabled: bool, version: u64) -> Value {
    let mut declared = JobFile::new(job(n), "@every 60s", Work::Function("f".to_string()));
    declared.enabled = enabled;
    encode(&SpecRecord::Live(Box::new(Spec::new(Job::parse(declared).unwrap(), version, Wall(0)))))
}

/// One thing that happens to the registry.
#[derive(Clone, Debug)]
enum RegistryStep {
    Join(u64),
    Die(u64),
    Declare(u8, bool),
    Delete(u8),
    Hold(u8, Option<u64>),
    Drain(u64, bool),
}

fn registry_step() -> impl Strategy<Value = RegistryStep> {
    prop_oneof![
        (0..6_u64).prop_map(RegistryStep::Join),
        (0..6_u64).prop_map(RegistryStep::Die),
        (0..4_u8, any::<bool>()).prop_map(|(j, on)| RegistryStep::Declare(j, on)),
        (0..4_u8).prop_map(RegistryStep::Delete),
        (0..4_u8, proptest::option::of(0..6_u64)).prop_map(|(j, m)| RegistryStep::Hold(j, m)),
        (0..3_u64, any::<bool>()).prop_map(|(n, on)| RegistryStep::Drain(n, on)),
    ]
}

fn perform(store: &mut Store, version: u64, act: &RegistryStep) {
    let intent = |n: u64| keys::intent(&member(n).node);
    let write = match *act {
        RegistryStep::Join(m) => put(keys::node(&member(m)), info()),
        RegistryStep::Die(m) => Write::Delete { key: keys::node(&member(m)) },
        RegistryStep::Declare(j, on) => put(keys::spec(&job(j)), spec(j, on, version)),
        RegistryStep::Delete(j) => put(keys::spec(&job(j)), encode(&SpecRecord::Deleted { version })),
        RegistryStep::Hold(j, m) => {
            let place =
                Assignment { owner: m.map(member), epoch: version + 3, version: 0, ..Assignment::default() };
            put(keys::assignment(&job(j)), encode(&place))
        }
        RegistryStep::Drain(n, wanted) => {
            put(intent(n), encode(&NodeIntent { wanted, seq: version, ..NodeIntent::default() }))
        }
    };
    store.commit(Mono(0), &Txn { guards: vec![], writes: vec![write] });
}

/// Everything visible of a view, indexes included.
fn face(view: &View) -> String {
    let members: Vec<_> = view.members().map(|(m, _)| m.to_string()).collect();
    let dead: Vec<_> = view.dead().map(|(m, _)| m.to_string()).collect();
    let mut free: Vec<_> = view.free().map(|id| view.job(id).name().to_string()).collect();
    free.sort();
    let jobs: Vec<_> = view
        .page(None, 100)
        .map(|j| format!("{} {} {:?}", j.name(), j.is_enabled(), j.owner().map(ToString::to_string)))
        .collect();
    let counts: Vec<_> = (0..6).map(|m| view.count(&member(m))).collect();
    let intents: Vec<_> = (0..3).map(|n| view.intent(&member(n).node).is_some()).collect();
    format!("{members:?} dead {dead:?} free {free:?} {jobs:?} {counts:?} {intents:?} K={}", view.enabled())
}

fn fresh(store: &Store) -> View {
    let mut view = View::new("n0".parse().unwrap());
    view.list(Mono(0), &store.list());
    view
}

proptest! {
    /// proves: S1-84, S1-86, S1-90, I37
    #[test]
    fn lost_order_and_repetition_do_not_matter(
        acts in proptest::collection::vec(registry_step(), 1..40),
        listed_at in 0..40_usize,
        shuffle in proptest::collection::vec(any::<prop::sample::Index>(), 0..120),
    ) {
        let mut store = Store::default();
        let mut view = View::new("n0".parse().unwrap());
        let mut news: Vec<Change> = Vec::new();
        for (n, act) in acts.iter().enumerate() {
            if n == listed_at.min(acts.len() - 1) {
                view.list(Mono(0), &store.list());
            }
            let before = store.revision();
            perform(&mut store, n as u64 + 1, act);
            news.extend(store.changes_after(before).unwrap().changes);
        }
        // Some changes come early, some twice, then all of them in reverse.
        for index in shuffle {
            if !news.is_empty() {
                view.absorb_change(Mono(1), &[news[index.index(news.len())].clone()]);
            }
        }
        news.reverse();
        view.absorb_change(Mono(2), &news);
        prop_assert_eq!(face(&view), face(&fresh(&store)));
    }

    /// proves: S1-83, S1-84, I37
    #[test]
    fn a_listing_makes_up_for_everything_that_was_never_heard(
        acts in proptest::collection::vec(registry_step(), 1..40),
        heard in proptest::collection::vec(any::<bool>(), 40),
    ) {
        let mut store = Store::default();
        let mut view = fresh(&store);
        for (n, act) in acts.iter().enumerate() {
            let before = store.revision();
            perform(&mut store, n as u64 + 1, act);
            if heard[n] {
                view.absorb_change(Mono(1), &store.changes_after(before).unwrap().changes);
            }
        }
        view.list(Mono(2), &store.list());
        prop_assert_eq!(face(&view), face(&fresh(&store)));
    }
}

#[test]
fn news_from_before_a_listing_brings_nobody_back() {
    let mut store = Store::default();
    perform(&mut store, 1, &RegistryStep::Join(1));
    let joined = store.changes_after(Revision(0)).unwrap();
    perform(&mut store, 2, &RegistryStep::Die(1));
    let mut view = fresh(&store);
    let touched = view.absorb_change(Mono(1), &joined.changes);
    assert_eq!((view.nodes(), touched), (0, ViewChanges::default()));
}

/// proves: S1-89, I37
#[test]
fn the_jobs_of_a_holder_that_is_gone_are_known_at_once() {
    let mut store = Store::default();
    for (n, act) in [
        RegistryStep::Join(1),
        RegistryStep::Declare(0, true),
        RegistryStep::Hold(0, Some(1)),
        RegistryStep::Die(1),
    ]
    .iter()
    .enumerate()
    {
        perform(&mut store, n as u64 + 1, act);
    }
    let view = fresh(&store);
    assert_eq!(view.dead().map(|(m, _)| m.clone()).collect::<Vec<_>>(), [member(1)]);
    assert_eq!(view.owned(&member(1)).count(), 1);
}

#[test]
fn half_of_a_change_is_known_for_what_it_is() {
    let mut view = View::new("n0".parse().unwrap());
    let mut store = Store::default();
    let place =
        |version| encode(&Assignment { owner: None, epoch: version, version, ..Assignment::default() });
    let mut declare = |version| {
        let writes = vec![
            put(keys::spec(&job(0)), spec(0, true, version)),
            put(keys::assignment(&job(0)), place(version)),
        ];
        store.commit(Mono(0), &Txn { guards: vec![], writes });
        store.changes_after(Revision(version - 1)).unwrap().changes
    };
    let (first, second) = (declare(1), declare(2));
    let whole = |view: &View| view.job(view.id(&job(0)).unwrap()).is_consistent();
    view.absorb_change(Mono(0), &first[..2]);
    assert!(whole(&view));
    // The assignment alone, as a refused commit shows it.
    view.absorb_change(Mono(0), &second[1..]);
    assert!(!whole(&view));
    view.absorb_change(Mono(0), &second[..1]);
    assert!(whole(&view));
}

#[test]
fn an_unreadable_entry_is_named_and_left_alone() {
    let mut view = View::new("n0".parse().unwrap());
    let mut store = Store::default();
    let junk = || Value::from(&b"{\"live\":"[..]);
    for key in [keys::spec(&job(0)), keys::assignment(&job(1)), keys::node(&member(1))] {
        store.commit(Mono(0), &Txn { guards: vec![], writes: vec![put(key, junk())] });
    }
    let touched = view.list(Mono(0), &store.list());
    assert_eq!(touched.unreadable.len(), 3);
    assert_eq!((view.enabled(), view.nodes(), view.free().count()), (0, 0, 0));
}

#[test]
fn a_batch_of_hot_keys_is_heard_whatever_was_listed() {
    let mut view = View::new("n0".parse().unwrap());
    view.list(Mono(0), &ChangeBatch { changes: vec![], revision: Revision(100) });
    let run_state = RunState { watermark: Wall(5), seq: 1, ..RunState::default() };
    let entry = crate::registry::Entry {
        value: encode(&run_state),
        revision: Revision(7),
        born: Revision(7),
        owner: None,
    };
    let change = Change { key: keys::run_state(&job(0)), entry: Some(entry), revision: Revision(120) };
    view.absorb_change(Mono(0) + Millis(1), &[change]);
    let id = view.id(&job(0)).unwrap();
    assert_eq!(view.job(id).held().and_then(OwnedJob::record), Some(&run_state));
}

/// proves: S4-32
#[test]
fn a_listing_touches_exactly_what_has_changed_since() {
    let mut store = Store::default();
    let jobs: Vec<JobName> = (0..20).map(|n| alloc::format!("j{n}").parse().unwrap()).collect();
    let put = |store: &mut Store, job: &JobName, version: u64| {
        let record = SpecRecord::Deleted { version };
        let writes = [Write::Put { key: keys::spec(job), value: encode(&record), owner: None }];
        store.commit(Mono(0), &Txn { guards: [].into(), writes: writes.into() });
    };
    jobs.iter().for_each(|job| put(&mut store, job, 1));
    let mut view = fresh(&store);
    assert!(view.list(Mono(1), &store.list()).jobs.is_empty(), "nothing has changed");
    put(&mut store, &jobs[3], 2);
    put(&mut store, &jobs[11], 2);
    let changed = [3, 11].map(|n: usize| view.id(&jobs[n]).unwrap());
    let touched = view.list(Mono(2), &store.list());
    assert_eq!(touched.jobs, changed.into_iter().collect());
}
