//! Maps etcd's errors to their meaning and fix.

use std::error::Error;

use tonic::{Code, Status};

use crate::RegistryError;

/// Why a call has no answer.
#[derive(Clone, Debug)]
pub(super) enum EtcdError {
    /// The token has expired; nothing was done.
    Token,
    /// There is no such lease; nothing was done.
    NoLease,
    /// There is such a lease already; nothing was done.
    LeaseExists,
    /// The history that far back is compacted.
    Compacted,
    /// The answer is older than what was known at the request.
    Older,
    /// The request is too large for this server; nothing was done.
    TooLarge,
    /// Another error. Whether the request was done is unknown.
    Other(RegistryError),
}

impl EtcdError {
    /// The registry error for the caller.
    pub(super) fn into_registry_error(self) -> RegistryError {
        let unavailable = |text: &str| RegistryError::Unavailable(text.into());
        match self {
            Self::Other(error) => error,
            Self::Token => unavailable("etcd takes no token any more: try again"),
            Self::Older => unavailable("etcd answers with what was a while ago: try again"),
            Self::NoLease => unavailable("etcd ended the lease while it was being set up: try again"),
            Self::LeaseExists => {
                unavailable("another user of this etcd holds a lease of that number: try again")
            }
            Self::Compacted => unavailable("etcd was compacted while it was read: try again"),
            Self::TooLarge => unavailable(
                "etcd takes less in one request than it does by default: \
                 do not lower its --max-request-bytes and --max-txn-ops",
            ),
        }
    }
}

/// Whether another member may answer what this one did not.
pub(super) fn is_member_failure(status: &Status) -> bool {
    matches!(
        status.code(),
        Code::Unavailable | Code::DeadlineExceeded | Code::Unknown | Code::Internal | Code::Cancelled
    )
}

/// Maps an error of the member at `host`.
pub(super) fn from_status(host: &str, status: &Status) -> EtcdError {
    let text = status.message();
    let says = |part: &str| text.contains(part);
    let refused = |why: String| EtcdError::Other(RegistryError::Refused(why));
    match status.code() {
        Code::Unauthenticated => EtcdError::Token,
        Code::InvalidArgument if says("revision of auth store is old") => EtcdError::Token,
        Code::InvalidArgument if says("authentication failed") => {
            refused(format!("etcd at {host} does not know this user with this password: check both"))
        }
        Code::InvalidArgument if says("user name is empty") => refused(format!(
            "etcd at {host} asks who we are: put a user into the URL, or show a client certificate"
        )),
        Code::FailedPrecondition if says("authentication is not enabled") => refused(format!(
            "etcd at {host} asks nobody for a password: enable its authentication, or take the user out of the URL"
        )),
        Code::PermissionDenied => refused(format!(
            "etcd at {host} does not let this user read and write below the namespace: \
             grant its role readwrite there, with --prefix"
        )),
        Code::NotFound if says("lease not found") => EtcdError::NoLease,
        Code::FailedPrecondition if says("lease already exists") => EtcdError::LeaseExists,
        Code::OutOfRange if says("compacted") => EtcdError::Compacted,
        Code::InvalidArgument if says("too large") || says("too many operations") => EtcdError::TooLarge,
        Code::ResourceExhausted if says("larger than max") => EtcdError::TooLarge,
        Code::ResourceExhausted if says("space exceeded") => {
            EtcdError::Other(RegistryError::Unavailable(format!(
                "etcd at {host} is full: compact and defragment it, disarm its alarm, and let it compact by itself"
            )))
        }
        Code::DataLoss => EtcdError::Other(RegistryError::Fatal(format!(
            "etcd at {host} says that its data is damaged: {text}"
        ))),
        Code::Unimplemented => {
            refused(format!("etcd at {host} does not know this call: use etcd 3.4 or newer"))
        }
        _ => unanswered(host, &reason(status)),
    }
}

fn unanswered(host: &str, reason: &str) -> EtcdError {
    if reason.contains("certificate") {
        return EtcdError::Other(RegistryError::Refused(format!(
            "etcd at {host} and we do not trust each other: {reason}: check the options ca, cert and key"
        )));
    }
    EtcdError::Other(RegistryError::Unavailable(format!(
        "etcd at {host} does not answer: {reason}: check that it runs, has a leader, can be reached, and wants tls and a \
         client certificate only where the URL says so"
    )))
}

/// The text with its causes, since a transport's own text says little.
fn reason(status: &Status) -> String {
    let mut text = status.message().to_owned();
    let mut cause = status.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.contains(&next) {
            text = if text.is_empty() { next } else { format!("{text}: {next}") };
        }
        cause = error.source();
    }
    if text.is_empty() { status.code().to_string() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_surely_not_done_is_told_apart() {
        let read = |code, text| from_status("h:1", &Status::new(code, text));
        assert!(matches!(read(Code::Unauthenticated, "etcdserver: invalid auth token"), EtcdError::Token));
        assert!(matches!(read(Code::NotFound, "etcdserver: requested lease not found"), EtcdError::NoLease));
        assert!(matches!(
            read(Code::InvalidArgument, "etcdserver: too many operations in txn request"),
            EtcdError::TooLarge
        ));
        assert!(matches!(
            read(Code::OutOfRange, "etcdserver: mvcc: required revision has been compacted"),
            EtcdError::Compacted
        ));
        assert!(matches!(
            read(Code::Unavailable, "etcdserver: request timed out"),
            EtcdError::Other(RegistryError::Unavailable(_))
        ));
        assert!(matches!(
            read(Code::Unavailable, "invalid peer certificate: UnknownIssuer"),
            EtcdError::Other(RegistryError::Refused(_))
        ));
        assert!(matches!(
            read(Code::PermissionDenied, "etcdserver: permission denied"),
            EtcdError::Other(RegistryError::Refused(_))
        ));
    }
}
