//! Three nodes on each real engine: jobs of all placements run each second while a node is killed, one is frozen past its
//! lease, one is cut off from the engine, first so that it is told and then so that it hears nothing at all, and the engine itself
//! is killed and started again; and while every node in turn is asked to leave and started again. Of an engine of three members
//! any one may die.
//!
//! `cargo xtask engines up` brings the engines; where one is absent its trial is skipped, unless `REQUIRE=all`. Those of
//! three members are brought by `cargo xtask engines up --quorum`, and skipped without it.
//!
//! The gate runs the trial on Redis, which starts fastest, and judges there what ran. How long things took only the soak judges.

mod cluster;

use std::path::Path;

use crate::evenly::{DispatchShape, play};
use crate::evidence::{Evidence, FaultAction, LostLease, NodeFault};
use crate::fleet::wall;
use crate::peers::lateness;
use crate::shards::witness::WitnessTicks;
use crate::verdict::ClaimedCase;
use crate::witness::{JobRoster, read, starts};
use crate::{LEASE_MS, PROMISED_MS, alone, aloud, wait_until_clean};
use cluster::{BEAT_S, EngineCluster};

/// One of each placement. The sharded ones have one shard.
const ROSTERS: [JobRoster; 3] = [
    JobRoster { prefix: "held-", jobs: 10, placement: "claimed", slow: ("brief", 3) },
    JobRoster { prefix: "sent-", jobs: 10, placement: "dispatched", slow: ("brief", 3) },
    JobRoster { prefix: "dealt-", jobs: 4, placement: "sharded", slow: ("brief", 3) },
];

/// All that the nodes can be put on.
const ENGINES: [&str; 5] = ["redis", "postgres", "mysql", "etcd", "zookeeper"];

#[test]
fn redis_keeps_the_books() {
    trial("redis", |cluster, log| cluster.suffer(log, 1));
}

#[test]
#[ignore = "soak: twice all faults, and how long takeovers take"]
fn redis_keeps_the_books_and_takeovers_are_prompt() {
    suffer_promptly("redis");
}

#[test]
#[ignore = "soak: one engine is enough for the gate"]
fn etcd_keeps_the_books() {
    suffer_promptly("etcd");
}

#[test]
#[ignore = "soak: one engine is enough for the gate"]
fn zookeeper_keeps_the_books() {
    suffer_promptly("zookeeper");
}

#[test]
#[ignore = "soak: one engine is enough for the gate"]
fn mysql_keeps_the_books() {
    suffer_promptly("mysql");
}

#[test]
#[ignore = "soak: one engine is enough for the gate"]
fn postgres_keeps_the_books() {
    suffer_promptly("postgres");
}

/// As when an operator brings a new version to all nodes: no fault, so nothing excuses a fire that is lost or doubled, nor one
/// as late as when a node dies, whose lease must end first.
#[test]
#[ignore = "soak: every node is restarted on every engine"]
fn every_node_is_restarted_in_turn_and_nobody_notices() {
    for engine in ENGINES {
        let Some(rounds) = trial(engine, EngineCluster::roll) else { continue };
        let latest = rounds.iter().map(|round| round.latest).min().expect("a round");
        assert!(latest < LEASE_MS, "{engine}: a fire started {latest} ms late in each round");
    }
}

/// What the gate judges on SQLite holds on each engine.
#[test]
#[ignore = "soak: dispatched runs on every engine"]
fn dispatched_runs_are_spread_evenly_on_every_engine() {
    for engine in ENGINES {
        let _machine = alone();
        let Some(url) = url_of(engine) else { continue };
        let namespace = format!("even-{}-{}", std::process::id(), wall());
        let shape = DispatchShape { jobs: 10, every: 3, together: true, slots: 8, takes: "1.5" };
        play(&shape, Some(&format!("{url}/{namespace}")));
        aloud(&format!("chaos on {engine}: dispatched runs are spread evenly"));
    }
}

/// Each member of an etcd dies once, so each node loses the one that it talks to and goes on with the others. Nobody's lease
/// ends, so nothing is excused.
#[test]
#[ignore = "soak: each member is missed for longer than a lease"]
fn the_death_of_any_member_of_an_etcd_quorum_is_survived() {
    survive_members("etcd-quorum");
}

/// The same for a ZooKeeper.
#[test]
#[ignore = "soak: each member is missed for longer than a lease"]
fn the_death_of_any_member_of_a_zookeeper_quorum_is_survived() {
    survive_members("zookeeper-quorum");
}

/// One thing that was done to a cluster.
struct ClusterRound {
    /// To which nodes.
    faults: Vec<NodeFault>,
    /// From then until everybody was prompt again.
    span: (i64, i64),
    /// How late a fire of that time started at most.
    latest: i64,
}

impl ClusterRound {
    /// The fault after which others took over.
    fn takeover(&self) -> Option<&NodeFault> {
        self.faults.first().filter(|fault| fault.how != FaultAction::EngineKilled)
    }
}

