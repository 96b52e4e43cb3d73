//! Maps the client's errors to registry errors with a fix.

use redis::{ErrorKind, RedisError};

use crate::{EngineUrl, RegistryError};

/// Describes an error and its fix.
pub(super) fn explain(url: &EngineUrl, error: &RedisError) -> RegistryError {
    let detail = error.detail().unwrap_or_default();
    let what = match error.code().unwrap_or_default() {
        "NOPERM" => {
            return url.refusal(&format!(
                "does not let this user do what a registry needs ({detail}): give it the rights of docs/engines.md"
            ));
        }
        "NOAUTH" | "WRONGPASS" => return login_refusal(url),
        "NOPROTO" | "ERR" if detail.contains("unknown command") => {
            return url.refusal(&format!("is no complete Redis ({detail}): use Redis 6.2 or a later one"));
        }
        "WRONGTYPE" => {
            return url.refusal("has keys of another program in this namespace: name another namespace");
        }
        "MISCONF" => "cannot write its files, so it takes no writes: free its disk".into(),
        "OOM" => "has no memory left, so it takes no writes: raise its maxmemory".into(),
        "READONLY" | "UNBLOCKED" => "is a replica now, which takes no writes: name the primary".into(),
        "NOREPLICAS" => format!("waits for its replicas ({detail}): start them"),
        "MOVED" | "ASK" | "CLUSTERDOWN" => {
            format!("is kept by another node of its Redis cluster ({detail}): name that one")
        }
        "BUSY" => "is busy with a script of somebody else: wait, or end it with SCRIPT KILL".into(),
        "" => return connection_error(url, error),
        code => format!("answers {code} {detail}"),
    };
    RegistryError::Unavailable(format!("registry {url} {what}"))
}

/// Whether the server denies this command to this user, or to all.
pub(super) fn is_forbidden(error: &RedisError) -> bool {
    match error.code() {
        Some("NOPERM") => true,
        Some("ERR") => error.detail().is_some_and(|detail| detail.contains("unknown command")),
        _ => false,
    }
}

fn login_refusal(url: &EngineUrl) -> RegistryError {
    url.refusal("refuses this user or password: check both, and `ACL LIST` on the server")
}

/// An error from before the server's answer.
fn connection_error(url: &EngineUrl, error: &RedisError) -> RegistryError {
    match error.kind() {
        ErrorKind::AuthenticationFailed => login_refusal(url),
        ErrorKind::InvalidClientConfig => url.refusal(&format!("cannot be used: {error}")),
        _ if error.is_timeout() => {
            RegistryError::Unavailable(format!("registry {url} does not answer: see whether it runs"))
        }
        _ => RegistryError::Unavailable(format!(
            "registry {url} is out of reach ({error}): see whether it runs"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only a denied command leads to the lowest class: a lost answer must not lower it.
    #[test]
    fn a_refusal_to_tell_is_told_from_trouble() {
        let forbidden = |said: &str| {
            let told = redis::parse_redis_value(format!("-{said}\r\n").as_bytes());
            is_forbidden(&told.and_then(redis::Value::extract_error).unwrap_err())
        };
        assert!(forbidden("NOPERM User mute has no permissions to run the 'config|get' command"));
        assert!(forbidden("ERR unknown command 'CONFIG', with args beginning with: 'GET'"));
        assert!(!forbidden("ERR max number of clients reached"));
        assert!(!forbidden("LOADING Redis is loading the dataset in memory"));
        assert!(!is_forbidden(&std::io::Error::from(std::io::ErrorKind::ConnectionReset).into()));
    }
}
