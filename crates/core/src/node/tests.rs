//! Nodes over one store, in virtual time, without faults: what a day looks like. The simulator adds the faults.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::*;
use crate::commit_kind::CommitKind;
use crate::effect::{Run, StopReason, Ticket, Verdict};
use crate::ids::{NodeName, RunId};
use crate::input::{
    Answer, ApplyResult, ClusterSetting, Command, CommandId, LeaseEvent, OfferAnswer, Refusal, RunEvent,
    RunOptions, RunOutcome,
};
use crate::job::{Job, JobFile, Retry, Work};
use crate::keys::{self, ParsedKey};
use crate::registry::{ChangeBatch, DurabilityClass, LeaseGrant, Revision, Txn, TxnOutcome};
use crate::store::Store;
use crate::time::Wall;

mod after_completion;
mod alarms;
mod backfill;
mod balance;
mod batched_inputs;
mod broadcast;
mod calendars;
mod cancellation;
mod claim_lead;
mod claiming;
mod cluster;
mod concurrency;
mod cordoned;
mod dataflow;
mod declared;
mod declared_again;
mod dispatched;
mod drained;
mod fairness;
mod handoff;
mod health;
mod labels;
mod large_fleets;
mod layouts;
mod lead;
mod listing;
mod loads;
mod migrated;
mod misfire;
mod namespaces;
mod no_node;
mod notifications;
mod overlap;
mod ownership;
mod parameters;
mod pause_after_failures;
mod pools;
mod preconditions;
mod principals;
mod priority;
mod registry_rollback;
mod retries;
mod rights;
mod run_timeout;
mod secrets;
mod sharded;
mod slot_reuse;
mod switched;
mod unanswered;
mod unsealed;

struct TestNode {
    node: Node,
    wake: Option<Mono>,
    heard: Revision,
    watching: bool,
}

/// A test cluster in which every effect is carried out at once.
#[derive(Default)]
struct TestCluster {
    now: i64,
    store: Store,
    actors: BTreeMap<NodeName, TestNode>,
    starts: Vec<(String, Run)>,
    /// When each of these was.
    started: Vec<i64>,
    answers: Vec<Answer>,
    events: Vec<String>,
    /// How long runs take.
    takes: i64,
    ends: Vec<(i64, NodeName, Run)>,
    /// Runs whose end was asked for, and when they will have ended.
    stops: Vec<(i64, NodeName, Run, StopReason)>,
    /// How many attempts of each run fail, with exit code 1.
    fails: u32,
    /// The verdicts given to the history.
    recorded: Vec<Verdict>,
    /// By how much every node's time of day is ahead of the registry's.
    skew: i64,
    /// When run states and other entries were read.
    reads: Vec<i64>,
    /// Which node read the loads of others, and when.
    load_reads: Vec<(String, i64)>,
    /// How many of the next reads of loads fail.
    failing_load_reads: u32,
    /// The probes: sender and target.
    probes: Vec<(String, String)>,
    /// Whether answers to probes are held back.
    holds_probes: bool,
    /// The probes of which that is so.
    unanswered: Vec<(NodeName, Member)>,
    /// To whom which run was offered.
    offers: Vec<(String, String)>,
    /// The pairs of nodes that cannot reach each other by HTTP.
    cuts: BTreeSet<(String, String)>,
    /// Whether the registry answers no more, and keeps the commits that it gets.
    silent: bool,
    /// How long commits take to be applied.
    delay: i64,
    /// The most operations in one transaction, if not [`OPERATIONS_MAX`].
    operations_max: Option<usize>,
    commits: Vec<(i64, NodeName, Ticket, Txn)>,
}

/// The most guards and writes that the registry takes in one transaction, as etcd does.
const OPERATIONS_MAX: usize = 128;
/// How long a run takes to end after it was asked to.
const STOPPING: i64 = 200;

