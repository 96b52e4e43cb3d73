//! Requests to the provider: over TLS, few at once, and limited in time and size.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use evenkeel_tls::{ServerTrust, explain};
use rustls::pki_types::CertificateDer;
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;
use ureq::http::{Request, Response};
use ureq::{Agent, Body};

/// The time limit for a request, and for its turn.
const PATIENCE: Duration = Duration::from_secs(10);
/// The size limit of an answer.
const BYTES_MAX: u64 = 1 << 20;
/// The number of requests at once.
const AT_ONCE: usize = 8;

/// Why a login by the provider comes to nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OidcFault {
    /// The provider does not answer, or not in a way that makes sense; the text is for an administrator.
    Unavailable(String),
    /// The code or the token is wrong; the text is for an administrator.
    Refused(String),
    /// The provider vouches for a person that cannot be let in; the text is for that person.
    Unusable(String),
}

impl fmt::Display for OidcFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Unavailable(text) | Self::Refused(text) | Self::Unusable(text)) = self;
        f.write_str(text)
    }
}

/// A client of the provider.
pub(super) struct ProviderClient {
    /// The certificate of the provider or of its authority, beside those that this host trusts.
    authority: Vec<CertificateDer<'static>>,
    agent: OnceLock<Result<Agent, rustls::Error>>,
    turns: Arc<Semaphore>,
}

impl ProviderClient {
    pub(super) fn new(authority: Vec<CertificateDer<'static>>) -> Self {
        Self { authority, agent: OnceLock::new(), turns: Arc::new(Semaphore::new(AT_ONCE)) }
    }

    /// Reads a document.
    ///
    /// # Errors
    /// The provider does not answer with one.
    pub(super) async fn get<T: DeserializeOwned + Send + 'static>(
        self: &Arc<Self>,
        address: &str,
        token: Option<&str>,
    ) -> Result<T, OidcFault> {
        let mut request = Request::get(address).header("accept", "application/json");
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let request = request.body(());
        let (status, body) = self.run(address, move |agent| agent.run(request?)).await?;
        match status {
            200 => read(address, &body),
            other => Err(OidcFault::Unavailable(format!("{address} answers with status {other}"))),
        }
    }

    /// Sends a form; the status, and the answer.
    ///
    /// # Errors
    /// The provider does not answer.
    pub(super) async fn post(
        self: &Arc<Self>,
        address: &str,
        authorization: Option<String>,
        form: String,
    ) -> Result<(u16, Vec<u8>), OidcFault> {
        let mut request = Request::post(address)
            .header("accept", "application/json")
            .header("content-type", "application/x-www-form-urlencoded");
        if let Some(shown) = authorization {
            request = request.header("authorization", shown);
        }
        let request = request.body(form);
        self.run(address, move |agent| agent.run(request?)).await
    }

    /// Sends a request on a thread that may wait; the status and the body of its answer.
    async fn run(
        self: &Arc<Self>,
        address: &str,
        send: impl FnOnce(&Agent) -> Result<Response<Body>, ureq::Error> + Send + 'static,
    ) -> Result<(u16, Vec<u8>), OidcFault> {
        let silent =
            |why: &dyn fmt::Display| OidcFault::Unavailable(format!("{address} cannot be asked: {why}"));
        let turn = tokio::time::timeout(PATIENCE, self.turns.clone().acquire_owned()).await;
        let turn = turn.map_err(|_| silent(&"too many logins are under way"))?.map_err(|e| silent(&e))?;
        let client = self.clone();
        let answered = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            let agent =
                client.agent.get_or_init(|| agent(&client.authority)).as_ref().map_err(Clone::clone)?;
            let mut answer = send(agent)?;
            let status = answer.status().as_u16();
            let body = answer.body_mut().with_config().limit(BYTES_MAX).read_to_vec()?;
            Ok::<_, ureq::Error>((status, body))
        });
        answered.await.map_err(|e| silent(&e))?.map_err(|e| match e {
            ureq::Error::Rustls(tls) => silent(&explain(&tls)),
            e => silent(&e),
        })
    }
}

/// Reads an answer.
///
/// # Errors
/// It is not what it should be.
pub(super) fn read<T: DeserializeOwned>(address: &str, body: &[u8]) -> Result<T, OidcFault> {
    serde_json::from_slice(body)
        .map_err(|e| OidcFault::Unavailable(format!("the answer of {address} makes no sense: {e}")))
}

/// An HTTP agent that trusts the authorities of this host, and these certificates. It follows no redirects: a provider names
/// its addresses in its document.
fn agent(trusted: &[CertificateDer<'static>]) -> Result<Agent, rustls::Error> {
    let mut trust = ServerTrust::default();
    trusted.iter().try_for_each(|certificate| trust.list(certificate.clone()))?;
    trust.add_authorities(rustls_native_certs::load_native_certs().certs);
    let config = Agent::config_builder()
        .http_status_as_error(false)
        .timeout_global(Some(PATIENCE))
        .max_redirects(0)
        .proxy(None)
        .build();
    Ok(evenkeel_tls::agent(config, trust.client_config()?))
}
