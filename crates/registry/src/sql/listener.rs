//! Learns of new revisions of any writer: by the server's notifications if it has them, and else by polling.

use std::sync::{Arc, Weak};
use std::time::Duration;

use evenkeel_core::registry::Revision;

use super::config::{NEWS_GAP, NOTICE_PUSHED, OrderSeen, POLL, SqlConfig};
#[cfg(feature = "postgres")]
use super::connection::SqlTarget;
use super::reader::SqlReaders;
use crate::clock::Stopwatch;

/// Starts listening; ends with the engine.
pub(super) fn start(config: Arc<SqlConfig>, readers: &Arc<SqlReaders>, seen: &Arc<OrderSeen>) {
    tokio::spawn(listen(config, Arc::downgrade(readers), Arc::downgrade(seen)));
}

async fn listen(config: Arc<SqlConfig>, readers: Weak<SqlReaders>, seen: Weak<OrderSeen>) {
    let mut listener = SqlListener::default();
    loop {
        let (Some(asked), Some(rung)) = (readers.upgrade(), seen.upgrade()) else { return };
        // A server that is away is polled again, and a caller that commits gets the error meanwhile.
        let looked = Stopwatch::start();
        if let Ok(revision) = asked.revision().await {
            rung.ring(revision);
        }
        drop((asked, rung));
        listener.wait_for_change(&config, &readers, &seen).await;
        // Many nodes that write at nearly the same moment cost each node one look, not one for each of them.
        tokio::time::sleep(span(NEWS_GAP).saturating_sub(looked.elapsed())).await;
    }
}

/// The connection for the server's notifications.
#[derive(Default)]
struct SqlListener {
    #[cfg(feature = "postgres")]
    listener: Option<sqlx::postgres::PgListener>,
}

impl SqlListener {
    /// Waits until it is time to poll.
    async fn wait_for_change(
        &mut self,
        config: &SqlConfig,
        readers: &Weak<SqlReaders>,
        seen: &Weak<OrderSeen>,
    ) {
        match &config.target {
            #[cfg(feature = "postgres")]
            SqlTarget::Postgres(options) if config.listens => {
                self.wait_for_notify(options, &config.tables.channel, readers, seen).await;
            }
            _ if readers.strong_count() == 0 => {}
            _ => tokio::time::sleep(span(POLL)).await,
        }
    }

    #[cfg(feature = "postgres")]
    async fn wait_for_notify(
        &mut self,
        options: &sqlx::postgres::PgConnectOptions,
        channel: &str,
        readers: &Weak<SqlReaders>,
        seen: &Weak<OrderSeen>,
    ) {
        // A notification may be lost, so polling goes on, less often.
        let patience = span(NOTICE_PUSHED);
        let Some(listener) = &mut self.listener else {
            let connected = tokio::time::timeout(patience * 4, connect(options, channel)).await;
            let connected = connected.ok().and_then(Result::ok);
            let wait = if connected.is_some() { patience } else { span(POLL) };
            // Only a connection opened afterwards, and to the adopted server, may be trusted.
            let known = match readers.upgrade() {
                Some(readers) if connected.is_some() => readers.reopen().await.is_ok(),
                _ => false,
            };
            self.listener = connected.filter(|_| known);
            if self.listener.is_none() {
                // A pooler in between may not pass on notifications; then this is polling.
                tokio::time::sleep(wait).await;
            }
            return;
        };
        let said = |word: &sqlx::postgres::PgNotification| word.payload().parse().ok().map(Revision);
        let heard = async {
            while let Some(word) = listener.try_recv().await? {
                let mut last = said(&word);
                while let Some(word) = listener.next_buffered() {
                    last = last.max(said(&word));
                }
                // Any user of this database can send notifications, so they only trigger a poll.
                if last > seen.upgrade().map(|seen| *seen.bell.borrow()) {
                    return Ok(true);
                }
            }
            Ok::<_, sqlx::Error>(false)
        };
        match tokio::time::timeout(patience, heard).await {
            Ok(Ok(true)) | Err(_) => {}
            // It was cut off and may be back, with another server: notifications meanwhile are lost.
            Ok(Ok(false)) => self.listener = None,
            Ok(Err(_)) => {
                self.listener = None;
                tokio::time::sleep(span(POLL)).await;
            }
        }
    }
}

#[cfg(feature = "postgres")]
async fn connect(
    options: &sqlx::postgres::PgConnectOptions,
    channel: &str,
) -> Result<sqlx::postgres::PgListener, sqlx::Error> {
    let pool = sqlx::postgres::PgPoolOptions::new().max_connections(1).connect_lazy_with(options.clone());
    let mut listener = sqlx::postgres::PgListener::connect_with(&pool).await?;
    listener.listen(channel).await?;
    Ok(listener)
}

fn span(millis: evenkeel_core::time::Millis) -> Duration {
    Duration::from_millis(millis.0.unsigned_abs())
}
