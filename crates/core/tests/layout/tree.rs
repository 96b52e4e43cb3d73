//! The house's own books: what nodes write.

mod parameters;
mod peers;
mod principals;

use evenkeel_core::calendar::Calendar;
use evenkeel_core::effect::{Verdict, VerdictState};
use evenkeel_core::ids::{Fire, Member, RunId, Shard};
use evenkeel_core::job::{RunParameters, SwitchOrigin};
use evenkeel_core::keys::{self, ParsedKey, parse};
use evenkeel_core::load::{HostLoad, Score, Utilization};
use evenkeel_core::namespace::NamespaceSettings;
use evenkeel_core::node::Spread;
use evenkeel_core::overlap::SkippedSpan;
use evenkeel_core::principal::PrincipalKind;
use evenkeel_core::record::*;
use evenkeel_core::run_limit::RunLimit;
use evenkeel_core::sharding_strategy::{NodeOrder, ShardingStrategy};
use evenkeel_core::shards::ShardSet;
use evenkeel_core::time::{Millis, Wall};

use super::{LayoutLine, every, line};

pub(crate) const AT: Wall = Wall(1_763_749_200_000);

pub(crate) fn member() -> Member {
    "n1@7".parse().expect("a member")
}

pub(crate) fn run(fire: Fire) -> RunId {
    RunId { job: "j".parse().expect("a name"), fire, shard: Shard(2) }
}

pub(crate) fn later(secs: i64) -> Wall {
    AT + Millis::secs(secs)
}

fn shards() -> ShardSet {
    ShardSet::range(1, 4)
}

fn verdict() -> Verdict {
    Verdict {
        run: run(Fire::Due(AT)),
        attempt: 2,
        due: AT,
        state: VerdictState::Lost,
        reason: "its node is gone".into(),
        node: "n1".into(),
        from: later(-5),
        shards: shards(),
    }
}

fn wait() -> RetryWait {
    RetryWait { until: later(9), length: Millis::secs(8) }
}

fn passed() -> SkippedSpan {
    SkippedSpan { after: later(1), until: later(3) }
}

fn part(hundredths: f64) -> Option<Utilization> {
    Utilization::measured(hundredths)
}

/// Whether it is one kind of several: a later version may know another kind, and not another field beside it.
pub(crate) fn is_kind(name: &str) -> bool {
    let kinds = ["fire-due", "fire-asked", "user", "token", "token/trigger", "user/labels", "secret"];
    kinds.contains(&name) || name.ends_with("/deleted")
}

pub(crate) fn lines() -> Vec<LayoutLine> {
    let all = [
        keys(),
        cluster(),
        node(),
        job(),
        run_states(),
        plans(),
        peers::peers(),
        words(),
        principals::principals(),
        parameters::parameters(),
    ];
    all.into_iter().flatten().collect()
}

/// Every kind of key, as it is written and read.
fn keys() -> Vec<LayoutLine> {
    let (job, node) = (run(Fire::Due(AT)).job, member().node);
    let (beat, lock) = ("dispatch".parse().expect("a name"), "l".parse().expect("a name"));
    let calendar = "c".parse().expect("a name");
    let namespaced = "team-a/j".parse().expect("a name");
    let all = [
        keys::node(&member()),
        keys::spec(&job),
        keys::assignment(&job),
        keys::triggers(&job),
        keys::run_state(&job),
        keys::shard_run_state(&job, &member()),
        keys::plan(&job),
        keys::switches(&node, &job),
        keys::intent(&node),
        keys::lock(&lock),
        keys::beat(&beat),
        keys::load(&node),
        keys::count(&node, &job),
        keys::strike(&node, &node),
        keys::offline(&node),
        keys::serving(),
        keys::settings(),
        keys::cluster(),
        keys::calendar(&calendar),
        keys::notifications(&job),
        keys::permits(&RunLimit::Pool("p".parse().expect("a name"))),
        keys::principal(PrincipalKind::User, &"ann@example.org".parse().expect("a name")),
        keys::principal(PrincipalKind::Token, &"ci".parse().expect("a name")),
        keys::secret(&"s".parse().expect("a name")),
    ];
    let namespaced = [
        keys::namespace(&"team-a".parse().expect("a name")),
        keys::spec(&namespaced),
        keys::run_state(&namespaced),
        keys::shard_run_state(&namespaced, &member()),
        keys::switches(&node, &namespaced),
        keys::count(&node, &namespaced),
        keys::notifications(&namespaced),
        keys::calendar(&"team-a/c".parse().expect("a name")),
        keys::permits(&RunLimit::Pool("team-a/p".parse().expect("a name"))),
        keys::permits(&RunLimit::Namespace("team-a".parse().expect("a name"))),
        keys::secret(&"team-a/s".parse().expect("a name")),
    ];
    let _complete = |it: ParsedKey| match it {
        ParsedKey::Node(_) | ParsedKey::Spec(_) | ParsedKey::Assignment(_) | ParsedKey::Triggers(_) => (),
        ParsedKey::RunState(_) | ParsedKey::ShardRunState(..) | ParsedKey::Switches(..) => (),
        ParsedKey::Intent(_) | ParsedKey::Lock(_) => (),
        ParsedKey::Plan(_) | ParsedKey::Beat(_) | ParsedKey::Load(_) | ParsedKey::Count(..) => (),
        ParsedKey::Strike(..) | ParsedKey::Offline(_) | ParsedKey::Serving | ParsedKey::Settings => (),
        ParsedKey::Cluster | ParsedKey::Calendar(_) | ParsedKey::Notifications(_) => (),
        ParsedKey::Permits(_) | ParsedKey::Namespace(_) => (),
        ParsedKey::Principal(..) | ParsedKey::Secret(_) => (),
    };
    assert!(all.iter().chain(&namespaced).all(|key| parse(key).is_some()));
    vec![
        line("keys", all.map(|key| key.to_string()).to_vec()),
        line("keys-namespaced", namespaced.map(|key| key.to_string()).to_vec()),
    ]
}

