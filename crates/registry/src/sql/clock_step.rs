//! Detects steps of the server's clock: each writer compares it with a clock of its own.
//!
//! Leases are counted by the server's calendar clock, the only one that all nodes share, and an operator may set it.
//! A clock set forward would end every lease though each was renewed a moment ago. So each writer checks it all the
//! time: an advance by more than can have passed is a step, and the next writer moves the ends of all leases with it.

use evenkeel_core::time::{Millis, Mono};
use sqlx::Error;
use std::time::Duration;

use super::config::SqlConfig;
use super::connection::SqlConnection;
use super::statement::SqlStatement;
use crate::clock::{Clock, HostClock};

/// How often an idle writer checks.
pub(super) const LOOK: Duration = Duration::from_millis(500);

/// What two clocks may differ by between two checks.
const SLACK: i64 = 100;

/// The longest unobserved time that may hide a step: a writer that checks all the time misses no more.
const HIDDEN: i64 = 500;

/// By how much a clock that is set forward may end a lease early: such a step looks like time that passed.
pub(super) const MISSED: Millis = Millis(HIDDEN + SLACK);

/// How long a new writer lets the others act first, for they may have observed what it has not.
const WAIT: i64 = 1_500;

/// How often it checks meanwhile whether they did.
const AGAIN: Duration = Duration::from_millis(100);

/// One reading, all in milliseconds: the time of the last act and the present time, both by the server, and
/// the own clock before the query and after the answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServerClockReading {
    pub(super) clock: i64,
    pub(super) now: i64,
    pub(super) sent_at: Mono,
    pub(super) received_at: Mono,
}

/// A process's latest observation of the server's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClockObservation {
    now: i64,
    sent_at: Mono,
    /// When it began to observe, by both clocks.
    since: (i64, Mono),
    /// Whether every step before that has been handled.
    certain: bool,
}

/// The adjustment of leases that comes before anything else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LeaseAdjustment {
    /// The time of the last act; leases that ended by then end.
    pub(super) clock: i64,
    /// By how much the ends of all leases move.
    pub(super) step: i64,
    /// For how long no writer acted, and for how long of it no writer observed the server either.
    pub(super) away: i64,
    pub(super) unobserved: i64,
}

/// The time by the own clock, which counts suspend and never steps.
pub(super) fn mono() -> Mono {
    HostClock.now().mono
}

impl ClockObservation {
    /// The first observation. If others may have been waiting to act for long, they go first: a writer that starts
    /// right after a step must not take it for time.
    pub(super) async fn observe_first(link: &mut SqlConnection, config: &SqlConfig) -> Result<Self, Error> {
        let (meta, now) = (&config.tables.meta, config.dialect.sql.now);
        let select = format!("SELECT clock, {now}, (SELECT min(ttl) FROM {}) FROM ", config.tables.lease);
        let mut observation: Option<Self> = None;
        loop {
            let asked = mono();
            let row = link.ask_one(SqlStatement::new(config.dialect, &select).then(meta)).await?;
            let reading = ServerClockReading {
                clock: row.int(0)?,
                now: row.int(1)?,
                sent_at: asked,
                received_at: mono(),
            };
            let shortest = row.optional_int(2)?;
            let first = observation.is_none();
            let seen = observation.unwrap_or_else(|| Self::new(&reading, shortest.is_none()));
            let seen = seen.observe(reading.now, asked, reading.received_at).unwrap_or(seen);
            let may_be_over = shortest.is_some_and(|ttl| is_over_half(ttl, reading.now - reading.clock));
            if seen.is_certain(&reading) || first && !may_be_over {
                return Ok(seen);
            }
            observation = Some(seen);
            tokio::time::sleep(AGAIN).await;
        }
    }

    fn new(reading: &ServerClockReading, sure: bool) -> Self {
        let ServerClockReading { clock, now, sent_at: asked, .. } = *reading;
        Self { now, sent_at: asked, since: (now, asked), certain: sure || now - clock <= HIDDEN }
    }

