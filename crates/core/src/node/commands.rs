//! Commands: each becomes command items, which the rules turn into transactions.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Display;

use super::absorb::landed;
use super::{EarliestWake, Node};
use crate::cluster::control::rights;
use crate::effect::{Effect, Event, StopReason, Ticket};
use crate::ids::{Fire, JobName, NodeName, RunId};
use crate::input::{Answer, Command, CommandId, Declaration, NodeSwitch, Offer, Precondition, Refusal};
use crate::job::{Job, JobError, JobFile};
use crate::lifecycle;
use crate::local::{CommandItem, CommandTerms, CommitScope, Given, ItemOutcome};
use crate::placement::claims;
use crate::principal::JobRights;
use crate::registry::TxnOutcome;
use crate::time::{Millis, Now};
use crate::view::JobId;

/// How long a command waits for a trusted lease, and a lock for its holder.
const PATIENCE: Millis = Millis::secs(5);

/// The message for a condition on something that has no version.
const UNVERSIONED: &str = "only a change of one object that has a version takes a condition: of a job, a calendar, a namespace, \
                           a user, a token or a secret";

/// The message for a change that was sent to the registry and not answered.
const UNANSWERED: &str = "the registry has not answered, so it is not known whether this was done, and it may still be done: \
                          before you ask again, look at what it is about, or at `evenkeel audit`, which shows the outcome \
                          once it is known";

impl Node {
    pub(super) fn accept_command(
        &mut self,
        now: Now,
        (ask, by): (CommandId, String),
        command: Command,
        effects: &mut Vec<Effect>,
    ) {
        let (rights, wanted, command) = unwrapped(command);
        let has_version = || command.describe().is_some_and(|described| described.object.has_version());
        if wanted.is_some() && !has_version() {
            return refuse(ask, Refusal::Invalid, UNVERSIONED.into(), effects);
        }
        // An open item that ends a run has an effect at once.
        if let (Some(rights), Command::Kill(run)) = (&rights, &command)
            && let Err(why) = rights::on_run(&self.view, rights, &run.job)
        {
            return refuse(ask, Refusal::Forbidden, why, effects);
        }
        let invalid = |wrong: &dyn Display| format!("{wrong}; nothing was applied");
        let items: Vec<CommandItem> = match command {
            Command::Apply(files) => match files.into_iter().map(|file| self.parse_job(file)).collect() {
                Ok(jobs) => jobs,
                Err(wrong) => return refuse(ask, Refusal::Invalid, invalid(&wrong), effects),
            },
            Command::Declare(list) => match list.into_iter().map(|one| self.parse_declaration(one)).collect()
            {
                Ok(jobs) => jobs,
                Err(wrong) => return refuse(ask, Refusal::Invalid, invalid(&wrong), effects),
            },
            Command::Rollback(file, _) => match self.parse_job(*file) {
                Ok(job) => [job].into(),
                Err(wrong) => return refuse(ask, Refusal::Invalid, invalid(&wrong), effects),
            },
            Command::Calendar(calendar) => match calendar.read() {
                Ok(_) => [CommandItem::Command(Command::Calendar(calendar))].into(),
                Err(wrong) => return refuse(ask, Refusal::Invalid, invalid(&wrong), effects),
            },
            Command::Namespace(namespace) => match namespace.check() {
                Ok(()) => [CommandItem::Command(Command::Namespace(namespace))].into(),
                Err(wrong) => return refuse(ask, Refusal::Invalid, invalid(&wrong), effects),
            },
            Command::Shutdown(job) => self.items_for_all_nodes(&job, NodeSwitch::Shutdown),
            Command::Offer(offers) => return self.take_offers(now, ask, offers, effects),
            Command::Kill(run) if self.executes(&run) => return self.kill(ask, &run, effects),
            Command::Kill(run) if self.awaits(&run) || self.takes_back(&run) => {
                self.local.checks.check_all(self.view.id(&run.job));
                [CommandItem::Command(Command::Kill(run))].into()
            }
            Command::Kill(run) => {
                let text = format!("run {run} neither runs nor waits on node {}", self.local.settings.name);
                return refuse(ask, Refusal::NotFound, text, effects);
            }
            Command::Claim => {
                self.local.commands.await_listing(ask);
                return self.local.reads.list_at(now.mono);
            }
            Command::Leave => {
                self.local.availability.leave();
                self.local.commands.await_departure(ask);
                // A node that was closed holds nothing, and has no lease to hand anything over with.
                let closed = self.local.membership.is_closed();
                return if closed { self.depart(now, effects) } else { self.revisit_held() };
            }
            command => [CommandItem::Command(command)].into(),
        };
        if items.is_empty() {
            return effects.push(Effect::Answer(ask, Answer::Applied(Vec::new())));
        }
        let terms = CommandTerms { by, wanted, rights };
        self.local.commands.accept(ask, terms, items, now.mono + PATIENCE);
    }

