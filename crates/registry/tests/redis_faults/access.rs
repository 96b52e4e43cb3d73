//! Who may use a server, what it promises, and what of that is found out.

use super::*;

#[tokio::test]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn what_may_throw_keys_away_is_refused() {
    let Some(server) = RedisServer::start(&["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"])
    else {
        return;
    };
    let why = refused(&server.url()).await;
    assert!(why.contains("noeviction"), "{why}");
}

#[tokio::test]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn the_facts_are_those_of_the_running_server() {
    for (settings, class) in [
        (ALWAYS, DurabilityClass::B),
        (&["--appendonly", "yes", "--appendfsync", "everysec"], DurabilityClass::C),
        (&["--appendonly", "no", "--appendfsync", "always"], DurabilityClass::C),
        (
            &["--appendonly", "yes", "--appendfsync", "always", "--no-appendfsync-on-rewrite", "yes"],
            DurabilityClass::C,
        ),
    ] {
        let Some(server) = RedisServer::start(settings) else { return };
        assert_eq!(connect(&server.url()).await.facts().class, class, "{settings:?}");
    }
}

#[tokio::test]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn an_examination_finds_what_is_not_kept() {
    let (Some(safe), Some(unsafe_one)) = (RedisServer::start(ALWAYS), RedisServer::start(&[])) else {
        return;
    };
    let found = connect(&safe.url()).await.check_health().await.unwrap();
    assert!(found.problems.is_empty() && found.version.is_some(), "{found:?}");
    let found = connect(&unsafe_one.url()).await.check_health().await.unwrap();
    assert!(found.problems.iter().any(|fault| fault.fix.contains("appendfsync always")), "{found:?}");
}

/// Jobs were accepted on what the server promised when the node started.
#[tokio::test]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn a_server_that_promises_less_than_before_ends_its_users() {
    let Some(server) = RedisServer::start(ALWAYS) else { return };
    let registry = connect(&server.url()).await;
    server.command("CONFIG", &["SET", "appendonly", "no"]);
    server.command("CLIENT", &["KILL", "TYPE", "normal"]);
    let why = is_over(&registry).await;
    assert!(why.contains("promises less"), "{why}");
}

#[tokio::test]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn a_user_with_the_documented_rights_is_enough_and_a_password_is_never_shown() {
    let Some(server) = RedisServer::start(ALWAYS) else { return };
    let documented = include_str!("../../../../docs/engines.md");
    let rule = documented.lines().find_map(|line| line.trim().strip_prefix("ACL SETUSER evenkeel "));
    let rule = rule.expect("the rule is documented").replace("PASSWORD", "hunter2");
    let rights: Vec<_> = ["SETUSER", "evenkeel"].into_iter().chain(rule.split(' ')).collect();
    server.command("ACL", &rights);
    let url = |password: &str, namespace: &str| {
        format!("redis://evenkeel:{password}@{}/0/{namespace}", server.at())
    };
    let registry = connect(&url("hunter2", "evenkeel")).await;
    assert_eq!(registry.facts().class, DurabilityClass::B);
    let lease = registry.open(TTL).await.unwrap().lease;
    let mut feed = registry.watch(Revision(0)).await.unwrap();
    made(&registry, vec![], vec![put("a", "1", Some(lease)), put("run/j/claim", "1", None)]).await;
    assert_eq!(next(&mut feed).await.map(|keys| keys.len()), Some(1));
    registry.list().await.unwrap();
    registry.close(lease).await.unwrap();
    assert_eq!(next(&mut feed).await.map(|keys| keys.len()), Some(1));
    let why = refused(&url("hunter3", "evenkeel")).await;
    assert!(why.contains("user or password") && !why.contains("hunter3"), "{why}");
    let why = refused(&url("hunter2", "another")).await;
    assert!(why.contains("rights of docs/engines.md") && !why.contains("hunter2"), "{why}");
}

#[tokio::test]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn a_server_that_refuses_to_tell_is_taken_for_the_least() {
    let Some(server) = RedisServer::start(ALWAYS) else { return };
    server.command("ACL", &["SETUSER", "mute", "on", ">hunter2", "~*", "&*", "+@all", "-config"]);
    let mute = connect(&format!("redis://mute:hunter2@{}/0", server.at())).await;
    assert_eq!(mute.facts().class, DurabilityClass::C);
    let Some(without) = RedisServer::start(&[ALWAYS, &["--rename-command", "CONFIG", ""]].concat()) else {
        return;
    };
    assert_eq!(connect(&without.url()).await.facts().class, DurabilityClass::C);
}

#[tokio::test]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn two_clusters_share_a_server_and_each_keeps_to_its_slot() {
    let Some(server) = RedisServer::start(ALWAYS) else { return };
    let (blue, green) =
        (connect(&format!("{}/blue", server.url())).await, connect(&format!("{}/green", server.url())).await);
    let lease = blue.open(TTL).await.unwrap().lease;
    made(&blue, vec![], vec![put("a", "1", Some(lease)), put("run/j/claim", "1", None)]).await;
    assert_eq!(entry(&green, "a").await, None);
    assert_eq!(green.renew(lease).await, Ok(None));
    for name in server.command("KEYS", &["*"]).lines() {
        assert!(name.starts_with("{blue}:") || name.starts_with("{green}:"), "{name}");
    }
}

#[tokio::test]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn an_encrypted_server_is_spoken_to_and_a_strange_one_is_not() {
    let Some(certificates) = Certificates::make() else { return };
    let at = |name: &str| certificates.at(name);
    let (ca, cert, key) = (at("ca.pem"), at("cert.pem"), at("key.pem"));
    let settings = ["--tls-ca-cert-file", &ca, "--tls-cert-file", &cert, "--tls-key-file", &key];
    let Some(server) = RedisServer::start_encrypted(&settings) else { return };
    let port = server.secure_port();
    let url = format!("redis://localhost:{port}/0?tls=on&ca={ca}&cert={cert}&key={key}");
    let registry = connect(&url).await;
    let mut feed = registry.watch(Revision(0)).await.unwrap();
    made(&registry, vec![], vec![put("a", "1", None)]).await;
    assert_eq!(next(&mut feed).await.map(|keys| keys.len()), Some(1));
    let stranger = at("stranger.pem");
    let url = format!("redis://localhost:{port}/0?tls=on&ca={stranger}&cert={cert}&key={key}");
    assert!(open(&url).await.is_err());
}
