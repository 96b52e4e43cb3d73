//! ZooKeeper by hand: one transaction a commit, many on their way.

use zookeeper_client::{Acls, Client, CreateMode};

use super::{ByHand, Failure, VALUE};
use crate::{BoxFuture, EngineUrl};

/// How many are on their way at once.
const TOGETHER: usize = 256;

pub(super) struct Rows {
    client: Client,
    root: String,
    versions: Vec<i32>,
}

impl Rows {
    pub(super) async fn make(url: &EngineUrl, rows: u32) -> Result<Self, Failure> {
        let hosts: Vec<_> = url.hosts().iter().map(|host| host.with_port(2181)).collect();
        let client = Client::connect(&hosts.join(",")).await?;
        let root = format!("/by-hand-{}", std::process::id());
        let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
        client.create(&root, &[], &options).await?;
        let made = Self { client, root, versions: vec![0; rows as usize] };
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

impl ByHand for Rows {
    fn commit<'a>(&'a mut self, pairs: &'a [[u32; 2]]) -> BoxFuture<'a, Result<(), Failure>> {
        Box::pin(async move {
            for together in pairs.chunks(TOGETHER) {
                let mut sent = Vec::with_capacity(together.len());
                for pair in together {
                    let mut writer = self.client.new_multi_writer();
                    for row in pair {
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
