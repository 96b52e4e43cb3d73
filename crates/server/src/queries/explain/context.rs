//! The facts of which explanations are made, read at one moment.

use std::collections::BTreeMap;

use evenkeel::Handle;
use evenkeel_core::capacity::CapacityNode;
use evenkeel_core::ids::{CalendarName, Fire, JobName, Member, NodeName, Shard};
use evenkeel_core::job::Spec;
use evenkeel_core::lifecycle;
use evenkeel_core::record::{
    BeatRecord, ClusterSettings, LoadRecord, RunPermit, ServingRecord, Sharding, TriggerRequest,
};
use evenkeel_core::run_limit::RunLimit;
use evenkeel_core::schedule::CalendarFilter;
use evenkeel_core::time::Wall;
use evenkeel_core::view::{DISPATCH, View};

use crate::queries::capacity::capacity_nodes;
use crate::queries::lookup::{HistoryFaults, timed};
use crate::zones;
use evenkeel_client::types::word;

/// The facts that a node has about a job and its eligible nodes.
pub(super) struct ExplainContext {
    pub(super) spec: Spec,
    /// The calendars that it uses, unless one of them is missing.
    pub(super) calendars: Option<CalendarFilter>,
    /// The first missing calendar.
    pub(super) missing: Option<CalendarName>,
    /// The epoch of the job's assignment.
    pub(super) epoch: u64,
    pub(super) owner: Option<Member>,
    pub(super) sharding: Option<Sharding>,
    /// The limits that its runs count in.
    pub(super) limits: Vec<KnownLimit>,
    /// Unclaimed requests to run it now.
    pub(super) waiting: Vec<TriggerRequest>,
    /// Why nothing of it runs until an operator changes something.
    pub(super) in_the_way: Option<String>,
    /// The faults of histories, which keep nodes from starting anything.
    pub(super) troubles: HistoryFaults,
    pub(super) members: Vec<Member>,
    /// The online eligible nodes.
    pub(super) standings: Vec<CapacityNode>,
    /// The number of jobs with the same eligible nodes (K).
    pub(super) jobs: usize,
    pub(super) slots: BTreeMap<String, u32>,
    pub(super) loads: BTreeMap<NodeName, LoadRecord>,
    /// The node that explains, and its number of free slots.
    pub(super) me: (NodeName, usize),
    pub(super) settings: ClusterSettings,
    pub(super) beat: Option<BeatRecord>,
    pub(super) serving: Option<ServingRecord>,
    pub(super) now: Wall,
}

/// A limit that the runs of a job count in.
pub(super) struct KnownLimit {
    pub(super) limit: RunLimit,
    /// How many runs may go on beside a run of the job, itself counted.
    pub(super) most: usize,
    /// The runs that go on.
    pub(super) permits: Vec<RunPermit>,
}

impl KnownLimit {
    fn of(view: &View, spec: &Spec, limit: &RunLimit) -> Self {
        let record = view.permits(limit).value.unwrap_or_default();
        let most = match limit {
            RunLimit::Pool(_) => record.limit(spec.job.pool.as_ref().map_or(u32::MAX, |pool| pool.limit)),
            RunLimit::Namespace(name) => view.runs_max(name).map_or(usize::MAX, |max| max as usize),
        };
        Self { limit: limit.clone(), most, permits: record.permits }
    }

    /// Why a claimed run waits for a permit.
    pub(super) fn awaited(&self) -> String {
        let first: Vec<_> =
            self.permits.iter().take(REPORTED_MAX).map(|permit| permit.run.to_string()).collect();
        match first.as_slice() {
            [] => format!("it waits for a permit of {}", self.limit),
            first => {
                format!("it waits for a permit of {}, where these go on: {}", self.limit, first.join(", "))
            }
        }
    }
}

pub(super) async fn gather(
    handle: &Handle,
    name: &JobName,
    troubles: &HistoryFaults,
) -> Option<ExplainContext> {
    let loads = handle.published_loads().await;
    let me = handle.name().clone();
    handle.with_node(|node| {
        let free = lifecycle::free_slots(node.view(), node.local());
        let known = explain_context(node.view(), name, (me, free), troubles)?;
        let loads = loads.iter().map(|(member, load)| (member.node.clone(), load.clone()));
        Some(ExplainContext { loads: loads.collect(), ..known })
    })
}

pub(super) fn explain_context(
    view: &View,
    name: &JobName,
    me: (NodeName, usize),
    troubles: &HistoryFaults,
) -> Option<ExplainContext> {
    let job = view.find(name)?;
    let slots = view.members().map(|(member, state)| (member.node.to_string(), state.info.slots)).collect();
    let asked = job.triggers().and_then(|known| known.value.as_ref());
    let waiting = asked.into_iter().flat_map(|asked| &asked.requests).filter(|request| !request.taken);
    let members: Vec<Member> = view.members().map(|(member, _)| member.clone()).collect();
    let spec = timed(view, &job)?;
    Some(ExplainContext {
        calendars: view.calendars_of(&spec.job),
        missing: view.missing(&spec.job).into_iter().next(),
        epoch: job.assignment().epoch,
        owner: job.owner().cloned(),
        sharding: job.sharding().cloned(),
        limits: view.run_limits(job.id).iter().map(|limit| KnownLimit::of(view, &spec, limit)).collect(),
        waiting: waiting.cloned().collect(),
        in_the_way: job.obstacle(),
        troubles: troubles.clone(),
        spec,
        loads: BTreeMap::new(),
        settings: view.settings(),
        beat: view.beat_known(DISPATCH).and_then(|(_, known)| known.value.clone()),
        serving: view.serving().value.clone(),
        now: zones::now(),
        members,
        standings: capacity_nodes(view, job.group()),
        jobs: view.jobs_of(job.group()),
        slots,
        me,
    })
}

/// The name of an operation in prose.
pub(super) fn serialized<T: serde::Serialize>(value: &T) -> String {
    word(value).replace('_', " ")
}

/// The maximum number of a pool's runs, or of waiting requests, that are listed by name.
pub(super) const REPORTED_MAX: usize = 5;

/// A waiting run.
pub(super) struct WaitingRun {
    /// The fire.
    pub(super) fire: Fire,
    /// The shard; all shards if absent.
    pub(super) shard: Option<Shard>,
    /// The moment at which it is due.
    pub(super) due: Wall,
    /// The node that claimed it.
    pub(super) by: Option<Member>,
    /// Why it has not begun.
    pub(super) why: String,
    /// Whether an operator can kill it: a request, or a run that a node has claimed.
    pub(super) killable: bool,
}
