//! Control: command items become transactions, and stay open until one is applied.
//!
//! A declaration is an upsert: the same one twice is one (S1-87). Every change of a job writes its spec and its
//! assignment, so that one guard covers both, and an owner that acts on the old declaration is refused.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;

use crate::commit_kind::CommitKind;
use crate::eligibility;
use crate::ids::{Fire, JobName, NodeName, RequestId, RunId, Shard};
use crate::input::{Answer, ApplyResult, Command, CommandId, Refusal, RunOptions, SameDeclaration};
use crate::job::{Job, OperatorSwitches, Placement, Spec, SwitchOrigin};
use crate::keys;
use crate::local::{CommandItem, CommitScope, ItemOutcome, PendingCommand};
use crate::record::{
    Assignment, NodeIntent, REQUESTS_MAX, SpecRecord, TriggerRecord, TriggerRequest, encode,
};
use crate::registry::{Guard, Txn, Write};
use crate::rule_context::{RuleAction, RuleContext, RuleOutput};
use crate::shards::ShardSet;
use crate::view::JobView;
use decision::{ItemDecision, answer, no_job, refuse};
use namespaces::NamespaceWrites;

mod backfill;
mod calendars;
pub(crate) mod cluster;
mod decision;
mod namespaces;
mod nodes;
mod notification;
mod precondition;
mod principals;
mod requests;
pub(crate) mod rights;
mod secrets;
mod switches;

/// How many items one step looks at.
const BATCH: usize = 1_000;

/// Looks at the items that have no commit in flight.
pub fn decide(ctx: &RuleContext<'_>, out: &mut RuleOutput) {
    if !ctx.local.commands.has_idle_items() {
        return;
    }
    let Some(born) = ctx.born() else { return };
    let mut writes = NamespaceWrites::default();
    for (ask, n, item) in ctx.local.commands.idle_items().take(BATCH) {
        let order = item.needs_leader();
        let scope = CommitScope::Item(ask, n);
        let pending = ctx.local.commands.get(ask);
        let wanted = pending.and_then(PendingCommand::wanted);
        let rights = pending.and_then(PendingCommand::rights);
        let turn = match item {
            _ if order && eligibility::on_standby(ctx) => standby(ctx),
            _ if let Some(refused) = rights.and_then(|rights| rights::lacking(ctx, rights, item)) => refused,
            _ if let Some(refused) = wanted.and_then(|wanted| precondition::unmet(ctx, wanted, item)) => {
                refused
            }
            CommandItem::Job(job) => declare(ctx, job, &mut writes),
            CommandItem::Same(same) => declare_same(ctx, same, &mut writes),
            CommandItem::Command(command) => {
                let Some(turn) = carry_out(ctx, command, scope, (out, &mut writes)) else { continue };
                turn
            }
        };
        // A command of the leader is refused once another one leads (I6).
        let lead = eligibility::serves(ctx).filter(|_| order);
        let lead = lead.map(|_| ctx.view.serving().guard(keys::serving()));
        emit(ask, n, turn, lead.into_iter().chain([born.clone()]), out);
    }
}

/// The decision on a command; `None` for one that another rule decides.
fn carry_out(
    ctx: &RuleContext<'_>,
    command: &Command,
    scope: CommitScope,
    (out, writes): (&mut RuleOutput, &mut NamespaceWrites),
) -> Option<ItemDecision> {
    let origin = || origin(ctx, &scope);
    Some(match command {
        Command::Calendar(calendar) => calendars::declare(ctx, calendar),
        Command::DeleteCalendar(name) => calendars::delete(ctx, name),
        Command::Principal(principal, replaces) => principals::declare(ctx, principal, *replaces),
        Command::PrincipalUsed(principal) => principals::used(ctx, principal),
        Command::DeletePrincipal(kind, name) => principals::delete(ctx, *kind, name),
        Command::Secret(secret) => secrets::set(ctx, secret),
        Command::DeleteSecret(name) => secrets::delete(ctx, name),
        Command::Namespace(namespace) => namespaces::declare(ctx, namespace),
        Command::DeleteNamespace(name) => namespaces::delete(ctx, name),
        Command::Delete(name) => switches::delete(ctx, name),
        Command::Accept(name, read_at) => switches::accept(ctx, name, *read_at, writes),
        Command::Pause(name) => switches::pause(ctx, name, true, origin()),
        Command::Resume(name) => switches::pause(ctx, name, false, origin()),
        Command::Enable(name) => switches::enable(ctx, name, true, origin()),
        Command::Disable(name) => switches::enable(ctx, name, false, origin()),
        Command::Shards(name, shards, on) => switches::enable_shards(ctx, name, (shards, *on), origin()),
        Command::Switch(name, node, switch) => nodes::switch(ctx, name, (node, *switch), origin()),
        Command::RunNow(name, request) => run_now(ctx, name, request, &RunOptions::default()),
        Command::RunWith(name, request, options) => run_now(ctx, name, request, options),
        Command::Backfill(name, id, options) => backfill::request(ctx, name, id, options),
        Command::CancelBackfill(name, id) => backfill::cancel(ctx, name, id),
        Command::Kill(run) => requests::cancel(ctx, run, out),
        Command::Drain(node) => drain(ctx, node, true),
        Command::Undrain(node) => drain(ctx, node, false),
        Command::Cordon(node) => cordon(ctx, node, true),
        Command::Uncordon(node) => cordon(ctx, node, false),
        Command::Activate(node) => cluster::activate(ctx, node, scope, out),
        Command::Configure(setting) => cluster::configure(ctx, *setting),
        Command::FinalizeUpgrade => cluster::finalize(ctx),
        Command::Notify(job, occasion, due) => notification::claim_notification(ctx, job, *occasion, *due),
        Command::Count(name, count) => nodes::count(ctx, name, *count),
        // Locks and beats have rules of their own; the others are never items.
        Command::Lock(_)
        | Command::Unlock(_)
        | Command::Beat(_)
        | Command::If(..)
        | Command::Within(..)
        | Command::Apply(_)
        | Command::Declare(_)
        | Command::Rollback(..)
        | Command::Shutdown(_)
        | Command::Claim
        | Command::Offer(_)
        | Command::Leave => return None,
    })
}

