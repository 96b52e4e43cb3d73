//! A sharded job's whole tree in its main states, in both forms.

use super::*;

/// proves: S2-11, S2-13, S2-14, S2-30, S2-32, S2-35, S2-41, S2-50
#[test]
fn version_1_a_whole_tree_while_all_shards_run() {
    let expected = "\
/evenkeel/phase  [P] = ''
/evenkeel/phase/config  [P] = ''
/evenkeel/phase/config/cron  [P] = '0/10 * * * * ?'
/evenkeel/phase/config/description  [P] = ''
/evenkeel/phase/config/failover  [P] = 'true'
/evenkeel/phase/config/jobClass  [P] = 'demo'
/evenkeel/phase/config/jobParameter  [P] = ''
/evenkeel/phase/config/jobShardingStrategyClass  [P] = \
'com.dangdang.ddframe.job.plugin.sharding.strategy.AverageAllocationJobShardingStrategy'
/evenkeel/phase/config/maxTimeDiffSeconds  [P] = '-1'
/evenkeel/phase/config/misfire  [P] = 'true'
/evenkeel/phase/config/monitorExecution  [P] = 'true'
/evenkeel/phase/config/shardingItemParameters  [P] = ''
/evenkeel/phase/config/shardingTotalCount  [P] = '3'
/evenkeel/phase/execution  [P] = ''
/evenkeel/phase/execution/0  [P] = ''
/evenkeel/phase/execution/0/lastBeginTime  [P] = '1795259680000'
/evenkeel/phase/execution/0/nextFireTime  [P] = '1795259690000'
/evenkeel/phase/execution/0/running  [E] = ''
/evenkeel/phase/execution/1  [P] = ''
/evenkeel/phase/execution/1/lastBeginTime  [P] = '1795259680000'
/evenkeel/phase/execution/1/nextFireTime  [P] = '1795259690000'
/evenkeel/phase/execution/1/running  [E] = ''
/evenkeel/phase/execution/2  [P] = ''
/evenkeel/phase/execution/2/lastBeginTime  [P] = '1795259680000'
/evenkeel/phase/execution/2/nextFireTime  [P] = '1795259690000'
/evenkeel/phase/execution/2/running  [E] = ''
/evenkeel/phase/leader  [P] = ''
/evenkeel/phase/leader/election  [P] = ''
/evenkeel/phase/leader/election/host  [E] = '10.9.0.1'
/evenkeel/phase/leader/execution  [P] = ''
/evenkeel/phase/leader/failover  [P] = ''
/evenkeel/phase/leader/sharding  [P] = ''
/evenkeel/phase/servers  [P] = ''
/evenkeel/phase/servers/10.9.0.1  [P] = ''
/evenkeel/phase/servers/10.9.0.1/hostName  [P] = 'a'
/evenkeel/phase/servers/10.9.0.1/sharding  [P] = '0,1'
/evenkeel/phase/servers/10.9.0.1/status  [E] = 'RUNNING'
/evenkeel/phase/servers/10.9.0.2  [P] = ''
/evenkeel/phase/servers/10.9.0.2/hostName  [P] = 'b'
/evenkeel/phase/servers/10.9.0.2/sharding  [P] = '2'
/evenkeel/phase/servers/10.9.0.2/status  [E] = 'RUNNING'";
    assert_eq!(text(&render(ONE, &CompatJob::running())), expected);
}

