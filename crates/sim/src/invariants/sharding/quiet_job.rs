//! Checks sharded jobs at rest: faults have ended, time has passed, and the assignments should fit the nodes.

use std::collections::BTreeSet;

use evenkeel_core::effect::{StopReason, VerdictState};
use evenkeel_core::ids::{Fire, JobName, Member, Shard};
use evenkeel_core::input::RunOutcome;
use evenkeel_core::job::{Delivery, Spec};
use evenkeel_core::keys;
use evenkeel_core::record::{Attempt, NodeSwitches, Sharding, TriggerRecord, decode};
use evenkeel_core::time::{Millis, Wall};

use super::super::quiet_facts::{CLOSING, PROMPT, QuietCluster};
use super::super::tracks::FireClosure;
use super::super::{Invariant, InvariantResults, JobTrack};
use super::reshards::declared_total;
use crate::world::SimWorld;
use crate::world::clock::START;

/// A sharded job after everything has healed.
struct QuietShardedJob<'a> {
    rest: &'a QuietCluster<'a>,
    name: &'a JobName,
    track: &'a JobTrack,
    sharding: Sharding,
    /// The eligible members, as the registry truly has them.
    available: BTreeSet<Member>,
    now: Wall,
}

/// Checks one sharded job.
pub(in crate::invariants) fn check_quiet_job(
    rest: &QuietCluster<'_>,
    world: &SimWorld,
    name: &JobName,
    book: &JobTrack,
    findings: &mut InvariantResults,
) {
    let switched_off = |member: &Member| {
        let entry = world.store().read(&[keys::switches(&member.node, name)]).pop().and_then(|c| c.entry);
        let switches: NodeSwitches = entry.and_then(|entry| decode(&entry.value)).unwrap_or_default();
        switches.disabled || switches.shutdown == Some(member.incarnation)
    };
    let off = |member: &&Member| {
        rest.drained.contains(&member.node) || switched_off(member) || !rest.fits(book, member)
    };
    let ctx = QuietShardedJob {
        rest,
        name,
        track: book,
        sharding: book.assignment.sharding.as_deref().cloned().unwrap_or_default(),
        available: rest.members.iter().filter(|member| !off(member)).cloned().collect(),
        now: Wall(START.0 + rest.at),
    };
    ctx.leader(findings);
    ctx.left_behind(findings);
    ctx.fires(findings);
    let Some(spec) = book.spec.as_ref().filter(|spec| spec.job.enabled && !ctx.available.is_empty()) else {
        return;
    };
    ctx.check_reshard_pending(spec, findings);
    ctx.check_assignments(spec, findings);
    ctx.watermarks(spec, findings);
    ctx.requests(spec, world, findings);
}

