//! The query keys that each address takes; all others are refused.
//!
//! A caller would believe that an ignored key has an effect: `apply?dry_run=true` would apply.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use axum::extract::{MatchedPath, Query, Request};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::ApiError;
use super::changes::CHANGES;
use super::hooks;
use super::reads::READS;

/// The keys of pages. Those of the API are in its description.
const PAGES: &[(&str, &[&str])] = &[("/plain", &["job", "find"]), ("/login", &["code"])];

type KeysByPath = BTreeMap<&'static str, Vec<(Method, Vec<String>)>>;

/// The keys of the addresses of the API, by path and method.
static KEYS: LazyLock<KeysByPath> = LazyLock::new(|| {
    let mut keys = KeysByPath::new();
    let reads = READS.iter().map(|read| (read.method.clone(), read.path, read.docs));
    let changes = CHANGES.iter().map(|change| (change.method.clone(), change.path, change.docs));
    for (method, path, docs) in reads.chain(changes) {
        keys.entry(path).or_default().push((method, docs.query_keys()));
    }
    keys
});

/// Refuses a request with a query key that its address does not know.
pub(super) async fn known(path: Option<MatchedPath>, request: Request, next: Next) -> Response {
    // The keys of a webhook are the parameters of its run, and are checked there.
    if hooks::is_hook(&request) {
        return next.run(request).await;
    }
    let path = path.as_ref().map_or("", MatchedPath::as_str);
    let method = if request.method() == Method::HEAD { &Method::GET } else { request.method() };
    let known = keys(method, path);
    match Query::<Vec<(String, String)>>::try_from_uri(request.uri()) {
        Ok(Query(asked)) => match asked.iter().find(|(key, _)| !known.contains(&key.as_str())) {
            Some((key, _)) => unknown(key, &known).into_response(),
            None => next.run(request).await,
        },
        Err(rejection) => ApiError::from(rejection).into_response(),
    }
}

fn keys<'a>(method: &Method, path: &str) -> Vec<&'a str> {
    if let Some((_, keys)) = PAGES.iter().find(|(page, _)| *page == path && method == Method::GET) {
        return keys.to_vec();
    }
    let of_path = KEYS.get(path).into_iter().flatten();
    let of_method = of_path.filter(|(known, _)| known == method);
    of_method.flat_map(|(_, keys)| keys.iter().map(String::as_str)).collect()
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
        for change in CHANGES {
            let known = keys(&change.method, change.path);
            let switches = change.path == "/api/v1/jobs/{name}/{verb}";
            assert_eq!(
                known,
                if switches { vec!["node"] } else { Vec::new() },
                "{} {}",
                change.method,
                change.path
            );
        }
    }
}
