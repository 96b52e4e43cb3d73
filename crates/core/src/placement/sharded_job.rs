//! A sharded job with all its data at hand: leader, members that take part, shard assignments, and their next versions.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::due;
use crate::ids::Member;
use crate::keys;
use crate::local::CommitScope;
use crate::record::{Assignment, ShardGroup, ShardRunState, Sharding, encode};
use crate::registry::{Guard, Txn, Write};
use crate::rule_context::RuleContext;
use crate::time::Wall;
use crate::view::{JobId, JobTerms, JobView, KnownEntry, ShardTerms};

/// One sharded job, or the remains of one, that this node may decide about now.
pub(crate) struct ShardedJob<'a> {
    pub(crate) ctx: &'a RuleContext<'a>,
    pub(crate) job: JobView<'a>,
    pub(crate) sharding: &'a Sharding,
    /// `None` when the job is deleted or not sharded any more.
    pub(crate) terms: Option<(&'a JobTerms, &'a ShardTerms)>,
}

impl<'a> ShardedJob<'a> {
    /// The sharded job; `None` when it has no shard data, or when this is no moment to decide about it.
    pub(crate) fn of(ctx: &'a RuleContext<'a>, id: JobId) -> Option<Self> {
        let job = ctx.job(id);
        let sharded = job.sharded()?;
        if ctx.me.is_none() || !job.is_consistent() || !ctx.is_idle(&CommitScope::Job(id)) {
            return None;
        }
        Some(Self { ctx, job, sharding: &sharded.sharding, terms: job.terms() })
    }

    /// Whether each node runs its own part of the job, which no other node runs for it.
    pub(crate) fn is_broadcast(&self) -> bool {
        self.terms.is_some_and(|(_, shards)| shards.total.is_none())
    }

    /// Whether the job may fire.
    pub(crate) fn is_enabled(&self) -> bool {
        self.terms.is_some_and(|(terms, _)| terms.enabled)
    }

    /// Whether a member is gone. Its membership decides, and every commit that follows from this guards on it.
    pub(crate) fn is_dead(&self, member: &Member) -> bool {
        self.ctx.view.member(member).is_none()
    }

    /// Whether this node takes part, as far as its own state says.
    pub(crate) fn may_take_part(&self) -> bool {
        !self.ctx.gives_up() && self.ctx.local.availability.is_able()
    }

    /// The one member that settles the runs of dead ones where several could: the leader, or the first by name.
    pub(crate) fn is_steward(&self) -> bool {
        let leader = self.sharding.leader.as_ref().filter(|leader| !self.is_dead(leader));
        let first = || self.ctx.view.members().map(|(member, _)| member).next();
        leader.or_else(first) == Some(self.ctx.member)
    }

    /// The known run state of a member; this node's own is absent until it was written in this life.
    pub(crate) fn known(&self, member: &Member) -> Option<KnownEntry<ShardRunState>> {
        match self.job.run_state_of(member) {
            Some(known) => Some(known.run_state.clone()),
            None => (member == self.ctx.member).then(KnownEntry::default),
        }
    }

    /// A member's run state as it counts now; `None` while it was not read.
    pub(crate) fn run_state(&self, member: &Member) -> Option<ShardRunState> {
        self.known(member).map(|known| self.sharding.run_state_of(member, known.value.as_ref()))
    }

    /// The guard that a member's run state is still as it is known.
    pub(crate) fn run_state_guard(&self, member: &Member) -> Option<Guard> {
        Some(self.known(member)?.guard(keys::shard_run_state(self.job.name(), member)))
    }

    /// When one of these groups is due next; `None` when that is never, or unknown.
    pub(crate) fn next_due<'g>(&self, groups: impl Iterator<Item = &'g ShardGroup>) -> Option<Wall> {
        let (terms, _) = self.terms?;
        let schedule = terms.schedule.as_ref().filter(|_| !terms.paused)?;
        let (now, policy) = (self.ctx.now.wall, self.ctx.policy(terms));
        let next = |group: &ShardGroup| {
            let next = due::next(schedule, group.watermark.max(terms.since), now, &policy);
            // The last fires may be too old by now: then a commit has to skip them.
            next.due.or(next.skipped.map(|_| now))
        };
        groups.filter_map(next).min()
    }

    /// When the oldest open trigger was made.
    pub(crate) fn triggered_at(&self) -> Option<Wall> {
        let record = self.job.triggers()?.value.as_ref()?;
        record.requests.iter().find(|request| !request.taken).map(|request| request.at)
    }

    /// The write of the assignment with other shard data.
    pub(crate) fn put(&self, sharding: Sharding) -> Write {
        let place = Assignment { sharding: Some(Box::new(sharding)), ..self.job.assignment().next() };
        Write::Put { key: keys::assignment(self.job.name()), value: encode(&place), owner: None }
    }

    /// The write of a run state's next version.
    pub(crate) fn put_run_state(&self, member: &Member, run_state: &ShardRunState) -> Write {
        let key = keys::shard_run_state(self.job.name(), member);
        Write::Put { key, value: encode(run_state), owner: None }
    }

    /// A transaction that also guards on this node's membership and on the assignment as it is known.
    pub(crate) fn txn(&self, guards: impl IntoIterator<Item = Guard>, writes: Vec<Write>) -> Txn {
        let ours = self.ctx.born().into_iter().chain([self.job.assignment_guard()]);
        Txn { guards: ours.chain(guards).collect(), writes }
    }

    /// The commit scope of its transactions.
    pub(crate) fn scope(&self) -> CommitScope {
        CommitScope::Job(self.job.id)
    }
}
