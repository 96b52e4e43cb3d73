//! Trees with switches, requests and settings.

use super::*;

#[test]
fn switches_show_where_they_were_set() {
    let marks = |seen: &CompatJob, host: &str| -> String {
        let entries = below(ONE, seen, &format!("servers/{host}/"));
        let marks = entries
            .into_iter()
            .filter(|(_, kind, value)| *kind == CompatEntryKind::Persistent && value.is_empty());
        marks.map(|(path, ..)| path).collect::<Vec<_>>().join(" ")
    };
    let plain = CompatJob::idle();
    assert_eq!(marks(&plain, "10.9.0.1"), "");
    let off = plain.clone().switched("b", |switches| switches.disabled = true);
    assert_eq!((marks(&off, "10.9.0.1"), marks(&off, "10.9.0.2")), ("".into(), "disabled".into()));
    assert_eq!(value(THREE, &off, "servers/10.9.0.2").as_deref(), Some("DISABLED"));
    assert_eq!(value(THREE, &off, "servers/10.9.0.1").as_deref(), Some("ENABLED"));
    assert_eq!(below(THREE, &off, "instances/").len(), 2, "it is there, and gets nothing");
    let mut drained = plain.clone();
    drained.drained.insert(node("b"));
    assert_eq!(marks(&drained, "10.9.0.2"), "disabled");
    let mut disabled = plain.clone();
    disabled.spec.job = disabled.spec.job.changed(|job| job.enabled = false).expect("a valid job");
    assert_eq!(
        (marks(&disabled, "10.9.0.1"), marks(&disabled, "10.9.0.2")),
        ("disabled".into(), "disabled".into())
    );
    assert_eq!(value(ONE, &disabled, "execution/0/nextFireTime"), None);

    let paused = plain.clone().switched("b", |switches| switches.paused = true);
    assert_eq!(marks(&paused, "10.9.0.2"), "paused");
    assert_eq!(value(ONE, &paused, "execution/2/nextFireTime"), None);
    assert!(value(ONE, &paused, "execution/0/nextFireTime").is_some());
    let mut all = plain.clone();
    all.spec.paused = true;
    assert_eq!((marks(&all, "10.9.0.1"), marks(&all, "10.9.0.2")), ("paused".into(), "paused".into()));
    // Switches that outlast a restart are visible while their node is offline.
    let away = paused.dies("b@8176");
    assert_eq!(marks(&away, "b"), "paused");

    let mut shard = plain;
    shard.spec.off = shards("1");
    assert!(value(THREE, &shard, "sharding/1/disabled").is_some());
    assert_eq!(value(THREE, &shard, "sharding/0/disabled"), None);
    assert_eq!(value(ONE, &shard, "execution/1/nextFireTime"), None);
}

#[test]
fn a_shut_down_node_is_marked_until_its_next_life() {
    let shut = CompatJob::idle().switched("b", |switches| switches.shutdown = Some(8176));
    assert!(value(ONE, &shut, "servers/10.9.0.2/shutdown").is_some());
    assert_eq!(value(ONE, &shut, "servers/10.9.0.2/status"), None);
    assert_eq!(below(THREE, &shut, "instances/10.9.0.2"), []);
    assert_eq!(value(ONE, &shut, "servers/10.9.0.1/shutdown"), None);
    let mut again = shut.dies("b@8176");
    assert!(value(ONE, &again, "servers/b/shutdown").is_some(), "only a restart takes it away");
    again.members.insert(member("b@9000"), info("10.9.0.2:7700"));
    assert_eq!(value(ONE, &again, "servers/10.9.0.2/shutdown"), None);
    assert_eq!(value(ONE, &again, "servers/10.9.0.2/status").as_deref(), Some("READY"));
    assert!(value(THREE, &again, "instances/10.9.0.2@-@9000").is_some());
}

