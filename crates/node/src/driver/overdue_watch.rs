//! The overdue watch checks that every expected fire has started and finished within the limits of its job.
//!
//! One node watches for all: the first living one by name. It reads a job's entries when the limit of a fire is over
//! (`core/src/overdue.rs`), so it also finds fires that no node started. A commit decides which node sends the notice,
//! so if two nodes watch for a moment, there is still one notice.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use evenkeel_core::ids::{JobName, Member, NodeName};
use evenkeel_core::input::{Answer, Command, Refusal};
use evenkeel_core::job::{Job, Occasion, Placement, Spec};
use evenkeel_core::keys::{self, Key};
use evenkeel_core::node::Node;
use evenkeel_core::overdue::{self, FireRecords, FireStatus};
use evenkeel_core::record::{Plan, RunState, ShardRunState, Sharding, decode};
use evenkeel_core::registry::Change;
use evenkeel_core::schedule::Schedule;
use evenkeel_core::shards::ShardSet;
use evenkeel_core::time::{Millis, Now, Wall};
use evenkeel_core::view::JobView;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{MissedTickBehavior, interval};

use crate::clock;
use crate::history::{History, HistoryWrite, NoticePolicy, WeakHistory};
use crate::notify::Notifiers;
use crate::request::HandleRequest;

/// How often it checks.
const EVERY: Duration = Duration::from_secs(1);
/// How many jobs it reads at once; the others follow a second later.
const JOBS_AT_ONCE: usize = 500;
/// How many late starts may wait while the registry does not answer.
const STARTS_MAX: usize = 1_000;

/// A fire that started later than its job allows.
pub(super) struct LateStart {
    pub(super) job: JobName,
    pub(super) due: Wall,
    pub(super) by: Millis,
}

/// The watch's state.
pub(super) struct OverdueWatch {
    name: NodeName,
    node: Arc<RwLock<Node>>,
    /// Weak, since a sender of requests keeps the node alive.
    requests: mpsc::WeakSender<HandleRequest>,
    history: WeakHistory,
    /// The occasions that this node's notifiers want for every job.
    occasions: Vec<Occasion>,
    starts: mpsc::UnboundedReceiver<LateStart>,
    /// Late starts for which no node could be chosen yet to send the notice.
    retry_starts: Vec<LateStart>,
    jobs: BTreeMap<JobName, WatchedJob>,
}

/// A job whose fires have limits.
struct WatchedJob {
    /// The versions of its declaration and of its calendars.
    versions: (u64, u64),
    schedule: Option<Schedule>,
    checks: Vec<LimitCheck>,
}

/// One limit of the job.
struct LimitCheck {
    occasion: Occasion,
    limit: Millis,
    /// Fires up to here were checked.
    done: Wall,
    /// When the next check is due.
    at: Option<Wall>,
}

/// A job whose check is due, with its facts from the view.
struct OverdueCase {
    job: JobName,
    placement: Placement,
    holder: Option<Member>,
    /// How many of its runs may overlap.
    max_concurrent_runs: usize,
    sharding: Sharding,
    /// Shards that are switched off, and the members on which the job is paused.
    off: ShardSet,
    idle: Vec<Member>,
    living: BTreeSet<Member>,
}

impl OverdueWatch {
    /// Builds a watch and the sender of its late starts. First resends what an earlier life made and did not send.
    pub(super) fn new(
        name: NodeName,
        node: Arc<RwLock<Node>>,
        orders: &mpsc::Sender<HandleRequest>,
        history: &History,
        notifiers: &Notifiers,
    ) -> (Self, mpsc::UnboundedSender<LateStart>) {
        history.put(HistoryWrite::ResendNotices(name.to_string()));
        let (late, starts) = mpsc::unbounded_channel();
        let (orders, history, asked) = (orders.downgrade(), history.weak(), notifiers.occasions().to_vec());
        (
            Self {
                name,
                node,
                requests: orders,
                history,
                occasions: asked,
                starts,
                retry_starts: Vec::new(),
                jobs: BTreeMap::new(),
            },
            late,
        )
    }

    /// Watches as long as the node exists.
    pub(super) async fn run(mut self) {
        let mut ticks = interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while self.requests.upgrade().is_some() {
            tokio::select! {
                start = self.starts.recv() => match start {
                    Some(start) => self.report_late_start(start).await,
                    None => return,
                },
                _ = ticks.tick() => self.check_jobs().await,
            }
        }
    }

    /// Reports a late start. The registry does not show late starts, so this is retried until a node is chosen.
    async fn report_late_start(&mut self, start: LateStart) {
        let LateStart { job, due, by } = &start;
        let text = format!("job {job}: its fire of {due} began {by} late");
        if !self.raise(job, Occasion::Late, *due, text).await && self.retry_starts.len() < STARTS_MAX {
            self.retry_starts.push(start);
        }
    }

    async fn check_jobs(&mut self) {
        for start in std::mem::take(&mut self.retry_starts) {
            self.report_late_start(start).await;
        }
        let now = clock::now();
        let cases = self.cases(now);
        let Some(books) = self.read(&cases).await else { return };
        for case in cases {
            self.judge(&case, &books, now.wall).await;
        }
    }

