//! The driver passes every input to the node, and carries out every effect.
//!
//! It decides nothing. Each effect becomes one request whose answer, failure included, comes back as one input. One
//! task owns the node. Whatever may wait runs in other tasks and reports through the [`inbox`].

mod answers;
mod changes;
mod cluster;
mod commits;
mod data_folder;
mod declared_change;
mod feed;
mod guarded_member;
mod handoff;
mod heartbeats;
mod inbox;
mod joining;
mod lease;
mod lifecycle;
mod overdue_watch;
mod peers;
mod pending_audit;
mod registry_thread;
mod requests;
mod runs;
mod sealed_registry;
mod timer;
mod upgrade_state;

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use evenkeel_core::effect::{Effect, Event, Run, StopReason, Verdict};
use evenkeel_core::ids::{Fire, JobName, Member, NodeName, RunId};
use evenkeel_core::input::{CommandId, Input, RunEvent, RunOutcome};
use evenkeel_core::job::Occasion;
use evenkeel_core::lifecycle::is_shadow;
use evenkeel_core::load::Utilization;
use evenkeel_core::node::{Node, Wake};
use evenkeel_core::record::RegistryBookmark;
use evenkeel_core::time::{Millis, Mono};
use evenkeel_registry::Registry;
use tokio::sync::{Notify, mpsc, watch as watching};

use crate::audit::AuditAction;
use crate::clock;
use crate::executor::{ExecutorEvent, TrustDeadline};
use crate::executors::Executors;
use crate::history::{History, HistoryEvent, HistoryWrite, LATE, LoadPoint, NoticePolicy, VerdictFires};
use crate::notify::{Notifiers, log_event};
use crate::request::HandleRequest;
use answers::PendingAnswer;
use commits::{CommitProgress, CommitQueue};
use feed::FeedListener;
use guarded_member::GuardedMember;
use heartbeats::Heartbeats;
use inbox::{DriverEvent, EventSender, Inbox};
use lease::Leases;
use overdue_watch::LateStart;
use peers::DriverPeers;
use pending_audit::PendingAudit;
use runs::RunTracker;
use timer::Timer;
use upgrade_state::UpgradeState;

pub(crate) use lifecycle::begin;

/// How many inputs are taken before their effects go out together.
const TOGETHER: u64 = 1_000;
/// How many registry answers or ends of runs are one step when they come together. A step has a fixed cost, and so has
/// waking the runtime that executes functions. The number is small because the starts of a step wait for all of it.
const AT_ONCE: usize = 16;
/// How often the node's load is written to history.
const LOAD_EVERY: Millis = Millis::secs(60);

/// The driver of one node.
struct Driver {
    node: Arc<RwLock<Node>>,
    registry: Arc<dyn Registry>,
    inbox: Inbox,
    sender: EventSender,
    leases: Leases,
    member: GuardedMember,
    feed: FeedListener,
    commits: CommitQueue,
    executor: Executors,
    peers: DriverPeers,
    runs: RunTracker,
    history: History,
    changed: Arc<Notify>,
    pending_answers: BTreeMap<CommandId, PendingAnswer>,
    pending_audit: PendingAudit,
    wake: Option<Wake>,
    trust: Option<TrustDeadline>,
    heartbeats: Heartbeats,
    readiness: Readiness,
    /// Whether the node is a member, or why it cannot become one; `open` watches it.
    joined: watching::Sender<Option<Event>>,
    effects: Vec<Effect>,
    timer: Timer,
    /// How many inputs were taken.
    taken: u64,
    /// When history gets the next point of the load.
    load_at: Mono,
    /// The latest alarm not reported yet: each claim above the threshold raises one, and many are reported as one.
    alarm: Option<Event>,
    notifiers: Notifiers,
    upgrading: UpgradeState,
    /// Receives fires that began later than their jobs allow.
    late: mpsc::UnboundedSender<LateStart>,
}

/// What must work for the node to take on work (law 7).
struct Readiness {
    history: bool,
    executor: bool,
}

/// Why a driver stops.
enum DriverExit {
    /// It was asked to, or the last handle was dropped.
    Requested,
    /// The registry cannot be used any more.
    Fatal(String),
}

/// Which notices the node sends about a job, and to whom, by the node's current view.
fn notice_policies<'a>(
    node: &'a RwLock<Node>,
    notifiers: &'a Notifiers,
    me: NodeName,
) -> impl Fn(&JobName) -> Option<Box<NoticePolicy>> + 'a {
    move |job| {
        let node = node.read().unwrap_or_else(PoisonError::into_inner);
        let notify = node.view().find(job).and_then(|job| job.notify());
        notifiers.policy(notify, me.as_str())
    }
}

