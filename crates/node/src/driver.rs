//! The driver: hands every input to the node, and carries out every effect.
//!
//! It decides nothing. Each effect becomes one request whose answer, failure included, comes back as one input. One
//! task owns the node; whatever may wait runs beside it and reports through the [`inbox`].

mod aside;
mod asks;
mod changes;
mod cluster;
mod commits;
mod feed;
mod folder;
mod inbox;
mod joining;
mod lease;
mod life;
mod pass;
mod peers;
mod runs;
mod timer;
mod trails;
mod watch;

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use evenkeel_core::effect::{Effect, Event, Reason, Run};
use evenkeel_core::input::{AskId, Input, RunEvent};
use evenkeel_core::job::Occasion;
use evenkeel_core::load::Part;
use evenkeel_core::node::{Node, Wake};
use evenkeel_core::record::Seen;
use evenkeel_core::time::{Millis, Mono};
use evenkeel_core::words::{Fire, JobName, Member, NodeName, RunId};
use evenkeel_registry::Registry;
use tokio::sync::{Notify, mpsc, watch as watching};

use crate::clock;
use crate::executor::{Executor, News, Trust};
use crate::handle::Order;
use crate::history::{Entry, History, LoadPoint, Told, Wish};
use crate::notify::Notifiers;
use asks::Asking;
pub(crate) use asks::ENDED;
use commits::{Commits, Made};
use feed::Listening;
use inbox::{Happening, Inbox, Sender};
use lease::Leases;
use peers::Reach;
use runs::Runs;
use timer::Timer;
use trails::Trails;
use watch::LateStart;

pub(crate) use life::begin;
pub(crate) use pass::Upgrade;

/// How many inputs are taken before what they caused goes out together.
const TOGETHER: u64 = 1_000;
/// How many answers of the registry, or ends of runs, are one step where they come together: what each step costs whatever it
/// is about, and waking the runtime that executes functions, is paid once for all. Few, for what they start waits for them all.
const AT_ONCE: usize = 16;
/// How often history is told how busy the node is.
const LOAD_EVERY: Millis = Millis::secs(60);

/// Everything that one node drives.
struct Driver {
    node: Arc<RwLock<Node>>,
    registry: Arc<dyn Registry>,
    inbox: Inbox,
    sender: Sender,
    leases: Leases,
    listening: Listening,
    commits: Commits,
    executor: Executor,
    reach: Reach,
    runs: Runs,
    history: History,
    changed: Arc<Notify>,
    asking: BTreeMap<AskId, Asking>,
    trails: Trails,
    wake: Option<Wake>,
    trust: Option<Trust>,
    able: Able,
    /// Whether the node is a member, or why it cannot become one; watched by whoever opens it.
    joined: watching::Sender<Option<Event>>,
    effects: Vec<Effect>,
    timer: Timer,
    /// How many inputs were taken.
    taken: u64,
    /// When history gets the next point of the load.
    load_at: Mono,
    /// The latest alarm that was not told yet: each claim above the threshold raises one, many of them are told as one.
    alarm: Option<Event>,
    notifiers: Notifiers,
    upgrading: pass::Upgrading,
    /// Where fires go that began later than their jobs allow.
    late: mpsc::UnboundedSender<LateStart>,
}

/// What must work for the node to take on work (law 7).
struct Able {
    history: bool,
    executor: bool,
}

/// Why a driver stops.
enum End {
    /// Somebody asked, or nobody holds a handle any more.
    Asked,
    /// The registry cannot be used any more.
    Fatal(String),
}

/// What is to be told of a job, and to whom, as the node knows it now.
fn whom<'a>(
    node: &'a RwLock<Node>,
    notifiers: &'a Notifiers,
    me: NodeName,
) -> impl Fn(&JobName) -> Option<Box<Wish>> + 'a {
    move |job| {
        let node = node.read().unwrap_or_else(PoisonError::into_inner);
        let notify = node.view().find(job).and_then(|job| job.notify());
        notifiers.wish(notify, me.as_str())
    }
}

