//! Tables that are made, or brought up to date, by many at once or not to the end.

use super::*;

both! {
    nodes_that_start_at_once_make_the_tables_once;
    a_layout_half_made_is_finished_and_a_newer_one_refused;
}

async fn nodes_that_start_at_once_make_the_tables_once(kind: SqlServerKind) {
    let Some(server) = SqlServer::start(kind, &[]).await else { return };
    for round in 0..5 {
        let url = server.url(&format!("start{round}"));
        let nodes: Vec<_> = (0..8)
            .map(|node| {
                let url = url.clone();
                tokio::spawn(async move {
                    let registry = connect(&url).await.unwrap();
                    made(&registry, vec![put(&format!("k{node}"), "1")]).await
                })
            })
            .collect();
        let mut revisions = BTreeSet::new();
        for node in nodes {
            assert!(revisions.insert(node.await.unwrap()), "one order for all");
        }
        let registry = connect(&url).await.unwrap();
        let listed = registry.list().await.unwrap();
        assert_eq!((listed.changes.len(), listed.revision), (8, Revision(8)));
        assert_eq!(registry.facts().generation, 0);
    }
}

async fn a_layout_half_made_is_finished_and_a_newer_one_refused(kind: SqlServerKind) {
    let Some(server) = SqlServer::start(kind, &[]).await else { return };
    let registry = connect(&server.url("half")).await.unwrap();
    let lease = registry.open(Millis::secs(60)).await.unwrap().lease;
    made(&registry, vec![put("a", "1")]).await;
    drop(registry);
    // As somebody leaves it who dies in the middle of the step, having held its turn until just now.
    server.sql("DROP TABLE half_change").await;
    server.sql("UPDATE half_meta SET layout = 0, busy_until = 1").await;
    let registry = connect(&server.url("half")).await.unwrap();
    made(&registry, vec![put("b", "1")]).await;
    assert!(entry(&registry, "a").await.is_some() && registry.renew(lease).await.unwrap().is_some());
    drop(registry);
    server.sql("UPDATE half_meta SET layout = 99").await;
    let why = refused(&server.url("half")).await;
    assert!(why.contains("newer"), "{why}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn a_step_of_a_layout_may_take_longer_than_a_question() {
    let Some(server) = SqlServer::start(SqlServerKind::Postgres, &[]).await else { return };
    let url = server.url("slow");
    let (target, _) = SqlTarget::from_url(&url).unwrap();
    let mut link = SqlConnection::open(&target, "SET statement_timeout = '4s'").await.unwrap();
    let first = [
        "CREATE TABLE slow (layout BIGINT NOT NULL, busy_until BIGINT NOT NULL)".to_owned(),
        "INSERT INTO slow VALUES (0, 0)".to_owned(),
    ];
    let wait = "SELECT pg_sleep(5)";
    let steps = vec![vec![wait.to_owned(), "CREATE TABLE made (a BIGINT)".to_owned()]];
    let layout =
        TableLayout { label: url.label(), dialect: target.dialect(), meta: "slow".into(), first, steps };
    layout.prepare(&mut link).await.unwrap();
    link.execute_text("INSERT INTO made VALUES (1)").await.unwrap();
    assert!(link.execute_text(wait).await.is_err(), "a question is given up as before");
}
