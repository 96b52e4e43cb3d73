//! Walls around what functions take and types show.

use super::*;

#[test]
fn parameters_without_names() {
    let planted =
        ["pub fn planted(a: u8, (b, c, d): (u8, u8, u8)) {}", "fn planted(&self, a: &[(u8, u8, u8)]) {}"];
    let expected = "crates/node/src/planted.rs:2: `planted` takes a tuple of 3 or more";
    each_check_catches("tuples", expected, &planted, |house, line| {
        house.write("crates/node/src/planted.rs", &format!("//! A planted file.\n{line}\n"));
        house.edit("crates/node/src/lib.rs", |text| format!("{text}\nmod planted;\n"));
    });
    let expected = "crates/core/src/planted.rs:2: `planted` takes a bare bool: take an enum";
    check_catches("bools", expected, |house| {
        house.write("crates/core/src/planted.rs", "//! A planted file.\npub fn planted(is_so: bool) {}\n");
        house.edit("crates/core/src/lib.rs", |text| format!("{text}\nmod planted;\n"));
    });
    check_catches(
        "tuples",
        "crates/server/src/api/shards.rs: `switch` needs no exception any more",
        |house| {
            let three = "Path<(JobName, String, String)>";
            house
                .edit("crates/server/src/api/shards.rs", |text| text.replace(three, "Path<ShardSwitchPath>"));
        },
    );
    let house = TreeCopy::copy();
    let fine = "fn planted(a: (u8, u8), b: impl Fn(u8, u8, u8) -> (u8, u8, u8), c: bool) {}";
    house.write("crates/core/src/planted.rs", &format!("//! A planted file.\n{fine}\n"));
    house.edit("crates/core/src/lib.rs", |text| format!("{text}\nmod planted;\n"));
    house.reports_nothing("tuples", "planted.rs");
    house.reports_nothing("bools", "planted.rs");
}

#[test]
fn local_state_that_is_not_private() {
    let local = "crates/core/src/local.rs";
    check_catches("private state", "`Local` has the public field `lease`: make it `pub(crate)`", |house| {
        house.edit(local, |text| text.replace("pub(crate) lease: Lease", "pub lease: Lease"));
    });
    let runs = "crates/core/src/local/given_runs.rs";
    let shows = "`GivenRuns` shows its field `runs`: make it private, and give `GivenRuns` a method";
    let plants = ["    pub(crate) runs: BTreeMap", "    pub runs: BTreeMap", "    pub(super) runs: BTreeMap"];
    each_check_catches("private state", shows, &plants, |house, plant| {
        let old = std::fs::read_to_string(house.at(runs)).unwrap();
        let (before, after) = old.split_once("runs: BTreeMap").unwrap();
        let (before, _) = before.rsplit_once('\n').unwrap();
        house.write(runs, &format!("{before}\n{plant}{after}"));
    });
    check_catches("private state", "`AnnouncedEvents` shows its field", |house| {
        let file = "crates/core/src/local/announced_events.rs";
        house.edit(file, |text| text.replace("AnnouncedEvents(Vec", "AnnouncedEvents(pub Vec"));
    });
    check_catches("private state", "`BTreeSet` is a part of the state and no struct of core", |house| {
        house.edit(local, |text| text.replace("runs: GivenRuns,", "runs: BTreeSet<RunId>,"));
    });
    check_catches("private state", "`Local` has moved: say in this check where it is", |house| {
        std::fs::remove_file(house.at(local)).unwrap();
    });
}
