//! What an ID token says of a person: its name here, and its groups.

use evenkeel_core::ids::is_unseen;
use serde_json::{Map, Value};

/// What the provider says of a person.
pub(super) type Claims = Map<String, Value>;

/// The length limit of a name in characters.
const NAME_MAX: usize = 100;

/// The value of a claim; `a.b` is the key `a.b`, or else the key `b` in the object `a`.
pub(super) fn claim<'a>(claims: &'a Claims, path: &str) -> Option<&'a Value> {
    if let Some(value) = claims.get(path) {
        return Some(value);
    }
    let (first, rest) = path.split_once('.')?;
    claim(claims.get(first)?.as_object()?, rest)
}

/// The name of a person, by this claim.
///
/// # Errors
/// There is no such claim, or it is no name; the text is for an administrator.
pub(super) fn name(claims: &Claims, path: &str) -> Result<String, String> {
    // An address that the provider has not seen to work is whatever the person wrote.
    let is_verified = |value: &Value| value == &Value::Bool(true) || value == &Value::from("true");
    if path == "email" && !claims.get("email_verified").is_some_and(is_verified) {
        return Err("the provider does not say that the email address is verified".to_owned());
    }
    let name = match claim(claims, path) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => number.to_string(),
        _ => return Err(format!("the provider sends no claim {path}: set --oidc-user-claim, or its scopes")),
    };
    if is_name(&name) {
        Ok(name)
    } else {
        Err(format!("the claim {path} is no name: it has blanks or unseen characters, or is too long"))
    }
}

/// Whether a text may be the name of a person in the audit log.
pub(crate) fn is_name(text: &str) -> bool {
    (1..=NAME_MAX).contains(&text.chars().count()) && !text.chars().any(|c| c.is_whitespace() || is_unseen(c))
}

/// The groups of a person, by this claim: a list of texts, or one text.
pub(super) fn groups<'a>(claims: &'a Claims, path: &str) -> Vec<&'a str> {
    match claim(claims, path) {
        Some(Value::String(text)) => vec![text],
        Some(Value::Array(all)) => all.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn claims(value: Value) -> Claims {
        value.as_object().expect("an object").clone()
    }

    #[test]
    fn a_name_is_one_word_and_a_verified_address() {
        let of = |value| name(&claims(value), "preferred_username");
        assert_eq!(of(json!({ "preferred_username": "ann@example" })), Ok("ann@example".to_owned()));
        for bad in [json!({}), json!({ "preferred_username": "" }), json!({ "preferred_username": ["ann"] })]
        {
            assert!(of(bad.clone()).is_err(), "{bad}");
        }
        for bad in ["ann lee", "ann\n", "ann\u{202e}", &"a".repeat(101)] {
            assert!(of(json!({ "preferred_username": bad })).is_err(), "{bad:?}");
        }
        assert_eq!(name(&claims(json!({ "sub": 7 })), "sub"), Ok("7".to_owned()));
        let mail =
            |verified: Value| name(&claims(json!({ "email": "a@b", "email_verified": verified })), "email");
        assert!(mail(json!(true)).is_ok() && mail(json!("true")).is_ok());
        assert!(mail(json!(false)).is_err() && mail(Value::Null).is_err());
        assert!(name(&claims(json!({ "email": "a@b" })), "email").is_err());
    }

    #[test]
    fn groups_are_a_list_or_one_at_any_depth() {
        let own = claims(json!({ "groups": ["a", 1, "b"], "one": "c", "x.y": ["d"],
                                 "realm_access": { "roles": ["e"] }, "x": { "y": ["f"] } }));
        assert_eq!(groups(&own, "groups"), ["a", "b"]);
        assert_eq!(groups(&own, "one"), ["c"]);
        assert_eq!(groups(&own, "x.y"), ["d"], "the key itself first");
        assert_eq!(groups(&own, "realm_access.roles"), ["e"]);
        assert!(groups(&own, "none").is_empty() && groups(&own, "groups.a").is_empty());
    }
}
