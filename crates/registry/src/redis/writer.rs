//! One task that sends what waits, all of it in one call: so many callers cost one trip and one sync of the disk.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use evenkeel_core::registry::{Granted, LeaseId, Outcome, Txn, Write};
use evenkeel_core::time::{Millis, Wall};
use redis::{Cmd, Value};
use tokio::sync::{Semaphore, mpsc, oneshot};

use super::link::{Shared, Verb, nonsense, patience};
use super::wire::{add_refusal, add_txn, list, number, outcome};
use super::{FACTS, TIME_STEP};
use crate::{RegistryError, TTL_MAX, fits};

/// How many transactions and bytes one call takes at most: Redis does nothing else meanwhile, for some 50 ms.
const GROUP: usize = 2_048;
const GROUP_BYTES: usize = 16 << 20;

/// How many commits may wait; more wait where they come from (I47).
const WAITING_MAX: usize = 64;

/// How often somebody moves the registry's time when nobody asks for anything: by less than the step that it may take.
pub(super) const TICK: Millis = Millis(TIME_STEP.0 / 2);

/// How many changes the feed remembers at least.
pub(super) const REMEMBERED: usize = 65_536;

type Reply<T> = oneshot::Sender<Result<T, RegistryError>>;

/// One verb that waits, and where its answer goes.
enum Ask {
    Open(Millis, Reply<Granted>),
    Renew(LeaseId, Reply<Option<Granted>>),
    Close(LeaseId, Reply<()>),
    Commit(Vec<Txn>, oneshot::Sender<Vec<Outcome>>),
}

/// The task's handle. When it is dropped, what was asked is still sent.
pub(super) struct Writer {
    asks: mpsc::UnboundedSender<Ask>,
    room: Semaphore,
    trouble: Arc<Mutex<Option<Arc<RegistryError>>>>,
}

impl Writer {
    pub(super) fn start(link: Shared) -> Self {
        let (asks, asked) = mpsc::unbounded_channel();
        let trouble = Arc::default();
        let desk = Desk { link, trouble: Arc::clone(&trouble), waiting: Waiting::default(), tick: TICK };
        tokio::spawn(desk.run(asked));
        Self { asks, room: Semaphore::new(WAITING_MAX), trouble }
    }

    pub(super) async fn open(&self, ttl: Millis) -> Result<Granted, RegistryError> {
        self.ask(|reply| Ask::Open(ttl.clamp(FACTS.ttl_min, TTL_MAX), reply)).await
    }

    pub(super) async fn renew(&self, lease: LeaseId) -> Result<Option<Granted>, RegistryError> {
        self.ask(|reply| Ask::Renew(lease, reply)).await
    }

    pub(super) async fn close(&self, lease: LeaseId) -> Result<(), RegistryError> {
        self.ask(|reply| Ask::Close(lease, reply)).await
    }

    pub(super) async fn commit(&self, txns: Vec<Txn>) -> Vec<Outcome> {
        let asked = txns.len();
        let _room = self.room.acquire().await;
        let (reply, answer) = oneshot::channel();
        // A task that is gone drops the ask, and with it the reply.
        let _ = self.asks.send(Ask::Commit(txns, reply));
        answer.await.unwrap_or_else(|_| vec![Outcome::Unknown; asked])
    }

    pub(super) fn trouble(&self) -> Option<Arc<RegistryError>> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn ask<T>(&self, ask: impl FnOnce(Reply<T>) -> Ask) -> Result<T, RegistryError> {
        let (reply, answer) = oneshot::channel();
        let _ = self.asks.send(ask(reply));
        answer.await.unwrap_or_else(|_| Err(RegistryError::Fatal("the registry's writer has stopped".into())))
    }
}

/// What waits. Leases go first: a renewal never waits behind decisions (protocol §3.10).
#[derive(Default)]
struct Waiting {
    leases: VecDeque<Ask>,
    commits: VecDeque<Ask>,
}

impl Waiting {
    fn push(&mut self, ask: Ask) {
        match ask {
            Ask::Commit(..) => self.commits.push_back(ask),
            _ => self.leases.push_back(ask),
        }
    }

    /// The next group. A commit that is larger than a group is one.
    fn take(&mut self) -> Vec<Ask> {
        let mut group: Vec<Ask> = self.leases.drain(..).collect();
        let (mut txns, mut size) = (0, 0);
        while let Some(Ask::Commit(next, _)) = self.commits.front() {
            txns += next.len();
            size += next.iter().map(bytes).sum::<usize>();
            if (txns > GROUP || size > GROUP_BYTES) && !group.is_empty() {
                break;
            }
            group.extend(self.commits.pop_front());
        }
        group
    }

