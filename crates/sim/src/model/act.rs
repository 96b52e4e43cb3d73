//! Applies actions to a state.

use std::fmt::Write as _;

use evenkeel_core::commit_kind::CommitKind;
use evenkeel_core::effect::{Effect, Run, StopReason};
use evenkeel_core::ids::Member;
use evenkeel_core::input::{
    Answer, Command, CommandId, Input, LeaseEvent, Offer, OfferAnswer, RunEvent, RunOutcome,
};
use evenkeel_core::keys;
use evenkeel_core::record::Attempt;
use evenkeel_core::registry::{Guard, LeaseGrant, LeaseId, Txn, TxnOutcome, Write};
use evenkeel_core::store::Store;
use evenkeel_core::time::{Millis, Mono};

use super::choices::ModelAction;
use super::flaw::ProtocolFlaw;
use super::ledger::{FireLedger, LedgerViolation, plans};
use super::scope::ModelScope;
use super::sharding::{ModelCommit, ShardedEntries};
use super::state::{
    ModelChild, ModelNode, ModelRequest, ModelState, NodeTrouble, PendingLaunch, TTL, USABLE, clock,
    run_state_of,
};

impl ModelState {
    /// Applies an action. The log, if there is one, gets a line for each event.
    pub(super) fn apply(
        &mut self,
        scope: &ModelScope,
        act: ModelAction,
        log: &mut Option<String>,
    ) -> Result<(), LedgerViolation> {
        note(log, || format!("\n{:>6}  {}", format!("{}ms", self.now), self.describe_action(act)));
        match act {
            ModelAction::Serve(n, i) => {
                let request = self.side(n).requests.remove(i as usize);
                let reply = self.serve(scope, n, &request, log)?;
                let at_once = |reply: &Input| !scope.split || matches!(reply, Input::Lease(_));
                match reply {
                    Some(reply) if at_once(&reply) && !self.side(n).is_frozen() => {
                        self.take(scope, n, reply, log)
                    }
                    reply => self.side(n).inbox.extend(reply),
                }
            }
            ModelAction::Take(n, i) => {
                let input = self.side(n).inbox.remove(i as usize);
                self.take(scope, n, input, log);
            }
            ModelAction::TakeSlow(n) => {
                let slow = self.side(n).slow.take();
                slow.into_iter().for_each(|input| self.take(scope, n, input, log));
            }
            ModelAction::Hear(n) => {
                let heard = self.sides[n as usize].get().heard.unwrap_or_default();
                let news = self.store.get().changes_after(heard);
                self.side(n).heard = Some(self.store.get().revision());
                let _ = self.step(scope, n, news.map_or(Input::Gap, Input::Changed), log);
                self.prune_feed();
            }
            ModelAction::Ring(n) => drop(self.step(scope, n, Input::Tick, log)),
            ModelAction::Launch(n) => self.launch(scope, n, log)?,
            ModelAction::End(n, i) => self.end(scope, n, i, log),
            ModelAction::Land(i) => {
                let late = self.late.remove(i as usize);
                let outcome = self.commit(scope, late.side, &late.txn, late.kind, late.trust)?;
                note(log, || format!(" -> {}", brief(&outcome)));
            }
            ModelAction::Remove(n) => {
                let now = Mono(self.now);
                let removal = self.side(n).removes.take().map(|entry| entry.removal());
                removal.iter().for_each(|txn| drop(self.store.edit().commit(now, txn)));
            }
            ModelAction::Wait => self.wait(scope, log),
            ModelAction::Ask(n, item) => {
                self.commands -= 1;
                let _ = self.step(scope, n, Input::Asked(CommandId(1), item.command()), log);
            }
            ModelAction::Strike(n, mishap) => self.strike(scope, n, mishap, log)?,
            ModelAction::Mend(n) => self.mend(scope, n),
            ModelAction::MendWithLoss(n) => self.mend_with_loss(scope, n),
        }
        Ok(())
    }

    pub(super) fn side(&mut self, n: u8) -> &mut ModelNode {
        self.sides[n as usize].edit()
    }

