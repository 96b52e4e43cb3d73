//! The server side of peer calls: which life of which node calls, and whether it calls this life of this node.

use std::sync::Arc;

use axum::body::{Body, HttpBody};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use evenkeel_core::ids::Member;

use super::{BODY_BYTES_MAX, BODY_PATIENCE, FROM, TO};
use crate::api::{ApiError, App};
use crate::listen::OpenConnection;
use crate::tls::NodeLife;

/// The calling member: node and incarnation. Every accepted request has it as an extension.
#[derive(Clone, Debug)]
pub(super) struct PeerIdentity(pub(super) Member);

/// Accepts a request of a node of this cluster that is addressed to this incarnation of this node.
pub(super) async fn gate(State(app): State<App>, request: Request, next: Next) -> Response {
    let open = request.extensions().get::<Arc<OpenConnection>>().cloned();
    let life = open.as_ref().and_then(|open| open.life());
    let from = match known(life, app.tls.cluster().as_deref()).and_then(|from| present(&app, from)) {
        Ok(from) => from,
        Err(refusal) => return refusal.into_response(),
    };
    if let Some(open) = &open {
        open.is_of_node();
    }
    let Some(own) = app.handle.with_node(evenkeel::core::node::Node::member) else {
        return ApiError::unavailable("this node is no member just now: ask another one").into_response();
    };
    let answer = match let_in(&app, &own, request).await {
        Ok(mut request) => {
            request.extensions_mut().insert(PeerIdentity(from));
            next.run(request).await
        }
        Err(refusal) => refusal.into_response(),
    };
    of_member(&own, answer)
}

/// The member that calls, by the certificate that its connection was made with.
fn known(life: Option<&NodeLife>, cluster: Option<&str>) -> Result<Member, ApiError> {
    let refused = |why: String| ApiError::new(StatusCode::UNAUTHORIZED, "unauthorized", why);
    let life = life.ok_or_else(|| {
        refused("only nodes ask here, over TLS and with a certificate of the cluster's authority".to_owned())
    })?;
    let cluster = cluster.ok_or_else(|| {
        ApiError::unavailable("this node has not read the cluster's entry yet: ask another one")
    })?;
    match life.cluster == cluster {
        true => Ok(life.member.clone()),
        false => Err(refused(format!(
            "{} is of another cluster: give the clusters identities of their own with --identity FILE",
            life.member
        ))),
    }
}

/// Refuses a life that is over. One that is not known here may be new.
fn present(app: &App, from: Member) -> Result<Member, ApiError> {
    let later = |member: &Member| member.node == from.node && member.incarnation > from.incarnation;
    let later = app
        .handle
        .with_node(|node| node.view().members().map(|(member, _)| member).find(|it| later(it)).cloned());
    match later {
        None => Ok(from),
        Some(later) => {
            let message = format!("{from} is over: {later} is a member now");
            Err(ApiError::new(StatusCode::UNAUTHORIZED, "unauthorized", message))
        }
    }
}

/// Reads the body of a caller's request, if it is for this incarnation.
async fn let_in(app: &App, own: &Member, request: Request) -> Result<Request, ApiError> {
    let to = called(request.headers());
    if to.as_ref() != Some(own) {
        let to = to.map_or_else(|| "the member that the request leaves out".to_owned(), |to| to.to_string());
        let message = format!("this is {own}, not {to}: read again who is a member");
        return Err(ApiError::new(StatusCode::CONFLICT, "other_life", message));
    }
    let (parts, body) = request.into_parts();
    let body = app.access.bodies.take(body, BODY_BYTES_MAX, BODY_PATIENCE).await?;
    Ok(Request::from_parts(parts, Body::from(body)))
}

/// The member that a request is for.
fn called(headers: &HeaderMap) -> Option<Member> {
    let mut named = headers.get_all(TO).iter();
    match (named.next(), named.next()) {
        (Some(to), None) => to.to_str().ok()?.parse().ok(),
        _ => None,
    }
}

/// Adds the member that answers, which may have begun another life since its connection was made.
fn of_member(own: &Member, mut answer: Response) -> Response {
    if answer.body().size_hint().exact().is_some_and(|size| size > BODY_BYTES_MAX as u64) {
        answer = ApiError::internal("the answer is too large: ask for less at once").into_response();
    }
    if let Ok(own) = HeaderValue::try_from(own.to_string()) {
        answer.headers_mut().insert(FROM, own);
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_life_of_this_cluster_is_let_in() {
        let life = NodeLife { cluster: "c".to_owned(), member: "a@1".parse().expect("a member") };
        let status = |life, cluster| known(life, cluster).map_err(|refusal| refusal.into_response().status());
        assert_eq!(status(Some(&life), Some("c")), Ok(life.member.clone()));
        assert_eq!(status(Some(&life), Some("d")), Err(StatusCode::UNAUTHORIZED));
        assert_eq!(status(None, Some("c")), Err(StatusCode::UNAUTHORIZED));
        assert_eq!(status(Some(&life), None), Err(StatusCode::SERVICE_UNAVAILABLE));
    }

    #[test]
    fn a_request_names_one_member() {
        let named = |texts: &[&'static str]| {
            let mut headers = HeaderMap::new();
            texts.iter().for_each(|text| {
                headers.append(TO, HeaderValue::from_static(text));
            });
            called(&headers).map(|member| member.to_string())
        };
        assert_eq!(named(&["b@2"]), Some("b@2".to_owned()));
        for other in [&[][..], &["b@2", "b@2"], &["b"], &[""]] {
            assert_eq!(named(other), None, "{other:?}");
        }
    }
}
