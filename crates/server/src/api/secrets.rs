//! Secrets in the registry over HTTP: `/api/v1/secrets` and below. What they hold is in no answer.

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use evenkeel::SecretOpener;
use evenkeel_client::requests::{SecretBody, SecretListQuery};
use evenkeel_core::ids::SecretName;
use evenkeel_core::input::{Answer, Command, Refusal};
use evenkeel_core::record::SealedSecret;
use serde_json::{Value, json};

use super::audited::AuditedRequest;
use super::error::{done, read_body};
use super::{ApiError, App, namespaces};
use crate::text_input::ReadTarget;
use evenkeel_client::types::{SecretPage, SecretRow, moment};

/// The longest secret, in bytes.
const SECRET_MAX: usize = 64 * 1024;
/// How often a secret is sealed anew because another request has changed it meanwhile.
const TRIES: u32 = 5;

pub(super) async fn list(
    State(app): State<App>,
    page: Result<Query<SecretListQuery>, QueryRejection>,
) -> Result<Json<SecretPage>, ApiError> {
    let Query(SecretListQuery { namespace }) = page?;
    namespaces::known(&app, namespace.as_ref())?;
    let all: Vec<(SecretName, SealedSecret)> = app.handle.with_node(|node| {
        node.view().secrets().map(|(name, secret)| (name.clone(), secret.clone())).collect()
    });
    let count = all.len();
    let cipher = app.tls.secret_cipher();
    let listed = all
        .into_iter()
        .filter(|(name, _)| namespace.as_ref().is_none_or(|of| name.namespace() == of.as_str()));
    let row = |(name, secret): (SecretName, SealedSecret)| SecretRow {
        good: cipher.open(&name, &secret).is_some(),
        name: name.to_string(),
        version: secret.version,
        since: moment(secret.since),
        by: secret.by,
    };
    let secrets: Vec<SecretRow> = listed.map(row).collect();
    let elsewhere = namespace.is_some().then(|| count - secrets.len());
    Ok(Json(SecretPage { secrets, elsewhere }))
}

pub(super) async fn put(
    State(app): State<App>,
    name: Result<Path<SecretName>, PathRejection>,
    asked: AuditedRequest,
    body: Bytes,
) -> Result<Json<Value>, ApiError> {
    let Path(name) = name?;
    let SecretBody { value } = read_body(&body, ReadTarget::Body)?;
    if value.trim_end_matches(['\r', '\n']).is_empty() {
        return Err(ApiError::invalid(
            "the secret is empty: give its value on standard input, or in the file of --file",
        ));
    }
    if value.len() > SECRET_MAX {
        return Err(ApiError::invalid(format!("the secret is longer than {SECRET_MAX} bytes")));
    }
    let mut tries = TRIES;
    loop {
        let known = app.handle.with_node(|node| {
            let entry = node.view().secret_entry(&name)?.value.as_ref()?;
            Some((entry.version(), entry.live().is_some()))
        });
        let (version, exists) = known.unwrap_or((0, false));
        let secret = SealedSecret {
            name: name.clone(),
            sealed: String::new(),
            version: version + 1,
            since: evenkeel::clock::now().wall,
            by: asked.asker.name(),
        };
        let secret = app.tls.secret_cipher().seal(secret, &value).map_err(ApiError::internal)?;
        match asked.ask(&app, Command::Secret(Box::new(secret))).await {
            Answer::Done => {
                let applied = if exists { "updated" } else { "created" };
                return Ok(Json(json!({ "name": name, "applied": applied, "version": version + 1 })));
            }
            Answer::Refused(Refusal::Conflict, _) if tries > 1 => tries -= 1,
            other => return done(other),
        }
    }
}

pub(super) async fn delete(
    State(app): State<App>,
    name: Result<Path<SecretName>, PathRejection>,
    asked: AuditedRequest,
) -> Result<Json<Value>, ApiError> {
    let Path(name) = name?;
    done(asked.ask(&app, Command::DeleteSecret(name)).await)
}
