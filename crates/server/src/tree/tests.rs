//! Trees of jobs in many states, entry by entry as the source writes them.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_core::job::{CatchUp, Delivery, Job, Placement, Spec, Work};
use evenkeel_core::record::{
    AskedRecord, Cause, Cut, Group, Mark, MemberInfo, OpenShards, Portion, Request, ShardLane, Sharding,
    Switches,
};
use evenkeel_core::shards::ShardSet;
use evenkeel_core::share::Strategy;
use evenkeel_core::time::Wall;
use evenkeel_core::words::{Fire, Member, NodeName, Shard};

use super::{Form, Kind, Seen, render, text};

mod whole;

/// A moment at which the schedule is due.
const T: i64 = 1_795_259_680_000;

fn member(text: &str) -> Member {
    text.parse().unwrap()
}

fn node(name: &str) -> NodeName {
    name.parse().unwrap()
}

fn shards(text: &str) -> ShardSet {
    text.parse().unwrap()
}

fn info(address: &str) -> MemberInfo {
    MemberInfo {
        address: address.into(),
        home: "/opt".into(),
        slots: 64,
        tolerance: 1,
        alarm: 100,
        version: "1".into(),
    }
}

/// A job of three shards that is declared, on two living nodes that have not elected yet.
fn declared() -> Seen {
    let mut job = Job::new("phase".parse().unwrap(), "0/10 * * * * ?", Work::Function("demo".into()));
    job.placement = Placement::Sharded;
    job.shards = 3;
    job.delivery = Delivery::AtLeastOnce;
    Seen {
        spec: Spec { job, version: 1, since: Wall(T - 60_000), paused: false, off: ShardSet::empty() },
        sharding: Sharding::default(),
        lanes: BTreeMap::new(),
        members: [(member("a@6684"), info("10.9.0.1:7700")), (member("b@8176"), info("10.9.0.2:7700"))]
            .into(),
        switches: BTreeMap::new(),
        drained: BTreeSet::new(),
        asked: AskedRecord::default(),
        now: Wall(T),
    }
}

impl Seen {
    fn marked(mut self, why: Cause) -> Self {
        self.sharding.mark = Some(Mark { since: self.now, why });
        self
    }

    /// Deals shards, all with the same watermark; lanes begin anew but for their times.
    fn deal(mut self, watermark: i64, portions: &[(&str, &str)]) -> Self {
        let portion = |(holder, its): &(&str, &str)| {
            let group = Group { watermark: Wall(watermark), shards: shards(its) };
            Portion { holder: member(holder), groups: Vec::from_iter((!its.is_empty()).then_some(group)) }
        };
        let portions: Vec<Portion> = portions.iter().map(portion).collect();
        self.sharding.leader = Some(member("a@6684"));
        self.sharding.mark = None;
        self.sharding.lanes = portions.iter().map(|p| p.holder.clone()).collect();
        self.sharding.cut = Cut {
            number: 7,
            total: self.spec.job.shards,
            among: self.sharding.lanes.clone(),
            portions: portions.iter().filter(|p| !p.groups.is_empty()).cloned().collect(),
            ..Cut::default()
        };
        let before = std::mem::take(&mut self.lanes);
        let lane = |p: Portion| {
            let old = before.get(&p.holder).cloned().unwrap_or_default();
            (p.holder, ShardLane { cut: 7, groups: p.groups, ..old })
        };
        self.lanes = portions.into_iter().map(lane).collect();
        self
    }

    fn lane(&mut self, holder: &str) -> &mut ShardLane {
        self.lanes.get_mut(&member(holder)).unwrap()
    }

    /// Claims the fire of a moment, to start then.
    fn claims(mut self, holder: &str, due: i64, its: &str) -> Self {
        let lane = self.lane(holder);
        let back = lane.groups[0].watermark;
        lane.set_watermark(&shards(its), Wall(due));
        lane.add_open(open(due, back, its));
        lane.began = Some(Wall(due));
        self
    }

    fn ends(mut self, holder: &str, at: i64, its: &str) -> Self {
        let lane = self.lane(holder);
        lane.close(&shards(its));
        lane.ended = Some(Wall(at));
        self
    }

    fn at(mut self, now: i64) -> Self {
        self.now = Wall(now);
        self
    }

    fn dies(mut self, holder: &str) -> Self {
        self.members.remove(&member(holder));
        self
    }

    fn switched(mut self, name: &str, change: impl FnOnce(&mut Switches)) -> Self {
        change(self.switches.entry(node(name)).or_default());
        self
    }

