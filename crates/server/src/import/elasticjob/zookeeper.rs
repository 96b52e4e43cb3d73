//! Reads the tree of ElasticJob where it is kept. It only reads.
//!
//! Jobs come and go meanwhile: a node that is gone when it is read is left out, and a job with it.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::task::JoinSet;
use zookeeper_client::{Client, Error};

use super::live::{ElasticJobConfigNode, ElasticJobTree};
use crate::exit::{CliError, ExitKind};

/// How long connecting may take, with all servers that do not answer.
const CONNECTING: Duration = Duration::from_secs(10);
/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(5);
/// The term of the session, which also bounds how long a server that does not answer is waited for.
const SESSION: Duration = Duration::from_secs(6);
/// How many jobs are read at once.
const JOBS_AT_ONCE: usize = 32;
/// How many requests of one job wait for their answers at once.
const REQUESTS_AT_ONCE: usize = 32;
/// How many nodes are looked at to name the namespaces that exist.
const NAMESPACES_MAX: usize = 100;
const JOBS_OF_NAMESPACE_MAX: usize = 5;

/// Where the tree is.
#[derive(Clone)]
pub(crate) struct ElasticJobStore {
    /// `HOST:PORT[,HOST:PORT]`, as in ElasticJob's setting `serverLists`.
    pub(crate) servers: String,
    /// ElasticJob's setting `namespace`.
    pub(crate) namespace: String,
    /// ElasticJob's setting `digest`: `USER:PASSWORD`.
    pub(crate) digest: Option<String>,
}

/// Reads the trees of all jobs, by name.
///
/// # Errors
/// ZooKeeper does not answer, there is no such namespace or it has no node, or this user may not read it.
pub(crate) async fn read(store: &ElasticJobStore) -> Result<Vec<ElasticJobTree>, CliError> {
    let reader = TreeReader::connect(store).await?;
    // So that what is read is as new as the leader of the ensemble.
    let synced = answer(reader.client.sync(&reader.root)).await;
    synced.map_err(|error| reader.explain(&error))?;
    let Some(mut names) = reader.children("").await.map_err(|error| reader.explain(&error))? else {
        return Err(reader.no_namespace().await);
    };
    names.sort();
    let (mut trees, mut pending) = (Vec::with_capacity(names.len()), JoinSet::new());
    let mut names = names.into_iter();
    loop {
        while pending.len() < JOBS_AT_ONCE
            && let Some(name) = names.next()
        {
            let reader = reader.clone();
            pending.spawn(async move { reader.job(name).await });
        }
        match pending.join_next().await {
            None => break,
            Some(Ok(Ok(tree))) => trees.extend(tree),
            Some(Ok(Err(error))) => return Err(reader.explain(&error)),
            Some(Err(error)) => return Err(CliError::new(ExitKind::Failed, error.to_string())),
        }
    }
    trees.sort_by(|one: &ElasticJobTree, other| one.name.cmp(&other.name));
    Ok(trees)
}

/// A session that reads below a namespace.
#[derive(Clone)]
struct TreeReader {
    client: Client,
    store: ElasticJobStore,
    /// The path of the namespace.
    root: String,
}

