//! The deterministic simulator: worlds of nodes over one registry, in virtual time, with every fault that can be thought
//! of, and a watch that looks at each event.
//!
//! - [`world`] is the world: nodes, hosts, the way to the registry and back, executors, history.
//! - [`invariants`] is the watch, which sees what truly happens and says which invariant broke.
//! - [`model`] tries everything that can happen to two nodes and one job.
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
