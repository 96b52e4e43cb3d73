//! Hands the node over to the next program during an upgrade.
//!
//! Runs inside the process cannot continue, so the node works as usual until there are none; then it pauses until no
//! commit is in flight. Until `exec` everything can be undone, and is undone if any step fails.

use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::time::Duration;

use evenkeel_core::effect::Event;
use evenkeel_core::ids::{RunId, counted};
use evenkeel_core::input::Input;
use evenkeel_core::record::Layouts;
use evenkeel_core::time::Millis;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::Driver;
use super::inbox::DriverEvent;
use super::lease::Leases;
use super::upgrade_state::PendingUpgrade;
use crate::clock;
use crate::guard::GuardTransfer;
use crate::request::{HandleRequest, NodeUpgrade};
use crate::upgrade::HandoffState;

/// How long the guard client may take to release the guard.
const GUARD_PATIENCE: Duration = Duration::from_secs(2);
/// How long history may take to write what is queued.
const HISTORY_PATIENCE: Duration = Duration::from_secs(2);
/// The time for the receiver of spans to send what it has.
const TRACES_PATIENCE: Duration = Duration::from_secs(1);
/// How long the new program may take to describe itself once more, while the node pauses.
const CHECK: Duration = Duration::from_secs(1);
/// How long the node's trust must still last: the new program has to renew the lease within it.
const TRUST: Millis = Millis(500);
/// How many runs are named in a refusal.
const NAMED: usize = 5;

impl Driver {
    /// Trusts an inherited lease from the beginning, as far as it was confirmed.
    pub(super) fn trust_at_once(&mut self) {
        let node = self.node.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(trust) = Leases::trust(&node, clock::now()) {
            self.trust = Some(trust);
            self.executor.trust(trust);
        }
    }

    /// Begins an upgrade, unless another one is pending.
    pub(super) fn begin_upgrade(&mut self, upgrade: NodeUpgrade) {
        if self.upgrading.pending.is_some() {
            // The caller may have given up waiting, here and below.
            let _ = upgrade.refused.send("another upgrade is under way: wait for it".to_owned());
            return;
        }
        let wait = Millis(i64::try_from(upgrade.wait.as_millis()).unwrap_or(i64::MAX));
        self.upgrading.pending = Some(PendingUpgrade { until: clock::now().mono + wait, upgrade });
    }

    /// Continues a pending upgrade. Does not return if the upgrade is done now.
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

    /// Pauses the node once nothing runs inside the process.
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

    /// Continues in the next program. Returns only with the reason why that failed.
    async fn execute_next(&mut self, upgrade: &NodeUpgrade) -> String {
        // What follows waits for other processes. If it fails, the next heartbeat makes the guard expect more.
        self.heartbeats.rest(&self.executor);
        // The program file may have been overwritten since the upgrade began.
        let knows = match upgrade.program.check(CHECK).await {
            Ok(said) => said.knows,
            Err(why) => return why.to_string(),
        };
        let passing = match self.request_guard_handoff().await {
            Ok(passing) => passing,
            Err(why) => return why,
        };
        // Every event that the guard sent before is processed by now: the next program receives the later ones.
        while let Some(news) = self.inbox.ready_executor_event() {
            self.on_event(DriverEvent::Executor(news));
        }
        self.write_decisions();
        if !self.runs.inside().is_empty() || !self.history.settle(HISTORY_PATIENCE).await {
            return "the history has not taken what it was given: see its disk or its server".to_owned();
        }
        self.history.flush_traces(TRACES_PATIENCE).await;
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

    /// Writes down the decisions made beside the node. Other waiting requests have not begun, and are dropped.
    fn write_decisions(&mut self) {
        let mut others = Vec::new();
        while let Some(order) = self.inbox.ready_request() {
            match order {
                HandleRequest::LogDecision(asker, action, outcome) => {
                    self.log_decision(asker, action, outcome)
                }
                other => others.push(other),
            }
        }
        others.into_iter().for_each(|order| self.inbox.put_back(DriverEvent::Request(order)));
    }

    /// Why a program that knows these layouts cannot continue this member.
    fn is_lost_on(&self, knows: Layouts) -> Option<String> {
        let node = self.node.read().unwrap_or_else(PoisonError::into_inner);
        let lacks = node.is_lost_on(knows)?;
        Some(format!(
            "the new program knows other layouts of the tree ({knows}) than this node must ({}): drain the node and \
             restart it instead",
            lacks.layout
        ))
    }

    /// Obtains the guard's state and pipes from the guard client; `None` if there is no guard.
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

/// The names of the runs that prevent the upgrade.
fn names_of_runs(inside: &BTreeMap<&RunId, u32>) -> String {
    let names: Vec<String> = inside.keys().take(NAMED).map(ToString::to_string).collect();
    let more = if inside.len() > NAMED { " and others" } else { "" };
    format!(
        "{}{more} run inside the node's process and cannot go on in another one: wait longer for them, drain the node \
         first, or end them",
        names.join(", ")
    )
}