fn emit(
    ask: CommandId,
    n: u32,
    turn: ItemDecision,
    guards: impl Iterator<Item = Guard>,
    out: &mut RuleOutput,
) {
    match turn {
        ItemDecision::Wait => {}
        ItemDecision::Complete(settled) => out.add(RuleAction::CompleteItem(ask, n, settled)),
        ItemDecision::Commit(kind, mut txn) => {
            txn.guards.extend(guards);
            out.commit(CommitScope::Item(ask, n), kind, txn);
        }
    }
}

/// Whether commands are for the serving leader (S4-33).
fn standby(ctx: &RuleContext<'_>) -> ItemDecision {
    let leader = ctx.view.leader().and_then(|leader| Some((leader, ctx.view.member(leader)?)));
    refuse(
        Refusal::Standby,
        match leader {
            Some((leader, state)) if leader != ctx.member => {
                format!("this node is on standby: ask the leader {} at {}", leader.node, state.info.address)
            }
            _ => "no node serves just now: try again in a few seconds".into(),
        },
    )
}

/// The registry has this declaration; if not any more, it is one as any other.
fn declare_same(ctx: &RuleContext<'_>, same: &SameDeclaration, writes: &mut NamespaceWrites) -> ItemDecision {
    if ctx.view.find(&same.name).is_some_and(|job| job.has_spec_of(same.revision)) {
        return ItemDecision::Complete(ItemOutcome::Applied(same.name.clone(), ApplyResult::Unchanged));
    }
    match same.job() {
        Ok(job) => declare(ctx, &job, writes),
        Err(wrong) => refuse(Refusal::Invalid, format!("{wrong}")),
    }
}

fn declare(ctx: &RuleContext<'_>, job: &Job, writes: &mut NamespaceWrites) -> ItemDecision {
    let known = ctx.view.id(&job.name).map(|id| ctx.job(id));
    let record = known.as_ref().and_then(JobView::spec_record);
    let (old, version) = match record {
        Some(SpecRecord::Live(spec)) => (Some(spec), None),
        // One without a seal counts for nothing; it is replaced as a tombstone is.
        Some(record @ (SpecRecord::Deleted { .. } | SpecRecord::Unsealed(_))) => {
            (None, Some(record.version()))
        }
        None => (None, None),
    };
    if let Some(old) = &old
        && old.declares(job)
    {
        return ItemDecision::Complete(ItemOutcome::Applied(job.name.clone(), ApplyResult::Unchanged));
    }
    if let Some(text) = misplaced(known.as_ref(), old.as_deref(), job) {
        return refuse(Refusal::Conflict, text);
    }
    if let Some(text) = calendars::missing(ctx, job) {
        return refuse(Refusal::Conflict, text);
    }
    // An operator's switch stays, unless the declaration changes that field.
    let switched = old.as_ref().map(|old| old.redeclared(job));
    let (job, operator) = switched.unwrap_or_else(|| (job.clone(), OperatorSwitches::default()));
    let job = &job;
    // Fires that came due beside overlapping runs were never in their way.
    let times = |job: &Job| (job.enabled, job.overlap.max_concurrent_runs() > 1);
    let same_times = |old: &Spec| old.job.schedule == job.schedule && times(&old.job) == times(job);
    let fixed = if job.placement.is_broadcast() { 0 } else { job.placement.shards() };
    let version = old.as_ref().map(|o| o.version).or(version).unwrap_or(0).saturating_add(1);
    let pass = match namespaces::admit_job(ctx, old.as_deref(), (job, version), writes) {
        Ok(pass) => pass,
        Err(decided) => return decided,
    };
    let spec = Spec {
        version,
        // A changed schedule has no past (plan: editing never fires a past due time).
        since: old.as_ref().filter(|o| same_times(o)).map_or(ctx.now.wall, |o| o.since),
        paused: old.as_ref().is_some_and(|o| o.paused),
        off: old.as_ref().map(|o| o.off.and(&ShardSet::all(fixed))).unwrap_or_default(),
        job: job.clone(),
        operator,
    };
    let kind = if old.is_some() { CommitKind::UpdateJob } else { CommitKind::CreateJob };
    let mut txn = rewrite(ctx, &job.name, known, &SpecRecord::Live(Box::new(spec)));
    txn.guards.extend(job.calendars().map(|name| ctx.view.calendar_guard(name)).chain(pass.guards));
    txn.writes.extend(pass.writes);
    ItemDecision::Commit(kind, txn)
}