impl TreeReader {
    async fn connect(store: &ElasticJobStore) -> Result<Self, CliError> {
        let namespace = store.namespace.trim_matches('/');
        if namespace.is_empty() || namespace.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Err(CliError::usage(format!("{:?} is no namespace of ElasticJob", store.namespace)));
        }
        if store.servers.contains("://") {
            let said = format!("--zookeeper takes HOST:PORT[,HOST:PORT], not {:?}", store.servers);
            return Err(CliError::usage(said));
        }
        let mut connector = Client::connector().with_session_timeout(SESSION).with_fail_eagerly();
        if let Some(digest) = &store.digest {
            connector = connector.with_auth("digest", digest.as_bytes());
        }
        let connected = tokio::time::timeout(CONNECTING, connector.connect(&store.servers)).await;
        let client = connected.unwrap_or(Err(Error::Timeout)).map_err(|error| explain(store, &error))?;
        Ok(Self { client, root: format!("/{namespace}"), store: store.clone() })
    }

    /// The tree of one job; `None` if it was deleted meanwhile.
    async fn job(&self, name: String) -> Result<Option<ElasticJobTree>, Error> {
        match self.job_nodes(&name).await {
            // One job may belong to another user than the others do.
            Err(error @ (Error::NoAuth | Error::AuthFailed)) => {
                let config = ElasticJobConfigNode::Unreadable(self.explain(&error).message);
                Ok(Some(ElasticJobTree { name, config, ..ElasticJobTree::default() }))
            }
            tree => tree,
        }
    }

    async fn job_nodes(&self, name: &str) -> Result<Option<ElasticJobTree>, Error> {
        let node = format!("/{name}");
        let at = [
            "config",
            "servers",
            "instances",
            "leader/election/instance",
            "leader/failover/items",
            "sharding",
        ]
        .map(|below| format!("{node}/{below}"));
        let [config, servers, instances, leader, waiting, items] = &at;
        let (config, servers, instances, leader, waiting, sharding) = tokio::join!(
            self.data(config),
            self.servers(servers),
            self.children_of(instances),
            self.data(leader),
            self.children_of(waiting),
            self.children_of(items),
        );
        // Last: if the job's node is there now, the nodes that were not are not there, rather than gone with it.
        let Some(class) = self.data(&node).await? else { return Ok(None) };
        let mut tree = ElasticJobTree {
            name: name.to_owned(),
            class,
            config: config?.map_or(ElasticJobConfigNode::Missing, ElasticJobConfigNode::Data),
            servers: servers?,
            instances: instances?.into_iter().collect(),
            leader: leader?.map(text).filter(|leader| !leader.is_empty()),
            waiting_items: numbers(waiting?).collect(),
            ..ElasticJobTree::default()
        };
        self.items(items, numbers(sharding?).collect(), &mut tree).await?;
        Ok(Some(tree))
    }

    /// The addresses below `servers`, and whether each is enabled.
    async fn servers(&self, at: &str) -> Result<BTreeMap<String, bool>, Error> {
        let names = self.children_of(at).await?;
        let mut servers = BTreeMap::new();
        for names in names.chunks(REQUESTS_AT_ONCE) {
            let asked: Vec<_> =
                names.iter().map(|name| self.client.get_data(&self.path(&format!("{at}/{name}")))).collect();
            for (name, asked) in names.iter().zip(asked) {
                if let Some((data, _)) = found(answer(asked).await)? {
                    servers.insert(name.clone(), text(data) != "DISABLED");
                }
            }
        }
        Ok(servers)
    }

    /// Which sharding items are disabled, and which run.
    async fn items(&self, at: &str, items: Vec<u32>, tree: &mut ElasticJobTree) -> Result<(), Error> {
        for items in items.chunks(REQUESTS_AT_ONCE) {
            let asked: Vec<_> = items
                .iter()
                .map(|item| self.client.get_children(&self.path(&format!("{at}/{item}"))))
                .collect();
            for (item, asked) in items.iter().zip(asked) {
                let Some((nodes, _)) = found(answer(asked).await)? else { continue };
                if nodes.iter().any(|node| node == "disabled") {
                    tree.disabled_items.insert(*item);
                }
                if nodes.iter().any(|node| node == "running")
                    && let Some(instance) = self.data(&format!("{at}/{item}/running")).await?
                {
                    tree.running_items.insert(*item, text(instance));
                }
            }
        }
        Ok(())
    }

    fn path(&self, node: &str) -> String {
        format!("{}{node}", self.root)
    }

    /// The data of a node; `None` if there is no such node.
    async fn data(&self, node: &str) -> Result<Option<Vec<u8>>, Error> {
        Ok(found(answer(self.client.get_data(&self.path(node))).await)?.map(|(data, _)| data))
    }

    /// The names below a node; `None` if there is no such node.
    async fn children(&self, node: &str) -> Result<Option<Vec<String>>, Error> {
        Ok(found(answer(self.client.get_children(&self.path(node))).await)?.map(|(names, _)| names))
    }

    async fn children_of(&self, node: &str) -> Result<Vec<String>, Error> {
        Ok(self.children(node).await?.unwrap_or_default())
    }

    fn explain(&self, error: &Error) -> CliError {
        explain(&self.store, error)
    }

    /// The error for a namespace that does not exist: it names those that do.
    async fn no_namespace(&self) -> CliError {
        let mut names =
            answer(self.client.get_children("/")).await.map(|(names, _)| names).unwrap_or_default();
        names.retain(|name| name != "zookeeper");
        names.sort();
        let mut namespaces = Vec::new();
        for name in names.iter().take(NAMESPACES_MAX) {
            if self.is_namespace(name).await {
                namespaces.push(name.as_str());
            }
        }
        let ElasticJobStore { servers, namespace, .. } = &self.store;
        let there = match (namespaces.is_empty(), names.is_empty()) {
            (false, _) => format!("jobs of ElasticJob are in {}", namespaces.join(", ")),
            (true, true) => "it has no namespaces that this user sees".to_owned(),
            (true, false) => {
                names.truncate(NAMESPACES_MAX);
                format!("it has {}, and no job of ElasticJob in any of them", names.join(", "))
            }
        };
        CliError::new(
            ExitKind::Failed,
            format!("ZooKeeper at {servers} has no namespace {namespace:?}: {there}"),
        )
    }

    /// Whether one of the first nodes below this one has a `config` node.
    async fn is_namespace(&self, name: &str) -> bool {
        let jobs = answer(self.client.get_children(&format!("/{name}"))).await;
        let jobs = jobs.map(|(jobs, _)| jobs).unwrap_or_default();
        for job in jobs.into_iter().take(JOBS_OF_NAMESPACE_MAX) {
            let config = answer(self.client.check_stat(&format!("/{name}/{job}/config"))).await;
            if matches!(config, Ok(Some(_))) {
                return true;
            }
        }
        false
    }
}

