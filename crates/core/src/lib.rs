//! Every decision of Evenkeel, as pure functions of what a node has heard.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod baton;
pub mod calendar;
pub mod capacity;
pub mod carry;
pub mod commit_kind;
pub mod due;
pub mod effect;
pub mod input;
pub mod job;
pub mod keys;
pub mod labels;
pub mod lease;
pub mod load;
pub mod local;
pub mod node;
pub mod overdue;
pub mod overlap;
pub mod record;
pub mod registry;
pub mod rules;
pub mod scene;
pub mod schedule;
pub mod settings;
pub mod shards;
pub mod share;
pub mod slots;
pub mod standing;
mod steps;
pub mod store;
mod table;
mod takeover;
pub mod time;
pub mod view;
pub mod words;