#[test]
fn a_request_marks_the_nodes_that_have_not_answered_it() {
    let mut seen = CompatJob::idle();
    let request = |id: &str| TriggerRequest {
        id: id.parse().unwrap(),
        at: seen.now,
        taken: false,
        node: None,
        shards: ShardSet::empty(),
        former: [].into(),
        parameters: evenkeel_core::job::RunParameters::default(),
        taken_back: None,
    };
    let (everyone, one) = (request("r"), TriggerRequest { node: Some(node("b")), ..request("s") });
    let waiting = |seen: &CompatJob| -> String {
        let triggers = below(THREE, seen, "trigger/").into_iter().map(|(path, ..)| path);
        let triggers = triggers.collect::<Vec<_>>().join(" ");
        for host in ["10.9.0.1", "10.9.0.2"] {
            let marked = value(ONE, seen, &format!("servers/{host}/trigger")).is_some();
            assert_eq!(marked, triggers.contains(host), "{triggers}");
        }
        triggers
    };
    assert_eq!(waiting(&seen), "");
    seen.triggers.requests = vec![everyone.clone()];
    assert_eq!(waiting(&seen), "10.9.0.1@-@6684 10.9.0.2@-@8176");
    seen.triggers.requests[0].shards = shards("0-1");
    assert_eq!(waiting(&seen), "10.9.0.2@-@8176");
    seen.triggers.requests = vec![TriggerRequest { taken: true, shards: shards("0-2"), ..everyone }, one];
    assert_eq!(waiting(&seen), "10.9.0.2@-@8176", "only the one it names");
    seen.triggers.requests[1].taken = true;
    assert_eq!(waiting(&seen), "", "a request to one node is taken once");
}

/// proves: S2-28
#[test]
fn settings_are_shown_as_declared() {
    let mut seen = declared();
    let mut job = seen.spec.job.to_file();
    job.command = Program::Argv(vec!["/bin/echo".into(), "it's ok".into()]);
    job.function = String::new();
    job.shard_parameters = ["north", "", "south"].map(String::from).into();
    job.parameter = "jp".into();
    job.description = "nightly split".into();
    job.timezone = "Europe/Berlin".into();
    job.delivery = Delivery::AtMostOnce;
    job.catch_up = CatchUp::Skip;
    job.monitor_execution = false;
    job.max_clock_skew = Some(30);
    job.sticky_shards = true;
    job.enabled = false;
    job.strategy = ShardingStrategy::OddEven;
    seen.spec.job = Job::parse(job).expect("a valid job");
    let settings: Vec<(String, String)> = below(ONE, &seen, "config/")
        .into_iter()
        .inspect(|(path, kind, _)| assert_eq!(*kind, CompatEntryKind::Persistent, "{path}"))
        .map(|(path, _, value)| (path, value))
        .collect();
    let expected = [
        ("cron", "0/10 * * * * ?"),
        ("description", "nightly split"),
        ("failover", "false"),
        ("jobClass", "SCRIPT"),
        ("jobParameter", "jp"),
        (
            "jobShardingStrategyClass",
            "com.dangdang.ddframe.job.plugin.sharding.strategy.OdevitySortByNameJobShardingStrategy",
        ),
        ("maxTimeDiffSeconds", "30"),
        ("misfire", "false"),
        ("monitorExecution", "false"),
        ("scriptCommandLine", r"/bin/echo 'it'\''s ok'"),
        ("shardingItemParameters", "0=north,2=south"),
        ("shardingTotalCount", "3"),
    ];
    assert_eq!(settings, expected.map(|(path, value)| (path.to_owned(), value.to_owned())));
    let expected = "\
cron: 0/10 * * * * ?
description: nightly split
disabled: true
failover: false
jobName: phase
jobParameter: jp
jobShardingStrategyType: ODEVITY
maxTimeDiffSeconds: 30
misfire: false
monitorExecution: false
props:
  script.command.line: /bin/echo 'it'\\''s ok'
shardingItemParameters: 0=north,2=south
shardingTotalCount: 3
staticSharding: true
timeZone: Europe/Berlin";
    assert_eq!(value(THREE, &seen, "config").as_deref(), Some(expected));
    assert_eq!(render(THREE, &seen)[0].value, "SCRIPT");
}

#[test]
fn nodes_of_one_host_are_one_server() {
    let mut seen = CompatJob::running().ends("b@8176", T + 100, "2");
    for (info, host) in seen.members.values_mut().zip(["[::1]:7700", "[::1]:7701"]) {
        info.address = host.into();
    }
    let server = |seen: &CompatJob, name: &str| value(ONE, seen, &format!("servers/::1/{name}"));
    assert_eq!(server(&seen, "hostName").as_deref(), Some("a,b"));
    assert_eq!(server(&seen, "sharding").as_deref(), Some("0,1,2"));
    assert_eq!(server(&seen, "status").as_deref(), Some("RUNNING"));
    assert_eq!(value(THREE, &seen, "sharding/2/instance").as_deref(), Some("::1@-@8176"));
    let half = seen.switched("a", |switches| switches.disabled = true);
    assert_eq!(server(&half, "disabled"), None);
    assert_eq!(value(THREE, &half, "servers/::1").as_deref(), Some("ENABLED"));
    let both = half.switched("b", |switches| switches.disabled = true);
    assert!(server(&both, "disabled").is_some());
    assert_eq!(value(THREE, &both, "servers/::1").as_deref(), Some("DISABLED"));
}