    /// Gives an input to the node, and sends its effects.
    fn step(&mut self, scope: &ModelScope, n: u8, input: Input, log: &mut Option<String>) -> Option<Answer> {
        let now = self.now;
        let side = self.sides[n as usize].edit();
        let node = side.node.as_mut()?;
        let mut effects = Vec::new();
        side.wake = node.step(clock(now), input, &mut effects).map(|wake| wake.at.0);
        let until = node.trusted_until(Mono(now)).map(|until| until.0);
        let (member, departed) = (node.member(), node.local().availability().has_departed());
        // Without trust the guard ends everything at once.
        side.guard = until.unwrap_or(side.guard.min(now));
        side.life = member.as_ref().map_or(side.life, |m| Some(m.incarnation));
        let mut answer = None;
        for effect in effects {
            note(log, || format!("\n          {effect}"));
            // A second end has no effect, whenever it arrives.
            let over = matches!(&effect, Effect::Close(lease) if !self.store.get().is_open(*lease));
            if let Effect::Answer(_, said) = effect {
                answer = Some(said);
            } else if !over {
                side.send(now, effect, member.as_ref(), until.unwrap_or(now));
            }
        }
        self.guard(scope, n);
        if departed && self.side(n).requests.is_empty() {
            self.end_process(scope, n);
            self.side(n).trouble = Some(NodeTrouble::Gone);
        }
        answer
    }

    /// The guard process stops the children once trust is over; soon after that they are killed.
    fn guard(&mut self, scope: &ModelScope, n: u8) {
        let side = self.sides[n as usize].get();
        if side.guard > self.now
            || side.running.is_empty()
            || scope.flaw == Some(ProtocolFlaw::NoGuardProcess)
        {
            return;
        }
        let killed = side.guard + TTL - USABLE;
        let untold = self.side(n).running.iter_mut().filter(|c| c.ending.is_none());
        untold.for_each(|child| child.ending = Some((StopReason::Fenced, killed)));
    }

    fn take(&mut self, scope: &ModelScope, n: u8, input: Input, log: &mut Option<String>) {
        if let Input::Listed(Some(batch)) = &input {
            // The feed begins where the first listing ended; later listings do not disturb it.
            let heard = self.side(n).heard.unwrap_or(batch.revision);
            self.side(n).heard = Some(heard);
        }
        let _ = self.step(scope, n, input, log);
        self.prune_feed();
    }

    /// Prunes the feed once every listener has all of it, so that states differ only in what is to come.
    pub(super) fn prune_feed(&mut self) {
        let listeners = self.sides.iter().filter(|s| s.get().heard.is_some());
        let (mut any, mut all) = (false, true);
        listeners.for_each(|s| (any, all) = (true, all && !s.get().is_behind(self.store.get())));
        if any && all && self.store.get().changes_after(Default::default()).is_some() {
            self.store.edit().compact();
        }
    }

    pub(super) fn serve(
        &mut self,
        scope: &ModelScope,
        n: u8,
        request: &ModelRequest,
        log: &mut Option<String>,
    ) -> Result<Option<Input>, LedgerViolation> {
        let now = Mono(self.now);
        Ok(Some(match request {
            ModelRequest::Open(asked) => {
                let lease = self.store.edit().open(now, Millis(TTL));
                self.side(n).lease = Some(lease);
                let granted = self.granted(ProtocolFlaw::shown(scope.flaw, n as usize, lease));
                Input::Lease(LeaseEvent::Opened { asked: *asked, granted })
            }
            ModelRequest::Renew(asked, lease) => {
                let real = self.real(scope, n, *lease);
                if self.store.edit().renew(now, real) {
                    Input::Lease(LeaseEvent::Renewed { asked: *asked, granted: self.granted(*lease) })
                } else {
                    note(log, || " -> gone".into());
                    Input::Lease(LeaseEvent::Gone(*lease))
                }
            }
            ModelRequest::Close(lease) => {
                let real = self.real(scope, n, *lease);
                self.store.edit().close(real);
                return Ok(None);
            }
            ModelRequest::List => Input::Listed(Some(self.store.get().list())),
            ModelRequest::Read(keys) => Input::Read(Some(self.store.get().read(keys))),
            ModelRequest::Offer { to, runs } => self.offer(scope, n, to, runs, log),
            ModelRequest::Commit { ticket, txn, kind, trust } => {
                let outcome = self.commit(scope, n, txn, *kind, *trust)?;
                note(log, || format!(" -> {}", brief(&outcome)));
                Input::Committed { ticket: *ticket, outcome }
            }
        }))
    }

    /// Delivers an offer to the other node, if that has the addressed incarnation, and returns its answer.
    fn offer(
        &mut self,
        scope: &ModelScope,
        n: u8,
        to: &Member,
        runs: &[Offer],
        log: &mut Option<String>,
    ) -> Input {
        let other = self.sides[1 - n as usize].get();
        let reached =
            !other.is_frozen() && other.node.as_ref().is_some_and(|node| node.member().as_ref() == Some(to));
        let answer = match reached {
            true => self.step(scope, 1 - n, Input::Asked(CommandId(2), Command::Offer(runs.to_vec())), log),
            false => None,
        };
        let answer = match answer {
            Some(Answer::Busy(busy)) => OfferAnswer::Taken { busy },
            _ => OfferAnswer::Unreachable,
        };
        Input::Offered { to: to.clone(), runs: runs.iter().map(|offer| offer.run.clone()).collect(), answer }
    }