    /// Whether it may end leases: others have acted since it observes, or would have.
    fn is_certain(&self, reading: &ServerClockReading) -> bool {
        let (now, mono) = self.since;
        self.certain || reading.clock >= now || (reading.received_at - mono).0 >= WAIT
    }

    /// How much more the server's clock advanced than can have passed.
    fn excess(&self, from: i64, reading: &ServerClockReading) -> i64 {
        reading.now - from - (reading.received_at - self.sent_at).0
    }

    /// Whether it is time to observe again, though the writer is not idle.
    pub(super) fn is_old(&self, now: Mono) -> bool {
        (now - self.sent_at).0 > HIDDEN
    }

    /// Another observation, by an idle writer; `None` when a step has to be handled.
    pub(super) fn observe(&self, now: i64, asked: Mono, heard: Mono) -> Option<Self> {
        let reading = ServerClockReading { clock: now, now, sent_at: asked, received_at: heard };
        (self.excess(self.now, &reading) <= SLACK).then_some(Self { now, sent_at: asked, ..*self })
    }

    /// Evaluates a reading: the adjustment to make, and the observation once that is done.
    pub(super) fn evaluate(&self, reading: &ServerClockReading) -> (LeaseAdjustment, Self) {
        let ServerClockReading { clock, now, sent_at: asked, received_at: heard } = *reading;
        if now < clock {
            // The clock was set back, which shows without an observation: no time passed.
            let passed = LeaseAdjustment { clock: now, step: now - clock, ..LeaseAdjustment::default() };
            return (passed, Self { now, sent_at: asked, since: self.since, certain: true });
        }
        // Others acted after it stopped observing, which was long ago: it knows no more than a new writer.
        // But if the server was away from all, the writer that observed right before that knows.
        let blind = clock - self.now > 2 * HIDDEN && (heard - self.sent_at).0 > WAIT;
        let old = if blind { Self::new(reading, false) } else { *self };
        let stepped = old.excess(old.now, reading);
        if !old.is_certain(reading) {
            // A writer that knows better handles it by the stored state, so that stays.
            let seen = if stepped > SLACK { old } else { Self { now, sent_at: asked, ..old } };
            return (LeaseAdjustment { clock, ..LeaseAdjustment::default() }, seen);
        }
        let latest = clock.max(old.now);
        // Only what certainly lies behind the last act: another writer has handled the rest.
        let step = if old.excess(latest, reading) > SLACK { stepped } else { 0 };
        let (away, unseen) = ((now - clock - step).max(0), (now - latest - step).max(0));
        (
            LeaseAdjustment { clock: now, step, away, unobserved: unseen },
            Self { now, sent_at: asked, since: old.since, certain: true },
        )
    }
}

/// The earliest end, which says when to act again: a writer that cannot end leases yet need not be called for it.
pub(super) fn earliest_end(clock: i64, now: i64) -> Millis {
    Millis(if clock == now { 0 } else { HIDDEN })
}