/// Waits for an answer, with a time limit.
async fn answer<T>(asked: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    tokio::time::timeout(ANSWER, asked).await.unwrap_or(Err(Error::Timeout))
}

/// `None` for a node that does not exist.
fn found<T>(answer: Result<T, Error>) -> Result<Option<T>, Error> {
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(Error::NoNode) => Ok(None),
        Err(error) => Err(error),
    }
}

fn text(data: Vec<u8>) -> String {
    String::from_utf8_lossy(&data).trim().to_owned()
}

/// The names that are numbers of sharding items.
fn numbers(names: Vec<String>) -> impl Iterator<Item = u32> {
    names.into_iter().filter_map(|name| name.parse().ok())
}

/// Describes an error and its fix.
fn explain(store: &ElasticJobStore, error: &Error) -> CliError {
    let ElasticJobStore { servers, namespace, digest } = store;
    let at = format!("ZooKeeper at {servers}");
    let said = match (error, digest) {
        (Error::NoAuth | Error::AuthFailed, None) => format!(
            "{at} does not let others read namespace {namespace:?}: give ElasticJob's setting digest with --zookeeper-digest-file FILE"
        ),
        (Error::NoAuth | Error::AuthFailed, Some(_)) => format!(
            "{at} does not let this user read namespace {namespace:?}: --zookeeper-digest-file has to hold ElasticJob's own setting digest"
        ),
        (Error::BadArguments(what), _) => {
            return CliError::usage(format!(
                "--zookeeper {servers:?} or --zookeeper-namespace {namespace:?} cannot be used: {what}"
            ));
        }
        (Error::NoHosts | Error::Timeout, _) => {
            format!("{at} does not answer: see whether it runs, and whether this host may speak to it")
        }
        (Error::ConnectionLoss | Error::SessionExpired | Error::ClientClosed | Error::SessionMoved, _) => {
            format!("{at} was lost while it was being read ({error}), and nothing was changed: import again")
        }
        _ => format!("{at} cannot be read: {error}"),
    };
    CliError::new(ExitKind::Failed, said)
}