    fn granted(&self, lease: LeaseId) -> LeaseGrant {
        let next_end = self.store.get().next_end().map(|end| end - Mono(self.now));
        LeaseGrant { lease, ttl: Millis(TTL), clock: Some(self.clock().wall), next_end }
    }

    /// The registry's number of a lease that its node may know under another.
    fn real(&self, scope: &ModelScope, n: u8, shown: LeaseId) -> LeaseId {
        match scope.flaw {
            Some(ProtocolFlaw::IncarnationReused) => self.sides[n as usize].get().lease.unwrap_or(shown),
            _ => shown,
        }
    }

    fn commit(
        &mut self,
        scope: &ModelScope,
        n: u8,
        txn: &Txn,
        kind: CommitKind,
        trust: i64,
    ) -> Result<TxnOutcome, LedgerViolation> {
        let mut txn = txn.clone();
        if let Some(flaw) = scope.flaw {
            flaw.mutate(kind, &mut txn);
            for lease in txn
                .guards
                .iter_mut()
                .filter_map(|g| if let Guard::Open(lease) = g { Some(lease) } else { None })
            {
                *lease = self.real(scope, n, *lease);
            }
            for write in &mut txn.writes {
                if let Write::Put { owner: Some(lease), .. } = write {
                    *lease = self.real(scope, n, *lease);
                }
            }
        }
        let before = self.store.clone();
        let outcome = self.store.edit().commit(Mono(self.now), &txn);
        if matches!(outcome, TxnOutcome::Applied(_)) {
            self.judge_commit(scope, before.get(), &txn, clock(trust).wall.0)?;
        }
        Ok(outcome)
    }

    /// The ledger's check of an applied commit.
    fn judge_commit(
        &mut self,
        scope: &ModelScope,
        before: &Store,
        txn: &Txn,
        trust: i64,
    ) -> Result<(), LedgerViolation> {
        let born = txn.guards.iter().find_map(|g| match g {
            Guard::Born(key, _) => keys::parse(key),
            _ => None,
        });
        let Some(keys::ParsedKey::Node(by)) = born else { return Ok(()) };
        if scope.shards.is_some() {
            let [before, after] = [before, self.store.get()].map(ShardedEntries::of);
            let turn = ModelCommit { before: &before, after: &after, by: &by, trust };
            return turn.judge(self.ledgers.edit());
        }
        if scope.dispatched {
            plans::judge_beat(before, self.store.get())?;
            let (old, new) = (plans::plan(before), plans::plan(self.store.get()));
            let Some(new) = new.filter(|new| old.as_ref() != Some(new)) else { return Ok(()) };
            let planner = plans::beat(before).is_some_and(|record| record.holder == by);
            let gone = |member: &Member| !plans::present(before, member);
            return self.ledgers.edit()[0].plan(old.as_ref(), &new, &by, (trust, planner), gone);
        }
        let (before, after) = (run_state_of(before), self.run_state());
        match after.filter(|after| before.as_ref() != Some(after)) {
            Some(new) => self.ledgers.edit()[0].check_run_state(before.as_ref(), &new, &by, trust),
            None => Ok(()),
        }
    }

    /// The ledger of a run's shard.
    pub(super) fn ledger(&mut self, run: &Run) -> &mut FireLedger {
        &mut self.ledgers.edit()[run.id.shard.0 as usize]
    }

    /// The last moment before a child exists: only the executor's own check of the clock comes in between.
    fn launch(&mut self, scope: &ModelScope, n: u8, log: &mut Option<String>) -> Result<(), LedgerViolation> {
        let now = self.now;
        let PendingLaunch { run, by } = self.side(n).launching.remove(0);
        let told = |event| Input::Run { id: run.id.clone(), attempt: run.attempt, event };
        if now >= run.not_after.0 && scope.flaw != Some(ProtocolFlaw::NotAfterIgnored) {
            note(log, || " -> too late".into());
            let input = told(RunEvent::NotStarted);
            self.side(n).inbox.push(input);
            return Ok(());
        }
        let others = self.children().filter(|child| child.run.id.shard == run.id.shard).count();
        let covered = self.covers(scope, &run, &by);
        self.ledger(&run).start(run.due.0, run.attempt, run.token, covered, others)?;
        if scope.flaw == Some(ProtocolFlaw::GivenForgotten) {
            let input = told(RunEvent::NotStarted);
            self.side(n).inbox.push(input);
        }
        self.side(n).running.push(ModelChild { run, ending: None });
        self.side(n).running.sort_by_key(|child| child.run.id.shard);
        Ok(())
    }

