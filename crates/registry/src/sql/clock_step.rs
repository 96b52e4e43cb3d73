//! Whether the server's clock took a step while nobody looked: each writer holds it against a clock of its own.
//!
//! Leases are counted by the server's calendar clock, the only one that all have in common, and somebody may set it.
//! A clock set forward would end every lease though each was renewed a moment ago. So each writer looks at it all the
//! time: what it went on by more than can have passed is no time, and whoever acts first after that takes all ends along.

use evenkeel_core::time::{Millis, Mono};
use sqlx::Error;
use std::time::Duration;

use super::SqlConfig;
use super::connection::SqlConnection;
use super::statement::SqlStatement;
use crate::clock::{Clock, HostClock};

/// How often an idle writer looks.
pub(super) const LOOK: Duration = Duration::from_millis(500);

/// What two clocks may differ by between two looks.
const SLACK: i64 = 100;

/// What an act that nobody saw may hide: no more than who looks all the time can miss.
const HIDDEN: i64 = 500;

/// By how much a clock that is set forward may end a lease early: what nobody can tell from time that passed.
pub(super) const MISSED: Millis = Millis(HIDDEN + SLACK);

/// How long whoever has just come lets the others act first, who may have seen what it has not.
const WAIT: i64 = 1_500;

/// How often it looks meanwhile whether they did.
const AGAIN: Duration = Duration::from_millis(100);

/// What was read at once, all in milliseconds: when anybody last acted and what the time is, both by the server, and
/// what our own clock said before it was asked and after it answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServerClockReading {
    pub(super) clock: i64,
    pub(super) now: i64,
    pub(super) sent_at: Mono,
    pub(super) received_at: Mono,
}

/// The latest look of a process at the server's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClockObservation {
    now: i64,
    sent_at: Mono,
    /// When it began to look, by both clocks.
    since: (i64, Mono),
    /// Whether whatever happened before that has been seen to.
    certain: bool,
}

/// What is to be done about leases before anything else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LeaseAdjustment {
    /// Those that ended by then end, and it is when anybody last acted.
    pub(super) clock: i64,
    /// By how much the ends of all move.
    pub(super) step: i64,
    /// For how long nobody acted, and for how long of it nobody saw the server either.
    pub(super) away: i64,
    pub(super) unobserved: i64,
}

/// The time by our own clock, which counts suspend and takes no step.
pub(super) fn mono() -> Mono {
    HostClock.now().mono
}

impl ClockObservation {
    /// The first look. When others may have acted in vain for long, they are let go first: who comes right behind a step
    /// must not take it for time.
    pub(super) async fn observe_first(link: &mut SqlConnection, config: &SqlConfig) -> Result<Self, Error> {
        let (meta, now) = (&config.tables.meta, config.dialect.sql.now);
        let select = format!("SELECT clock, {now}, (SELECT min(ttl) FROM {}) FROM ", config.tables.lease);
        let mut observation: Option<Self> = None;
        loop {
            let asked = mono();
            let row = link.query_one(SqlStatement::new(config.dialect, &select).then(meta)).await?;
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

    /// Whether it may end leases: others have acted since it looks, or would have.
    fn is_certain(&self, reading: &ServerClockReading) -> bool {
        let (now, mono) = self.since;
        self.certain || reading.clock >= now || (reading.received_at - mono).0 >= WAIT
    }

    /// How much more the server's clock went on than can have passed.
    fn excess(&self, from: i64, reading: &ServerClockReading) -> i64 {
        reading.now - from - (reading.received_at - self.sent_at).0
    }

    /// Another look, of an idle writer; `None` when something is to be done about it.
    pub(super) fn observe(&self, now: i64, asked: Mono, heard: Mono) -> Option<Self> {
        let reading = ServerClockReading { clock: now, now, sent_at: asked, received_at: heard };
        (self.excess(self.now, &reading) <= SLACK).then_some(Self { now, sent_at: asked, ..*self })
    }

    /// What an act that read this is to do, and what has been seen once it is done.
    pub(super) fn evaluate(&self, reading: &ServerClockReading) -> (LeaseAdjustment, Self) {
        let ServerClockReading { clock, now, sent_at: asked, received_at: heard } = *reading;
        if now < clock {
            // It was set back, which shows without a sight: nothing passed.
            let passed = LeaseAdjustment { clock: now, step: now - clock, ..LeaseAdjustment::default() };
            return (passed, Self { now, sent_at: asked, since: self.since, certain: true });
        }
        // Others went on acting when it looked no more, which was long ago: it knows no more than one who has just come.
        // But where the server was away from all, whoever looked right before that knows.
        let blind = clock - self.now > 2 * HIDDEN && (heard - self.sent_at).0 > WAIT;
        let old = if blind { Self::new(reading, false) } else { *self };
        let stepped = old.excess(old.now, reading);
        if !old.is_certain(reading) {
            // Whoever knows better sees to it by what was left there, so that is left.
            let seen = if stepped > SLACK { old } else { Self { now, sent_at: asked, ..old } };
            return (LeaseAdjustment { clock, ..LeaseAdjustment::default() }, seen);
        }
        let latest = clock.max(old.now);
        // Only what is certain to lie behind the last act: the rest somebody else has seen to.
        let step = if old.excess(latest, reading) > SLACK { stepped } else { 0 };
        let (away, unseen) = ((now - clock - step).max(0), (now - latest - step).max(0));
        (
            LeaseAdjustment { clock: now, step, away, unobserved: unseen },
            Self { now, sent_at: asked, since: old.since, certain: true },
        )
    }
}

/// The soonest end to tell to whoever asks when to act again: who cannot end leases yet need not be asked to.
pub(super) fn earliest_end(clock: i64, now: i64) -> Millis {
    Millis(if clock == now { 0 } else { HIDDEN })
}

/// Whether nobody acted for more than half of a term.
fn is_over_half(ttl: i64, away: i64) -> bool {
    ttl < away.saturating_mul(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: i64 = 15_000;
    const RENEWAL: i64 = TTL / 3;

    /// How far the renewals of two are apart at most; they look at different moments.
    const APART: i64 = RENEWAL / 2 + 260;

    /// A lease as the server has it, and by true time.
    struct ClockTestLease {
        ends: i64,
        renewed: i64,
        ended: Option<i64>,
    }

    /// A writer and when it looked last; with a lease that it renews, and when it did so.
    #[derive(Clone, Copy)]
    struct ClockTestWriter {
        observation: ClockObservation,
        observed_at: i64,
        renews: Option<(usize, i64)>,
    }

    /// A server whose clock is ahead of true time by so much.
    #[derive(Default)]
    struct ClockTestServer {
        time: i64,
        ahead: i64,
        clock: i64,
        leases: Vec<ClockTestLease>,
        writers: Vec<ClockTestWriter>,
    }

    impl ClockTestServer {
        /// Two that renew, which do so as late as `phase` from now, and a third lease whose holder is dead.
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

        /// One act, as the ledger does it.
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

        /// Somebody comes, acts and goes.
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
                    // Somebody acts so often; what was set back may pass for no time.
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
