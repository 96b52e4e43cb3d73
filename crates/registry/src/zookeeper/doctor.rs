//! What an examination finds: which servers answer, as what, and how many there are. What no client can see is said too.

use zookeeper_client::Error;

use super::link::{ANSWER, Link, PORT, span};
use super::words::{ask, number, value};
use crate::RegistryError;
use crate::examine::{Examined, release};

/// Where an ensemble writes down its members.
const CONFIG: &str = "/zookeeper/config";

/// A node has a connection for itself and one for its lease, and may be one of several on its host.
const CONNECTIONS_MIN: u32 = 10;

/// What is behind an address of the URL.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Server {
    /// It says what it is.
    Serving { version: String, mode: String },
    /// It takes the word for a stranger's.
    Quiet,
    /// It is there and serves nobody.
    Idle,
    /// Nobody answers.
    Away,
}

/// What was seen.
#[derive(Clone, Debug, Default)]
struct Sight {
    /// By their addresses; nothing where they are spoken to with encryption.
    servers: Vec<(String, Server)>,
    /// How many addresses the URL has.
    named: usize,
    /// How many vote; 0 when one is alone, `None` where that is not told.
    members: Option<usize>,
    /// How many connections a host may have, 0 for any number; `None` where that is not told.
    connections: Option<u32>,
}

impl Link {
    /// Looks at the session's ensemble, and at each server by its four-letter words.
    pub(super) async fn examine(&self) -> Result<Examined, RegistryError> {
        let client = self.client().await?;
        let mut sight = Sight { named: self.url.hosts().len(), ..Sight::default() };
        sight.members = match tokio::time::timeout(span(ANSWER), client.get_data(CONFIG)).await {
            Ok(Ok((data, _))) => Some(members(&String::from_utf8_lossy(&data))),
            // This user may be kept from it, which is no fault.
            Ok(Err(Error::NoNode | Error::NoAuth)) => None,
            Ok(Err(error)) => return Err(self.explain(&error)),
            Err(_) => return Err(self.explain(&Error::Timeout)),
        };
        if self.url.tls()?.is_none() {
            for host in self.url.hosts() {
                let at = host.with_port(PORT);
                let said = ask(&at, "srvr").await;
                if sight.connections.is_none() && said.is_some() {
                    sight.connections =
                        number(&ask(&at, "conf").await.unwrap_or_default(), "maxClientCnxns=");
                }
                sight.servers.push((at, server(said.as_deref())));
            }
        }
        Ok(judge(&sight))
    }
}

fn server(said: Option<&str>) -> Server {
    let Some(said) = said else { return Server::Away };
    let version = value(said, "Zookeeper version:").and_then(|told| told.split(['-', ',']).next());
    match (version, value(said, "Mode:")) {
        (Some(version), Some(mode)) => Server::Serving { version: version.into(), mode: mode.into() },
        _ if said.contains("whitelist") => Server::Quiet,
        _ => Server::Idle,
    }
}

/// How many of those that a configuration names may vote.
fn members(config: &str) -> usize {
    config.lines().filter(|line| line.starts_with("server.") && !line.contains(":observer")).count()
}

fn judge(sight: &Sight) -> Examined {
    let mut found = Examined::default();
    let mut modes = Vec::new();
    for (at, server) in &sight.servers {
        match server {
            Server::Serving { version, mode } => {
                found.version.get_or_insert_with(|| version.clone());
                modes.push(format!("{at} {mode}"));
            }
            Server::Quiet => modes.push(format!("{at} does not say: allow it 4lw.commands.whitelist=srvr")),
            Server::Idle => found.fault(
                "server",
                format!("{at} is in touch with no majority"),
                "see whether it reaches the others at the ports of its server lines",
            ),
            Server::Away => {
                found.fault("server", format!("{at} does not answer"), "start it, or take it out of the URL");
            }
        }
    }
    match modes.is_empty() {
        true => found.tell("mode", "not asked over an encrypted connection"),
        false => found.tell("mode", modes.join(", ")),
    }
    judge_members(sight, &mut found);
    match sight.connections {
        Some(most @ 1..CONNECTIONS_MIN) => found.fault(
            "connections",
            format!("{most} a host, and a node takes two"),
            "raise maxClientCnxns to 60, the default",
        ),
        Some(0) => found.tell("connections", "any number a host"),
        Some(most) => found.tell("connections", format!("{most} a host")),
        None => {}
    }
    found.tell(
        "unseen",
        "forceSync, which must be yes, and jute.maxbuffer, 1 MiB or more: no client is told them",
    );
    found
}

/// Whether a server of this release may lose, or keep for itself, what was written around an election.
fn differs_after_elections(version: &str) -> bool {
    release(version).is_some_and(|known| known < [3, 9, 4])
}

