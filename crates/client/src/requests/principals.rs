//! Users, tokens, secrets and namespaces.

use evenkeel_core::ids::{JobName, Namespace, PrincipalName};
use evenkeel_core::principal::Grants;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is declared of a user. What is left out stays as it is; a new user has no roles and no password.
#[derive(Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UserBody {
    /// The roles, as `author:team-a`, or `author:team-a:team=billing` for jobs with this label.
    #[schemars(with = "Option<Vec<String>>")]
    pub roles: Option<Grants>,
    /// The password; as it was if left out.
    pub password: Option<String>,
    /// Whether the user may not log in.
    pub disabled: Option<bool>,
    /// A text for people.
    pub description: Option<String>,
    /// The version that the caller has read; a later one is not replaced.
    pub version: Option<u64>,
}

/// A change of the own password.
#[derive(Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PasswordBody {
    /// The present password.
    pub old: String,
    /// The new password.
    pub new: String,
}

/// A new token.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewTokenBody {
    /// The name.
    #[schemars(with = "String")]
    pub name: PrincipalName,
    /// The roles, as `author:team-a`, or `author:team-a:team=billing` for jobs with this label.
    #[schemars(with = "Option<Vec<String>>")]
    pub roles: Option<Grants>,
    /// In place of roles, the job that the token runs as a webhook: it may do nothing else.
    #[schemars(with = "Option<String>")]
    pub trigger: Option<JobName>,
    /// A span, or `never`.
    pub lasts: Option<String>,
    /// The user whose roles limit those of the token. One that runs a job belongs to the user who makes it, unless that is an
    /// administrator.
    #[schemars(with = "Option<String>")]
    pub owner: Option<PrincipalName>,
    /// A text for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
}

/// How a token gets another secret.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RotateTokenBody {
    /// How long the secret of before is accepted, too; not at all by default.
    pub overlap: Option<String>,
}

/// What a secret is to hold.
#[derive(Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SecretBody {
    /// The secret.
    pub value: String,
}

/// Which secrets are listed.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SecretListQuery {
    /// Only what is in this namespace.
    #[schemars(with = "Option<String>")]
    pub namespace: Option<Namespace>,
}

/// What is declared of a namespace, in the body of a request.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NamespaceBody {
    /// May be left out: the address has it.
    #[schemars(with = "Option<String>")]
    pub name: Option<Namespace>,
    /// A text for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The most jobs; no limit if none.
    pub jobs_max: Option<u32>,
    /// The most runs at once; no limit if none.
    pub runs_max: Option<u32>,
}
