//! The Redis baseline: one small script a batch, which replaces two fields of a hash for each commit.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Script};

use super::{BaselineClient, BenchError, VALUE, row_key};
use crate::{BoxFuture, EngineUrl};

/// Six arguments a commit: a field, its revision and its new one, twice; the value comes first.
const SCRIPT: &str = "
local made = 0
for i = 2, #ARGV, 6 do
  if redis.call('HGET', KEYS[1], ARGV[i]) == ARGV[i + 1] and redis.call('HGET', KEYS[1], ARGV[i + 3]) == ARGV[i + 4] then
    redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 2], ARGV[i + 3], ARGV[i + 5])
    redis.call('HSET', KEYS[2], ARGV[i], ARGV[1], ARGV[i + 3], ARGV[1])
    made = made + 1
  end
end
return made";

pub(super) struct RedisBaseline {
    connection: MultiplexedConnection,
    script: Script,
    keys: [String; 2],
    revision: u64,
    revisions: Vec<u64>,
}

impl RedisBaseline {
    pub(super) async fn make(url: &EngineUrl, rows: u32) -> Result<Self, BenchError> {
        let config = AsyncConnectionConfig::new().set_response_timeout(Some(Duration::from_secs(30)));
        let client = Client::open(url.to_string())?;
        let mut link = client.get_multiplexed_async_connection_with_config(&config).await?;
        let keys = ["revisions", "values"].map(|name| format!("{{by-hand-{}}}:{name}", std::process::id()));
        let mut fill = redis::pipe();
        for row in 0..rows {
            fill.hset(&keys[0], row_key(row), 0).ignore();
            fill.hset(&keys[1], row_key(row), VALUE.as_slice()).ignore();
        }
        fill.query_async::<()>(&mut link).await?;
        let script = Script::new(SCRIPT);
        Ok(Self { connection: link, script, keys, revision: 0, revisions: vec![0; rows as usize] })
    }
}

impl BaselineClient for RedisBaseline {
    fn commit<'a>(&'a mut self, pairs: &'a [[u32; 2]]) -> BoxFuture<'a, Result<(), BenchError>> {
        Box::pin(async move {
            self.revision += 1;
            let mut call = self.script.prepare_invoke();
            call.key(&self.keys[0]).key(&self.keys[1]).arg(VALUE.as_slice());
            for row in pairs.as_flattened() {
                let known = &mut self.revisions[*row as usize];
                call.arg(row_key(*row)).arg(*known).arg(self.revision);
                *known = self.revision;
            }
            let made: usize = call.invoke_async(&mut self.connection).await?;
            if made == pairs.len() { Ok(()) } else { Err("a row is not as it was left".into()) }
        })
    }
}
