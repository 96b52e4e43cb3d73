//! The writer task: sends all waiting requests in one call, so many callers share one trip and one sync of the disk.

use evenkeel_core::registry::{LeaseGrant, LeaseId, TxnOutcome};
use evenkeel_core::time::{Millis, Mono, Wall};
use redis::{Cmd, Value};

use super::facts::{FACTS, TIME_STEP};
use super::session::{ScriptKind, SharedSession, to_duration, unexpected_reply};
use super::wire::{KeyIndex, add_refusal, add_txn, list, number, outcome};
use crate::clock::{Clock, HostClock};
use crate::queue::{GroupLimits, WriteQueue, WriteRequest, WriterHandle, write_queue};
use crate::{TTL_MAX, fits};

/// The most in one call, except for a single larger commit. Redis does nothing else meanwhile; and while it
/// executes one call, the callers process the answers of the last one.
const MOST: GroupLimits = GroupLimits { txns: 500, bytes: 16 << 20 };

/// How often a process advances the registry's time without requests: by less than the step that it may take.
pub(super) const TICK: Millis = Millis(TIME_STEP.0 / 2);

/// How often it checks whether the server still keeps everything.
const LOOK: Millis = Millis::secs(5);

/// How many changes the feed remembers at least.
pub(super) const REMEMBERED: usize = 65_536;

/// Starts the task. When all callers are gone, it still sends the queued requests.
pub(super) fn start(link: SharedSession) -> WriterHandle {
    let (asker, queue) = write_queue(MOST);
    tokio::spawn(RedisWriter { session: link, queue, tick: TICK, checked_at: HostClock.now().mono }.run());
    asker
}

struct RedisWriter {
    session: SharedSession,
    queue: WriteQueue,
    /// When to act without requests: so leases end in time on an idle registry.
    tick: Millis,
    checked_at: Mono,
}

impl RedisWriter {
    async fn run(mut self) {
        loop {
            tokio::select! {
                biased;
                asked = self.queue.wait() => if !asked { return },
                () = tokio::time::sleep(to_duration(self.tick)) => {}
            }
            let group = self.queue.take_group();
            self.send(group).await;
            if HostClock.now().mono - self.checked_at >= LOOK {
                // A server that does not answer is checked again when it does.
                let _ = self.session.recheck_server().await;
                self.checked_at = HostClock.now().mono;
            }
        }
    }

    async fn send(&mut self, group: Vec<WriteRequest>) {
        let asked = self.session.call_script(ScriptKind::Act, |cmd| {
            let names = KeyIndex::from_txns(group.iter().flat_map(|ask| match ask {
                WriteRequest::Commit(txns, _) => txns.as_slice(),
                _ => &[],
            }));
            cmd.arg(TIME_STEP.0).arg(REMEMBERED);
            names.add_keys(cmd);
            group.iter().for_each(|ask| add_request(cmd, ask, &names));
        });
        let answered =
            asked.await.and_then(|(_, told)| ScriptReply::parse(told).ok_or_else(unexpected_reply));
        match answered {
            Ok(mut answer) => {
                self.queue.last_error.set(None);
                self.tick = answer.next_end.map_or(TICK, |end| end.clamp(Millis(1), TICK));
                for ask in group {
                    reply(ask, &mut answer);
                }
            }
            Err(error) => {
                self.queue.last_error.set(Some(&error));
                self.tick = TICK;
                group.into_iter().for_each(|ask| ask.fail(&error));
            }
        }
    }
}

/// The script's reply for a group.
struct ScriptReply {
    clock: Wall,
    next_end: Option<Millis>,
    replies: std::vec::IntoIter<Value>,
}

impl ScriptReply {
    fn parse(mut told: std::vec::IntoIter<Value>) -> Option<Self> {
        let clock = Wall(number(&told.next()?)?);
        let next_end = number(&told.next()?).map(Millis);
        Some(Self { clock, next_end, replies: list(told.next()?)? })
    }

    fn granted(&mut self) -> Option<Option<LeaseGrant>> {
        let mut answer = list(self.replies.next()?)?;
        let Some(lease) = answer.next() else { return Some(None) };
        let (lease, ttl) = (LeaseId(number(&lease)?), Millis(number(&answer.next()?)?));
        Some(Some(LeaseGrant { lease, ttl, clock: Some(self.clock), next_end: self.next_end }))
    }
}

fn add_request(cmd: &mut Cmd, ask: &WriteRequest, names: &KeyIndex<'_>) {
    match ask {
        WriteRequest::Open(ttl, _) => _ = cmd.arg("O").arg((*ttl).clamp(FACTS.ttl_min, TTL_MAX).0),
        WriteRequest::Renew(lease, _) => _ = cmd.arg("R").arg(lease.0),
        WriteRequest::Close(lease, _) => _ = cmd.arg("C").arg(lease.0),
        WriteRequest::Commit(txns, _) => txns.iter().for_each(|txn| match fits(&FACTS, txn) {
            true => add_txn(cmd, txn, names),
            false => add_refusal(cmd, txn, names),
        }),
    }
}

/// Answers a request. The caller may be gone.
fn reply(ask: WriteRequest, from: &mut ScriptReply) {
    match ask {
        WriteRequest::Open(_, reply) => {
            drop(reply.send(from.granted().flatten().ok_or_else(unexpected_reply)))
        }
        WriteRequest::Renew(_, reply) => drop(reply.send(from.granted().ok_or_else(unexpected_reply))),
        WriteRequest::Close(_, reply) => {
            drop(reply.send(from.replies.next().map(drop).ok_or_else(unexpected_reply)))
        }
        WriteRequest::Commit(txns, reply) => {
            let outcomes = txns.iter().map(|txn| {
                from.replies.next().and_then(|answer| outcome(answer, txn)).unwrap_or(TxnOutcome::Unknown)
            });
            reply.send(outcomes.collect());
        }
    }
}
