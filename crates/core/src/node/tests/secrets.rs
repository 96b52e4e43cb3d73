//! Secrets: each is sealed for one version, and belongs to its namespace.

use alloc::boxed::Box;

use super::*;
use crate::namespace::NamespaceSettings;
use crate::record::SealedSecret;

fn secret(name: &str, version: u64, sealed: &str) -> SealedSecret {
    let name = name.parse().unwrap();
    SealedSecret { name, sealed: sealed.into(), version, since: Wall(7), by: "ann".into() }
}

impl TestCluster {
    fn set_secret(&mut self, on: &str, secret: SealedSecret) -> Answer {
        self.send_command(on, Command::Secret(Box::new(secret)))
    }

    fn secret(&self, on: &str, name: &str) -> Option<SealedSecret> {
        let view = self.actors[&on.parse::<NodeName>().unwrap()].node.view();
        view.secret(&name.parse().unwrap()).cloned()
    }
}

fn refused(answer: &Answer, as_what: Refusal) -> bool {
    matches!(answer, Answer::Refused(refusal, _) if *refusal == as_what)
}

#[test]
fn a_secret_is_set_for_the_version_after_the_known_one() {
    let mut cluster = TestCluster::with(&["a", "b"]);
    cluster.run(3_000);
    assert!(refused(&cluster.set_secret("a", secret("s", 2, "x")), Refusal::Conflict), "there is none yet");
    assert_eq!(cluster.set_secret("a", secret("s", 1, "x")), Answer::Done);
    assert_eq!(cluster.set_secret("a", secret("s", 1, "x")), Answer::Unchanged);
    cluster.run(2_000);
    assert_eq!(cluster.secret("b", "s"), Some(secret("s", 1, "x")));
    assert!(
        refused(&cluster.set_secret("b", secret("s", 1, "y")), Refusal::Conflict),
        "another one's version"
    );
    assert_eq!(cluster.set_secret("b", secret("s", 2, "y")), Answer::Done);
    cluster.run(2_000);
    assert_eq!(cluster.secret("a", "s"), Some(secret("s", 2, "y")));
    let delete = || Command::DeleteSecret("s".parse().unwrap());
    assert_eq!(cluster.send_command("a", delete()), Answer::Done);
    assert!(refused(&cluster.send_command("a", delete()), Refusal::NotFound));
    assert_eq!(cluster.secret("a", "s"), None);
    assert!(
        refused(&cluster.set_secret("a", secret("s", 1, "x")), Refusal::Conflict),
        "an old one comes back"
    );
    assert_eq!(cluster.set_secret("a", secret("s", 4, "z")), Answer::Done, "its version goes on");
}

#[test]
fn a_secret_belongs_to_its_namespace() {
    let mut cluster = TestCluster::with(&["a"]);
    cluster.run(3_000);
    assert!(refused(&cluster.set_secret("a", secret("team/s", 1, "x")), Refusal::NotFound));
    let team = NamespaceSettings::new("team".parse().unwrap());
    cluster.send_command("a", Command::Namespace(Box::new(team)));
    assert_eq!(cluster.set_secret("a", secret("team/s", 1, "x")), Answer::Done);
    assert_eq!(cluster.secret("a", "s"), None);
    let delete = || Command::DeleteNamespace("team".parse().unwrap());
    let Answer::Refused(Refusal::Conflict, text) = cluster.send_command("a", delete()) else { panic!() };
    assert_eq!(text, "namespace team holds 1 secret: delete them first");
    assert_eq!(cluster.send_command("a", Command::DeleteSecret("team/s".parse().unwrap())), Answer::Done);
    assert_eq!(cluster.send_command("a", delete()), Answer::Done);
}
