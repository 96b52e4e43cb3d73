//! The commits of this node that have no final answer yet, and those that the registry refused.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::commit_counts::CommitCounts;
use super::commit_pacer::CommitPacer;
use crate::commit_kind::CommitKind;
use crate::effect::{Event, Ticket};
use crate::ids::{LockName, Member, NodeName, Operation, RunId};
use crate::input::CommandId;
use crate::record::RunState;
use crate::registry::Txn;
use crate::run_limit::RunLimit;
use crate::time::{Millis, Mono};
use crate::view::JobId;

/// The first wait before a transaction of unknown outcome is sent again; doubled each time.
const RESEND: Millis = Millis(50);
/// The longest such wait.
const RESEND_MAX: Millis = Millis::secs(2);

/// The scope of a commit. At most one commit of each scope is in flight.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CommitScope {
    /// The node's own membership.
    Membership,
    /// A job that this node owns or wants to own.
    Job(JobId),
    /// A command item, by its command and its index in it.
    Item(CommandId, u32),
    /// A lock that this node holds and no command here asks for any more.
    Lock(LockName),
    /// The load of this node.
    Load,
    /// An operation of a beat.
    Beat(Operation),
    /// This node's strikes against another.
    Strike(NodeName),
    /// Whether a node is offline.
    Offline(NodeName),
    /// Whether this node is drained and owns nothing any more.
    Drained,
    /// The lead of the cluster.
    Serving,
    /// The permits of these limits.
    Permits(Vec<RunLimit>),
}

impl CommitScope {
    /// The limits whose permits a commit of this scope writes.
    #[must_use]
    pub fn limits(&self) -> &[RunLimit] {
        match self {
            Self::Permits(limits) => limits,
            _ => &[],
        }
    }
}

/// A commit in flight.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PendingCommit {
    /// Its scope.
    pub scope: CommitScope,
    /// Its kind.
    pub kind: CommitKind,
    /// The transaction, to be sent again while its outcome is unknown (law 5).
    pub txn: Txn,
    /// The run state that its first write writes, if firing had it at hand: then it need not be decoded.
    pub run_state: Option<RunState>,
    /// When it was sent first.
    pub since: Mono,
    /// How many paced commits were in flight then, with this one.
    pub among: usize,
    /// How often it was sent.
    pub tries: u32,
    /// Events to report once it is applied.
    pub events: Vec<Event>,
    /// Members that may accept a run once it is applied. One that is notified earlier reads the entry as it was.
    pub next: Option<(RunId, Member)>,
}

/// The commits in flight, at most one for each scope, and the transactions that need not be sent again.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CommitsInFlight {
    pending: BTreeMap<Ticket, Box<PendingCommit>>,
    /// Their scopes.
    scopes: BTreeSet<CommitScope>,
    /// The limits whose permits they write, each written by one.
    permits: BTreeSet<RunLimit>,
    /// How many there are of each kind.
    counts: CommitCounts,
    /// Those whose outcome is unknown, by when to send them again.
    unknown: BTreeSet<(Mono, Ticket)>,
    /// Limits the claims and confirmations of fires to what the registry has shown that it answers in time.
    pacer: CommitPacer,
    /// Transactions refused since the view last changed in their scope; not sent again.
    refused: BTreeMap<CommitScope, Txn>,
    /// The number of the next commit.
    next_ticket: u64,
}

impl Default for CommitsInFlight {
    fn default() -> Self {
        Self {
            pending: BTreeMap::new(),
            scopes: BTreeSet::new(),
            permits: BTreeSet::new(),
            counts: CommitCounts::default(),
            unknown: BTreeSet::new(),
            pacer: CommitPacer::default(),
            refused: BTreeMap::new(),
            next_ticket: 1,
        }
    }
}

impl CommitsInFlight {
    /// Begins a commit, and notes how many others it is sent among.
    pub(crate) fn begin(&mut self, mut commit: PendingCommit) -> Ticket {
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        self.scopes.insert(commit.scope.clone());
        self.permits.extend(commit.scope.limits().iter().cloned());
        self.counts.begin(commit.kind);
        commit.among = self.counts.paced();
        self.pending.insert(ticket, Box::new(commit));
        ticket
    }