impl Driver {
    async fn run(&mut self) -> DriverExit {
        self.step(Input::Tick);
        self.commits.flush(&self.registry, &self.sender).await;
        loop {
            self.heartbeats.send_due(clock::now().mono, &self.executor);
            let tick = self.set_timer();
            let Some(happening) = self.inbox.next(&mut self.timer).await else {
                return DriverExit::Requested;
            };
            let mut next = Some(happening);
            let enough = self.taken + TOGETHER;
            while self.taken < enough {
                match next {
                    Some(DriverEvent::Request(HandleRequest::Halt)) => return DriverExit::Requested,
                    Some(DriverEvent::Fatal(why)) => return DriverExit::Fatal(why),
                    Some(DriverEvent::Failed(why)) => {
                        self.report_event(Event::StorageFailed(why.clone()));
                        return DriverExit::Fatal(why);
                    }
                    Some(DriverEvent::Woken) if !tick => {}
                    Some(happening) => self.on_event(happening),
                    None => break,
                }
                next = self.inbox.ready();
            }
            if let Some(happening) = next {
                self.inbox.put_back(happening);
            }
            if let Some(alarm) = self.alarm.take() {
                self.report_event(alarm);
            }
            self.executor.fence(clock::now().mono);
            self.refuse_unwritten();
            self.commits.flush(&self.registry, &self.sender).await;
            self.continue_upgrade().await;
        }
    }

    /// Sets when to wake: for the node, or to fence functions. Returns whether the node must be stepped then.
    fn set_timer(&mut self) -> bool {
        let now = clock::now().mono;
        let wake = self.wake.map(|wake| wake.at);
        let fence = self.trust.map(|trust| trust.until).filter(|until| *until > now);
        let patience = self
            .pending_audit
            .patience()
            .into_iter()
            .chain(self.upgrading.until())
            .chain(self.heartbeats.next());
        let first = wake.into_iter().chain(fence).chain(patience).min();
        self.timer.set(first);
        first.is_some() && first == wake
    }

    /// Ends every run and writes the outcomes to history. The registry is not written: there these runs stay open, and
    /// the next node that takes the job closes them. The registry's position is noted for this node's next life.
    async fn end_runs(&mut self) {
        self.heartbeats.rest(&self.executor);
        self.leases.note(self.seen());
        let runs: Vec<RunId> = self.runs.running().cloned().collect();
        runs.iter().for_each(|run| self.executor.stop(run, StopReason::Fenced));
        while self.runs.running().next().is_some()
            && let Some(news) = self.inbox.next_executor_event().await
        {
            self.ended(news);
        }
    }

    fn ended(&mut self, news: ExecutorEvent) -> Option<(RunId, u32, RunEvent)> {
        if let ExecutorEvent::Ended(result) = &news
            && result.ended == RunOutcome::Succeeded
            && !is_shadow(&result.reason)
        {
            self.beat_for(&result.run.job);
        }
        let item = notice_policies(&self.node, &self.notifiers, self.runs.node().clone());
        self.runs.ended(news, &mut self.executor, &self.history, &item)
    }

    /// Sends the heartbeat of a job whose fire succeeded here, if its declaration names a monitor.
    fn beat_for(&mut self, job: &JobName) {
        let node = self.node.read().unwrap_or_else(PoisonError::into_inner);
        let notify = node.view().find(job).and_then(|job| job.notify());
        let monitor = notify.map(|notify| notify.heartbeat.clone()).filter(|url| !url.is_empty());
        drop(node);
        if let Some(url) = monitor {
            self.executor.http.beat(job, &url);
        }
    }

    /// The input that an executor's event gives to the node.
    fn on_executor_event(&mut self, news: ExecutorEvent) -> Option<Input> {
        if let ExecutorEvent::Able(able) = news {
            self.readiness.executor = able;
            return Some(self.is_able());
        }
        self.ended(news).map(|(id, attempt, event)| Input::Run { id, attempt, event })
    }

