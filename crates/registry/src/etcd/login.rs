//! The login: a user's token, obtained by the password, and kept until etcd rejects it.

use std::sync::{Mutex, PoisonError};

use tonic::client::Grpc;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::Channel;
use tonic::{Request, Status};
use tonic_prost::ProstCodec;

use super::message::{AuthenticateRequest, AuthenticateResponse};
use crate::{EngineUrl, RegistryError};

/// A user and its present token.
pub(super) struct EtcdLogin {
    request: AuthenticateRequest,
    token: Mutex<Option<MetadataValue<Ascii>>>,
    /// One caller gets the token, the others wait for it.
    asking: tokio::sync::Mutex<()>,
}

impl EtcdLogin {
    /// `None` when the URL names no user: then a client certificate identifies the client, or etcd needs no login.
    pub(super) fn new(url: &EngineUrl) -> Result<Option<Self>, RegistryError> {
        let Some(user) = url.user() else { return Ok(None) };
        let Some(password) = url.password()? else {
            return Err(url.refusal(&format!(
                "has a user without a password: put it into {} or into a file that password_file names",
                crate::PASSWORD
            )));
        };
        let question = AuthenticateRequest { name: user.into(), password };
        Ok(Some(Self { request: question, token: Mutex::default(), asking: tokio::sync::Mutex::default() }))
    }

    pub(super) fn token(&self) -> Option<MetadataValue<Ascii>> {
        self.token.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn forget(&self) {
        self.set(None);
    }

    fn set(&self, token: Option<MetadataValue<Ascii>>) {
        *self.token.lock().unwrap_or_else(PoisonError::into_inner) = token;
    }

    /// Gets a token if there is none.
    pub(super) async fn ensure_token(&self, channel: &Channel) -> Result<(), Status> {
        if self.token().is_some() {
            return Ok(());
        }
        let _asking = self.asking.lock().await;
        if self.token().is_none() {
            self.set(Some(self.authenticate(channel).await?));
        }
        Ok(())
    }

    async fn authenticate(&self, channel: &Channel) -> Result<MetadataValue<Ascii>, Status> {
        let mut grpc = Grpc::new(channel.clone());
        grpc.ready().await.map_err(|error| Status::from_error(error.into()))?;
        let path = "/etcdserverpb.Auth/Authenticate";
        let path = path.parse().map_err(|_| Status::internal("a path that is none"))?;
        let codec = ProstCodec::<AuthenticateRequest, AuthenticateResponse>::default();
        let answer = grpc.unary(Request::new(self.request.clone()), path, codec).await?;
        let token = answer.into_inner().token;
        token.parse().map_err(|_| Status::internal("a token that cannot be sent"))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::super::fake_server;
    use super::super::message::{PutRequest, PutResponse, ResponseHeader};
    use super::*;

    /// The result of a request to an etcd of two members that rejects this many tokens; whether another member is used
    /// then, and how many tokens were requested.
    async fn refused(often: usize) -> (bool, bool, usize) {
        let (tokens, asked) = (Arc::new(AtomicUsize::new(0)), AtomicUsize::new(0));
        let given = tokens.clone();
        let url = |at| format!("etcd://user:secret@{at},{at}/test");
        let shared = fake_server::start_at(url, move |path| match path {
            "/etcdserverpb.Auth/Authenticate" => {
                let token = given.fetch_add(1, Ordering::Relaxed).to_string();
                vec![fake_server::bytes(&AuthenticateResponse { token, ..Default::default() })]
            }
            _ if asked.fetch_add(1, Ordering::Relaxed) < often => vec![fake_server::NO_TOKEN.to_vec()],
            _ => {
                let header = Some(ResponseHeader { cluster_id: 1, revision: 9, raft_term: 1 });
                vec![fake_server::bytes(&PutResponse { header })]
            }
        })
        .await;
        let used = shared.client.subscribe_member();
        let first = *used.borrow();
        let told =
            shared.client.call_any::<_, PutResponse>("/etcdserverpb.KV/Put", PutRequest::default()).await;
        let other = *used.borrow() != first;
        (told.is_ok(), other, tokens.load(Ordering::Relaxed))
    }

    #[tokio::test]
    async fn a_member_that_takes_not_even_a_new_token_is_left_for_another() {
        assert_eq!(refused(0).await, (true, false, 1));
        assert_eq!(refused(1).await, (true, false, 2), "the token was too old");
        assert_eq!(refused(2).await, (true, true, 2), "the member is at fault");
        // Each of them rejects the token it was given, the first of them twice.
        let (told, _, tokens) = refused(usize::MAX).await;
        assert!(!told && tokens == 3, "{told}, {tokens} tokens");
    }
}