/// Why a job cannot become another one. A job keeps its placement for its whole life, since its runs would have no owner during a
/// change. `sharded` and `broadcast` are interchangeable: both have shards, which a reshard assigns anew.
#[must_use]
pub fn fixed_placement(old: &Job, new: &Job) -> Option<String> {
    let both_sharded = old.placement.is_sharded() && new.placement.is_sharded();
    (old.placement.kind() != new.placement.kind() && !both_sharded).then(|| {
        format!(
            "job {}: its placement is fixed: delete the job and create it again, or give it another name",
            new.name
        )
    })
}

fn misplaced(known: Option<&JobView<'_>>, old: Option<&Spec>, job: &Job) -> Option<String> {
    if let Some(text) = old.and_then(|old| fixed_placement(&old.job, job)) {
        return Some(text);
    }
    let known = known.filter(|_| old.is_none())?;
    let shards = known.sharding().is_some_and(|sharding| !sharding.run_states.is_empty());
    let owned = known.owner().is_some();
    let planned = known.dispatched().is_some_and(|state| state.planned);
    let runs = match job.placement.kind() {
        Placement::Claimed => shards || planned,
        Placement::Sharded | Placement::Broadcast => owned || planned,
        Placement::Dispatched => owned || shards,
    };
    runs.then(|| format!("job {}: runs of its deleted namesake are not settled yet: try again", job.name))
}

/// Spec and assignment in one transaction. A job that gets no owner and whose run waits for another attempt goes to
/// this node, which ends that run with a verdict.
fn rewrite(ctx: &RuleContext<'_>, name: &JobName, known: Option<JobView<'_>>, record: &SpecRecord) -> Txn {
    let (spec_key, place_key) = (keys::spec(name), keys::assignment(name));
    let guards = match &known {
        Some(job) => [job.spec_guard(), job.assignment_guard()],
        None => [Guard::Absent(spec_key.clone()), Guard::Absent(place_key.clone())],
    };
    let enabled = matches!(record, SpecRecord::Live(spec) if spec.job.enabled);
    // Without this a job that is enabled or created again would go on with them.
    let ended = known.filter(|_| !enabled).and_then(|job| backfill::ended(ctx, &job));
    let old = known.map(|job| job.assignment()).unwrap_or_default();
    let dispatched =
        matches!(record, SpecRecord::Live(spec) if spec.job.placement.kind() == Placement::Dispatched);
    // Every item is guarded on its node, so this one's owner is there.
    let inherits = old.waits && old.owner.is_none() && !enabled;
    let owner = if inherits { Some(ctx.member.clone()) } else { old.owner.clone() };
    let (planned, waits) = (old.planned || dispatched, old.waits && !inherits);
    let place = Assignment { version: record.version(), planned, waits, owner, ..old.next() };
    let puts = [(spec_key, encode(record)), (place_key, encode(&place))];
    let writes = puts.map(|(key, value)| Write::Put { key, value, owner: None });
    let (guard, write) = ended.unzip();
    Txn {
        guards: guards.into_iter().chain(guard).collect(),
        writes: writes.into_iter().chain(write).collect(),
    }
}

/// The time and the caller's name of the switch that this item sets.
fn origin(ctx: &RuleContext<'_>, scope: &CommitScope) -> SwitchOrigin {
    let command = match scope {
        CommitScope::Item(ask, _) => ctx.local.commands.get(*ask),
        _ => None,
    };
    SwitchOrigin { at: ctx.now.wall, by: command.map(|command| command.by().into()).unwrap_or_default() }
}

