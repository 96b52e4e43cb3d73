//! The health check: which servers answer, in which role, and how many there are; and what no client can check.

use zookeeper_client::Error;

use super::four_letter::{number, query, value};
use super::session::{ANSWER, PORT, ZookeeperSession, to_duration};
use crate::RegistryError;
use crate::health::{HealthReport, release};

/// The node in which an ensemble stores its members.
const CONFIG: &str = "/zookeeper/config";

/// A node has a connection for itself and one for its lease, and may be one of several on its host.
const CONNECTIONS_MIN: u32 = 10;

/// The state of a server of the URL.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ZookeeperServerState {
    /// It reports its role.
    Serving { version: String, mode: String },
    /// It does not answer the four-letter word to clients like this.
    Hidden,
    /// It is there and does not serve.
    NotServing,
    /// There is no answer.
    Unreachable,
}

/// The findings.
#[derive(Clone, Debug, Default)]
struct EnsembleHealth {
    /// By their addresses; empty if the connection is encrypted.
    servers: Vec<(String, ZookeeperServerState)>,
    /// How many addresses the URL has.
    named: usize,
    /// How many vote; 0 for a single server, `None` if unknown.
    members: Option<usize>,
    /// How many connections a host may have, 0 for any number; `None` if unknown.
    connections: Option<u32>,
}

impl ZookeeperSession {
    /// Checks the session's ensemble, and each server by its four-letter words.
    pub(super) async fn check_health(&self) -> Result<HealthReport, RegistryError> {
        let client = self.client().await?;
        let mut health = EnsembleHealth { named: self.url.addresses().len(), ..EnsembleHealth::default() };
        health.members = match tokio::time::timeout(to_duration(ANSWER), client.get_data(CONFIG)).await {
            Ok(Ok((data, _))) => Some(members(&String::from_utf8_lossy(&data))),
            // This user may lack the right, which is no fault.
            Ok(Err(Error::NoNode | Error::NoAuth)) => None,
            Ok(Err(error)) => return Err(self.explain(&error)),
            Err(_) => return Err(self.explain(&Error::Timeout)),
        };
        if self.url.tls()?.is_none() {
            for host in self.url.addresses() {
                let at = host.with_port(PORT);
                let said = query(&at, "srvr").await;
                if health.connections.is_none() && said.is_some() {
                    health.connections =
                        number(&query(&at, "conf").await.unwrap_or_default(), "maxClientCnxns=");
                }
                health.servers.push((at, server_state(said.as_deref())));
            }
        }
        Ok(report(&health))
    }
}

fn server_state(said: Option<&str>) -> ZookeeperServerState {
    let Some(said) = said else { return ZookeeperServerState::Unreachable };
    let version = value(said, "Zookeeper version:").and_then(|told| told.split(['-', ',']).next());
    match (version, value(said, "Mode:")) {
        (Some(version), Some(mode)) => {
            ZookeeperServerState::Serving { version: version.into(), mode: mode.into() }
        }
        _ if said.contains("whitelist") => ZookeeperServerState::Hidden,
        _ => ZookeeperServerState::NotServing,
    }
}

/// How many servers of a configuration may vote.
fn members(config: &str) -> usize {
    config.lines().filter(|line| line.starts_with("server.") && !line.contains(":observer")).count()
}

fn report(health: &EnsembleHealth) -> HealthReport {
    let mut found = HealthReport::default();
    let mut modes = Vec::new();
    for (at, server) in &health.servers {
        match server {
            ZookeeperServerState::Serving { version, mode } => {
                found.version.get_or_insert_with(|| version.clone());
                modes.push(format!("{at} {mode}"));
            }
            ZookeeperServerState::Hidden => {
                modes.push(format!("{at} does not say: allow it 4lw.commands.whitelist=srvr"))
            }
            ZookeeperServerState::NotServing => found.add_problem(
                "server",
                format!("{at} is in touch with no majority"),
                "see whether it reaches the others at the ports of its server lines",
            ),
            ZookeeperServerState::Unreachable => {
                found.add_problem(
                    "server",
                    format!("{at} does not answer"),
                    "start it, or take it out of the URL",
                );
            }
        }
    }
    match modes.is_empty() {
        true => found.add_check("mode", "not asked over an encrypted connection"),
        false => found.add_check("mode", modes.join(", ")),
    }
    report_members(health, &mut found);
    match health.connections {
        Some(most @ 1..CONNECTIONS_MIN) => found.add_problem(
            "connections",
            format!("{most} a host, and a node takes two"),
            "raise maxClientCnxns to 60, the default",
        ),
        Some(0) => found.add_check("connections", "any number a host"),
        Some(most) => found.add_check("connections", format!("{most} a host")),
        None => {}
    }
    found.add_check(
        "unseen",
        "forceSync, which must be yes, and jute.maxbuffer, 1 MiB or more: no client is told them",
    );
    found
}

/// Whether a server of this release may lose, or keep for itself, writes around an election.
fn differs_after_elections(version: &str) -> bool {
    release(version).is_some_and(|known| known < [3, 9, 4])
}