    /// Ends a commit that was applied or refused; `None` where none of this number is in flight.
    pub(crate) fn end(&mut self, ticket: Ticket, now: Mono) -> Option<Box<PendingCommit>> {
        let commit = self.pending.remove(&ticket)?;
        self.unknown.retain(|(_, of)| *of != ticket);
        self.scopes.remove(&commit.scope);
        commit.scope.limits().iter().for_each(|limit| {
            self.permits.remove(limit);
        });
        if commit.kind.is_paced() {
            self.pacer.answered(now - commit.since, commit.among);
        }
        self.counts.end(commit.kind);
        Some(commit)
    }

    /// Notes that the outcome of a commit is unknown: it is sent again after a while.
    pub(crate) fn outcome_unknown(&mut self, ticket: Ticket, now: Mono) {
        if let Some(commit) = self.pending.get(&ticket) {
            let wait = Millis(RESEND.0 << commit.tries.min(6)).min(RESEND_MAX);
            self.unknown.insert((now + wait, ticket));
        }
    }

    /// The next commit of unknown outcome that is to be sent again now. It counts as sent.
    pub(crate) fn next_to_resend(&mut self, now: Mono) -> Option<(Ticket, &PendingCommit)> {
        let (at, ticket) = self.unknown.first().copied().filter(|(at, _)| *at <= now)?;
        self.unknown.remove(&(at, ticket));
        let commit = self.pending.get_mut(&ticket)?;
        commit.tries += 1;
        Some((ticket, commit))
    }

    /// When the next commit of unknown outcome is to be sent again.
    pub(crate) fn resend_at(&self) -> Option<Mono> {
        self.unknown.first().map(|(at, _)| *at)
    }

    /// Notes a refusal that no known entry explains: the same transaction would be refused again.
    pub(crate) fn refuse(&mut self, commit: PendingCommit) {
        self.refused.insert(commit.scope, commit.txn);
    }

    /// Forgets what was refused for this scope: it may be tried again.
    pub(crate) fn forget_refused(&mut self, scope: &CommitScope) {
        self.refused.remove(scope);
    }

    /// Forgets what was refused for every scope that this does not keep.
    pub(crate) fn keep_refused(&mut self, keeps: impl Fn(&CommitScope) -> bool) {
        self.refused.retain(|scope, _| keeps(scope));
    }

    /// Forgets everything that was refused.
    pub(crate) fn forget_all_refused(&mut self) {
        self.refused.clear();
    }

    /// Whether this transaction may be sent: no commit of its scope is in flight, and it was not refused.
    pub(crate) fn accepts(&self, scope: &CommitScope, txn: &Txn) -> bool {
        !self.is_busy(scope) && self.refused.get(scope) != Some(txn)
    }

    /// Whether a commit of this scope is in flight, or one that writes the same permits.
    #[must_use]
    pub fn is_busy(&self, scope: &CommitScope) -> bool {
        self.scopes.contains(scope) || scope.limits().iter().any(|limit| self.permits.contains(limit))
    }

    /// Whether a commit in flight writes the permits of this limit.
    pub(crate) fn writes_permits(&self, limit: &RunLimit) -> bool {
        self.permits.contains(limit)
    }

    /// The scopes of the commits in flight.
    pub(crate) fn scopes(&self) -> impl Iterator<Item = &CommitScope> {
        self.scopes.iter()
    }

    /// The commit of this number, if it is in flight.
    #[must_use]
    pub fn get(&self, ticket: Ticket) -> Option<&PendingCommit> {
        self.pending.get(&ticket).map(AsRef::as_ref)
    }

    /// The commits in flight, in the order in which they began.
    pub fn iter(&self) -> impl Iterator<Item = &PendingCommit> {
        self.pending.values().map(AsRef::as_ref)
    }

    /// Whether none is in flight.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Whether the outcome of one is unknown.
    #[must_use]
    pub fn has_unknown(&self) -> bool {
        !self.unknown.is_empty()
    }

