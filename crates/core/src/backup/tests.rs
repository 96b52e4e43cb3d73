//! Backups: which entries are copied, and that no member in them can come to life again.

use super::*;
use crate::ids::Fire;
use crate::namespace::NamespaceSettings;
use crate::record::NamespaceSpec;
use crate::record::{Attempt, PlannedNode, TriggerRequest};
use crate::record::{Planner, ReshardCause, ReshardPending, ShardAssignment, ShardGroup, ShardMap, Sharding};
use crate::shards::ShardSet;
use crate::time::Wall;

fn member(text: &str) -> Member {
    text.parse().unwrap()
}

fn job(name: &str) -> JobName {
    name.parse().unwrap()
}

fn read<T: DeserializeOwned>(entries: &EntryMap, key: &Key) -> T {
    decode(&entries[key]).unwrap()
}

/// One of everything in which a member is named.
fn sample_entries() -> EntryMap {
    let (held, dealt, sent) = (job("held"), job("dealt"), job("sent"));
    let group = ShardGroup { watermark: Wall(5), shards: ShardSet::range(0, 4) };
    let sharding = Sharding {
        leader: Some(member("a@1")),
        reshard_pending: Some(ReshardPending { since: Wall(1), why: ReshardCause::Nodes }),
        run_states: Vec::from([member("a@1"), member("b@2"), member("b@9")]),
        shard_map: ShardMap {
            among: Vec::from([member("a@1"), member("b@2")]),
            assignments: Vec::from([ShardAssignment {
                holder: member("b@2"),
                groups: Vec::from([group.clone()]),
            }]),
            ..ShardMap::default()
        },
        kept: Vec::from([ShardAssignment { holder: member("b@9"), groups: Vec::from([group.clone()]) }]),
    };
    let open = Attempt {
        from: Some(Wall(7)),
        seq: 3,
        back: Wall(6),
        ..Attempt::first(Fire::Due(Wall(7)), Wall(7), member("a@1"))
    };
    let open_shards = Attempt { seq: 8, total: 4, shards: ShardSet::range(0, 2), ..open.clone() };
    let namespace = NamespaceSettings::new("team".parse().unwrap());
    let namespace = NamespaceSpec { namespace, version: 1, last: None };
    let run_state = RunState { watermark: Wall(7), seq: 3, open: [open].into(), ..RunState::default() };
    let shard_lane = ShardRunState {
        seq: 8,
        groups: Vec::from([group]),
        open: Vec::from([open_shards]),
        ..ShardRunState::default()
    };
    let run = |from: Option<Wall>| Attempt {
        seq: 2,
        from,
        choice: Some(PlannedNode { free: 1, planned_for: None }.into()),
        ..Attempt::first(Fire::Due(Wall(7)), Wall(7), member("b@2"))
    };
    let plan = Plan {
        seq: 4,
        planner: Some(Planner { member: member("a@1"), number: 3 }),
        runs: Vec::from([run(None), run(Some(Wall(7)))]),
        ..Plan::default()
    };
    let place = Assignment { owner: Some(member("a@1")), epoch: 4, ..Assignment::default() };
    let switches = NodeSwitches { paused: true, shutdown: Some(2), seq: 1, ..NodeSwitches::default() };
    let untaken = TriggerRequest {
        id: "r".parse().unwrap(),
        at: Wall(1),
        taken: false,
        node: None,
        shards: ShardSet::empty(),
        former: [].into(),
        parameters: crate::job::RunParameters::default(),
        taken_back: None,
    };
    let asked = TriggerRecord {
        requests: Vec::from([TriggerRequest { taken: true, ..untaken.clone() }, untaken]),
        backfills: Vec::new(),
    };
    EntryMap::from([
        (keys::assignment(&held), encode(&place)),
        (keys::run_state(&held), encode(&run_state)),
        (keys::run_state(&job("team/held")), encode(&RunState { open: Vec::new(), ..run_state.clone() })),
        (keys::namespace(&"team".parse().unwrap()), encode(&NamespaceRecord::Live(namespace.into()))),
        (keys::spec(&held), encode(&SpecRecord::Deleted { version: 3 })),
        (keys::triggers(&held), encode(&asked)),
        (
            keys::assignment(&dealt),
            encode(&Assignment { sharding: Some(sharding.into()), ..Assignment::default() }),
        ),
        (keys::shard_run_state(&dealt, &member("b@2")), encode(&shard_lane)),
        (keys::shard_run_state(&dealt, &member("b@9")), encode(&ShardRunState::default())),
        (keys::plan(&sent), encode(&plan)),
        (
            keys::beat(&"dispatch".parse().unwrap()),
            encode(&BeatRecord { beat: 3, holder: member("a@1"), seq: 2 }),
        ),
        (
            keys::serving(),
            encode(&ServingRecord { leader: Some(member("b@2")), epoch: 5, ..ServingRecord::default() }),
        ),
        (keys::lock(&"l".parse().unwrap()), encode(&LockRecord { holder: Some(member("a@1")), seq: 6 })),
        (keys::switches(&"b".parse().unwrap(), &dealt), encode(&switches)),
        (
            keys::intent(&"b".parse().unwrap()),
            encode(&NodeIntent { since: Wall(1), wanted: true, cordoned: true, drained: None, seq: 1 }),
        ),
        (Key::from_stored("of/another/layout"), Value::from(&b"\xff\x00"[..])),
    ])
}

fn named(entries: &EntryMap) -> BTreeSet<Member> {
    let mut named = BTreeSet::new();
    for (key, value) in entries {
        map_members(key, value, &mut |member| {
            named.insert(member.clone());
        });
    }
    named
}

