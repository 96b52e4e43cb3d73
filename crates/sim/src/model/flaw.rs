//! Flaws: the rules that the protocol marks ✗, each removed alone. A search that does not notice is blind.

use std::fmt;

use evenkeel_core::commit_kind::CommitKind;
use evenkeel_core::input::LeaseEvent;
use evenkeel_core::keys::{self, ParsedKey};
use evenkeel_core::lease::Lease;
use evenkeel_core::placement::firing;
use evenkeel_core::registry::{Guard, LeaseGrant, LeaseId, Txn, Write};
use evenkeel_core::rule_context::{Rule, RuleAction, RuleContext, RuleFn, RuleOutput};
use evenkeel_core::rules;
use evenkeel_core::time::Millis;
use evenkeel_core::view::JobId;

use super::scope::ModelScope;

/// One removed rule of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProtocolFlaw {
    /// Each incarnation of a node joins under the same number.
    IncarnationReused,
    /// A job is taken over without the guard that its owner is absent.
    TakeoverUnguarded,
    /// A fire is claimed though trust ends before it is due.
    ClaimBeyondTrust,
    /// The executor does not look at `not_after`.
    NotAfterIgnored,
    /// An open run that fell due while the node was untrusted is left alone.
    OpenRunDropped,
    /// The node forgets the runs that it gave to its executor.
    GivenForgotten,
    /// The guard takes a stopped process for a dead one, and removes its member while its children run.
    StoppedTakenForDead,
    /// No guard process ends the runs when trust ends.
    NoGuardProcess,
    /// Transactions do not guard on what they write, so a second delivery is applied again.
    Repeatable,
    /// A leader is elected without the guard that the previous one is absent.
    ElectionUnguarded,
    /// Failed-over shards also stay where they were.
    FailoverCopies,
    /// A fire of shards is claimed without the guard on the assignment, even if a reshard is pending or done.
    ClaimUnguarded,
    /// A run is accepted without the guard on the plan, whichever node it is planned for by now.
    AcceptUnguarded,
    /// Runs are planned without the guard on the plan, over whatever became of it.
    PlanUnguarded,
}

impl ProtocolFlaw {
    /// All flaws.
    pub const ALL: [Self; 14] = [
        Self::IncarnationReused,
        Self::TakeoverUnguarded,
        Self::ClaimBeyondTrust,
        Self::NotAfterIgnored,
        Self::OpenRunDropped,
        Self::GivenForgotten,
        Self::NoGuardProcess,
        Self::StoppedTakenForDead,
        Self::Repeatable,
        Self::ElectionUnguarded,
        Self::FailoverCopies,
        Self::ClaimUnguarded,
        Self::AcceptUnguarded,
        Self::PlanUnguarded,
    ];

    /// Changes a transaction before the registry gets it.
    pub(super) fn mutate(self, kind: CommitKind, txn: &mut Txn) {
        match self {
            Self::TakeoverUnguarded if kind == CommitKind::TakeOver => unguard(txn, is_absence),
            Self::ElectionUnguarded if kind == CommitKind::Elect => unguard(txn, is_absence),
            Self::ClaimUnguarded if kind == CommitKind::ClaimShards => {
                unguard(txn, |guard| matches!(parsed(guard), Some(ParsedKey::Assignment(_))));
            }
            Self::AcceptUnguarded if kind == CommitKind::Accept => unguard(txn, is_plan),
            Self::PlanUnguarded if kind == CommitKind::Plan => unguard(txn, is_plan),
            Self::FailoverCopies if kind == CommitKind::FailOver => {
                let run_state =
                    |write: &Write| matches!(keys::parse(write.key()), Some(ParsedKey::ShardRunState(..)));
                if let Some(left) = txn.writes.iter().position(run_state) {
                    txn.writes.remove(left);
                }
            }
            Self::Repeatable => {
                let written: Vec<_> = txn.writes.iter().map(Write::key).cloned().collect();
                txn.guards
                    .retain(|guard| !guard.key().is_some_and(|key| written.contains(key) && !key.is_cold()));
            }
            _ => {}
        }
    }

    /// The number under which a lease of this side is known to its node.
    pub(super) fn shown(flaw: Option<Self>, side: usize, lease: LeaseId) -> LeaseId {
        if flaw == Some(Self::IncarnationReused) { LeaseId(side as u64 + 1) } else { lease }
    }
}

