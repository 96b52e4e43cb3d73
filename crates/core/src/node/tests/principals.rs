//! Users and tokens: each change names the version that its caller has read.

use alloc::boxed::Box;

use super::*;
use crate::principal::{Grants, Principal, PrincipalKind, SecretDigest};

pub(super) fn ann() -> Principal {
    Principal {
        kind: PrincipalKind::User,
        name: "ann".parse().unwrap(),
        secret: SecretDigest::new("digest".into()),
        former: None,
        grants: Grants(["viewer:a".parse().unwrap()].into()),
        disabled: false,
        sessions: 0,
        owner: None,
        trigger: None,
        created: Wall(0),
        expires: None,
        last_used: None,
        description: String::new(),
    }
}

impl TestCluster {
    fn put(&mut self, on: &str, principal: Principal, replaces: u64) -> Answer {
        self.send_command(on, Command::Principal(Box::new(principal), replaces))
    }

    /// The principal and its version, as a node knows them.
    fn known(&self, on: &str) -> Option<(Principal, u64)> {
        let view = self.actors[&on.parse::<NodeName>().unwrap()].node.view();
        view.principals(PrincipalKind::User).next().map(|(principal, version)| (principal.clone(), version))
    }
}

fn refused(answer: &Answer, as_what: Refusal) -> bool {
    matches!(answer, Answer::Refused(refusal, _) if *refusal == as_what)
}

#[test]
fn a_change_of_a_version_that_is_not_the_latest_is_refused() {
    let mut cluster = TestCluster::with(&["a", "b"]);
    cluster.run(3_000);
    assert!(refused(&cluster.put("a", ann(), 1), Refusal::NotFound), "there is none yet");
    assert_eq!(cluster.put("a", ann(), 0), Answer::Done);
    cluster.run(2_000);
    assert_eq!(cluster.known("b"), Some((ann(), 1)));
    assert!(refused(&cluster.put("b", ann(), 0), Refusal::Conflict), "there is one already");
    let author = Principal { grants: Grants(["author:a".parse().unwrap()].into()), ..ann() };
    assert_eq!(cluster.put("b", author.clone(), 1), Answer::Done);
    cluster.run(2_000);
    let stale = Principal { disabled: true, ..ann() };
    assert!(refused(&cluster.put("a", stale, 1), Refusal::Conflict), "the roles would be lost");
    assert_eq!(cluster.put("a", author.clone(), 2), Answer::Unchanged);
    assert_eq!(cluster.known("a"), Some((author, 2)));
}

#[test]
fn a_deleted_principal_is_gone_and_its_version_goes_on() {
    let mut cluster = TestCluster::with(&["a", "b"]);
    cluster.run(3_000);
    let delete = || Command::DeletePrincipal(PrincipalKind::User, "ann".parse().unwrap());
    assert!(refused(&cluster.send_command("a", delete()), Refusal::NotFound));
    assert_eq!(cluster.put("a", ann(), 0), Answer::Done);
    cluster.run(2_000);
    assert_eq!(cluster.send_command("b", delete()), Answer::Done);
    cluster.run(2_000);
    assert_eq!((cluster.known("a"), cluster.known("b")), (None, None));
    assert_eq!(cluster.put("a", ann(), 0), Answer::Done);
    cluster.run(2_000);
    assert_eq!(cluster.known("b"), Some((ann(), 3)), "no earlier version comes again");
}

#[test]
fn a_use_is_noted_only_of_the_principal_that_is_there() {
    let mut cluster = TestCluster::with(&["a"]);
    cluster.run(3_000);
    cluster.put("a", ann(), 0);
    let used =
        |at, of: Principal| Command::PrincipalUsed(Box::new(Principal { last_used: Some(Wall(at)), ..of }));
    assert_eq!(cluster.send_command("a", used(5, ann())), Answer::Done);
    assert_eq!(cluster.send_command("a", used(4, ann())), Answer::Unchanged, "a later use is known");
    let more = Principal { grants: Grants::all(), ..ann() };
    assert_eq!(cluster.send_command("a", used(9, more)), Answer::Unchanged, "a use changes nothing else");
    assert_eq!(cluster.known("a"), Some((Principal { last_used: Some(Wall(5)), ..ann() }, 2)));
}
