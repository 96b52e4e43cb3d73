//! Who runs a job: the rules of claimed, sharded, broadcast and dispatched jobs.
//!
//! A placement decides whose a run is, and writes that into the registry. What becomes of a run is decided in
//! [`lifecycle`](crate::lifecycle), the same for all placements.

pub mod claims;
pub mod dispatch;
pub mod election;
pub mod failover;
pub mod firing;
pub(crate) mod sharded_job;
pub mod sharding;
pub(crate) mod takeover;
