//! Maps the client's errors to registry errors with a fix.

use zookeeper_client::Error;

use crate::{EngineUrl, RegistryError};

/// Describes an error and its fix. An error that the client does not name is a lost connection.
pub(super) fn explain(url: &EngineUrl, error: &Error) -> RegistryError {
    let unavailable = |what: &str| RegistryError::Unavailable(format!("registry {url} {what}"));
    match error {
        Error::NoAuth | Error::InvalidAcl => url.refusal(
            "does not let this user into its namespace: check user and password, or name another namespace",
        ),
        Error::AuthFailed => url.refusal("refuses this user or password: check both"),
        Error::BadArguments(what) => url.refusal(&format!("cannot be used: {what}")),
        Error::Unimplemented => url.refusal("is no ZooKeeper 3.6 or later: use one"),
        // The client does not say why a connection failed.
        Error::NoHosts | Error::Timeout if url.tls().is_ok_and(|tls| tls.is_some()) => unavailable(
            "is out of reach: see whether a majority of it runs and is spoken to at its secureClientPort, whether its \
             certificates are for these names and `ca`, or this host, vouches for them, and whether it wants a certificate \
             of ours (`cert` and `key`)",
        ),
        Error::NoHosts | Error::Timeout => unavailable("is out of reach: see whether a majority of it runs"),
        Error::ConnectionLoss | Error::SessionExpired | Error::ClientClosed | Error::SessionMoved => {
            unavailable(&format!("was lost ({error}): see whether a majority of it runs"))
        }
        Error::QuotaExceeded => unavailable("has a quota for this namespace that is used up: raise it"),
        Error::Throttled => unavailable("is throttling: it has too much to do"),
        _ => unavailable(&format!("did not do it ({error}): see whether a majority of it runs")),
    }
}
