//! What an examination finds: whether the server keeps what it answers, and how much room it has.

use super::door::{Door, Info};
use super::link::{ANSWER, patience};
use crate::RegistryError;
use crate::examine::Examined;

impl Door {
    /// Looks at the server, over a connection of its own.
    pub(super) async fn examine(&self) -> Result<Examined, RegistryError> {
        let (mut connection, server) = self.connect(patience(ANSWER)).await?;
        let asked: Result<String, _> = redis::cmd("INFO").query_async(&mut connection).await;
        let told = Info(asked.map_err(|error| self.explain(&error))?);
        let mut found = Examined { version: Some(told.of("redis_version").into()), ..Examined::default() };
        match (server.keeps_all, told.of("connected_slaves")) {
            (true, _) => found.tell("durability", "appendfsync always: an answer is given after a sync"),
            (false, "0") => found.fault(
                "durability",
                "a crash of the server may lose what it answered",
                "set appendonly yes, appendfsync always and no-appendfsync-on-rewrite no, and let this user read them \
                 (+config|get)",
            ),
            (false, replicas) => found.fault(
                "durability",
                format!("a promoted one of {replicas} replicas lacks what was answered last"),
                "run it without replicas, or accept that each failover is a new generation",
            ),
        }
        match told.of("aof_last_write_status") {
            "" | "ok" => {}
            _ => found.fault("disk", "the last write of its log failed", "free its disk"),
        }
        let number = |name| told.of(name).parse::<u64>().unwrap_or(0);
        let (used, most) = (number("used_memory"), number("maxmemory"));
        match most > 0 && used > most / 10 * 9 {
            true => found.fault("memory", format!("{used} of {most} bytes used"), "raise maxmemory"),
            false => found.tell("memory", format!("{} MiB used", used >> 20)),
        }
        Ok(found)
    }
}
