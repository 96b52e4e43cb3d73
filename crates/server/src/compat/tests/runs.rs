//! Trees while a job's runs, shards and nodes come and go.

use super::*;

/// proves: S2-33
#[test]
fn a_node_waits_or_runs_and_its_status_goes_with_it() {
    let status = |seen: &CompatJob, host: &str| {
        let found =
            below(ONE, seen, &format!("servers/{host}/")).into_iter().find(|(path, ..)| path == "status");
        found.map(|(_, kind, value)| {
            assert_eq!(kind, CompatEntryKind::Ephemeral);
            value
        })
    };
    assert_eq!(status(&CompatJob::reshard(), "10.9.0.2").as_deref(), Some("READY"));
    assert_eq!(status(&CompatJob::running(), "10.9.0.2").as_deref(), Some("RUNNING"));
    assert_eq!(status(&CompatJob::idle(), "10.9.0.2").as_deref(), Some("READY"));
    let crashed = CompatJob::crashed();
    assert_eq!((status(&crashed, "10.9.0.2"), status(&crashed, "b")), (None, None));
    assert_eq!(status(&crashed, "10.9.0.1").as_deref(), Some("RUNNING"));
}

/// proves: S2-43
#[test]
fn a_shard_runs_or_has_run_or_has_not_begun() {
    let state = |seen: &CompatJob, shard: u32| {
        let is = |name| value(ONE, seen, &format!("execution/{shard}/{name}")).is_some();
        (is("running"), is("completed"))
    };
    assert_eq!(state(&CompatJob::reshard(), 0), (false, false));
    assert_eq!(state(&CompatJob::running(), 0), (true, false));
    assert_eq!(state(&CompatJob::idle(), 0), (false, true));
    let one = CompatJob::running().ends("a@6684", T + 300, "0");
    assert_eq!((state(&one, 0), state(&one, 1)), ((false, true), (true, false)), "its neighbour goes on");
    assert_eq!(state(&CompatJob::crashed(), 2), (false, false), "running goes with its node");
    let recut = CompatJob::idle().deal(T, &[("a@6684", "0"), ("b@8176", "1-2")]);
    assert_eq!(state(&recut, 0), (false, false), "a new cut begins anew");

    // Shards whose fires are skipped have not run: disabled, on a paused node, or lost with their node.
    let mut off = CompatJob::reshard().claims("a@6684", T, "0").ends("a@6684", T + 100, "0").at(T + 200);
    off.run_state("a@6684").set_watermark(&shards("1"), Wall(T));
    off.spec.off = shards("1");
    assert_eq!((state(&off, 0), state(&off, 1)), ((false, true), (false, false)));
    let mut paused = CompatJob::reshard().switched("a", |switches| switches.paused = true).at(T + 200);
    paused.run_state("a@6684").set_watermark(&shards("0-1"), Wall(T));
    assert_eq!(state(&paused, 0), (false, false));
    let mut paused = CompatJob::idle().switched("a", |switches| switches.paused = true).at(T + 10_200);
    paused.run_state("a@6684").set_watermark(&shards("0"), Wall(T + 10_000));
    assert_eq!((state(&paused, 0), state(&paused, 1)), ((false, false), (false, true)));
    let mut lost = CompatJob::crashed();
    lost.run_state("b@8176").close(&shards("2"));
    assert_eq!(state(&lost, 2), (false, false));
}

#[test]
fn a_run_by_hand_completes_a_shard_too() {
    let mut seen = CompatJob::reshard().at(T + 500);
    let request = TriggerRequest {
        id: "r".parse().unwrap(),
        at: Wall(T),
        taken: false,
        node: None,
        shards: shards("0-1"),
        former: [].into(),
        parameters: evenkeel_core::job::RunParameters::default(),
        taken_back: None,
    };
    let fire = Fire::Asked(request.id.clone());
    seen.triggers.requests.push(request);
    seen.run_state("a@6684").add_open(Attempt { fire, ..open(T, Wall::MIN, "0-1") });
    assert_eq!(value(ONE, &seen, "execution/0/completed"), None);
    assert!(value(ONE, &seen, "execution/0/running").is_some());
    let mut skewed = seen.clone();
    skewed.run_state("a@6684").open[0].from = Some(Wall(T + 600));
    let next = value(ONE, &skewed, "execution/0/nextFireTime");
    assert_eq!(next.as_deref(), Some("1795259690000"), "what a clock ahead of ours has claimed is no fire");
    let seen = seen.ends("a@6684", T + 600, "0-1").at(T + 700);
    assert!(value(ONE, &seen, "execution/0/completed").is_some());
    assert_eq!(value(ONE, &seen, "execution/2/completed"), None, "node b has not been reached yet");
    assert!(value(ONE, &seen, "servers/10.9.0.2/trigger").is_some());
    let mut lost = seen;
    lost.triggers.requests[0].at = Wall(T + 601);
    assert_eq!(value(ONE, &lost, "execution/0/completed"), None, "no run has ended since that was asked");
}

