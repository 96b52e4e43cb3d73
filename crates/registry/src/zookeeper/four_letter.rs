//! The four-letter words, which a server answers to clients without a login, as far as it is allowed to.

use std::time::Duration;

use evenkeel_core::time::Millis;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::session::{PORT, ZookeeperSession};

/// How long a server may take to answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// A server's answer to a word; `None` if there is none.
pub(super) async fn query(at: &str, word: &str) -> Option<String> {
    let asked = async {
        let mut stream = TcpStream::connect(at).await.ok()?;
        stream.write_all(word.as_bytes()).await.ok()?;
        let mut said = Vec::new();
        stream.read_to_end(&mut said).await.ok()?;
        Some(String::from_utf8_lossy(&said).into_owned())
    };
    tokio::time::timeout(PATIENCE, asked).await.ok()?
}

/// The value behind a name, up to the end of its line.
pub(super) fn value<'s>(said: &'s str, name: &str) -> Option<&'s str> {
    said.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

pub(super) fn number(said: &str, name: &str) -> Option<u32> {
    value(said, name)?.parse().ok()
}

impl ZookeeperSession {
    /// The longest tick that a server reports; `None` if none does, as when `conf` is not allowed.
    pub(super) async fn longest_tick(&self) -> Option<Millis> {
        if !self.url.tls().is_ok_and(|tls| tls.is_none()) {
            return None;
        }
        let mut asked = JoinSet::new();
        for at in self.url.addresses().iter().map(|host| host.with_port(PORT)) {
            asked.spawn(async move { number(&query(&at, "conf").await?, "tickTime=") });
        }
        asked.join_all().await.into_iter().flatten().max().map(|tick| Millis(tick.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_found_by_their_names() {
        let conf = "clientPort=2181\ntickTime=2000\nmaxClientCnxns=60\nminSessionTimeout=4000\n";
        let found = ["tickTime=", "maxClientCnxns=", "jute="].map(|name| number(conf, name));
        assert_eq!(found, [Some(2_000), Some(60), None]);
        assert_eq!(number("conf is not executed because it is not in the whitelist.\n", "tickTime="), None);
    }
}