    /// The jobs with a fire whose limit is over.
    fn cases(&mut self, now: Now) -> Vec<OverdueCase> {
        let node = self.node.clone();
        let node = node.read().unwrap_or_else(PoisonError::into_inner);
        if !is_watcher(&node, now) {
            self.jobs.clear();
            return Vec::new();
        }
        let view = node.view();
        self.jobs.retain(|name, _| view.find(name).is_some_and(|job| job.notify().is_some()));
        let mut cases = Vec::new();
        for job in view.watched() {
            let versions = (job.version(), job.calendars_version());
            if self.jobs.get(job.name()).is_none_or(|known| known.versions != versions) {
                let watched = watched_job(
                    &job,
                    &self.name,
                    versions,
                    |spec| view.schedule_of(spec),
                    |s| view.since_of(s),
                );
                self.jobs.insert(job.name().clone(), watched);
            }
            let over = |look: &LimitCheck| look.at.is_some_and(|at| at <= now.wall);
            let due = self.jobs.get(job.name()).is_some_and(|known| known.checks.iter().any(over));
            if due && cases.len() < JOBS_AT_ONCE {
                let living = view.members().map(|(member, _)| member.clone()).collect();
                cases.push(case(&job, living));
            }
        }
        cases
    }

    /// The entries of these jobs; `None` when the registry cannot be read now.
    async fn read(&self, cases: &[OverdueCase]) -> Option<BTreeMap<Key, Change>> {
        let wanted: Vec<Key> = cases.iter().flat_map(OverdueCase::keys).collect();
        if wanted.is_empty() {
            return Some(BTreeMap::new());
        }
        let (answer, answered) = oneshot::channel();
        self.requests.upgrade()?.send(HandleRequest::Read(wanted, answer)).await.ok()?;
        let found = answered.await.ok()?.ok()?;
        Some(found.into_iter().map(|change| (change.key.clone(), change)).collect())
    }

    async fn judge(&mut self, case: &OverdueCase, books: &BTreeMap<Key, Change>, now: Wall) {
        let Some(known) = self.jobs.get(&case.job) else { return };
        let Some(schedule) = known.schedule.clone() else { return };
        let looks = known.checks.iter().enumerate().filter(|(_, look)| look.at.is_some_and(|at| at <= now));
        let looks: Vec<_> = looks.map(|(n, look)| (n, look.occasion, look.limit, look.done)).collect();
        for (n, occasion, limit, done) in looks {
            let expected = overdue::expected(&schedule, done, now, limit);
            if let Some(due) = expected
                && let Some(text) = text(case, occasion, (due, limit), &case.fire_status(due, now, books))
                && !self.raise(&case.job, occasion, due, text).await
            {
                // No node can be chosen now: it is checked again.
                continue;
            }
            let done = expected.unwrap_or(done);
            if let Some(look) = self.jobs.get_mut(&case.job).and_then(|known| known.checks.get_mut(n)) {
                (look.done, look.at) = (done, overdue::next_check(&schedule, done, limit));
            }
        }
    }

    /// Sends a notice, unless another node has; returns whether that is settled.
    async fn raise(&self, job: &JobName, occasion: Occasion, due: Wall, text: String) -> bool {
        let Some(orders) = self.requests.upgrade() else { return false };
        let (answer, answered) = oneshot::channel();
        if orders.send(HandleRequest::Ask(Command::Notify(job.clone(), occasion, due), answer)).await.is_err()
        {
            return false;
        }
        drop(orders);
        match answered.await {
            Ok(Answer::Done) => {
                let notify = {
                    let node = self.node.read().unwrap_or_else(PoisonError::into_inner);
                    node.view().find(job).and_then(|job| job.notify().cloned())
                };
                let item = NoticePolicy::of(notify.as_ref(), &self.occasions, self.name.as_str());
                let notice = item.and_then(|item| item.overdue(job, occasion, due, clock::now().wall, text));
                if let Some(notice) = notice {
                    self.history.put(HistoryWrite::Notice(Box::new(notice), self.name.to_string()));
                }
                true
            }
            // Another node sends it, or the job is gone.
            Ok(Answer::Refused(Refusal::Conflict | Refusal::NotFound, _)) => true,
            Ok(_) | Err(_) => false,
        }
    }
}

/// Whether this node watches for all: the first by name of the reachable ones.
fn is_watcher(node: &Node, now: Now) -> bool {
    let view = node.view();
    let first = view.members().map(|(member, _)| member).find(|member| !view.is_offline(member));
    node.trusted_until(now.mono).is_some() && view.is_listed() && first == node.member().as_ref()
}