fn settings(name: &str) -> Settings {
    Settings {
        name: name.parse().unwrap(),
        predecessor: None,
        address: name.to_string(),
        home: String::new(),
        version: String::new(),
        ttl: Millis(4_000),
        tolerance: 1,
        alarm: 100,
        slots: 100,
        labels: crate::labels::Labels::default(),
        lacking: alloc::string::String::new(),
        spread: Spread::Even,
        quota: Quota::Now,
        lead_max: Millis(1_000),
        lead_min: Millis(1_000),
        max_clock_skew: Millis(500),
        rescan: Millis(60_000),
        early: Millis(0),
        notice: Millis(0),
        operations_max: OPERATIONS_MAX,
        class: DurabilityClass::A,
        generation: 1,
        knows: crate::record::Layouts::OWN,
    }
}

fn job(name: &str, schedule: &str) -> JobFile {
    JobFile::new(name.parse().unwrap(), schedule, Work::Command(["true".to_string()].into()))
}

impl TestCluster {
    fn with(names: &[&str]) -> Self {
        let mut world = Self::default();
        names.iter().for_each(|name| world.add(settings(name)));
        world
    }

    fn add(&mut self, settings: Settings) {
        self.add_with(settings, rules::ALL);
    }

    fn add_with(&mut self, settings: Settings, rules: &'static [Rule]) {
        let name = settings.name.clone();
        let node = Node::with_rules(settings, rules);
        let actor = TestNode { node, wake: None, heard: Revision(0), watching: false };
        self.actors.insert(name.clone(), actor);
        self.give(&name, Input::Tick);
    }

    fn clock(&self) -> Now {
        Now { mono: Mono(self.now), wall: Wall(self.now + self.skew) }
    }

    fn send_command(&mut self, name: &str, command: Command) -> Answer {
        self.answers.clear();
        self.give(&name.parse().unwrap(), Input::Asked(CommandId(1), command));
        self.run(50);
        self.answers.pop().unwrap()
    }

    fn give(&mut self, name: &NodeName, input: Input) {
        let now = self.clock();
        let mut inputs = Vec::from([input]);
        while let Some(input) = inputs.pop() {
            let Some(actor) = self.actors.get_mut(name) else { return };
            let mut effects = Vec::new();
            actor.wake = actor.node.step(now, input, &mut effects).map(|w| w.at);
            let overlooked = actor.node.overlooked(now);
            assert!(overlooked.is_empty(), "overlooked {overlooked:?}");
            let view = actor.node.view();
            assert_eq!(view.awaiting_permit(), view.awaiting_permit_recounted());
            for effect in effects {
                inputs.extend(self.carry_out(name, effect));
            }
        }
    }

