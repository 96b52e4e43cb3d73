//! Who is let in, and what is told of an address that is wrong.

use super::*;

both! {
    a_user_without_rights_is_told_which_and_one_with_few_can_work;
    what_is_wrong_with_a_url_is_told_without_its_password;
    a_password_or_a_certificate_lets_in;
    the_way_to_the_server_may_be_encrypted;
}

async fn a_user_without_rights_is_told_which_and_one_with_few_can_work(kind: SqlServerKind) {
    let Some(server) = SqlServer::start(kind, &[]).await else { return };
    let (user, rights) = match kind {
        SqlServerKind::Postgres => (
            "CREATE ROLE worker LOGIN",
            "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO worker; \
             GRANT SELECT, UPDATE ON ALL SEQUENCES IN SCHEMA public TO worker",
        ),
        SqlServerKind::MySql => (
            "CREATE USER worker; CREATE DATABASE elsewhere; GRANT SELECT ON evenkeel.* TO worker",
            "GRANT SELECT, INSERT, UPDATE, DELETE ON evenkeel.* TO worker",
        ),
    };
    server.sql(user).await;
    let url = server.url_by(server.port, "worker", "few");
    let why = refused(&url).await;
    assert!(why.contains("does not let this user"), "{why}");
    drop(connect(&server.url("few")).await.unwrap());
    server.sql(rights).await;
    let registry = connect(&url).await.unwrap();
    let lease = registry.open(Millis::secs(60)).await.unwrap().lease;
    let mut feed = registry.watch(Revision(0)).await.unwrap();
    made(&registry, vec![put("a", "1"), put_by(lease, "b")]).await;
    assert!(matches!(commit(&registry, once("run/j/claim")).await, TxnOutcome::Applied(_)));
    let told = tokio::time::timeout(LONG, feed.next()).await.unwrap().unwrap();
    assert_eq!(told.changes.len(), 2);
    registry.close(lease).await.unwrap();
    assert_eq!(registry.list().await.unwrap().changes.len(), 1);
}

async fn what_is_wrong_with_a_url_is_told_without_its_password(kind: SqlServerKind) {
    let Some(server) = SqlServer::start(kind, &[]).await else { return };
    let why = refused(&server.url_by(server.port, "nobody:hunter2", "x")).await;
    assert!(why.contains("user or password") && !why.contains("hunter2"), "{why}");
    let scheme = if kind == SqlServerKind::Postgres { "postgres" } else { "mysql" };
    let at = format!("127.0.0.1:{}", server.port);
    let admin = if kind == SqlServerKind::Postgres { "evenkeel" } else { "root" };
    for (text, said) in [
        (format!("{scheme}://{admin}@{at}/nonexistent"), "create it"),
        (format!("{scheme}://{admin}@{at}"), "/DATABASE"),
        (format!("{scheme}://{at}/x"), "names no user"),
        (format!("{scheme}://{admin}@{at},{at}/x"), "one"),
        (format!("{scheme}://{admin}@{at}/x?compress=1"), "unknown option"),
    ] {
        let why = refused(&EngineUrl::parse(&text).unwrap()).await;
        assert!(why.contains(said), "{text}: {why}");
    }
    let away = EngineUrl::parse(&format!("{scheme}://{admin}:hunter2@127.0.0.1:1/x")).unwrap();
    let Err(RegistryError::Unavailable(why)) = connect(&away).await.map(drop) else {
        panic!("a server that is away may come back")
    };
    assert!(why.contains("cannot be reached") && !why.contains("hunter2"), "{why}");
}

async fn a_password_or_a_certificate_lets_in(kind: SqlServerKind) {
    let Some(server) = SqlServer::start_encrypted(kind).await else { return };
    server
        .sql(match kind {
            SqlServerKind::Postgres => {
                "CREATE ROLE secret LOGIN PASSWORD 'hunter2'; CREATE ROLE certified LOGIN; \
                 GRANT ALL ON SCHEMA public TO secret, certified"
            }
            SqlServerKind::MySql => {
                "CREATE USER secret IDENTIFIED BY 'hunter2'; \
                 CREATE USER certified REQUIRE SUBJECT '/CN=certified'; \
                 GRANT ALL ON evenkeel.* TO secret; GRANT ALL ON evenkeel.* TO certified"
            }
        })
        .await;
    let by = |user: &str, options: &str| {
        let namespace = user.split(':').next().unwrap();
        server.url_by(server.port, user, &format!("{namespace}{options}"))
    };
    let registry = connect(&by("secret:hunter2", "")).await.unwrap();
    made(&registry, vec![put("a", "1")]).await;
    for wrong in ["secret:hunter3", "secret"] {
        let why = refused(&by(wrong, "")).await;
        assert!(why.contains("user or password") && !why.contains("hunter3"), "{why}");
    }
    let secretly = format!("?tls=on&ca={}", server.path("ca.pem"));
    made(&connect(&by("secret:hunter2", &secretly)).await.unwrap(), vec![put("b", "1")]).await;
    let proof = format!("{secretly}&cert={}&key={}", server.path("client.pem"), server.path("client.key"));
    made(&connect(&by("certified", &proof)).await.unwrap(), vec![put("a", "1")]).await;
    // It proves one name only, and without it nobody is let in by that name.
    let why = refused(&by("certified", &secretly)).await;
    assert!(why.contains("user or password"), "{why}");
    assert!(refused(&by("secret", &proof)).await.contains("user or password"));
}

async fn the_way_to_the_server_may_be_encrypted(kind: SqlServerKind) {
    let Some(server) = SqlServer::start_encrypted(kind).await else { return };
    let with = |options: &str| EngineUrl::parse(&format!("{}?{options}", server.url("tls"))).unwrap();
    let good = with(&format!("tls=on&ca={}", server.path("ca.pem")));
    let registry = connect(&good).await.unwrap();
    made(&registry, vec![put("a", "1")]).await;
    // Word of others comes the same way.
    let mut feed = registry.watch(Revision(0)).await.unwrap();
    let told = tokio::time::timeout(LONG, feed.next()).await.unwrap().unwrap();
    assert_eq!(told.changes.len(), 1);
    // Nobody vouches for this server to the world, and the other certificate is none that vouches.
    for bad in ["tls=on".to_owned(), format!("tls=on&ca={}", server.path("other.pem"))] {
        let why = refused(&with(&bad)).await;
        assert!(why.contains("in secret"), "{why}");
    }
}
