//! The binary from outside: real processes on loopback, each in a folder of its own.

mod bad_input;
mod calendars;
mod capacity;
mod carry;
mod cli;
mod cluster;
mod console;
mod crontab;
mod dev;
mod doctor;
mod events;
mod explain;
mod histories;
mod http;
mod notify;
mod peers;
mod plan;
mod process;
mod retries;
mod security;
mod service;
mod shards;
mod told;
mod tree;
mod wire;
