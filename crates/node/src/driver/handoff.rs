//! Passing the node on to the program that takes this one's place.
//!
//! What runs inside the process cannot go on, so the node works on as ever until nothing does; then it rests until no commit is
//! under way. Up to `exec` all of it can be taken back, and is where anything is missing.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::PoisonError;
use std::time::Duration;

use evenkeel_core::effect::Event;
use evenkeel_core::ids::{RunId, counted};
use evenkeel_core::input::Input;
use evenkeel_core::record::Layouts;
use evenkeel_core::time::{Millis, Mono};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::Driver;
use super::inbox::DriverEvent;
use super::lease::Leases;
use crate::clock;
use crate::guard::GuardTransfer;
use crate::handle::HandleRequest;
use crate::upgrade::{HandoffState, ProgramFile};

/// How long the guard's keeper may take to let go of it.
const GUARD_PATIENCE: Duration = Duration::from_secs(2);
/// How long history may take for what it was given.
const HISTORY_PATIENCE: Duration = Duration::from_secs(2);
/// How long the new program may take to say once more what it is, while the node rests.
const CHECK: Duration = Duration::from_secs(1);
/// For how long the node must be trusted yet: the new program has to renew the lease within it.
const TRUST: Millis = Millis(500);
/// How many runs are named in a refusal.
const NAMED: usize = 5;

/// Somebody wants the node to go on in another program.
pub(crate) struct NodeUpgrade {
    pub(crate) program: ProgramFile,
    /// Where the node's callers come in.
    pub(crate) listener: Option<OwnedFd>,
    /// How long there is time for it.
    pub(crate) wait: Duration,
    /// Why it was not done; no answer comes if it was.
    pub(crate) refused: oneshot::Sender<String>,
}

/// An upgrade that waits for its moment.
struct PendingUpgrade {
    upgrade: NodeUpgrade,
    until: Mono,
}

/// What an upgrade needs besides.
pub(super) struct UpgradeState {
    /// Which registry the node is of, without its password.
    url: String,
    /// Where the guard can be had.
    guard_client: Option<HandoffSender>,
    pending: Option<PendingUpgrade>,
}

impl UpgradeState {
    pub(super) fn new(url: String, keeper: Option<HandoffSender>) -> Self {
        Self { url, guard_client: keeper, pending: None }
    }

    /// Until when an upgrade waits, if one does.
    pub(super) fn until(&self) -> Option<Mono> {
        self.pending.as_ref().map(|waiting| waiting.until)
    }
}

/// Where the guard's keeper is asked for the guard.
pub(super) type HandoffSender = mpsc::Sender<oneshot::Sender<GuardTransfer>>;

impl Driver {
    /// Whoever goes on under a lease trusts it from the beginning, as far as it was confirmed.
    pub(super) fn trust_at_once(&mut self) {
        let node = self.node.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(trust) = Leases::trust(&node, clock::now()) {
            self.trust = Some(trust);
            self.executor.trust(trust);
        }
    }

    /// An upgrade begins, unless another one has.
    pub(super) fn begin_upgrade(&mut self, upgrade: NodeUpgrade) {
        if self.upgrading.pending.is_some() {
            // Whoever asked may have given up waiting, here and below.
            let _ = upgrade.refused.send("another upgrade is under way: wait for it".to_owned());
            return;
        }
        let wait = Millis(i64::try_from(upgrade.wait.as_millis()).unwrap_or(i64::MAX));
        self.upgrading.pending = Some(PendingUpgrade { until: clock::now().mono + wait, upgrade });
    }

    /// Goes on with an upgrade that waits, and does not come back if its moment is here.
    pub(super) async fn continue_upgrade(&mut self) {
        let Some(waiting) = self.upgrading.pending.take() else { return };
        let why = match self.ready() {
            Ok(()) => self.execute_next(&waiting.upgrade).await,
            Err(why) if clock::now().mono < waiting.until && self.upgrade_obstacle().is_none() => {
                tracing::debug!("the upgrade waits: {why}");
                self.upgrading.pending = Some(waiting);
                return;
            }
            Err(why) => why,
        };
        self.step(Input::Rest(false));
        self.report_event(Event::NotUpgraded(why.clone()));
        let _ = waiting.upgrade.refused.send(why);
    }

    /// Lets the node rest when nothing runs inside the process.
    fn ready(&mut self) -> Result<(), String> {
        let inside = self.runs.inside();
        if !inside.is_empty() {
            return Err(names_of_runs(&inside));
        }
        if let Some(why) = self.upgrade_obstacle() {
            return Err(why);
        }
        if !self.pending_audit.is_idle() || !self.pending_answers.is_empty() {
            self.step(Input::Rest(false));
            return Err("somebody still waits for an answer of it: try again".to_owned());
        }
        self.step(Input::Rest(true));
        let node = self.node.read().unwrap_or_else(PoisonError::into_inner);
        match node.handoff(clock::now().mono) {
            Some(_) => Ok(()),
            None => Err("the registry has not answered what was asked of it: try again".to_owned()),
        }
    }