    /// Whether the registry has this run open, for a member that is present.
    fn covers(&self, scope: &ModelScope, run: &Run, by: &Member) -> bool {
        if scope.shards.is_some() {
            let shares = ShardedEntries::of(self.store.get());
            return shares.covers(by, run.id.shard, run.due, run.attempt);
        }
        if scope.dispatched {
            let plan = plans::plan(self.store.get()).unwrap_or_default();
            let ours = |planned: &Attempt| {
                planned.is_claimed()
                    && planned.by == *by
                    && planned.due == run.due
                    && planned.attempt == run.attempt
            };
            return plan.runs.iter().any(ours) && plans::present(self.store.get(), by);
        }
        let open = self.run_state().is_some_and(|run_state| {
            run_state.open.iter().any(|o| o.by == *by && o.due == run.due && o.attempt == run.attempt)
        });
        open && self.store.get().read(&[keys::node(by)]).iter().any(|change| change.entry.is_some())
    }

    fn end(&mut self, scope: &ModelScope, n: u8, i: u8, log: &mut Option<String>) {
        let child = self.side(n).running.remove(i as usize);
        // A stopped child may still end by itself first.
        let how = child.ending.map_or(RunOutcome::Succeeded, |(reason, _)| RunOutcome::Stopped(reason));
        note(log, || format!(" -> {how:?}"));
        self.ledger(&child.run).end(child.run.due.0, child.run.attempt, how == RunOutcome::Succeeded);
        let event = RunEvent::Ended(how);
        let input = Input::Run { id: child.run.id, attempt: child.run.attempt, event };
        match self.side(n) {
            side if side.is_frozen() => side.inbox.push(input),
            _ => drop(self.step(scope, n, input, log)),
        }
    }

    fn wait(&mut self, scope: &ModelScope, log: &mut Option<String>) {
        let next = self.next_moment();
        self.now = next;
        note(log, || format!(" until {next}ms"));
        self.store.edit().sweep(Mono(next));
        (0..2).for_each(|n| self.guard(scope, n));
    }
}

impl ModelNode {
    /// Sends an effect.
    fn send(&mut self, now: i64, effect: Effect, member: Option<&Member>, trust: i64) {
        let asked = Mono(now);
        match effect {
            Effect::Open { .. } => self.requests.push(ModelRequest::Open(asked)),
            Effect::Renew(lease) => self.requests.push(ModelRequest::Renew(asked, lease)),
            Effect::Close(lease) => self.requests.push(ModelRequest::Close(lease)),
            Effect::List => self.requests.push(ModelRequest::List),
            Effect::Read(keys) => self.requests.push(ModelRequest::Read(keys)),
            Effect::Commit { ticket, kind, txn } => {
                self.requests.push(ModelRequest::Commit { ticket, txn, kind, trust })
            }
            Effect::Start(run) => {
                self.launching.extend(member.cloned().map(|by| PendingLaunch { run, by }));
            }
            Effect::Stop(run, reason) => {
                for child in self.running.iter_mut().filter(|c| c.run.id == run && c.ending.is_none()) {
                    child.ending = Some((reason, now + TTL - USABLE));
                }
                if let Some(at) = self.launching.iter().position(|l| l.run.id == run) {
                    let PendingLaunch { run, .. } = self.launching.remove(at);
                    let event = RunEvent::Ended(RunOutcome::Stopped(reason));
                    self.inbox.push(Input::Run { id: run.id, attempt: run.attempt, event });
                }
            }
            // No node probes in the model.
            Effect::Probe { to, .. } => {
                self.inbox.push(Input::Probed { member: to, asked, answer: None });
            }
            Effect::Offer { to, runs, .. } => self.requests.push(ModelRequest::Offer { to, runs }),
            Effect::Record(v) => self.inbox.push(Input::Recorded { run: v.run, attempt: v.attempt }),
            Effect::Announce(_) | Effect::Answer(..) => {}
        }
    }
}

fn brief(outcome: &TxnOutcome) -> String {
    match outcome {
        TxnOutcome::Applied(revision) => format!("applied at {revision}"),
        TxnOutcome::Refused(_) => "refused".into(),
        TxnOutcome::Unknown => "unknown".into(),
    }
}

fn note(log: &mut Option<String>, text: impl FnOnce() -> String) {
    if let Some(log) = log {
        // Writing to a text cannot fail.
        let _ = log.write_str(&text());
    }
}
