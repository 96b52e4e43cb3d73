//! The health check: whether the server keeps what it answers, and how much memory it has.

use super::connector::{InfoReply, RedisConnector};
use super::session::{ANSWER, to_duration};
use crate::RegistryError;
use crate::health::HealthReport;

impl RedisConnector {
    /// Checks the server, over a connection of its own.
    pub(super) async fn check_health(&self) -> Result<HealthReport, RegistryError> {
        let (mut connection, server) = self.connect(to_duration(ANSWER)).await?;
        let asked: Result<String, _> = redis::cmd("INFO").query_async(&mut connection).await;
        let told = InfoReply(asked.map_err(|error| self.explain(&error))?);
        let mut found =
            HealthReport { version: Some(told.field("redis_version").into()), ..HealthReport::default() };
        match (server.is_durable, told.field("connected_slaves")) {
            (true, _) => found.add_check("durability", "appendfsync always: an answer is given after a sync"),
            (false, "0") => found.add_problem(
                "durability",
                "a crash of the server may lose what it answered",
                "set appendonly yes, appendfsync always and no-appendfsync-on-rewrite no, and let this user read them \
                 (+config|get)",
            ),
            (false, replicas) => found.add_problem(
                "durability",
                format!("a promoted one of {replicas} replicas lacks what was answered last"),
                "run it without replicas, or accept that each failover is a new generation",
            ),
        }
        match told.field("aof_last_write_status") {
            "" | "ok" => {}
            _ => found.add_problem("disk", "the last write of its log failed", "free its disk"),
        }
        let number = |name| told.field(name).parse::<u64>().unwrap_or(0);
        let (used, most) = (number("used_memory"), number("maxmemory"));
        match most > 0 && used > most / 10 * 9 {
            true => found.add_problem("memory", format!("{used} of {most} bytes used"), "raise maxmemory"),
            false => found.add_check("memory", format!("{} MiB used", used >> 20)),
        }
        Ok(found)
    }
}
