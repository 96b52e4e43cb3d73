//! Three servers that are one: an etcd and a ZooKeeper that go on when any of the three is gone.

use super::launch::{
    EngineSite, StartedEngine, etcd_answers, etcd_member, no_preparation, zookeeper_answers, zookeeper_member,
};
use anyhow::Result;

/// The places of the three, each with two ports more.
fn members(place: &EngineSite) -> Vec<EngineSite> {
    let ports: Vec<_> = std::iter::once(place.port).chain(place.others.iter().copied()).collect();
    let member = |(nth, ports): (usize, &[u16])| EngineSite {
        folder: place.folder.join(format!("m{}", nth + 1)),
        port: ports[0],
        others: ports[1..].to_vec(),
    };
    ports.chunks(3).enumerate().map(member).collect()
}

fn url(scheme: &str, members: &[EngineSite]) -> String {
    let hosts: Vec<_> = members.iter().map(|member| format!("127.0.0.1:{}", member.port)).collect();
    format!("{scheme}://{}", hosts.join(","))
}

pub(super) fn etcd(place: &EngineSite) -> Result<StartedEngine> {
    let members = members(place);
    let all = members.iter().zip(1..).map(|(it, id)| format!("m{id}=http://127.0.0.1:{}", it.others[0]));
    let all = all.collect::<Vec<_>>().join(",");
    let mut children = Vec::new();
    for (member, id) in members.iter().zip(1..) {
        std::fs::create_dir(&member.folder)?;
        children.push(etcd_member(member, &format!("m{id}"), &all)?);
    }
    Ok(StartedEngine { children, url: url("etcd", &members), prepare: no_preparation })
}

pub(super) fn etcds_answer(place: &EngineSite) -> bool {
    members(place).iter().all(etcd_answers)
}

pub(super) fn zookeeper(place: &EngineSite) -> Result<StartedEngine> {
    let members = members(place);
    let all = members.iter().zip(1..);
    let all = all.map(|(it, id)| format!("server.{id}=127.0.0.1:{}:{}\n", it.others[0], it.others[1]));
    let more = format!("initLimit=40\nsyncLimit=20\n{}", all.collect::<String>());
    let mut children = Vec::new();
    for (member, id) in members.iter().zip(1..) {
        std::fs::create_dir_all(member.folder.join("data"))?;
        member.write("data/myid", &id.to_string())?;
        children.push(zookeeper_member(member, "quorum.QuorumPeerMain", &more)?);
    }
    Ok(StartedEngine { children, url: url("zookeeper", &members), prepare: no_preparation })
}

pub(super) fn zookeepers_answer(place: &EngineSite) -> bool {
    members(place).iter().all(zookeeper_answers)
}