    fn carry_out(&mut self, name: &NodeName, effect: Effect) -> Option<Input> {
        let mono = Mono(self.now);
        let granted = |store: &Store, lease| LeaseGrant {
            lease,
            ttl: Millis(4_000),
            clock: Some(Wall(mono.0)),
            next_end: store.next_end().map(|end| end - mono),
        };
        Some(match effect {
            Effect::Open { .. } | Effect::Renew(_) if self.silent => return None,
            Effect::List if self.silent => Input::Listed(None),
            Effect::Commit { ticket, txn, .. } if self.silent => {
                self.commits.push((i64::MAX, name.clone(), ticket, txn));
                return None;
            }
            Effect::Open { ttl } => {
                let lease = self.store.open(mono, ttl);
                Input::Lease(LeaseEvent::Opened { asked: mono, granted: granted(&self.store, lease) })
            }
            Effect::Renew(lease) if self.store.renew(mono, lease) => {
                Input::Lease(LeaseEvent::Renewed { asked: mono, granted: granted(&self.store, lease) })
            }
            Effect::Renew(lease) => Input::Lease(LeaseEvent::Gone(lease)),
            Effect::Close(lease) => {
                self.store.close(lease);
                return None;
            }
            Effect::List => {
                let actor = self.actors.get_mut(name)?;
                (actor.heard, actor.watching) = (self.store.revision(), true);
                Input::Listed(Some(self.store.list()))
            }
            Effect::Read(keys) => {
                if keys.iter().any(|key| matches!(keys::parse(key), Some(ParsedKey::Load(_)))) {
                    self.load_reads.push((name.to_string(), self.now));
                    if self.failing_load_reads > 0 {
                        self.failing_load_reads -= 1;
                        return Some(Input::Read(None));
                    }
                }
                self.reads.push(self.now);
                Input::Read(Some(self.store.read(&keys)))
            }
            Effect::Commit { ticket, txn, .. } if self.delay > 0 => {
                self.commits.push((self.now + self.delay, name.clone(), ticket, txn));
                return None;
            }
            Effect::Commit { ticket, txn, .. } => Input::Committed { ticket, outcome: self.commit(&txn) },
            Effect::Start(run) => {
                self.starts.push((name.to_string(), run.clone()));
                self.started.push(self.now);
                self.ends.push((self.now + self.takes, name.clone(), run));
                return None;
            }
            Effect::Record(verdict) => {
                self.recorded.push(verdict.clone());
                Input::Recorded { run: verdict.run, attempt: verdict.attempt }
            }
            Effect::Announce(event) => {
                self.events.push(event.to_string());
                return None;
            }
            Effect::Answer(_, answer) => {
                self.answers.push(answer);
                return None;
            }
            Effect::Stop(run, reason) => {
                let told = |(_, on, going): &mut (i64, NodeName, Run)| on == name && going.id == run;
                let ends: Vec<_> = self.ends.extract_if(.., told).collect();
                let at = self.now + STOPPING;
                self.stops.extend(ends.into_iter().map(|(_, name, run)| (at, name, run, reason)));
                return None;
            }
            Effect::Probe { to, .. } => {
                let answer = self.reached(name, &to).map(|actor| actor.node.role(mono));
                self.probes.push((name.to_string(), to.node.to_string()));
                if self.holds_probes {
                    self.unanswered.push((name.clone(), to));
                    return None;
                }
                Input::Probed { member: to, asked: mono, answer }
            }
            Effect::Offer { to, runs, .. } => {
                let ids: Vec<RunId> = runs.iter().map(|offer| offer.run.clone()).collect();
                let answer = if self.reached(name, &to).is_some() {
                    self.offers.extend(ids.iter().map(|run| (to.node.to_string(), run.to_string())));
                    self.give(&to.node, Input::Asked(CommandId(u64::MAX), Command::Offer(runs)));
                    match self.answers.pop() {
                        Some(Answer::Busy(busy)) => OfferAnswer::Taken { busy },
                        other => panic!("an offer was answered with {other:?}"),
                    }
                } else {
                    OfferAnswer::Unreachable
                };
                Input::Offered { to, runs: ids, answer }
            }
        })
    }

    fn commit(&mut self, txn: &Txn) -> TxnOutcome {
        let twice = |(at, guard)| txn.guards[..at].contains(guard);
        assert!(!txn.guards.iter().enumerate().any(twice), "a guard that stands there twice: {txn:?}");
        if txn.guards.len() + txn.writes.len() > self.operations_max.unwrap_or(OPERATIONS_MAX) {
            return TxnOutcome::Refused(self.store.found(txn));
        }
        self.store.commit(Mono(self.now), txn)
    }

    /// The node of a member, if it lives that life and the two are not cut off from each other.
    fn reached(&self, from: &NodeName, to: &Member) -> Option<&TestNode> {
        let cut = self.cuts.contains(&(from.to_string(), to.node.to_string()));
        self.actors.get(&to.node).filter(|actor| !cut && actor.node.member().as_ref() == Some(to))
    }

    /// Lets so many milliseconds pass.
    fn run(&mut self, ms: i64) {
        let until = self.now + ms;
        while self.now <= until {
            let now = self.now;
            for (_, name, ticket, txn) in
                self.commits.extract_if(.., |(at, ..)| *at <= now).collect::<Vec<_>>()
            {
                let outcome = self.commit(&txn);
                self.give(&name, Input::Committed { ticket, outcome });
            }
            self.deliver();
            let due: Vec<NodeName> = self
                .actors
                .iter()
                .filter(|(_, a)| a.wake.is_some_and(|w| w.0 <= self.now))
                .map(|(n, _)| n.clone())
                .collect();
            due.iter().for_each(|name| self.give(name, Input::Tick));
            let (over, rest) =
                core::mem::take(&mut self.ends).into_iter().partition(|(at, ..)| *at <= self.now);
            self.ends = rest;
            let over: Vec<(i64, NodeName, Run)> = over;
            for (_, name, run, reason) in self.stops.extract_if(.., |(at, ..)| *at <= now).collect::<Vec<_>>()
            {
                let event = RunEvent::Ended(RunOutcome::Stopped(reason));
                self.give(&name, Input::Run { id: run.id, attempt: run.attempt, event });
            }
            for (_, name, run) in over {
                let ended = if run.attempt > self.fails {
                    RunOutcome::Succeeded
                } else {
                    RunOutcome::Failed(Some(1))
                };
                let event = RunEvent::Ended(ended);
                self.give(&name, Input::Run { id: run.id, attempt: run.attempt, event });
            }
            self.now += 1;
        }
    }

