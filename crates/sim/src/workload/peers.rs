//! Dispatched jobs, their planners, and faults between nodes.
//!
//! Everything here has a random stream of its own, so that worlds without it do not change.

use std::collections::BTreeSet;

use evenkeel_core::record::{Handover, PlannerKind};
use evenkeel_core::time::Millis;

use super::{Workload, job, name, subset};
use crate::faults::SimFault;
use crate::random::SimRandom;

/// The workload between nodes.
#[derive(Clone, Debug)]
pub struct PeerWorkload {
    /// The planner at first.
    pub planner: PlannerKind,
    /// Whether operators change the planner, and the length of beats.
    pub switches: bool,
    /// The length of a beat, in seconds.
    pub beat: u32,
    /// The number of strikes that make a node offline.
    pub strikes: u32,
    /// What a new leader waits for.
    pub handover: Handover,
    /// The faults between nodes.
    pub faults: BTreeSet<SimFault>,
    /// The maximum time between two of these, in milliseconds.
    pub pace: i64,
}

/// The longest beat that operators set later, in seconds.
pub(crate) const BEAT_MAX: i64 = 20;
/// How many worlds in a thousand have dispatched jobs.
const SHARE: u32 = 600;

impl Workload {
    /// Adds the workload between nodes, in some seeds.
    pub(super) fn add_peers(&mut self, seed: u64, ttl: i64) {
        let random = &mut SimRandom::new(seed, "peers of a swarm");
        if !random.chance(SHARE) {
            return;
        }
        for n in 0..random.between(1, 5) {
            let name =
                name("d", usize::try_from(n).unwrap_or(0)).parse().expect("a letter and a digit are a name");
            self.jobs.push(job(&name, ttl, random));
            if random.chance(600) {
                self.calm_jobs.insert(name);
            }
        }
        let notice = Millis(random.between(0, 3_000));
        for (settings, _) in &mut self.nodes {
            settings.address = format!("{}:7464", settings.name);
            settings.notice = notice;
        }
        let faults = subset(&SimFault::of_peers(), random);
        for (fault, most) in
            [(SimFault::PeerLost, 200), (SimFault::PeerSlow, 80), (SimFault::PeerDoubled, 150)]
        {
            let rate = u32::try_from(random.between(10, most)).unwrap_or(10);
            if faults.contains(&fault) {
                self.weather = self.weather.clone().with(fault, rate);
            }
        }
        let peers = PeerWorkload {
            planner: if random.chance(500) { PlannerKind::Beat } else { PlannerKind::Leader },
            switches: random.chance(250),
            beat: *random.pick(&[5, 5, 6, 8, 10, 10, 15, 20, 30, 60]).unwrap_or(&10),
            strikes: *random.pick(&[1, 2, 3, 3, 3, 5]).unwrap_or(&3),
            handover: if random.chance(500) { Handover::Fenced } else { Handover::Waited },
            faults,
            pace: random.between(500, 5_000),
        };
        // Within a beat a node with fresh plans is replaced, and within another one the next planner.
        let beat = i64::from(peers.beat).max(if peers.switches { BEAT_MAX } else { 0 });
        self.healing_lasts += 2 * beat * 1000 + 5_000;
        self.peers = Some(peers);
    }
}
