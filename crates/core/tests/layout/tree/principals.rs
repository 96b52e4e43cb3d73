//! Users, API tokens and secrets.

use evenkeel_core::principal::{FormerSecret, Grants, Principal, PrincipalKind, Role, SecretDigest};
use evenkeel_core::record::{PrincipalRecord, SealedSecret, SecretRecord};

use super::super::{LayoutLine, every, line};
use super::{AT, later};

pub(super) fn principals() -> Vec<LayoutLine> {
    let user = Principal {
        kind: PrincipalKind::User,
        name: "ann@example.org".parse().expect("a name"),
        secret: SecretDigest::new("$argon2id$".into()),
        former: None,
        grants: Grants(["author:team-a", "viewer"].map(|text| text.parse().expect("a grant")).into()),
        disabled: true,
        sessions: 2,
        owner: None,
        trigger: None,
        created: AT,
        expires: None,
        last_used: None,
        description: String::new(),
    };
    let token = Principal {
        kind: PrincipalKind::Token,
        name: "ci".parse().expect("a name"),
        former: Some(FormerSecret { secret: SecretDigest::new("00".into()), until: later(2) }),
        disabled: false,
        sessions: 0,
        owner: Some("ann@example.org".parse().expect("a name")),
        expires: Some(later(9)),
        last_used: Some(later(1)),
        description: "builds".into(),
        ..user.clone()
    };
    let labelled = Principal {
        name: "bob".parse().expect("a name"),
        grants: Grants(
            ["operator:team-a:!legacy+team=billing|sales"].map(|text| text.parse().expect("a grant")).into(),
        ),
        disabled: false,
        ..user.clone()
    };
    let trigger = Principal {
        name: "ci-hook".parse().expect("a name"),
        former: None,
        grants: Grants::default(),
        trigger: Some("team-a/j".parse().expect("a name")),
        expires: None,
        last_used: None,
        ..token.clone()
    };
    let live = |principal| PrincipalRecord::Live { principal: Box::new(principal), version: 3 };
    let secret = SealedSecret {
        name: "team-a/s".parse().expect("a name"),
        sealed: "1:AA".into(),
        version: 3,
        since: AT,
        by: "user:ann@example.org".into(),
    };
    vec![
        line("user", live(user)),
        line("token", live(token)),
        line("token/trigger", live(trigger)),
        line("user/labels", live(labelled)),
        line("user/deleted", PrincipalRecord::Deleted { version: 4 }),
        line("roles", every!(Role: Viewer, Operator, Author, Admin)),
        line("secret", SecretRecord::Live(Box::new(secret))),
        line("secret/deleted", SecretRecord::Deleted { version: 4 }),
    ]
}
