//! Which URLs name a store.

use super::*;

#[test]
fn a_url_names_a_user_and_a_database_and_no_password() {
    let store = XxlJobStore::new("mysql://ann@db.example/xxl_job", Some("s")).expect("a store");
    assert_eq!(store.shown(), "db.example:3306/xxl_job");
    let wrong = [
        ("db.example/xxl_job", "no such URL"),
        ("postgres://ann@db.example/xxl_job", "no such URL"),
        ("mysql://db.example/xxl_job", "names no user"),
        ("mysql://ann@db.example", "names no database"),
        ("mysql://ann:hunter2@db.example/xxl_job", "--mysql-password-file"),
        ("mysql://ann@db.example/xxl_job?ssl-mode=maybe", "--mysql takes"),
    ];
    for (url, said) in wrong {
        let Err(refused) = XxlJobStore::new(url, None) else { panic!("{url}") };
        assert!(refused.message.contains(said) && !refused.message.contains("hunter2"), "{refused}");
        assert_eq!(refused.exit, ExitKind::Usage, "{url}");
    }
}

#[test]
fn a_password_is_the_first_line_of_its_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("password");
    std::fs::write(&file, " s p \r\n").expect("written");
    assert_eq!(password(Some(&file)).expect("read").as_deref(), Some(" s p "));
    assert!(password(Some(&folder.path().join("none"))).is_err());
}