fn cluster() -> Vec<LayoutLine> {
    let record = |shut| ClusterRecord {
        id: "c".into(),
        layout: 2,
        wanted: Some(3),
        seq: 3,
        generation: 4,
        shut: Some(shut),
        filled: None,
        engine: None,
        lost: None,
        identity: None,
        secret: None,
    };
    vec![
        line(
            "cluster",
            ClusterRecord {
                wanted: None,
                seq: 0,
                generation: 0,
                shut: None,
                ..record(JoinRefusal::Filling { from: "".into() })
            },
        ),
        line("cluster-moved", record(JoinRefusal::Moved { to: "sqlite:new".into(), at: AT })),
        line("cluster-filling", record(JoinRefusal::Filling { from: "a backup".into() })),
        line(
            "cluster-filled",
            ClusterRecord { filled: Some("a backup".into()), ..ClusterRecord::new("c".into()) },
        ),
        line(
            "cluster-found",
            ClusterRecord { engine: Some(5), lost: Some(AT), ..ClusterRecord::new("c".into()) },
        ),
        line(
            "cluster-resealed",
            ClusterRecord { secret: Some("1f".into()), ..ClusterRecord::new("c".into()) },
        ),
        line(
            "cluster-identified",
            ClusterRecord { identity: Some("0f".into()), ..ClusterRecord::new("c".into()) },
        ),
    ]
}

fn node() -> Vec<LayoutLine> {
    let info = MemberInfo {
        address: "127.0.0.1:7".into(),
        home: "/opt".into(),
        slots: 64,
        tolerance: 2,
        alarm: 100,
        version: "0.1.0".into(),
        labels: "gpu,zone=eu".parse().expect("labels"),
        lacking: "memory: no".into(),
        knows: 2,
    };
    vec![line("node", info.clone()), line("node-first", MemberInfo { knows: 1, ..info })]
}

fn job() -> Vec<LayoutLine> {
    let request = TriggerRequest {
        id: "r1".parse().expect("a name"),
        at: AT,
        taken: true,
        node: Some("n1".parse().expect("a name")),
        shards: shards(),
        former: ["n2".parse().expect("a name")].into(),
        parameters: RunParameters::default(),
        taken_back: None,
    };
    let back = TriggerRequest {
        id: "r2".parse().expect("a name"),
        at: AT,
        taken: true,
        node: None,
        shards: ShardSet::empty(),
        former: [].into(),
        parameters: RunParameters::default(),
        taken_back: Some(AT),
    };
    let sharding = Sharding {
        leader: Some(member()),
        reshard_pending: Some(ReshardPending { since: AT, why: ReshardCause::Nodes }),
        shard_map: ShardMap {
            number: 3,
            seq: 9,
            furthest: Some(AT),
            total: 4,
            strategy: ShardingStrategy::Rotate,
            order: NodeOrder::Descending,
            among: vec![member()],
            assignments: vec![ShardAssignment {
                holder: member(),
                groups: vec![ShardGroup { watermark: AT, shards: shards() }],
            }],
            draining: shards(),
        },
        run_states: vec![member()],
        kept: vec![ShardAssignment { holder: member(), groups: vec![] }],
    };
    vec![
        line("job/deleted", SpecRecord::Deleted { version: 5 }),
        line(
            "job/assignment",
            Assignment {
                owner: Some(member()),
                epoch: 4,
                version: 5,
                sharding: Some(Box::new(sharding)),
                planned: true,
                waits: true,
            },
        ),
        line("job/triggers", TriggerRecord { requests: vec![request], backfills: vec![] }),
        line("job/triggers-taken-back", TriggerRecord { requests: vec![back], backfills: vec![] }),
        line(
            "pool",
            PermitsRecord {
                permits: vec![RunPermit { run: run(Fire::Due(AT)), by: member(), limit: 3 }],
                seq: 6,
            },
        ),
        line("notified", NotificationRecord { late: Some(AT), absent: Some(later(1)), by: member(), seq: 6 }),
        line("calendar/deleted", CalendarRecord::Deleted { version: 5 }),
        line("namespace/deleted", NamespaceRecord::Deleted { version: 5 }),
        line(
            "namespace/empty",
            NamespaceRecord::Live(Box::new(NamespaceSpec {
                namespace: NamespaceSettings::new("team-a".parse().expect("a name")),
                version: 1,
                last: None,
            })),
        ),
        line(
            "namespace",
            NamespaceRecord::Live(Box::new(NamespaceSpec {
                namespace: NamespaceSettings {
                    name: "team-a".parse().expect("a name"),
                    description: "d".into(),
                    jobs_max: Some(7),
                    runs_max: Some(3),
                },
                version: 2,
                last: Some(CreatedJob { job: "team-a/j".parse().expect("a name"), version: 3 }),
            })),
        ),
        line(
            "calendar/empty",
            CalendarRecord::Live(Box::new(CalendarSpec {
                calendar: Calendar {
                    name: "c".parse().expect("a name"),
                    days: vec![],
                    weekdays: vec![],
                    windows: vec![],
                    description: String::new(),
                },
                version: 1,
                since: AT,
            })),
        ),
    ]
}

