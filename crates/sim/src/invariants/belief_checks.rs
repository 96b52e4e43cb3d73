//! Checks the decisions of nodes against their inputs: trust, quota, drain, alarms.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_core::commit_kind::CommitKind;
use evenkeel_core::effect::{Effect, Event, Ticket};
use evenkeel_core::ids::{Fire, JobName, Member, NodeName};
use evenkeel_core::input::{Input, LeaseEvent};
use evenkeel_core::keys::{self, ParsedKey, parse};
use evenkeel_core::labels::NodeSelector;
use evenkeel_core::node::{Node, Quota};
use evenkeel_core::record::{Assignment, decode};
use evenkeel_core::registry::{ChangeBatch, Revision, Txn, TxnOutcome, Write};
use evenkeel_core::rule_context::RuleAction;
use evenkeel_core::time::{Mono, Now};
use evenkeel_core::view::JobView;

use super::{Invariant, InvariantChecker, trust_ends};

/// The maximum number of steps at one moment; more are an endless loop.
const STEPS_MAX: u32 = 20_000;

/// The part of an input that matters after the step.
pub(crate) enum ObservedInput {
    /// The answer to a commit.
    Outcome(Ticket, CommitReply),
    /// The node is not to be drained any more.
    Undrained,
    /// No input of these kinds.
    Other,
}

/// The kinds of answers to a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommitReply {
    Applied(Revision),
    Refused,
    Unknown,
}

impl InvariantChecker {
    /// Until when a node may trust this lease, by its inputs.
    pub(super) fn trust(&self, name: &NodeName, lease: u64) -> Option<Mono> {
        self.beliefs.get(name)?.trust.get(&lease).copied()
    }

    /// Records an input before the node handles it.
    pub(crate) fn observe_input(&mut self, name: &NodeName, life: u64, input: &Input) -> ObservedInput {
        self.observe_peers(name, input);
        let mind = self.beliefs.entry(name.clone()).or_default();
        let drained = mind.drain.1;
        match input {
            Input::Lease(LeaseEvent::Opened { asked, granted } | LeaseEvent::Renewed { asked, granted }) => {
                mind.ttl = granted.ttl;
                let until = trust_ends(*asked, granted.ttl);
                let known = mind.trust.entry(granted.lease.0).or_insert(until);
                *known = until.max(*known);
            }
            Input::Listed(Some(batch)) => mind.observe_listing(name, batch),
            Input::Changed(ChangeBatch { changes, .. }) | Input::Read(Some(changes)) => {
                mind.observe_changes(name, changes)
            }
            Input::Committed { ticket, outcome } => {
                let told = match outcome {
                    TxnOutcome::Applied(revision) => {
                        let ticket = self.tickets.get(&(name.clone(), life, *ticket));
                        if let Some(drained) = ticket.and_then(|t| t.intent(&keys::intent(name))) {
                            mind.observe_drain(*revision, drained);
                        }
                        CommitReply::Applied(*revision)
                    }
                    TxnOutcome::Unknown => CommitReply::Unknown,
                    TxnOutcome::Refused(found) => {
                        mind.observe_changes(name, found);
                        CommitReply::Refused
                    }
                };
                return ObservedInput::Outcome(*ticket, told);
            }
            _ => {}
        }
        if drained && !mind.drain.1 { ObservedInput::Undrained } else { ObservedInput::Other }
    }

    /// Forgets everything about a process that has ended.
    pub(crate) fn process_ended(&mut self, name: &NodeName, _life: u64) {
        self.beliefs.remove(name);
    }

    /// Checks a step of a node: its decisions on the inputs that came together.
    #[expect(clippy::too_many_arguments, reason = "one step has that many sides")]
    pub(crate) fn check_step(
        &mut self,
        at: i64,
        name: &NodeName,
        life: u64,
        node: &Node,
        now: Now,
        heard: Vec<ObservedInput>,
        effects: &[Effect],
    ) {
        if let Some(mind) = self.beliefs.get_mut(name) {
            let settings = node.local().settings();
            (mind.notice, mind.early) = (settings.notice, settings.early);
            mind.labels.clone_from(&settings.labels);
        }
        self.check_peers(at, name, life, node, now, effects);
        let claims = self.check_decisions(at, name, life, node, now, effects);
        self.check_quota(at, name, node, &claims);
        let settled = |heard: &&ObservedInput| {
            matches!(heard, ObservedInput::Outcome(_, CommitReply::Applied(_) | CommitReply::Refused))
        };
        self.check_alarm(at, name, node, heard.iter().filter(settled).count().max(1), effects);
        for heard in heard {
            match heard {
                ObservedInput::Outcome(ticket, told) => {
                    self.ticket_answered(at, name, life, node, ticket, told)
                }
                ObservedInput::Undrained => {
                    let missed = node.overlooked(now);
                    self.findings.test(at, Invariant::I39, missed.is_empty(), || {
                        format!("{name} is not drained any more and put off {}", acts(&missed))
                    });
                }
                ObservedInput::Other => {}
            }
        }
    }