    fn upgrade_obstacle(&self) -> Option<String> {
        let node = self.node.read().unwrap_or_else(PoisonError::into_inner);
        node.handoff_obstacle(clock::now().mono).map(|why| format!("the node cannot be upgraded now: {why}"))
    }

    /// Goes on in the next program. Comes back only with the reason why not.
    async fn execute_next(&mut self, upgrade: &NodeUpgrade) -> String {
        // What was there when the upgrade began may be half overwritten by now.
        let knows = match upgrade.program.check(CHECK).await {
            Ok(said) => said.knows,
            Err(why) => return why.to_string(),
        };
        let passing = match self.request_guard_handoff().await {
            Ok(passing) => passing,
            Err(why) => return why,
        };
        // Whatever the guard had said before is heard by now: the next program hears what comes after.
        while let Some(news) = self.inbox.ready_executor_event() {
            self.on_event(DriverEvent::Executor(news));
        }
        self.write_decisions();
        if !self.runs.inside().is_empty() || !self.history.settle(HISTORY_PATIENCE).await {
            return "the history has not taken what it was given: see its disk or its server".to_owned();
        }
        let baton = {
            let node = self.node.read().unwrap_or_else(PoisonError::into_inner);
            node.handoff(clock::now().mono)
        };
        let Some(baton) = baton else { return "the lease was lost meanwhile: try again".to_owned() };
        if let Some(why) = self.is_lost_on(knows) {
            return why;
        }
        let (guard, pipes, _back) = match passing {
            Some(GuardTransfer { guard, pipes, resume: go_on }) => (Some(guard), Some(pipes), Some(go_on)),
            None => (None, None, None),
        };
        let state = HandoffState::new(self.upgrading.url.clone(), baton, self.runs.handoff(), guard);
        if upgrade.refused.is_closed() {
            return "whoever asked for it has something else to do, as a process that is told to end"
                .to_owned();
        }
        let now = clock::now().mono;
        if self.trust.is_none_or(|trust| trust.until < now + TRUST) {
            return "the registry takes too long to renew the lease: try again".to_owned();
        }
        let path = upgrade.program.path().display();
        tracing::info!("going on in {path}, with {}", counted(self.runs.running().count(), "run"));
        let error = upgrade.program.hand_over(state, pipes, upgrade.listener.as_ref());
        format!("{path} cannot be executed: {error}")
    }

    /// What was decided beside the node is written down; whatever else is asked of it now nobody has begun.
    fn write_decisions(&mut self) {
        let mut others = Vec::new();
        while let Some(order) = self.inbox.ready_request() {
            match order {
                HandleRequest::LogDecision(asker, deed, outcome) => self.log_decision(asker, deed, outcome),
                other => others.push(other),
            }
        }
        others.into_iter().for_each(|order| self.inbox.put_back(DriverEvent::Request(order)));
    }

    /// Why a program that knows these layouts cannot be this member.
    fn is_lost_on(&self, knows: Layouts) -> Option<String> {
        let node = self.node.read().unwrap_or_else(PoisonError::into_inner);
        let lacks = node.is_lost_on(knows)?;
        Some(format!(
            "the new program knows other layouts of the tree ({knows}) than this node must ({}): drain the node and \
             restart it instead",
            lacks.layout
        ))
    }

    /// What the keeper gives away; `None` where there is no guard.
    async fn request_guard_handoff(&self) -> Result<Option<GuardTransfer>, String> {
        let Some(keeper) = &self.upgrading.guard_client else { return Ok(None) };
        let (to, given) = oneshot::channel();
        let asked = async {
            keeper.send(to).await.ok()?;
            given.await.ok()
        };
        let given = timeout(GUARD_PATIENCE, asked).await.ok().flatten();
        given.map(Some).ok_or_else(|| "the guard process does not answer: try again".to_owned())
    }
}

/// Which runs stand in the way.
fn names_of_runs(inside: &BTreeMap<&RunId, u32>) -> String {
    let names: Vec<String> = inside.keys().take(NAMED).map(ToString::to_string).collect();
    let more = if inside.len() > NAMED { " and others" } else { "" };
    format!(
        "{}{more} run inside the node's process and cannot go on in another one: wait longer for them, drain the node \
         first, or end them",
        names.join(", ")
    )
}