    /// Two nodes with their shards, before the first fire.
    fn cut() -> Self {
        declared().deal(i64::MIN, &[("a@6684", "0-1"), ("b@8176", "2")])
    }

    /// The same, with the first fire under way for half a second.
    fn running() -> Self {
        Self::cut().claims("a@6684", T, "0-1").claims("b@8176", T, "2").at(T + 500)
    }

    /// The same, after it.
    fn idle() -> Self {
        Self::running().ends("a@6684", T + 900, "0-1").ends("b@8176", T + 800, "2").at(T + 2_000)
    }

    /// Node b died in the middle of its run.
    fn crashed() -> Self {
        Self::running().dies("b@8176").at(T + 3_000)
    }

    /// Node a took its shard over.
    fn taken() -> Self {
        let mut seen = Self::crashed().ends("a@6684", T + 900, "0-1");
        let (left, own) = (seen.lanes[&member("b@8176")].open[0].clone(), shards("2"));
        seen.lane("b@8176").remove(&own);
        seen.lane("a@6684").set_watermark(&own, Wall(T));
        seen.lane("a@6684").add_open(OpenShards { attempt: 2, from: Wall(T + 2_500), seq: 9, ..left });
        seen.lane("a@6684").began = Some(Wall(T + 2_500));
        seen
    }
}

fn open(due: i64, back: Wall, its: &str) -> OpenShards {
    let due = Wall(due);
    OpenShards {
        fire: Fire::Due(due),
        due,
        from: due,
        back,
        attempt: 1,
        seq: 1,
        total: 4,
        shards: shards(its),
    }
}

/// The tree without the settings, which do not change with what runs.
fn shown(form: Form, seen: &Seen) -> String {
    let mut entries = render(form, seen);
    entries.retain(|entry| !entry.path.contains("/phase/config"));
    text(&entries)
}

/// The entries of a tree whose path below the job begins like this, without it.
fn below(form: Form, seen: &Seen, start: &str) -> Vec<(String, Kind, String)> {
    let start = format!("/evenkeel/phase/{start}");
    let found = render(form, seen).into_iter().filter_map(|entry| {
        let path = entry.path.strip_prefix(&start)?.to_owned();
        Some((path, entry.kind, entry.value))
    });
    found.filter(|(path, ..)| !path.is_empty()).collect()
}

/// The value of one entry; `None` when there is none.
fn value(form: Form, seen: &Seen, path: &str) -> Option<String> {
    let path = format!("/evenkeel/phase/{path}");
    render(form, seen).into_iter().find(|entry| entry.path == path).map(|entry| entry.value)
}

const ONE: Form = Form::ElasticJob1;
const THREE: Form = Form::ElasticJob3;

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
    assert_eq!(text(&render(ONE, &Seen::running())), expected);
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
    assert_eq!(text(&render(THREE, &Seen::running())), expected);
    let mut once = Seen::running();
    once.spec.job.delivery = Delivery::AtMostOnce;
    let kinds: Vec<Kind> = below(THREE, &once, "sharding/2/").into_iter().map(|(_, kind, _)| kind).collect();
    assert_eq!(kinds, [Kind::Persistent, Kind::Ephemeral], "without failover nobody needs it after its node");
}

#[test]
fn before_the_first_cut_there_are_settings_nodes_a_leader_and_the_mark() {
    let mut seen = declared().marked(Cause::Elected);
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
    let idle = Seen::idle();
    let all = shown(ONE, &idle);
    let execution: Vec<&str> = all.lines().filter(|line| line.contains("/execution")).collect();
    let leader = execution.iter().position(|line| line.contains("/leader/")).unwrap();
    assert_eq!(execution[..leader].join("\n"), expected);
    assert_eq!(below(THREE, &idle, "sharding/0/").len(), 1, "only who has it");

    // Claimed ahead of its moment: nothing has begun, so nothing is forgotten.
    let ahead = idle.clone().claims("a@6684", T + 10_000, "0-1").at(T + 9_900);
    let mut early = below(ONE, &ahead, "execution/0/");
    assert_eq!(early, below(ONE, &idle, "execution/0/"));
    assert_eq!(value(ONE, &ahead, "servers/10.9.0.1/status").as_deref(), Some("READY"));
    // At its moment what was completed is forgotten, and only what runs is said.
    early = below(ONE, &ahead.at(T + 10_000), "execution/0/");
    let names: Vec<&str> = early.iter().map(|(name, ..)| name.as_str()).collect();
    assert_eq!(names, ["lastBeginTime", "nextFireTime", "running"]);
    assert_eq!((&*early[0].2, &*early[1].2), ("1795259690000", "1795259700000"));

    let next = |seen: &Seen| value(ONE, seen, "execution/0/nextFireTime").unwrap();
    let mut waits = idle.marked(Cause::Nodes).at(T + 25_000);
    assert_eq!(next(&waits), "1795259710000", "never one that has passed");
    waits.spec.since = Wall(T + 35_000);
    assert_eq!(next(&waits), "1795259720000", "nor one from before the job was there");
}

