//! Finds the principal that a request shows: a token, a session or a name with a password.

use std::sync::Arc;

use evenkeel::Handle;
use evenkeel::audit::Proof;
use evenkeel_core::ids::{JobName, PrincipalName};
use evenkeel_core::input::Command;
use evenkeel_core::principal::{Grants, Principal, PrincipalKind, Role};
use evenkeel_core::time::{Millis, Wall};

use super::App;
use super::known_caller::KnownCaller;
use super::session::Session;
use super::session_subject::{SessionOwner, SessionSubject};
use super::token_text::TokenText;
use crate::queries;

/// The last use of a token is written when the one that is known is this long ago.
const USE_NOTED_AFTER: Millis = Millis::secs(3_600);

/// A principal that exists, as its record has it and as a node of this cluster wrote it.
pub(super) fn find(app: &App, kind: PrincipalKind, name: &PrincipalName) -> Option<Principal> {
    app.handle.with_node(|node| node.view().principal(kind, name).cloned())
}

/// A principal that is let in now.
fn let_in(app: &App, kind: PrincipalKind, name: &PrincipalName, now: Wall) -> Option<Principal> {
    let over = |principal: &Principal| principal.expires.is_some_and(|expires| expires <= now);
    find(app, kind, name).filter(|principal| !principal.disabled && !over(principal))
}

/// The caller with a token of the API. A webhook's is none: no other address takes it.
pub(super) fn of_token(app: &App, text: Arc<TokenText>, now: Wall) -> Option<KnownCaller> {
    let token = proved(app, &text, now).filter(|token| token.trigger.is_none())?;
    let grants = match grants_of_owner(app, &token, now)? {
        Some(owner) => token.grants.both(&owner),
        None => token.grants.clone(),
    };
    note_use(app, token, now);
    Some(with_token(text, grants, None))
}

/// The caller with a webhook's token: it runs one job, for as long as the owner of the token may.
pub(super) fn of_trigger(app: &App, text: Arc<TokenText>, now: Wall) -> Option<KnownCaller> {
    let token = proved(app, &text, now)?;
    let job = token.trigger.clone()?;
    if let Some(owner) = grants_of_owner(app, &token, now)? {
        let labels = queries::labels(&app.handle, &job);
        let role = match &labels {
            Some(labels) => owner.role_on(job.namespace(), labels),
            None => owner.role_in(job.namespace()),
        };
        if role < Some(Role::Operator) {
            return None;
        }
    }
    note_use(app, token, now);
    Some(with_token(text, Grants::default(), Some(job)))
}

fn with_token(text: Arc<TokenText>, grants: Grants, trigger: Option<JobName>) -> KnownCaller {
    let proof = Proof::Token(text.name.to_string());
    KnownCaller { proof, grants, session: None, token: Some(text), trigger, key: None }
}

/// The token whose secret the text has, and that is let in.
fn proved(app: &App, text: &TokenText, now: Wall) -> Option<Principal> {
    let token = let_in(app, PrincipalKind::Token, &text.name, now)?;
    let former = token.former.as_ref().filter(|former| now < former.until);
    let is_right = text.is_of(&token.secret) || former.is_some_and(|former| text.is_of(&former.secret));
    is_right.then_some(token)
}

/// The roles of a token's owner, or `Some(None)` for a token without one; `None` for a token whose owner is let in no more.
#[expect(clippy::option_option, reason = "a token without an owner is not one whose owner is gone")]
fn grants_of_owner(app: &App, token: &Principal, now: Wall) -> Option<Option<Grants>> {
    let Some(owner) = &token.owner else { return Some(None) };
    let owner = let_in(app, PrincipalKind::User, owner, now)?;
    // Else the token was made for an earlier user of this name.
    (owner.created <= token.created).then_some(Some(owner.grants))
}

/// Whether a caller that was let in would be let in now, with the same roles.
pub(super) fn is_unchanged(app: &App, caller: &KnownCaller, now: Wall) -> bool {
    let again = match (&caller.session, &caller.token) {
        (Some(session), _) => of_session(app, session, now),
        (None, Some(token)) if caller.trigger.is_some() => of_trigger(app, token.clone(), now),
        (None, Some(token)) => of_token(app, token.clone(), now),
        (None, None) => return caller.key.is_none_or(|epoch| app.access.key_epochs().contains(&epoch)),
    };
    again.is_some_and(|again| again.grants == caller.grants)
}

/// The caller with a session.
pub(super) fn of_session(app: &App, session: &Session, now: Wall) -> Option<KnownCaller> {
    let of = session.subject();
    let grants = grants_of(app, &of, now)?;
    let (proof, session) = (of.proof(), Some(session.clone()));
    Some(KnownCaller { proof, grants, session, token: None, trigger: None, key: None })
}

/// What the owner of a session, or of a login link, may do now; `None` if its sessions have ended.
pub(super) fn grants_of(app: &App, of: &SessionSubject, now: Wall) -> Option<Grants> {
    let (grants, epoch) = match &of.owner {
        SessionOwner::Key => {
            return app.access.key_epochs().contains(&of.epoch).then(Grants::all);
        }
        SessionOwner::User(name) => {
            let user = let_in(app, PrincipalKind::User, name, now)?;
            (user.grants, user.sessions)
        }
        SessionOwner::Oidc(person) => {
            let provider = app.oidc.as_ref()?;
            let is_over = person.ends <= now;
            (person.grants.clone(), (!is_over).then(|| provider.epoch())?)
        }
    };
    (of.epoch == epoch).then_some(grants)
}

/// The user with this name and password.
pub(super) async fn of_password(
    app: &App,
    name: Option<&PrincipalName>,
    password: String,
    now: Wall,
) -> Option<SessionSubject> {
    let user = name.and_then(|name| let_in(app, PrincipalKind::User, name, now));
    let digest = user.as_ref().map(|user| user.secret.clone());
    let right = app.access.passwords.is_right(digest, password).await.ok()?;
    user.filter(|_| right)
        .map(|user| SessionSubject { owner: SessionOwner::User(user.name), epoch: user.sessions })
}

/// Writes the use of a token from time to time. Nothing waits for it: a lost one is made up by the next.
fn note_use(app: &App, token: Principal, now: Wall) {
    if token.last_used.is_some_and(|last| now - last < USE_NOTED_AFTER)
        || !app.access.uses.is_first(&token.name, now)
    {
        return;
    }
    let used = Principal { last_used: Some(now), ..token };
    let handle: Handle = app.handle.clone();
    tokio::spawn(async move { handle.ask(Command::PrincipalUsed(Box::new(used))).await });
}
