//! Trees of jobs in many states, entry by entry in the source's format.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_core::ids::{Fire, Member, NodeName, Shard};
use evenkeel_core::job::{CatchUp, Dataflow, Delivery, Job, JobFile, Placement, Program, Spec, Work};
use evenkeel_core::labels::Labels;
use evenkeel_core::record::{
    Attempt, MemberInfo, NodeSwitches, ProcessedItems, ReshardCause, ReshardPending, ShardAssignment,
    ShardGroup, ShardMap, ShardRunState, Sharding, TriggerRecord, TriggerRequest,
};
use evenkeel_core::sharding_strategy::ShardingStrategy;
use evenkeel_core::shards::ShardSet;
use evenkeel_core::time::Wall;

use super::{CompatEntryKind, CompatFormat, CompatJob, render, text};

mod runs;
mod states;
mod switches;
mod whole;

/// A moment at which the schedule is due.
const T: i64 = 1_795_259_680_000;

fn member(text: &str) -> Member {
    text.parse().unwrap()
}

fn node(name: &str) -> NodeName {
    name.parse().unwrap()
}

fn shards(text: &str) -> ShardSet {
    text.parse().unwrap()
}

fn info(address: &str) -> MemberInfo {
    MemberInfo {
        address: address.into(),
        home: "/opt".into(),
        slots: 64,
        tolerance: 1,
        alarm: 100,
        version: "1".into(),
        labels: Labels::default(),
        lacking: String::new(),
        knows: 1,
    }
}

/// A declared job of three shards, on two online nodes before their first election.
fn declared() -> CompatJob {
    let mut job = JobFile::new("phase".parse().unwrap(), "0/10 * * * * ?", Work::Function("demo".into()));
    job.placement = Placement::Sharded;
    job.shards = 3;
    job.delivery = Delivery::AtLeastOnce;
    CompatJob {
        spec: Spec::new(Job::parse(job).expect("a valid job"), 1, Wall(T - 60_000)),
        calendars: Some(evenkeel_core::schedule::CalendarFilter::default()),
        sharding: Sharding::default(),
        run_states: BTreeMap::new(),
        members: [(member("a@6684"), info("10.9.0.1:7700")), (member("b@8176"), info("10.9.0.2:7700"))]
            .into(),
        switches: BTreeMap::new(),
        drained: BTreeSet::new(),
        counts: BTreeMap::new(),
        triggers: TriggerRecord::default(),
        now: Wall(T),
    }
}

impl CompatJob {
    fn reshard_pending(mut self, why: ReshardCause) -> Self {
        self.sharding.reshard_pending = Some(ReshardPending { since: self.now, why });
        self
    }

    /// Assigns shards, all with the same watermark; run states start empty except for their times.
    fn deal(mut self, watermark: i64, assignments: &[(&str, &str)]) -> Self {
        let assignment = |(holder, its): &(&str, &str)| {
            let group = ShardGroup { watermark: Wall(watermark), shards: shards(its) };
            ShardAssignment {
                holder: member(holder),
                groups: Vec::from_iter((!its.is_empty()).then_some(group)),
            }
        };
        let assignments: Vec<ShardAssignment> = assignments.iter().map(assignment).collect();
        self.sharding.leader = Some(member("a@6684"));
        self.sharding.reshard_pending = None;
        self.sharding.run_states = assignments.iter().map(|p| p.holder.clone()).collect();
        self.sharding.shard_map = ShardMap {
            number: 7,
            total: self.spec.job.placement.shards(),
            among: self.sharding.run_states.clone(),
            assignments: assignments.iter().filter(|p| !p.groups.is_empty()).cloned().collect(),
            ..ShardMap::default()
        };
        let before = std::mem::take(&mut self.run_states);
        let run_state = |p: ShardAssignment| {
            let old = before.get(&p.holder).cloned().unwrap_or_default();
            (p.holder, ShardRunState { map_number: 7, groups: p.groups, ..old })
        };
        self.run_states = assignments.into_iter().map(run_state).collect();
        self
    }

    fn run_state(&mut self, holder: &str) -> &mut ShardRunState {
        self.run_states.get_mut(&member(holder)).unwrap()
    }

    /// Claims the fire of a moment, which starts then.
    fn claims(mut self, holder: &str, due: i64, its: &str) -> Self {
        let run_state = self.run_state(holder);
        let back = run_state.groups[0].watermark;
        run_state.set_watermark(&shards(its), Wall(due));
        run_state.add_open(open(due, back, its));
        run_state.began = Some(Wall(due));
        self
    }

    fn ends(mut self, holder: &str, at: i64, its: &str) -> Self {
        let run_state = self.run_state(holder);
        run_state.close(&shards(its));
        run_state.ended = Some(Wall(at));
        self
    }

    fn at(mut self, now: i64) -> Self {
        self.now = Wall(now);
        self
    }

    fn dies(mut self, holder: &str) -> Self {
        self.members.remove(&member(holder));
        self
    }