    /// Checks each new commit and start. Returns the claimed jobs.
    fn check_decisions(
        &mut self,
        at: i64,
        name: &NodeName,
        life: u64,
        node: &Node,
        now: Now,
        effects: &[Effect],
    ) -> BTreeSet<JobName> {
        let member = node.member();
        let trust = member.as_ref().and_then(|m| self.trust(name, m.incarnation));
        let trusted = trust.is_some_and(|until| now.mono < until);
        let drained = self.beliefs.get(name).is_some_and(|mind| mind.drain.1);
        let mut claims = BTreeSet::new();
        for effect in effects {
            match effect {
                Effect::Commit { ticket, kind, txn } => {
                    let knows = node.local().settings().knows;
                    if !self.ticket_sent(name, life, *ticket, txn, (member.as_ref(), knows)) {
                        continue;
                    }
                    self.findings.test(at, Invariant::I3, trusted, || {
                        format!("{name} commits ({kind}) without trust")
                    });
                    let job = claimed(txn, member.as_ref());
                    let job = job.and_then(|job| node.view().find(&job)).filter(JobView::is_enabled);
                    claims.extend(job.map(|job| job.name().clone()));
                    let new = job.is_some() || kind.claims_fire() || *kind == CommitKind::Accept;
                    if drained {
                        self.findings.test(at, Invariant::I38, !new, || {
                            format!("{name} is drained, knows it, and claims ({kind})")
                        });
                    }
                }
                Effect::Start(run) => {
                    let early = matches!(run.id.fire, Fire::Due(_)) && now.wall < run.due;
                    self.findings.test(at, Invariant::I3, trusted, || {
                        format!("{name} starts {} without trust", run.id)
                    });
                    self.findings.test(at, Invariant::I17, !early, || {
                        format!("{name} starts {} before it is due", run.id)
                    });
                }
                _ => {}
            }
        }
        claims
    }

    /// X ≤ N right after a claim, by the node's own view and the checker's arithmetic.
    fn check_quota(&mut self, at: i64, name: &NodeName, node: &Node, claims: &BTreeSet<JobName>) {
        let Some(member) = node.member().filter(|_| !claims.is_empty()) else { return };
        let (view, local) = (node.view(), node.local());
        let mut held: BTreeSet<JobName> = view.owned(&member).map(|id| view.job(id).name().clone()).collect();
        held.extend(local.commits().iter().filter_map(|p| claimed(&p.txn, Some(&member))));
        let declared = |job: &JobName| view.find(job)?.spec().map(|spec| spec.job);
        let mut groups: BTreeMap<NodeSelector, usize> = BTreeMap::new();
        for job in held.iter().filter_map(declared) {
            // A job that is only settled, and released as soon as history has its verdicts, takes no room.
            if job.enabled && job.node_selector.fits(name, &local.settings().labels) {
                *groups.entry(job.node_selector.clone()).or_default() += 1;
            }
        }
        // Another group's quota may have fallen below the number of its jobs on the node.
        let claimed: BTreeSet<NodeSelector> =
            claims.iter().filter_map(declared).map(|job| job.node_selector.clone()).collect();
        for (nodes, held) in groups.into_iter().filter(|(nodes, _)| claimed.contains(nodes)) {
            let quota = quota(node, &nodes);
            self.findings.test(at, Invariant::I36, held <= quota, || {
                format!("{name} claims up to {held} jobs for [{nodes}], its quota is {quota}")
            });
        }
    }

