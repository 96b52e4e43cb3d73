//! Checks accepted transactions, entry by entry: the owners of jobs, declarations and locks.

use std::collections::BTreeMap;

use evenkeel_core::commit_kind::CommitKind;
use evenkeel_core::ids::{JobName, LockName, Member, NodeName};
use evenkeel_core::keys::{self, ParsedKey, parse};
use evenkeel_core::labels::NodeSelector;
use evenkeel_core::record::{
    Assignment, LockRecord, NodeSwitches, Plan, RunState, SpecRecord, TriggerRecord, decode,
};
use evenkeel_core::registry::{Change, Guard, Write};
use evenkeel_core::store::Store;

use super::{
    CommittedTxn, Invariant, InvariantChecker, InvariantResults, JobTrack, MemberOnHost, RecordedVerdicts,
    pools, sharding,
};

/// Whether a later incarnation of this member's node is a member.
fn has_successor(store: &Store, member: &Member) -> bool {
    store.entries().filter_map(|(key, _)| parse(key)).any(|found| match found {
        ParsedKey::Node(other) => other.node == member.node && other.incarnation > member.incarnation,
        _ => false,
    })
}

impl InvariantChecker {
    /// Records a transaction that the registry answered.
    pub(crate) fn committed(&mut self, act: &CommittedTxn<'_>, store: &Store, history: &RecordedVerdicts) {
        let succeeded = act.kind == CommitKind::Join
            && act.applied
            && self
                .ticket_member(act)
                .as_ref()
                .is_some_and(|m| self.removed.contains(m) || has_successor(store, m));
        self.ticket_served(act, succeeded);
        if !act.applied {
            return;
        }
        let member = self.ticket_member(act);
        let act = &CommittedTxn { member: member.as_ref(), ..*act };
        let lives = |m: &Member| store.entry(&keys::node(m)).is_some();
        let written: Vec<(ParsedKey, &Write)> =
            act.txn.writes.iter().filter_map(|write| Some((parse(write.key())?, write))).collect();
        self.check_layout(act, &written, store);
        self.peers_written(act, &written, store, lives);
        let mut plans = Vec::new();
        let mut run_states = Vec::new();
        let mut places = Vec::new();
        let mut shares: BTreeMap<JobName, sharding::ShardRunStateWrite> = BTreeMap::new();
        for (what, write) in written {
            let value = if let Write::Put { value, .. } = write { Some(value) } else { None };
            if let ParsedKey::ShardRunState(job, member) = what {
                let run_state = value.and_then(|value| decode(value));
                shares.entry(job).or_default().push((member, run_state));
                continue;
            }
            let Some(value) = value else { continue };
            match what {
                ParsedKey::RunState(job) => {
                    run_states.extend(decode::<RunState>(value).map(|run_state| (job, run_state)))
                }
                ParsedKey::Plan(job) => plans.extend(decode::<Plan>(value).map(|plan| (job, plan))),
                ParsedKey::Assignment(job) => {
                    places.extend(decode::<Assignment>(value).map(|place| (job, place)))
                }
                ParsedKey::Spec(job) => self.declared(act, &job, decode(value)),
                ParsedKey::Triggers(job) => self.requested(act, &job, decode(value)),
                ParsedKey::Lock(lock) => self.lock_written(act, &lock, decode(value), lives),
                ParsedKey::Calendar(name) => self.calendar_written(act, &name, decode(value)),
                ParsedKey::Namespace(name) => self.namespace_written(name, decode(value)),
                ParsedKey::Switches(node, job) => self.switched(node, job, decode(value)),
                _ => {}
            }
        }
        let mut before = BTreeMap::new();
        for (job, place) in places {
            if place.sharding.is_some() {
                shares.entry(job.clone()).or_default();
            }
            let old = self.assignment_written(act, &job, place, lives);
            before.insert(job, old);
        }
        for (job, written) in shares {
            let now = || self.jobs.get(&job).map(|b| b.assignment.clone()).unwrap_or_default();
            let place = before.get(&job).cloned().unwrap_or_else(now);
            self.sharding_written(act, &job, &place, written, &lives, history);
        }
        for (job, plan) in plans {
            self.plan_written(act, &job, plan, store, history);
        }
        for (job, run_state) in run_states {
            let now = || self.jobs.get(&job).map(|b| b.assignment.clone()).unwrap_or_default();
            let place = before.remove(&job).unwrap_or_else(now);
            let holder_lives = place.owner.as_ref().is_some_and(lives);
            self.run_state_written(act, &job, run_state, place, holder_lives, history);
        }
    }

