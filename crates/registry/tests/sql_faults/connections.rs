//! How many connections nodes have, a server that takes no more, and a pooler in between.

use std::process::{Child, Command, Stdio};

use super::*;
use crate::host::{free_ports, skip};

both! {
    a_node_has_one_connection_beside_the_one_that_listens;
    a_server_without_room_for_more_says_what_to_do;
}

async fn a_node_has_one_connection_beside_the_one_that_listens(kind: SqlServerKind) {
    const NODES: usize = 10;
    let Some(server) = SqlServer::start(kind, &[]).await else { return };
    let mut nodes = Vec::new();
    for nth in 0..NODES {
        let registry = connect(&server.url("few")).await.unwrap();
        let mut feed = registry.watch(registry.list().await.unwrap().revision).await.unwrap();
        let work = (0..8).map(|i| {
            let registry = registry.clone();
            tokio::spawn(async move {
                settled(&registry, &once(&format!("k{nth}/{i}"))).await;
                registry.read(vec![key("k0/0"), key("run/j/claim")]).await.unwrap();
                registry.list().await.unwrap();
            })
        });
        for work in work.collect::<Vec<_>>() {
            work.await.unwrap();
        }
        tokio::time::timeout(LONG, feed.next()).await.unwrap().unwrap();
        nodes.push((registry, feed));
    }
    // The one that asks is another.
    let enough = match kind {
        SqlServerKind::Postgres => format!(
            "DO 'BEGIN ASSERT (SELECT count(*) FROM pg_stat_activity WHERE backend_type = ''client backend'') \
             = {}; END'",
            2 * NODES + 1
        ),
        SqlServerKind::MySql => format!(
            "BEGIN NOT ATOMIC IF (SELECT count(*) FROM information_schema.processlist WHERE user = 'root') <> {} \
             THEN SIGNAL SQLSTATE '45000'; END IF; END",
            NODES + 1
        ),
    };
    let database = if kind == SqlServerKind::Postgres { "postgres" } else { "evenkeel" };
    until("as many connections", || async { server.try_sql(database, &enough).await.ok() }).await;
}

async fn a_server_without_room_for_more_says_what_to_do(kind: SqlServerKind) {
    let (setting, advice) = match kind {
        SqlServerKind::Postgres => ("max_connections=10", "PgBouncer"),
        SqlServerKind::MySql => ("max-connections=10", "max_connections"),
    };
    let Some(server) = SqlServer::start(kind, &[setting]).await else { return };
    let mut nodes = Vec::new();
    let why = loop {
        match connect(&server.url("full")).await {
            Ok(registry) => nodes.push(registry),
            Err(RegistryError::Unavailable(why)) => break why,
            Err(other) => panic!("should say how to make room: {other:?}"),
        }
        assert!(nodes.len() <= 11, "it has room for more than it says");
    };
    assert!(why.contains("no more connections") && why.contains(advice), "{why}");
    // Those who have one go on.
    made(&nodes[0], vec![put("a", "1")]).await;
}