/// Whether no writer acted for more than half of a term.
fn is_over_half(ttl: i64, away: i64) -> bool {
    ttl < away.saturating_mul(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: i64 = 15_000;
    const RENEWAL: i64 = TTL / 3;

    /// How far the renewals of two writers are apart at most; they check at different moments.
    const APART: i64 = RENEWAL / 2 + 260;

    /// A lease as the server has it, and by true time.
    struct ClockTestLease {
        ends: i64,
        renewed: i64,
        ended: Option<i64>,
    }

    /// A writer and its last observation; with a lease that it renews, and when it did so.
    #[derive(Clone, Copy)]
    struct ClockTestWriter {
        observation: ClockObservation,
        observed_at: i64,
        renews: Option<(usize, i64)>,
    }

    /// A server whose clock is ahead of true time by this much.
    #[derive(Default)]
    struct ClockTestServer {
        time: i64,
        ahead: i64,
        clock: i64,
        leases: Vec<ClockTestLease>,
        writers: Vec<ClockTestWriter>,
    }

    impl ClockTestServer {
        /// Two writers that renew, as late as `phase` from now, and a third lease whose holder is dead.
        fn new(phase: i64) -> (Self, usize) {
            let mut world = Self { time: 1_000_000, clock: 1_000_000, ..Self::default() };
            for behind in [0, APART] {
                let (lease, renewed) = (world.grant(), world.time - RENEWAL + phase + behind);
                let observation = ClockObservation::new(&world.reading(), true);
                world.writers.push(ClockTestWriter {
                    observation,
                    observed_at: world.time,
                    renews: Some((lease, renewed)),
                });
            }
            let dead = world.grant();
            (world, dead)
        }

        fn reading(&self) -> ServerClockReading {
            let now = self.time + self.ahead;
            ServerClockReading {
                clock: self.clock,
                now,
                sent_at: Mono(self.time),
                received_at: Mono(self.time + 2),
            }
        }

        fn grant(&mut self) -> usize {
            let ends = self.time + self.ahead + TTL;
            self.leases.push(ClockTestLease { ends, renewed: self.time, ended: None });
            self.leases.len() - 1
        }

        /// One act, as a transaction does it.
        fn act(&mut self, observation: ClockObservation, renew: Option<usize>) -> ClockObservation {
            let reading = self.reading();
            let (passed, seen) = observation.evaluate(&reading);
            let longer = if is_over_half(TTL, passed.away) { TTL.max(passed.unobserved) } else { 0 };
            for lease in self.leases.iter_mut().filter(|lease| lease.ended.is_none()) {
                lease.ends = (lease.ends + passed.step + longer).min(reading.now + TTL);
                lease.ended = (lease.ends <= passed.clock).then_some(self.time);
                let lived = self.time - lease.renewed;
                assert!(lease.ended.is_none() || lived >= TTL - MISSED.0, "ended {} ms early", TTL - lived);
            }
            self.clock = passed.clock;
            if let Some(lease) = renew.map(|lease| &mut self.leases[lease]) {
                assert_eq!(lease.ended, None, "it was renewed in time");
                (lease.ends, lease.renewed) = (reading.now + TTL, self.time);
            }
            seen
        }

        /// Lets time pass with all that the writers do in it.
        fn pass(&mut self, span: i64) {
            for _ in 0..span / 20 {
                self.time += 20;
                for i in 0..self.writers.len() {
                    let ClockTestWriter { observation: sight, observed_at: looked, renews } = self.writers[i];
                    let due = renews.filter(|(_, renewed)| self.time - renewed >= RENEWAL);
                    let seen = match due {
                        Some((lease, _)) => self.act(sight, Some(lease)),
                        None if self.time - looked < 500 => continue,
                        None => {
                            let ServerClockReading { now, sent_at: asked, received_at: heard, .. } =
                                self.reading();
                            sight.observe(now, asked, heard).unwrap_or_else(|| self.act(sight, None))
                        }
                    };
                    let renews = due.map(|(lease, _)| (lease, self.time)).or(renews);
                    self.writers[i] = ClockTestWriter { observation: seen, observed_at: self.time, renews };
                }
            }
        }

        /// A writer comes, acts and goes.
        fn visit(&mut self) {
            let observation = ClockObservation::new(&self.reading(), false);
            self.act(observation, None);
        }

        fn lived(&self, lease: usize) -> Option<i64> {
            self.leases[lease].ended.map(|ended| ended - self.leases[lease].renewed)
        }
    }

    #[test]
    fn a_step_of_the_clock_ends_no_lease_early_nor_keeps_one_alive() {
        for step in [0, 300, 6_000, 14_000, 60_000, 3_600_000, -6_000, -3_600_000] {
            for phase in (0..RENEWAL / 2).step_by(100) {
                for visits in [false, true] {
                    let (mut world, dead) = ClockTestServer::new(phase);
                    world.pass(3_000);
                    world.ahead += step;
                    for _ in 0..30 {
                        if visits {
                            world.visit();
                        }
                        world.pass(1_000);
                    }
                    let lived = world.lived(dead).expect("a dead one's lease ends");
                    // A writer acts this often; time that was set back may not count.
                    let late = APART + MISSED.0 + if step < 0 { RENEWAL } else { 0 };
                    assert!(lived <= TTL + late, "{step} {phase} {visits}: lived for {lived}");
                }
            }
        }
    }

    #[test]
    fn who_comes_every_second_keeps_no_lease_alive() {
        let (mut world, dead) = ClockTestServer::new(0);
        world.writers.pop();
        while world.lived(dead).is_none() {
            assert!(world.time < 1_100_000, "it never ends");
            world.visit();
            world.pass(1_000);
        }
        assert!(world.lived(dead).is_some_and(|lived| lived <= TTL + RENEWAL));
    }

    #[test]
    fn who_comes_behind_a_step_leaves_it_to_those_who_saw_it_and_acts_alone_after_a_while() {
        let (mut world, dead) = ClockTestServer::new(0);
        world.pass(RENEWAL);
        world.writers.clear();
        world.pass(200_000);
        let observation = ClockObservation::new(&world.reading(), false);
        let (clock, seen) = (world.clock, world.act(observation, None));
        assert_eq!((world.clock, world.lived(dead)), (clock, None));
        world.pass(WAIT);
        world.act(seen, None);
        assert!(world.clock > clock && world.lived(dead).is_some());
    }

    #[test]
    fn what_was_left_of_a_lease_is_left_when_nobody_saw_the_server_for_an_hour() {
        let (mut world, dead) = ClockTestServer::new(0);
        world.pass(RENEWAL);
        let (observation, ends) = (world.writers[0].observation, world.leases[dead].ends);
        world.writers.clear();
        world.pass(3_600_000);
        world.act(observation, None);
        assert!(world.lived(dead).is_none());
        assert_eq!(world.leases[dead].ends - world.clock, ends - observation.now);
    }

    #[test]
    fn a_server_that_was_away_and_came_back_with_another_clock_ends_no_lease() {
        for (step, away) in
            [(0, 8_000), (0, 60_000), (60_000, 60_000), (3_600_000, 20_000), (-60_000, 60_000)]
        {
            for (phase, first) in (0..RENEWAL / 2).step_by(100).flat_map(|phase| [(phase, 0), (phase, 1)]) {
                let (mut world, dead) = ClockTestServer::new(phase);
                world.pass(RENEWAL);
                // One of the two is back, perhaps not the one that acted last.
                let writers = std::mem::take(&mut world.writers);
                world.pass(away);
                world.ahead += step;
                let ClockTestWriter { observation: sight, renews, observed_at: looked } = writers[first];
                let observation = world.act(sight, renews.map(|(lease, _)| lease));
                world.writers.push(ClockTestWriter { observation, observed_at: looked, renews });
                world.pass(TTL - RENEWAL - RENEWAL / 2 - MISSED.0);
                assert_eq!(world.lived(dead), None, "{step} {away} {phase}: nobody was served meanwhile");
                world.pass(TTL + RENEWAL);
                assert!(world.lived(dead).is_some(), "{step} {away} {phase}: it ends at last");
            }
        }
    }

    #[test]
    fn who_has_not_looked_for_long_while_others_acted_knows_nothing() {
        let (mut world, _) = ClockTestServer::new(0);
        let asleep = world.writers[1].observation;
        world.pass(20_000);
        world.ahead += 60_000;
        let clock = world.clock;
        let awake = world.act(asleep, None);
        assert_eq!(world.clock, clock, "those who saw it see to it");
        world.pass(1_000);
        assert!(world.clock > clock);
        world.act(awake, None);
    }

    #[test]
    fn what_was_not_committed_is_seen_again() {
        let (world, _) = ClockTestServer::new(0);
        let (observation, mut reading) = (world.writers[0].observation, world.reading());
        reading.now += 60_000;
        let (first, _) = observation.evaluate(&reading);
        let (again, seen) = observation.evaluate(&reading);
        assert_eq!((first.step, again), (59_998, first));
        reading.clock = reading.now;
        assert_eq!((observation.evaluate(&reading).0.step, seen.evaluate(&reading).0.step), (0, 0));
    }
}