    /// The declared job, parsed, if this registry's durability is enough for it.
    fn parse_job(&self, file: JobFile) -> Result<CommandItem, JobError> {
        let job = Job::parse(file)?;
        job.suits(self.local.settings.class).map(|()| CommandItem::Job(Box::new(job)))
    }

    fn parse_declaration(&self, declaration: Declaration) -> Result<CommandItem, JobError> {
        match declaration {
            Declaration::File(file) => self.parse_job(*file),
            Declaration::Same(same) => Ok(CommandItem::Same(Box::new(same))),
        }
    }

    /// Answers items whose time is over.
    pub(super) fn expire_items(&mut self, now: Now, effects: &mut Vec<Effect>, wake: &mut EarliestWake) {
        let able = self.local.is_trusted_member(now.mono);
        let mut expired = Vec::new();
        for (ask, command) in self.local.commands.iter() {
            let waits = self.local.commands.waits_for(ask);
            if able && waits.is_none() {
                continue;
            }
            if command.until() <= now.mono {
                expired.push((ask, waits.filter(|_| able), self.may_be_done(ask)));
            } else {
                wake.at(command.until(), "a command waits");
            }
        }
        for (ask, held, may_be_done) in expired {
            self.local.commands.give_up(ask);
            let (kind, text) = match held {
                _ if may_be_done => (Refusal::Unknown, UNANSWERED),
                Some(text) => (Refusal::Conflict, text),
                None if self.local.membership.is_closed() => (
                    Refusal::Unavailable,
                    "this node was closed from outside: start it again, or ask another one",
                ),
                None => (Refusal::Unavailable, "the node has no trusted lease: is the registry reachable?"),
            };
            effects.push(Effect::Answer(ask, Answer::Refused(kind, text.into())));
        }
    }

    /// Whether a commit is in flight that may do what an item asks for, or part of it.
    fn may_be_done(&self, ask: CommandId) -> bool {
        let commits = &self.local.commits;
        self.local.commands.items_of(ask).any(|(n, item)| {
            // The rules of firing end a waiting run in a commit of its job.
            let ends = match item {
                CommandItem::Command(Command::Kill(run)) => self.view.id(&run.job),
                _ => None,
            };
            commits.is_busy(&CommitScope::Item(ask, n))
                || ends.is_some_and(|id| commits.is_busy(&CommitScope::Job(id)))
        })
    }

    /// Takes an offer: another node planned runs for this one, which stand in their plans. The answer names the due
    /// runs for which there is no slot now. A node that may not act takes nothing (I45).
    fn take_offers(&mut self, now: Now, ask: CommandId, offers: Vec<Offer>, effects: &mut Vec<Effect>) {
        let local = &self.local;
        let drained = self.view.intent(&local.settings.name).is_some();
        // With a wrong clock this node would not accept them, so another node should get them (law 6).
        let difference = local.lease.difference(now);
        let on_time = difference.is_none_or(|by| by <= local.settings.max_clock_skew);
        let able = local.is_trusted_member(now.mono)
            && local.availability.is_able()
            && !local.gives_up(now.mono)
            && on_time
            && !drained;
        let mut slots = lifecycle::free_slots(&self.view, local);
        let soon = now.wall + local.claim_lead.lead();
        let mut busy = Vec::new();
        for Offer { run, must } in offers {
            // Whether there is a slot for a run is seen when it is due.
            let is_due = !matches!(run.fire, Fire::Due(due) if due > soon);
            let takes = able && (slots > 0 || must || !is_due);
            // A run that must be taken is not offered again: it queues here until this node has a slot.
            if takes || must {
                let id = self.view.add_job(&run.job);
                self.local.offers.receive(id);
                self.local.checks.check(id);
            }
            if is_due && able {
                self.note_overdue(&run);
            }
            if takes {
                slots = slots.saturating_sub(usize::from(is_due));
            } else {
                busy.push(run);
            }
        }
        effects.push(Effect::Answer(ask, Answer::Busy(busy)));
    }

    /// Notes a due run that its node may have no slot for. Where this node has none either, the run is looked at when
    /// there is one.
    fn note_overdue(&mut self, run: &RunId) {
        if self.local.offers.is_full() {
            return;
        }
        let id = self.view.add_job(&run.job);
        self.local.offers.add_overdue(id, run.fire.clone());
        self.local.checks.check(id);
    }

    /// Whether this node executes a run just now, so that it can be ended here.
    #[must_use]
    pub fn executes(&self, run: &RunId) -> bool {
        let goes_on = |id: JobId| self.local.runs.get(id, run).is_some_and(Given::is_executing);
        self.view.id(&run.job).is_some_and(goes_on)
    }

