//! The local state of a node: what it remembers that is not in the registry, in parts that keep their own invariants.

use crate::ids::Member;
use crate::lease::Lease;
use crate::load::HostLoad;
use crate::settings::Settings;
use crate::time::{Millis, Mono};
use crate::view::JobId;

mod announced_events;
mod availability;
mod claim_lead;
mod commit_counts;
mod commit_pacer;
mod commits_in_flight;
mod fair_queue;
mod given_runs;
mod inherited_runs;
mod job_checks;
mod leadership_state;
mod membership;
mod offered_runs;
mod open_commands;
mod peer_contacts;
mod permit_waiters;
mod planning_state;
mod registry_reads;
mod sent_verdicts;

pub use announced_events::AnnouncedEvents;
pub use availability::Availability;
pub use claim_lead::ClaimLead;
pub use commits_in_flight::{CommitScope, CommitsInFlight, PendingCommit};
pub use fair_queue::{FairQueue, Waiter};
pub use given_runs::{Given, GivenRuns, ShardRunCounts};
pub use inherited_runs::InheritedRuns;
pub use job_checks::JobChecks;
pub use leadership_state::{LeaderTerm, LeadershipState};
pub use membership::OwnMembership;
pub use offered_runs::{OfferState, OfferedRuns, SentOffer};
pub use open_commands::{CommandItem, CommandTerms, ItemOutcome, OpenCommands, PendingCommand};
pub use peer_contacts::{Contact, PeerContacts};
pub use permit_waiters::PermitWaiters;
pub use planning_state::{PlacedRun, PlanningState};
pub(crate) use registry_reads::LISTING_PATIENCE;
pub use registry_reads::RegistryReads;
pub use sent_verdicts::SentVerdicts;

/// The state that a node keeps for itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Local {
    /// As given at the start.
    pub(crate) settings: Settings,
    /// The lease.
    pub(crate) lease: Lease,
    /// The life in which this node is a member.
    pub(crate) membership: OwnMembership,
    /// Whether it does its work, wants to end, or is about to be handed off.
    pub(crate) availability: Availability,
    /// The load of this host, as it was last measured.
    pub(crate) host_load: HostLoad,
    /// Its peers, as it observed them.
    pub(crate) peers: PeerContacts,
    /// The lead of the cluster, as it was last seen.
    pub(crate) leadership: LeadershipState,
    /// Jobs whose runs it has to place.
    pub(crate) planning: PlanningState,
    /// Offers of planned runs, made and received.
    pub(crate) offers: OfferedRuns,
    /// Commits in flight.
    pub(crate) commits: CommitsInFlight,
    /// How long before its due moment a fire is claimed.
    pub(crate) claim_lead: ClaimLead,
    /// Listings, and reads in flight.
    pub(crate) reads: RegistryReads,
    /// Runs given to executors.
    pub(crate) runs: GivenRuns,
    /// Runs and entries of an earlier program of this process.
    pub(crate) inherited: InheritedRuns,
    /// Verdicts handed to the history.
    pub(crate) verdicts: SentVerdicts,
    /// Commands without an answer, and the locks taken by commands.
    pub(crate) commands: OpenCommands,
    /// Events that were announced and still hold.
    pub(crate) announced: AnnouncedEvents,
    /// Jobs to look at.
    pub(crate) checks: JobChecks,
    /// Jobs due but without a slot, in a fair order: the first one gets the next slot.
    pub(crate) slot_waiters: FairQueue,
    /// Jobs that wait for a permit of a pool.
    pub(crate) permit_waiters: PermitWaiters,
}