    /// How many commits of this kind are in flight.
    #[must_use]
    pub fn of_kind(&self, kind: CommitKind) -> usize {
        self.counts.of(kind)
    }

    /// How many of them will take a slot.
    pub(crate) fn claims(&self) -> usize {
        self.counts.claims()
    }

    /// How many more claims and confirmations of fires may go out now.
    pub(crate) fn pace_left(&self) -> usize {
        self.pacer.most().saturating_sub(self.counts.paced())
    }

    /// Forgets among how many others each was sent, for comparisons in tests.
    #[cfg(test)]
    pub(crate) fn forget_paces(&mut self) {
        self.pending.values_mut().for_each(|commit| commit.among = 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commit(scope: CommitScope, kind: CommitKind) -> PendingCommit {
        let txn = Txn { guards: Vec::new(), writes: Vec::new() };
        let (run_state, since, events, next) = (None, Mono(0), Vec::new(), None);
        PendingCommit { scope, kind, txn, run_state, since, among: 0, tries: 1, events, next }
    }

    #[test]
    fn a_commit_leaves_nothing_behind_when_it_ends() {
        let mut commits = CommitsInFlight::default();
        let (job, load) = (CommitScope::Job(JobId(1)), CommitScope::Load);
        let first = commits.begin(commit(job.clone(), CommitKind::ClaimFire));
        let second = commits.begin(commit(load.clone(), CommitKind::PublishLoad));
        assert_ne!(first, second);
        assert!(commits.is_busy(&job) && commits.is_busy(&load));
        assert_eq!((commits.of_kind(CommitKind::ClaimFire), commits.claims()), (1, 1));
        commits.outcome_unknown(first, Mono(0));
        assert!(commits.end(first, Mono(10)).is_some());
        assert!(commits.end(first, Mono(10)).is_none(), "an answer that comes twice finds none in flight");
        assert!(!commits.has_unknown() && !commits.is_busy(&job) && commits.is_busy(&load));
        assert_eq!(
            (commits.of_kind(CommitKind::ClaimFire), commits.claims(), commits.is_empty()),
            (0, 0, false)
        );
    }

    #[test]
    fn a_commit_of_unknown_outcome_is_sent_again_after_longer_and_longer_waits() {
        let mut commits = CommitsInFlight::default();
        let ticket = commits.begin(commit(CommitScope::Load, CommitKind::PublishLoad));
        commits.outcome_unknown(Ticket(99), Mono(0));
        assert!(!commits.has_unknown(), "there is no such commit");
        commits.outcome_unknown(ticket, Mono(0));
        assert_eq!(commits.resend_at(), Some(Mono(100)));
        assert!(commits.next_to_resend(Mono(99)).is_none());
        assert_eq!(commits.next_to_resend(Mono(100)).map(|(of, sent)| (of, sent.tries)), Some((ticket, 2)));
        assert!(commits.next_to_resend(Mono(100)).is_none() && !commits.is_empty());
        commits.outcome_unknown(ticket, Mono(100));
        assert_eq!(commits.resend_at(), Some(Mono(300)));
    }

    #[test]
    fn a_refused_transaction_is_not_sent_again_until_that_is_forgotten() {
        let mut commits = CommitsInFlight::default();
        let load = commit(CommitScope::Load, CommitKind::PublishLoad);
        let other = Txn {
            guards: [crate::registry::Guard::Absent(crate::keys::lock(&"l".parse().unwrap()))].into(),
            ..load.txn.clone()
        };
        assert!(commits.accepts(&load.scope, &load.txn));
        commits.refuse(load.clone());
        assert!(!commits.accepts(&load.scope, &load.txn) && commits.accepts(&load.scope, &other));
        commits.keep_refused(|scope| *scope == CommitScope::Load);
        assert!(!commits.accepts(&load.scope, &load.txn));
        commits.forget_refused(&load.scope);
        assert!(commits.accepts(&load.scope, &load.txn));
        commits.begin(load.clone());
        assert!(!commits.accepts(&load.scope, &other), "one of its scope is in flight");
    }
}