    /// Whether this node is to start a run, or to attempt it again, so that it can be ended here.
    #[must_use]
    pub fn awaits(&self, run: &RunId) -> bool {
        let job = self.view.id(&run.job).map(|id| self.view.job(id));
        job.zip(self.member()).is_some_and(|(job, me)| lifecycle::awaits(&job, &me, run))
    }

    /// Whether a run was only triggered, and no living node has claimed it: then any node may cancel the trigger.
    #[must_use]
    pub fn takes_back(&self, run: &RunId) -> bool {
        self.view.id(&run.job).is_some_and(|id| lifecycle::is_unclaimed(&self.view, &self.view.job(id), run))
    }

    /// The command of a transaction in flight, and the index of the item.
    #[must_use]
    pub fn item_of(&self, ticket: Ticket) -> Option<(CommandId, u32)> {
        match self.local.commits.get(ticket)?.scope {
            CommitScope::Item(ask, n) => Some((ask, n)),
            _ => None,
        }
    }

    /// Whether a transaction in flight for a command was applied, judged by this outcome: also where an earlier try of
    /// it had been applied and its answer was lost. `None` while unknown. To be called before the outcome is stepped.
    #[must_use]
    pub fn was_made(&self, ticket: Ticket, outcome: &TxnOutcome) -> Option<bool> {
        match outcome {
            TxnOutcome::Unknown => None,
            TxnOutcome::Applied(_) => Some(true),
            TxnOutcome::Refused(found) => Some(landed(&self.local.commits.get(ticket)?.txn, found)),
        }
    }

    /// One item for every living node.
    fn items_for_all_nodes(&self, job: &JobName, switch: NodeSwitch) -> Vec<CommandItem> {
        let nodes: BTreeSet<&NodeName> = self.view.members().map(|(member, _)| &member.node).collect();
        nodes
            .into_iter()
            .map(|node| CommandItem::Command(Command::Switch(job.clone(), node.clone(), switch)))
            .collect()
    }

    fn kill(&mut self, ask: CommandId, run: &RunId, effects: &mut Vec<Effect>) {
        if let Some(id) = self.view.id(&run.job) {
            self.local.runs.stop(id, run);
        }
        // It may turn out not to have started, or fail by itself right now: it is not attempted again either.
        if self.local.commands.cancel_quietly(run) {
            self.local.checks.check_all(self.view.id(&run.job));
        }
        effects.push(Effect::Stop(run.clone(), StopReason::Killed));
        effects.push(Effect::Answer(ask, Answer::Done));
    }

    /// Answers the claim commands: their listing is here, so claim without waiting for other nodes (S1-85).
    pub(super) fn answer_claims(&mut self, effects: &mut Vec<Effect>) {
        let claimers = self.local.commands.take_awaiting_listing();
        if claimers.is_empty() {
            return;
        }
        let (claims, left) = claims::prospect(&self.view, &self.local, self.member().as_ref());
        effects.extend(
            claimers
                .into_iter()
                .map(|ask| Effect::Answer(ask, Answer::Claiming { claims, left: left.clone() })),
        );
    }

    /// Completes an item; the command is answered with the answer of its last one.
    pub(super) fn complete_item(
        &mut self,
        ask: CommandId,
        n: u32,
        outcome: ItemOutcome,
        effects: &mut Vec<Effect>,
    ) {
        let answer = self.local.commands.complete(ask, n, outcome);
        effects.extend(answer.map(|answer| Effect::Answer(ask, answer)));
    }

    /// Ends the lease once everything is handed over, so that others take over at once, and asks for nothing more.
    pub(super) fn depart(&mut self, now: Now, effects: &mut Vec<Effect>) {
        let is_known = self.member().is_some_and(|member| self.view.may_be_stopped(&member));
        // Released on purpose, so the loss is not reported.
        self.local.membership.release();
        self.lose_lease(now, effects);
        self.local.availability.depart();
        effects.extend((!is_known).then_some(Effect::Announce(Event::Drained)));
        let departing = self.local.commands.take_awaiting_departure();
        effects.extend(departing.into_iter().map(|ask| Effect::Answer(ask, Answer::Done)));
    }
}

/// A command with its conditions.
fn unwrapped(command: Command) -> (Option<Box<JobRights>>, Option<Precondition>, Command) {
    let (rights, command) = match command {
        Command::Within(rights, command) => (Some(rights), *command),
        command => (None, command),
    };
    match command {
        Command::If(wanted, command) => (rights, Some(wanted), *command),
        command => (rights, None, command),
    }
}

fn refuse(ask: CommandId, kind: Refusal, text: String, effects: &mut Vec<Effect>) {
    effects.push(Effect::Answer(ask, Answer::Refused(kind, text)));
}
