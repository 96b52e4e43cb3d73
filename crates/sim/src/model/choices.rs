//! The possible actions of a state.

use super::ledger::{FireLedger, SwitchOff};
use super::scope::{ModelCommand, ModelScope};
use super::state::{ModelNode, ModelRequest, ModelState, NodeTrouble};
use evenkeel_core::input::Input;

/// One action. Sides are 0 and 1; the other number is a position in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ModelAction {
    /// The registry handles a request and answers.
    Serve(u8, u8),
    /// The node handles an answer, or a report of its executor.
    Take(u8, u8),
    /// The node handles the answer that was overtaken.
    TakeSlow(u8),
    /// The node receives all news up to now.
    Hear(u8),
    /// The node's timer rings.
    Ring(u8),
    /// The executor starts a child process, or refuses.
    Launch(u8),
    /// A child ends: by itself, or because it was stopped.
    End(u8, u8),
    /// A commit that its sender gave up arrives after all.
    Land(u8),
    /// The removal of a dead process's member by its guard arrives.
    Remove(u8),
    /// An operator sends a command to the node.
    Ask(u8, ModelCommand),
    /// Time goes on to the next moment with an action.
    Wait,
    /// A fault occurs.
    Strike(u8, ModelFault),
    /// A fault ends; requests that a cut held up go on.
    Mend(u8),
    /// A cut ends, and the requests that it held up are lost.
    MendWithLoss(u8),
}

/// The kinds of faults, each at most once per allowed fault of the scope. The number is the affected request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ModelFault {
    /// A request does not arrive; its sender learns that it had no answer.
    RequestLost(u8),
    /// It arrives later or never; its sender has stopped waiting.
    RequestLate(u8),
    /// It is carried out and its answer is lost.
    ReplyLost(u8),
    /// It is carried out and its answer comes late, overtaken by anything.
    ReplySlow(u8),
    /// A piece of the feed is lost.
    NewsLost,
    /// The process stops for a while.
    Freeze,
    /// The network to the registry is down for a while.
    Cut,
    /// The process dies.
    Crash,
}

impl ModelState {
    /// All possible actions; none if all is over.
    ///
    /// Messages, timers and executors are quick: time waits for them unless a fault holds them up. The duration of
    /// faults and of runs is open until the time of healing.
    pub(super) fn choices(&self, scope: &ModelScope) -> Vec<ModelAction> {
        let mut acts = Vec::new();
        (0..2).for_each(|n| self.due_now(scope, n, &mut acts));
        let quiet = acts.is_empty();
        let healed = self.now >= scope.heal;
        let troubled = self.sides.iter().any(|side| side.get().is_troubled());
        let busy = troubled || self.children().next().is_some();
        if quiet && !busy && self.settled(scope) && (self.late.is_empty() || self.now >= scope.end) {
            return acts;
        }
        (0..2).for_each(|n| self.chances(scope, n, quiet, &mut acts));
        acts.extend((0..).zip(&self.late).map(|(i, _)| ModelAction::Land(i)));
        if !healed {
            let (faults, items) = (self.faults, self.commands);
            (0..2).for_each(|n| self.possible_faults(scope, n, faults, &mut acts));
            // With faults, commands come in quiet moments only.
            let heard = items > 0 && (quiet || scope.faults == 0);
            let up = (0..2).filter(|n| heard && self.sides[*n as usize].get().trouble.is_none());
            acts.extend(up.flat_map(|n| scope.choice.iter().map(move |item| ModelAction::Ask(n, *item))));
        }
        if quiet && !(healed && busy) && self.now < scope.end && self.may_wait() {
            acts.push(ModelAction::Wait);
        }
        acts
    }

    /// The next action while the nodes join without disturbance; `None` if both have.
    pub(super) fn calm(&self, scope: &ModelScope) -> Option<ModelAction> {
        let mut acts = Vec::new();
        (0..2).for_each(|n| self.due_now(scope, n, &mut acts));
        let listening = self.sides.iter().all(|side| side.get().heard.is_some());
        acts.first().copied().or((!listening).then_some(ModelAction::Wait))
    }

    /// The actions that must come before time goes on.
    fn due_now(&self, scope: &ModelScope, n: u8, acts: &mut Vec<ModelAction>) {
        let side = self.sides[n as usize].get();
        if !side.is_cut() {
            acts.extend((0..).zip(&side.requests).map(|(i, _)| ModelAction::Serve(n, i)));
        }
        if side.node.is_none() || side.is_frozen() {
            return;
        }
        let held_up = |input: &Input| side.is_cut() && ModelNode::is_remote(input);
        acts.extend(
            (0..).zip(&side.inbox).filter(|(_, input)| !held_up(input)).map(|(i, _)| ModelAction::Take(n, i)),
        );
        if !side.is_cut() && side.is_behind(self.store.get()) {
            acts.push(ModelAction::Hear(n));
        }
        if side.wake.is_some_and(|at| at <= self.now) {
            acts.push(ModelAction::Ring(n));
        }
        if !side.launching.is_empty() {
            acts.push(ModelAction::Launch(n));
        }
        acts.extend(ends(side, n, |shard| scope.lasting.is_some_and(|lasting| lasting != shard)));
    }