    fn deliver(&mut self) {
        let names: Vec<NodeName> = self.actors.keys().cloned().collect();
        for name in names {
            let Some(actor) = self.actors.get_mut(&name).filter(|a| a.watching) else { continue };
            let Some(batch) = self.store.changes_after(actor.heard) else { continue };
            actor.heard = batch.revision;
            if !batch.changes.is_empty() {
                self.give(
                    &name,
                    Input::Changed(ChangeBatch { changes: batch.changes, revision: batch.revision }),
                );
            }
        }
    }

    fn dues(&self, job: &str) -> Vec<i64> {
        self.starts.iter().filter(|(_, r)| r.id.job.as_str() == job).map(|(_, r)| r.due.0).collect()
    }

    fn held(&self, name: &str) -> usize {
        let actor = &self.actors[&name.parse::<NodeName>().unwrap()];
        actor.node.member().map_or(0, |m| actor.node.view().count(&m))
    }
}

/// proves: S1-47, I14, I17
#[test]
fn a_job_fires_on_each_second_once() {
    let mut world = TestCluster::with(&["a", "b"]);
    let applied = world.send_command("a", Command::Apply([job("j", "@every 1s")].into()));
    assert_eq!(applied, Answer::Applied([("j".parse().unwrap(), ApplyResult::Created)].into()));
    world.run(10_000);
    assert_eq!(world.dues("j"), (1..=10).map(|s| s * 1000).collect::<Vec<_>>());
    assert!(world.starts.windows(2).all(|w| w[0].1.token < w[1].1.token));
    assert_eq!(world.held("a") + world.held("b"), 1);
    assert!(world.starts.iter().all(|(node, _)| world.held(node) == 1), "only its holder runs it");
}

/// It does not decode what it wrote about a fire itself; so that must be what stands there.
#[test]
fn what_a_node_wrote_it_knows_as_it_stands() {
    let mut world = TestCluster { takes: 300, fails: 1, delay: 20, ..TestCluster::with(&["a"]) };
    let failing = JobFile {
        retry: Some(Retry {
            max_retries: 3,
            delay: "1s".into(),
            max_delay: String::new(),
            exit_codes: Vec::new(),
        }),
        ..job("failing", "@every 2s")
    };
    world.send_command("a", Command::Apply([job("j", "@every 1s"), failing].into()));
    let (mut seen, mut sent) = (BTreeSet::new(), BTreeSet::new());
    for _ in 0..1_000 {
        world.run(10);
        let node = &world.actors.values().next().unwrap().node;
        sent.extend(node.local().commits.iter().map(|pending| (pending.kind, pending.run_state.is_some())));
        // What is under way may stand there already.
        if !node.local().commits.is_empty() {
            continue;
        }
        for name in ["j", "failing"] {
            let run_state =
                node.view().find(&name.parse().unwrap()).unwrap().held().unwrap().run_state.clone().unwrap();
            let stands = world.store.entry(&crate::keys::run_state(&name.parse().unwrap())).cloned();
            seen.insert(stands.as_ref().map(|entry| entry.value.clone()));
            assert_eq!(
                run_state.value,
                stands.as_ref().map(|entry| crate::record::decode(&entry.value).unwrap())
            );
            assert_eq!(run_state.revision, stands.map_or(run_state.revision, |entry| entry.revision));
        }
    }
    assert!(seen.len() > 20, "{}", seen.len());
    let of_fires =
        [CommitKind::ClaimFire, CommitKind::WaitForRetry, CommitKind::Retry].map(|kind| (kind, true));
    assert!(of_fires.iter().all(|it| sent.contains(it)), "{sent:?}");
    assert!(!of_fires.iter().any(|(kind, _)| sent.contains(&(*kind, false))), "{sent:?}");
}
