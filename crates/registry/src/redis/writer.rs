//! One task that sends what waits, all of it in one call: so many callers cost one trip and one sync of the disk.

use evenkeel_core::registry::{Granted, LeaseId, Outcome};
use evenkeel_core::time::{Millis, Mono, Wall};
use redis::{Cmd, Value};

use super::link::{Shared, Verb, nonsense, patience};
use super::wire::{Names, add_refusal, add_txn, list, number, outcome};
use super::{FACTS, TIME_STEP};
use crate::clock::{Clock, HostClock};
use crate::queue::{Ask, Asker, Most, Queue, queue};
use crate::{TTL_MAX, fits};

/// How much one call takes at most, but for a commit that is larger by itself. Redis does nothing else meanwhile; and while it
/// works on one call, whoever asks works on what the last one answered.
const MOST: Most = Most { txns: 500, bytes: 16 << 20 };

/// How often somebody moves the registry's time when nobody asks for anything: by less than the step that it may take.
pub(super) const TICK: Millis = Millis(TIME_STEP.0 / 2);

/// How often it looks whether the server still keeps all.
const LOOK: Millis = Millis::secs(5);

/// How many changes the feed remembers at least.
pub(super) const REMEMBERED: usize = 65_536;

/// Starts the task. When nobody can ask any more, it still sends what was asked.
pub(super) fn start(link: Shared) -> Asker {
    let (asker, queue) = queue(MOST);
    tokio::spawn(Desk { link, queue, tick: TICK, looked: HostClock.now().mono }.run());
    asker
}

struct Desk {
    link: Shared,
    queue: Queue,
    /// When to act unasked: so leases end in time though nobody asks for anything.
    tick: Millis,
    looked: Mono,
}

impl Desk {
    async fn run(mut self) {
        loop {
            tokio::select! {
                biased;
                asked = self.queue.wait() => if !asked { return },
                () = tokio::time::sleep(patience(self.tick)) => {}
            }
            let group = self.queue.take();
            self.send(group).await;
            if HostClock.now().mono - self.looked >= LOOK {
                // One that does not answer is looked at again when it does.
                let _ = self.link.look_again().await;
                self.looked = HostClock.now().mono;
            }
        }
    }

    async fn send(&mut self, group: Vec<Ask>) {
        let asked = self.link.ask(Verb::Act, |cmd| {
            let names = Names::of(group.iter().flat_map(|ask| match ask {
                Ask::Commit(txns, _) => txns.as_slice(),
                _ => &[],
            }));
            cmd.arg(TIME_STEP.0).arg(REMEMBERED);
            names.add(cmd);
            group.iter().for_each(|ask| add(cmd, ask, &names));
        });
        let answered = asked.await.and_then(|(_, told)| Answer::of(told).ok_or_else(nonsense));
        match answered {
            Ok(mut answer) => {
                self.queue.trouble.set(None);
                self.tick = answer.next_end.map_or(TICK, |end| end.clamp(Millis(1), TICK));
                for ask in group {
                    tell(ask, &mut answer);
                }
            }
            Err(error) => {
                self.queue.trouble.set(Some(&error));
                self.tick = TICK;
                group.into_iter().for_each(|ask| ask.fail(&error));
            }
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

fn add(cmd: &mut Cmd, ask: &Ask, names: &Names<'_>) {
    match ask {
        Ask::Open(ttl, _) => _ = cmd.arg("O").arg((*ttl).clamp(FACTS.ttl_min, TTL_MAX).0),
        Ask::Renew(lease, _) => _ = cmd.arg("R").arg(lease.0),
        Ask::Close(lease, _) => _ = cmd.arg("C").arg(lease.0),
        Ask::Commit(txns, _) => txns.iter().for_each(|txn| match fits(&FACTS, txn) {
            true => add_txn(cmd, txn, names),
            false => add_refusal(cmd, txn, names),
        }),
    }
}

/// Whoever asked may be gone: then nobody hears.
fn tell(ask: Ask, from: &mut Answer) {
    match ask {
        Ask::Open(_, reply) => drop(reply.send(from.granted().flatten().ok_or_else(nonsense))),
        Ask::Renew(_, reply) => drop(reply.send(from.granted().ok_or_else(nonsense))),
        Ask::Close(_, reply) => drop(reply.send(from.answers.next().map(drop).ok_or_else(nonsense))),
        Ask::Commit(txns, reply) => {
            let outcomes = txns.iter().map(|txn| {
                from.answers.next().and_then(|answer| outcome(answer, txn)).unwrap_or(Outcome::Unknown)
            });
            reply.send(outcomes.collect());
        }
    }
}
