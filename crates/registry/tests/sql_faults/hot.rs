//! Hot transactions when connections are cut, writers freeze and servers go back.

use super::*;

both! {
    a_writer_that_is_frozen_holds_up_no_hot_one_for_long;
    a_server_that_lost_hot_entries_alone_is_another_generation;
    revisions_go_on_behind_all_entries_of_a_restored_database;
    the_second_layout_ends_programs_of_the_first_and_keeps_revisions;
    a_node_of_an_earlier_generation_writes_no_run_state;
    a_hundred_nodes_join_at_once;
    a_stream_of_hot_transactions_keeps_no_ordered_one_waiting;
    a_hot_transaction_that_fails_half_way_leaves_nothing;
}

const KEY: &str = "run/j/claim";

/// Replaces the run state, or creates it.
fn claim(known: Option<Revision>, value: &str) -> Txn {
    let guard = known.map_or_else(|| Guard::Absent(key(KEY)), |known| Guard::At(key(KEY), known));
    Txn { guards: vec![guard], writes: vec![put(KEY, value)] }
}

async fn claimed(registry: &SqlRegistry, known: Option<Revision>, value: &str) -> Revision {
    match commit(registry, claim(known, value)).await {
        TxnOutcome::Applied(revision) => revision,
        other => panic!("should have been made: {other:?} {:?}", registry.last_error()),
    }
}

/// proves: I46
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn a_hot_answer_that_postgres_lost_is_settled_by_sending_again() {
    a_hot_answer_that_is_lost_is_settled_by_sending_again(SqlServerKind::Postgres).await;
}

/// proves: I46
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn a_hot_answer_that_mysql_lost_is_settled_by_sending_again() {
    a_hot_answer_that_is_lost_is_settled_by_sending_again(SqlServerKind::MySql).await;
}

async fn a_hot_answer_that_is_lost_is_settled_by_sending_again(kind: SqlServerKind) {
    let Some(server) = SqlServer::start(kind, &[]).await else { return };
    let cutter = FaultProxy::start(server.port).await;
    let registry = connect(&server.url_at(cutter.port, "hot")).await.unwrap();
    let mut known = None;
    let words = match kind {
        SqlServerKind::Postgres => ["created AS", "replaced AS"],
        SqlServerKind::MySql => ["INSERT IGNORE INTO `hot_entry`", "UPDATE `hot_entry`"],
    };
    for (nth, word) in words.into_iter().enumerate() {
        let value = nth.to_string();
        cutter.set(word, AnswerFault::Cut);
        assert_eq!(commit(&registry, claim(known, &value)).await, TxnOutcome::Unknown);
        cutter.sprung(u32::try_from(nth).unwrap() + 1).await;
        let TxnOutcome::Refused(found) = settled(&registry, &claim(known, &value)).await else {
            panic!("made twice")
        };
        let entry = found[0].entry.clone().unwrap();
        assert_eq!(&*entry.value, value.as_bytes());
        assert!(known < Some(entry.revision));
        known = Some(entry.revision);
    }
    assert_eq!(registry.last_error(), None);
}

/// Its locks end with its transaction, which the server ends.
async fn a_writer_that_is_frozen_holds_up_no_hot_one_for_long(kind: SqlServerKind) {
    let Some(server) = SqlServer::start(kind, &[]).await else { return };
    let cutter = FaultProxy::start(server.port).await;
    let other = connect(&server.url("held")).await.unwrap();
    claimed(&other, None, "first").await;
    best_within(Duration::from_secs(5), async |nth| {
        let frozen = connect(&server.url_at(cutter.port, "held")).await.unwrap();
        let known = entry(&other, KEY).await.unwrap().revision;
        // One is stuck with the gate closed, the other in a request that needs nothing more from it.
        let (word, stuck) = match nth % 2 {
            0 => ("FOR UPDATE", once(&format!("cold{nth}"))),
            _ if kind == SqlServerKind::Postgres => ("replaced AS", claim(Some(known), "stuck")),
            _ => ("UPDATE `held_entry`", claim(Some(known), "stuck")),
        };
        cutter.set(word, AnswerFault::Hold);
        let stuck = tokio::spawn(async move { commit(&frozen, stuck).await });
        cutter.sprung(nth + 1).await;
        let watch = Stopwatch::start();
        let now = entry(&other, KEY).await.unwrap().revision;
        claimed(&other, Some(now), "after").await;
        let took = watch.elapsed();
        assert_eq!(stuck.await.unwrap(), TxnOutcome::Unknown);
        took
    })
    .await;
}

