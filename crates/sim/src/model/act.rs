//! What can happen in a state, and what it does.

use std::fmt::Write as _;

use evenkeel_core::effect::{Effect, Reason};
use evenkeel_core::input::{Ended, Input, LeaseEvent, RunEvent};
use evenkeel_core::keys;
use evenkeel_core::registry::{Granted, Guard, LeaseId, Outcome, Txn, Write};
use evenkeel_core::time::{Millis, Mono};
use evenkeel_core::words::Member;

use super::Scope;
use super::flaw::Flaw;
use super::ledger::Broken;
use super::state::{Child, Late, Launch, Request, Side, State, TTL, Trouble, USABLE, clock, lane};

/// One thing that happens. Sides are 0 and 1; the other number is a place in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// The registry takes a request and answers.
    Serve(u8, u8),
    /// The node takes an answer, or word from its executor.
    Take(u8, u8),
    /// The node takes the answer that was overtaken.
    TakeSlow(u8),
    /// The node hears all news up to now.
    Hear(u8),
    /// The node's timer rings.
    Ring(u8),
    /// The executor makes a child process, or refuses.
    Launch(u8),
    /// A child ends: by itself, or because it was told to.
    End(u8),
    /// A commit that its sender gave up arrives after all.
    Land(u8),
    /// Time goes on to the next moment at which something must happen.
    Wait,
    /// A fault.
    Fault(Fault, u8, u8),
    /// A trouble ends; what a cut held up goes on.
    Mend(u8),
    /// A cut ends, and the requests it held up are lost.
    MendWithLoss(u8),
}

/// What may go wrong, once for each unit of the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// A request does not arrive; its sender learns that it had no answer.
    RequestLost,
    /// It is carried out and the answer does not arrive.
    ReplyLost,
    /// It is carried out and the answer comes late, overtaken by anything.
    ReplySlow,
    /// Its sender stops waiting; it arrives later, or never.
    RequestLate,
    /// A piece of the feed is never heard.
    NewsLost,
    /// The process stops for a while.
    Freeze,
    /// The network to the registry is down for a while.
    Cut,
    /// The process dies.
    Crash,
}

/// What a state has in store.
pub(super) enum Outlook {
    /// These may happen.
    Acts(Vec<Act>),
    /// Nothing is left to happen.
    Over,
}

impl State {
    /// Everything that can happen now.
    ///
    /// Messages, timers and executors are quick: time waits for them unless a fault holds them up. What a fault holds up,
    /// and how long a run takes, is open.
    pub(super) fn outlook(&self, scope: &Scope) -> Outlook {
        let mut acts = Vec::new();
        for side in 0..2 {
            self.prompt(side, &mut acts);
        }
        let quiet = acts.is_empty();
        let healed = self.now >= scope.heal;
        let running = self.running() > 0;
        for (n, side) in (0_u8..).zip(&self.sides) {
            let side = side.get();
            if !side.running.is_empty() {
                acts.push(Act::End(n));
            }
            match side.trouble {
                Some(Trouble::Frozen(since) | Trouble::Cut(since)) if quiet && since < self.now => {
                    acts.push(Act::Mend(n));
                    if side.cut() && !side.requests.is_empty() {
                        acts.push(Act::MendWithLoss(n));
                    }
                }
                Some(Trouble::Down) if quiet => acts.push(Act::Mend(n)),
                _ => {}
            }
        }
        for (n, side) in (0_u8..).zip(&self.sides) {
            let side = side.get();
            if side.slow.is_some() && side.node.is_some() && !side.frozen() && !side.cut() {
                acts.push(Act::TakeSlow(n));
            }
        }
        acts.extend((0..self.late.len() as u8).map(Act::Land));
        if self.faults > 0 && !healed {
            (0..2).for_each(|side| self.mishaps(side, &mut acts));
        }
        let troubled = self.sides.iter().any(|side| side.get().trouble.is_some());
        let slow = self.sides.iter().any(|side| side.get().slow.is_some());
        if quiet && !troubled && !running && !slow && self.settled() && (self.late.is_empty() || self.now >= scope.end) {
            return Outlook::Over;
        }
        if quiet && !(healed && (troubled || running || slow)) && self.now < scope.end && self.may_wait() {
            acts.push(Act::Wait);
        }
        if acts.is_empty() { Outlook::Over } else { Outlook::Acts(acts) }
    }

    /// What happens next while the nodes join in the calmest way; `None` when both have.
    pub(super) fn calm(&self) -> Option<Act> {
        let mut acts = Vec::new();
        (0..2).for_each(|side| self.prompt(side, &mut acts));
        let listening = self.sides.iter().all(|side| side.get().heard.is_some());
        acts.first().copied().or((!listening).then_some(Act::Wait))
    }