/// proves: S2-33
#[test]
fn a_node_waits_or_runs_and_its_status_goes_with_it() {
    let status = |seen: &Seen, host: &str| {
        let found =
            below(ONE, seen, &format!("servers/{host}/")).into_iter().find(|(path, ..)| path == "status");
        found.map(|(_, kind, value)| {
            assert_eq!(kind, Kind::Ephemeral);
            value
        })
    };
    assert_eq!(status(&Seen::cut(), "10.9.0.2").as_deref(), Some("READY"));
    assert_eq!(status(&Seen::running(), "10.9.0.2").as_deref(), Some("RUNNING"));
    assert_eq!(status(&Seen::idle(), "10.9.0.2").as_deref(), Some("READY"));
    let crashed = Seen::crashed();
    assert_eq!((status(&crashed, "10.9.0.2"), status(&crashed, "b")), (None, None));
    assert_eq!(status(&crashed, "10.9.0.1").as_deref(), Some("RUNNING"));
}

/// proves: S2-43
#[test]
fn a_shard_runs_or_has_run_or_has_not_begun() {
    let state = |seen: &Seen, shard: u32| {
        let is = |name| value(ONE, seen, &format!("execution/{shard}/{name}")).is_some();
        (is("running"), is("completed"))
    };
    assert_eq!(state(&Seen::cut(), 0), (false, false));
    assert_eq!(state(&Seen::running(), 0), (true, false));
    assert_eq!(state(&Seen::idle(), 0), (false, true));
    let one = Seen::running().ends("a@6684", T + 300, "0");
    assert_eq!((state(&one, 0), state(&one, 1)), ((false, true), (true, false)), "its neighbour goes on");
    assert_eq!(state(&Seen::crashed(), 2), (false, false), "running goes with its node");
    let recut = Seen::idle().deal(T, &[("a@6684", "0"), ("b@8176", "1-2")]);
    assert_eq!(state(&recut, 0), (false, false), "a new cut begins anew");

    // Shards whose fires are passed over have not run: switched off, on a paused node, or lost with their node.
    let mut off = Seen::cut().claims("a@6684", T, "0").ends("a@6684", T + 100, "0").at(T + 200);
    off.lane("a@6684").set_watermark(&shards("1"), Wall(T));
    off.spec.off = shards("1");
    assert_eq!((state(&off, 0), state(&off, 1)), ((false, true), (false, false)));
    let mut paused = Seen::cut().switched("a", |switches| switches.paused = true).at(T + 200);
    paused.lane("a@6684").set_watermark(&shards("0-1"), Wall(T));
    assert_eq!(state(&paused, 0), (false, false));
    let mut paused = Seen::idle().switched("a", |switches| switches.paused = true).at(T + 10_200);
    paused.lane("a@6684").set_watermark(&shards("0"), Wall(T + 10_000));
    assert_eq!((state(&paused, 0), state(&paused, 1)), ((false, false), (false, true)));
    let mut lost = Seen::crashed();
    lost.lane("b@8176").close(&shards("2"));
    assert_eq!(state(&lost, 2), (false, false));
}

#[test]
fn a_run_by_hand_completes_a_shard_too() {
    let mut seen = Seen::cut().at(T + 500);
    let request =
        Request { id: "r".parse().unwrap(), at: Wall(T), taken: false, node: None, shards: shards("0-1") };
    let fire = Fire::Asked(request.id.clone());
    seen.asked.requests.push(request);
    seen.lane("a@6684").add_open(OpenShards { fire, ..open(T, Wall::MIN, "0-1") });
    assert_eq!(value(ONE, &seen, "execution/0/completed"), None);
    assert!(value(ONE, &seen, "execution/0/running").is_some());
    let mut skewed = seen.clone();
    skewed.lane("a@6684").open[0].from = Wall(T + 600);
    let next = value(ONE, &skewed, "execution/0/nextFireTime");
    assert_eq!(next.as_deref(), Some("1795259690000"), "what a clock ahead of ours has claimed is no fire");
    let seen = seen.ends("a@6684", T + 600, "0-1").at(T + 700);
    assert!(value(ONE, &seen, "execution/0/completed").is_some());
    assert_eq!(value(ONE, &seen, "execution/2/completed"), None, "node b has not been reached yet");
    assert!(value(ONE, &seen, "servers/10.9.0.2/trigger").is_some());
    let mut lost = seen;
    lost.asked.requests[0].at = Wall(T + 601);
    assert_eq!(value(ONE, &lost, "execution/0/completed"), None, "no run has ended since that was asked");
}

