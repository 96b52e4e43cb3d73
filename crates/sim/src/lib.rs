//! The deterministic simulator: worlds of nodes over one registry, in virtual time, with every imaginable
//! fault, and an invariant checker that observes each event.
//!
//! - [`world`] is the world: nodes, hosts, links to the registry, executors, history.
//! - [`invariants`] is the checker, which observes physical events and reports the violated invariant.
//! - [`model`] explores everything that can happen to two nodes and one job.
#![forbid(unsafe_code)]

mod fault_driver;
pub mod faults;
pub mod invariants;
pub mod model;
pub mod mutants;
pub mod mutation;
pub mod random;
pub mod scenario;
pub mod seed;
pub mod trace;
pub mod workload;
pub mod world;

pub use seed::{SeedFailure, SeedReport, run_seed};