#[test]
fn a_new_node_and_a_changed_number_of_shards_show_before_the_next_cut() {
    let mut joined = CompatJob::idle().reshard_pending(ReshardCause::Nodes);
    joined.members.insert(member("c@8179"), info("10.9.0.3:7700"));
    let of_leader = |form, seen: &CompatJob| -> Vec<String> {
        let entries =
            below(form, seen, "leader/").into_iter().filter(|(path, ..)| path.contains("necessary"));
        entries.map(|(path, ..)| path).collect()
    };
    assert_eq!(of_leader(ONE, &joined), ["sharding/necessary"]);
    assert_eq!(of_leader(THREE, &joined), ["sharding/necessary"]);
    let server: Vec<(String, CompatEntryKind, String)> = below(ONE, &joined, "servers/10.9.0.3/");
    let entry = |path: &str, kind, value: &str| (path.to_owned(), kind, value.to_owned());
    assert_eq!(
        server,
        [
            entry("hostName", CompatEntryKind::Persistent, "c"),
            entry("status", CompatEntryKind::Ephemeral, "READY")
        ],
        "it has no shards yet"
    );
    let recut = joined.deal(T, &[("a@6684", "0"), ("b@8176", "1"), ("c@8179", "2")]);
    assert_eq!(of_leader(ONE, &recut), [""; 0]);
    assert_eq!(value(ONE, &recut, "servers/10.9.0.3/sharding").as_deref(), Some("2"));
    assert_eq!(value(THREE, &recut, "sharding/2/instance").as_deref(), Some("10.9.0.3@-@8179"));
}

/// proves: S2-56
#[test]
fn the_records_of_shards_follow_their_number_at_the_next_cut() {
    let parts = |seen: &CompatJob| {
        let of = |form, start: &str| -> Vec<String> {
            let paths = below(form, seen, start).into_iter().map(|(path, ..)| path);
            paths.filter(|path| !path.contains('/')).collect()
        };
        assert_eq!(of(ONE, "execution/"), of(THREE, "sharding/"));
        let necessary = value(ONE, seen, "leader/execution/necessary").is_some();
        (of(ONE, "execution/").join(" "), necessary)
    };
    let mut grown = CompatJob::idle();
    grown.spec.job = grown.spec.job.changed(|job| job.shards = 5).expect("a valid job");
    assert_eq!(parts(&grown), ("0 1 2".into(), true));
    let grown = grown.deal(T, &[("a@6684", "0-1,4"), ("b@8176", "2-3")]);
    assert_eq!(parts(&grown), ("0 1 2 3 4".into(), false));
    assert_eq!(value(ONE, &grown, "servers/10.9.0.1/sharding").as_deref(), Some("0,1,4"));
    assert_eq!(value(ONE, &grown, "execution/4/completed"), None, "a new shard has never run");
    let mut shrunk = grown;
    shrunk.spec.job = shrunk.spec.job.changed(|job| job.shards = 2).expect("a valid job");
    assert_eq!(parts(&shrunk), ("0 1 2 3 4".into(), true));
    let shrunk = shrunk.deal(T, &[("a@6684", "0"), ("b@8176", "1")]);
    assert_eq!(parts(&shrunk), ("0 1".into(), false));
    let mut first = declared().reshard_pending(ReshardCause::Elected);
    first.spec.job = first.spec.job.changed(|job| job.shards = 5).expect("a valid job");
    assert_eq!(parts(&first), (String::new(), false), "nothing was cut yet, so nothing is to be mended");
    first.sharding.shard_map.number = 9;
    assert_eq!(
        parts(&first),
        (String::new(), false),
        "an earlier job of this name left nothing to be mended"
    );
}