#[test]
fn a_new_node_and_a_changed_number_of_shards_show_before_the_next_cut() {
    let mut joined = Seen::idle().marked(Cause::Nodes);
    joined.members.insert(member("c@8179"), info("10.9.0.3:7700"));
    let of_leader = |form, seen: &Seen| -> Vec<String> {
        let entries =
            below(form, seen, "leader/").into_iter().filter(|(path, ..)| path.contains("necessary"));
        entries.map(|(path, ..)| path).collect()
    };
    assert_eq!(of_leader(ONE, &joined), ["sharding/necessary"]);
    assert_eq!(of_leader(THREE, &joined), ["sharding/necessary"]);
    let server: Vec<(String, Kind, String)> = below(ONE, &joined, "servers/10.9.0.3/");
    let entry = |path: &str, kind, value: &str| (path.to_owned(), kind, value.to_owned());
    assert_eq!(
        server,
        [entry("hostName", Kind::Persistent, "c"), entry("status", Kind::Ephemeral, "READY")],
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
    let parts = |seen: &Seen| {
        let of = |form, start: &str| -> Vec<String> {
            let paths = below(form, seen, start).into_iter().map(|(path, ..)| path);
            paths.filter(|path| !path.contains('/')).collect()
        };
        assert_eq!(of(ONE, "execution/"), of(THREE, "sharding/"));
        let necessary = value(ONE, seen, "leader/execution/necessary").is_some();
        (of(ONE, "execution/").join(" "), necessary)
    };
    let mut grown = Seen::idle();
    grown.spec.job.shards = 5;
    assert_eq!(parts(&grown), ("0 1 2".into(), true));
    let grown = grown.deal(T, &[("a@6684", "0-1,4"), ("b@8176", "2-3")]);
    assert_eq!(parts(&grown), ("0 1 2 3 4".into(), false));
    assert_eq!(value(ONE, &grown, "servers/10.9.0.1/sharding").as_deref(), Some("0,1,4"));
    assert_eq!(value(ONE, &grown, "execution/4/completed"), None, "a new shard has never run");
    let mut shrunk = grown;
    shrunk.spec.job.shards = 2;
    assert_eq!(parts(&shrunk), ("0 1 2 3 4".into(), true));
    let shrunk = shrunk.deal(T, &[("a@6684", "0"), ("b@8176", "1")]);
    assert_eq!(parts(&shrunk), ("0 1".into(), false));
    let mut first = declared().marked(Cause::Elected);
    first.spec.job.shards = 5;
    assert_eq!(parts(&first), (String::new(), false), "nothing was cut yet, so nothing is to be mended");
    first.sharding.cut.number = 9;
    assert_eq!(
        parts(&first),
        (String::new(), false),
        "an earlier job of this name left nothing to be mended"
    );
}

/// proves: S2-45
#[test]
fn what_a_dead_node_left_is_written_down_until_somebody_takes_it() {
    let crashed = Seen::crashed();
    let items = |form, seen: &Seen| below(form, seen, "leader/failover/items/");
    let entry = |path: &str, kind, value: &str| (path.to_owned(), kind, value.to_owned());
    for form in [ONE, THREE] {
        assert_eq!(items(form, &crashed), [entry("2", Kind::Persistent, "")]);
    }
    assert_eq!(value(ONE, &crashed, "servers/b/sharding").as_deref(), Some("2"), "known by its name only");
    assert_eq!(below(THREE, &crashed, "instances/").len(), 1);

    let taken = Seen::taken();
    assert_eq!(items(ONE, &taken), []);
    let expected = [
        entry("failover", Kind::Ephemeral, "10.9.0.1"),
        entry("lastBeginTime", Kind::Persistent, "1795259682500"),
        entry("nextFireTime", Kind::Persistent, "1795259690000"),
        entry("running", Kind::Ephemeral, ""),
    ];
    assert_eq!(below(ONE, &taken, "execution/2/"), expected);
    let expected = [
        entry("failover", Kind::Ephemeral, "10.9.0.1@-@6684"),
        entry("failovering", Kind::Persistent, "10.9.0.1@-@6684"),
        entry("instance", Kind::Persistent, "b@-@8176"),
        entry("running", Kind::Persistent, "10.9.0.1@-@6684"),
    ];
    assert_eq!(below(THREE, &taken, "sharding/2/"), expected);
    assert_eq!(value(ONE, &taken, "execution/0/failover"), None, "its own shards are no failover");
    let begun = value(ONE, &taken, "execution/0/lastBeginTime");
    assert_eq!(begun.as_deref(), Some("1795259680000"), "another shard's later beginning is not its own");

    // The taker dies too: the shard is free again.
    let again = taken.clone().dies("a@6684");
    assert_eq!(items(ONE, &again), [entry("2", Kind::Persistent, "")]);
    assert_eq!(value(ONE, &again, "execution/2/failover"), None);
    assert_eq!(value(ONE, &again, "leader/election/host"), None, "and so is the leadership");

    // It ends: everything about the failover goes, and the shard is completed.
    let over = taken.ends("a@6684", T + 3_500, "2").at(T + 4_000);
    assert_eq!(value(ONE, &over, "execution/2/failover"), None);
    assert!(value(ONE, &over, "execution/2/completed").is_some());

    let mut once = crashed;
    once.spec.job.delivery = Delivery::AtMostOnce;
    assert_eq!(items(ONE, &once), [], "without failover nobody will take it");
}

/// proves: S2-49
#[test]
fn a_fire_that_comes_during_a_run_marks_its_shards_and_no_others() {
    let late = Seen::running().ends("b@8176", T + 800, "2").at(T + 10_000);
    let marked = |seen: &Seen| -> Vec<u32> {
        let is = |shard: &u32| value(ONE, seen, &format!("execution/{shard}/misfire")).is_some();
        let ones: Vec<u32> = (0..3).filter(is).collect();
        let is = |shard: &u32| value(THREE, seen, &format!("sharding/{shard}/misfire")).is_some();
        assert_eq!(ones, (0..3).filter(is).collect::<Vec<u32>>());
        ones
    };
    assert_eq!(marked(&late), [0, 1]);
    assert_eq!(marked(&late.clone().at(T + 9_999)), [0; 0], "not a moment before");
    let mut skip = late.clone();
    skip.spec.job.catch_up = CatchUp::Skip;
    assert_eq!(marked(&skip), [0; 0], "it will not be made up");
    let paused = late.clone().switched("a", |switches| switches.paused = true);
    assert_eq!(marked(&paused), [0; 0]);
    let mut off = late.clone();
    off.spec.off = shards("1");
    assert_eq!(marked(&off), [0]);
    let mut tardy = late;
    tardy.lane("a@6684").open[0].from = Wall(T + 10_000);
    assert_eq!(marked(&tardy), [0; 0], "that fire came before the run began");
}

/// proves: S2-42
#[test]
fn without_monitoring_nothing_is_said_of_runs() {
    let mut seen = Seen::running();
    seen.spec.job.delivery = Delivery::AtMostOnce;
    seen.spec.job.monitor = false;
    seen = seen.at(T + 20_000);
    assert_eq!(below(ONE, &seen, "execution"), []);
    assert_eq!(value(ONE, &seen, "execution"), None);
    assert_eq!(value(ONE, &seen, "config/monitorExecution").as_deref(), Some("false"));
    assert_eq!(value(ONE, &seen, "servers/10.9.0.1/status").as_deref(), Some("READY"));
    let all = shown(THREE, &seen);
    assert!(all.contains("sharding/2/instance") && !all.contains("running") && !all.contains("misfire"));
}

#[test]
fn switches_show_where_they_were_set() {
    let marks = |seen: &Seen, host: &str| -> String {
        let entries = below(ONE, seen, &format!("servers/{host}/"));
        let marks =
            entries.into_iter().filter(|(_, kind, value)| *kind == Kind::Persistent && value.is_empty());
        marks.map(|(path, ..)| path).collect::<Vec<_>>().join(" ")
    };
    let plain = Seen::idle();
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
    disabled.spec.job.enabled = false;
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
    // Switches that outlast a restart are seen while their node is away.
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
    let shut = Seen::idle().switched("b", |switches| switches.shutdown = Some(8176));
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
    let mut seen = Seen::idle();
    let request = |id: &str| Request {
        id: id.parse().unwrap(),
        at: seen.now,
        taken: false,
        node: None,
        shards: ShardSet::empty(),
    };
    let (everyone, one) = (request("r"), Request { node: Some(node("b")), ..request("s") });
    let waiting = |seen: &Seen| -> String {
        let triggers = below(THREE, seen, "trigger/").into_iter().map(|(path, ..)| path);
        let triggers = triggers.collect::<Vec<_>>().join(" ");
        for host in ["10.9.0.1", "10.9.0.2"] {
            let marked = value(ONE, seen, &format!("servers/{host}/trigger")).is_some();
            assert_eq!(marked, triggers.contains(host), "{triggers}");
        }
        triggers
    };
    assert_eq!(waiting(&seen), "");
    seen.asked.requests = vec![everyone.clone()];
    assert_eq!(waiting(&seen), "10.9.0.1@-@6684 10.9.0.2@-@8176");
    seen.asked.requests[0].shards = shards("0-1");
    assert_eq!(waiting(&seen), "10.9.0.2@-@8176");
    seen.asked.requests = vec![Request { taken: true, shards: shards("0-2"), ..everyone }, one];
    assert_eq!(waiting(&seen), "10.9.0.2@-@8176", "only the one it names");
    seen.asked.requests[1].taken = true;
    assert_eq!(waiting(&seen), "", "a request to one node is taken once");
}

/// proves: S2-28
#[test]
fn settings_are_shown_as_declared() {
    let mut seen = declared();
    let job = &mut seen.spec.job;
    *job =
        Job { function: String::new(), command: vec!["/bin/echo".into(), "it's ok".into()], ..job.clone() };
    job.parameters = ["north", "", "south"].map(String::from).into();
    job.parameter = "jp".into();
    job.description = "nightly split".into();
    job.zone = "Europe/Berlin".into();
    job.delivery = Delivery::AtMostOnce;
    job.catch_up = CatchUp::Skip;
    job.monitor = false;
    job.max_difference = Some(30);
    job.static_shards = true;
    job.enabled = false;
    job.strategy = Strategy::OddEven;
    let settings: Vec<(String, String)> = below(ONE, &seen, "config/")
        .into_iter()
        .inspect(|(path, kind, _)| assert_eq!(*kind, Kind::Persistent, "{path}"))
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
    let mut seen = Seen::running().ends("b@8176", T + 100, "2");
    for (info, host) in seen.members.values_mut().zip(["[::1]:7700", "[::1]:7701"]) {
        info.address = host.into();
    }
    let server = |seen: &Seen, name: &str| value(ONE, seen, &format!("servers/::1/{name}"));
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

#[test]
fn a_tree_is_a_tree() {
    for seen in [declared(), Seen::cut(), Seen::running(), Seen::idle(), Seen::crashed(), Seen::taken()] {
        for form in [ONE, THREE] {
            let entries = render(form, &seen);
            let paths: BTreeSet<&str> = entries.iter().map(|entry| entry.path.as_str()).collect();
            assert_eq!(paths.len(), entries.len(), "no path twice");
            for path in &paths {
                let parent = path.rsplit_once('/').unwrap().0;
                assert!(parent == "/evenkeel" || paths.contains(parent), "{path} hangs in the air");
            }
        }
    }
    let mut many = declared();
    many.spec.job.shards = 11;
    let many = many.deal(T, &[("a@6684", "0-10")]);
    let last = below(ONE, &many, "execution/").into_iter().rfind(|(path, ..)| !path.contains('/'));
    assert_eq!(last.unwrap().0, Shard(10).to_string(), "shards are counted, not spelt");
}

#[test]
fn a_form_is_known_by_its_name_or_refused_with_all_names() {
    assert_eq!("elasticjob-1".parse(), Ok(ONE));
    assert_eq!("elasticjob-3".parse(), Ok(THREE));
    let refused = "elasticjob-2".parse::<Form>().unwrap_err();
    assert_eq!(
        refused,
        "no tree has the form \"elasticjob-2\": use one of elasticjob-1, elasticjob-3, siatask, keeper, azkaban"
    );
}

#[test]
fn no_escape_sequence_of_a_description_reaches_a_terminal() {
    let mut seen = declared();
    seen.spec.job.description = "a\u{1b}[31mb\nc".into();
    let shown = text(&render(ONE, &seen));
    assert!(shown.contains("config/description  [P] = |\n        a [31mb\n        c\n"), "{shown}");
}