    fn on_event(&mut self, happening: DriverEvent) {
        match happening {
            DriverEvent::Woken => self.step(Input::Tick),
            DriverEvent::Inputs(inputs) => inputs.into_iter().for_each(|input| self.step(input)),
            DriverEvent::Committed(outcomes, made) => {
                self.commits.returned();
                self.leases.note_progress(made);
                let mut outcomes = outcomes.into_iter();
                while outcomes.len() > 0 {
                    let some = outcomes.by_ref().take(AT_ONCE);
                    let inputs = some.map(|(ticket, outcome)| self.committed(ticket, outcome)).collect();
                    self.step_all(inputs);
                }
            }
            DriverEvent::Executor(news) => {
                let (mut inputs, mut next) = (Vec::new(), Some(news));
                while let Some(news) = next.take() {
                    inputs.extend(self.on_executor_event(news));
                    next = if inputs.len() < AT_ONCE { self.inbox.ready_executor_event() } else { None };
                }
                self.step_all(inputs);
            }
            DriverEvent::Sampled(sample) => {
                self.step(Input::Sampled(sample));
                self.record_load();
            }
            DriverEvent::History(HistoryEvent::Recorded { run, attempt }) => {
                self.step(Input::Recorded { run, attempt })
            }
            DriverEvent::History(HistoryEvent::AuditWritten(ask)) => self.on_audit_written(ask),
            DriverEvent::History(HistoryEvent::Writable(able)) => {
                self.readiness.history = able;
                self.refuse_unwritten();
                if able {
                    self.sum_up();
                }
                self.step(self.is_able());
            }
            DriverEvent::History(HistoryEvent::StorageFailed(why)) => {
                self.report_event(Event::StorageFailed(why))
            }
            DriverEvent::History(HistoryEvent::Notice(notice)) => {
                tracing::info!("{}", notice.text);
                self.notifiers.send_notice(clock::now(), self.runs.node().as_str(), &notice);
            }
            DriverEvent::Request(HandleRequest::Upgrade(upgrade)) => self.begin_upgrade(*upgrade),
            DriverEvent::Request(HandleRequest::Ask(command, answer)) => self.ask(command, answer),
            DriverEvent::Request(HandleRequest::Change(asker, command, answer)) => {
                self.change(asker, command, answer)
            }
            DriverEvent::Request(HandleRequest::LogDecision(asker, action, outcome)) => {
                self.log_decision(asker, action, outcome)
            }
            DriverEvent::Request(HandleRequest::Read(keys, answer)) => {
                let registry = self.registry.clone();
                tokio::spawn(async move { answer.send(registry.read(keys).await) });
            }
            DriverEvent::Request(HandleRequest::Halt) | DriverEvent::Fatal(_) | DriverEvent::Failed(_) => {}
        }
    }

    /// Writes a point of the load to history once a minute.
    fn record_load(&mut self) {
        let now = clock::now();
        if now.mono < self.load_at {
            return;
        }
        self.load_at = now.mono + LOAD_EVERY;
        let (sample, busy, slots, score) = self.node.read().unwrap_or_else(PoisonError::into_inner).load();
        let (cpu, memory) =
            (sample.cpu.map(Utilization::hundredths), sample.memory.map(Utilization::hundredths));
        let (node, at, score) = (self.runs.node().to_string(), now.wall, score.0);
        let point = LoadPoint { node, at, cpu, memory, busy, slots, score };
        self.history.put(HistoryWrite::Load(Box::new(point)));
    }

    fn is_able(&self) -> Input {
        Input::Able(self.readiness.history && self.readiness.executor)
    }

    /// Steps the node with one input, and applies all effects.
    fn step(&mut self, input: Input) {
        self.step_all(vec![input]);
    }

    /// Steps the node with inputs that came together.
    fn step_all(&mut self, inputs: Vec<Input>) {
        self.taken += inputs.len() as u64;
        let now = clock::now();
        let of_lease = inputs.iter().any(|input| matches!(input, Input::Lease(_)));
        let mut effects = std::mem::take(&mut self.effects);
        let (trust, joined) = {
            let mut node = self.node.write().unwrap_or_else(PoisonError::into_inner);
            self.wake = node.step_all(now, inputs, &mut effects);
            let trust = match (Leases::trust(&node, now), self.trust) {
                (Some(trust), _) if of_lease => Some(trust),
                (None, Some(before)) if before.until > now.mono => Some(Leases::withdrawn(before, now)),
                _ => None,
            };
            (trust, self.member.joined(&node))
        };
        if let Some(removal) = joined {
            self.executor.joined(removal);
        }
        if let Some(trust) = trust {
            // Before any start that the same step decided.
            self.trust = Some(trust);
            self.executor.trust(trust);
        }
        self.changed.notify_one();
        for effect in effects.drain(..) {
            tracing::trace!("{effect}");
            self.apply_effect(effect);
        }
        self.effects = effects;
        self.executor.go();
        self.runs.started(&self.history);
    }

    /// The registry position that is certain. Feed changes do not count: some engines send them before they persist.
    fn seen(&self) -> RegistryBookmark {
        let node = self.node.read().unwrap_or_else(PoisonError::into_inner);
        let generation = node.local().settings().generation;
        let CommitProgress { revision, entry } = self.leases.progress();
        let entry = entry.as_ref().map(|(key, at)| (key.as_str().to_owned(), *at));
        RegistryBookmark { engine: self.registry.facts().generation, generation, revision: *revision, entry }
    }