/// No ordered writer was there since the copy: only the run state shows it.
async fn a_server_that_lost_hot_entries_alone_is_another_generation(kind: SqlServerKind) {
    let Some(mut server) = SqlServer::start(kind, &[]).await else { return };
    let url = server.url("back");
    let registry = connect(&url).await.unwrap();
    made(&registry, vec![put("a", "1")]).await;
    let first = claimed(&registry, None, "1").await;
    server.copy().await;
    settled(&registry, &claim(Some(first), "2")).await;
    let second = entry(&registry, KEY).await.unwrap().revision;
    let third = claimed(&registry, Some(second), "3").await;
    server.go_back().await;
    assert_eq!(commit(&registry, claim(Some(third), "4")).await, TxnOutcome::Unknown);
    let error = until("the end", async || {
        registry.last_error().filter(|error| matches!(&**error, RegistryError::Fatal(_)))
    })
    .await;
    // MariaDB may take a table whose file was copied for another one.
    let other = kind == SqlServerKind::MySql && error.to_string().contains("another server");
    assert!(other || error.to_string().contains("went back"), "{error:?}");
    let after = connect(&url).await.unwrap();
    assert_eq!((registry.facts().generation, after.facts().generation), (0, 1));
}

/// As after a dump that lacks the sequence, or has an earlier one.
async fn revisions_go_on_behind_all_entries_of_a_restored_database(kind: SqlServerKind) {
    let Some(server) = SqlServer::start(kind, &[]).await else { return };
    let before = connect(&server.url("dump")).await.unwrap();
    let mut known = None;
    for nth in 0..5 {
        known = Some(claimed(&before, known, &nth.to_string()).await);
    }
    drop(before);
    // MariaDB says when a table was made to the second.
    let wait = if kind == SqlServerKind::Postgres { "SELECT 1" } else { "SELECT SLEEP(1.1)" };
    for text in [
        wait,
        "CREATE TABLE dump_copy AS SELECT * FROM dump_meta",
        "DROP TABLE dump_meta",
        "ALTER TABLE dump_copy RENAME TO dump_meta",
        "ALTER SEQUENCE dump_order RESTART",
    ] {
        server.sql(text).await;
    }
    let after = connect(&server.url("dump")).await.unwrap();
    assert_eq!(after.facts().generation, 1);
    let next = claimed(&after, known, "5").await;
    assert!(Some(next) > known, "{next} after {known:?}");
    assert!(made(&after, vec![put("a", "1")]).await > next);
}

/// A program that knows only the first layout would write beside hot transactions.
async fn the_second_layout_ends_programs_of_the_first_and_keeps_revisions(kind: SqlServerKind) {
    let Some(server) = SqlServer::start(kind, &[]).await else { return };
    let before = connect(&server.url("second")).await.unwrap();
    let first = made(&before, vec![put("a", "1")]).await;
    server.sql("DROP SEQUENCE second_order").await;
    if kind == SqlServerKind::MySql {
        server.sql("DROP TABLE second_gate, second_running").await;
    }
    server.sql("UPDATE second_meta SET layout = 1").await;
    let after = connect(&server.url("second")).await.unwrap();
    assert_eq!((before.facts().generation, after.facts().generation), (0, 1));
    assert!(claimed(&after, None, "1").await > first);
    assert_eq!(commit(&before, claim(None, "2")).await, TxnOutcome::Unknown);
    assert!(matches!(before.last_error().as_deref(), Some(RegistryError::Fatal(_))));
}

