//! Servers that are another one than before, or went back in time, or promise less.

use super::*;

both! {
    a_read_only_server_is_waited_for;
    who_has_nothing_to_do_notices_that_its_server_was_away_all_the_same;
    a_counter_that_was_restored_is_another_generation;
    another_server_behind_the_url_is_another_generation;
    a_server_that_went_back_is_another_generation;
    a_generation_that_could_not_be_raised_is_raised_later;
    a_server_that_promises_less_than_before_is_not_worked_with;
}

async fn a_read_only_server_is_waited_for(kind: SqlServerKind) {
    let (only, no_more) = match kind {
        SqlServerKind::Postgres => (
            "ALTER DATABASE postgres SET default_transaction_read_only = on",
            "BEGIN READ WRITE; ALTER DATABASE postgres SET default_transaction_read_only = off; COMMIT",
        ),
        SqlServerKind::MySql => ("SET GLOBAL read_only = 1", "SET GLOBAL read_only = 0"),
    };
    let Some(server) = SqlServer::start(kind, &[]).await else { return };
    let before = connect(&server.url("ro")).await.unwrap();
    server.sql(only).await;
    server.disconnect_clients().await;
    let why = match connect(&server.url("ro")).await.map(drop) {
        Err(RegistryError::Unavailable(why)) => why,
        other => panic!("should wait for another server: {other:?}"),
    };
    assert!(why.contains("read-only"), "{why}");
    assert_eq!(commit(&before, once("a")).await, TxnOutcome::Unknown);
    assert!(
        matches!(before.last_error().as_deref(), Some(RegistryError::Unavailable(_))),
        "{:?}",
        before.last_error()
    );
    server.sql(no_more).await;
    let registry = connect(&server.url("ro")).await.unwrap();
    made(&registry, vec![put("a", "1")]).await;
    made(&before, vec![put("b", "1")]).await;
}

/// So that whoever asks next need not wait for a connection.
async fn who_has_nothing_to_do_notices_that_its_server_was_away_all_the_same(kind: SqlServerKind) {
    let Some(mut server) = SqlServer::start(kind, &[]).await else { return };
    let registry = connect(&server.url("idle")).await.unwrap();
    server.kill();
    until("trouble", async || registry.last_error()).await;
    server.restart().await;
    until("its end", async || registry.last_error().is_none().then_some(())).await;
    made(&registry, vec![put("a", "1")]).await;
}

/// Who works in the same database may say what it likes where nodes listen.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn what_a_stranger_says_in_postgres_ends_no_node() {
    let Some(server) = SqlServer::start(SqlServerKind::Postgres, &[]).await else { return };
    let registry = connect(&server.url("words")).await.unwrap();
    let mut feed = registry.watch(registry.list().await.unwrap().revision).await.unwrap();
    for nth in 0..20 {
        server.sql("SELECT pg_notify('words_revision', '999999999'), pg_notify('words_revision', 'x')").await;
        let revision = made(&registry, vec![put("a", &nth.to_string())]).await;
        let told = tokio::time::timeout(LONG, feed.next()).await.unwrap();
        assert_eq!(told.expect("it goes on").revision, revision);
    }
    assert_eq!((registry.last_error(), registry.list().await.unwrap().changes.len()), (None, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn a_standby_of_postgres_that_is_promoted_is_another_generation() {
    let Some(mut server) = SqlServer::start(SqlServerKind::Postgres, &[]).await else { return };
    let before = connect(&server.url("standby")).await.unwrap();
    made(&before, vec![put("a", "1")]).await;
    server.restart_as_standby().await;
    let Err(RegistryError::Unavailable(why)) = connect(&server.url("standby")).await.map(drop) else {
        panic!("a standby cannot be written to")
    };
    assert!(why.contains("read-only"), "{why}");
    assert_eq!(commit(&before, once("b")).await, TxnOutcome::Unknown);
    assert!(matches!(before.last_error().as_deref(), Some(RegistryError::Unavailable(_))));
    server.sql("SELECT pg_promote()").await;
    let after = connect(&server.url("standby")).await.unwrap();
    assert_eq!((before.facts().generation, after.facts().generation), (0, 1));
    assert_reads_fail(&before).await;
    assert_eq!(commit(&before, once("b")).await, TxnOutcome::Unknown);
    assert!(
        matches!(before.last_error().as_deref(), Some(RegistryError::Fatal(_))),
        "{:?}",
        before.last_error()
    );
    made(&after, vec![put("b", "1")]).await;
}

/// It may be promoted and lack what was answered last.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn who_follows_postgres_and_is_not_waited_for_lowers_its_promise() {
    let Some(server) = SqlServer::start(SqlServerKind::Postgres, &[]).await else { return };
    let class = async || connect(&server.url("followed")).await.unwrap().facts().class;
    assert_eq!(class().await, DurabilityClass::A);
    let mut follows = server.followed(1, "pg_receivewal", &["--synchronous", "-D", "."]).await;
    assert_eq!(class().await, DurabilityClass::B);
    server.sql("ALTER SYSTEM SET synchronous_standby_names = 'pg_receivewal'").await;
    server.sql("SELECT pg_reload_conf()").await;
    let waited_for = "DO 'BEGIN ASSERT (SELECT sync_state FROM pg_stat_replication) = ''sync''; END'";
    until("it is waited for", || async { server.try_sql("postgres", waited_for).await.ok() }).await;
    assert_eq!(class().await, DurabilityClass::A);
    follows.kill().unwrap();
    follows.wait().unwrap();
}

/// MariaDB shows a commit before it is on the disk: a crash may take back what some node has heard of and nobody was
/// answered. The order goes on behind it, and those who listen list again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn what_a_crash_of_mysql_takes_back_that_nobody_was_answered_is_no_loss() {
    let Some(server) = SqlServer::start(SqlServerKind::MySql, &[]).await else { return };
    let registry = connect(&server.url("heard")).await.unwrap();
    let made_at = made(&registry, vec![put("a", "1")]).await;
    let mut feed = registry.watch(made_at).await.unwrap();
    server.sql("UPDATE heard_meta SET revision = revision + 3").await;
    let heard = tokio::time::timeout(LONG, feed.next()).await.unwrap().unwrap();
    assert_eq!((heard.revision, heard.changes), (Revision(made_at.0 + 3), vec![]));
    server.sql("UPDATE heard_meta SET revision = revision - 3").await;
    let went_on = made(&registry, vec![put("a", "2")]).await;
    assert!(went_on > heard.revision, "{went_on} is given to nobody else");
    assert_eq!(tokio::time::timeout(LONG, feed.next()).await.unwrap(), None, "a gap");
    assert_eq!(connect(&server.url("heard")).await.unwrap().facts().generation, 0);
    // What was answered is another matter.
    server.sql("UPDATE heard_meta SET revision = 1").await;
    assert_eq!(commit(&registry, once("b")).await, TxnOutcome::Unknown);
    assert!(
        matches!(registry.last_error().as_deref(), Some(RegistryError::Fatal(_))),
        "{:?}",
        registry.last_error()
    );
}