/// Plays all faults, and judges how long takeovers and the fires that waited for them took.
///
/// A machine that stands still for a moment delays one of the rounds; the best of them shows what the nodes can do.
fn suffer_promptly(engine: &'static str) {
    let Some(rounds) = trial(engine, |cluster, log| cluster.suffer(log, crate::times(2))) else { return };
    let takeovers = || rounds.iter().filter_map(|round| Some((round, round.takeover()?)));
    let best = takeovers().map(|(_, fault)| fault.takeover).min().expect("a takeover");
    assert!(best <= PROMISED_MS, "{engine}: every takeover took at least {best} ms");
    let latest = takeovers().map(|(round, _)| round.latest).min().expect("a takeover");
    assert!(latest < late_max(engine), "{engine}: a fire started {latest} ms late in each round");
}

/// No fire, of whichever placement, starts later than a takeover and a beat take, and what the engine needs on top: ZooKeeper two ticks, an
/// etcd that was started again the term of each lease, a server that is polled its poll.
fn late_max(engine: &str) -> i64 {
    let more = match engine {
        "zookeeper" | "zookeeper-quorum" => 500,
        "etcd" | "etcd-quorum" => LEASE_MS,
        _ => 100,
    };
    PROMISED_MS + 1_000 * BEAT_S + more
}

fn survive_members(engine: &'static str) {
    let Some(rounds) = trial(engine, EngineCluster::lose_members) else { return };
    let latest = rounds.iter().map(|round| round.latest).min().expect("a round");
    assert!(latest < late_max(engine), "{engine}: a fire started {latest} ms late in each round");
}

/// What is done to a cluster.
type ClusterFault = fn(&mut EngineCluster, &Path) -> Vec<ClusterRound>;

/// Plays it and judges what ran; `None` when it was skipped.
fn trial(engine: &'static str, play: ClusterFault) -> Option<Vec<ClusterRound>> {
    let _machine = alone();
    let url = url_of(engine)?;
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("witness.log");
    let _ticks = WitnessTicks::begin(&log);
    let namespace = format!("chaos-{}-{}", std::process::id(), wall());
    let mut cluster = EngineCluster::start(folder.path(), engine, &format!("{url}/{namespace}"));
    cluster.apply(&log);
    let begun = wall();
    cluster.wait_until_resumed(&log);
    let mut rounds = play(&mut cluster, &log);
    let ended = wall();
    let faults: Vec<NodeFault> = rounds.iter().flat_map(|round| round.faults.clone()).collect();
    let mut lost_leases = Vec::new();
    let complaints = wait_until_clean(|| {
        lost_leases = cluster.lost_leases();
        judge(&mut cluster, &log, (begun, ended), &faults, &lost_leases)
    });
    let lines = read(&log);
    for round in &mut rounds {
        round.latest = lateness::latest(&lines, round.span);
    }
    report(
        engine,
        &rounds,
        &format!(
            "{} s, {} witness lines, {} verdicts, {} lost leases",
            (ended - begun) / 1_000,
            lines.len(),
            cluster.verdicts.len(),
            lost_leases.len()
        ),
    );
    assert!(
        complaints.is_empty(),
        "{} complaints:\n{}\n{}",
        complaints.len(),
        complaints.join("\n"),
        complaints.iter().take(5).map(|what| cluster.reported_since(what)).collect::<String>()
    );
    Some(rounds)
}

fn judge(
    cluster: &mut EngineCluster,
    log: &Path,
    span: (i64, i64),
    faults: &[NodeFault],
    lost_leases: &[LostLease],
) -> Vec<String> {
    cluster.collect_history();
    let lines = read(log);
    let evidence = Evidence::gather(faults, lost_leases, starts(&lines));
    let judged = |roster: &JobRoster| {
        let theirs = lines.iter().filter(|line| line.job.starts_with(roster.prefix)).cloned().collect();
        ClaimedCase::gather(roster, theirs, cluster.verdicts.values(), span, &evidence).judge()
    };
    ROSTERS.iter().flat_map(judged).collect()
}

fn report(engine: &str, rounds: &[ClusterRound], what: &str) {
    let takeovers: Vec<_> =
        rounds.iter().filter_map(ClusterRound::takeover).map(|fault| (fault.how, fault.takeover)).collect();
    let latest: Vec<_> = rounds.iter().map(|round| round.latest).collect();
    aloud(&format!(
        "chaos on {engine}: {} rounds, {what}; takeovers after {takeovers:?} ms, latest starts of rounds {latest:?} ms",
        rounds.len()
    ));
}

/// Where the engine is; `None`, said aloud, where it does not run.
fn url_of(engine: &str) -> Option<String> {
    let url = std::env::var(format!("EVENKEEL_TEST_{}", engine.to_uppercase().replace('-', "_"))).ok();
    if url.is_none() {
        let flag = if engine.ends_with("quorum") { " --quorum" } else { "" };
        let required = std::env::var("REQUIRE").as_deref() == Ok("all") && flag.is_empty();
        assert!(!required, "{engine} is required and does not run");
        aloud(&format!(
            "chaos: SKIPPED the trial on {engine}: bring it up with `cargo xtask engines up{flag}`"
        ));
    }
    url
}
