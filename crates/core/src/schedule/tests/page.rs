//! The page of the manual says what is true.

use super::*;

const PAGE: &str = include_str!("../../../../../docs/concepts/schedule.md");

/// The page from a heading to the next.
fn section(heading: &str) -> &'static str {
    let rest = PAGE.split_once(heading).unwrap().1;
    rest.split("\n## ").next().unwrap()
}

#[test]
fn every_example_is_a_schedule() {
    let rows = section("## Examples").lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let schedules: Vec<Schedule> = rows.map(|text| parsed(text, "Europe/Berlin")).collect();
    assert!(schedules.len() >= 8, "{}", schedules.len());
    assert!(schedules.iter().all(|schedule| schedule.next(wall("2026-01-01T00:00:00Z")).is_some()));
}

#[test]
fn every_refusal_is_quoted_as_it_is() {
    let refused = [
        ("61 * * * *", ""),
        ("5/15 * * * *", ""),
        ("* 22-2 * * *", ""),
        ("0 0 0 1 * MON", ""),
        ("0 0 30 2 *", ""),
        ("@daily", "berlin"),
        ("@reboot", ""),
    ];
    let said = refused.map(|(text, zone)| Schedule::parse(text, zone).unwrap_err().to_string());
    let quoted = section("## What is refused").split("```").nth(1).unwrap();
    let quoted: Vec<&str> = quoted.trim_start_matches("text").trim().lines().collect();
    assert_eq!(quoted, said);
}
