//! Passing the node on to the program that takes this one's place.
//!
//! What runs inside the process cannot go on, so the node works on as ever until nothing does; then it rests until no commit is
//! under way. Up to `exec` all of it can be taken back, and is where anything is missing.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::PoisonError;
use std::time::Duration;

use evenkeel_core::effect::Event;
use evenkeel_core::input::Input;
use evenkeel_core::record::Layouts;
use evenkeel_core::time::{Millis, Mono};
use evenkeel_core::words::{RunId, counted};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::Driver;
use super::inbox::Happening;
use super::lease::Leases;
use crate::clock;
use crate::guard::Passing;
use crate::handle::Order;
use crate::upgrade::{Program, State};

/// How long the guard's keeper may take to let go of it.
const KEEPER: Duration = Duration::from_secs(2);
/// How long history may take for what it was given.
const BOOKS: Duration = Duration::from_secs(2);
/// How long the new program may take to say once more what it is, while the node rests.
const CHECK: Duration = Duration::from_secs(1);
/// For how long the node must be trusted yet: the new program has to renew the lease within it.
const TRUST: Millis = Millis(500);
/// How many runs are named in a refusal.
const NAMED: usize = 5;

/// Somebody wants the node to go on in another program.
pub(crate) struct Upgrade {
    pub(crate) program: Program,
    /// Where the node's callers come in.
    pub(crate) listener: Option<OwnedFd>,
    /// How long there is time for it.
    pub(crate) wait: Duration,
    /// Why it was not done; no answer comes if it was.
    pub(crate) refused: oneshot::Sender<String>,
}

/// An upgrade that waits for its moment.
struct Waiting {
    upgrade: Upgrade,
    until: Mono,
}

/// What an upgrade needs besides.
pub(super) struct Upgrading {
    /// Which registry the node is of, without its password.
    url: String,
    /// Where the guard can be had.
    keeper: Option<ToKeeper>,
    waiting: Option<Waiting>,
}

impl Upgrading {
    pub(super) fn new(url: String, keeper: Option<ToKeeper>) -> Self {
        Self { url, keeper, waiting: None }
    }

    /// Until when an upgrade waits, if one does.
    pub(super) fn until(&self) -> Option<Mono> {
        self.waiting.as_ref().map(|waiting| waiting.until)
    }
}