    /// The actions that may come sooner or later. Faults end when all is quiet, and not in the moment in which they
    /// began; so do runs, unless the scope is about the order of messages.
    fn chances(&self, scope: &ModelScope, n: u8, quiet: bool, acts: &mut Vec<ModelAction>) {
        let side = self.sides[n as usize].get();
        if quiet || scope.split {
            acts.extend(ends(side, n, |shard| scope.lasting.is_none_or(|lasting| lasting == shard)));
        }
        if side.removes.is_some() {
            acts.push(ModelAction::Remove(n));
        }
        if side.slow.is_some() && !side.is_frozen() && !side.is_cut() {
            acts.push(ModelAction::TakeSlow(n));
        }
        let over = match side.trouble {
            Some(NodeTrouble::Frozen(since) | NodeTrouble::Cut(since)) => since < self.now,
            Some(NodeTrouble::Down) => true,
            Some(NodeTrouble::Gone) | None => false,
        };
        if over && quiet {
            acts.push(ModelAction::Mend(n));
            if side.is_cut() && !side.requests.is_empty() {
                acts.push(ModelAction::MendWithLoss(n));
            }
        }
    }

    fn possible_faults(&self, scope: &ModelScope, n: u8, faults: u8, acts: &mut Vec<ModelAction>) {
        let side = self.sides[n as usize].get();
        if faults == 0 || side.trouble.is_some() {
            return;
        }
        let mut mishaps = vec![ModelFault::Freeze, ModelFault::Cut, ModelFault::Crash];
        if side.is_behind(self.store.get()) {
            mishaps.push(ModelFault::NewsLost);
        }
        mishaps.extend((0..).zip(&side.requests).flat_map(|(i, request)| may_befall(request, i)));
        let plain =
            |m: &ModelFault| matches!(m, ModelFault::Cut | ModelFault::Crash | ModelFault::ReplyLost(_));
        mishaps.retain(|mishap| !scope.plain || plain(mishap));
        acts.extend(mishaps.into_iter().map(|mishap| ModelAction::Strike(n, mishap)));
    }

    /// Whether no fire has a further action.
    fn settled(&self, scope: &ModelScope) -> bool {
        let told = || self.ledgers.get().iter().all(FireLedger::is_settled);
        self.rests(scope) && (told() || self.switched() != SwitchOff::On)
    }

    /// The next moment with an action.
    pub(super) fn next_moment(&self) -> i64 {
        let sides = self.sides.iter().map(super::fingerprint::FingerprintedPart::get);
        let wakes = sides.clone().filter(|s| s.node.is_some() && !s.is_frozen()).filter_map(|s| s.wake);
        let guards = sides.filter(|s| s.running.iter().any(|c| c.ending.is_none())).map(|s| s.guard);
        let lease = self.store.get().next_end().map(|end| end.0);
        wakes.chain(guards).chain(lease).filter(|at| *at > self.now).min().unwrap_or(i64::MAX)
    }

    /// Whether time may go on: not past the moment at which a child must be dead.
    fn may_wait(&self) -> bool {
        let next = self.next_moment();
        next < i64::MAX && self.children().filter_map(|c| c.ending).all(|(_, killed)| next < killed)
    }
}

/// The ends of a side's children of these shards.
fn ends(side: &ModelNode, n: u8, of: impl Fn(u32) -> bool) -> Vec<ModelAction> {
    let children = (0..).zip(&side.running).filter(|(_, child)| of(child.run.id.shard.0));
    children.map(|(i, _)| ModelAction::End(n, i)).collect()
}

/// The possible faults of a request.
fn may_befall(request: &ModelRequest, i: u8) -> Vec<ModelFault> {
    let (lost, late) = (ModelFault::RequestLost(i), ModelFault::RequestLate(i));
    let (unanswered, slow) = (ModelFault::ReplyLost(i), ModelFault::ReplySlow(i));
    match request {
        ModelRequest::Close(_) => vec![],
        ModelRequest::Commit { .. } => vec![lost, late, unanswered, slow],
        // A read that is lost on either way is the same loss.
        ModelRequest::List | ModelRequest::Read(_) => vec![lost, slow],
        ModelRequest::Open(_) | ModelRequest::Renew(..) | ModelRequest::Offer { .. } => {
            vec![lost, unanswered, slow]
        }
    }
}
