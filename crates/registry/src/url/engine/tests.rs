//! URLs of engines, as users write them, and what is refused of them.

use super::*;

fn url(text: &str) -> EngineUrl {
    EngineUrl::parse(text).unwrap()
}

fn why<T: fmt::Debug>(result: Result<T, RegistryError>) -> String {
    match result {
        Err(RegistryError::Refused(why)) => why,
        other => panic!("should have been refused: {other:?}"),
    }
}

#[test]
fn every_part_is_found() {
    let url = url("etcd://me:p%40ss%2F@a:1,b,[::1]:3/x/y?tls=on&ca=%2Fetc%2Fca.pem");
    assert_eq!((url.scheme(), url.user()), ("etcd", Some("me")));
    assert_eq!(url.password().unwrap().as_deref(), Some("p@ss/"));
    let hosts: Vec<_> = url.addresses().iter().map(|host| host.with_port(2379)).collect();
    assert_eq!(hosts, ["a:1", "b:2379", "[::1]:3"]);
    assert_eq!(url.addresses()[2].name, "::1");
    assert_eq!(url.path_segments(["x"]).unwrap(), (["x"], "y"));
    assert_eq!(url.tls().unwrap(), Some(TlsFiles { ca: Some("/etc/ca.pem".into()), identity: None }));
    assert!(url.single_address().is_err());
}

#[test]
fn the_namespace_is_the_last_segment_or_ours() {
    assert_eq!(url("postgres://h/db").path_segments(["DATABASE"]).unwrap(), (["db"], "evenkeel"));
    assert_eq!(url("postgres://h/db/blue-2").path_segments(["DATABASE"]).unwrap(), (["db"], "blue-2"));
    assert_eq!(url("etcd://h").path_segments([]).unwrap(), ([], "evenkeel"));
    assert_eq!(url("etcd://h/").path_segments([]).unwrap(), ([], "evenkeel"));
    assert!(why(url("redis://h").path_segments(["DB"])).contains("write redis://HOST/DB"));
    assert!(why(url("etcd://h/a/b").path_segments([])).contains("too long"));
    for bad in ["A", "-a", "_a", "a.b", "ä", "a%20b", "a%2Fb", &"a".repeat(41)] {
        assert!(why(url(&format!("etcd://h/{bad}")).path_segments([])).contains("namespace"), "{bad}");
    }
}

#[test]
fn what_is_no_url_is_refused_with_the_way_to_write_it() {
    for (text, said) in [
        ("etcd:h", "write SCHEME://HOST"),
        ("etcd://", "write HOST"),
        ("etcd://a,,b", "write HOST"),
        ("etcd://a:0", "write HOST"),
        ("etcd://a:70000", "write HOST"),
        ("etcd://a b", "write HOST"),
        ("etcd://[::1", "write HOST"),
        ("etcd://::1", "write HOST"),
        ("etcd://u:p%4@h", "hexadecimal"),
        ("etcd://u:p%ff@h", "UTF-8"),
        ("etcd://u:p/w@h", "%2F"),
        ("etcd://h?tls=on&tls=off", "twice"),
    ] {
        let said_so = why(EngineUrl::parse(text));
        assert!(said_so.contains(said), "{text}: {said_so}");
    }
}

#[test]
fn a_password_is_never_shown() {
    for text in [
        "postgres://u:hunter2@h/db",
        "postgres://u:hun%74er2@h/db?sslpassword=hunter2",
        "postgres://:hunter2@h/db?password=hunter2",
        "postgres://u:hunter2/x@h",
        "postgres://u:hunter2?x@h",
        "postgres://u:hunter2#@h:x",
        "postgres:u:hunter2@h",
        "postgres://u:@hunter2@h,",
    ] {
        let shown = match EngineUrl::parse(text) {
            Ok(url) => {
                let only = url.allow_options(&[]);
                format!("{url} {url:?} {only:?} {}", why(url.path_segments(["A", "B", "C"])))
            }
            Err(error) => format!("{error} {error:?}"),
        };
        assert!(!shown.contains("hunter2"), "{text}: {shown}");
        assert!(!redacted(text).contains("hunter2"));
    }
    assert_eq!(url("redis://u:p@h:1/0?tls=on").to_string(), "redis://u:***@h:1/0?tls=on");
}

#[test]
fn a_password_comes_from_the_url_then_a_file_then_the_environment() {
    let outside = || Some("outside".to_owned());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("password");
    std::fs::write(&path, "inside \n").unwrap();
    let file = format!("?password_file={}", path.display());
    let of = |text: &str| url(text).password_or(outside).unwrap();
    assert_eq!(of(&format!("redis://u:p@h/0{file}")).as_deref(), Some("p"));
    assert_eq!(of(&format!("redis://u@h/0{file}")).as_deref(), Some("inside "));
    assert_eq!(of("redis://u@h/0").as_deref(), Some("outside"));
    assert_eq!(url("redis://u@h/0").password_or(|| None).unwrap(), None);
    let missing = url("redis://u@h/0?password_file=/nonexistent/x").password_or(outside);
    assert!(why(missing).contains("cannot be read"));
}

#[test]
fn refusals_name_what_is_kept_there() {
    let history = UrlPurpose { noun: "history", password: "NONE" };
    let url = EngineUrl::parse_for(history, "postgres://u:hunter2@h/a/b/c").unwrap();
    assert!(why(url.path_segments(["DATABASE"])).starts_with("history postgres://u:***@h/a/b/c is too long"));
    assert!(why(EngineUrl::parse_for(history, "postgres:x")).starts_with("history \"postgres:x\""));
}

#[test]
fn encryption_is_said_whole_or_not_at_all() {
    assert_eq!(url("redis://h/0").tls().unwrap(), None);
    assert_eq!(url("redis://h/0?tls=off").tls().unwrap(), None);
    let both = url("redis://h/0?tls=on&cert=c&key=k").tls().unwrap().unwrap();
    assert_eq!(both.identity, Some(("c".into(), "k".into())));
    for bad in ["tls=yes", "ca=x", "tls=off&ca=x", "tls=on&cert=c", "tls=on&key=k"] {
        assert!(url(&format!("redis://h/0?{bad}")).tls().is_err(), "{bad}");
    }
}

#[test]
fn an_option_that_nobody_knows_is_refused() {
    let url = url("redis://h/0?tls=on&wait=1");
    assert!(url.allow_options(&["wait"]).is_ok());
    let why = why(url.allow_options(&[]));
    assert!(why.contains("\"wait\"") && why.contains("password_file"), "{why}");
}