    fn settled(&self) -> bool {
        self.ledger.get().settled() && self.lane().is_none_or(|l| l.open.is_none() && l.verdicts.is_empty())
    }

    /// What must happen before time goes on.
    fn prompt(&self, n: u8, acts: &mut Vec<Act>) {
        let side = self.sides[n as usize].get();
        let cut = side.cut();
        if !cut {
            acts.extend((0..side.requests.len() as u8).map(|i| Act::Serve(n, i)));
        }
        if side.node.is_none() || side.frozen() {
            return;
        }
        let held_up = |input: &Input| cut && Side::is_remote(input);
        let inbox = (0_u8..).zip(&side.inbox).filter(|(_, input)| !held_up(input));
        acts.extend(inbox.map(|(i, _)| Act::Take(n, i)));
        if !cut && side.behind(self.store.get()) {
            acts.push(Act::Hear(n));
        }
        if side.wake.is_some_and(|at| at <= self.now) {
            acts.push(Act::Ring(n));
        }
        if !side.launching.is_empty() {
            acts.push(Act::Launch(n));
        }
    }

    fn mishaps(&self, n: u8, acts: &mut Vec<Act>) {
        let side = self.sides[n as usize].get();
        if side.trouble.is_some() {
            return;
        }
        for (i, request) in (0_u8..).zip(&side.requests) {
            if matches!(request, Request::Close(_)) {
                continue;
            }
            acts.push(Act::Fault(Fault::RequestLost, n, i));
            acts.push(Act::Fault(Fault::ReplySlow, n, i));
            if !matches!(request, Request::List | Request::Read(_)) {
                acts.push(Act::Fault(Fault::ReplyLost, n, i));
            }
            if matches!(request, Request::Commit { .. }) {
                acts.push(Act::Fault(Fault::RequestLate, n, i));
            }
        }
        if side.behind(self.store.get()) {
            acts.push(Act::Fault(Fault::NewsLost, n, 0));
        }
        acts.extend([Fault::Freeze, Fault::Cut, Fault::Crash].map(|fault| Act::Fault(fault, n, 0)));
    }

    /// The next moment at which something must happen.
    fn next_moment(&self) -> i64 {
        let sides = self.sides.iter().map(super::print::Part::get);
        let wakes = sides.clone().filter(|s| s.node.is_some() && !s.frozen()).filter_map(|s| s.wake);
        let guards = sides.filter(|s| s.running.iter().any(|c| c.ending.is_none())).map(|s| s.guard);
        let lease = self.store.get().next_end().map(|end| end.0);
        wakes.chain(guards).chain(lease).filter(|at| *at > self.now).min().unwrap_or(i64::MAX)
    }

    /// A child that must be dead by then keeps time from going on.
    fn may_wait(&self) -> bool {
        let next = self.next_moment();
        let children = self.sides.iter().flat_map(|side| &side.get().running);
        next < i64::MAX && children.filter_map(|c| c.ending).all(|(_, killed)| next < killed)
    }

    /// Does it. The log, where there is one, gets a line for each thing that happens.
    pub(super) fn apply(&mut self, scope: &Scope, act: Act, log: &mut Option<String>) -> Result<(), Broken> {
        note(log, || format!("\n{:>6}  {}", format!("{}ms", self.now), self.tell(act)));
        match act {
            Act::Serve(n, i) => {
                let request = self.side(n).requests.remove(i as usize);
                let reply = self.serve(scope, n, &request, log)?;
                let at_once = |reply: &Input| !scope.split || matches!(reply, Input::Lease(_));
                match reply {
                    Some(reply) if at_once(&reply) && !self.side(n).frozen() => self.take(scope, n, reply, log),
                    reply => self.side(n).inbox.extend(reply),
                }
            }
            Act::Take(n, i) => {
                let input = self.side(n).inbox.remove(i as usize);
                self.take(scope, n, input, log);
            }
            Act::TakeSlow(n) => {
                let slow = self.side(n).slow.take();
                slow.into_iter().for_each(|input| self.take(scope, n, input, log));
            }
            Act::Hear(n) => {
                let heard = self.sides[n as usize].get().heard.unwrap_or_default();
                let news = self.store.get().changes_after(heard);
                self.side(n).heard = Some(self.store.get().revision());
                self.step(scope, n, news.map_or(Input::Gap, Input::Changed), log);
                self.forget_heard();
            }
            Act::Ring(n) => self.step(scope, n, Input::Tick, log),
            Act::Launch(n) => self.launch(scope, n, log)?,
            Act::End(n) => self.end(scope, n, log),
            Act::Land(i) => {
                let late = self.late.remove(i as usize);
                let outcome = self.commit(scope, late.side, &late.txn, late.why, late.trust)?;
                note(log, || format!(" -> {}", brief(&outcome)));
            }
            Act::Wait => self.wait(scope, log),
            Act::Fault(fault, n, i) => self.fault(scope, fault, n, i, log)?,
            Act::Mend(n) => self.mend(scope, n),
            Act::MendWithLoss(n) => {
                let lost = core::mem::take(&mut self.side(n).requests);
                let replies: Vec<Input> = lost.iter().filter_map(failure).collect();
                self.side(n).inbox.extend(replies);
                self.mend(scope, n);
            }
        }
        Ok(())
    }

