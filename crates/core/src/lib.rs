//! Every decision of Evenkeel, as pure functions of what a node has heard.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod keys;
pub mod registry;
pub mod schedule;
pub mod store;
pub mod time;
pub mod words;