    fn switched(mut self, name: &str, change: impl FnOnce(&mut NodeSwitches)) -> Self {
        change(self.switches.entry(node(name)).or_default());
        self
    }

    /// Two nodes with their shards, before the first fire.
    fn reshard() -> Self {
        declared().deal(i64::MIN, &[("a@6684", "0-1"), ("b@8176", "2")])
    }

    /// The same, half a second after the first fire started.
    fn running() -> Self {
        Self::reshard().claims("a@6684", T, "0-1").claims("b@8176", T, "2").at(T + 500)
    }

    /// The same, after that fire.
    fn idle() -> Self {
        Self::running().ends("a@6684", T + 900, "0-1").ends("b@8176", T + 800, "2").at(T + 2_000)
    }

    /// Node b has died during its run.
    fn crashed() -> Self {
        Self::running().dies("b@8176").at(T + 3_000)
    }

    /// Node a has taken its shard over.
    fn taken() -> Self {
        let mut seen = Self::crashed().ends("a@6684", T + 900, "0-1");
        let (left, own) = (seen.run_states[&member("b@8176")].open[0].clone(), shards("2"));
        seen.run_state("b@8176").remove(&own);
        seen.run_state("a@6684").set_watermark(&own, Wall(T));
        seen.run_state("a@6684").add_open(Attempt {
            attempt: 2,
            from: Some(Wall(T + 2_500)),
            seq: 9,
            ..left
        });
        seen.run_state("a@6684").began = Some(Wall(T + 2_500));
        seen
    }
}

fn open(due: i64, back: Wall, its: &str) -> Attempt {
    let due = Wall(due);
    let first = Attempt::first(Fire::Due(due), due, member("a@6684"));
    Attempt { from: Some(due), back, seq: 1, total: 4, shards: shards(its), ..first }
}

/// The tree without the settings, which do not depend on runs.
fn shown(form: CompatFormat, seen: &CompatJob) -> String {
    let mut entries = render(form, seen);
    entries.retain(|entry| !entry.path.contains("/phase/config"));
    text(&entries)
}

/// The entries whose path below the job begins like this, without the beginning.
fn below(form: CompatFormat, seen: &CompatJob, start: &str) -> Vec<(String, CompatEntryKind, String)> {
    let start = format!("/evenkeel/phase/{start}");
    let found = render(form, seen).into_iter().filter_map(|entry| {
        let path = entry.path.strip_prefix(&start)?.to_owned();
        Some((path, entry.kind, entry.value))
    });
    found.filter(|(path, ..)| !path.is_empty()).collect()
}

/// The value of one entry; `None` when there is none.
fn value(form: CompatFormat, seen: &CompatJob, path: &str) -> Option<String> {
    let path = format!("/evenkeel/phase/{path}");
    render(form, seen).into_iter().find(|entry| entry.path == path).map(|entry| entry.value)
}

const ONE: CompatFormat = CompatFormat::ElasticJob1;
const THREE: CompatFormat = CompatFormat::ElasticJob3;

#[test]
fn a_tree_is_a_tree() {
    for seen in [
        declared(),
        CompatJob::reshard(),
        CompatJob::running(),
        CompatJob::idle(),
        CompatJob::crashed(),
        CompatJob::taken(),
    ] {
        for form in [ONE, THREE] {
            let entries = render(form, &seen);
            let paths: BTreeSet<&str> = entries.iter().map(|entry| entry.path.as_str()).collect();
            assert_eq!(paths.len(), entries.len(), "no path twice");
            for path in &paths {
                let parent = path.rsplit_once('/').unwrap().0;
                assert!(parent == "/evenkeel" || paths.contains(parent), "{path} hangs in the air");
            }
        }
    }
    let mut many = declared();
    many.spec.job = many.spec.job.changed(|job| job.shards = 11).expect("a valid job");
    let many = many.deal(T, &[("a@6684", "0-10")]);
    let last = below(ONE, &many, "execution/").into_iter().rfind(|(path, ..)| !path.contains('/'));
    assert_eq!(last.unwrap().0, Shard(10).to_string(), "shards are counted, not spelt");
}

#[test]
fn a_form_is_known_by_its_name_or_refused_with_all_names() {
    assert_eq!("elasticjob-1".parse(), Ok(ONE));
    assert_eq!("elasticjob-3".parse(), Ok(THREE));
    let refused = "elasticjob-2".parse::<CompatFormat>().unwrap_err();
    assert_eq!(
        refused,
        "no tree has the form \"elasticjob-2\": use one of elasticjob-1, elasticjob-3, siatask, keeper, azkaban"
    );
}

#[test]
fn no_escape_sequence_of_a_description_reaches_a_terminal() {
    let mut seen = declared();
    seen.spec.job =
        seen.spec.job.changed(|job| job.description = "a\u{1b}[31mb\nc".into()).expect("a valid job");
    let shown = text(&render(ONE, &seen));
    assert!(shown.contains("config/description  [P] = |\n        a [31mb\n        c\n"), "{shown}");
}