    pub(super) fn side(&mut self, n: u8) -> &mut Side {
        self.sides[n as usize].edit()
    }

    /// The node takes an input, and its effects set out.
    fn step(&mut self, scope: &Scope, n: u8, input: Input, log: &mut Option<String>) {
        let now = self.now;
        let side = self.sides[n as usize].edit();
        let Some(node) = side.node.as_mut() else { return };
        let mut effects = Vec::new();
        side.wake = node.step(clock(now), input, &mut effects).map(|wake| wake.at.0);
        let until = node.trusted_until(Mono(now)).map(|until| until.0);
        // Without trust the guard ends everything at once.
        side.guard = until.unwrap_or(side.guard.min(now));
        let member = node.member();
        side.life = member.as_ref().map_or(side.life, |m| Some(m.incarnation));
        for effect in effects {
            note(log, || format!("\n          {effect}"));
            // Ending what has ended is no change, whenever it arrives.
            let over = matches!(&effect, Effect::Close(lease) if !self.store.get().is_open(*lease));
            if !over {
                side.send(now, effect, member.as_ref(), until.unwrap_or(now));
            }
        }
        let ending = side.running.iter_mut().filter(|_| scope.flaw != Some(Flaw::NoGuardProcess));
        if side.guard <= now {
            ending.filter(|c| c.ending.is_none()).for_each(|c| c.ending = Some((Reason::Fenced, now + TTL - USABLE)));
        }
    }

    fn take(&mut self, scope: &Scope, n: u8, input: Input, log: &mut Option<String>) {
        if let Input::Listed(Some(batch)) = &input {
            // The feed begins where the first listing ended; later listings do not disturb it.
            let heard = self.side(n).heard.unwrap_or(batch.revision);
            self.side(n).heard = Some(heard);
        }
        self.step(scope, n, input, log);
        self.forget_heard();
    }

    /// The feed's memory goes once every listener has heard all of it, so that states differ only in what is to come.
    fn forget_heard(&mut self) {
        let listeners = self.sides.iter().filter(|s| s.get().heard.is_some());
        let (mut any, mut all) = (false, true);
        listeners.for_each(|s| (any, all) = (true, all && !s.get().behind(self.store.get())));
        if any && all && self.store.get().changes_after(Default::default()).is_some() {
            self.store.edit().compact();
        }
    }

    fn serve(&mut self, scope: &Scope, n: u8, request: &Request, log: &mut Option<String>) -> Result<Option<Input>, Broken> {
        let now = Mono(self.now);
        Ok(Some(match request {
            Request::Open(asked) => {
                let lease = self.store.edit().open(now, Millis(TTL));
                self.side(n).lease = Some(lease);
                let granted = self.granted(Flaw::shown(scope.flaw, n as usize, lease));
                Input::Lease(LeaseEvent::Opened { asked: *asked, granted })
            }
            Request::Renew(asked, lease) => {
                let real = self.real(scope, n, *lease);
                if self.store.edit().renew(now, real) {
                    Input::Lease(LeaseEvent::Renewed { asked: *asked, granted: self.granted(*lease) })
                } else {
                    note(log, || " -> gone".into());
                    Input::Lease(LeaseEvent::Gone(*lease))
                }
            }
            Request::Close(lease) => {
                let real = self.real(scope, n, *lease);
                self.store.edit().close(real);
                return Ok(None);
            }
            Request::List => Input::Listed(Some(self.store.get().list())),
            Request::Read(keys) => Input::Read(Some(self.store.get().read(keys))),
            Request::Commit { ticket, txn, why, trust } => {
                let outcome = self.commit(scope, n, txn, why, *trust)?;
                note(log, || format!(" -> {}", brief(&outcome)));
                Input::Committed { ticket: *ticket, outcome }
            }
        }))
    }

