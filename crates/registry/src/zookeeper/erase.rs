//! Looks for a registry without creating one, and deletes one.

use zookeeper_client::{Client, Error};

use super::session::{SESSION, ZookeeperSession};
use crate::{EngineUrl, RegistryError};

/// How many deletions are under way at once.
const PIECE: usize = 500;

/// Whether the namespace's node exists.
pub(super) async fn exists(url: &EngineUrl) -> Result<bool, RegistryError> {
    let (session, client) = connect(url).await?;
    Ok(session.with_timeout(client.check_stat(session.paths.root())).await?.is_some())
}

/// Deletes the namespace's node and all below it.
pub(super) async fn erase(url: &EngineUrl) -> Result<(), RegistryError> {
    let (session, client) = connect(url).await?;
    // Children first: a node that has some cannot be deleted.
    for folder in session.paths.folders().iter().skip(1) {
        let listed = async {
            match client.get_children(folder).await {
                Ok((names, _)) => Ok(names),
                Err(Error::NoNode) => Ok(vec![]),
                Err(error) => Err(error),
            }
        };
        let found = session.with_timeout(listed).await?;
        for piece in found.chunks(PIECE) {
            let paths = piece.iter().map(|name| format!("{folder}/{name}")).collect::<Vec<_>>();
            delete(&session, &client, &paths).await?;
        }
        delete(&session, &client, std::slice::from_ref(folder)).await?;
    }
    delete(&session, &client, &[session.paths.root().to_owned()]).await
}

/// Deletes nodes without children. Those that are gone already are no error.
async fn delete(session: &ZookeeperSession, client: &Client, paths: &[String]) -> Result<(), RegistryError> {
    let asked = paths.iter().map(|path| client.delete(path, None)).collect::<Vec<_>>();
    for asked in asked {
        let gone = async {
            match asked.await {
                Err(Error::NoNode) => Ok(()),
                done => done,
            }
        };
        session.with_timeout(gone).await?;
    }
    Ok(())
}

async fn connect(url: &EngineUrl) -> Result<(ZookeeperSession, Client), RegistryError> {
    let ([], namespace) = url.path_segments([])?;
    let session = ZookeeperSession::new(url, namespace)?;
    let client = session.connect(SESSION, false).await?;
    Ok((session, client))
}