/// What to watch of a job; nothing while it is switched off.
fn watched_job(
    job: &JobView<'_>,
    me: &NodeName,
    versions: (u64, u64),
    schedule: impl FnOnce(&Job) -> Option<Schedule>,
    since: impl FnOnce(&Spec) -> Wall,
) -> WatchedJob {
    let spec = job.spec().filter(|spec| spec.job.enabled && !spec.paused);
    let schedule = spec.as_ref().and_then(|spec| schedule(&spec.job));
    let (Some(spec), Some(schedule), Some(notify)) = (spec, schedule, job.notify()) else {
        return WatchedJob { versions, schedule: None, checks: Vec::new() };
    };
    let since = since(&spec);
    let looks = [Occasion::Late, Occasion::Absent].into_iter().filter_map(|occasion| {
        let limit = notify.limit(occasion)?;
        let told = job.notifications().and_then(|told| Some((told, told.latest(occasion)?)));
        // If this node died between claiming a notice and sending it, the fire is checked once more.
        let told = told.map(|(told, due)| if told.by.node == *me { due - Millis(1) } else { due });
        let done = told.map_or(since, |told| told.max(since));
        Some(LimitCheck { occasion, limit, done, at: overdue::next_check(&schedule, done, limit) })
    });
    WatchedJob { versions, checks: looks.collect(), schedule: Some(schedule.clone()) }
}

fn case(job: &JobView<'_>, living: BTreeSet<Member>) -> OverdueCase {
    let idle = |node: &NodeName, life: u64| {
        let switches = job.switches(node);
        switches.paused || switches.disabled || switches.shutdown == Some(life)
    };
    let sharding = job.sharding().cloned().unwrap_or_default();
    let idle =
        sharding.run_states.iter().filter(|member| idle(&member.node, member.incarnation)).cloned().collect();
    let spec = job.spec();
    let beside = spec.as_ref().map_or(1, |spec| spec.job.overlap.max_concurrent_runs());
    let off = spec.map(|spec| spec.off).unwrap_or_default();
    let placement = match (job.is_sharded(), job.is_dispatched()) {
        (true, _) => Placement::Sharded,
        (_, true) => Placement::Dispatched,
        _ => Placement::Claimed,
    };
    let (job, holder) = (job.name().clone(), job.owner().cloned());
    OverdueCase { job, placement, holder, max_concurrent_runs: beside, sharding, off, idle, living }
}

impl OverdueCase {
    fn keys(&self) -> Vec<Key> {
        match self.placement {
            Placement::Claimed => vec![keys::run_state(&self.job)],
            Placement::Dispatched => vec![keys::plan(&self.job)],
            Placement::Sharded | Placement::Broadcast => self
                .sharding
                .run_states
                .iter()
                .map(|member| keys::shard_run_state(&self.job, member))
                .collect(),
        }
    }

    fn fire_status(&self, due: Wall, now: Wall, books: &BTreeMap<Key, Change>) -> FireStatus {
        let value = |key: &Key| Some(&books.get(key)?.entry.as_ref()?.value);
        let lives = |member: &Member| self.living.contains(member);
        match self.placement {
            Placement::Claimed => {
                let run_state =
                    value(&keys::run_state(&self.job)).and_then(|value| decode::<RunState>(value));
                overdue::fire_status(
                    due,
                    now,
                    FireRecords::Claimed(run_state.as_ref(), self.holder.as_ref(), self.max_concurrent_runs),
                    &lives,
                )
            }
            Placement::Dispatched => {
                let plan = value(&keys::plan(&self.job)).and_then(|value| decode::<Plan>(value));
                overdue::fire_status(due, now, FireRecords::Planned(plan.as_ref()), &lives)
            }
            Placement::Sharded | Placement::Broadcast => {
                let run_state = |member: &Member| {
                    let run_state = value(&keys::shard_run_state(&self.job, member));
                    self.sharding.run_state_of(
                        member,
                        run_state.and_then(|value| decode::<ShardRunState>(value)).as_ref(),
                    )
                };
                let run_states: BTreeMap<Member, ShardRunState> = self
                    .sharding
                    .run_states
                    .iter()
                    .map(|member| (member.clone(), run_state(member)))
                    .collect();
                let idle = self
                    .idle
                    .iter()
                    .filter_map(|member| run_states.get(member))
                    .flat_map(|run_state| &run_state.groups);
                let off = idle.fold(self.off.clone(), |all, group| all.or(&group.shards));
                overdue::fire_status(
                    due,
                    now,
                    FireRecords::Sharded(&self.sharding, &run_states, &off),
                    &lives,
                )
            }
        }
    }
}

/// The text of a notice on a fire of this status; `None` for no notice.
fn text(
    case: &OverdueCase,
    occasion: Occasion,
    (due, limit): (Wall, Millis),
    stand: &FireStatus,
) -> Option<String> {
    let job = &case.job;
    match (stand, occasion) {
        (FireStatus::Waiting(why), Occasion::Late) => {
            Some(format!("job {job}: its fire of {due} has not begun {limit} later: {why}"))
        }
        (FireStatus::Waiting(why), _) => Some(format!(
            "job {job}: its fire of {due} has no outcome {limit} later, and has not begun: {why}"
        )),
        (FireStatus::Running(place), Occasion::Absent) => {
            Some(format!("job {job}: its fire of {due} has no outcome {limit} later: {place}"))
        }
        (FireStatus::Running(_) | FireStatus::Finished, _) => None,
    }
}