impl Local {
    /// The state of a node that just started.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            lease: Lease::new(settings.ttl, settings.early),
            membership: OwnMembership::new(settings.predecessor),
            claim_lead: ClaimLead::new(settings.lead_min, settings.lead_max),
            settings,
            availability: Availability::default(),
            host_load: HostLoad::default(),
            peers: PeerContacts::default(),
            leadership: LeadershipState::default(),
            planning: PlanningState::default(),
            offers: OfferedRuns::default(),
            commits: CommitsInFlight::default(),
            reads: RegistryReads::default(),
            runs: GivenRuns::default(),
            inherited: InheritedRuns::default(),
            verdicts: SentVerdicts::default(),
            commands: OpenCommands::default(),
            announced: AnnouncedEvents::default(),
            checks: JobChecks::default(),
            slot_waiters: FairQueue::default(),
            permit_waiters: PermitWaiters::default(),
        }
    }

    /// The settings, as given at the start.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The lease.
    #[must_use]
    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// The life in which this node is a member.
    #[must_use]
    pub fn membership(&self) -> &OwnMembership {
        &self.membership
    }

    /// Whether it does its work, wants to end, or is about to be handed off.
    #[must_use]
    pub fn availability(&self) -> &Availability {
        &self.availability
    }

    /// The load of this host, as it was last measured.
    #[must_use]
    pub fn host_load(&self) -> HostLoad {
        self.host_load
    }

    /// Its peers, as it observed them.
    #[must_use]
    pub fn peers(&self) -> &PeerContacts {
        &self.peers
    }

    /// The jobs whose runs it has to place.
    #[must_use]
    pub fn planning(&self) -> &PlanningState {
        &self.planning
    }

    /// The commits in flight.
    #[must_use]
    pub fn commits(&self) -> &CommitsInFlight {
        &self.commits
    }

    /// How long before its due moment a fire is claimed.
    #[must_use]
    pub fn claim_lead(&self) -> Millis {
        self.claim_lead.lead()
    }

    /// The runs given to executors.
    #[must_use]
    pub fn runs(&self) -> &GivenRuns {
        &self.runs
    }

    /// How many jobs have a due fire that waits for a slot.
    #[must_use]
    pub fn waiting_for_slot(&self) -> usize {
        self.slot_waiters.len()
    }

    /// The jobs with a due fire that waits for a slot.
    pub fn slot_waiters(&self) -> impl Iterator<Item = JobId> {
        self.slot_waiters.ids()
    }

    /// How many jobs wait for a permit of a pool or a namespace; one that waits for two counts twice.
    #[must_use]
    pub fn waiting_for_permit(&self) -> usize {
        self.permit_waiters.waiting()
    }

    /// The commands without an answer, and the locks taken by commands.
    #[must_use]
    pub fn commands(&self) -> &OpenCommands {
        &self.commands
    }

    /// Whether the node should give up what it can: it leaves, or has been unable to work for two terms of its lease.
    #[must_use]
    pub fn gives_up(&self, now: Mono) -> bool {
        self.availability.gives_up(self.lease.ttl(), now)
    }

    /// Whether the node is a member and its lease is trusted.
    pub(crate) fn is_trusted_member(&self, now: Mono) -> bool {
        self.membership.is_joined() && self.lease.trusted(now).is_some()
    }

    /// Whether entries of this job may be read now: they are not being read, and no read of them failed just now.
    pub(crate) fn may_read(&self, job: JobId) -> bool {
        !self.reads.is_reading(job) && !self.checks.is_put_off(job)
    }

    /// Joins the cluster as this member: what an earlier life announced about it counts for nothing in this one.
    pub(crate) fn join(&mut self, member: Member) {
        self.membership.join(member);
        self.announced.forget_life();
    }

    /// Notes that an entry of a job was read. The job is looked at also if the entry was known already: something else
    /// may have waited for the answer.
    pub(crate) fn was_read(&mut self, job: JobId) {
        self.reads.was_read(job);
        self.inherited.was_read(job);
        self.offers.was_read(job);
        self.checks.check(job);
    }

    /// Ends all reads after a failure: none of those jobs is read again before this moment.
    pub(crate) fn reads_failed(&mut self, again: Mono) {
        self.reads.put_off_loads(again);
        self.checks.put_off_all(self.reads.end_reading(), again);
    }

    /// Looks at a job again; what was refused for it may be tried again.
    pub(crate) fn recheck(&mut self, job: JobId) {
        self.commits.forget_refused(&CommitScope::Job(job));
        self.checks.check(job);
    }

    /// Takes a job that is looked at from the queues. It keeps only the place that this look asks for.
    pub(crate) fn leave_queues(&mut self, job: JobId) {
        self.slot_waiters.leave(job);
        self.permit_waiters.forget(job);
    }

    /// Ends a step in the queues.
    pub(crate) fn settle_queues(&mut self) {
        self.slot_waiters.settle();
        self.permit_waiters.settle();
    }

    /// Clears the state of the life that the lease carried. Returns whether the node was a member in it.
    pub(crate) fn end_life(&mut self) -> bool {
        let was_member = self.membership.lose();
        // A run that has ended only waited for its registry entry to be closed, which is not ours any more.
        self.runs.forget_ended();
        // One that still executes must end in the next life, whichever node owns its job then.
        self.checks.check_all(self.runs.iter().map(|(job, _)| job));
        self.checks.forget_waits();
        self.inherited.forget_unread();
        self.commands.forget_locks();
        self.commits.forget_all_refused();
        self.verdicts.clear();
        self.reads.end_reading();
        self.slot_waiters = FairQueue::default();
        self.permit_waiters.clear();
        self.peers.end_life();
        self.planning.clear();
        self.offers.clear();
        was_member
    }
}
