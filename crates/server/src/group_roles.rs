//! The roles that members of groups have, for people whose groups another system knows: an OpenID Connect provider, or a proxy.

use std::fmt;
use std::str::FromStr;

use evenkeel_core::principal::{Grant, Grants, Role};

/// The group that stands for everyone who is let in.
const EVERYONE: &str = "*";

/// The roles of the members of one group, as a setting has it: `GROUP=ROLE`, `GROUP=ROLE:NAMESPACE` or
/// `GROUP=ROLE:NAMESPACE:LABELS`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GroupRole {
    group: String,
    grant: Grant,
}

impl FromStr for GroupRole {
    type Err = String;

    /// Names of groups may have `=` in them, as those of LDAP do, and so may labels: the sign that a role follows counts.
    fn from_str(text: &str) -> Result<Self, String> {
        let splits = text.match_indices('=').map(|(at, _)| (text[..at].trim(), text[at + 1..].trim()));
        let splits: Vec<_> = splits.filter(|(group, _)| !group.is_empty()).collect();
        let read = |(group, role): &(&str, &str)| {
            Some(Self { group: (*group).to_owned(), grant: role.parse().ok()? })
        };
        let mut readings = splits.iter().filter_map(read);
        match (readings.next(), readings.next()) {
            (Some(one), None) => Ok(one),
            (Some(one), Some(other)) => Err(format!(
                "{text:?} can be read in two ways, as role {} or {} of a group: name the group or the label otherwise",
                one.grant, other.grant
            )),
            (None, _) => {
                // The part that looks like a role says what is wrong with it.
                let is_role = |(_, role): &&(&str, &str)| {
                    Role::ALL.iter().any(|known| role.split(':').next() == Some(known.as_str()))
                };
                let meant = splits.iter().find(is_role).or(splits.last());
                let wrong = meant.and_then(|(_, role)| role.parse::<Grant>().err());
                Err(wrong.map_or_else(
                    || format!("{text:?} names no group: write GROUP=ROLE or GROUP=ROLE:NAMESPACE"),
                    |wrong| wrong.to_string(),
                ))
            }
        }
    }
}

impl fmt::Display for GroupRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.group, self.grant)
    }
}

/// The roles of the members of all groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct GroupRoles(Vec<GroupRole>);

impl GroupRoles {
    /// The roles by these settings.
    pub(crate) fn new(roles: Vec<GroupRole>) -> Self {
        Self(roles)
    }

    /// Whether no group has a role.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The roles of a member of these groups, without those that another of its roles includes.
    pub(crate) fn of_member<'a>(&self, groups: impl Iterator<Item = &'a str> + Clone) -> Grants {
        let is_member = |role: &&GroupRole| {
            role.group == EVERYONE || groups.clone().any(|group| group == role.group.as_str())
        };
        let granted: Vec<&Grant> = self.0.iter().filter(is_member).map(|role| &role.grant).collect();
        let is_included =
            |grant: &Grant| granted.iter().any(|other| *other != grant && other.includes(grant));
        let mut grants: Vec<Grant> =
            granted.iter().filter(|grant| !is_included(grant)).map(|grant| (*grant).clone()).collect();
        grants.sort();
        grants.dedup();
        Grants(grants)
    }

    /// The settings as one text, whatever their order.
    pub(crate) fn text(&self) -> String {
        let mut lines: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        lines.sort_unstable();
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roles(texts: &[&str]) -> GroupRoles {
        GroupRoles::new(texts.iter().map(|text| text.parse().expect("a role")).collect())
    }

    fn granted(roles: &GroupRoles, groups: &[&str]) -> String {
        let grants = roles.of_member(groups.iter().copied());
        grants.0.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_member_has_the_roles_of_its_groups_only() {
        let of =
            roles(&["platform=admin", "devs=author:team-a", "ops=operator:team-a", "devs=viewer:team-b"]);
        assert_eq!(granted(&of, &[]), "");
        assert_eq!(granted(&of, &["Devs", "dev", "devs ", "platforms"]), "", "names are compared whole");
        assert_eq!(granted(&of, &["devs"]), "viewer:team-b author:team-a");
        assert_eq!(
            granted(&of, &["ops", "devs"]),
            "viewer:team-b author:team-a",
            "the higher one includes it"
        );
        assert_eq!(granted(&of, &["devs", "platform", "ops"]), "admin");
        let all = roles(&["*=viewer", "devs=author:team-a"]);
        assert_eq!(granted(&all, &["unknown"]), "viewer");
        assert_eq!(granted(&all, &["devs"]), "viewer author:team-a");
        assert_eq!(granted(&roles(&["a=viewer", "b=viewer"]), &["a", "b"]), "viewer");
    }

    #[test]
    fn names_of_groups_may_have_signs_and_roles_must_make_sense() {
        let of = roles(&["cn=ops,dc=example=operator", "/team/a=viewer"]);
        assert_eq!(granted(&of, &["cn=ops,dc=example"]), "operator");
        assert_eq!(granted(&of, &["/team/a"]), "viewer");
        let of = roles(&["cn=ops,dc=example=operator:a:team=billing|sales+!legacy", "devs=author:*:team=x"]);
        assert_eq!(granted(&of, &["cn=ops,dc=example"]), "operator:a:!legacy+team=billing|sales");
        assert_eq!(granted(&of, &["devs"]), "author:*:team=x");
        for bad in [
            "",
            "admin",
            "=admin",
            " =admin",
            "ops=king",
            "ops=",
            "ops=admin:",
            "ops=operator:a:team=x,tier=1",
        ] {
            assert!(bad.parse::<GroupRole>().is_err(), "{bad}");
        }
        let two = "x=operator:a:team=viewer".parse::<GroupRole>().expect_err("two readings");
        assert!(two.contains("operator:a:team=viewer or viewer"), "{two}");
        let wrong = "ops=admin:a:team=x".parse::<GroupRole>().expect_err("no role");
        assert!(wrong.contains("leave them out"), "{wrong}");
    }
}