impl Driver {
    async fn run(&mut self) -> End {
        self.step(Input::Tick);
        self.commits.flush(&self.registry, &self.sender).await;
        loop {
            let tick = self.set_timer();
            let Some(happening) = self.inbox.next(&mut self.timer).await else { return End::Asked };
            let mut next = Some(happening);
            let enough = self.taken + TOGETHER;
            while self.taken < enough {
                match next {
                    Some(Happening::Order(Order::Halt)) => return End::Asked,
                    Some(Happening::Fatal(why)) => return End::Fatal(why),
                    Some(Happening::Failed(why)) => {
                        self.tell(Event::StorageFailed(why.clone()));
                        return End::Fatal(why);
                    }
                    Some(Happening::Woken) if !tick => {}
                    Some(happening) => self.take(happening),
                    None => break,
                }
                next = self.inbox.ready();
            }
            if let Some(happening) = next {
                self.inbox.put_back(happening);
            }
            if let Some(alarm) = self.alarm.take() {
                self.tell(alarm);
            }
            self.executor.fence(clock::now().mono);
            self.refuse_unwritten();
            self.commits.flush(&self.registry, &self.sender).await;
            self.go_on_upgrading().await;
        }
    }

    /// Sets when to wake: for the node, or to fence functions. Returns whether the node wants to be stepped then.
    fn set_timer(&mut self) -> bool {
        let now = clock::now().mono;
        let wake = self.wake.map(|wake| wake.at);
        let fence = self.trust.map(|trust| trust.until).filter(|until| *until > now);
        let patience = self.trails.patience().into_iter().chain(self.upgrading.until());
        let first = wake.into_iter().chain(fence).chain(patience).min();
        self.timer.set(first);
        first.is_some() && first == wake
    }

    /// Ends every run and tells history how. The registry is told nothing: there these runs stay open, and whoever takes
    /// the job next closes them. How far the registry was is noted for the node's next life.
    async fn end_runs(&mut self) {
        self.leases.note(self.seen());
        let runs: Vec<RunId> = self.runs.under_way().cloned().collect();
        runs.iter().for_each(|run| self.executor.stop(run, Reason::Fenced));
        while self.runs.under_way().next().is_some()
            && let Some(news) = self.inbox.news().await
        {
            self.ended(news);
        }
    }

    fn ended(&mut self, news: News) -> Option<(RunId, u32, RunEvent)> {
        let wish = whom(&self.node, &self.notifiers, self.runs.node().clone());
        self.runs.ended(news, &mut self.executor, &self.history, &wish)
    }

    /// What the node hears of an executor's news.
    fn told(&mut self, news: News) -> Option<Input> {
        if let News::Able(able) = news {
            self.able.executor = able;
            return Some(self.is_able());
        }
        self.ended(news).map(|(id, attempt, event)| Input::Run { id, attempt, event })
    }

    fn take(&mut self, happening: Happening) {
        match happening {
            Happening::Woken => self.step(Input::Tick),
            Happening::Inputs(inputs) => inputs.into_iter().for_each(|input| self.step(input)),
            Happening::Committed(outcomes, made) => {
                self.commits.returned();
                self.leases.note_made(made);
                let mut outcomes = outcomes.into_iter();
                while outcomes.len() > 0 {
                    let some = outcomes.by_ref().take(AT_ONCE);
                    let inputs = some.map(|(ticket, outcome)| self.committed(ticket, outcome)).collect();
                    self.step_all(inputs);
                }
            }
            Happening::News(news) => {
                let (mut inputs, mut next) = (Vec::new(), Some(news));
                while let Some(news) = next.take() {
                    inputs.extend(self.told(news));
                    next = if inputs.len() < AT_ONCE { self.inbox.ready_news() } else { None };
                }
                self.step_all(inputs);
            }
            Happening::Sampled(sample) => {
                self.step(Input::Sampled(sample));
                self.keep_load();
            }
            Happening::Told(Told::Recorded { run, attempt }) => self.step(Input::Recorded { run, attempt }),
            Happening::Told(Told::Noted(ask)) => self.noted(ask),
            Happening::Told(Told::Able(able)) => {
                self.able.history = able;
                self.refuse_unwritten();
                if able {
                    self.sum_up();
                }
                self.step(self.is_able());
            }
            Happening::Told(Told::Harmed(why)) => self.tell(Event::StorageFailed(why)),
            Happening::Told(Told::Notice(notice)) => {
                tracing::info!("{}", notice.text);
                self.notifiers.notice(clock::now(), self.runs.node().as_str(), &notice);
            }
            Happening::Order(Order::Upgrade(upgrade)) => self.begin_upgrade(*upgrade),
            Happening::Order(Order::Ask(command, answer)) => self.ask(command, answer),
            Happening::Order(Order::Change(asker, command, answer)) => self.change(asker, command, answer),
            Happening::Order(Order::Decided(asker, deed, outcome)) => self.decided(asker, deed, outcome),
            Happening::Order(Order::Read(keys, answer)) => {
                let registry = self.registry.clone();
                tokio::spawn(async move { answer.send(registry.read(keys).await) });
            }
            Happening::Order(Order::Halt) | Happening::Fatal(_) | Happening::Failed(_) => {}
        }
    }