/// proves: I1
#[test]
fn nobody_who_is_carried_can_come_to_life_by_a_lease_of_another_engine() {
    let before = sample_entries();
    let after = retire_members(&before);
    assert_eq!(named(&before).len(), 3);
    let names: Vec<_> = named(&after).iter().map(ToString::to_string).collect();
    assert_eq!(
        names,
        [format!("a@{GONE}"), format!("b@{GONE}"), format!("b@{}", GONE + 1)],
        "three lives stay three lives"
    );
    let text = |entries: &EntryMap| {
        let shown = |(key, value): (&Key, &Value)| format!("{key} {}", String::from_utf8_lossy(value));
        entries.iter().map(shown).collect::<Vec<_>>().join("\n")
    };
    assert!(text(&before).contains("a@1\""), "the test looks for what is there");
    for old in ["a@1\"", "b@2\"", "b@9\"", "/b@2 ", "/b@9 "] {
        assert!(!text(&after).contains(old), "{old} in {}", text(&after));
    }
}

/// proves: I1
#[test]
fn numbers_and_watermarks_stay_as_they_are() {
    let after = retire_members(&sample_entries());
    let run_state: RunState = read(&after, &keys::run_state(&job("held")));
    assert_eq!((run_state.watermark, run_state.seq, run_state.open[0].seq), (Wall(7), 3, 3));
    let b = Member { incarnation: GONE, ..member("b@2") };
    let run_state: ShardRunState = read(&after, &keys::shard_run_state(&job("dealt"), &b));
    assert_eq!((run_state.seq, run_state.groups[0].watermark), (8, Wall(5)));
    let place: Assignment = read(&after, &keys::assignment(&job("dealt")));
    assert_eq!(place.sharding.unwrap().shard_map.assignments[0].holder, b, "it names the lane it belongs to");
    let plan: Plan = read(&after, &keys::plan(&job("sent")));
    assert_eq!((plan.seq, plan.runs.len(), &plan.runs[0].by), (4, 2, &b));
    let switches: NodeSwitches = read(&after, &keys::switches(&b.node, &job("dealt")));
    assert_eq!((switches.paused, switches.shutdown), (true, None), "a life that is over stays over");
    let strange = Key::from_stored("of/another/layout");
    assert_eq!(after[&strange], sample_entries()[&strange], "what cannot be read is not touched");
}

#[test]
fn what_was_carried_once_is_carried_the_same_way_again() {
    let once = retire_members(&sample_entries());
    assert_eq!(retire_members(&sample_entries()), once, "so that a carriage goes on where it stopped");
    assert_eq!(retire_members(&once), once, "the gone keep their numbers");
    let mut moved_on = once.clone();
    let place = Assignment { owner: Some(member("b@1")), epoch: 5, ..Assignment::default() };
    moved_on.insert(keys::assignment(&job("held")), encode(&place));
    let twice = retire_members(&moved_on);
    let place: Assignment = read(&twice, &keys::assignment(&job("held")));
    assert_eq!(place.owner.unwrap().incarnation, GONE + 2, "and nobody gets one that is taken");
}

#[test]
fn what_lives_by_a_lease_and_what_is_said_of_lives_stays_behind() {
    let a: NodeName = "a".parse().unwrap();
    for key in
        [keys::node(&member("a@1")), keys::load(&a), keys::strike(&a, &a), keys::offline(&a), keys::cluster()]
    {
        assert!(!is_copied(&key, None), "{key}");
    }
    assert!(!is_copied(&Key::from_stored("doctor/1"), Some(LeaseId(1))));
    for key in sample_entries().keys() {
        assert!(is_copied(key, None), "{key}");
    }
}

#[test]
fn hot_entries_are_found_by_the_place_of_their_job() {
    let books = sample_entries();
    let mut found = BTreeSet::new();
    for job in books.keys().filter_map(job_of).collect::<BTreeSet<_>>() {
        found.extend(keys_of(&job, books.get(&keys::assignment(&job))));
    }
    for key in books.keys().filter(|key| !key.is_cold()) {
        assert!(found.contains(key), "{key}");
    }
}

#[test]
fn what_is_open_and_how_much_there_is_is_told() {
    let books = sample_entries();
    assert_eq!(open_runs(&books), ["dealt shards 0-1 on b@2", "held on a@1", "sent on b@2"]);
    let told = count_entries(&books);
    let expected = BackupCounts {
        entries: 16,
        jobs: 0,
        deleted: 1,
        marks: 1,
        run_states: 5,
        watermarks: 4,
        open: 3,
        requests: 1,
        calendars: 0,
        namespaces: 1,
        locks: 1,
        drained: Vec::from(["b".parse().unwrap()]),
        cordoned: Vec::from(["b".parse().unwrap()]),
        unreadable: Vec::new(),
    };
    assert_eq!(told, expected);
    for key in
        [keys::run_state(&job("j")), keys::plan(&job("j")), keys::shard_run_state(&job("j"), &member("a@1"))]
    {
        let strange = EntryMap::from([(key.clone(), Value::from(&b"?"[..]))]);
        assert_eq!(open_runs(&strange), [format!("{key}, which this version cannot read")]);
    }
    let broken = EntryMap::from([(keys::assignment(&job("j")), Value::from(&b"?"[..]))]);
    assert_eq!(count_entries(&broken).unreadable, ["job/j/assignment"]);
    assert_eq!(too_large(&broken, 0), [("job/j/assignment".to_owned(), 1)]);
    assert!(too_large(&books, 1 << 20).is_empty());
}