    /// Above the threshold each claim raises the alarm, once its outcome is known. Each of several outcomes that were
    /// handled together may have changed the number once more.
    fn check_alarm(&mut self, at: i64, name: &NodeName, node: &Node, outcomes: usize, effects: &[Effect]) {
        let Some(mind) = self.beliefs.get_mut(name) else { return };
        let member = node.member();
        let held = member.as_ref().map_or(0, |m| node.view().count(m));
        let threshold = node.local().settings().alarm as usize;
        let jobs = member.iter().flat_map(|m| node.view().owned(m));
        let enabled = jobs.filter(|id| node.view().job(*id).is_enabled()).count();
        let (life, before, were) = std::mem::replace(&mut mind.held, (member.clone(), held, enabled));
        if life != member {
            mind.owes_alarms = 0;
        } else {
            // A node that disables a free job takes it only to give up the waiting run.
            let claimed = held.saturating_sub(before).min(enabled.saturating_sub(were));
            mind.owes_alarms = (mind.owes_alarms + claimed).min(held.saturating_sub(threshold));
        }
        for effect in effects {
            if let Effect::Announce(Event::Alarm { held: said, alarm }) = effect {
                mind.owes_alarms = mind.owes_alarms.saturating_sub(1);
                let same = said.abs_diff(held) < outcomes || life != member;
                let right = same && *alarm == threshold && *said > threshold;
                self.findings.test(at, Invariant::I40, right, || {
                    format!("{name} holds {held} and sounds the alarm at {said} of {alarm}")
                });
            }
        }
        let open = || node.local().commits().iter().any(|p| claimed(&p.txn, member.as_ref()).is_some());
        let owes = mind.owes_alarms > 0 && !open();
        self.findings.test(at, Invariant::I40, !owes, || {
            format!("{name} holds {held}, more than {threshold}, and an alarm has not sounded")
        });
    }

    /// Checks that a node does not step without end at one moment.
    pub(crate) fn busy(&mut self, at: i64, name: &NodeName, steps: u32) {
        if steps > STEPS_MAX {
            self.findings.test(at, Invariant::I53, false, || format!("{name} goes round in circles"));
        }
    }

    /// Checks that a decision about every job would add nothing right after a step.
    pub(crate) fn check_overlooked(&mut self, at: i64, name: &NodeName, node: &Node, now: Now) {
        let missed = node.overlooked(now);
        self.findings.test(at, Invariant::Touched, missed.is_empty(), || {
            format!("{name} overlooked {}", acts(&missed))
        });
    }
}

/// The overlooked decisions in words.
fn acts(decisions: &[RuleAction]) -> String {
    let name = |decision: &RuleAction| match decision {
        RuleAction::Commit(_, kind, txn) => {
            txn.writes.iter().fold(kind.to_string(), |text, write| format!("{text} {}", write.key()))
        }
        other => format!("{other:?}"),
    };
    decisions.iter().map(name).collect::<Vec<_>>().join(", ")
}

/// The quota N of the jobs that select these nodes, by a node's view and the checker's arithmetic.
fn quota(node: &Node, nodes: &NodeSelector) -> usize {
    let (view, settings) = (node.view(), node.local().settings());
    let jobs = view.page(None, usize::MAX).filter(JobView::is_enabled).filter_map(|job| job.spec());
    let jobs = jobs.filter(|spec| spec.job.node_selector == *nodes).count();
    let fitting = view.members().filter(|(m, state)| nodes.fits(&m.node, &state.info.labels));
    let fitting: BTreeSet<&NodeName> = fitting.map(|(m, _)| &m.node).collect();
    let tolerance = settings.tolerance.max(1) as usize;
    let quota = |jobs: usize, nodes: usize| 1 + jobs / nodes.saturating_sub(tolerance).max(1);
    let now = quota(jobs, fitting.len());
    let listed = |group| view.listed_of(group);
    let group = view.groups().find(|group| view.nodes_named(*group) == nodes);
    match (settings.quota, group.map(listed)) {
        (Quota::Larger, Some((jobs, nodes))) => now.max(quota(jobs, nodes)),
        _ => now,
    }
}

/// The job that a transaction would assign to this member.
fn claimed(txn: &Txn, member: Option<&Member>) -> Option<JobName> {
    txn.writes.iter().find_map(|write| {
        let Write::Put { key, value, .. } = write else { return None };
        let Some(ParsedKey::Assignment(job)) = parse(key) else { return None };
        let owner = decode::<Assignment>(value)?.owner;
        let spec = keys::spec(&job);
        let declares = txn.writes.iter().any(|w| *w.key() == spec);
        (owner.is_some() && owner.as_ref() == member && !declares).then_some(job)
    })
}