impl fmt::Display for ProtocolFlaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::IncarnationReused => "an incarnation is used again",
            Self::TakeoverUnguarded => "a takeover is not guarded by the holder's absence",
            Self::ClaimBeyondTrust => "a fire is claimed beyond the trust deadline",
            Self::NotAfterIgnored => "not_after is not checked",
            Self::OpenRunDropped => "an open run that fell due without trust is dropped",
            Self::GivenForgotten => "what was given to an executor is forgotten",
            Self::StoppedTakenForDead => "the guard takes a stopped process for a dead one",
            Self::NoGuardProcess => "no guard process ends the runs",
            Self::Repeatable => "a transaction is not falsified by its own success",
            Self::ElectionUnguarded => "an election is not guarded by the absence of the leader before",
            Self::FailoverCopies => "shards that are taken over also stay where they were",
            Self::ClaimUnguarded => "a claim of shards is not guarded by the place",
            Self::AcceptUnguarded => "an acceptance is not guarded by the plan",
            Self::PlanUnguarded => "planning is not guarded by the plan",
        })
    }
}

fn parsed(guard: &Guard) -> Option<ParsedKey> {
    guard.key().and_then(keys::parse)
}

fn is_plan(guard: &Guard) -> bool {
    matches!(parsed(guard), Some(ParsedKey::Plan(_)))
}

fn unguard(txn: &mut Txn, which: impl Fn(&Guard) -> bool) {
    txn.guards.retain(|guard| !which(guard));
}

/// Whether it guards that a member is absent.
fn is_absence(guard: &Guard) -> bool {
    matches!(guard, Guard::Absent(_)) && matches!(parsed(guard), Some(ParsedKey::Node(_)))
}

/// The rules that a node follows under a flaw.
pub(super) fn rules(scope: &ModelScope) -> &'static [Rule] {
    match scope.flaw {
        _ if scope.dispatched => DISPATCHING,
        Some(ProtocolFlaw::ClaimBeyondTrust) => BEYOND_TRUST,
        Some(ProtocolFlaw::OpenRunDropped) => DROPPING,
        _ => ALONE,
    }
}

/// The rules without those that call peers: claims and shards are modelled here, and loads would only widen the search.
const ALONE: &[Rule] = &[
    rules::MEMBERSHIP,
    rules::CONTROL,
    rules::LOCKS,
    rules::CLAIMS,
    rules::DRAIN,
    rules::ELECTION,
    rules::FAILOVER,
    rules::SHARDING,
    rules::FIRING,
];

/// The rules with those that plan. No node probes: an offer that fails has the same result.
const DISPATCHING: &[Rule] = &[
    rules::MEMBERSHIP,
    rules::CONTROL,
    rules::LOCKS,
    rules::BEAT,
    rules::DRAIN,
    rules::DISPATCH,
    rules::FIRING,
];

const BEYOND_TRUST: &[Rule] = &[
    rules::MEMBERSHIP,
    rules::CONTROL,
    rules::LOCKS,
    rules::CLAIMS,
    rules::DRAIN,
    Rule { name: "firing beyond trust", decide: RuleFn::Job(fire_beyond_trust) },
];

const DROPPING: &[Rule] = &[
    rules::MEMBERSHIP,
    rules::CONTROL,
    rules::LOCKS,
    rules::CLAIMS,
    rules::DRAIN,
    Rule { name: "firing that drops", decide: RuleFn::Job(fire_and_drop) },
];

/// Decides twice, under the lease as it is and under one without end, and takes only claims from the second.
fn fire_beyond_trust(ctx: &RuleContext<'_>, id: JobId, out: &mut RuleOutput) {
    let ttl = Millis::secs(1_000_000);
    let mut endless = Lease::new(ttl, Millis::ZERO);
    let granted = LeaseGrant { lease: LeaseId(ctx.member.incarnation), ttl, clock: None, next_end: None };
    endless.absorb(ctx.now.mono, &LeaseEvent::Opened { asked: ctx.now.mono, granted });
    let lease = endless.trusted(ctx.now.mono).unwrap_or(ctx.lease);
    let mut bold = RuleOutput::default();
    firing::decide(&RuleContext { lease, ..*ctx }, id, &mut bold);
    let claim =
        bold.actions.into_iter().find(|d| matches!(d, RuleAction::Commit(_, kind, _) if kind.claims_fire()));
    match claim {
        Some(claim) => out.add(claim),
        None => firing::decide(ctx, id, out),
    }
}

fn fire_and_drop(ctx: &RuleContext<'_>, id: JobId, out: &mut RuleOutput) {
    firing::decide(ctx, id, out);
    out.actions.retain(|decision| !matches!(decision, RuleAction::Commit(_, CommitKind::Confirm, _)));
}