/// An attempt with all that any placement writes.
fn attempt(fire: Fire) -> Attempt {
    Attempt {
        attempt: 2,
        seq: 8,
        from: Some(later(1)),
        back: later(-60),
        wait: Some(wait()),
        began: Some(later(1)),
        ..Attempt::first(fire, AT, member())
    }
}

fn run_states() -> Vec<LayoutLine> {
    let open = attempt(Fire::Due(AT));
    let shared =
        Attempt { total: 4, shards: shards(), ..attempt(Fire::Asked("r1".parse().expect("a name"))) };
    vec![
        line(
            "run/claim",
            RunState {
                watermark: AT,
                seq: 9,
                open: vec![open],
                verdicts: vec![verdict()],
                failures: FailureStreak { runs: 2, version: 5 },
                passed: vec![passed()],
            },
        ),
        line(
            "run/member",
            ShardRunState {
                map_number: 3,
                seq: 9,
                groups: vec![ShardGroup { watermark: AT, shards: shards() }],
                open: vec![shared],
                verdicts: vec![verdict()],
                failures: FailureStreak { runs: 2, version: 5 },
                began: Some(AT),
                ended: Some(later(2)),
            },
        ),
        line(
            "intent/job",
            NodeSwitches { paused: true, disabled: true, shutdown: Some(7), origin: None, seq: 3 },
        ),
        line(
            "intent/job-origin",
            NodeSwitches {
                paused: true,
                disabled: false,
                shutdown: None,
                origin: Some(SwitchOrigin { at: AT, by: "root@host".into() }),
                seq: 3,
            },
        ),
    ]
}

fn plans() -> Vec<LayoutLine> {
    let choice = PlannedNode { free: 3, planned_for: Some(member()) };
    let planned = Attempt { choice: Some(choice.into()), back: Wall::MIN, ..attempt(Fire::Due(AT)) };
    let spread = Plan { took: Some(Millis(1_500)), ..Plan::default() };
    vec![
        line(
            "run/plan",
            Plan {
                watermark: AT,
                reached: later(1),
                seq: 9,
                version: 5,
                calendars: 2,
                planner: Some(Planner { member: member(), number: 77 }),
                freed: Some(later(2)),
                took: None,
                runs: vec![planned],
                verdicts: vec![verdict()],
                failures: FailureStreak { runs: 2, version: 5 },
                passed: vec![passed()],
            },
        ),
        line("run/plan", spread),
    ]
}

/// The words of which records are made.
fn words() -> Vec<LayoutLine> {
    vec![
        line("causes", every!(ReshardCause: Elected, Nodes, Shards, Strategy, Draining, Repair)),
        line("planners", every!(PlannerKind: Beat, Leader)),
        line("handovers", every!(Handover: Fenced, Waited)),
        line("spreads", every!(Spread: Even, FirstCome)),
        line("strategies", every!(ShardingStrategy: Average, OddEven, Rotate)),
        line("orders", every!(NodeOrder: Ascending, Descending)),
        line("verdicts", every!(VerdictState: Lost, Skipped)),
        line("fire-due", Fire::Due(AT)),
        line("fire-asked", Fire::Asked("r1".parse().expect("a name"))),
        line("runs", vec![run(Fire::Due(AT)), run(Fire::Asked("r1".parse().expect("a name")))]),
    ]
}