fn report_members(health: &EnsembleHealth, found: &mut HealthReport) {
    let Some(members) = health.members else { return };
    match members {
        0 | 1 => found.add_check("members", "1; its host is the one that must not fail"),
        2 => found.add_problem(
            "members",
            "2, of which none may fail",
            "add a third: with two, the loss of either stops everything",
        ),
        _ if members % 2 == 0 => found.add_problem(
            "members",
            format!("{members}, of which {} may fail, as of one less", (members - 1) / 2),
            "add one or take one away: an even number is one more to fail and helps nobody",
        ),
        _ => found.add_check("members", format!("{members}, of which {} may fail", (members - 1) / 2)),
    }
    // With encryption the servers' release is unknown.
    if members > 1
        && let Some(version) = found.version.as_deref().filter(|told| differs_after_elections(told))
    {
        let told = format!(
            "servers of {version} may differ from each other after an election (ZOOKEEPER-4712, -4925): nodes that see it stop; \
             3.9.4 and later do not"
        );
        found.add_check("release", told);
    }
    if health.named < members {
        found.add_problem(
            "url",
            format!("{} of {members} servers named", health.named),
            "name every server: whoever knows only those cannot go to another when they fail",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn serving(mode: &str) -> ZookeeperServerState {
        ZookeeperServerState::Serving { version: "3.8.0".into(), mode: mode.into() }
    }

    fn ensemble_health(servers: &[ZookeeperServerState], members: usize) -> EnsembleHealth {
        let servers: Vec<_> =
            servers.iter().zip(1..).map(|(server, nth)| (format!("zk{nth}:2181"), server.clone())).collect();
        EnsembleHealth { named: servers.len(), servers, members: Some(members), connections: Some(60) }
    }

    fn faults(health: &EnsembleHealth) -> Vec<String> {
        report(health).problems.into_iter().map(|fault| format!("{}: {}", fault.name, fault.detail)).collect()
    }

    fn check_value(health: &EnsembleHealth, name: &str) -> String {
        let told = report(health).checks.into_iter().find(|(found, _)| *found == name);
        told.map(|(_, value)| value).unwrap_or_default()
    }

    #[test]
    fn what_a_server_says_is_understood() {
        let said =
            "Zookeeper version: 3.8.0-1, built on 2022-02-25\nLatency min/avg/max: 0/0/0\nMode: follower\n";
        assert_eq!(server_state(Some(said)), serving("follower"));
        let idle = "This ZooKeeper instance is not currently serving requests\n";
        assert_eq!(server_state(Some(idle)), ZookeeperServerState::NotServing);
        assert_eq!(
            server_state(Some("srvr is not executed because it is not in the whitelist.\n")),
            ZookeeperServerState::Hidden
        );
        assert_eq!(server_state(None), ZookeeperServerState::Unreachable);
        let config =
            "server.1=a:1:2:participant\nserver.2=b:1:2:participant\nserver.3=c:1:2:observer\nversion=0";
        assert_eq!((members(config), members("")), (2, 0));
    }

    #[test]
    fn a_healthy_ensemble_is_told_of_and_so_is_what_cannot_be_seen() {
        let good = ensemble_health(&[serving("leader"), serving("follower"), serving("follower")], 3);
        assert_eq!(faults(&good), [""; 0]);
        assert_eq!(report(&good).version.as_deref(), Some("3.8.0"));
        assert_eq!(check_value(&good, "members"), "3, of which 1 may fail");
        assert_eq!(check_value(&good, "connections"), "60 a host");
        assert!(check_value(&good, "mode").starts_with("zk1:2181 leader, zk2:2181 follower"));
        assert!(check_value(&good, "unseen").contains("forceSync"));
        assert!(check_value(&good, "release").starts_with("servers of 3.8.0 may differ"));
        let alone = ensemble_health(&[serving("standalone")], 0);
        assert_eq!(check_value(&alone, "release"), "");
        assert_eq!((faults(&alone), check_value(&alone, "members").split(';').next()), (vec![], Some("1")));
    }

    #[test]
    fn each_fault_is_named() {
        let three = [serving("leader"), serving("follower"), serving("follower")];
        assert_eq!(faults(&ensemble_health(&three[..2], 2)), ["members: 2, of which none may fail"]);
        let four = [&three[..], &three[2..]].concat();
        assert_eq!(faults(&ensemble_health(&four, 4)), ["members: 4, of which 1 may fail, as of one less"]);
        assert_eq!(faults(&ensemble_health(&three[..1], 3)), ["url: 1 of 3 servers named"]);
        let ill = [three[0].clone(), ZookeeperServerState::NotServing, ZookeeperServerState::Unreachable];
        let expected = ["server: zk2:2181 is in touch with no majority", "server: zk3:2181 does not answer"];
        assert_eq!(faults(&ensemble_health(&ill, 3)), expected);
        let few = EnsembleHealth { connections: Some(3), ..ensemble_health(&three, 3) };
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
        let quiet = EnsembleHealth {
            members: None,
            connections: None,
            ..ensemble_health(&[ZookeeperServerState::Hidden], 0)
        };
        assert_eq!((faults(&quiet), check_value(&quiet, "members")), (vec![], String::new()));
        assert!(check_value(&quiet, "mode").contains("whitelist"));
        let encrypted = EnsembleHealth { named: 3, members: Some(3), ..EnsembleHealth::default() };
        assert_eq!((faults(&encrypted), report(&encrypted).version), (vec![], None));
        assert!(check_value(&encrypted, "mode").contains("encrypted"));
    }
}
