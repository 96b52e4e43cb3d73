//! Every decision of Evenkeel, as pure functions of what a node has heard.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod effect;
pub mod input;
pub mod job;
pub mod keys;
pub mod node;
pub mod registry;
pub mod schedule;
pub mod store;
pub mod time;
pub mod words;