    fn declared(&mut self, act: &CommittedTxn<'_>, job: &JobName, record: Option<SpecRecord>) {
        let book = self.jobs.entry(job.clone()).or_default();
        book.changed = act.at;
        let version = |record: &SpecRecord| record.version();
        let key = keys::spec(job);
        let stood = act.before.iter().find(|c| c.key == key).and_then(|c| c.entry.as_ref());
        let old = stood.and_then(|entry| decode::<SpecRecord>(&entry.value)).as_ref().map_or(0, version);
        let new = record.as_ref().map_or(0, version);
        self.findings.test(act.at, Invariant::I8, new > book.version, || {
            format!("version {new} of {job} was written after {}", book.version)
        });
        self.findings.test(act.at, Invariant::I9, new == old + 1, || {
            format!("version {new} of {job} was written over {old}")
        });
        book.version = new;
        match record {
            Some(SpecRecord::Live(spec)) => {
                book.since = spec.since;
                (book.delivery, book.placement) = (spec.job.delivery, spec.job.placement.kind());
                book.note_nodes(act.at, &spec.job.node_selector);
                book.unmonitored = !spec.job.placement.is_monitored();
                book.retry.clone_from(&spec.job.retry);
                book.limits = pools::limits_of(&spec.job, &self.runs_max);
                book.spec = Some(*spec);
                book.deleted = None;
                book.put_under(&self.calendars);
            }
            _ => {
                book.note_nodes(act.at, &NodeSelector::default());
                (book.spec, book.schedule) = (None, None);
                book.deleted = Some(act.at);
            }
        }
    }

    fn switched(&mut self, node: NodeName, job: JobName, switches: Option<NodeSwitches>) {
        if switches.is_some_and(|switches| switches.paused) {
            self.jobs.entry(job).or_default().sharding.paused.insert(node);
        }
    }

    fn requested(&mut self, act: &CommittedTxn<'_>, job: &JobName, record: Option<TriggerRecord>) {
        let book = self.jobs.entry(job.clone()).or_default();
        for request in record.into_iter().flat_map(|record| record.requests) {
            book.requested.entry(request.id).or_insert(act.at);
        }
    }

    /// Returns the assignment before the write.
    fn assignment_written(
        &mut self,
        act: &CommittedTxn<'_>,
        job: &JobName,
        new: Assignment,
        lives: impl Fn(&Member) -> bool,
    ) -> Assignment {
        let Self { findings, jobs, .. } = self;
        let book = jobs.entry(job.clone()).or_default();
        let at = act.at;
        let old = std::mem::replace(&mut book.assignment, new.clone());
        if old.owner != new.owner {
            book.holder_changed(act, job, &old, lives, findings);
        }
        findings.test(at, Invariant::I1, new.epoch > old.epoch, || {
            format!("{job}: epoch {} was written over {}", new.epoch, old.epoch)
        });
        old
    }

