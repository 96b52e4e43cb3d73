//! Which servers a TLS client trusts: those with a certificate of a trusted authority, and those that show a certificate
//! that is itself listed, as `curl --cacert` does.
//!
//! [`ServerTrust`] collects the certificates and makes a configuration of rustls, for any client that takes one.
//! [`agent`] is an HTTP agent of ureq with such a configuration, which ureq itself has no setting for.
//! [`explain`] says in plain words why a server is not trusted.

mod connector;
mod reason;
mod trust;

pub use connector::agent;
pub use reason::{explain, tls_error};
pub use trust::{ServerTrust, client_config, provider};
