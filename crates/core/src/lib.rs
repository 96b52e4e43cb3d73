//! Every decision of Evenkeel, as pure functions of the inputs that a node has received.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod backfill;
pub mod backup;
pub mod calendar;
pub mod capacity;
pub mod characters;
pub mod cluster;
pub mod commit_kind;
pub mod due;
pub mod effect;
pub mod eligibility;
pub mod forecast;
pub mod handoff;
pub mod ids;
pub mod input;
pub mod job;
pub mod keys;
pub mod labels;
pub mod lease;
pub mod lifecycle;
pub mod load;
pub mod local;
pub mod member_entry;
pub mod namespace;
pub mod node;
pub mod outcome;
pub mod overdue;
pub mod overlap;
pub mod placement;
pub mod principal;
pub mod record;
pub mod registry;
pub mod rule_context;
pub mod rules;
pub mod run_limit;
pub mod schedule;
pub mod settings;
pub mod sharding_strategy;
pub mod shards;
pub mod slots;
mod spelling;
mod steps;
pub mod store;
pub mod time;
pub mod view;
