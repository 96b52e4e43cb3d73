//! The binary from outside: real processes on loopback, each in a folder of its own.

mod bad_input;
mod cli;
mod cluster;
mod console;
mod crontab;
mod dev;
mod peers;
mod process;
mod security;
mod shards;
mod tree;
mod wire;
