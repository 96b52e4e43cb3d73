//! One task that sends what waits, all of it in one call: so many callers cost one trip and one sync of the disk.

use evenkeel_core::registry::{LeaseGrant, LeaseId, TxnOutcome};
use evenkeel_core::time::{Millis, Mono, Wall};
use redis::{Cmd, Value};

use super::session::{ScriptKind, SharedSession, to_duration, unexpected_reply};
use super::wire::{KeyIndex, add_refusal, add_txn, list, number, outcome};
use super::{FACTS, TIME_STEP};
use crate::clock::{Clock, HostClock};
use crate::queue::{GroupLimits, WriteQueue, WriteRequest, WriterHandle, write_queue};
use crate::{TTL_MAX, fits};

/// How much one call takes at most, but for a commit that is larger by itself. Redis does nothing else meanwhile; and while it
/// works on one call, whoever asks works on what the last one answered.
const MOST: GroupLimits = GroupLimits { txns: 500, bytes: 16 << 20 };

/// How often somebody moves the registry's time when nobody asks for anything: by less than the step that it may take.
pub(super) const TICK: Millis = Millis(TIME_STEP.0 / 2);

/// How often it looks whether the server still keeps all.
const LOOK: Millis = Millis::secs(5);

/// How many changes the feed remembers at least.
pub(super) const REMEMBERED: usize = 65_536;

/// Starts the task. When nobody can ask any more, it still sends what was asked.
pub(super) fn start(link: SharedSession) -> WriterHandle {
    let (asker, queue) = write_queue(MOST);
    tokio::spawn(RedisWriter { session: link, queue, tick: TICK, checked_at: HostClock.now().mono }.run());
    asker
}

struct RedisWriter {
    session: SharedSession,
    queue: WriteQueue,
    /// When to act unasked: so leases end in time though nobody asks for anything.
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
                // One that does not answer is looked at again when it does.
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

/// What the script told of a group.
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

/// Whoever asked may be gone: then nobody hears.
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