/// What another server keeps may be another history, so it is not told.
async fn assert_reads_fail(registry: &SqlRegistry) {
    assert!(matches!(registry.list().await, Err(RegistryError::Fatal(_))), "{:?}", registry.list().await);
    let read = registry.read(vec![key("a")]).await;
    assert!(matches!(read, Err(RegistryError::Fatal(_))), "{read:?}");
}

async fn a_counter_that_was_restored_is_another_generation(kind: SqlServerKind) {
    let Some(server) = SqlServer::start(kind, &[]).await else { return };
    let before = connect(&server.url("dump")).await.unwrap();
    made(&before, vec![put("a", "1")]).await;
    // What a dump and its restoration come to. MySQL says when a table was made to the second.
    let (wait, rename) = match kind {
        SqlServerKind::Postgres => ("SELECT 1", "ALTER TABLE dump_copy RENAME TO dump_meta"),
        SqlServerKind::MySql => ("SELECT SLEEP(1.1)", "RENAME TABLE dump_copy TO dump_meta"),
    };
    for text in [wait, "CREATE TABLE dump_copy AS SELECT * FROM dump_meta", "DROP TABLE dump_meta", rename] {
        server.sql(text).await;
    }
    server.disconnect_clients().await;
    assert_reads_fail(&before).await;
    assert_eq!(commit(&before, once("b")).await, TxnOutcome::Unknown);
    assert!(
        matches!(before.last_error().as_deref(), Some(RegistryError::Fatal(_))),
        "{:?}",
        before.last_error()
    );
    let after = connect(&server.url("dump")).await.unwrap();
    assert_eq!((before.facts().generation, after.facts().generation), (0, 1));
    made(&after, vec![put("b", "1")]).await;
    assert_eq!(connect(&server.url("dump")).await.unwrap().facts().generation, 1);
}

async fn another_server_behind_the_url_is_another_generation(kind: SqlServerKind) {
    let Some(server) = SqlServer::start(kind, &[]).await else { return };
    let registry = connect(&server.url("moved")).await.unwrap();
    made(&registry, vec![put("a", "1")]).await;
    // As after a restore to another server.
    server.sql("UPDATE moved_meta SET server = 'elsewhere'").await;
    let after = connect(&server.url("moved")).await.unwrap();
    assert_eq!((registry.facts().generation, after.facts().generation), (0, 1));
    assert_eq!(connect(&server.url("moved")).await.unwrap().facts().generation, 1);
    // Whoever is of an earlier generation writes nothing more, though nothing else tells it.
    assert_eq!(commit(&registry, once("b")).await, TxnOutcome::Unknown);
    let told = registry.last_error();
    assert!(
        matches!(told.as_deref(), Some(RegistryError::Fatal(why)) if why.contains("new generation")),
        "{told:?}"
    );
    // And an order that went back is not written to.
    made(&after, vec![put("a", "2")]).await;
    server.sql("UPDATE moved_meta SET revision = 1").await;
    assert_eq!(commit(&after, once("b")).await, TxnOutcome::Unknown);
    let told = after.last_error();
    assert!(
        matches!(told.as_deref(), Some(RegistryError::Fatal(why)) if why.contains("went back")),
        "{told:?}"
    );
}

