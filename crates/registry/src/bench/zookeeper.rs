//! The ZooKeeper baseline: one transaction a commit, or many as one; many in flight.

use zookeeper_client::{Acls, Client, CreateMode};

use super::{BaselineClient, BenchError, VALUE};
use crate::{BoxFuture, EngineUrl};

/// How many are in flight at once.
const TOGETHER: usize = 256;

/// How many commits are one transaction, if several are bundled.
const AS_ONE: usize = 64;

pub(super) struct ZookeeperBaseline {
    client: Client,
    root: String,
    versions: Vec<i32>,
    as_one: usize,
}

impl ZookeeperBaseline {
    pub(super) async fn make(url: &EngineUrl, rows: u32, together: bool) -> Result<Self, BenchError> {
        let hosts: Vec<_> = url.addresses().iter().map(|host| host.with_port(2181)).collect();
        let client = Client::connect(&hosts.join(",")).await?;
        let root = format!("/by-hand-{}-{together}", std::process::id());
        let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
        client.create(&root, &[], &options).await?;
        let as_one = if together { AS_ONE } else { 1 };
        let made = Self { client, root, versions: vec![0; rows as usize], as_one };
        for first in (0..rows).step_by(TOGETHER) {
            let some = first..rows.min(first + u32::try_from(TOGETHER)?);
            let paths: Vec<_> = some.map(|row| made.path(row)).collect();
            let sent: Vec<_> = paths.iter().map(|path| made.client.create(path, &VALUE, &options)).collect();
            for answer in sent {
                answer.await?;
            }
        }
        Ok(made)
    }

    fn path(&self, row: u32) -> String {
        format!("{}/{row:07}", self.root)
    }
}

impl BaselineClient for ZookeeperBaseline {
    fn commit<'a>(&'a mut self, pairs: &'a [[u32; 2]]) -> BoxFuture<'a, Result<(), BenchError>> {
        Box::pin(async move {
            for together in pairs.chunks(TOGETHER * self.as_one) {
                let mut sent = Vec::with_capacity(TOGETHER);
                for as_one in together.chunks(self.as_one) {
                    let mut writer = self.client.new_multi_writer();
                    for row in as_one.as_flattened() {
                        writer.add_set_data(&self.path(*row), &VALUE, Some(self.versions[*row as usize]))?;
                    }
                    sent.push(writer.commit());
                }
                for answer in sent {
                    answer.await?;
                }
                together.as_flattened().iter().for_each(|row| self.versions[*row as usize] += 1);
            }
            Ok(())
        })
    }
}
