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
mod logs;
mod notify;
mod overlap;
mod peers;
mod plan;
mod process;
mod retries;
mod security;
mod service;
mod shards;
mod tree;
mod wire;
