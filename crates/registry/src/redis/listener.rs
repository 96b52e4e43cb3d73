//! Learns of other processes' changes at once, by a read that blocks on its own connection.
//!
//! It only announces them: the changes are read afterwards. If it is cut off, the writer's ticks find them later.

use std::sync::Weak;

use evenkeel_core::registry::Revision;
use evenkeel_core::time::Millis;
use redis::{RedisError, Value};

use super::session::{ANSWER, RedisSession, to_duration};
use super::wire::{list, text};
use super::writer::TICK;

/// How long one read blocks. The server answers at its end, which shows that it is alive.
const BLOCK: Millis = Millis::secs(2);

/// Listens for as long as the session exists.
pub(super) async fn run(link: Weak<RedisSession>) {
    loop {
        let Some(alive) = link.upgrade() else { return };
        // The answer may take as long as the block: the patience of other requests is too short for it.
        let connected = alive.connector().connect(to_duration(BLOCK + ANSWER)).await;
        let (news, mut heard) = (alive.keys().change_stream(), alive.state().cold);
        drop(alive);
        if let Ok((mut connection, _)) = connected {
            loop {
                let mut read = redis::cmd("XREAD");
                read.arg("COUNT").arg(1).arg("BLOCK").arg(BLOCK.0).arg("STREAMS").arg(&news);
                read.arg(format!("{heard}-18446744073709551615"));
                let answer: Result<Value, RedisError> = read.query_async(&mut connection).await;
                let (Ok(answer), Some(alive)) = (answer, link.upgrade()) else { break };
                if let Some(revision) = first(answer) {
                    alive.cold_changed(revision);
                    heard = revision;
                }
                heard = heard.max(alive.state().cold);
            }
        }
        tokio::time::sleep(to_duration(TICK)).await;
    }
}

/// The revision of the first change that was read; `None` when the block ended without any.
fn first(answer: Value) -> Option<Revision> {
    let mut stream = list(list(answer)?.next()?)?;
    let mut changes = list(stream.nth(1)?)?;
    let id = text(list(changes.next()?)?.next()?)?;
    id.split('-').next()?.parse().ok().map(Revision)
}