/// proves: S2-14, S3-09
#[test]
fn version_3_a_whole_tree_while_all_shards_run() {
    let expected = "\
/evenkeel/phase  [P] = 'demo'
/evenkeel/phase/config  [P] = |
        cron: 0/10 * * * * ?
        description: ''
        disabled: false
        failover: true
        jobName: phase
        jobParameter: ''
        maxTimeDiffSeconds: -1
        misfire: true
        monitorExecution: true
        shardingItemParameters: ''
        shardingTotalCount: 3
        staticSharding: false
/evenkeel/phase/instances  [P] = ''
/evenkeel/phase/instances/10.9.0.1@-@6684  [E] = |
        jobInstanceId: 10.9.0.1@-@6684
        serverIp: 10.9.0.1
/evenkeel/phase/instances/10.9.0.2@-@8176  [E] = |
        jobInstanceId: 10.9.0.2@-@8176
        serverIp: 10.9.0.2
/evenkeel/phase/leader  [P] = ''
/evenkeel/phase/leader/election  [P] = ''
/evenkeel/phase/leader/election/instance  [E] = '10.9.0.1@-@6684'
/evenkeel/phase/leader/sharding  [P] = ''
/evenkeel/phase/servers  [P] = ''
/evenkeel/phase/servers/10.9.0.1  [P] = 'ENABLED'
/evenkeel/phase/servers/10.9.0.2  [P] = 'ENABLED'
/evenkeel/phase/sharding  [P] = ''
/evenkeel/phase/sharding/0  [P] = ''
/evenkeel/phase/sharding/0/instance  [P] = '10.9.0.1@-@6684'
/evenkeel/phase/sharding/0/running  [P] = '10.9.0.1@-@6684'
/evenkeel/phase/sharding/1  [P] = ''
/evenkeel/phase/sharding/1/instance  [P] = '10.9.0.1@-@6684'
/evenkeel/phase/sharding/1/running  [P] = '10.9.0.1@-@6684'
/evenkeel/phase/sharding/2  [P] = ''
/evenkeel/phase/sharding/2/instance  [P] = '10.9.0.2@-@8176'
/evenkeel/phase/sharding/2/running  [P] = '10.9.0.2@-@8176'";
    assert_eq!(text(&render(THREE, &CompatJob::running())), expected);
    let mut once = CompatJob::running();
    once.spec.job = once.spec.job.changed(|job| job.delivery = Delivery::AtMostOnce).expect("a valid job");
    let kinds: Vec<CompatEntryKind> =
        below(THREE, &once, "sharding/2/").into_iter().map(|(_, kind, _)| kind).collect();
    assert_eq!(
        kinds,
        [CompatEntryKind::Persistent, CompatEntryKind::Ephemeral],
        "without failover nobody needs it after its node"
    );
}

#[test]
fn before_the_first_cut_there_are_settings_nodes_a_leader_and_the_mark() {
    let mut seen = declared().reshard_pending(ReshardCause::Elected);
    seen.sharding.leader = Some(member("a@6684"));
    let expected = "\
/evenkeel/phase  [P] = ''
/evenkeel/phase/leader  [P] = ''
/evenkeel/phase/leader/election  [P] = ''
/evenkeel/phase/leader/election/host  [E] = '10.9.0.1'
/evenkeel/phase/leader/execution  [P] = ''
/evenkeel/phase/leader/failover  [P] = ''
/evenkeel/phase/leader/sharding  [P] = ''
/evenkeel/phase/leader/sharding/necessary  [P] = ''
/evenkeel/phase/servers  [P] = ''
/evenkeel/phase/servers/10.9.0.1  [P] = ''
/evenkeel/phase/servers/10.9.0.1/hostName  [P] = 'a'
/evenkeel/phase/servers/10.9.0.1/status  [E] = 'READY'
/evenkeel/phase/servers/10.9.0.2  [P] = ''
/evenkeel/phase/servers/10.9.0.2/hostName  [P] = 'b'
/evenkeel/phase/servers/10.9.0.2/status  [E] = 'READY'";
    assert_eq!(shown(ONE, &seen), expected);
    let expected = "\
/evenkeel/phase  [P] = 'demo'
/evenkeel/phase/instances  [P] = ''
/evenkeel/phase/instances/10.9.0.1@-@6684  [E] = |
        jobInstanceId: 10.9.0.1@-@6684
        serverIp: 10.9.0.1
/evenkeel/phase/instances/10.9.0.2@-@8176  [E] = |
        jobInstanceId: 10.9.0.2@-@8176
        serverIp: 10.9.0.2
/evenkeel/phase/leader  [P] = ''
/evenkeel/phase/leader/election  [P] = ''
/evenkeel/phase/leader/election/instance  [E] = '10.9.0.1@-@6684'
/evenkeel/phase/leader/sharding  [P] = ''
/evenkeel/phase/leader/sharding/necessary  [P] = ''
/evenkeel/phase/servers  [P] = ''
/evenkeel/phase/servers/10.9.0.1  [P] = 'ENABLED'
/evenkeel/phase/servers/10.9.0.2  [P] = 'ENABLED'";
    assert_eq!(shown(THREE, &seen), expected);
}