impl QuietShardedJob<'_> {
    /// There is a leader exactly if there is a candidate.
    fn leader(&self, findings: &mut InvariantResults) {
        let (at, name, leader) = (self.rest.at, self.name, self.sharding.leader.as_ref());
        let enabled = self.track.spec.as_ref().is_some_and(|spec| spec.job.enabled);
        let right = match leader {
            None => !enabled || self.available.is_empty(),
            Some(leader) if self.rest.members.contains(leader) => enabled && self.available.contains(leader),
            Some(_) => enabled && self.available.is_empty(),
        };
        findings.test(at, Invariant::I12, right, || {
            format!(
                "{name} is led by {leader:?}, enabled: {enabled}, those that take part: {:?}",
                self.available
            )
        });
    }

    /// No member that is gone has open runs that another could have taken over; and nothing is open for long.
    fn left_behind(&self, findings: &mut InvariantResults) {
        let (at, name) = (self.rest.at, self.name);
        let spec = self.track.spec.as_ref();
        let repeats = spec.is_some_and(|s| s.job.enabled && s.job.delivery == Delivery::AtLeastOnce);
        let capacity = (!repeats && self.track.retry.is_none())
            || (!self.available.is_empty() && (self.rest.workload.roomy || !self.is_static()));
        let longest = Millis(self.rest.longest() + CLOSING);
        for (member, run_state) in &self.track.sharding.run_states {
            let lives = self.rest.members.contains(member);
            if capacity {
                findings.test(at, Invariant::I21, lives || run_state.open.is_empty(), || {
                    format!("no node took over what {member} left of {name}: {:?}", run_state.open)
                });
            }
            let prompt = self.rest.workload.roomy || !self.track.limits.is_empty();
            let permit = |open: &Attempt, shard| {
                self.rest.waits_for_permit((name, self.track), (&open.fire, shard), &member.node)
            };
            let waits = |open: &Attempt| open.shards.iter().any(|shard| permit(open, shard));
            for open in run_state.open.iter().filter(|open| lives && prompt && !waits(open)) {
                findings.test(at, Invariant::I53, open.starts_at() + longest >= self.now, || {
                    format!("{name} is open since long at {member}: {open:?}")
                });
            }
            for verdict in run_state.verdicts.iter().filter(|v| v.state == VerdictState::Lost) {
                let known = self.rest.verdicts.contains_key(&(verdict.run.clone(), verdict.attempt));
                findings.test(at, Invariant::I53, known, || format!("history never got {verdict:?}"));
            }
        }
    }

    fn is_static(&self) -> bool {
        self.track.spec.as_ref().is_some_and(|spec| spec.job.placement.has_sticky_shards())
    }

    /// No reshard stays pending beyond a fire that it holds back, except while runs are awaited.
    fn check_reshard_pending(&self, spec: &Spec, findings: &mut InvariantResults) {
        let bound = reshard_timeout(spec) + Millis(PROMPT);
        let waits =
            self.sharding.reshard_pending.filter(|_| self.track.fires_by_schedule()).is_some_and(|mark| {
                let schedule = self.track.schedule.as_ref();
                // The member that wrote it may have had a wrong clock.
                let since = self.track.sharding.reshard_since.map_or(mark.since, |at| Wall(START.0 + at));
                // Fires claimed ahead before are not held back.
                let claimed =
                    self.track.sharding.standing.held.values().map(|(_, watermark)| *watermark).min();
                let floor = since.max(spec.since).max(claimed.unwrap_or(since));
                schedule.is_some_and(|schedule| schedule.latest(floor, self.now - bound).is_some())
            });
        findings.test(self.rest.at, Invariant::I13, !waits, || {
            format!("{} is marked since long: {:?}", self.name, self.sharding.reshard_pending)
        });
    }

    /// Without a pending reshard the assignments fit the nodes, and each shard has an eligible member.
    fn check_assignments(&self, spec: &Spec, findings: &mut InvariantResults) {
        let (at, name, shard_map) = (self.rest.at, self.name, &self.sharding.shard_map);
        if self.sharding.reshard_pending.is_some() {
            return;
        }
        let among: BTreeSet<Member> = shard_map.among.iter().cloned().collect();
        let total = declared_total(&spec.job, shard_map);
        let fits = shard_map.total == total && (self.is_static() || among == self.available);
        findings.test(at, Invariant::I31, fits, || {
            format!(
                "{name} has {total} shards for {:?}, and was cut into {} for {among:?}",
                self.available, shard_map.total
            )
        });
        if self.is_static() {
            return;
        }
        let standing = &self.track.sharding.standing;
        let all: BTreeSet<Shard> = (0..total).map(Shard).collect();
        let held: BTreeSet<Shard> = standing.held.keys().copied().collect();
        findings.test(at, Invariant::I27, held == all, || format!("{name}: of {all:?} {held:?} are held"));
        for (shard, (holder, _)) in &standing.held {
            let right = self.available.contains(holder) || standing.open.contains_key(shard);
            findings.test(at, Invariant::I27, right, || {
                format!("shard {shard} of {name} is {holder}'s, who takes no part")
            });
        }
    }

    /// The watermarks keep up with time.
    fn watermarks(&self, spec: &Spec, findings: &mut InvariantResults) {
        let Some(schedule) = self.track.schedule.as_ref().filter(|_| self.track.fires_by_schedule()) else {
            return;
        };
        let swarm = self.rest.workload;
        let recut = reshard_timeout(spec).0;
        let light = self.rest.is_light(self.track, self.now);
        let runs =
            i64::try_from(swarm.jobs.iter().map(|job| job.shards as usize).sum::<usize>()).unwrap_or(1);
        let queue = if swarm.roomy { 1 } else { runs };
        let longest = self.rest.longest() + CLOSING;
        let busy = self.track.grace(self.rest.ttl).0 + 2 * queue * longest + recut;
        let slack = self.track.spread() + self.track.retrying(longest) + if light { PROMPT } else { busy };
        let floor = spec.since.max(Wall(START.0 + self.track.changed));
        let Some(due) = schedule.latest(floor, self.now - Millis(slack)) else { return };
        let shard_map = self.track.assignment.sharding.as_deref().map(|sharding| &sharding.shard_map);
        for (shard, (holder, watermark)) in &self.track.sharding.standing.held {
            // A sticky shard waits for its node, also after another member took its last run over.
            let owner = shard_map.and_then(|shard_map| shard_map.holder(*shard)).unwrap_or(holder);
            if self.is_static() && !(self.available.contains(holder) && self.available.contains(owner)) {
                continue;
            }
            findings.test(self.rest.at, Invariant::I16, *watermark >= due, || {
                format!(
                    "the fire of {} due at {due} was never claimed for shard {shard} by {holder}: its watermark is {watermark}",
                    self.name
                )
            });
        }
    }

    /// Every claimed fire of a shard has an outcome in history.
    fn fires(&self, findings: &mut InvariantResults) {
        let (at, book) = (self.rest.at, self.track);
        let calm = self.rest.workload.calm_jobs.contains(self.name);
        let open = |fire: &Fire, shard: Shard| {
            book.sharding.standing.open.get(&shard).is_some_and(|(_, open)| open.fire == *fire)
        };
        let claimed =
            book.sharding.fires.iter().filter(|((fire, shard), f)| f.claimed && !open(fire, *shard));
        for ((fire, shard), record) in claimed {
            let run = || format!("{}: {fire:?} of shard {shard}", self.name);
            findings.test(at, Invariant::I22, record.closed.is_some(), || {
                format!("{} has no final state", run())
            });
            let Some((attempt, last)) = record.attempts.last_key_value() else { continue };
            if record.closed == Some(FireClosure::Lost) {
                let all = || self.rest.verdicts.values().chain(book.sharding.standing.verdicts.values());
                let told = all().any(|v| {
                    v.run.job == *self.name
                        && v.run.fire == *fire
                        && v.attempt == *attempt
                        && v.shards.contains(*shard)
                });
                findings.test(at, Invariant::I16, told, || {
                    format!("{} is lost and history does not say so", run())
                });
            }
            if calm && book.stands(fire) && book.delivery == Delivery::AtLeastOnce {
                let fenced = last.ended == Some(RunOutcome::Stopped(StopReason::Fenced));
                let ran = record.closed == Some(FireClosure::Finished) && last.ended.is_some() && !fenced;
                findings.test(at, Invariant::I19, ran, || {
                    format!("{} is at_least_once and never ran to its end", run())
                });
            }
        }
    }

    /// Every accepted request ran on every shard, or was refused there because the shard was running.
    fn requests(&self, spec: &Spec, world: &SimWorld, findings: &mut InvariantResults) {
        if !self.rest.workload.calm_jobs.contains(self.name) || self.is_static() {
            return;
        }
        if spec.job.placement.is_broadcast() {
            return self.broadcast_requests(world, findings);
        }
        for id in self.track.requested.keys() {
            for shard in (0..spec.job.placement.shards()).map(Shard) {
                let key = (Fire::Asked(id.clone()), shard);
                let taken = self.track.sharding.fires.get(&key).is_some_and(|fire| fire.claimed)
                    || self.track.sharding.refused.contains(&key);
                findings.test(self.rest.at, Invariant::I24, taken, || {
                    format!("the request {id} never ran on shard {shard} of {}", self.name)
                });
            }
        }
    }

    /// If numbers of nodes change, no request waits for a number that no node has.
    fn broadcast_requests(&self, world: &SimWorld, findings: &mut InvariantResults) {
        let entry = world.store().read(&[keys::triggers(self.name)]).pop().and_then(|change| change.entry);
        let record: TriggerRecord = entry.and_then(|entry| decode(&entry.value)).unwrap_or_default();
        for request in record.requests.iter().filter(|request| request.node.is_none()) {
            findings.test(self.rest.at, Invariant::I24, request.taken, || {
                format!("the request {} of {} waits for ever: {request:?}", request.id, self.name)
            });
        }
    }
}

/// How long a reshard of the job waits for running shards.
fn reshard_timeout(spec: &Spec) -> Millis {
    spec.job.placement.members().map_or(Millis::ZERO, |members| members.reshard_timeout)
}