    fn apply_effect(&mut self, effect: Effect) {
        match effect {
            Effect::Open { ttl } => self.leases.open(ttl, &self.registry, &self.sender),
            Effect::Renew(lease) => {
                self.leases.renew(lease, &self.registry, &self.sender);
                self.leases.note(self.seen());
            }
            Effect::Close(lease) => self.leases.close(lease, &self.registry),
            Effect::List => self.feed.list(&self.registry, &self.sender),
            Effect::Read(keys) => feed::read(keys, &self.registry, &self.sender),
            Effect::Commit { ticket, kind, txn } => {
                if !self.pending_audit.is_idle() {
                    let node = self.node.read().unwrap_or_else(PoisonError::into_inner);
                    self.pending_audit.sent(&node, ticket, &txn);
                }
                self.commits.add(ticket, kind, txn);
            }
            Effect::Probe { to, address } => self.peers.probe(self.member(), to, address, &self.sender),
            Effect::Offer { to, address, runs } => {
                self.peers.offer(self.member(), to, address, runs, &self.sender);
            }
            Effect::Start(run) => {
                let late = self.note_late(&run);
                self.runs.starting(&run, late);
                self.executor.start(run);
            }
            Effect::Stop(run, reason) => self.executor.stop(&run, reason),
            Effect::Record(verdict) => {
                let item =
                    notice_policies(&self.node, &self.notifiers, self.runs.node().clone())(&verdict.run.job);
                let fires = self.verdict_fires(&verdict);
                self.history.put(HistoryWrite::Verdict(Box::new(verdict), item, fires));
            }
            Effect::Announce(alarm @ Event::Alarm { .. }) => self.alarm = Some(alarm),
            Effect::Announce(event) => self.report_event(event),
            Effect::Answer(ask, answer) => self.answer(ask, answer),
        }
    }

    /// Reports a fire that begins later than its job allows, also where no watch could see it wait. Returns whether the
    /// fire is late; where its job does not say how late it may be, by the usual bound.
    fn note_late(&self, run: &Run) -> bool {
        let node = self.node.read().unwrap_or_else(PoisonError::into_inner);
        let notify = node.view().find(&run.id.job).and_then(|job| job.notify());
        let limit = notify.and_then(|notify| notify.limit(Occasion::Late));
        let by = clock::now().wall - run.due;
        let is_first = run.attempt == 1 && matches!(run.id.fire, Fire::Due(_));
        if is_first && limit.is_some_and(|limit| by > limit) {
            let _ = self.late.send(LateStart { job: run.id.job.clone(), due: run.due, by });
        }
        is_first && by > limit.unwrap_or(LATE)
    }

    /// Which fires a verdict counts for. The planner and the node of a dispatched run both write the verdict: where they
    /// have histories of their own, that of the node counts, as long as it lives.
    fn verdict_fires(&self, verdict: &Verdict) -> VerdictFires {
        let node = self.node.read().unwrap_or_else(PoisonError::into_inner);
        let Some(job) = node.view().find(&verdict.run.job) else { return VerdictFires::default() };
        let is_span = verdict.from < verdict.due;
        let schedule = is_span.then(|| node.view().schedule_of(&job.spec()?.job)).flatten().map(Box::new);
        let lives = || node.view().members().any(|(member, _)| member.node.as_str() == verdict.node);
        let is_own = verdict.node == self.runs.node().as_str();
        let elsewhere = !self.history.is_shared() && job.is_dispatched() && !is_own && lives();
        VerdictFires { schedule, elsewhere }
    }

    fn member(&self) -> Option<Member> {
        self.node.read().unwrap_or_else(PoisonError::into_inner).member()
    }

    fn report_event(&mut self, event: Event) {
        let report = event.report();
        log_event(&report);
        let (now, node) = (clock::now(), self.runs.node().to_string());
        self.notifiers.notify(now, &node, &report);
        // A node that left cannot report it itself.
        let about = if let Event::NodeLeft(left, _) = &event { left.node.to_string() } else { node };
        self.history.put(HistoryWrite::event(now.wall, about, &report));
        if let Some(change) = AuditAction::of_foreign_entry(&event) {
            self.log_foreign_entry(change);
        }
        let over = match &event {
            // What this node knew of the registry, its generation included, is void: the node starts anew or never.
            Event::Shut(shut) => Some(shut.to_string()),
            Event::UnknownLayout(_) | Event::Outdated(_) => Some(report.text),
            _ => None,
        };
        if let Some(why) = over {
            self.inbox.put_back(DriverEvent::Fatal(why));
        }
        if matches!(event, Event::Joined | Event::Upgraded(_) | Event::NameTaken(_)) {
            self.joined.send_replace(Some(event));
        }
    }
}
