//! The query keys that each address takes; all others are refused.
//!
//! A caller would believe that an ignored key has an effect: `apply?dry_run=true` would apply.

use axum::extract::{MatchedPath, Query, Request};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::ApiError;

/// The keys of each address that has any. All other addresses take none.
const KEYS: &[(Method, &str, &[&str])] = &[
    (Method::GET, "/", &["job", "find"]),
    (Method::GET, "/login", &["code"]),
    (Method::GET, "/api/v1/jobs", &["limit", "after", "find", "namespace"]),
    (Method::GET, "/api/v1/jobs/{name}/next", &["n", "tz", "from"]),
    (Method::GET, "/api/v1/jobs/{name}/logs", &["grep", "runs"]),
    (Method::GET, "/api/v1/jobs/{name}/shards", &["fold"]),
    (Method::POST, "/api/v1/jobs/{name}/{verb}", &["node"]),
    (Method::GET, "/api/v1/calendars", &["namespace"]),
    (Method::GET, "/api/v1/secrets", &["namespace"]),
    (Method::GET, "/api/v1/runs", &["job", "state", "limit", "before", "namespace"]),
    (Method::GET, "/api/v1/runs/running", &["namespace"]),
    (Method::GET, "/api/v1/runs/{run}/logs", &["attempt", "offset", "follow", "grep", "download"]),
    (Method::GET, "/api/v1/runs/{run}/wait", &["timeout"]),
    (Method::GET, "/api/v1/nodes/balance", &["kill", "drain"]),
    (Method::GET, "/api/v1/nodes/{name}/load", &["since", "limit"]),
    (Method::GET, "/api/v1/cluster/view", &["as", "job", "after"]),
    (Method::GET, "/api/v1/events", &["node", "kind", "since", "limit", "before", "namespace"]),
    (Method::GET, "/api/v1/live", &["namespace"]),
    (Method::GET, "/api/v1/audit", &["job", "node", "who", "since", "until", "limit", "before", "namespace"]),
];

/// Refuses a request with a query key that its address does not know.
pub(super) async fn known(path: Option<MatchedPath>, request: Request, next: Next) -> Response {
    let path = path.as_ref().map_or("", MatchedPath::as_str);
    let method = if request.method() == Method::HEAD { &Method::GET } else { request.method() };
    let known = keys(method, path);
    match Query::<Vec<(String, String)>>::try_from_uri(request.uri()) {
        Ok(Query(asked)) => match asked.iter().find(|(key, _)| !known.contains(&key.as_str())) {
            Some((key, _)) => unknown(key, known).into_response(),
            None => next.run(request).await,
        },
        Err(rejection) => ApiError::from(rejection).into_response(),
    }
}

fn keys(method: &Method, path: &str) -> &'static [&'static str] {
    let row = KEYS.iter().find(|(of, known, _)| of == method && *known == path);
    row.map_or(&[], |(_, _, keys)| *keys)
}

fn unknown(key: &str, known: &[&str]) -> ApiError {
    let fix = match known {
        [] => "this address takes no query keys".to_owned(),
        [one] => format!("this address knows only {one}"),
        all => format!("this address knows {}", all.join(", ")),
    };
    ApiError::invalid(format!("unknown query key {key:?}: {fix}; nothing was done"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_changes_something_knows_a_key_only_where_its_handler_reads_it() {
        for change in super::super::changes::CHANGES {
            let known = keys(&change.method, change.path);
            let switches = change.path == "/api/v1/jobs/{name}/{verb}";
            assert_eq!(
                known,
                if switches { &["node"][..] } else { &[] },
                "{} {}",
                change.method,
                change.path
            );
        }
    }
}
