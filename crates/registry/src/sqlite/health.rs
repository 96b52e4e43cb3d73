//! The health check: the kind of disk that the file is on, and how full it is.

use rustix::fs::{statfs, statvfs};

use super::file::SqliteFile;
use crate::health::HealthReport;

/// Network file systems, by their Linux numbers: NFS, SMB, CIFS, SMB2, Coda, AFS, Ceph, 9p, FUSE.
///
/// SQLite's shared memory does not reach over them. FUSE is included because such mounts mostly are remote.
const REMOTE: [u32; 9] = [
    0x6969,
    0x517b,
    0xff53_4d42,
    0xfe53_4d42,
    0x7375_7245,
    0x5346_414f,
    0x00c3_6400,
    0x0102_1997,
    0x6573_5546,
];

/// In-memory file systems: tmpfs, ramfs.
const MEMORY: [u32; 2] = [0x0102_1994, 0x8584_58f6];

/// With less space than this a busy day's log may not fit.
const SPACE_LEAST: u64 = 256 << 20;

impl SqliteFile {
    /// Checks the disk.
    pub(super) fn examine(&self) -> HealthReport {
        let mut found =
            HealthReport { version: Some(rusqlite::version().to_owned()), ..HealthReport::default() };
        found.add_check("durability", "synchronous=FULL: an answer is given after a sync");
        match statfs(&self.path) {
            Err(error) => {
                found.add_problem("disk", format!("{error}"), "see that the file is there and can be read")
            }
            Ok(disk) => {
                // The number has 32 bits, whatever its type here.
                let kind = u32::try_from(disk.f_type & 0xffff_ffff).unwrap_or(0);
                match REMOTE.contains(&kind) {
                    false if MEMORY.contains(&kind) => {
                        found.add_check(
                            "disk",
                            "none: the file is in memory, and gone when the host is started again",
                        );
                    }
                    false => found.add_check("disk", "local"),
                    true => found.add_problem(
                        "disk",
                        "the file is on a file system over a network",
                        "move it to a local disk of one host, or take an engine that is a server",
                    ),
                }
            }
        }
        if let Ok(disk) = statvfs(&self.path) {
            let free = disk.f_bavail.saturating_mul(disk.f_frsize);
            let text = format!("{} MiB free", free >> 20);
            match free >= SPACE_LEAST {
                true => found.add_check("space", text),
                false => found.add_problem(
                    "space",
                    text,
                    "make room on the disk: when it is full nothing is written",
                ),
            }
        }
        found
    }
}