/// Where the guard's keeper is asked for the guard.
pub(super) type ToKeeper = mpsc::Sender<oneshot::Sender<Passing>>;

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
    pub(super) fn begin_upgrade(&mut self, upgrade: Upgrade) {
        if self.upgrading.waiting.is_some() {
            // Whoever asked may have given up waiting, here and below.
            let _ = upgrade.refused.send("another upgrade is under way: wait for it".to_owned());
            return;
        }
        let wait = Millis(i64::try_from(upgrade.wait.as_millis()).unwrap_or(i64::MAX));
        self.upgrading.waiting = Some(Waiting { until: clock::now().mono + wait, upgrade });
    }

    /// Goes on with an upgrade that waits, and does not come back if its moment is here.
    pub(super) async fn go_on_upgrading(&mut self) {
        let Some(waiting) = self.upgrading.waiting.take() else { return };
        let why = match self.ready() {
            Ok(()) => self.become_next(&waiting.upgrade).await,
            Err(why) if clock::now().mono < waiting.until && self.keeps_here().is_none() => {
                tracing::debug!("the upgrade waits: {why}");
                self.upgrading.waiting = Some(waiting);
                return;
            }
            Err(why) => why,
        };
        self.step(Input::Rest(false));
        self.tell(Event::NotUpgraded(why.clone()));
        let _ = waiting.upgrade.refused.send(why);
    }

    /// Lets the node rest when nothing runs inside the process.
    fn ready(&mut self) -> Result<(), String> {
        let inside = self.runs.inside();
        if !inside.is_empty() {
            return Err(named(&inside));
        }
        if let Some(why) = self.keeps_here() {
            return Err(why);
        }
        if !self.trails.is_idle() || !self.asking.is_empty() {
            self.step(Input::Rest(false));
            return Err("somebody still waits for an answer of it: try again".to_owned());
        }
        self.step(Input::Rest(true));
        let node = self.node.read().unwrap_or_else(PoisonError::into_inner);
        match node.baton(clock::now().mono) {
            Some(_) => Ok(()),
            None => Err("the registry has not answered what was asked of it: try again".to_owned()),
        }
    }

    fn keeps_here(&self) -> Option<String> {
        let node = self.node.read().unwrap_or_else(PoisonError::into_inner);
        node.keeps_here(clock::now().mono).map(|why| format!("the node cannot be upgraded now: {why}"))
    }

    /// Goes on in the next program. Comes back only with the reason why not.
    async fn become_next(&mut self, upgrade: &Upgrade) -> String {
        // What was there when the upgrade began may be half overwritten by now.
        let knows = match upgrade.program.check(CHECK).await {
            Ok(said) => said.knows,
            Err(why) => return why.to_string(),
        };
        let passing = match self.ask_keeper().await {
            Ok(passing) => passing,
            Err(why) => return why,
        };
        // Whatever the guard had said before is heard by now: the next program hears what comes after.
        while let Some(news) = self.inbox.ready_news() {
            self.take(Happening::News(news));
        }
        self.write_decided();
        if !self.runs.inside().is_empty() || !self.history.settle(BOOKS).await {
            return "the history has not taken what it was given: see its disk or its server".to_owned();
        }
        let baton = {
            let node = self.node.read().unwrap_or_else(PoisonError::into_inner);
            node.baton(clock::now().mono)
        };
        let Some(baton) = baton else { return "the lease was lost meanwhile: try again".to_owned() };
        if let Some(why) = self.is_lost_on(knows) {
            return why;
        }
        let (guard, pipes, _back) = match passing {
            Some(Passing { guard, pipes, go_on }) => (Some(guard), Some(pipes), Some(go_on)),
            None => (None, None, None),
        };
        let state = State::new(self.upgrading.url.clone(), baton, self.runs.passed(), guard);
        if upgrade.refused.is_closed() {
            return "whoever asked for it has something else to do, as a process that is told to end"
                .to_owned();
        }
        let now = clock::now().mono;
        if self.trust.is_none_or(|trust| trust.until < now + TRUST) {
            return "the registry takes too long to renew the lease: try again".to_owned();
        }
        let path = upgrade.program.path().display();
        tracing::info!("going on in {path}, with {}", counted(self.runs.under_way().count(), "run"));
        let error = upgrade.program.go_on(state, pipes, upgrade.listener.as_ref());
        format!("{path} cannot be executed: {error}")
    }

    /// What was decided beside the node is written down; whatever else is asked of it now nobody has begun.
    fn write_decided(&mut self) {
        let mut others = Vec::new();
        while let Some(order) = self.inbox.ready_order() {
            match order {
                Order::Decided(asker, deed, outcome) => self.decided(asker, deed, outcome),
                other => others.push(other),
            }
        }
        others.into_iter().for_each(|order| self.inbox.put_back(Happening::Order(order)));
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
    async fn ask_keeper(&self) -> Result<Option<Passing>, String> {
        let Some(keeper) = &self.upgrading.keeper else { return Ok(None) };
        let (to, given) = oneshot::channel();
        let asked = async {
            keeper.send(to).await.ok()?;
            given.await.ok()
        };
        let given = timeout(KEEPER, asked).await.ok().flatten();
        given.map(Some).ok_or_else(|| "the guard process does not answer: try again".to_owned())
    }
}

/// Which runs stand in the way.
fn named(inside: &BTreeMap<&RunId, u32>) -> String {
    let names: Vec<String> = inside.keys().take(NAMED).map(ToString::to_string).collect();
    let more = if inside.len() > NAMED { " and others" } else { "" };
    format!(
        "{}{more} run inside the node's process and cannot go on in another one: wait longer for them, drain the node \
         first, or end them",
        names.join(", ")
    )
}