/// A node of an earlier generation writes no run state either.
async fn a_node_of_an_earlier_generation_writes_no_run_state(kind: SqlServerKind) {
    let Some(server) = SqlServer::start(kind, &[]).await else { return };
    let before = connect(&server.url("moved")).await.unwrap();
    let known = claimed(&before, None, "1").await;
    server.sql("UPDATE moved_meta SET server = 'elsewhere'").await;
    let after = connect(&server.url("moved")).await.unwrap();
    assert_eq!(commit(&before, claim(Some(known), "2")).await, TxnOutcome::Unknown);
    let error = before.last_error();
    assert!(
        matches!(error.as_deref(), Some(RegistryError::Fatal(why)) if why.contains("new generation")),
        "{error:?}"
    );
    assert_eq!(entry(&after, KEY).await.unwrap().revision, known);
}

/// A fleet that starts at once: all are members in the end.
async fn a_hundred_nodes_join_at_once(kind: SqlServerKind) {
    let Some(server) = SqlServer::start(kind, &["max_connections=300"]).await else { return };
    for nodes in [50_usize, 100] {
        let (url, watch) = (server.url(&format!("fleet{nodes}")), Stopwatch::start());
        let joined: Vec<_> = (0..nodes).map(|node| tokio::spawn(join(url.clone(), node))).collect();
        let mut registries = Vec::new();
        for node in joined {
            registries.push(node.await.unwrap());
        }
        eprintln!("{nodes} nodes joined within {:?}", watch.elapsed());
        assert_eq!(registries[0].list().await.unwrap().changes.len(), nodes);
    }
}

async fn join(url: EngineUrl, node: usize) -> SqlRegistry {
    let registry = connect(&url).await.unwrap();
    let lease = registry.open(Millis::secs(10)).await.unwrap().lease;
    registry.list().await.unwrap();
    let name = format!("node/n{node}");
    let guards = vec![Guard::Open(lease), Guard::Absent(key(&name))];
    let joins = Txn { guards, writes: vec![put_by(lease, &name)] };
    assert!(matches!(commit(&registry, joins).await, TxnOutcome::Applied(_)));
    registry
}

/// All nodes publish their loads at one moment, and each fire writes a run state: neither concerns another node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn loads_and_run_states_wake_no_node_and_are_in_no_feed() {
    let Some(server) = SqlServer::start(SqlServerKind::Postgres, &[]).await else { return };
    let url = server.url("quiet");
    let [writer, reader] = [connect(&url).await.unwrap(), connect(&url).await.unwrap()];
    let mut feed = reader.watch(reader.list().await.unwrap().revision).await.unwrap();
    let mut listener = server.listener("quiet_revision").await;
    // Two run states in one transaction are ordered as loads are.
    made(&writer, vec![put("load/a", "1")]).await;
    made(&writer, vec![put("run/j/plan", "1"), put("run/k/plan", "1")]).await;
    let cold = made(&writer, vec![put("load/b", "1"), put("node/a", "1")]).await;
    let first = tokio::time::timeout(LONG, listener.recv()).await.unwrap().unwrap();
    assert_eq!(first.payload(), cold.0.to_string(), "it is the first that wakes others");
    made(&writer, vec![put("load/c", "1")]).await;
    made(&writer, vec![put("node/b", "1")]).await;
    let mut arrived = Vec::new();
    while arrived.len() < 2 {
        let batch = tokio::time::timeout(LONG, feed.next()).await.unwrap().unwrap();
        arrived.extend(batch.changes.into_iter().map(|change| change.key.as_str().to_owned()));
    }
    assert_eq!(arrived, ["node/a", "node/b"]);
}

/// Transactions that wait for the gate are served in the order of their requests, not only when nothing passes it.
async fn a_stream_of_hot_transactions_keeps_no_ordered_one_waiting(kind: SqlServerKind) {
    const WRITERS: usize = 16;
    let Some(server) = SqlServer::start(kind, &[]).await else { return };
    let registry = connect(&server.url("fair")).await.unwrap();
    let over = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let mut streams = Vec::new();
    for writer in 0..WRITERS {
        let (registry, over) = (connect(&server.url("fair")).await.unwrap(), over.clone());
        streams.push(tokio::spawn(async move {
            let at = format!("run/w{writer}/claim");
            let (mut known, mut count) = (None, 0_u32);
            while !over.load(Ordering::Relaxed) {
                let guard = known.map_or_else(|| Guard::Absent(key(&at)), |known| Guard::At(key(&at), known));
                let txn = Txn { guards: vec![guard], writes: vec![put(&at, "1")] };
                match commit(&registry, txn).await {
                    TxnOutcome::Applied(revision) => known = Some(revision),
                    other => panic!("should have been made: {other:?} {:?}", registry.last_error()),
                }
                count += 1;
            }
            count
        }));
    }
    // Each closes the gate, half of them before they read. One that waits for too long is given up.
    for nth in 0..100 {
        let writes = match nth % 2 {
            0 => vec![put("a", "1")],
            _ => vec![put("a", "1"), put("run/other/plan", "1")],
        };
        made(&registry, writes).await;
    }
    over.store(true, Ordering::Relaxed);
    for stream in streams {
        assert!(stream.await.unwrap() > 0, "it was a stream");
    }
}