    fn granted(&self, lease: LeaseId) -> Granted {
        let next_end = self.store.get().next_end().map(|end| end - Mono(self.now));
        Granted { lease, ttl: Millis(TTL), clock: Some(self.clock().wall), next_end }
    }

    /// The registry's number of a lease that its node may know under another.
    fn real(&self, scope: &Scope, n: u8, shown: LeaseId) -> LeaseId {
        match scope.flaw {
            Some(Flaw::IncarnationReused) => self.sides[n as usize].get().lease.unwrap_or(shown),
            _ => shown,
        }
    }

    fn commit(&mut self, scope: &Scope, n: u8, txn: &Txn, why: &str, trust: i64) -> Result<Outcome, Broken> {
        let mut txn = txn.clone();
        if let Some(flaw) = scope.flaw {
            flaw.tamper(why, &mut txn);
            for lease in txn.guards.iter_mut().filter_map(|g| if let Guard::Open(lease) = g { Some(lease) } else { None }) {
                *lease = self.real(scope, n, *lease);
            }
            for write in &mut txn.writes {
                if let Write::Put { owner: Some(lease), .. } = write {
                    *lease = self.real(scope, n, *lease);
                }
            }
        }
        let before = lane(self.store.get());
        let outcome = self.store.edit().commit(Mono(self.now), &txn);
        let after = lane(self.store.get());
        if before != after
            && let Some(new) = after
        {
            let born = txn.guards.iter().find_map(|g| match g {
                Guard::Born(key, _) => keys::parse(key),
                _ => None,
            });
            if let Some(keys::Parsed::Node(by)) = born {
                self.ledger.edit().lane(before.as_ref(), &new, &by, clock(trust).wall.0)?;
            }
        }
        Ok(outcome)
    }

    /// The last moment before a child exists: nothing but the executor's own look at the clock stands in between.
    fn launch(&mut self, scope: &Scope, n: u8, log: &mut Option<String>) -> Result<(), Broken> {
        let now = self.now;
        let Launch { run, by } = self.side(n).launching.remove(0);
        let told = |event| Input::Run { id: run.id.clone(), attempt: run.attempt, event };
        if now >= run.not_after.0 && scope.flaw != Some(Flaw::NotAfterIgnored) {
            note(log, || " -> too late".into());
            let input = told(RunEvent::NotStarted);
            self.side(n).inbox.push(input);
            return Ok(());
        }
        let others = self.running();
        let open = self.lane().and_then(|lane| lane.open);
        let open = open.is_some_and(|o| o.by == by && o.due == run.due && o.attempt == run.attempt);
        let present = self.store.get().read(&[keys::node(&by)]).iter().any(|change| change.entry.is_some());
        self.ledger.edit().start(run.due.0, run.attempt, run.token, open && present, others)?;
        if scope.flaw == Some(Flaw::GivenForgotten) {
            let input = told(RunEvent::NotStarted);
            self.side(n).inbox.push(input);
        }
        self.side(n).running.push(Child { run, ending: None });
        Ok(())
    }

    fn end(&mut self, scope: &Scope, n: u8, log: &mut Option<String>) {
        let child = self.side(n).running.remove(0);
        // A child that was told to end may still end by itself first.
        let how = child.ending.map_or(Ended::Succeeded, |(reason, _)| Ended::Stopped(reason));
        note(log, || format!(" -> {how:?}"));
        self.ledger.edit().end(child.run.due.0, child.run.attempt, how == Ended::Succeeded);
        let event = RunEvent::Ended(how);
        let input = Input::Run { id: child.run.id, attempt: child.run.attempt, event };
        match self.side(n) {
            side if side.frozen() => side.inbox.push(input),
            _ => self.step(scope, n, input, log),
        }
    }

    fn wait(&mut self, scope: &Scope, log: &mut Option<String>) {
        let next = self.next_moment();
        self.now = next;
        note(log, || format!(" until {next}ms"));
        self.store.edit().sweep(Mono(next));
        for n in 0..2 {
            let side = self.sides[n as usize].get();
            if scope.flaw != Some(Flaw::NoGuardProcess) && side.guard <= next && !side.running.is_empty() {
                let killed = side.guard + TTL - USABLE;
                let untold = self.side(n).running.iter_mut().filter(|c| c.ending.is_none());
                untold.for_each(|c| c.ending = Some((Reason::Fenced, killed)));
            }
        }
    }