    fn lock_written(
        &mut self,
        act: &CommittedTxn<'_>,
        lock: &LockName,
        record: Option<LockRecord>,
        lives: impl Fn(&Member) -> bool,
    ) {
        let Some(record) = record else { return };
        let key = keys::lock(lock);
        let stood = act.before.iter().find(|c| c.key == key).and_then(|c| c.entry.as_ref());
        let old: LockRecord = stood.and_then(|e| decode(&e.value)).unwrap_or_default();
        let mine = old.holder.as_ref() == act.member;
        let gone = old.holder.as_ref().is_none_or(|o| !lives(o));
        self.findings.test(act.at, Invariant::I10, mine || gone, || {
            format!("{:?} took lock {lock} from {:?}, which lives", act.member, old.holder)
        });
        let Some(holder) = record.holder else { return };
        let token = self.past.token(record.seq);
        let before = self.lock_tokens.insert((lock.clone(), token), holder.clone());
        self.findings.test(act.at, Invariant::I1, before.is_none() && record.seq > old.seq, || {
            format!("token {token} of lock {lock} went to {holder} after {before:?}")
        });
    }

    /// Records that the guard of a dead process removes this member.
    pub(crate) fn removed_by_guard(&mut self, member: &Member) {
        self.removed.insert(member.clone());
    }

    /// Records a change of an entry of the registry; for a member's end, with what its host knows of it.
    pub(crate) fn changed(
        &mut self,
        at: i64,
        change: &Change,
        closed_by: Option<&Member>,
        on_host: Option<&MemberOnHost>,
    ) {
        let Some(ParsedKey::Node(member)) = parse(&change.key) else { return };
        if change.entry.is_some() {
            // A rewound registry may give a number once more.
            self.gone.remove(&member);
            return;
        }
        self.gone.insert(member.clone());
        let Some(on_host) = on_host else { return };
        let by_itself = closed_by.is_some_and(|m| m.node == member.node);
        // No member does anything before all others have noticed the rewind of the registry.
        if !self.past.is_founded() {
            return;
        }
        self.findings.test(at, Invariant::I4, !on_host.trusts_lease || by_itself, || {
            format!("the lease of {member} ended while it still trusts it")
        });
        self.findings.test(at, Invariant::I4, on_host.run.is_none(), || {
            format!("the lease of {member} ended while {:?} still runs", on_host.run)
        });
    }
}

impl JobTrack {
    /// Records that the job has another owner than before, or none.
    fn holder_changed(
        &mut self,
        act: &CommittedTxn<'_>,
        job: &JobName,
        old: &Assignment,
        lives: impl Fn(&Member) -> bool,
        findings: &mut InvariantResults,
    ) {
        let (at, me) = (act.at, act.member);
        for lost in taken_from(act) {
            let first = self.rescued.insert(lost.clone());
            findings.test(at, Invariant::I21, first, || format!("{job} was taken over from {lost} twice"));
        }
        let gone = old.owner.as_ref().is_none_or(|o| !lives(o));
        let mine = old.owner.as_ref() == me;
        findings.test(at, Invariant::I10, gone || mine, || {
            format!("{me:?} took {job} from {:?}, which lives ({})", old.owner, act.kind)
        });
        let Some(owner) = &self.assignment.owner else { return };
        let enabled = self.spec.as_ref().is_some_and(|s| s.job.enabled);
        // The open run of a lost node is recorded in history first, even if the job is disabled; so is a waiting run.
        findings.test(at, Invariant::I41, enabled || old.owner.is_some() || old.waits, || {
            format!("{owner} claimed {job}, which is not enabled")
        });
        let itself = Some(owner) == me;
        findings.test(at, Invariant::I10, itself, || format!("{me:?} claimed {job} for {owner}"));
    }
}

/// The lost members whose absence guards a takeover.
fn taken_from(act: &CommittedTxn<'_>) -> impl Iterator<Item = Member> {
    let guards = act.txn.guards.iter().filter(|_| act.kind == CommitKind::TakeOver);
    guards.filter_map(|guard| match guard {
        Guard::Absent(key) => match parse(key) {
            Some(ParsedKey::Node(member)) => Some(member),
            _ => None,
        },
        _ => None,
    })
}
