//! The rules about nodes and the cluster as a whole: members, health, commands, locks, pools, the serving leader.

pub mod beat;
pub mod control;
pub mod drain;
pub mod health;
pub mod locks;
pub mod membership;
pub mod pools;
pub mod promotion;