    fn fault(&mut self, scope: &Scope, fault: Fault, n: u8, i: u8, log: &mut Option<String>) -> Result<(), Broken> {
        self.faults -= 1;
        let now = self.now;
        match fault {
            Fault::ReplySlow => {
                let request = self.side(n).requests.remove(i as usize);
                let reply = self.serve(scope, n, &request, log)?;
                self.side(n).slow = reply;
            }
            Fault::RequestLost | Fault::RequestLate | Fault::ReplyLost => {
                let request = self.side(n).requests.remove(i as usize);
                match (&request, fault) {
                    (Request::Commit { txn, why, trust, .. }, Fault::RequestLate) => {
                        self.late.push(Late { side: n, txn: txn.clone(), why, trust: *trust });
                    }
                    (_, Fault::ReplyLost) => drop(self.serve(scope, n, &request, log)?),
                    _ => {}
                }
                self.side(n).inbox.extend(failure(&request));
            }
            Fault::NewsLost => {
                self.side(n).heard = Some(self.store.get().revision());
                self.forget_heard();
            }
            Fault::Freeze => self.side(n).trouble = Some(Trouble::Frozen(now)),
            Fault::Cut => self.side(n).trouble = Some(Trouble::Cut(now)),
            Fault::Crash => self.crash(scope, n),
        }
        Ok(())
    }

    /// The process dies. Its commits may still arrive; its guard ends its children.
    fn crash(&mut self, scope: &Scope, n: u8) {
        let side = self.side(n);
        side.node = None;
        side.trouble = Some(Trouble::Down);
        side.inbox.clear();
        side.slow = None;
        side.launching.clear();
        side.wake = None;
        side.heard = None;
        let requests = core::mem::take(&mut side.requests);
        let children = if scope.flaw == Some(Flaw::NoGuardProcess) { Vec::new() } else { core::mem::take(&mut side.running) };
        for request in requests {
            if let Request::Commit { txn, why, trust, .. } = request {
                self.late.push(Late { side: n, txn, why, trust });
            }
        }
        for child in children {
            self.ledger.edit().end(child.run.due.0, child.run.attempt, false);
        }
        self.forget_heard();
    }

    fn mend(&mut self, scope: &Scope, n: u8) {
        let now = self.now;
        let side = self.side(n);
        if side.node.is_none() {
            let children = core::mem::take(&mut side.running);
            *side = Side { running: children, ..Side::new(scope, n as usize, side.life, now) };
        }
        side.trouble = None;
    }
}

impl Side {
    /// An effect sets out.
    fn send(&mut self, now: i64, effect: Effect, member: Option<&Member>, trust: i64) {
        let asked = Mono(now);
        match effect {
            Effect::Open { .. } => self.requests.push(Request::Open(asked)),
            Effect::Renew(lease) => self.requests.push(Request::Renew(asked, lease)),
            Effect::Close(lease) => self.requests.push(Request::Close(lease)),
            Effect::List => self.requests.push(Request::List),
            Effect::Read(keys) => self.requests.push(Request::Read(keys)),
            Effect::Commit { ticket, why, txn } => self.requests.push(Request::Commit { ticket, txn, why, trust }),
            Effect::Start(run) => {
                self.launching.extend(member.cloned().map(|by| Launch { run, by }));
            }
            Effect::Stop(run, reason) => {
                for child in self.running.iter_mut().filter(|c| c.run.id == run && c.ending.is_none()) {
                    child.ending = Some((reason, now + TTL - USABLE));
                }
                if let Some(at) = self.launching.iter().position(|l| l.run.id == run) {
                    let Launch { run, .. } = self.launching.remove(at);
                    let event = RunEvent::Ended(Ended::Stopped(reason));
                    self.inbox.push(Input::Run { id: run.id, attempt: run.attempt, event });
                }
            }
            Effect::Record(v) => self.inbox.push(Input::Recorded { run: v.run, attempt: v.attempt }),
            Effect::Announce(_) | Effect::Answer(..) => {}
        }
    }
}

/// What a sender learns when no answer comes.
fn failure(request: &Request) -> Option<Input> {
    Some(match request {
        Request::Open(_) | Request::Renew(..) => Input::Lease(LeaseEvent::Failed),
        Request::Close(_) => return None,
        Request::List => Input::Listed(None),
        Request::Read(_) => Input::Read(None),
        Request::Commit { ticket, .. } => Input::Committed { ticket: *ticket, outcome: Outcome::Unknown },
    })
}

fn brief(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Applied(revision) => format!("applied at {revision}"),
        Outcome::Refused(_) => "refused".into(),
        Outcome::Unknown => "unknown".into(),
    }
}

fn note(log: &mut Option<String>, text: impl FnOnce() -> String) {
    if let Some(log) = log {
        // Writing to a text cannot fail.
        let _ = log.write_str(&text());
    }
}