/// A PgBouncer that ends with this.
struct Pooler {
    port: u16,
    child: Child,
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Pooler {
    async fn start(server: &SqlServer, connections: u32) -> Option<Self> {
        let program = ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer"];
        let Some(program) = program.into_iter().find(|it| std::path::Path::new(it).is_file()) else {
            skip("PgBouncer is not installed: Debian's package pgbouncer has it");
            return None;
        };
        let port = free_ports(1)[0];
        std::fs::write(server.path("users"), "\"evenkeel\" \"\"\n").unwrap();
        let settings = format!(
            "[databases]\n* = host=127.0.0.1 port={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
             unix_socket_dir =\nauth_type = trust\nauth_file = {}\npool_mode = transaction\n\
             default_pool_size = {connections}\nmax_client_conn = 500\n",
            server.port,
            server.path("users")
        );
        std::fs::write(server.path("pgbouncer.ini"), settings).unwrap();
        let mut command = server.as_its_user(program);
        command
            .arg(server.path("pgbouncer.ini"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let pooler = Self { port, child: command.spawn().unwrap() };
        until("the pooler", async || std::net::TcpStream::connect(("127.0.0.1", port)).ok()).await;
        Some(pooler)
    }

    fn url(&self, namespace: &str) -> EngineUrl {
        let text = format!("postgres://evenkeel@127.0.0.1:{}/postgres/{namespace}?notify=off", self.port);
        EngineUrl::parse(&text).unwrap()
    }
}

impl SqlServer {
    /// A command that runs as the server does: PgBouncer does not run as root either.
    fn as_its_user(&self, program: &str) -> Command {
        server::command(self.kind, std::path::Path::new(program))
    }
}

/// Each transaction may go by another of few connections, which all nodes share.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "soak: starts real servers"]
async fn nodes_work_behind_pgbouncer_in_transaction_mode() {
    const NODES: u32 = 20;
    const EACH: u32 = 15;
    let Some(server) = SqlServer::start(SqlServerKind::Postgres, &[]).await else { return };
    let Some(pooler) = Pooler::start(&server, 4).await else { return };
    let first = connect(&pooler.url("pool")).await.unwrap();
    assert_eq!(first.facts().feed, FeedKind::Polled(Millis(100)));
    made(&first, vec![put("count", "0"), put("run/j/claim", "0")]).await;
    let mut feed = first.watch(first.list().await.unwrap().revision).await.unwrap();
    let nodes: Vec<_> = (0..NODES)
        .map(|node| {
            let url = pooler.url("pool");
            tokio::spawn(async move {
                let registry = connect(&url).await.unwrap();
                let lease = registry.open(Millis::secs(30)).await.unwrap().lease;
                made(&registry, vec![put_by(lease, &format!("node/n{node}"))]).await;
                for nth in 0..EACH {
                    add_one(&registry, if nth % 5 == 0 { "count" } else { "run/j/claim" }).await;
                }
                assert!(registry.renew(lease).await.unwrap().is_some());
                registry
            })
        })
        .collect();
    let mut registries = Vec::new();
    for node in nodes {
        registries.push(node.await.unwrap());
    }
    let sums = first.read(vec![key("count"), key("run/j/claim")]).await.unwrap();
    let sums: Vec<_> = sums.iter().map(|it| number(it.entry.as_ref().unwrap())).collect();
    assert_eq!(sums, [NODES * EACH / 5, NODES * EACH * 4 / 5]);
    // What is too heavy to be spelt out.
    let heavy = Write::Put { key: key("heavy"), value: vec![7; 1 << 20].into(), owner: None };
    let last = made(&first, vec![heavy]).await;
    assert_eq!(entry(&registries[3], "heavy").await.unwrap().value.len(), 1 << 20);
    let mut seen = BTreeSet::new();
    loop {
        let batch = tokio::time::timeout(LONG, feed.next()).await.unwrap().expect("no gap");
        seen.extend(batch.changes.into_iter().map(|change| change.key));
        if batch.revision >= last {
            break;
        }
    }
    assert_eq!(seen.len(), 2 + usize::try_from(NODES).unwrap(), "{seen:?}");
    // They share what the pooler has, and the one that asks is another.
    let few = "DO 'BEGIN ASSERT (SELECT count(*) FROM pg_stat_activity \
               WHERE backend_type = ''client backend'') <= 5; END'";
    server.sql(few).await;
}

fn number(entry: &Entry) -> u32 {
    String::from_utf8_lossy(&entry.value).parse().unwrap()
}

async fn add_one(registry: &SqlRegistry, at: &str) {
    loop {
        let entry = entry(registry, at).await.unwrap();
        let guards = vec![Guard::At(key(at), entry.revision)];
        let txn = Txn { guards, writes: vec![put(at, &(number(&entry) + 1).to_string())] };
        match commit(registry, txn).await {
            TxnOutcome::Applied(_) => return,
            TxnOutcome::Refused(_) => {}
            TxnOutcome::Unknown => panic!("should have been answered: {:?}", registry.last_error()),
        }
    }
}