/// One of two run states in one request cannot be written: neither is, and what the request has locked is free.
async fn a_hot_transaction_that_fails_half_way_leaves_nothing(kind: SqlServerKind) {
    let Some(server) = SqlServer::start(kind, &[]).await else { return };
    let [registry, other] =
        [connect(&server.url("half")).await.unwrap(), connect(&server.url("half")).await.unwrap()];
    made(&registry, vec![put("a", "1")]).await;
    server
        .sql(match kind {
            SqlServerKind::Postgres => {
                "CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS \
                 'BEGIN IF NEW.value = ''no'' THEN RAISE ''no''; END IF; RETURN NEW; END'; \
                 CREATE TRIGGER no BEFORE INSERT ON half_entry FOR EACH ROW EXECUTE FUNCTION no()"
            }
            SqlServerKind::MySql => {
                "CREATE TRIGGER no BEFORE INSERT ON half_entry FOR EACH ROW \
                 BEGIN IF NEW.value = 'no' THEN SIGNAL SQLSTATE '45000'; END IF; END"
            }
        })
        .await;
    let claim =
        |at: &str, value: &str| Txn { guards: vec![Guard::Absent(key(at))], writes: vec![put(at, value)] };
    let both = vec![claim("run/a/claim", "yes"), claim("run/b/claim", "no")];
    assert_eq!(registry.commit(both).await, [TxnOutcome::Unknown, TxnOutcome::Unknown]);
    assert_eq!(entry(&other, "run/a/claim").await, None);
    made(&other, vec![put("a", "2"), put("run/a/plan", "1")]).await;
    assert!(matches!(commit(&registry, claim("run/a/claim", "yes")).await, TxnOutcome::Applied(_)));
}

/// A crash may take back what MariaDB has shown. So when it has started again no revision of before is given any more, and
/// listeners list again. Only the first node that connects does that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn a_start_of_mariadb_leaves_all_revisions_behind_that_a_crash_can_have_taken_back() {
    const FAR: u64 = 100_000;
    let Some(mut server) = SqlServer::start(SqlServerKind::MySql, &[]).await else { return };
    let url = server.url("leap");
    let [first, second] = [connect(&url).await.unwrap(), connect(&url).await.unwrap()];
    let listed = made(&first, vec![put("a", "1")]).await;
    let mut feed = second.watch(listed).await.unwrap();
    let before = claimed(&first, None, "1").await;
    assert!(before.0 < FAR, "a new registry begins with the first revision");
    server.kill();
    server.restart().await;
    settled(&first, &claim(Some(before), "2")).await;
    let after = entry(&first, KEY).await.unwrap().revision;
    assert!(after.0 > before.0 + FAR, "{after} is not far behind {before}");
    let gap = async { while feed.next().await.is_some() {} };
    tokio::time::timeout(LONG, gap).await.expect("it ends");
    let listed = second.list().await.unwrap();
    assert_eq!(listed.changes.len(), 1);
    let third = connect(&url).await.unwrap();
    let mut feed = third.watch(third.list().await.unwrap().revision).await.unwrap();
    let last = made(&third, vec![put("a", "2")]).await;
    assert!(last.0 < after.0 + FAR, "{last} is far behind {after}");
    let batch = tokio::time::timeout(LONG, feed.next()).await.unwrap().expect("no gap");
    assert_eq!(batch.changes.len(), 1);
    assert_eq!((first.facts().generation, third.facts().generation), (0, 0));
}
