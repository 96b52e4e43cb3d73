//! Looks for a registry without creating one, and deletes one.

use redis::aio::MultiplexedConnection;

use super::connector::RedisConnector;
use super::session::{ANSWER, RedisKeys, to_duration};
use crate::{EngineUrl, RegistryError};

/// How many keys of the database the server looks at for one answer.
const LOOK: u32 = 1_000;

/// Whether the namespace has its entry about the history, which every registry has.
pub(super) async fn exists(url: &EngineUrl) -> Result<bool, RegistryError> {
    let (connector, keys, mut connection) = connect(url).await?;
    let found = redis::cmd("EXISTS").arg(keys.full_names(&["meta"])).query_async(&mut connection).await;
    found.map_err(|error| connector.explain(&error))
}

/// Deletes every key of the namespace.
pub(super) async fn erase(url: &EngineUrl) -> Result<(), RegistryError> {
    let (connector, keys, mut connection) = connect(url).await?;
    let explain = |error| connector.explain(&error);
    // The letters of a namespace mean only themselves in a pattern, and so does a brace.
    let pattern = keys.full_names(&["*"]).remove(0);
    let mut cursor: u64 = 0;
    loop {
        let mut scan = redis::cmd("SCAN");
        scan.arg(cursor).arg("MATCH").arg(&pattern).arg("COUNT").arg(LOOK);
        let (next, found): (u64, Vec<String>) = scan.query_async(&mut connection).await.map_err(explain)?;
        if !found.is_empty() {
            let unlink = redis::cmd("UNLINK").arg(found).query_async::<u64>(&mut connection).await;
            unlink.map_err(explain)?;
        }
        cursor = next;
        if cursor == 0 {
            return Ok(());
        }
    }
}

async fn connect(
    url: &EngineUrl,
) -> Result<(RedisConnector, RedisKeys, MultiplexedConnection), RegistryError> {
    let ([db], namespace) = url.path_segments(["DB"])?;
    let connector = RedisConnector::new(url, db)?;
    let (connection, _) = connector.connect(to_duration(ANSWER)).await?;
    Ok((connector, RedisKeys(namespace.into()), connection))
}