async fn a_server_that_went_back_is_another_generation(kind: SqlServerKind) {
    // MariaDB takes a table whose file was copied for another one, unless both were made in the same second.
    let said: &[_] =
        if kind == SqlServerKind::Postgres { &["went back"] } else { &["went back", "another server"] };
    let Some(mut server) = SqlServer::start(kind, &[]).await else { return };
    let url = server.url("back");
    let [first, second] = [connect(&url).await.unwrap(), connect(&url).await.unwrap()];
    made(&first, vec![put("a", "1")]).await;
    server.copy().await;
    for i in 0..4 {
        settled(&first, &once(&format!("k{i}"))).await;
    }
    settled(&second, &once("l")).await;
    server.go_back().await;
    for registry in [&first, &second] {
        assert_eq!(commit(registry, once("b")).await, TxnOutcome::Unknown);
        let trouble = registry.last_error();
        assert!(
            matches!(trouble.as_deref(), Some(RegistryError::Fatal(why)) if said.iter().any(|said| why.contains(said))),
            "{trouble:?}"
        );
    }
    let after = connect(&url).await.unwrap();
    assert_eq!((first.facts().generation, after.facts().generation), (0, 1), "once, whoever noticed");
    // Those who noticed have ended, also when the new history has got further than they know.
    for i in 0..10 {
        made(&after, vec![put(&format!("m{i}"), "1")]).await;
    }
    for registry in [&first, &second] {
        assert_eq!(commit(registry, once("c")).await, TxnOutcome::Unknown);
        assert!(matches!(registry.last_error().as_deref(), Some(RegistryError::Fatal(_))));
    }
    assert_eq!(connect(&url).await.unwrap().facts().generation, 1);
}

async fn a_generation_that_could_not_be_raised_is_raised_later(kind: SqlServerKind) {
    let Some(server) = SqlServer::start(kind, &[]).await else { return };
    let registry = connect(&server.url("later")).await.unwrap();
    made(&registry, vec![put("a", "1")]).await;
    made(&registry, vec![put("a", "2")]).await;
    let (forbid, allow) = match kind {
        SqlServerKind::Postgres => (
            "CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE ''no''; END'; \
             CREATE TRIGGER no BEFORE UPDATE OF generation ON later_meta FOR EACH ROW EXECUTE FUNCTION no()",
            "DROP TRIGGER no ON later_meta",
        ),
        SqlServerKind::MySql => (
            "CREATE TRIGGER no BEFORE UPDATE ON later_meta FOR EACH ROW SIGNAL SQLSTATE '45000'",
            "DROP TRIGGER no",
        ),
    };
    server.sql("UPDATE later_meta SET revision = 1").await;
    server.sql(forbid).await;
    assert_eq!(commit(&registry, once("b")).await, TxnOutcome::Unknown);
    assert!(matches!(registry.last_error().as_deref(), Some(RegistryError::Fatal(_))));
    assert_eq!(connect(&server.url("later")).await.unwrap().facts().generation, 0);
    server.sql(allow).await;
    let raised = until("it is tried again", || async {
        let generation = connect(&server.url("later")).await.unwrap().facts().generation;
        (generation > 0).then_some(generation)
    });
    assert_eq!(tokio::time::timeout(LONG, raised).await, Ok(1));
}

async fn a_server_that_promises_less_than_before_is_not_worked_with(kind: SqlServerKind) {
    let (weak, said, class) = match kind {
        SqlServerKind::Postgres => ("fsync=off", "fsync", DurabilityClass::C),
        SqlServerKind::MySql => (
            "innodb-flush-log-at-trx-commit=2",
            "innodb_flush_log_at_trx_commit is not 1",
            DurabilityClass::B,
        ),
    };
    let Some(mut server) = SqlServer::start(kind, &[]).await else { return };
    let registry = connect(&server.url("less")).await.unwrap();
    made(&registry, vec![put("a", "1")]).await;
    server.restart_with(&[]).await;
    settled(&registry, &once("b")).await;
    server.restart_with(&[weak]).await;
    assert_eq!(commit(&registry, once("c")).await, TxnOutcome::Unknown);
    let trouble = registry.last_error();
    assert!(
        matches!(trouble.as_deref(), Some(RegistryError::Fatal(why)) if why.contains(said)),
        "{trouble:?}"
    );
    let after = connect(&server.url("less")).await.unwrap();
    assert_eq!(after.facts().class, class);
    assert_eq!(entry(&after, "c").await, None);
    // Promising more than before is no reason to end.
    server.restart_with(&[]).await;
    settled(&after, &once("d")).await;
}