    /// History gets a point a minute.
    fn keep_load(&mut self) {
        let now = clock::now();
        if now.mono < self.load_at {
            return;
        }
        self.load_at = now.mono + LOAD_EVERY;
        let (sample, busy, slots, score) = self.node.read().unwrap_or_else(PoisonError::into_inner).load();
        let (cpu, memory) = (sample.cpu.map(Part::hundredths), sample.memory.map(Part::hundredths));
        let (node, at, score) = (self.runs.node().to_string(), now.wall, score.0);
        let point = LoadPoint { node, at, cpu, memory, busy, slots, score };
        self.history.put(Entry::Load(Box::new(point)));
    }

    fn is_able(&self) -> Input {
        Input::Able(self.able.history && self.able.executor)
    }

    /// One input in, all its effects out.
    fn step(&mut self, input: Input) {
        self.step_all(vec![input]);
    }

    /// The same with inputs that came together.
    fn step_all(&mut self, inputs: Vec<Input>) {
        self.taken += inputs.len() as u64;
        let now = clock::now();
        let of_lease = inputs.iter().any(|input| matches!(input, Input::Lease(_)));
        let mut effects = std::mem::take(&mut self.effects);
        let trust = {
            let mut node = self.node.write().unwrap_or_else(PoisonError::into_inner);
            self.wake = node.step_all(now, inputs, &mut effects);
            match (Leases::trust(&node, now), self.trust) {
                (Some(trust), _) if of_lease => Some(trust),
                (None, Some(before)) if before.until > now.mono => Some(Leases::withdrawn(before, now)),
                _ => None,
            }
        };
        if let Some(trust) = trust {
            // Before any start that the same step decided.
            self.trust = Some(trust);
            self.executor.trust(trust);
        }
        self.changed.notify_one();
        for effect in effects.drain(..) {
            tracing::trace!("{effect}");
            self.carry_out(effect);
        }
        self.effects = effects;
        self.executor.go();
        self.runs.started(&self.history);
    }

