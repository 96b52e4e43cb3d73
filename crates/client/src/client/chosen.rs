//! Which node is asked, and whether it has proved that it has this user's own key.

use std::time::Duration;

use ureq::Body;
use ureq::http::{Request, Response};

use super::socket::request_base;
use super::{
    ALIVE, ALIVE_ALONE, ApiClient, BREATH, CHALLENGE, CONNECT, ChosenNode, ClientKey, PROOF, REPEATS, agent,
    is_broken_connection, unreached, unusable,
};
use crate::address::loopback_port;
use crate::error::{ClientError, ClientErrorKind};
use crate::key::hex;

/// Whether a health check says that the node is a member that may act and stays.
fn is_ready(answer: &mut Response<Body>) -> bool {
    // A node whose answer breaks off is asked only where no other is ready.
    let body = answer.body_mut().read_to_string().unwrap_or_default();
    let says = serde_json::from_str::<serde_json::Value>(&body).is_ok_and(|body| body["status"] == "member");
    answer.status().is_success() && says
}

/// Says why each address fails. A server that is not trusted names the kind: it lives, so the fix is another one.
fn none_reached(whys: &[ClientError]) -> ClientError {
    let is_untrusted = whys.iter().any(|why| why.kind == ClientErrorKind::Untrusted);
    let kind = if is_untrusted { ClientErrorKind::Untrusted } else { ClientErrorKind::Unreachable };
    let messages: Vec<_> = whys.iter().map(|why| why.message.as_str()).collect();
    ClientError::new(kind, messages.join("\n"))
}

/// A text that no node has seen.
fn challenge() -> Result<String, ClientError> {
    let mut bytes = [0; 16];
    let filled = evenkeel_tls::provider().secure_random.fill(&mut bytes);
    filled.map_err(|_| ClientError::new(ClientErrorKind::Failed, "this host has no source of randomness"))?;
    Ok(hex(&bytes))
}

impl ApiClient {
    /// The first address at which a node answers; a node that is no member is used only if no other answers. Some
    /// responses take long, so a frozen node is detected by a health check, which is answered at once.
    pub(super) fn node(&self) -> Result<&ChosenNode, ClientError> {
        if let Some(node) = self.chosen.get() {
            return Ok(node);
        }
        let patience = if self.bases.len() > 1 { ALIVE } else { ALIVE_ALONE };
        let challenge = challenge()?;
        let (mut fallback, mut whys) = (None, Vec::new());
        for base in &self.bases {
            let chosen = |answer: Option<&Response<Body>>| ChosenNode {
                base: base.clone(),
                has_own_key: answer.is_some_and(|answer| self.is_proven(base, &challenge, answer)),
            };
            match self.check_health(base, &challenge, patience)? {
                Ok(mut answer) => {
                    let found = chosen(Some(&answer));
                    if is_ready(&mut answer) {
                        return Ok(self.chosen.get_or_init(|| found));
                    }
                    fallback = fallback.or(Some(found));
                }
                // A node was there: the request itself may be repeated.
                Err(e) if is_broken_connection(&e) => fallback = fallback.or_else(|| Some(chosen(None))),
                Err(e) => whys.push(unreached(base, &e)),
            }
        }
        match fallback {
            Some(node) => Ok(self.chosen.get_or_init(|| node)),
            None => Err(none_reached(&whys)),
        }
    }

    /// Asks a node whether it lives and has this user's own key. A connection that breaks is tried again: a node that goes on
    /// in another program breaks them all, and without its proof it would not get the key.
    fn check_health(
        &self,
        base: &str,
        challenge: &str,
        patience: Duration,
    ) -> Result<Result<Response<Body>, ureq::Error>, ClientError> {
        let agent = agent(base, (CONNECT, Some(patience)), &self.trust);
        let mut repeats = REPEATS;
        loop {
            let request = Request::builder()
                .uri(format!("{}/api/v1/health", request_base(base)))
                .header(CHALLENGE, challenge);
            let request = request.body(()).map_err(|e| unusable(base, &e))?;
            match agent.run(request) {
                Err(e) if is_broken_connection(&e) && repeats > 0 => repeats -= 1,
                answered => return Ok(answered),
            }
            std::thread::sleep(BREATH);
        }
    }

    /// Whether the answer to a challenge shows that a node of this host has this user's own key.
    fn is_proven(&self, base: &str, challenge: &str, answer: &Response<Body>) -> bool {
        let (ClientKey::Own(key), Some(port)) = (&self.key, loopback_port(base)) else { return false };
        let proof = answer.headers().get(PROOF).and_then(|proof| proof.to_str().ok());
        // A node that accepts two keys shows that it has both.
        proof.is_some_and(|proofs| proofs.split(',').any(|proof| key.is_proof(port, challenge, proof)))
    }
}