/// proves: S2-45
#[test]
fn what_a_dead_node_left_is_written_down_until_somebody_takes_it() {
    let crashed = CompatJob::crashed();
    let items = |form, seen: &CompatJob| below(form, seen, "leader/failover/items/");
    let entry = |path: &str, kind, value: &str| (path.to_owned(), kind, value.to_owned());
    for form in [ONE, THREE] {
        assert_eq!(items(form, &crashed), [entry("2", CompatEntryKind::Persistent, "")]);
    }
    assert_eq!(value(ONE, &crashed, "servers/b/sharding").as_deref(), Some("2"), "known by its name only");
    assert_eq!(below(THREE, &crashed, "instances/").len(), 1);

    let taken = CompatJob::taken();
    assert_eq!(items(ONE, &taken), []);
    let expected = [
        entry("failover", CompatEntryKind::Ephemeral, "10.9.0.1"),
        entry("lastBeginTime", CompatEntryKind::Persistent, "1795259682500"),
        entry("nextFireTime", CompatEntryKind::Persistent, "1795259690000"),
        entry("running", CompatEntryKind::Ephemeral, ""),
    ];
    assert_eq!(below(ONE, &taken, "execution/2/"), expected);
    let expected = [
        entry("failover", CompatEntryKind::Ephemeral, "10.9.0.1@-@6684"),
        entry("failovering", CompatEntryKind::Persistent, "10.9.0.1@-@6684"),
        entry("instance", CompatEntryKind::Persistent, "b@-@8176"),
        entry("running", CompatEntryKind::Persistent, "10.9.0.1@-@6684"),
    ];
    assert_eq!(below(THREE, &taken, "sharding/2/"), expected);
    assert_eq!(value(ONE, &taken, "execution/0/failover"), None, "its own shards are no failover");
    let begun = value(ONE, &taken, "execution/0/lastBeginTime");
    assert_eq!(begun.as_deref(), Some("1795259680000"), "another shard's later beginning is not its own");

    // The new member dies too: the shard is free again.
    let again = taken.clone().dies("a@6684");
    assert_eq!(items(ONE, &again), [entry("2", CompatEntryKind::Persistent, "")]);
    assert_eq!(value(ONE, &again, "execution/2/failover"), None);
    assert_eq!(value(ONE, &again, "leader/election/host"), None, "and so is the leadership");

    // The run ends: all failover entries go, and the shard is completed.
    let over = taken.ends("a@6684", T + 3_500, "2").at(T + 4_000);
    assert_eq!(value(ONE, &over, "execution/2/failover"), None);
    assert!(value(ONE, &over, "execution/2/completed").is_some());

    let mut once = crashed;
    once.spec.job = once.spec.job.changed(|job| job.delivery = Delivery::AtMostOnce).expect("a valid job");
    assert_eq!(items(ONE, &once), [], "without failover nobody will take it");
}

/// proves: S2-49
#[test]
fn a_fire_that_comes_during_a_run_marks_its_shards_and_no_others() {
    let late = CompatJob::running().ends("b@8176", T + 800, "2").at(T + 10_000);
    let marked = |seen: &CompatJob| -> Vec<u32> {
        let is = |shard: &u32| value(ONE, seen, &format!("execution/{shard}/misfire")).is_some();
        let ones: Vec<u32> = (0..3).filter(is).collect();
        let is = |shard: &u32| value(THREE, seen, &format!("sharding/{shard}/misfire")).is_some();
        assert_eq!(ones, (0..3).filter(is).collect::<Vec<u32>>());
        ones
    };
    assert_eq!(marked(&late), [0, 1]);
    assert_eq!(marked(&late.clone().at(T + 9_999)), [0; 0], "not a moment before");
    let mut skip = late.clone();
    skip.spec.job = skip.spec.job.changed(|job| job.catch_up = CatchUp::Skip).expect("a valid job");
    assert_eq!(marked(&skip), [0; 0], "it will not be made up");
    let paused = late.clone().switched("a", |switches| switches.paused = true);
    assert_eq!(marked(&paused), [0; 0]);
    let mut off = late.clone();
    off.spec.off = shards("1");
    assert_eq!(marked(&off), [0]);
    let mut tardy = late;
    tardy.run_state("a@6684").open[0].from = Some(Wall(T + 10_000));
    assert_eq!(marked(&tardy), [0; 0], "that fire came before the run began");
}

/// proves: S2-42
#[test]
fn without_monitoring_nothing_is_said_of_runs() {
    let mut seen = CompatJob::running();
    seen.spec.job = seen.spec.job.changed(|job| job.delivery = Delivery::AtMostOnce).expect("a valid job");
    seen.spec.job = seen.spec.job.changed(|job| job.monitor_execution = false).expect("a valid job");
    seen = seen.at(T + 20_000);
    assert_eq!(below(ONE, &seen, "execution"), []);
    assert_eq!(value(ONE, &seen, "execution"), None);
    assert_eq!(value(ONE, &seen, "config/monitorExecution").as_deref(), Some("false"));
    assert_eq!(value(ONE, &seen, "servers/10.9.0.1/status").as_deref(), Some("READY"));
    let all = shown(THREE, &seen);
    assert!(all.contains("sharding/2/instance") && !all.contains("running") && !all.contains("misfire"));
}