    /// How far the registry surely is. What was only heard of is left out: some engines tell it before it is kept.
    fn seen(&self) -> Seen {
        let node = self.node.read().unwrap_or_else(PoisonError::into_inner);
        let generation = node.local().settings.generation;
        let Made { revision, entry } = self.leases.made();
        let entry = entry.as_ref().map(|(key, at)| (key.as_str().to_owned(), *at));
        Seen { engine: self.registry.facts().generation, generation, revision: *revision, entry }
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Open { ttl } => self.leases.open(ttl, &self.registry, &self.sender),
            Effect::Renew(lease) => {
                self.leases.renew(lease, &self.registry, &self.sender);
                self.leases.note(self.seen());
            }
            Effect::Close(lease) => self.leases.close(lease, &self.registry),
            Effect::List => self.listening.list(&self.registry, &self.sender),
            Effect::Read(keys) => feed::read(keys, &self.registry, &self.sender),
            Effect::Commit { ticket, txn, .. } => {
                if !self.trails.is_idle() {
                    let node = self.node.read().unwrap_or_else(PoisonError::into_inner);
                    self.trails.sent(&node, ticket, &txn);
                }
                self.commits.add(ticket, txn);
            }
            Effect::Probe { to, address } => self.reach.probe(self.member(), to, address, &self.sender),
            Effect::Offer { to, address, runs } => {
                self.reach.offer(self.member(), to, address, runs, &self.sender);
            }
            Effect::Start(run) => {
                self.note_late(&run);
                self.runs.starting(&run);
                self.executor.start(run);
            }
            Effect::Stop(run, reason) => self.executor.stop(&run, reason),
            Effect::Record(verdict) => {
                let wish = whom(&self.node, &self.notifiers, self.runs.node().clone())(&verdict.run.job);
                self.history.put(Entry::Verdict(Box::new(verdict), wish));
            }
            Effect::Announce(alarm @ Event::Alarm { .. }) => self.alarm = Some(alarm),
            Effect::Announce(event) => self.tell(event),
            Effect::Answer(ask, answer) => self.answer(ask, answer),
        }
    }

    /// A fire that begins later than its job allows is told, also where nobody could see it wait.
    fn note_late(&self, run: &Run) {
        let node = self.node.read().unwrap_or_else(PoisonError::into_inner);
        let notify = node.view().find(&run.id.job).and_then(|job| job.notify());
        let Some(limit) = notify.and_then(|notify| notify.limit(Occasion::Late)) else { return };
        let by = clock::now().wall - run.due;
        if run.attempt == 1 && matches!(run.id.fire, Fire::Due(_)) && by > limit {
            let _ = self.late.send(LateStart { job: run.id.job.clone(), due: run.due, by });
        }
    }

    fn member(&self) -> Option<Member> {
        self.node.read().unwrap_or_else(PoisonError::into_inner).member()
    }

    fn tell(&mut self, event: Event) {
        let text = event.to_string();
        let kind = match &event {
            Event::Joined => "joined",
            Event::Upgraded(_) => "upgraded",
            Event::NotUpgraded(_) => "not_upgraded",
            Event::LeaseLost => "lease_lost",
            Event::StorageFailed(_) => "storage_failed",
            Event::Alarm { .. } => "alarm",
            Event::NameTaken(_) => "name_taken",
            Event::ClockDiffers(_) => "clock_differs",
            Event::Unreadable(_) => "unreadable",
            Event::FitsNobody(_) => "fits_nobody",
            Event::Drained => "drained",
            Event::Electing(_) => "electing",
            Event::Elected(_) => "elected",
            Event::Pinned(..) => "pinned",
            Event::Rejected(..) => "rejected",
            Event::Closed => "closed",
            Event::Connected => "connected",
            Event::Disconnected => "disconnected",
            Event::NodesChanged(_) => "nodes_changed",
            Event::NodeLeft(..) => "node.left",
            Event::Offline(_) => "node.offline",
            Event::Online(_) => "node.online",
            Event::LeaderChanged(..) => "leader_changed",
            Event::LeaderLost(_) => "leader_lost",
            Event::Resuming(_) => "resuming",
            Event::Serving(_) => "serving",
            Event::Suspended => "suspended",
            Event::MultiLeader(..) => "multi_leader",
            Event::Shut(_) => "shut",
            Event::UnknownLayout(_) => "unknown_layout",
            Event::Outdated(_) => "outdated",
        };
        match event {
            Event::Electing(_) => tracing::debug!("{text}"),
            Event::Joined
            | Event::Upgraded(_)
            | Event::Drained
            | Event::Elected(_)
            | Event::Connected
            | Event::NodesChanged(_)
            | Event::NodeLeft(..)
            | Event::LeaderChanged(..)
            | Event::Resuming(_)
            | Event::Serving(_)
            | Event::Online(_) => tracing::info!("{text}"),
            _ => tracing::warn!("{text}"),
        }
        let (now, node) = (clock::now(), self.runs.node().to_string());
        self.notifiers.tell(now, &node, kind, &event, &text);
        // One that is gone tells nothing itself.
        let about = if let Event::NodeLeft(left, _) = &event { left.node.to_string() } else { node };
        self.history.put(Entry::Event { at: now.wall, node: about, kind, text: text.clone() });
        let over = match &event {
            // What this node knew of the registry is over, its generation too: it begins anew or not at all.
            Event::Shut(shut) => Some(shut.to_string()),
            Event::UnknownLayout(_) | Event::Outdated(_) => Some(text),
            _ => None,
        };
        if let Some(why) = over {
            self.inbox.put_back(Happening::Fatal(why));
        }
        if matches!(event, Event::Joined | Event::Upgraded(_) | Event::NameTaken(_)) {
            self.joined.send_replace(Some(event));
        }
    }
}
