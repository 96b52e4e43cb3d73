//! Test servers, named by the environment; every case has a namespace of its own on them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::{Engine, ServerTiming, TimeSource};
use crate::clock::{Clock, HostClock};
use crate::{BoxFuture, Registry, RegistryError};

/// The registry of one case on a server.
pub struct ServerEngine {
    url: String,
    timing: ServerTiming,
}

impl ServerEngine {
    /// A new, empty registry on the server at `EVENKEEL_TEST_<name>`; `None`, with a message, if there is none.
    ///
    /// # Panics
    /// If there is none and `REQUIRE=all` requires them all.
    #[must_use]
    pub fn find(name: &str, real: ServerTiming) -> Option<Self> {
        server_url(name).map(|url| Self { url: with_fresh_namespace(&url), timing: real })
    }

    /// The registry's URL.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Engine for ServerEngine {
    fn connect(&self) -> BoxFuture<'_, Result<Arc<dyn Registry>, RegistryError>> {
        Box::pin(crate::open(&self.url))
    }

    fn url(&self) -> String {
        self.url.clone()
    }

    fn time_source(&self) -> TimeSource {
        TimeSource::Server(self.timing)
    }
}

/// The URL at `EVENKEEL_TEST_<name>`, without a namespace; `None`, with a message, if there is none.
///
/// # Panics
/// If there is none and `REQUIRE=all` requires them all.
#[must_use]
pub fn server_url(name: &str) -> Option<String> {
    let variable = format!("EVENKEEL_TEST_{name}");
    let found = std::env::var(&variable).ok().filter(|url| !url.is_empty());
    if found.is_none() {
        let fix = format!("{variable} names no server: `cargo xtask engines up` starts one");
        let required = std::env::var("REQUIRE").is_ok_and(|which| which == "all");
        assert!(!required, "{fix}");
        eprintln!("skipped: {fix}");
    }
    found
}

/// The same URL with an unused namespace.
#[must_use]
pub fn with_fresh_namespace(url: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let (now, count) = (HostClock.now().wall, COUNT.fetch_add(1, Ordering::Relaxed));
    let namespace = format!("t{}-{}-{count}", now.0, std::process::id());
    let (place, options) = url.split_once('?').unwrap_or((url, ""));
    let mark = if options.is_empty() { "" } else { "?" };
    format!("{}/{namespace}{mark}{options}", place.trim_end_matches('/'))
}