/// proves: S2-44, S2-46, S2-47, S2-48
#[test]
fn after_a_fire_its_shards_are_completed_and_their_times_known() {
    let expected = "\
/evenkeel/phase/execution  [P] = ''
/evenkeel/phase/execution/0  [P] = ''
/evenkeel/phase/execution/0/completed  [P] = ''
/evenkeel/phase/execution/0/lastBeginTime  [P] = '1795259680000'
/evenkeel/phase/execution/0/lastCompleteTime  [P] = '1795259680900'
/evenkeel/phase/execution/0/nextFireTime  [P] = '1795259690000'
/evenkeel/phase/execution/1  [P] = ''
/evenkeel/phase/execution/1/completed  [P] = ''
/evenkeel/phase/execution/1/lastBeginTime  [P] = '1795259680000'
/evenkeel/phase/execution/1/lastCompleteTime  [P] = '1795259680900'
/evenkeel/phase/execution/1/nextFireTime  [P] = '1795259690000'
/evenkeel/phase/execution/2  [P] = ''
/evenkeel/phase/execution/2/completed  [P] = ''
/evenkeel/phase/execution/2/lastBeginTime  [P] = '1795259680000'
/evenkeel/phase/execution/2/lastCompleteTime  [P] = '1795259680800'
/evenkeel/phase/execution/2/nextFireTime  [P] = '1795259690000'";
    let idle = CompatJob::idle();
    let all = shown(ONE, &idle);
    let execution: Vec<&str> = all.lines().filter(|line| line.contains("/execution")).collect();
    let leader = execution.iter().position(|line| line.contains("/leader/")).unwrap();
    assert_eq!(execution[..leader].join("\n"), expected);
    assert_eq!(below(THREE, &idle, "sharding/0/").len(), 1, "only who has it");

    // Claimed before it is due: nothing has begun, so nothing is cleared.
    let ahead = idle.clone().claims("a@6684", T + 10_000, "0-1").at(T + 9_900);
    let mut early = below(ONE, &ahead, "execution/0/");
    assert_eq!(early, below(ONE, &idle, "execution/0/"));
    assert_eq!(value(ONE, &ahead, "servers/10.9.0.1/status").as_deref(), Some("READY"));
    // Once due, the completed entries are cleared, and only running ones remain.
    early = below(ONE, &ahead.at(T + 10_000), "execution/0/");
    let names: Vec<&str> = early.iter().map(|(name, ..)| name.as_str()).collect();
    assert_eq!(names, ["lastBeginTime", "nextFireTime", "running"]);
    assert_eq!((&*early[0].2, &*early[1].2), ("1795259690000", "1795259700000"));

    let next = |seen: &CompatJob| value(ONE, seen, "execution/0/nextFireTime").unwrap();
    let mut waits = idle.reshard_pending(ReshardCause::Nodes).at(T + 25_000);
    assert_eq!(next(&waits), "1795259710000", "never one that has passed");
    waits.spec.since = Wall(T + 35_000);
    assert_eq!(next(&waits), "1795259720000", "nor one from before the job was there");
}

/// proves: S2-21, S2-22, S2-23, S2-24, S2-36, S2-37
#[test]
fn what_a_job_says_of_its_data_and_what_was_counted_of_it() {
    let plain = declared();
    for name in ["fetchDataCount", "streamingProcess", "processCountIntervalSeconds"] {
        assert_eq!(
            value(ONE, &plain, &format!("config/{name}")),
            None,
            "a job without data says nothing of it"
        );
    }
    let mut seen = declared();
    seen.spec.job = seen
        .spec
        .job
        .changed(|job| {
            job.dataflow = Some(Dataflow { interval: 60, threads: Some(4), fetch: 100, streaming: true })
        })
        .expect("a valid job");
    let count =
        |succeeded, failed| ProcessedItems { from: Wall(T - 60_000), until: Wall(T), succeeded, failed };
    // Nodes of one host are one server.
    seen.members.insert(member("c@9000"), info("10.9.0.1:7701"));
    seen.counts = [(node("a"), count(7, 1)), (node("c"), count(10, 0)), (node("gone"), count(1, 1))].into();
    for (entry, said) in [
        ("config/concurrentDataProcessThreadCount", Some("4")),
        ("config/fetchDataCount", Some("100")),
        ("config/processCountIntervalSeconds", Some("60")),
        ("config/streamingProcess", Some("true")),
        ("servers/10.9.0.1/processSuccessCount", Some("17")),
        ("servers/10.9.0.1/processFailureCount", Some("1")),
        ("servers/10.9.0.2/processSuccessCount", None),
        ("servers/10.9.0.2/processFailureCount", None),
    ] {
        assert_eq!(value(ONE, &seen, entry).as_deref(), said, "{entry}");
    }
    let config = value(THREE, &seen, "config").unwrap();
    assert!(config.contains("props:\n  streaming.process: 'true'"), "{config}");
}