    fn is_empty(&self) -> bool {
        self.leases.is_empty() && self.commits.is_empty()
    }
}

fn bytes(txn: &Txn) -> usize {
    let of = |write: &Write| match write {
        Write::Put { value, .. } => value.len(),
        Write::Delete { .. } => 0,
    };
    txn.writes.iter().map(of).sum()
}

struct Desk {
    link: Shared,
    trouble: Arc<Mutex<Option<Arc<RegistryError>>>>,
    waiting: Waiting,
    /// When to act unasked: so leases end in time though nobody asks for anything.
    tick: Millis,
}

impl Desk {
    async fn run(mut self, mut asked: mpsc::UnboundedReceiver<Ask>) {
        loop {
            if self.waiting.is_empty() {
                tokio::select! {
                    biased;
                    ask = asked.recv() => match ask {
                        Some(ask) => self.waiting.push(ask),
                        None => return,
                    },
                    () = tokio::time::sleep(patience(self.tick)) => {}
                }
            }
            while let Ok(ask) = asked.try_recv() {
                self.waiting.push(ask);
            }
            let group = self.waiting.take();
            self.send(group).await;
        }
    }

    async fn send(&mut self, group: Vec<Ask>) {
        let asked = self.link.ask(Verb::Act, |cmd| {
            cmd.arg(TIME_STEP.0).arg(REMEMBERED);
            group.iter().for_each(|ask| ask.add(cmd));
        });
        let answered = asked.await.and_then(|(_, told)| Answer::of(told).ok_or_else(nonsense));
        match answered {
            Ok(mut answer) => {
                self.trouble(None);
                self.tick = answer.next_end.map_or(TICK, |end| end.clamp(Millis(1), TICK));
                for ask in group {
                    ask.answer(&mut answer);
                }
            }
            Err(error) => {
                self.trouble(Some(&error));
                self.tick = TICK;
                group.into_iter().for_each(|ask| ask.fail(&error));
            }
        }
    }

    fn trouble(&self, error: Option<&RegistryError>) {
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        if trouble.as_deref() != error {
            *trouble = error.cloned().map(Arc::new);
        }
    }
}

/// What the script told of a group.
struct Answer {
    clock: Wall,
    next_end: Option<Millis>,
    answers: std::vec::IntoIter<Value>,
}

impl Answer {
    fn of(mut told: std::vec::IntoIter<Value>) -> Option<Self> {
        let clock = Wall(number(&told.next()?)?);
        let next_end = number(&told.next()?).map(Millis);
        Some(Self { clock, next_end, answers: list(told.next()?)? })
    }

    fn granted(&mut self) -> Option<Option<Granted>> {
        let mut answer = list(self.answers.next()?)?;
        let Some(lease) = answer.next() else { return Some(None) };
        let (lease, ttl) = (LeaseId(number(&lease)?), Millis(number(&answer.next()?)?));
        Some(Some(Granted { lease, ttl, clock: Some(self.clock), next_end: self.next_end }))
    }
}

impl Ask {
    fn add(&self, cmd: &mut Cmd) {
        match self {
            Self::Open(ttl, _) => _ = cmd.arg("O").arg(ttl.0),
            Self::Renew(lease, _) => _ = cmd.arg("R").arg(lease.0),
            Self::Close(lease, _) => _ = cmd.arg("C").arg(lease.0),
            Self::Commit(txns, _) => txns.iter().for_each(|txn| match fits(&FACTS, txn) {
                true => add_txn(cmd, txn),
                false => add_refusal(cmd, txn),
            }),
        }
    }

    /// Whoever asked may be gone: then nobody hears.
    fn answer(self, from: &mut Answer) {
        match self {
            Self::Open(_, reply) => drop(reply.send(from.granted().flatten().ok_or_else(nonsense))),
            Self::Renew(_, reply) => drop(reply.send(from.granted().ok_or_else(nonsense))),
            Self::Close(_, reply) => drop(reply.send(from.answers.next().map(drop).ok_or_else(nonsense))),
            Self::Commit(txns, reply) => {
                let outcomes = txns.iter().map(|txn| {
                    from.answers.next().and_then(|answer| outcome(answer, txn)).unwrap_or(Outcome::Unknown)
                });
                drop(reply.send(outcomes.collect()));
            }
        }
    }

    fn fail(self, error: &RegistryError) {
        match self {
            Self::Open(_, reply) => drop(reply.send(Err(error.clone()))),
            Self::Renew(_, reply) => drop(reply.send(Err(error.clone()))),
            Self::Close(_, reply) => drop(reply.send(Err(error.clone()))),
            Self::Commit(txns, reply) => drop(reply.send(vec![Outcome::Unknown; txns.len()])),
        }
    }
}
