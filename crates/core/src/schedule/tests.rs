//! What schedules say, told by examples.

use super::*;
use alloc::string::ToString;

#[test]
fn smoke() {
    let s = Schedule::parse("*/5 * * * *", "Europe/Berlin").unwrap();
    assert_eq!(s.next(Wall(0)).unwrap().to_string(), "1970-01-01T00:05:00.000Z");
}