fn judge_members(sight: &Sight, found: &mut Examined) {
    let Some(members) = sight.members else { return };
    match members {
        0 | 1 => found.tell("members", "1; its host is the one that must not fail"),
        2 => found.fault(
            "members",
            "2, of which none may fail",
            "add a third: with two, the loss of either stops everything",
        ),
        _ if members % 2 == 0 => found.fault(
            "members",
            format!("{members}, of which {} may fail, as of one less", (members - 1) / 2),
            "add one or take one away: an even number is one more to fail and helps nobody",
        ),
        _ => found.tell("members", format!("{members}, of which {} may fail", (members - 1) / 2)),
    }
    // Over encryption no server tells its release.
    if members > 1
        && let Some(version) = found.version.as_deref().filter(|told| differs_after_elections(told))
    {
        let told = format!(
            "servers of {version} may differ from each other after an election (ZOOKEEPER-4712, -4925): nodes that see it stop; \
             3.9.4 and later do not"
        );
        found.tell("release", told);
    }
    if sight.named < members {
        found.fault(
            "url",
            format!("{} of {members} servers named", sight.named),
            "name every server: whoever knows only those cannot go to another when they fail",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn serving(mode: &str) -> Server {
        Server::Serving { version: "3.8.0".into(), mode: mode.into() }
    }

    fn sight(servers: &[Server], members: usize) -> Sight {
        let servers: Vec<_> =
            servers.iter().zip(1..).map(|(server, nth)| (format!("zk{nth}:2181"), server.clone())).collect();
        Sight { named: servers.len(), servers, members: Some(members), connections: Some(60) }
    }

    fn faults(sight: &Sight) -> Vec<String> {
        judge(sight).faults.into_iter().map(|fault| format!("{}: {}", fault.name, fault.what)).collect()
    }

    fn told(sight: &Sight, name: &str) -> String {
        let told = judge(sight).told.into_iter().find(|(found, _)| *found == name);
        told.map(|(_, value)| value).unwrap_or_default()
    }

    #[test]
    fn what_a_server_says_is_understood() {
        let said =
            "Zookeeper version: 3.8.0-1, built on 2022-02-25\nLatency min/avg/max: 0/0/0\nMode: follower\n";
        assert_eq!(server(Some(said)), serving("follower"));
        let idle = "This ZooKeeper instance is not currently serving requests\n";
        assert_eq!(server(Some(idle)), Server::Idle);
        assert_eq!(server(Some("srvr is not executed because it is not in the whitelist.\n")), Server::Quiet);
        assert_eq!(server(None), Server::Away);
        let config =
            "server.1=a:1:2:participant\nserver.2=b:1:2:participant\nserver.3=c:1:2:observer\nversion=0";
        assert_eq!((members(config), members("")), (2, 0));
    }

    #[test]
    fn a_healthy_ensemble_is_told_of_and_so_is_what_cannot_be_seen() {
        let good = sight(&[serving("leader"), serving("follower"), serving("follower")], 3);
        assert_eq!(faults(&good), [""; 0]);
        assert_eq!(judge(&good).version.as_deref(), Some("3.8.0"));
        assert_eq!(told(&good, "members"), "3, of which 1 may fail");
        assert_eq!(told(&good, "connections"), "60 a host");
        assert!(told(&good, "mode").starts_with("zk1:2181 leader, zk2:2181 follower"));
        assert!(told(&good, "unseen").contains("forceSync"));
        assert!(told(&good, "release").starts_with("servers of 3.8.0 may differ"));
        let alone = sight(&[serving("standalone")], 0);
        assert_eq!(told(&alone, "release"), "");
        assert_eq!((faults(&alone), told(&alone, "members").split(';').next()), (vec![], Some("1")));
    }

    #[test]
    fn each_fault_is_named() {
        let three = [serving("leader"), serving("follower"), serving("follower")];
        assert_eq!(faults(&sight(&three[..2], 2)), ["members: 2, of which none may fail"]);
        let four = [&three[..], &three[2..]].concat();
        assert_eq!(faults(&sight(&four, 4)), ["members: 4, of which 1 may fail, as of one less"]);
        assert_eq!(faults(&sight(&three[..1], 3)), ["url: 1 of 3 servers named"]);
        let ill = [three[0].clone(), Server::Idle, Server::Away];
        let expected = ["server: zk2:2181 is in touch with no majority", "server: zk3:2181 does not answer"];
        assert_eq!(faults(&sight(&ill, 3)), expected);
        let few = Sight { connections: Some(3), ..sight(&three, 3) };
        assert_eq!(faults(&few), ["connections: 3 a host, and a node takes two"]);
    }

    #[test]
    fn releases_whose_servers_differ_after_elections_are_known() {
        let differ = ["3.6.3", "3.8.4", "3.9.3"].map(differs_after_elections);
        let agree = ["3.9.4", "3.10.0", "4.0", ""].map(differs_after_elections);
        assert_eq!((differ, agree), ([true; 3], [false; 4]));
    }

    #[test]
    fn what_is_not_told_is_no_fault() {
        let quiet = Sight { members: None, connections: None, ..sight(&[Server::Quiet], 0) };
        assert_eq!((faults(&quiet), told(&quiet, "members")), (vec![], String::new()));
        assert!(told(&quiet, "mode").contains("whitelist"));
        let encrypted = Sight { named: 3, members: Some(3), ..Sight::default() };
        assert_eq!((faults(&encrypted), judge(&encrypted).version), (vec![], None));
        assert!(told(&encrypted, "mode").contains("encrypted"));
    }
}