/// The transaction that pauses a job; `None` where it is paused already, or deleted.
pub(crate) fn pause(ctx: &RuleContext<'_>, job: &JobView<'_>, origin: SwitchOrigin) -> Option<Txn> {
    match switches::pause(ctx, job.name(), true, origin) {
        ItemDecision::Commit(_, txn) => Some(txn),
        ItemDecision::Complete(_) | ItemDecision::Wait => None,
    }
}

fn run_now(ctx: &RuleContext<'_>, name: &JobName, id: &RequestId, options: &RunOptions) -> ItemDecision {
    let Some(job) = ctx.view.find(name) else { return no_job(name) };
    let known = job.triggers().cloned().unwrap_or_default();
    let mut record: TriggerRecord = known.value.clone().unwrap_or_default();
    if let Some(request) = record.requests.iter().find(|r| r.id == *id) {
        let run = RunId { job: name.clone(), fire: Fire::Asked(id.clone()), shard: Shard(0) };
        return answer(Answer::Accepted(run, request.at));
    }
    if record.backfill_of(&Fire::Asked(id.clone())).is_some() {
        return refuse(
            Refusal::Conflict,
            format!("{id} is a run of a backfill of job {name}: use another id"),
        );
    }
    if !job.is_enabled() {
        return refuse(Refusal::Conflict, format!("job {name} is disabled: enable it first"));
    }
    let node = options.node.as_ref();
    if let Some((kind, text)) = node.and_then(|node| nodes::cannot_run(ctx, &job, node)) {
        return refuse(kind, text);
    }
    // The commit is guarded by the declaration: so the values are those of the one that the run begins with.
    let parameters = match job.spec().map(|spec| spec.job.run_parameters(&options.parameters)) {
        None => return no_job(name),
        Some(Err(wrong)) => return refuse(Refusal::Invalid, wrong),
        Some(Ok(parameters)) => parameters,
    };
    if record.requests.len() >= REQUESTS_MAX {
        let Some(oldest) = record.requests.iter().position(|r| r.taken) else {
            let text =
                format!("{REQUESTS_MAX} requests wait for job {name} already: wait for its runs to end");
            return refuse(Refusal::Conflict, text);
        };
        record.requests.remove(oldest);
    }
    record.requests.push(TriggerRequest {
        id: id.clone(),
        at: ctx.moment(),
        taken: false,
        node: node.cloned(),
        parameters,
        shards: ShardSet::empty(),
        former: BTreeSet::new(),
        taken_back: None,
    });
    let key = keys::triggers(name);
    ItemDecision::Commit(
        CommitKind::RequestRun,
        Txn {
            guards: [known.guard(key.clone()), job.spec_guard()].into(),
            writes: [Write::Put { key, value: encode(&record), owner: None }].into(),
        },
    )
}

fn drain(ctx: &RuleContext<'_>, node: &NodeName, wanted: bool) -> ItemDecision {
    if ctx.view.intent(node).is_some() == wanted {
        return answer(Answer::Unchanged);
    }
    let kind = if wanted { CommitKind::Drain } else { CommitKind::Undrain };
    let since = ctx.now.wall;
    change_intent(ctx, node, (wanted, kind), |old| NodeIntent { since, wanted, drained: None, ..old })
}

fn cordon(ctx: &RuleContext<'_>, node: &NodeName, cordoned: bool) -> ItemDecision {
    if ctx.view.is_cordoned(node) == cordoned {
        return answer(Answer::Unchanged);
    }
    let kind = if cordoned { CommitKind::Cordon } else { CommitKind::Uncordon };
    change_intent(ctx, node, (cordoned, kind), |old| NodeIntent { cordoned, ..old })
}

/// Writes the next version of what operators want of a node. To set something, the node must be a member.
fn change_intent(
    ctx: &RuleContext<'_>,
    node: &NodeName,
    (sets, kind): (bool, CommitKind),
    change: impl FnOnce(NodeIntent) -> NodeIntent,
) -> ItemDecision {
    if sets && ctx.view.members().all(|(m, _)| m.node != *node) {
        let text = format!("there is no node {node}: `node list` shows those there are");
        return refuse(Refusal::NotFound, text);
    }
    let key = keys::intent(node);
    let known = ctx.view.intent_entry(node).cloned().unwrap_or_default();
    let new = change(known.value.clone().unwrap_or_default());
    let value = encode(&NodeIntent { seq: new.seq + 1, ..new });
    let guards = [known.guard(key.clone())].into();
    let writes = [Write::Put { key, value, owner: None }].into();
    ItemDecision::Commit(kind, Txn { guards, writes })
}
