//! The binary from outside: real processes on loopback, each in a folder of its own.

mod answers;
mod audit;
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
mod drained;
mod events;
mod explain;
mod fires;
mod heads;
mod histories;
#[expect(dead_code, reason = "other tests look for free ports")]
#[path = "../../../registry/tests/common/host.rs"]
mod host;
mod http;
mod labels;
mod logs;
mod losses;
mod names;
mod notify;
mod overlap;
mod peers;
mod plan;
mod pools;
mod priority;
mod private;
mod process;
mod redis;
mod retries;
mod schedules;
mod secrets;
mod security;
mod seed_001;
mod servers;
mod service;
mod shards;
mod shared_history;
#[path = "../../../registry/tests/common/still.rs"]
mod still;
mod storage;
mod switches;
mod terminal;
mod told;
mod tree;
mod upgrade;
mod usage;
mod versions;
mod waiting;
mod wire;
